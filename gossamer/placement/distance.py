"""How far places on Earth are, and how long a packet needs there and back."""

import numpy as np

from gossamer.arrays import F64

RADIUS_KM = 6371.0
# A fit to measured round trips between cities (R² = .79); who has measured ones uses those.
FIXED_S, PER_KM_S = 14.5e-3, 0.0156e-3


def kilometres(latitude: F64, longitude: F64, other_latitude: F64, other_longitude: F64) -> F64:
    """Along a great circle, between every place of the first list and every one of the second; degrees."""
    north, east = np.radians(latitude)[:, None], np.radians(longitude)[:, None]
    other_north, other_east = np.radians(other_latitude)[None, :], np.radians(other_longitude)[None, :]
    half = np.sin((north - other_north) / 2) ** 2
    half = half + np.cos(north) * np.cos(other_north) * np.sin((east - other_east) / 2) ** 2
    distance: F64 = 2 * RADIUS_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return distance


def round_trip_s(kilometres: F64) -> F64:
    return FIXED_S + PER_KM_S * kilometres
