"""This module estimates carbon intensity offline: country means, the solar model of LEADS D1.4, and a mix of both."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, Strings
from gossamer.carbon.signals import HostPlaces, Reading
from gossamer.carbon.sun import height, mean_height, solar_index
from gossamer.country_facts import WORLD_G_PER_KWH, Country, facts

SOLAR_G_PER_KWH = 48.0  # life cycle of photovoltaics (IPCC AR5, annex III, median of utility scale)
_MOST_SUN = 0.95  # of a country's power at any time


def means(country: Strings) -> F64:
    """Returns grams per kWh, of the last year that there are data of."""
    found = _each(country, lambda facts: facts.g_per_kwh, np.nan)
    return np.where(np.isnan(found), WORLD_G_PER_KWH, found)


def solar_shares(country: Strings) -> F64:
    """Returns the sun's share of a country's electricity in a year."""
    return _each(country, lambda facts: facts.mix.get("solar", 0.0), 0.0)


def _each(country: Strings, value: Callable[[Country], float], unknown: float) -> F64:
    codes, which = np.unique(country, return_inverse=True)
    table = facts()
    values = [value(table[code]) if code in table else unknown for code in codes.tolist()]
    return np.array(values, np.float64)[which]


def sun_shares(country: Strings, latitude: F64, longitude: F64, time_s: npt.ArrayLike) -> F64:
    """Returns the sun's share of the electricity now: the share of the year, given out by the sun's height at every
    hour of it. A winter's noon gets little, a night nothing; where the place is unknown, nobody knows of any sun."""
    places, which = np.unique(latitude, return_inverse=True)
    mean = np.maximum(mean_height(places), 1e-3)[which]
    share = solar_shares(country) * height(time_s, latitude, longitude) / mean
    return np.minimum(np.nan_to_num(share), _MOST_SUN)


def mix_g_per_kwh(mean: F64, share: F64, now: F64) -> F64:
    """Returns grams per kWh now, when the sun has the share `now`; in the year it has `share`. Everything else is as
    dirty at any hour: so the mean of a year stays what it is."""
    other = np.maximum(mean - share * SOLAR_G_PER_KWH, 0.0) / np.maximum(1 - share, 1e-9)
    return now * SOLAR_G_PER_KWH + (1 - now) * other


class Mean:
    """The mean is the same at any hour."""

    def read(self, places: HostPlaces, _time_s: float) -> Reading:
        return _reading(means(places.country), "mean")


class Solar:
    """The solar model of LEADS D1.4 has the grid's mean by night, and nothing at noon."""

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        index = solar_index(time_s, places.latitude, places.longitude)
        return _reading(means(places.country) * index, "solar")


class Mix:
    """The mix is the country's mean, lower when the sun is high, as far as part of the power comes from it."""

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        now = sun_shares(places.country, places.latitude, places.longitude, time_s)
        share = np.where(np.isnan(places.latitude), 0.0, solar_shares(places.country))
        return _reading(mix_g_per_kwh(means(places.country), share, now), "mix")


def _reading(values: F64, source: str) -> Reading:
    return Reading(values, np.full(len(values), source))
