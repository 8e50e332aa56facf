"""Learning clients and websites from scans: what was put in is found again, outliers and gaps notwithstanding."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.scan.forecast import forecast
from gossamer.scan.model import Scanned, batch_s, fitted, learn, parameters
from gossamer.scan.requirements import Shape, broken
from gossamer.scan.waiting import waited_s

WEBSITES, CLIENTS = 40, 3
FACTOR = np.array([1.0, 1.3, 0.8])


def scans(seed: int = 0, delay_s: float = 0.0, noise: float = 0.02, rounds: int = 3) -> tuple[Scanned, np.ndarray]:
    """Websites of all sizes, each scanned by another client each time; and what each takes on each client."""
    random = np.random.default_rng(seed)
    pages = np.ceil(random.pareto(1.2, WEBSITES) * 30 + 5)
    sent = pages * random.lognormal(10, 0.5, WEBSITES)
    slowness = random.lognormal(0, 0.4, WEBSITES)
    own_s = slowness * (0.5 + pages * 0.1 + sent * 1e-6)
    times_s = ((pages - 1) * delay_s)[:, None] + own_s[:, None] * FACTOR
    website = np.tile(np.arange(WEBSITES), rounds)
    client = (website + np.repeat(np.arange(rounds), WEBSITES)) % CLIENTS
    took_s = times_s[website, client] * random.lognormal(0, noise, len(website))
    one = np.ones(len(website))
    rows = Scanned(
        website,
        client,
        pages[website],
        sent[website],
        took_s,
        delay_s * one,
        *(s * one for s in (0.01, 0.02, 0.1, 1e-6)),
    )
    return rows, times_s


@pytest.mark.parametrize("delay_s", [0.0, 0.5, 5.0])
def test_times_are_foretold(delay_s: float) -> None:
    rows, times_s = scans(delay_s=delay_s)
    model = learn(rows, WEBSITES, CLIENTS)
    pages, sent = rows.requests[:WEBSITES], rows.wire_bytes[:WEBSITES]
    found = model.times_s(pages, sent, np.full((WEBSITES, CLIENTS), delay_s))
    assert np.median(np.abs(found / times_s - 1)) < 0.08
    assert (found >= ((pages - 1) * delay_s)[:, None] * 0.999).all(), "politeness is a floor"


def test_delays_lie_between_pages_so_that_a_lone_page_waits_for_none() -> None:
    """Counted once per page they make a hundred small websites as long as a large one that they are not."""
    pages = np.array([1.0, 2, 3, 100] * CLIENTS)
    slow_s = np.repeat([0.5, 0.6, 0.7], 4)  # how long each client waits
    website, one = np.tile(np.arange(4), CLIENTS), np.ones(4 * CLIENTS)
    took_s = (pages - 1) * slow_s + 0.05
    rows = Scanned(website, np.repeat(np.arange(CLIENTS), 4), pages, 1000 * pages, took_s, slow_s, *[0 * one] * 4)
    found = learn(rows, 4, CLIENTS).times_s(pages[:4], 1000 * pages[:4], np.tile([0.5, 0.6, 0.7], (4, 1)))
    assert found == pytest.approx(took_s.reshape(CLIENTS, 4).T, abs=0.01)


def test_waits_are_not_learned_as_slowness() -> None:
    """Half of the websites waited half a minute each for a page that failed once."""
    rows, times_s = scans()
    waited_s = np.where(rows.website % 2, 30.0, 0.0)
    patient = dataclasses.replace(rows, scan_s=rows.scan_s + waited_s, waited_s=waited_s)
    model = learn(patient, WEBSITES, CLIENTS)
    pages, sent = rows.requests[:WEBSITES], rows.wire_bytes[:WEBSITES]
    found = model.times_s(pages, sent, np.zeros((WEBSITES, CLIENTS)))
    assert np.median(np.abs(found / times_s - 1)) < 0.08
    assert model.correction == pytest.approx(learn(rows, WEBSITES, CLIENTS).correction)


def waits(*requests: tuple[float, float, int, bool], delay_s: float = 1.0, most_s: float = 100.0) -> float:
    begun_s, took_s, key, failed = (list(column) for column in zip(*requests, strict=True))
    ended_s = np.array(begun_s) + np.array(took_s)
    return waited_s(np.array(begun_s), ended_s, np.array(failed), key, delay_s, most_s)


def test_waits_are_what_no_request_fills() -> None:
    assert waits((0, 1, 1, False), (2, 1, 2, False), (9, 1, 3, False)) == 0, "nothing failed: that is its own time"
    assert waits((0, 1, 1, False), (2, 1, 2, True), (13, 1, 2, False)) == 10, "of 12 s two are delays"
    assert waits((0, 1, 1, False), (2, 1, 2, True), (4, 1, 3, False), (13, 1, 2, False)) == 8, "others went on"
    assert waits((0, 30, 1, True), (40, 1, 1, False)) == 39, "until it failed, too"
    assert waits((0, 1, 1, False), (2, 30, 2, True)) == 30
    assert waits((0, 1, 1, True), (5_000, 1, 1, False)) == 0, "it was interrupted meanwhile"
    assert waits((0, 20, 1, False), (2, 1, 2, True), (12, 1, 2, False)) == 0, "another request was under way"


def test_speeds_of_clients_are_found() -> None:
    model = learn(scans()[0], WEBSITES, CLIENTS)
    assert model.factor / model.factor[0] == pytest.approx(FACTOR, rel=0.05)


def test_a_website_that_exploded_once_does_not_spoil_the_speeds() -> None:
    rows, _ = scans()
    rows.scan_s[7] *= 50
    model = learn(rows, WEBSITES, CLIENTS)
    assert model.factor / model.factor[0] == pytest.approx(FACTOR, rel=0.1)


def test_a_new_client_is_known_by_its_time_for_the_reference_site() -> None:
    rows, _ = scans()
    model = learn(rows, WEBSITES, CLIENTS + 2, np.array([100.0, 130, 80, 50, np.nan]))
    assert model.factor[3] / model.factor[0] == pytest.approx(0.5, rel=0.05)
    assert model.factor[4] == pytest.approx(np.median(model.factor[[0, 1, 2, 3]]), rel=0.2)


def test_before_the_first_scan_only_the_reference_counts() -> None:
    none = np.zeros(0)
    nobody = Scanned(none.astype(int), none.astype(int), *[none] * 8)
    seconds = np.array([105.7, 110.4, 85.8])
    model = learn(nobody, 2, 3, seconds)
    assert model.factor / model.factor[0] == pytest.approx(seconds / 105.7)
    assert learn(nobody, 2, 3).factor.tolist() == [1, 1, 1]
    assert model.times_s(np.array([1.0, 2]), np.zeros(2), np.zeros((2, 3))).shape == (2, 3)


def test_parameters_of_a_client() -> None:
    rows, _ = scans(noise=0.0)
    seen = parameters(rows, 0)
    assert seen is not None
    assert (seen.lookup_s, seen.connect_s, seen.answer_s) == pytest.approx((0.01, 0.02, 0.07))
    assert seen.download_bytes_per_s == pytest.approx(1e6)
    assert parameters(scans(rounds=1)[0], 99) is None
    assert batch_s(0.2, 1000.0, 500, 1500) == pytest.approx(2.2)


@settings(max_examples=50)
@given(st.lists(st.floats(0.0, 5.0), min_size=3, max_size=3), st.integers(0, 9))
def test_no_coefficient_is_negative_and_true_ones_are_found(true: list[float], seed: int) -> None:
    columns = np.random.default_rng(seed).uniform(0.1, 10, (30, 3))
    values = columns @ np.array(true)
    found = fitted(columns, values)
    assert (found >= 0).all()
    assert columns @ found == pytest.approx(values, rel=1e-3, abs=1e-6)


def test_forecasts_follow_a_trend_and_ignore_an_explosion() -> None:
    nan = np.nan
    series = np.array(
        [
            [100, 110, 121, 133.1],  # grows by a tenth each time
            [100, 100, 9_000, 100],  # exploded once
            [nan, nan, nan, 50],
            [nan, nan, nan, nan],
            [100, 800, 6_400, 51_200],  # nobody grows like that for long
        ]
    )
    found = forecast(series)
    assert found.value[0] == pytest.approx(146.4, rel=0.01)
    assert found.value[1] == pytest.approx(100, rel=0.05)
    assert found.value[2] == pytest.approx(50)
    assert np.isnan(found.value[3])
    assert found.value[4] <= 2 * np.sqrt(800 * 6_400) * 1.001
    assert found.spread[0] < 0.1 < found.spread[2]
    assert (found.spread > 0).all()
    assert forecast(np.zeros((2, 0))).value.shape == (2,)


@settings(max_examples=50)
@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=12))
def test_a_forecast_is_never_wild(values: list[float]) -> None:
    found = forecast(np.array([values]))
    last = values[-8:]
    assert min(last) / 2.001 <= found.value[0] <= max(last) * 2.001


def test_the_six_requirements_of_a_reference_site() -> None:
    websites = Shape(np.array([100.0, 300, 800]), np.array([20_000.0] * 3), np.array([2.0] * 3))
    good = Shape(np.array([420.0, 420]), np.array([18_000.0] * 2), np.array([2.2] * 2))
    assert not list(broken(good, websites, ({"192.0.2.1"}, {"192.0.2.9"}), ("de", {"de", "fr"})))
    bad = Shape(np.array([9_000.0, 8_000]), np.array([200.0] * 2), np.array([30.0] * 2))
    found = broken(bad, websites, ({"192.0.2.1"}, {"192.0.2.1"}), ("us", {"de"}))
    assert [requirement for requirement, _ in found] == [
        "on a server of its own", "in the same region", "a constant number of pages", "built like the websites",
        "about as many pages as the websites", "content like the websites'",
    ]  # fmt: skip
    alone = Shape(np.array([420.0]), np.array([18_000.0]), np.array([2.2]))
    assert not list(broken(alone, websites, (set(), set()), ("", set()))), "what cannot be seen is not wrong"
