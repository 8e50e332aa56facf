"""`RoundTrips` keeps latency and bandwidth that sites have measured: from each of them to hosts of each country, and of
each block of addresses that they have met of late. Two cities of a country are told apart by blocks."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.arrays import F64

_KEEP = 0.8  # of what was known, when something new is measured: networks change
_CHANGED = 0.1  # smaller changes are not reported to other sites
_BLOCKS = 512  # of addresses that are remembered; those that were measured longest ago are forgotten first
_BITS = {4: 16, 6: 32}  # of a block: what a network operator has at one place, more or less
# A fit to measured round trips between cities (R² = .79): seconds that each takes, and for each kilometre.
_FIXED_S, _PER_KM_S = 14.5e-3, 0.0156e-3
TELLING_BYTES = 15_000  # what arrives without a wait for an acknowledgement (RFC 6928) tells nothing of the bandwidth
_PAGE_MB = 0.03  # of a page, as it is sent
_TRIPS = 2  # of a page: to connect, and to ask
_MB = "mb "  # before a place: seconds that a megabyte takes from there


def block_of(address: str) -> str:
    """Returns the block of an address, as in "net 203.0.0.0/16"; empty if it is none."""
    try:
        version = ipaddress.ip_address(address).version
        return f"net {ipaddress.ip_network((address, _BITS[version]), strict=False)}"
    except ValueError:
        return ""


class RoundTrips:
    """The table has a row for each country or block, and a column for each site: its size does not grow with hosts."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = list(sites)
        self._seconds: dict[str, F64] = {}  # by country or block: a value for each site, nan if none was measured
        self._reported: dict[str, float] = {}

    def of(self, countries: Sequence[str], blocks: Sequence[str] = ()) -> F64:
        """Returns seconds from hosts in these countries to each site, a row for each host; nan if not measured. What
        was measured to a host's own block counts more than the mean of its country, where two sites or more know it:
        one alone tells nobody which is nearer. A site whose bandwidth to a host is less than another's is further away,
        by the round trips that a page's bytes take longer."""
        per_mb = self._known(countries, blocks, _MB)
        least = np.nan_to_num(per_mb, nan=np.inf).min(axis=1, keepdims=True, initial=np.inf)
        longer_s: F64 = np.nan_to_num(per_mb - least) * _PAGE_MB / _TRIPS
        return self._known(countries, blocks) + longer_s

    def _known(self, countries: Sequence[str], blocks: Sequence[str], what: str = "") -> F64:
        of_country = self._rows([what + country for country in countries])
        if not blocks:
            return of_country
        of_block = self._rows([what + block for block in blocks])
        is_told = (~np.isnan(of_block)).sum(axis=1, keepdims=True) > 1
        return np.where(is_told & ~np.isnan(of_block), of_block, of_country)

    def measure_bandwidth(self, site: str, places: Sequence[str], mb_s: Sequence[float]) -> None:
        """Learns how long a megabyte took from these countries or blocks; 0 where a visit does not tell."""
        self.measure(site, [place and _MB + place for place in places], mb_s)

    def measure(self, site: str, places: Sequence[str], connect_s: Sequence[float]) -> None:
        """Learns from visits how long connecting took, to these countries or blocks; 0 where no connection was made."""
        seconds = np.asarray(connect_s, np.float64)
        of = np.asarray(places, np.str_)
        for place in np.unique(of[(seconds > 0) & (of != "")]).tolist():
            here = self._row(place)
            number = self._sites.index(site)
            new = float(np.median(seconds[(seconds > 0) & (of == place)]))
            before = float(here[number])
            here[number] = new if np.isnan(before) else _KEEP * before + (1 - _KEEP) * new

    def news(self, site: str) -> dict[str, float]:
        """Returns what a site should report to others: what is new, or has changed by a tenth."""
        number = self._sites.index(site)
        now = {place: float(row[number]) for place, row in self._seconds.items() if not np.isnan(row[number])}
        news = {
            c: s for c, s in now.items() if abs(s - self._reported.get(c, 0.0)) > _CHANGED * self._reported.get(c, 0.0)
        }
        self._reported = {place: s for place, s in self._reported.items() if place in now} | news
        return {place: round(seconds, 5) for place, seconds in news.items()}

    def receive(self, site: str, news: Mapping[str, float]) -> None:
        for place, seconds in news.items():
            self._row(place)[self._sites.index(site)] = seconds

    def as_dict(self) -> dict[str, Any]:
        """Returns the table by site, for the manifest."""
        found: dict[str, Any] = {site: {} for site in self._sites}
        for place, row in self._seconds.items():
            for site, seconds in zip(self._sites, row.tolist(), strict=True):
                if not np.isnan(seconds):
                    found[site][place] = round(seconds, 5)
        return {site: seconds for site, seconds in found.items() if seconds}

    def recall(self, state: Mapping[str, Mapping[str, float]]) -> None:
        for site, seconds in state.items():
            if site in self._sites:
                self.receive(site, seconds)

    def _rows(self, places: Sequence[str]) -> F64:
        unknown = np.full(len(self._sites), np.nan)
        rows = [self._seconds.get(place, unknown) for place in places]
        return np.array(rows).reshape(len(places), len(self._sites))

    def _row(self, place: str) -> F64:
        """Returns the row of a country or block. Blocks are kept in the order in which they were measured last."""
        row = self._seconds.pop(place, None)
        self._seconds[place] = row = np.full(len(self._sites), np.nan) if row is None else row
        kind, is_block, _ = place.partition("net ")
        alike = is_block and len(self._seconds) > _BLOCKS
        for old in [each for each in self._seconds if each.startswith(f"{kind}net ")][:-_BLOCKS] if alike else ():
            del self._seconds[old]
        return row


def as_kilometres(round_trip_s: F64) -> F64:
    """Returns how far a host is by its round trip, so that measured hosts compare with those that were not. It is less
    than nothing for a host next door."""
    return (round_trip_s - _FIXED_S) / _PER_KM_S


def wait_s(kilometres: F64) -> F64:
    """Returns how long a page is waited for from so far, beside its bytes: the way there and back, twice."""
    return _TRIPS * trip_s(kilometres)


def trip_s(kilometres: F64) -> F64:
    return _FIXED_S + _PER_KM_S * kilometres
