"""A zone is a part of all hosts, by their keys: the unit that agents of a site own, and hand to each other.

The number of a zone is the last four bits of a host's key, then its first eight. The ring of sites cuts keys by their
first bits: the last ones make sure that a site's hosts are spread evenly over the zones (docs/decisions/0032). Up to
layout 4 a zone was the first eight bits alone: 16 zones of today.

In files and messages zones are ranges, as `0-20,256`: they stay short, however many there are.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gossamer.arrays import AnyKeys, Bools
from gossamer.columns import HOST_BITS
from gossamer.errors import Unreadable

_FIRST, _LAST = 8, 4  # bits of a host's key
ZONES_IN_ALL = 1 << (_FIRST + _LAST)
_EARLIER = 1 << _FIRST  # zones, up to layout 4
_LAST_BITS, _FIRST_BITS, _REST = np.uint32((1 << _LAST) - 1), np.uint32(_FIRST), np.uint32(HOST_BITS - _FIRST)
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def zone_of_host(hosts: AnyKeys) -> AnyKeys:
    """Returns the zone of host keys."""
    keys = hosts.astype(np.uint32)
    return (keys & _LAST_BITS) << _FIRST_BITS | keys >> _REST


def zone_of_key(keys: AnyKeys) -> AnyKeys:
    """Returns the zone of page keys."""
    return zone_of_host(keys >> np.uint64(64 - HOST_BITS))


def is_in(zones: Iterable[int]) -> Bools:
    """Returns for each zone whether it is one of these."""
    found = np.zeros(ZONES_IN_ALL, np.bool_)
    found[list(zones)] = True
    return found


def as_ranges(zones: Iterable[int]) -> str:
    numbers = np.unique(np.fromiter(zones, np.int64))
    ends = np.flatnonzero(np.diff(numbers, append=ZONES_IN_ALL + 1) > 1)
    starts = np.concatenate([[0], ends[:-1] + 1])
    pairs = zip(numbers[starts].tolist(), numbers[ends].tolist(), strict=True) if len(numbers) else ()
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in pairs)


@lru_cache(1024)
def in_ranges(text: str) -> tuple[int, ...]:
    """Returns the zones in these ranges. Ranges rise, and do not touch: the same zones are always the same text."""
    pairs = [_RANGE.fullmatch(part) for part in text.split(",")] if text else []
    numbers: list[int] = []
    for pair in pairs:
        first, last = (int(pair[1]), int(pair[2] or pair[1])) if pair else (1, 0)
        if not (numbers[-1] + 1 if numbers else -1) < first <= last < ZONES_IN_ALL:
            raise Unreadable(f"{text[:80]!r} does not name zones")
        numbers += range(first, last + 1)
    return tuple(numbers)


def of_earlier(zones: Iterable[Any]) -> tuple[int, ...]:
    """Returns the zones of today that zones of layout 4 or before consist of."""
    numbers = list(zones)
    if any(type(zone) is not int or not 0 <= zone < _EARLIER for zone in numbers) or len({*numbers}) < len(numbers):
        raise Unreadable("it names a zone that there was not, or one twice")
    return tuple(sorted(zone + _EARLIER * part for zone in numbers for part in range(1 << _LAST)))


def named(zones: Any) -> tuple[int, ...]:
    """Returns the zones that a message names; versions with layout 4 or before listed them."""
    if isinstance(zones, str):
        return in_ranges(zones)
    if isinstance(zones, list):
        return of_earlier(zones)
    raise Unreadable("it names no zones")


def shares(owners: Sequence[str]) -> dict[str, str]:
    """Returns what each owner has, in ranges, given the owner of each zone."""
    found: dict[str, list[int]] = {}
    for zone, name in enumerate(owners):
        found.setdefault(name, []).append(zone)
    return {name: as_ranges(zones) for name, zones in found.items()}


def owners(shares: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the owner of each zone, given what each has; nobody is the empty name."""
    found = [""] * ZONES_IN_ALL
    for name, text in shares.items():
        for zone in in_ranges(text):
            found[zone] = name
    return tuple(found)
