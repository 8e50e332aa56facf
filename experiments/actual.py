"""This module crawls a graph for real: the production crawler on a test web made from it."""

import json
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gossamer import api
from gossamer.archive import query
from gossamer.archive.linkgraph import read_links
from gossamer.arrays import F64, I32, I64, U64
from gossamer.config import Config
from gossamer.crawl.scheduler import per_host
from gossamer.frontier.pagerank import pagerank
from gossamer.frontier.strategies import Strategy
from gossamer.sim.graphs import Graph
from gossamer.sim.simulator import Conditions, Knowledge, Rounds, Simulation, Trace
from gossamer.testweb.running import RunningWeb

# As they came, and as they were learnt from.
_VISITS = """SELECT key, epoch_ms(time) / 1000 AS time_s, elapsed_s, round FROM visits
    WHERE NOT is_robots ORDER BY round, warc, warc_offset"""
_NEXT_S = 1e-6  # between two that came at once, as far as the archive tells
_LATE_S = 0.03  # a host that was asked so much later than allowed had nothing to ask for, or the machine was busy;
_PAUSE_S = 0.25  # so much later: it had nothing
_TOGETHER_S = 0.005  # of hosts that got pages at the same time, the next is asked so soon
_AT_ONCE = 1e16  # bytes per second: what a page took was latency


@dataclass(frozen=True)
class Actual:
    """What happened, as the archive has it."""

    order: I32  # as pages came
    time_s: F64  # when each had come, from the first request on; no two at once
    elapsed_s: F64  # how long it took
    round: I32
    commits_s: F64  # what each commit took, first that of the seeds


@dataclass(frozen=True)
class Source:
    """A graph, and what it was loaded from."""

    graph: Graph
    path: Path
    hosts: str = ""  # the rule


def settings(order: str, conditions: Conditions, address: str) -> Config:
    """The production configuration for these conditions: no limit may interfere, nobody else may be asked."""
    return Config().replace(
        {
            "crawl.order": order,
            "crawl.scope": "any",
            "crawl.width": conditions.width or 1,
            "crawl.seed": conditions.seed,
            "crawl.sitemaps": False,
            "crawl.round_s": 0.0,
            "polite.connections": conditions.connections,
            "polite.delay_s": conditions.delay_s,
            "polite.small_delay_s": conditions.small_delay_s,
            "polite.small_pages": conditions.small_pages,
            "polite.burst": conditions.burst,
            "polite.burst_delay_s": conditions.burst_delay_s,
            "polite.robots": False,
            "limits.depth": 255,
            "limits.depth_dynamic": 255,
            "limits.pages_per_host": 0,
            "limits.pages_per_domain": 0,
            "limits.hosts_per_domain": 0,
            "limits.links": 1_000_000,
            "limits.url_bytes": 8_000,
            "limits.path_segments": 1_000,
            "limits.path_repeats": 1_000,
            "resolve.map": {"*": address},
        }
    )


def crawl(
    source: Source,
    order: str,
    starts: I32,
    conditions: Conditions,
    *,
    changes: dict[str, object] | None = None,
    latency_ms: float = 0.0,
    directory: Path | None = None,
) -> Actual:
    """The archive is kept if a directory is given."""
    options = ["--latency-ms", str(latency_ms), *(["--graph-hosts", source.hosts] if source.hosts else [])]
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(graph=source.path, options=options) as web:
        place = directory or Path(scratch) / "crawl"
        config = settings(order, conditions, web.address).replace(changes or {})
        seeds = Path(scratch) / "seeds.txt"
        seeds.write_text("".join(f"{source.graph.urls[start]}\n" for start in starts.tolist()))
        api.Crawl(place, [str(seeds)], config).run()
        return read(source.graph, place)


def read(graph: Graph, directory: Path) -> Actual:
    with closing(query.open_database(directory)) as database:
        visits = database.execute(_VISITS).fetchnumpy()
    time_s = np.asarray(visits["time_s"], np.float64)
    elapsed_s = np.asarray(visits["elapsed_s"], np.float64)
    return Actual(
        pages_of(graph, np.asarray(visits["key"], np.uint64)),
        came_s(time_s - time_s.min(initial=np.inf), elapsed_s),
        elapsed_s,
        np.asarray(visits["round"], np.int32),
        _commits_s(directory),
    )


def came_s(began_s: F64, elapsed_s: F64) -> F64:
    """When visits came, given in that order. Beginnings are known to the millisecond, and a crawl in order of discovery
    goes another way if those that came in the same one change places."""
    steps_s = np.arange(len(began_s)) * np.float64(_NEXT_S)
    return steps_s + np.maximum.accumulate(began_s + elapsed_s - steps_s)


def pages_of(graph: Graph, keys: "U64") -> I32:
    """Which pages of the graph these are."""
    by_key = np.argsort(graph.keys)
    places = np.minimum(np.searchsorted(graph.keys[by_key], keys), graph.pages - 1)
    return by_key[places].astype(np.int32)


def _commits_s(directory: Path) -> F64:
    events = map(json.loads, (directory / "log" / "crawl.jsonl").read_text().splitlines())
    commits = [(event["seconds"], event["visits"]) for event in events if event["event"] == "commit"]
    return np.array([cost_s for place, (cost_s, visits) in enumerate(commits) if visits or not place])


def history(graph: Graph, directory: Path) -> F64:
    """What the historical strategies know of each page from an earlier crawl: as `frontier/scoring.py` has it."""
    earlier = read_links(directory)
    ranks = np.full(graph.pages, np.nan)
    ranks[pages_of(graph, earlier.keys)] = pagerank(earlier.source, earlier.target, len(earlier.keys))
    return ranks


@dataclass(frozen=True)
class Replay:
    """The same crawl for the simulator: what took long in a real one takes as long, one after the other."""

    graph: Graph
    conditions: Conditions
    pace_s: F64  # a host's first answer, its second, ...
    lag_s: F64  # how much later than allowed each was asked for: counts if a page was waiting for that
    pace_first: I64  # where those of each host begin, and the end
    commits_s: F64  # of the seeds, of the first round, the second, ...

    def simulate(
        self, strategy: Strategy, starts: npt.ArrayLike, knowledge: Knowledge | None = None, pages: int = 0
    ) -> Trace:
        simulation = Simulation(self.graph, strategy, self.conditions, knowledge or Knowledge())
        simulation.world = simulation.world._replace(
            pace_s=self.pace_s, lag_s=self.lag_s, pace_first=self.pace_first, commits_s=self.commits_s
        )
        return simulation.run(np.asarray(starts, np.int32), pages)


def as_measured(
    graph: Graph, conditions: Conditions, actual: Actual, changes: dict[str, object] | None = None
) -> Replay:
    """Hosts and commits as fast as they were, rounds as the crawler makes them."""
    hosts, host = len(graph.host_names), graph.host[actual.order]
    order = np.lexsort((actual.time_s, host))
    time_s, elapsed_s = actual.time_s[order], actual.elapsed_s[order]
    lag_s = _lag_s(host[order], time_s, elapsed_s, conditions.delay_s)
    pace_s = _pace_s(lag_s, time_s, elapsed_s)
    lag_s = np.where(lag_s < _PAUSE_S, lag_s + elapsed_s - pace_s, 0.0)
    first = np.searchsorted(host[order], np.arange(hosts + 1))
    mean_s = float(pace_s.mean()) if len(pace_s) else 0.0
    commit_s = float(actual.commits_s.mean()) if len(actual.commits_s) else 0.0
    soon, later = per_host(settings("opic", conditions, "").replace(changes or {}))
    same_graph = replace(graph, latency_s=np.full(hosts, mean_s), speed=np.full(hosts, _AT_ONCE))
    same = replace(conditions, rounds=Rounds(soon, later, commit_s))
    return Replay(same_graph, same, pace_s, lag_s, first, actual.commits_s)


def _lag_s(host: I32, time_s: F64, elapsed_s: F64, delay_s: float) -> F64:
    """How much later than allowed each page was asked for, a host's first from the beginning on. Less than nothing:
    beginnings are known to the millisecond."""
    goes_on = np.concatenate((np.zeros(1, np.bool_), np.diff(host) == 0))[: len(host)]
    allowed_s = np.where(goes_on, np.roll(time_s, 1) + delay_s, 0.0)
    return time_s - elapsed_s - allowed_s


def _pace_s(lag_s: F64, time_s: F64, elapsed_s: F64) -> F64:
    """What each page took. Hosts that get pages at the same time are asked one after the other, and answer so; in the
    simulator they all begin with the first, and what they took counts from there."""
    began_s = time_s - elapsed_s
    late = np.flatnonzero(lag_s >= _LATE_S)
    late = late[np.argsort(began_s[late], kind="stable")]
    is_first = np.diff(began_s[late], prepend=-np.inf) > _TOGETHER_S
    began_s[late] = began_s[late][is_first][np.cumsum(is_first) - 1]
    return time_s - began_s
