"""This module has the partitioners of a running crawl: they give hosts that were just discovered to sites."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gossamer.arrays import F64, I64, HostKeys
from gossamer.errors import ConfigError
from gossamer.geography import coordinates, kilometres
from gossamer.placement.network import RoundTrips, as_kilometres, trip_s, wait_s
from gossamer.placement.partition import NOTHING, Goal
from gossamer.placement.prices import closeness, link_cost, tolls
from gossamer.placement.ring import Ring
from gossamer.placement.stream import FENNEL, LDG, Rule, choose, learn, settle
from gossamer.web.url import host_of

Partitioner = Callable[[HostKeys, Sequence[str], F64, F64], I64]

Locate = Callable[[Sequence[str]], Sequence[str]]  # the countries of host names; empty if unknown
Far = Callable[[Sequence[str]], F64]  # kilometres from the hosts of URLs to each site, nan if unknown

RULES: dict[str, Rule] = {"fennel": FENNEL, "ldg": LDG}
START = 1_000  # pages: before so many are known, balance does not matter
DISTANCE = "distance"
NAMES = ("ring", "region", DISTANCE, *sorted(RULES), *(f"{name}+{DISTANCE}" for name in sorted(RULES)))
CPU_S_PER_PAGE = 0.8e-3  # benchmarks/RESULTS.md
LINKS_PER_KM = 1e-3  # what a thousand kilometres to a host weigh against its links with hosts of a site
NEAREST = Rule(gamma=0.0, fading=0.0, slack=0.0, ties_first=False)  # only the way counts, and who has room
ROOM = 1.5  # by distance a site takes at most this times its share
SAME_KM = 500.0  # where only the country is known, sites that are no further than this from the nearest are as near


class Live:
    """LDG or FENNEL while n and m grow: how full each part is, and how much has been seen.

    A part here is a site, a vertex a host, its size its pages. The host map remembers places, not this: after a restart
    `grow` counts what it knows."""

    def __init__(self, goal: Goal, rule: Rule = FENNEL, start: int = START) -> None:
        self._goal = goal
        self._rule = rule._replace(slack=goal.slack)
        self.parts = goal.before(start, 0.0)

    def place(self, links: F64, size: int = 1, toll: F64 | None = None) -> int:
        """Returns the part for a host that has so many links with hosts of each part, as far as is known now."""
        learn(self.parts, self._rule, size, float(links.sum()))
        near = self._goal.closeness @ links if len(self._goal.closeness) else links
        part = choose(near, np.zeros(len(links)) if toll is None else toll, size, self.parts, self._rule.ties_first)
        settle(self.parts, self._rule, part, size)
        return part

    def grow(self, part: int, size: int, links: float = 0.0) -> None:
        """Counts pages and links that a part has besides."""
        learn(self.parts, self._rule, size, links)
        settle(self.parts, self._rule, part, size)


def partitioner(
    name: str,
    sites: Mapping[str, Mapping[str, Any]],
    locate: Locate,
    round_trips: RoundTrips,
    blocks: Locate | None = None,
) -> Partitioner | None:
    """Returns a partitioner by name; None for the ring, which needs no map. `sites` has weight, countries, latitude and
    longitude of each. `round_trips` may change as the crawl goes on. `blocks` tells the blocks of hosts' addresses."""
    if name not in NAMES:
        raise ConfigError(f'there is no partitioner "{name}"; known are {", ".join(NAMES)}')
    if name == "ring":
        return None
    if name == "region":
        return _by_region(sites)
    rule, _, _ = name.partition("+")

    def far(urls: Sequence[str]) -> F64:
        hosts = [host_of(url) if url else "" for url in urls]
        countries = locate(hosts)
        return kilometres_to(sites, countries, round_trips.of(countries, blocks(hosts) if blocks else ()))

    if rule == DISTANCE:
        return _by_distance(sites, far)
    return _by_links(name, sites, RULES[rule], far)


def _by_links(name: str, sites: Mapping[str, Mapping[str, Any]], rule: Rule, far: Far) -> Partitioner:
    """A host goes where most links with hosts of a site are, unless that is too full; or, if asked for, too far."""
    open_, goal = priced(sites)

    def by_links(hosts: HostKeys, urls: Sequence[str], links: F64, pages: F64) -> I64:
        live = Live(goal, rule)
        for site, size in enumerate(pages[open_].astype(np.int64).tolist()):
            live.grow(site, size, float(size))
        toll = page_tolls(name, sites, np.ones(len(hosts), np.int64), lambda: far(urls))[:, open_]
        found = np.empty(len(hosts), np.int64)
        # Those with most links first: they are the ones worth a good place.
        for row in np.argsort(-links.sum(axis=1), kind="stable").tolist():
            found[row] = open_[live.place(links[row, open_], 1, toll[row])]
        return found

    return by_links


def priced(sites: Mapping[str, Mapping[str, Any]]) -> tuple[I64, Goal]:
    """Returns the sites that take hosts, by number, and their shares and link costs as the goal of a partition."""
    open_ = np.flatnonzero([bool(site["weight"]) for site in sites.values()])
    shares = tuple(float(site["weight"]) for site in sites.values() if site["weight"])
    cost = _link_cost(sites)[np.ix_(open_, open_)]
    return open_, Goal(len(open_), shares=shares, closeness=closeness(cost) if cost.any() else NOTHING)


def page_tolls(name: str, sites: Mapping[str, Mapping[str, Any]], pages: I64, far: Callable[[], F64]) -> F64:
    """Returns what so many pages of each host cost more at each site than at the cheapest, in the dearest links: the
    work on them and the wait for them, by their prices. Where waiting has no price, the way counts as `distance_tolls`
    says, if the partitioner's name asks for it."""
    open_ = _each(sites, "weight") > 0
    dearest = float(_link_cost(sites)[np.ix_(open_, open_)].max(initial=0.0))
    cost = np.tile(_each(sites, "cpu_per_hour") * CPU_S_PER_PAGE / 3600, (len(pages), 1))
    waiting = _each(sites, "wait_per_hour") / 3600
    if waiting.any():
        way_km = far()
        cost += np.where(np.isnan(way_km).any(axis=1, keepdims=True), 0.0, wait_s(way_km) * waiting)
    toll = tolls(cost, pages, dearest) if dearest else np.zeros(cost.shape)
    return toll if waiting.any() or DISTANCE not in name else toll + distance_tolls(far()) * pages[:, None]


def _link_cost(sites: Mapping[str, Mapping[str, Any]]) -> F64:
    places = _each(sites, "latitude"), _each(sites, "longitude")
    waiting = _each(sites, "wait_per_hour") / 3600
    trips = trip_s(kilometres(*places, *places)) if waiting.any() else np.zeros((len(sites), len(sites)))
    return link_cost(_each(sites, "egress_per_gb"), trips, waiting)


def _each(sites: Mapping[str, Mapping[str, Any]], name: str) -> F64:
    return np.array([float(site[name]) for site in sites.values()])


def _by_distance(sites: Mapping[str, Mapping[str, Any]], far_from: Far) -> Partitioner:
    """A host goes to the nearest site that has room, of sites as near to the emptiest; where distances are unknown, to
    the ring's."""
    ring = Ring({name: site["weight"] for name, site in sites.items()})
    open_, goal = priced(sites)
    goal = replace(goal, slack=ROOM, closeness=NOTHING)

    def by_distance(hosts: HostKeys, urls: Sequence[str], _links: F64, pages: F64) -> I64:
        live = Live(goal, NEAREST)
        for site, size in enumerate(pages[open_].astype(np.int64).tolist()):
            live.grow(site, size)
        toll = distance_tolls(far_from(urls)[:, open_], unknown=np.nan)
        found: I64 = ring.of_keys(hosts).copy()
        for row in range(len(hosts)):
            if np.isnan(toll[row]).any():
                live.grow(int(np.searchsorted(open_, found[row])), 1)
            else:
                found[row] = open_[live.place(np.zeros(len(open_)), 1, toll[row])]
        return found

    return by_distance


def kilometres_to(sites: Mapping[str, Mapping[str, Any]], countries: Sequence[str], round_trip_s: F64) -> F64:
    """Returns distances from hosts in these countries to each site: by round trips where they were measured, or else
    along the Earth; nan if unknown."""
    along = kilometres(*coordinates(countries), _each(sites, "latitude"), _each(sites, "longitude"))
    with np.errstate(invalid="ignore"):
        least = np.nan_to_num(along, nan=np.inf).min(axis=1, keepdims=True, initial=np.inf)
        along = np.where(along - least <= SAME_KM, least, along)  # a country's middle says no more
    return np.where(np.isnan(round_trip_s), along, as_kilometres(round_trip_s))


def distance_tolls(kilometres: F64, unknown: float = 0.0) -> F64:
    """Returns what the way to each site costs more than to the nearest, in links, for each page."""
    more = LINKS_PER_KM * (kilometres - kilometres.min(axis=1, keepdims=True, initial=np.inf))
    return np.where(np.isnan(kilometres).any(axis=1, keepdims=True), unknown, more)


def check_places(name: str, sites: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises an error if a partitioner that goes by distance, or a price of waiting, needs to know where sites are, and
    nobody knows."""
    by = (
        f"the partitioner {name}"
        if DISTANCE in name
        else "wait_per_hour"
        if _each(sites, "wait_per_hour").any()
        else ""
    )
    for site, facts in sites.items():
        if by and not (-90 <= facts["latitude"] <= 90 and -180 <= facts["longitude"] <= 180):
            raise ConfigError(f"{by} needs to know where {site} is: write its latitude and longitude, in degrees")


def _by_region(sites: Mapping[str, Mapping[str, Any]]) -> Partitioner:
    """A host goes by the country that its name ends in, or else by the ring."""
    ring = Ring({name: site["weight"] for name, site in sites.items()})
    numbered = [(number, site) for number, site in enumerate(sites.values()) if site["weight"]]
    owner = {country.lower(): number for number, site in numbered for country in site["countries"]}

    def by_region(hosts: HostKeys, urls: Sequence[str], _links: F64, _pages: F64) -> I64:
        found = ring.of_keys(hosts).copy()
        for row, url in enumerate(urls):
            country = host_of(url).rpartition(".")[2] if url else ""
            found[row] = owner.get(country, found[row])
        return found

    return by_region
