"""This module computes from all archives which hosts should change sites, and orders the sites to hand them over."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossamer.archive import query
from gossamer.archive.places import exists, opened
from gossamer.archive.reading import Reading, reading
from gossamer.arrays import F64, I64
from gossamer.cluster import site_service
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.remote_site import Connections
from gossamer.cluster.site_list import of_file
from gossamer.cluster.sites import Sites
from gossamer.errors import ConfigError, GossamerError, SiteError, StoreError
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.incidence import incidence
from gossamer.placement.network import TELLING_BYTES, RoundTrips
from gossamer.placement.partitioners import kilometres_to, page_tolls, priced
from gossamer.placement.rebalance import Moves, moves
from gossamer.placement.ring import Ring
from gossamer.sharing.placing import KIND
from gossamer.web.url import host_key

Columns = dict[str, npt.NDArray[Any]]

_PAGES = "SELECT host, count(*) AS pages FROM pages GROUP BY host ORDER BY host"
_LINKS = """SELECT source.host AS source, target.host AS target, count(*) AS links
    FROM links JOIN pages source ON source.key = links.source JOIN pages target ON target.key = links.target
    WHERE links.verdict IN ('followed', 'later') AND source.host <> target.host GROUP BY ALL"""
_FAR = f"""SELECT host, any_value(country) AS country, median(connect_s) FILTER (connect_s > 0) AS connect_s,
    median(1e6 * (elapsed_s - response_s) / wire_bytes) FILTER (connect_s = 0 AND wire_bytes >= {TELLING_BYTES}) AS mb_s
    FROM visits WHERE country <> '' GROUP BY host"""
_NOWHERE = ("", None, None)
Far = Mapping[str, tuple[str, float | None, float | None]]  # by host: as _FAR


class Proposal(NamedTuple):
    hosts: list[str]  # all that are known
    site: I64  # of each, now: a number in `names`
    names: list[str]
    moves: Moves

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row for each host that should move."""
        found = zip(self.moves.host.tolist(), self.moves.to.tolist(), self.moves.links, self.moves.pages, strict=True)
        return [
            {"host": self.hosts[host], "from": self.names[int(self.site[host])], "to": self.names[to]}
            | {"pages": int(pages), "links_saved": int(links)}
            for host, to, links, pages in found
        ]

    def too_large(self) -> list[dict[str, Any]]:
        """Returns hosts that are too large for their site: a host is never split, and that costs balance."""
        return [
            {"site": self.names[each.part], "excess": each.excess, "host": self.hosts[each.vertex], "pages": each.size}
            for each in self.moves.too_large
        ]

    def summary(self) -> dict[str, Any]:
        found = self.moves
        return {
            "hosts": len(found.host),
            "pages": int(found.pages.sum()),
            "crossing_before": round(found.crossing_before, 4),
            "crossing_after": round(found.crossing_after, 4),
            "fullest_before": round(found.fullest_before, 3),
            "fullest_after": round(found.fullest_after, 3),
            "saved_bytes": round(found.saved_bytes),
            "moved_bytes": round(found.moved_bytes),
            "too_large": self.too_large(),
        }


def check_movable(federation: Federation) -> None:
    if federation.shared.partitioner == "ring":
        raise ConfigError(
            "with the partitioner ring a host's name alone says which site has it, and nothing can be moved; "
            'a crawl that begins with partitioner = "fennel" (or ldg, region) can be rebalanced'
        )


def propose(federation: Federation, most_bytes: float = inf) -> Proposal:
    """Returns what should move, for no more than so many bytes."""
    check_movable(federation)
    members = of_file(federation)
    pages, links, far, placed = reading(Sites(federation), lambda at: _crawled(at, HostMap(Ring(members.weights))))
    hosts = [str(host) for host in pages["host"]]
    if not hosts:
        raise ConfigError(f"no site of {federation.path.name} has pages yet: crawl first")
    number = {host: place for place, host in enumerate(hosts)}
    source, target = (np.array([number[str(host)] for host in links[end]], np.int64) for end in ("source", "target"))
    weight, size = np.asarray(links["links"], np.float64), np.asarray(pages["pages"], np.int64)
    graph = incidence(source, target, len(hosts), weight, size)
    site = placed.of_keys(np.array([host_key(host) for host in hosts], np.int64))
    names = list(members.weights)
    sites = {name: {**asdict(federation.sites[name]), "weight": members.weights[name]} for name in names}
    open_, goal = priced(sites)
    part = np.searchsorted(open_, site).astype(np.int32)
    toll = page_tolls(members.partitioner, sites, size, lambda: _kilometres(sites, hosts, site, far))
    found = moves(graph, goal, part, federation.config.crawl.seed, toll[:, open_], most_bytes)
    large = [replace(each, part=int(open_[each.part])) for each in found.too_large]
    return Proposal(hosts, site, names, replace(found, to=open_[found.to], too_large=large))


def _crawled(at: Reading, hosts: HostMap) -> tuple[Columns, Columns, Far, HostMap]:
    """Returns hosts with their pages, links between hosts, where hosts are, and which site has each."""
    with closing(query.open_reading(at)) as database:
        pages, links = database.execute(_PAGES).fetchnumpy(), database.execute(_LINKS).fetchnumpy()
        far = {host: (*found,) for host, *found in database.execute(_FAR).fetchall()}
    return pages, links, far, _recorded(at, hosts)


def _kilometres(
    sites: Mapping[str, Mapping[str, Any]],
    hosts: Sequence[str],
    site: I64,
    far: Far,
) -> F64:
    """Returns distances from hosts to sites: by a host's own round trips where it is crawled, else by its country's.
    Of bandwidth only the country's counts: a host that is slow itself is slow from everywhere."""
    facts = [far.get(host, _NOWHERE) for host in hosts]
    countries = [country for country, _, _ in facts]
    own, mb_s = (np.array([each[number] or np.nan for each in facts], np.float64) for number in (1, 2))
    plain, measured = RoundTrips(list(sites)), RoundTrips(list(sites))
    for number, name in enumerate(sites):
        here = np.flatnonzero(site == number)
        there = [countries[row] for row in here.tolist()]
        for each in (plain, measured):
            each.measure(name, there, np.nan_to_num(own[here]).tolist())
        measured.measure_bandwidth(name, there, np.nan_to_num(mb_s[here]).tolist())
    round_trip_s = measured.of(countries)
    row = np.arange(len(hosts))
    round_trip_s[row, site] += np.nan_to_num(own - plain.of(countries)[row, site])
    return kilometres_to(sites, countries, round_trip_s)


def carry_out(federation: Federation, proposal: Proposal) -> dict[str, int]:
    """Orders each site to give hosts away. It hands them over at once, or when it is started again. Returns how many
    hosts each gives away."""
    by_site: dict[str, dict[str, str]] = {}
    for row in proposal.rows():
        by_site.setdefault(row["from"], {})[row["host"]] = row["to"]
    done: list[str] = []
    for site, hosts in by_site.items():
        try:
            give_away(federation, site, hosts)
        except GossamerError as error:
            already = f"; {', '.join(done)} had the order already" if done else ""
            raise SiteError(f"site {site} cannot be ordered to give hosts away: {error}{already}") from None
        done.append(site)
    return {site: len(hosts) for site, hosts in by_site.items()}


def give_away(federation: Federation, site: str, hosts: Mapping[str, str]) -> None:
    """Orders a site to hand hosts over to the sites that they are given here: by its archive, if we can write to it,
    else through its server."""
    place = federation.directory(site)
    try:
        if exists(place):
            site_service.give_away(opened(place), hosts)
            return
    except StoreError:  # its server may
        pass
    with closing(Connections(federation)) as connections:
        connections.order(site, site_service.ORDERS, site_service.HandOver(hosts=dict(hosts)))


def host_map(federation: Federation) -> HostMap:
    """Returns the host map as all sites together know it."""
    return reading(Sites(federation), lambda at: _recorded(at, HostMap(Ring(of_file(federation).weights))))


def _recorded(at: Reading, hosts: HostMap) -> HostMap:
    for agent, snapshot in at.snapshots.items():
        for path in at.of_agent(agent, snapshot.files.get(KIND, [])):
            hosts.record(np.frombuffer(path.read_bytes(), ENTRY))
    return hosts
