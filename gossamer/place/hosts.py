"""Partitioners of a running crawl: the site of hosts that have just been discovered, by what is known of them then."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.errors import ConfigError
from gossamer.place.live import RULES, Live
from gossamer.place.ring import Ring
from gossamer.place.task import Goal
from gossamer.web.url import host_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
HostKeys = npt.NDArray[np.uint32]
Partitioner = Callable[[HostKeys, Sequence[str], F8, F8], I8]

NAMES = ("ring", "region", *sorted(RULES))


def partitioner(name: str, sites: Mapping[str, Mapping[str, Any]]) -> Partitioner | None:
    """By name; None for the ring, which needs no map. `sites` has the weight and the countries of each."""
    if name not in NAMES:
        raise ConfigError(f'there is no partitioner "{name}"; known are {", ".join(NAMES)}')
    if name == "ring":
        return None
    if name == "region":
        return _by_region(sites)
    weights = np.array([float(site["weight"]) for site in sites.values()])
    open_ = np.flatnonzero(weights)  # the others take no hosts
    goal = Goal(len(open_), shares=tuple(weights[open_].tolist()))

    def by_links(hosts: HostKeys, _urls: Sequence[str], links: F8, pages: F8) -> I8:
        live = Live(goal, RULES[name])
        for site, size in enumerate(pages[open_].astype(np.int64).tolist()):
            live.grow(site, size, float(size))
        found = np.empty(len(hosts), np.int64)
        # Those with most links first: they are the ones worth a good place.
        for row in np.argsort(-links.sum(axis=1), kind="stable").tolist():
            found[row] = open_[live.place(links[row, open_], 1)]
        return found

    return by_links


def _by_region(sites: Mapping[str, Mapping[str, Any]]) -> Partitioner:
    """By the country that a host's name ends in; the others by the ring."""
    ring = Ring({name: site["weight"] for name, site in sites.items()})
    numbered = [(number, site) for number, site in enumerate(sites.values()) if site["weight"]]
    owner = {country.lower(): number for number, site in numbered for country in site["countries"]}

    def by_region(hosts: HostKeys, urls: Sequence[str], _links: F8, _pages: F8) -> I8:
        found = ring.of_keys(hosts).copy()
        for row, url in enumerate(urls):
            country = host_of(url).rpartition(".")[2] if url else ""
            found[row] = owner.get(country, found[row])
        return found

    return by_region
