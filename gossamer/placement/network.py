"""`RoundTrips` keeps the network latency that sites have measured: from each of them to hosts of each country."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.arrays import F64

_KEEP = 0.8  # of what was known, when something new is measured: networks change
_CHANGED = 0.1  # smaller changes are not reported to other sites
# A fit to measured round trips between cities (R² = .79): seconds that each takes, and for each kilometre.
_FIXED_S, _PER_KM_S = 14.5e-3, 0.0156e-3


class RoundTrips:
    """The table has a row for each country and a column for each site: its size does not grow with hosts."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = list(sites)
        self._seconds: dict[str, F64] = {}  # by country: a value for each site, nan if none was measured
        self._reported: dict[str, float] = {}

    def of(self, countries: Sequence[str]) -> F64:
        """Returns seconds from hosts in these countries to each site, a row for each host; nan if not measured."""
        unknown = np.full(len(self._sites), np.nan)
        rows = [self._seconds.get(country, unknown) for country in countries]
        return np.array(rows).reshape(len(countries), len(self._sites))

    def measure(self, site: str, countries: Sequence[str], connect_s: Sequence[float]) -> None:
        """Learns from visits how long connecting took; 0 where no connection was made."""
        seconds = np.asarray(connect_s, np.float64)
        of = np.asarray(countries, np.str_)
        for country in np.unique(of[(seconds > 0) & (of != "")]).tolist():
            here = self._row(country)
            number = self._sites.index(site)
            new = float(np.median(seconds[(seconds > 0) & (of == country)]))
            before = float(here[number])
            here[number] = new if np.isnan(before) else _KEEP * before + (1 - _KEEP) * new

    def news(self, site: str) -> dict[str, float]:
        """Returns what a site should report to others: what is new, or has changed by a tenth."""
        number = self._sites.index(site)
        now = {country: float(row[number]) for country, row in self._seconds.items() if not np.isnan(row[number])}
        news = {
            c: s for c, s in now.items() if abs(s - self._reported.get(c, 0.0)) > _CHANGED * self._reported.get(c, 0.0)
        }
        self._reported |= news
        return {country: round(seconds, 5) for country, seconds in news.items()}

    def receive(self, site: str, news: Mapping[str, float]) -> None:
        for country, seconds in news.items():
            self._row(country)[self._sites.index(site)] = seconds

    def as_dict(self) -> dict[str, Any]:
        """Returns the table by site, for the manifest."""
        found: dict[str, Any] = {site: {} for site in self._sites}
        for country, row in self._seconds.items():
            for site, seconds in zip(self._sites, row.tolist(), strict=True):
                if not np.isnan(seconds):
                    found[site][country] = round(seconds, 5)
        return {site: seconds for site, seconds in found.items() if seconds}

    def recall(self, state: Mapping[str, Mapping[str, float]]) -> None:
        for site, seconds in state.items():
            if site in self._sites:
                self.receive(site, seconds)

    def _row(self, country: str) -> F64:
        return self._seconds.setdefault(country, np.full(len(self._sites), np.nan))


def as_kilometres(round_trip_s: F64) -> F64:
    """Returns how far a host is by its round trip, so that measured hosts compare with those that were not. It is less
    than nothing for a host next door."""
    far: F64 = (round_trip_s - _FIXED_S) / _PER_KM_S
    return far
