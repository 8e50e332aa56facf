"""This module estimates carbon intensity offline: country means, the solar model of LEADS D1.4, and a mix of both."""

from collections.abc import Callable

import numpy as np

from gossamer.arrays import F64, Strings
from gossamer.carbon.signals import HostPlaces, Reading
from gossamer.carbon.sun import day, day_index, solar_index
from gossamer.geography import WORLD_G_PER_KWH, Country, facts

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
    found: F64 = np.array(values, np.float64)[which]
    return found


def mix_g_per_kwh(mean: F64, share: F64, index: F64, daylight: F64) -> F64:
    """Returns grams per kWh now: the sun's share of the year is given out over a day as a triangle from sunrise to
    sunset (`index` 1, 0, 1 over the part `daylight` of it), and everything else in the rest of the time: the mean of a
    day stays what it is."""
    now = np.divide(share * (1 - index), daylight / 2, out=np.zeros(len(mean)), where=daylight > 0)
    now = np.minimum(now, _MOST_SUN)
    other = np.maximum(mean - share * SOLAR_G_PER_KWH, 0.0) / np.maximum(1 - share, 1e-9)
    value: F64 = now * SOLAR_G_PER_KWH + (1 - now) * other
    return value


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
    """The mix is the country's mean, lower by day where part of the power comes from the sun."""

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        today = day(time_s, places.latitude, places.longitude)
        daylight = np.nan_to_num((today.sunset_s - today.sunrise_s) / 86_400)
        index = np.nan_to_num(day_index(time_s, today.sunrise_s, today.sunset_s), nan=1.0)
        share = np.where(daylight > 0, solar_shares(places.country), 0.0)
        return _reading(mix_g_per_kwh(means(places.country), share, index, daylight), "mix")


def _reading(values: F64, source: str) -> Reading:
    return Reading(values, np.full(len(values), source))
