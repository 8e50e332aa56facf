"""This module makes the web of the green experiments on freshness: 3,000 pages in six countries, on sixty hosts."""

from dataclasses import dataclass

import numpy as np

from experiments.green_choice import HIGH
from gossamer.arrays import F64, Indices
from gossamer.carbon.energy import carbon_g
from gossamer.carbon.signals import HostPlaces
from gossamer.carbon.sources import signal
from gossamer.geography import coordinates

COUNTRIES = ("US", "DE", "FR", "IN", "AU", "BR")
PAGES, HOSTS = 3000, 60
DAY_S, HOUR_S = 86_400.0, 3600.0
BEGIN_S = 1_775_001_600.0  # 1 April 2026
VISITS_PER_DAY = 0.1 * PAGES


@dataclass(frozen=True)
class GreenWeb:
    change_per_s: F64
    weight: F64
    energy_j: F64
    host: Indices
    country: Indices  # of each page, a place in COUNTRIES
    g_per_kwh: F64  # hours x countries

    def carbon_g(self, hour: int) -> F64:
        """Of a visit to each page."""
        return carbon_g(self.energy_j, self.g_per_kwh[hour % len(self.g_per_kwh)][self.country])


def made(seed: int, kind: str, days: int) -> GreenWeb:
    """Changes and weights as in `gossamer lab refresh`; sizes lognormal with a median of 30 KB."""
    random = np.random.default_rng(seed)
    change_per_s = random.lognormal(np.log(0.1 / DAY_S), 2.0, PAGES)
    weight = random.pareto(1.5, PAGES) + 1
    energy_j = HIGH.joules(random.lognormal(np.log(30_000), 1.2, PAGES))
    host = random.integers(0, HOSTS, PAGES)
    places = HostPlaces(np.array(COUNTRIES), np.array(COUNTRIES), *coordinates(COUNTRIES))
    read = signal(kind).read
    rows = [read(places, BEGIN_S + HOUR_S * (hour + 0.5)).g_per_kwh for hour in range(24 * days)]
    return GreenWeb(change_per_s, weight, energy_j, host, host % len(COUNTRIES), np.array(rows))


def fresh_s(change_per_s: F64, from_age_s: F64, to_age_s: F64) -> F64:
    """How long a copy of these ages is expected to be the current one."""
    expected: F64 = (np.exp(-change_per_s * from_age_s) - np.exp(-change_per_s * to_age_s)) / change_per_s
    return expected
