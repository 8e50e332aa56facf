"""Partitioners of a running crawl: the site of hosts that have just been discovered, by what is known of them then."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.errors import ConfigError
from gossamer.place.distance import kilometres, round_trip_s
from gossamer.place.live import RULES, Live
from gossamer.place.ring import Ring
from gossamer.place.task import Goal
from gossamer.web.url import host_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
HostKeys = npt.NDArray[np.uint32]
Partitioner = Callable[[HostKeys, Sequence[str], F8, F8], I8]
Where = Callable[[str], tuple[float, float] | None]  # latitude and longitude of a host, if known

NAMES = ("ring", "region", "distance", "ldg", "fennel", "ldg+distance", "fennel+distance")


def partitioner(name: str, sites: Mapping[str, Mapping[str, Any]], where: Where = lambda _: None) -> Partitioner | None:
    """By name; None for the ring, which needs no map. `sites` has weight, latitude, longitude and countries of each."""
    if name not in NAMES:
        raise ConfigError(f'there is no partitioner "{name}"; known are {", ".join(NAMES)}')
    names = sorted(sites)
    ring = Ring({site: sites[site]["weight"] for site in names})
    if name == "ring":
        return None
    if name == "region":
        return _by_region(names, sites, ring)
    if name == "distance":
        return _by_distance(names, sites, ring, where)
    rule, _, distance = name.partition("+")
    goal = Goal(len(names), shares=tuple(float(sites[site]["weight"]) for site in names))

    def by_links(hosts: HostKeys, urls: Sequence[str], links: F8, pages: F8) -> I8:
        live = Live(goal, RULES[rule])
        for site, size in enumerate(pages.astype(np.int64).tolist()):
            live.grow(site, size, float(size))
        found = np.empty(len(hosts), np.int64)
        tolls = _tolls(names, sites, urls, where) if distance else None
        # Those with most links first: they are the ones worth a good place.
        for row in np.argsort(-links.sum(axis=1), kind="stable").tolist():
            found[row] = live.place(links[row], 1, tolls[row] if tolls is not None else None)
        return found

    return by_links


def _by_region(names: Sequence[str], sites: Mapping[str, Mapping[str, Any]], ring: Ring) -> Partitioner:
    """By the country that a host's name ends in; the others by the ring."""
    owner = {country.lower(): number for number, site in enumerate(names) for country in sites[site]["countries"]}

    def by_region(hosts: HostKeys, urls: Sequence[str], _links: F8, _pages: F8) -> I8:
        found = ring.of_keys(hosts).copy()
        for row, url in enumerate(urls):
            country = host_of(url).rpartition(".")[2] if url else ""
            found[row] = owner.get(country, found[row])
        return found

    return by_region


def _by_distance(names: Sequence[str], sites: Mapping[str, Mapping[str, Any]], ring: Ring, where: Where) -> Partitioner:
    """The nearest site; hosts of which nobody knows where they are, by the ring."""

    def by_distance(hosts: HostKeys, urls: Sequence[str], _links: F8, _pages: F8) -> I8:
        found = ring.of_keys(hosts).copy()
        at = [where(host_of(url)) if url else None for url in urls]
        known = [row for row, place in enumerate(at) if place is not None]
        if known:
            found[known] = _distances(names, sites, [at[row] for row in known]).argmin(axis=1)
        return found

    return by_distance


def _distances(names: Sequence[str], sites: Mapping[str, Mapping[str, Any]], places: Sequence[Any]) -> F8:
    at = np.array(places, np.float64).reshape(-1, 2)
    ours = np.array([(sites[site]["latitude"], sites[site]["longitude"]) for site in names], np.float64)
    return kilometres(at[:, 0], at[:, 1], ours[:, 0], ours[:, 1])


def _tolls(names: Sequence[str], sites: Mapping[str, Mapping[str, Any]], urls: Sequence[str], where: Where) -> F8:
    """What each site costs each host more than the nearest: a link for each 100 ms of round trip."""
    toll = np.zeros((len(urls), len(names)))
    for row, url in enumerate(urls):
        place = where(host_of(url)) if url else None
        if place is not None:
            trips = round_trip_s(_distances(names, sites, [place]))[0]
            toll[row] = (trips - trips.min()) / 0.1
    return toll
