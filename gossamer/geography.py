"""This module locates addresses: their country, its coordinates, and distances on Earth, by data in gossamer/data."""

import socket
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64, U8, U32, Strings
from gossamer.country_facts import facts

RADIUS_KM = 6371.0


class _Ranges(NamedTuple):
    start: U32
    country: U8  # a place in codes
    codes: Strings


def countries(addresses: Sequence[str]) -> Strings:
    """Returns the code of the country of each address; it is empty if unknown, as it is for all of IPv6."""
    ranges = _ranges()
    places = {address: place for place, address in enumerate(dict.fromkeys(addresses))}  # few, of many visits
    numbers = np.fromiter(map(_number, places), np.int64, len(places))
    at = np.searchsorted(ranges.start, np.maximum(numbers, 0).astype(np.uint32), "right") - 1
    found = np.where(numbers >= 0, ranges.codes[ranges.country[at]], "")
    return found[[places[address] for address in addresses]] if places else found


def coordinates(codes: Iterable[str]) -> tuple[F64, F64]:
    """Returns latitude and longitude in degrees; nan where a country is unknown."""
    table = facts()
    known = [table.get(str(code)) for code in codes]
    latitude = np.array([country.latitude if country else np.nan for country in known], np.float64)
    return latitude, np.array([country.longitude if country else np.nan for country in known], np.float64)


def kilometres(latitude: F64, longitude: F64, other_latitude: F64, other_longitude: F64) -> F64:
    """Returns great-circle distances between every place of the first list and every one of the second; degrees."""
    north, east = np.radians(latitude)[:, None], np.radians(longitude)[:, None]
    other_north, other_east = np.radians(other_latitude)[None, :], np.radians(other_longitude)[None, :]
    half = np.sin((north - other_north) / 2) ** 2
    half = half + np.cos(north) * np.cos(other_north) * np.sin((east - other_east) / 2) ** 2
    distance: F64 = 2 * RADIUS_KM * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return distance


def _number(address: str) -> int:
    """Returns an IPv4 address as a number, also inside IPv6 (::ffff:1.2.3.4); -1 for what is neither."""
    text = address[7:] if address.startswith("::ffff:") else address
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, text), "big")
    except OSError:
        return -1


@cache
def _ranges() -> _Ranges:
    with files("gossamer").joinpath("data/addresses.npz").open("rb") as file, np.load(file) as stored:
        start = np.cumsum(stored["step"], dtype=np.uint64).astype(np.uint32)
        return _Ranges(start, stored["country"], stored["codes"].astype(np.str_))
