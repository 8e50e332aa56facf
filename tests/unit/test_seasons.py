"""The seasons of the default carbon signal beside a year of published months, in six countries."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from gossamer.arrays import F64
from gossamer.carbon.grid import sun_shares
from gossamer.geography import coordinates

# Net production from January to December 2024, GWh, by the sun and by all sources: International Energy Agency, Monthly
# Electricity Statistics, the release with data up to May 2025.
SUN = {
    "DE": [1703.6, 2559.4, 5430.9, 7334.9, 9861.1, 10209.4, 10708.8, 10219.5, 7154.7, 4086.8, 1874.8, 1283.7],
    "FR": [837.4, 1064.7, 1882.3, 2308.9, 2564.0, 2765.2, 3119.7, 3116.5, 2240.6, 1601.1, 1147.3, 864.7],
    "GB": [326.0, 441.7, 1186.2, 1573.8, 1936.2, 2220.6, 2072.1, 1968.4, 1318.0, 1052.2, 442.6, 258.1],
    "US": [12541, 16098, 20341, 24567, 28593, 31021, 30998, 31091, 26074, 25268, 17962, 16815],
    "CN": [46617, 54753, 64323, 64924, 74158, 72839, 74378, 79835, 66865, 66775, 61687, 65217],
    "AU": [5051.1, 4995.7, 4727.9, 3742.1, 3030.2, 2599.9, 3026.9, 3709.3, 4590.8, 5565.1, 5557.3, 6630.7],
}
ALL = {
    "DE": [47605, 42183, 41082, 38477, 36409, 35995, 36596, 36166, 36726, 38057, 41084, 42748],
    "FR": [55048, 47921, 47189, 41413, 42594, 39897, 41651, 39941, 39379, 43061, 46880, 53049],
    "GB": [29245, 24251, 24138, 23144, 20687, 19844, 20474, 21598, 21548, 23768, 25425, 26639],
    "US": [386591, 326919, 330813, 318364, 356410, 401697, 442120, 435098, 368922, 342280, 331126, 368730],
    "CN": [780170, 740018, 773804, 718494, 752903, 802463, 915762, 939511, 829778, 760966, 774075, 870431],
    "AU": [23349, 23301, 23167, 21075, 22628, 23471, 24709, 23102, 21582, 21615, 22002, 24109],
}
NAMES = {
    "DE": "Germany", "FR": "France", "GB": "Great Britain", "US": "United States", "CN": "China", "AU": "Australia",
}  # fmt: skip
HOUR_S, DAY_S = 3600.0, 86_400.0


def published(country: str) -> F64:
    return np.array(SUN[country]) / np.array(ALL[country])


def modelled(country: str) -> F64:
    """The model's months, every two hours of every third day, with the mean of the published year: its data are of
    another year, and only the seasons are compared."""
    latitude, longitude = coordinates([country])
    months = [dt.datetime(2024, month, 1, tzinfo=dt.UTC).timestamp() for month in range(1, 13)]
    hours = (np.arange(0, 30, 3)[:, None] * DAY_S + np.arange(0, 24, 2) * HOUR_S).reshape(-1, 1)
    found = np.array([sun_shares(np.array([country]), latitude, longitude, month + hours).mean() for month in months])
    return found * published(country).mean() / found.mean()


def off(country: str, model: F64) -> float:
    """Root mean square over the months, in parts of all electricity."""
    return float(np.sqrt(((model - published(country)) ** 2).mean()))


@pytest.mark.parametrize("country", sorted(SUN))
def test_no_month_is_far_from_what_was_published(country: str) -> None:
    """By no more than six points of a country's electricity, and two and a half in the mean."""
    assert np.abs(modelled(country) - published(country)).max() < 0.06
    assert off(country, modelled(country)) < 0.025


@pytest.mark.parametrize("country", ["DE", "FR", "GB", "US", "AU"])
def test_a_year_with_seasons_is_nearer_than_one_without(country: str) -> None:
    """China's is not: the sun gave half more in December than a year before, and demand is highest in summer."""
    assert off(country, modelled(country)) < off(country, np.full(12, published(country).mean()))


def test_the_page_has_these_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "green.md").read_text()
    for country, name in NAMES.items():
        truth, model = published(country), modelled(country)
        flat = off(country, np.full(12, truth.mean()))
        line = (
            f"| {name} | {truth.min():.1%} to {truth.max():.1%} | {100 * off(country, model):.1f} | {100 * flat:.1f} |"
        )
        assert line in page, line
