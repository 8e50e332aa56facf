"""This module crawls one graph in each mode between agents, and measures what Cho and Garcia-Molina define.

Of a crawl that made N visits to I distinct pages, of U that can be reached: coverage is I/U, overlap is (N - I)/I, and
the communication overhead is the number of exchanged URLs per page got.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import actual
from experiments.agents_scaling import events
from experiments.graphs import make
from gossamer import api
from gossamer.archive import query
from gossamer.archive.chain import snapshots
from gossamer.archive.store import Directory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.arrays import F64, I32, Keys
from gossamer.config import CROSS_OVER, FIREWALL
from gossamer.frontier.pages import zone_of_key
from gossamer.sim.graphs import Graph, load
from gossamer.sim.simulator import Conditions
from gossamer.testweb.running import RunningWeb

MODES = ("exchange", FIREWALL, CROSS_OVER)
_CONNECTIONS, _WIDTH = 16, 200


@dataclass(frozen=True)
class Crawled:
    """One crawl in one mode."""

    mode: str
    agents: int
    visits: int  # N
    pages: int  # I
    reachable: int  # U
    leaving: int  # links from an agent's page to another agent's
    sent_urls: int
    sent_bytes: int
    coverage_at: F64  # after each visit
    overlap_at: F64

    @classmethod
    def of(
        cls, mode: str, agents: int, visited: Keys, reachable: int, leaving: int, sent_urls: int, sent_bytes: int
    ) -> "Crawled":
        """`visited` are the pages, in the order of their visits."""
        first = np.zeros(len(visited), np.bool_)
        first[np.unique(visited, return_index=True)[1]] = True
        pages, visits = np.cumsum(first), np.arange(1, len(visited) + 1)
        curves = pages / reachable, (visits - pages) / pages
        return cls(mode, agents, len(visited), int(first.sum()), reachable, leaving, sent_urls, sent_bytes, *curves)

    @property
    def coverage(self) -> float:
        return self.pages / self.reachable

    @property
    def overlap(self) -> float:
        return (self.visits - self.pages) / self.pages

    def overlap_when(self, coverage: float) -> float | None:
        """How much had been fetched twice when so much was covered; nothing if that never was."""
        place = int(np.searchsorted(self.coverage_at, coverage))
        return float(self.overlap_at[place]) if place < len(self.overlap_at) else None


@dataclass(frozen=True)
class Shape:
    pages: int = 4_000
    hosts: int = 400
    starts: int = 20  # first pages of hosts, each the seed of its owner
    seed: int = 0


def measure(shape: Shape, counts: Sequence[int]) -> Iterator[Crawled]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "made.npz"
        make(path, shape.pages, shape.hosts, shape.seed)
        graph = load(path)
        firsts = np.unique(graph.host, return_index=True)[1]
        chosen = np.random.default_rng(shape.seed).permutation(len(firsts))[: shape.starts]
        starts = np.sort(firsts[chosen]).astype(np.int32)
        with RunningWeb(graph=path) as web:
            for agents in counts:
                for mode in MODES if agents > 1 else MODES[:1]:
                    yield _crawl(graph, starts, web, mode, agents, Path(scratch) / f"{mode}-{agents}")


def _crawl(graph: Graph, starts: I32, web: RunningWeb, mode: str, agents: int, directory: Path) -> Crawled:
    config = actual.settings("opic", Conditions(connections=_CONNECTIONS, width=_WIDTH), web.address)
    config = config.replace({"site.agents": agents, "site.mode": mode})
    api.Crawl(directory, [graph.urls[start] for start in starts.tolist()], config).run()
    with closing(query.open_database(directory)) as database:
        keys = database.execute(
            "SELECT key FROM visits WHERE NOT is_robots ORDER BY time, warc, warc_offset"
        ).fetchnumpy()
        links = database.execute("SELECT DISTINCT source, target FROM links").fetchnumpy()
    owners = _owners(directory)
    commits = [event for event in events(directory) if event["event"] == "commit"]
    return Crawled.of(
        mode,
        agents,
        np.asarray(keys["key"], np.uint64),
        int(graph.reachable(starts.tolist()).sum()),
        int((owners[_zone(links["source"])] != owners[_zone(links["target"])]).sum()),
        sum(event["sent_links"] for event in commits),
        sum(event["sent_bytes"] for event in commits),
    )


def _owners(directory: Path) -> I32:
    """The number of each zone's owner."""
    owners = np.zeros(ZONES_IN_ALL, np.int32)
    for number, at in enumerate(snapshots(Directory(directory)).values()):
        owners[list(at.zones)] = number
    return owners


def _zone(keys: npt.NDArray[Any]) -> Keys:
    return zone_of_key(np.asarray(keys, np.uint64))
