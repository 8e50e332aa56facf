"""Carbon signals that need no network: the sun, the grids, files, what servers declare; and rows kept and replayed."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gossamer.archive.tables import arrow_table
from gossamer.carbon.declared import Declared, declared_g_per_kwh
from gossamer.carbon.grid import SOLAR_G_PER_KWH, WORLD_G_PER_KWH, Mean, Mix, Solar, means, sun_shares
from gossamer.carbon.signals import HostPlaces, Recorder, Replay, load
from gossamer.carbon.sources import NAMES, OFFLINE, signal
from gossamer.carbon.sun import day, day_index, solar_index
from gossamer.columns import SIGNALS
from gossamer.errors import ConfigError
from gossamer.geography import coordinates, countries

HOUR = 3600.0


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC).timestamp()


def places(*countries):
    where = {"DE": (51.0, 10.0), "US": (39.0, -95.0), "FR": (47.0, 2.8), "AU": (-33.6, 147.0), "GB": (52.2, -1.5)}
    where |= {"CN": (35.0, 110.0)}
    latitude, longitude = np.array([where.get(code, (np.nan, np.nan)) for code in countries]).T
    hosts = np.array([f"h{number}.test" for number in range(len(countries))])
    return HostPlaces(hosts, np.array(countries), latitude, longitude)


# --- the sun


def test_the_seeds_example_day():
    """Sunrise 07:30, sunset 17:00: 1, then 0 at 12:15, then 1; slopes of 0.21 an hour."""
    hours = np.array([0, 7.5, 8.5, 12.25, 13.25, 17, 23])
    index = day_index(hours * HOUR, 7.5 * HOUR, 17 * HOUR)
    assert index == pytest.approx([1, 1, 1 - 1 / 4.75, 0, 1 / 4.75, 1, 1])
    falls, rises = index[2] - index[1], index[4] - index[3]
    assert (round(falls, 2), round(rises, 2)) == (-0.21, 0.21)
    # the lines of the seed: a1 t + b1 and a2 t + b2 with b1 = 2.57, b2 = -2.57 (rounded from 2.579)
    assert abs(12.25 * rises - 2.57) < 0.01


@pytest.mark.parametrize(
    ("place", "date", "sunrise", "sunset"),
    [
        ((52.52, 13.405), (2024, 6, 21), (2, 43), (19, 33)),  # Berlin
        ((51.5074, -0.1278), (2024, 12, 21), (8, 4), (15, 53)),  # London
        ((40.7128, -74.006), (2024, 3, 20), (10, 59), (23, 8)),  # New York
        ((-33.8688, 151.2093), (2024, 12, 21), (18, 41), (9, 5)),  # Sydney: rises the evening before, in UTC
        ((0.0, 0.0), (2024, 9, 22), (5, 49), (17, 56)),
    ],
)
def test_sunrise_and_sunset_of_almanacs(place, date, sunrise, sunset):
    found = day(utc(*date, 12) - place[1] * 240, *place)
    for seconds, (hour, minute) in ((found.sunrise_s, sunrise), (found.sunset_s, sunset)):
        difference = (seconds - hour * HOUR - minute * 60) % 86_400
        assert min(difference, 86_400 - difference) < 150


def test_polar_day_and_night():
    summer, winter = utc(2024, 6, 21), utc(2024, 12, 21)
    times = np.arange(0, 24) * HOUR
    bright, dark = solar_index(summer + times, 80.0, 20.0), solar_index(winter + times, 80.0, 20.0)
    assert (dark == 1).all()
    assert (bright <= 1).all()
    assert bright.mean() == pytest.approx(0.5, abs=0.02)


def test_the_index_is_continuous_everywhere():
    times = utc(2024, 5, 1) + np.arange(0, 3 * 86_400, 60.0)
    for longitude in (-179.9, -95, 0, 10, 179.9):
        index = solar_index(times, 48.0, longitude)
        assert np.abs(np.diff(index)).max() < 0.01
        assert index.min() < 0.01
        assert index.max() == 1


def test_places_are_columns():
    where = places("DE", "US", "AU")
    one_by_one = [float(solar_index(1e9, *where_)) for where_ in zip(where.latitude, where.longitude, strict=True)]
    assert solar_index(1e9, where.latitude, where.longitude) == pytest.approx(one_by_one)


def test_an_unknown_place_has_no_sun():
    assert solar_index(1e9, np.array([np.nan]), np.array([np.nan])).tolist() == [1]


# --- grids


def test_country_means_and_the_world_for_others():
    found = means(np.array(["FR", "PL", "", "XX", "FR"]))
    assert found[0] < 100 < found[1]
    assert found[2] == found[3] == WORLD_G_PER_KWH
    assert found[4] == found[0]
    assert Mean().read(places("FR", "XX"), 0.0).g_per_kwh.tolist() == [found[0], WORLD_G_PER_KWH]


def test_solar_is_the_mean_by_night_and_nothing_at_noon():
    where = places("DE")
    noon = float(day(utc(2024, 7, 1, 12), where.latitude, where.longitude).noon_s[0])
    assert Solar().read(where, noon).g_per_kwh == pytest.approx([0], abs=0.01)
    assert Solar().read(where, noon + 12 * HOUR).g_per_kwh == pytest.approx(means(where.country))


@pytest.mark.parametrize("country", ["DE", "US", "FR", "AU", "XX"])
def test_the_mix_has_the_mean_of_its_country_over_a_year(country):
    where = places(country)
    values = [Mix().read(where, utc(2024, 1, 1) + hour * HOUR).g_per_kwh[0] for hour in range(0, 366 * 24, 5)]
    assert np.mean(values) == pytest.approx(means(where.country)[0], rel=0.02)
    if country == "DE":
        assert min(values) < 0.75 * max(values)
        assert min(values) > SOLAR_G_PER_KWH
    if country == "XX":
        assert min(values) == max(values)


MONTHS = np.arange(1, 13)


def solar_shares_by_month(country):
    """The model's share of the sun in each month of a year, every two hours of every third day."""
    where = places(country)
    found = []
    for month in MONTHS.tolist():
        times = utc(2023, month, 1) + np.arange(0, 30, 3)[:, None] * 86_400 + np.arange(0, 24, 2) * HOUR
        found.append(sun_shares(where.country, where.latitude, where.longitude, times.reshape(-1, 1)).mean())
    return np.array(found)


# Published months. Independent power producers of the United States, 2021, thousand MWh: US Energy Information
# Administration, Electric Power Annual, table 3.3.A (solar, and all sources).
US_SOLAR = [4766, 5502, 8081, 9464, 10827, 10826, 10720, 10565]  # January to August
US_TOTAL = [144063, 132062, 135757, 130220, 137617, 153743, 165344, 171216]
# Germany, TWh: Fraunhofer ISE, energy-charts.info, as reported by pv magazine in January 2024.
DE_JUNE, DE_2023 = 9.0, 59.9
# Shares of June and of the whole year 2023: Ember, as reported by PV Tech on 21 June 2024.
JUNE_2023 = {"DE": (0.17, 0.092), "CN": (0.070, 0.062)}  # the first is the European Union's: its middle lies in Germany


def test_months_are_as_the_united_states_published_them():
    model, truth = solar_shares_by_month("US")[:8], np.array(US_SOLAR) / np.array(US_TOTAL)
    assert model / model.mean() == pytest.approx(truth / truth.mean(), rel=0.2)


def test_june_is_as_germany_published_it():
    model = solar_shares_by_month("DE")
    assert model[5] / model.sum() == pytest.approx(DE_JUNE / DE_2023, rel=0.1)


@pytest.mark.parametrize("country", sorted(JUNE_2023))
def test_june_against_the_year_is_as_ember_published_it(country):
    """Clouds, demand and new panels are not in the model: it is right to a quarter."""
    model = solar_shares_by_month(country)
    june, year = JUNE_2023[country]
    assert model[5] / model.mean() == pytest.approx(june / year, rel=0.25)


@pytest.mark.parametrize(("country", "summer"), [("DE", 6), ("FR", 6), ("GB", 6), ("US", 6), ("CN", 6), ("AU", 12)])
def test_the_sun_gives_most_in_summer(country, summer):
    """The order of the seasons is beyond doubt in each of these six countries."""
    share, winter = solar_shares_by_month(country), (summer + 5) % 12 + 1
    assert share[summer - 1] > max(share[2], share[8]) >= min(share[2], share[8]) > share[winter - 1]
    where = places(country)
    noon = [
        float(day(utc(2023, month, 21, 12), where.latitude, where.longitude).noon_s[0]) for month in (summer, winter)
    ]
    in_summer, in_winter = (Mix().read(where, time_s).g_per_kwh[0] for time_s in noon)
    assert in_summer < in_winter < means(where.country)[0]


def test_polar_nights_have_no_sun():
    where = HostPlaces(np.array(["h"]), np.array(["NO"]), np.array([78.0]), np.array([15.0]))
    assert sun_shares(where.country, where.latitude, where.longitude, utc(2023, 12, 21, 11)).tolist() == [0.0]
    assert sun_shares(where.country, where.latitude, where.longitude, utc(2023, 6, 21, 23))[0] > 0


# --- rows


def test_what_was_seen_is_replayed():
    seen = Recorder(Mix())
    where = places("DE", "US", "FR")
    times = [utc(2024, 4, 1) + hour * HOUR for hour in range(0, 48, 2)]
    truth = [seen.read(where, time).g_per_kwh for time in times]
    rows = arrow_table(SIGNALS, seen.taken())
    assert rows.schema.names == SIGNALS.names
    assert not any(seen.taken().values())
    assert len(rows) < len(times) * 3  # nights do not change
    replay = Replay(rows, Mean())
    assert np.array([replay.read(where, time + 60).g_per_kwh for time in times]) == pytest.approx(np.array(truth))
    assert set(replay.read(where, times[5]).source) == {"mix"}
    assert set(replay.read(where, times[0] - 1).source) == {"mean"}  # before the first row


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_by_host_country_and_everywhere(tmp_path, kind):
    path = tmp_path / f"signal.{kind}"
    columns = [1000, 1000, 1000, 2000], ["*", "DE", "h1.test", "DE"], [500.0, 300.0, 10.0, 200.0], ["a", "b", "c", "d"]
    rows = arrow_table(SIGNALS, dict(zip(SIGNALS.names, columns, strict=True)))
    if kind == "csv":
        path.write_text(
            "time,place,value,source\n1970-01-01T00:16:40Z,*,500,a\n1970-01-01T00:16:40Z,DE,300,b\n"
            "1970-01-01T00:16:40Z,h1.test,10,c\n1970-01-01T00:33:20Z,DE,200,d\n"
        )
    else:
        pq.write_table(rows, path)
    read = signal(str(path)).read
    assert read(places("DE", "DE", "US"), 1500).g_per_kwh.tolist() == [300, 10, 500]
    assert read(places("DE", "DE", "US"), 2500).g_per_kwh.tolist() == [200, 10, 500]
    assert read(places("DE", "DE", "US"), 2500).source.tolist() == ["d", "c", "a"]
    assert read(places("US"), 500).source.tolist() == ["mix"]


def test_times_may_be_seconds_and_a_source_is_not_needed(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("time,place,value\n1000,DE,300\n")
    reading = Replay(load(path), Mean()).read(places("DE"), 1000)
    assert (reading.g_per_kwh.tolist(), reading.source.tolist()) == ([300], ["mine.csv"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,place\n1,DE\n", "no column value"),
        ("time,place,value\nsoon,DE,3\n", "time must be"),
        ("time,place,value\n1,DE,much\n", "value must be"),
        ("", "signal file"),
        ("time,place,value\n1,DE,-3\n", "-3 is no value; write grams per kWh, 0 or more"),
        ("time,place,value\n1,DE,nan\n", "has no row with time, place and value"),
        ("time,place,value\n1,DE,inf\n", "inf is no value"),
        ("time,place,value\n1700000000000,DE,3\n", "1700000000000 seems to be milliseconds"),
        ("time,place,value\n", "has no row with"),
        ("time,place,value\n1,DE,\n2,DE,NA\n", "has no row with"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, text, message):
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        signal(str(path))


def test_namibia_is_no_gap(tmp_path):
    path = tmp_path / "na.csv"
    path.write_text("time,place,value\n1000,NA,300\n2000,NA,NA\n")
    rows = load(path)
    assert rows["place"].to_pylist() == ["NA"], "a row without a value is left out"
    assert Replay(rows, Mean()).read(places("NA"), 1500).g_per_kwh.tolist() == [300]


def test_times_without_a_zone_are_utc(tmp_path):
    path = tmp_path / "naive.csv"
    path.write_text("time,place,value\n2024-06-01 12:00:00,DE,300\n")
    replay = Replay(load(path), Mean())
    assert replay.read(places("DE"), utc(2024, 6, 1, 12)).g_per_kwh.tolist() == [300]
    assert replay.read(places("DE"), utc(2024, 6, 1, 12) - 1).source.tolist() == ["mean"]


def test_how_old_is_too_old_is_a_setting(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text("time,place,value\n1000,DE,300\n")
    for stale_s, late_s, source in ((0.0, 1e9, "old.csv"), (3600.0, 3600.0, "old.csv"), (3600.0, 3601.0, "mix")):
        read = signal(str(path), stale_s=stale_s).read(places("DE"), 1000 + late_s)
        assert read.source.tolist() == [source]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="absent"):
        signal(str(tmp_path / "absent.csv"))


def test_places_of_addresses():
    country = countries(["193.0.6.139", "127.0.0.1"])
    where = HostPlaces(np.array(["a.test", "b.test"]), country, *coordinates(country.tolist()))
    assert where.country.tolist() == ["NL", ""]
    assert where.latitude[0] == pytest.approx(52, abs=1)
    assert np.isnan(where.latitude[1])


# --- declared


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"carbon-intensity": "120"}, 120.0),
        ({"carbon-index": "0.25"}, 100.0),
        ({"carbon-intensity": "12", "carbon-index": "0.25"}, 12.0),
        ({"carbon-intensity": "-1"}, None),
        ({"carbon-intensity": "nan"}, None),
        ({"carbon-intensity": "1e9"}, None),
        ({"carbon-index": "1.5"}, None),
        ({"carbon-index": "green"}, None),
        ({}, None),
    ],
)
def test_headers(headers, expected):
    assert declared_g_per_kwh(headers, 400.0) == expected


def test_a_host_is_believed_for_an_hour():
    declared = Declared(Mean())
    declared.declare("h0.test", "DE", {"carbon-intensity": "7"}, 1000.0)
    declared.declare("h1.test", "DE", {"carbon-index": "nonsense"}, 1000.0)
    for time, values in ((1000.0, [7, 1]), (4600.0, [7, 1]), (4601.0, [1, 1])):
        reading = declared.read(places("DE", "DE"), time)
        expected = [7.0 if value == 7 else means(np.array(["DE"]))[0] for value in values]
        assert reading.g_per_kwh.tolist() == expected
        assert reading.source.tolist() == ["declared" if value == 7 else "mean" for value in values]


# --- names


def test_every_offline_signal_has_a_name_and_values():
    assert set(OFFLINE) <= set(NAMES)
    for name in OFFLINE:
        assert isinstance(signal(name).read(places("DE"), 1e9).g_per_kwh, np.ndarray)


@pytest.mark.parametrize(
    ("name", "message"), [("sola", "did you mean solar"), ("qqq", "known are"), ("watttime", "needs a token")]
)
def test_wrong_names(name, message):
    with pytest.raises(ConfigError, match=message):
        signal(name)
    with pytest.raises(ConfigError, match="offline signal"):
        signal("uk", fallback="uk")


def test_the_table_is_arrow():
    assert isinstance(arrow_table(SIGNALS, Recorder(Mix()).taken()), pa.Table)
