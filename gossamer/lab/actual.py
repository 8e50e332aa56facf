"""Crawls a graph for real: the production crawler on a test web made from it, as the simulator would have it."""

import json
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gossamer import api
from gossamer.archive import query
from gossamer.archive.linkgraph import read_links
from gossamer.config import Config
from gossamer.crawl import generate
from gossamer.lab.graphs import F8, I4, Graph
from gossamer.lab.simulator import Conditions, Rounds
from gossamer.order.pagerank import pagerank
from gossamer.testweb.running import RunningWeb

# In the order of requests; two may begin in the same millisecond, then their places in the WARC decide.
_VISITS = """SELECT key, epoch_ms(time) / 1000 AS time_s, elapsed_s, round, depth FROM visits
    WHERE NOT is_robots ORDER BY time, warc, warc_offset"""
_AT_ONCE = 1e12  # bytes per second: what a page took was latency


@dataclass(frozen=True)
class Actual:
    """What happened, as the archive has it."""

    order: I4
    time_s: F8  # when each page had come, from the first request on
    elapsed_s: F8  # how long it took
    round: I4
    depth: I4
    commit_s: tuple[float, float]  # what a commit took: always, and for each page of its round


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
    starts: I4,
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
        time_s - time_s[:1] + elapsed_s,
        elapsed_s,
        np.asarray(visits["round"], np.int32),
        np.asarray(visits["depth"], np.int32),
        _commit_s(directory),
    )


def pages_of(graph: Graph, keys: "np.typing.NDArray[np.uint64]") -> I4:
    """Which pages of the graph these are."""
    by_key = np.argsort(graph.keys)
    places = np.minimum(np.searchsorted(graph.keys[by_key], keys), graph.pages - 1)
    return by_key[places].astype(np.int32)


def _commit_s(directory: Path) -> tuple[float, float]:
    """The line that fits best, if it does not fall."""
    events = map(json.loads, (directory / "log" / "crawl.jsonl").read_text().splitlines())
    commits = [(event["visits"], event["seconds"]) for event in events if event.get("visits") and "seconds" in event]
    if not commits:
        return 0.0, 0.0
    pages, cost_s = np.array(commits, np.float64).T
    spread = float(pages.var())
    page_s = max(float(np.mean((pages - pages.mean()) * (cost_s - cost_s.mean()))) / spread, 0.0) if spread else 0.0
    page_s = min(page_s, float(cost_s.mean() / pages.mean()))
    return float(cost_s.mean() - page_s * pages.mean()), page_s


def history(graph: Graph, directory: Path) -> F8:
    """What the historical strategies know of each page from an earlier crawl: as `crawl/scoring.py` has it."""
    earlier = read_links(directory)
    ranks = np.full(graph.pages, np.nan)
    ranks[pages_of(graph, earlier.keys)] = pagerank(earlier.source, earlier.target, len(earlier.keys))
    return ranks


def as_measured(
    graph: Graph, conditions: Conditions, actual: Actual, changes: dict[str, object] | None = None
) -> tuple[Graph, Conditions]:
    """The same for the simulator: hosts as fast as they were, rounds as the crawler makes them."""
    hosts = len(graph.host_names)
    host = graph.host[actual.order]
    count = np.bincount(host, minlength=hosts)
    mean_s = np.bincount(host, actual.elapsed_s, hosts) / np.maximum(count, 1)
    latency_s = np.where(count, mean_s, actual.elapsed_s.mean() if len(actual.elapsed_s) else 0.0)
    soon, later = generate.per_host(settings("opic", conditions, "").replace(changes or {}))
    rounds = Rounds(soon, later, *actual.commit_s)
    return replace(graph, latency_s=latency_s, speed=np.full(hosts, _AT_ONCE)), replace(conditions, rounds=rounds)
