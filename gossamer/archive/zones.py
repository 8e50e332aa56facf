"""A zone is a part of all hosts, by their keys: the unit that agents of a site own, and hand to each other.

The number of a zone is the last four bits of a host's key, then its first eight. The ring of sites cuts keys by their
first bits: the last ones make sure that a site's hosts are spread evenly over the zones (docs/decisions/0032). Up to
layout 4 a zone was the first eight bits alone: 16 zones of today.

In files and messages zones are ranges, as `0-20,256`: they stay short, however many there are.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from gossamer.errors import Unreadable

FIRST_BITS, LAST_BITS = 8, 4  # of a host's key
ZONES_IN_ALL = 1 << (FIRST_BITS + LAST_BITS)
_EARLIER = 1 << FIRST_BITS  # zones, up to layout 4
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def as_ranges(zones: Iterable[int]) -> str:
    """Returns the text for these zones."""
    runs = groupby(enumerate(sorted({*zones})), lambda numbered: numbered[1] - numbered[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(pairs) for _, pairs in runs)]
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ends)


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
    return tuple(sorted(zone + _EARLIER * part for zone in numbers for part in range(1 << LAST_BITS)))


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
