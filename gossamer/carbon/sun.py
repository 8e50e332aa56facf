"""This module computes sunrise, noon, sunset and the sun's height anywhere on any day, and LEADS' carbon index.

Solar position after the calculator of NOAA (Meeus, Astronomical Algorithms), on columns. The index is that of LEADS
D1.4, section 2.4: 1 at night, 0 when the sun is highest, and straight lines between.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64

DAY_S = 86_400.0
_J2000_S = 946_728_000.0  # 1 January 2000, 12:00 UTC
_CENTURY_S = 36_525 * DAY_S
_DAYS = 73  # of a year that a mean is taken over
_HORIZON = np.cos(np.radians(90.833))  # the upper edge, with refraction


class Day(NamedTuple):
    """`Day` has seconds since 1970. Without a sunrise all three are noon; without a sunset, a day lies between."""

    sunrise_s: F64
    noon_s: F64
    sunset_s: F64


def day(time_s: npt.ArrayLike, latitude: npt.ArrayLike, longitude: npt.ArrayLike) -> Day:
    """Returns the solar day, from midnight to midnight by the sun, that each time falls into at its place."""
    time_s, east_s = np.asarray(time_s, np.float64), np.asarray(longitude, np.float64) / 360 * DAY_S
    ahead_s, _ = _sun(time_s)
    number = np.floor((time_s + east_s + ahead_s) / DAY_S)
    noon_s = number * DAY_S + DAY_S / 2 - east_s - ahead_s
    ahead_s, declination = _sun(noon_s)
    noon_s = number * DAY_S + DAY_S / 2 - east_s - ahead_s
    north = np.radians(np.asarray(latitude, np.float64))
    cosine = _HORIZON / (np.cos(north) * np.cos(declination)) - np.tan(north) * np.tan(declination)
    half_s = np.arccos(np.clip(cosine, -1.0, 1.0)) / (2 * np.pi) * DAY_S
    return Day(noon_s - half_s, noon_s, noon_s + half_s)


def day_index(time_s: npt.ArrayLike, sunrise_s: npt.ArrayLike, sunset_s: npt.ArrayLike) -> F64:
    """Returns 1 until sunrise, 0 in the middle of the day, 1 from sunset on."""
    sunrise_s, sunset_s = np.asarray(sunrise_s, np.float64), np.asarray(sunset_s, np.float64)
    half_s = (sunset_s - sunrise_s) / 2
    off_s = np.abs(np.asarray(time_s, np.float64) - (sunrise_s + half_s))
    index: F64 = np.minimum(1.0, np.divide(off_s, half_s, out=np.ones(np.shape(off_s)), where=half_s > 0))
    return index


def solar_index(time_s: npt.ArrayLike, latitude: npt.ArrayLike, longitude: npt.ArrayLike) -> F64:
    """Returns the index at each place; those of which nothing is known (nan) have no sun."""
    today = day(time_s, latitude, longitude)
    index = day_index(time_s, today.sunrise_s, today.sunset_s)
    return np.where(np.isnan(today.noon_s + today.sunrise_s), 1.0, index)


def height(time_s: npt.ArrayLike, latitude: npt.ArrayLike, longitude: npt.ArrayLike) -> F64:
    """Returns the sine of the sun's height over the horizon, 0 below it: the light that falls on level ground."""
    time_s, east = np.asarray(time_s, np.float64), np.asarray(longitude, np.float64) / 360
    ahead_s, declination = _sun(time_s)
    angle = 2 * np.pi * ((time_s + ahead_s) / DAY_S + east - 0.5)  # 0 at noon
    north = np.radians(np.asarray(latitude, np.float64))
    sine = np.sin(north) * np.sin(declination) + np.cos(north) * np.cos(declination) * np.cos(angle)
    found: F64 = np.maximum(sine, 0.0)
    return found


def mean_height(latitude: npt.ArrayLike) -> F64:
    """Returns the mean of `height` over a year, nights included."""
    _, declination = _sun(np.linspace(_J2000_S, _J2000_S + 365.25 * DAY_S, _DAYS, endpoint=False))
    north = np.radians(np.asarray(latitude, np.float64))[..., None]
    half = np.arccos(np.clip(-np.tan(north) * np.tan(declination), -1.0, 1.0))  # of the day, as an angle
    level = half * np.sin(north) * np.sin(declination) + np.cos(north) * np.cos(declination) * np.sin(half)
    found: F64 = level.mean(axis=-1) / np.pi
    return found


def _sun(time_s: F64) -> tuple[F64, F64]:
    """Returns by how many seconds the sun is ahead of mean time (the equation of time), and its declination in
    radians."""
    century = (time_s - _J2000_S) / _CENTURY_S
    mean = np.radians(280.46646 + century * (36_000.76983 + 0.0003032 * century))
    anomaly = np.radians(357.52911 + century * (35_999.05029 - 0.0001537 * century))
    eccentric = 0.016708634 - century * (0.000042037 + 0.0000001267 * century)
    centre = np.sin(anomaly) * (1.914602 - century * (0.004817 + 0.000014 * century))
    centre += np.sin(2 * anomaly) * (0.019993 - 0.000101 * century) + np.sin(3 * anomaly) * 0.000289
    node = np.radians(125.04 - 1934.136 * century)
    apparent = mean + np.radians(centre - 0.00569 - 0.00478 * np.sin(node))
    tilt = 23 + (26 + (21.448 - century * (46.815 + century * (0.00059 - 0.001813 * century))) / 60) / 60
    tilt = np.radians(tilt + 0.00256 * np.cos(node))
    declination = np.arcsin(np.sin(tilt) * np.sin(apparent))
    square = np.tan(tilt / 2) ** 2
    ahead = square * np.sin(2 * mean) - 2 * eccentric * np.sin(anomaly)
    ahead += 4 * eccentric * square * np.sin(anomaly) * np.cos(2 * mean)
    ahead -= 0.5 * square**2 * np.sin(4 * mean) + 1.25 * eccentric**2 * np.sin(2 * anomaly)
    return ahead / (2 * np.pi) * DAY_S, declination
