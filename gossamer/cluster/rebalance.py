"""This module computes from all archives which hosts should change sites, and orders the sites to hand them over."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

from gossamer.archive import query
from gossamer.archive.manifest import MOVES
from gossamer.archive.places import opened
from gossamer.arrays import F64, I64
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.location import Sites
from gossamer.cluster.site_list import of_file
from gossamer.crawl.inbox import Inbox
from gossamer.errors import ConfigError
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.incidence import incidence
from gossamer.placement.network import RoundTrips
from gossamer.placement.partitioners import DISTANCE, distance_tolls, kilometres_to, priced, work_tolls
from gossamer.placement.rebalance import Moves, moves
from gossamer.placement.ring import Ring
from gossamer.sharing.placing import hostmap_files
from gossamer.web.url import host_key

Columns = dict[str, npt.NDArray[Any]]

_PAGES = "SELECT host, count(*) AS pages FROM pages GROUP BY host ORDER BY host"
_LINKS = """SELECT source.host AS source, target.host AS target, count(*) AS links
    FROM links JOIN pages source ON source.key = links.source JOIN pages target ON target.key = links.target
    WHERE links.verdict IN ('followed', 'later') AND source.host <> target.host GROUP BY ALL"""
_FAR = """SELECT host, any_value(country) AS country, median(connect_s) FILTER (connect_s > 0) AS connect_s
    FROM visits WHERE country <> '' GROUP BY host"""


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


def propose(federation: Federation) -> Proposal:
    members = of_file(federation)
    if members.partitioner == "ring":
        raise ConfigError(
            "with the partitioner ring a host's name alone says which site has it, and nothing can be moved; "
            'a crawl that begins with partitioner = "fennel" (or ldg, region) can be rebalanced'
        )
    if absent := [f"{site} ({federation.directory(site)})" for site in federation.elsewhere]:
        raise ConfigError(f"a rebalance reads all sites' archives; on this machine is none of {', '.join(absent)}")
    pages, links, far = query.with_database(Sites(federation), _crawled)
    hosts = [str(host) for host in pages["host"]]
    if not hosts:
        raise ConfigError(f"no site of {federation.path.name} has pages yet: crawl first")
    number = {host: place for place, host in enumerate(hosts)}
    source, target = (np.array([number[str(host)] for host in links[end]], np.int64) for end in ("source", "target"))
    weight, size = np.asarray(links["links"], np.float64), np.asarray(pages["pages"], np.int64)
    graph = incidence(source, target, len(hosts), weight, size)
    site = host_map(federation).of_keys(np.array([host_key(host) for host in hosts], np.int64))
    names = list(members.weights)
    sites = {name: {**asdict(federation.sites[name]), "weight": members.weights[name]} for name in names}
    open_, goal = priced(sites)
    part = np.searchsorted(open_, site).astype(np.int32)
    toll = work_tolls(sites, size)
    if DISTANCE in members.partitioner:
        toll = toll + distance_tolls(_kilometres(sites, hosts, site, far)) * size[:, None]
    found = moves(graph, goal, part, federation.config.crawl.seed, toll[:, open_])
    large = [replace(each, part=int(open_[each.part])) for each in found.too_large]
    return Proposal(hosts, site, names, replace(found, to=open_[found.to], too_large=large))


def _crawled(
    database: duckdb.DuckDBPyConnection,
) -> tuple[Columns, Columns, dict[str, tuple[str, float | None]]]:
    """Returns hosts with their pages, links between hosts, and where hosts are."""
    pages, links = database.execute(_PAGES).fetchnumpy(), database.execute(_LINKS).fetchnumpy()
    return pages, links, {host: (country, seconds) for host, country, seconds in database.execute(_FAR).fetchall()}


def _kilometres(
    sites: Mapping[str, Mapping[str, Any]],
    hosts: Sequence[str],
    site: I64,
    far: Mapping[str, tuple[str, float | None]],
) -> F64:
    """Returns distances from hosts to sites: by a host's own round trips where it is crawled, else by its country's."""
    countries = [far.get(host, ("", None))[0] for host in hosts]
    own = np.array([far.get(host, ("", None))[1] or np.nan for host in hosts], np.float64)
    measured = RoundTrips(list(sites))
    for number, name in enumerate(sites):
        here = np.flatnonzero(site == number)
        measured.measure(name, [countries[row] for row in here.tolist()], np.nan_to_num(own[here]).tolist())
    round_trip_s = measured.of(countries)
    row = np.arange(len(hosts))
    round_trip_s[row, site] = np.where(np.isnan(own), round_trip_s[row, site], own)
    return kilometres_to(sites, countries, round_trip_s)


def carry_out(federation: Federation, proposal: Proposal) -> dict[str, int]:
    """Orders each site to give hosts away. It hands them over at once, or when it is started again. Returns how many
    hosts each gives away."""
    by_site: dict[str, dict[str, str]] = {}
    for row in proposal.rows():
        by_site.setdefault(row["from"], {})[row["host"]] = row["to"]
    for site, hosts in by_site.items():
        give_away(federation, site, hosts)
    return {site: len(hosts) for site, hosts in by_site.items()}


def give_away(federation: Federation, site: str, hosts: Mapping[str, str]) -> None:
    """Orders a site to hand hosts over to the sites that they are given here."""
    Inbox(opened(federation.directory(site))).add(json.dumps(dict(hosts)).encode(), MOVES)


def host_map(federation: Federation) -> HostMap:
    """Returns the host map as all sites together know it."""
    found = HostMap(Ring(of_file(federation).weights))
    for site in federation.here:
        store = opened(federation.directory(site))
        for name in hostmap_files(store):
            found.record(np.frombuffer(store.get(name), ENTRY))
    return found
