"""This module crawls one web with more and more agents, and measures what each phase takes.

As in UniCrawl (Le Quoc et al., section V-A1) a million URLs are injected, then rounds of a fixed width are crawled. The
test web answers slowly, and agents have few connections: time is spent waiting, as on the real web, so that one machine
can be many.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from experiments.processes import cpu_s, family
from gossamer import api
from gossamer.archive import query
from gossamer.config import Config
from gossamer.crawl.stats import Stats
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

_PAGE_BYTES, _LINKS = 2_000.0, 8.0


@dataclass(frozen=True)
class Shape:
    """What is crawled, and how."""

    urls: int = 1_000_000
    hosts: int = 1_000
    width: int = 4_000  # pages of a round, of all agents together
    rounds: int = 2
    connections: int = 16  # of each agent
    latency_ms: float = 200.0
    delay_s: float = 1.0
    seed: int = 0

    def web(self) -> WebSpec:
        return WebSpec.plain(
            seed=self.seed, hosts=self.hosts, pages=self.urls, host_exponent=0.0, links=_LINKS, local=0.9,
            page_bytes=_PAGE_BYTES, latency_ms=self.latency_ms,
        )  # fmt: skip

    def config(self, agents: int, address: str) -> Config:
        return Config().replace(
            {
                "site.agents": agents,
                "crawl.scope": "any",
                "crawl.width": max(1, self.width // agents),
                "crawl.seed": self.seed,
                "crawl.sitemaps": False,
                "crawl.round_s": 0.0,
                "polite.connections": self.connections,
                "polite.delay_s": self.delay_s,
                "polite.robots": False,
                "limits.pages_per_host": 0,
                "limits.pages_per_domain": 0,
                "limits.hosts_per_domain": 0,
                "resolve.map": {"*": address},
            }
        )


@dataclass(frozen=True)
class Measured:
    """One crawl, from the moment when all URLs are known."""

    agents: int
    inject_s: float  # until then, from the start
    pages: int
    seconds: float
    generate_s: float  # for a round's pages, an agent's mean
    commit_s: float
    commits: int  # of all agents
    crawler_cores: float
    web_cores: float
    least: int  # pages of the agent that had fewest

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.seconds


class _Watch:
    """Looks on, notes when all is known and when enough is fetched, and stops the crawl then."""

    def __init__(self, shape: Shape, web: RunningWeb) -> None:
        self._shape, self._web = shape, web
        self._start: tuple[float, int, float, float] | None = None
        self.crawl: api.Crawl | None = None
        self.begin_s = self.end_s = 0.0
        self.cores = (0.0, 0.0)

    def look(self, stats: Stats) -> None:
        now_s = time.time()
        used = cpu_s(family()), cpu_s([self._web.pid])
        if self._start is None:
            if (stats.known or 0) >= self._shape.urls:
                self._start, self.begin_s = (now_s, stats.visits, *used), now_s
            return
        start_s, visits, all_cpu, web_cpu = self._start
        if not self.end_s and stats.visits - visits >= self._shape.width * self._shape.rounds:
            passed, of_web = now_s - start_s, used[1] - web_cpu
            self.end_s, self.cores = now_s, ((used[0] - all_cpu - of_web) / passed, of_web / passed)
            assert self.crawl is not None
            self.crawl.stop()


def measure(shape: Shape, counts: Sequence[int]) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(shape.web()) as web:
        seeds = Path(scratch) / "seeds.txt"
        mixed = np.random.default_rng(shape.seed).permutation(shape.urls)  # whoever reads some, has all hosts
        seeds.write_text("".join(f"{url}\n" for url in web.truth.urls(mixed.tolist())))
        for agents in counts:
            yield _crawl(shape, web, agents, seeds, Path(scratch) / f"agents-{agents}")


def _crawl(shape: Shape, web: RunningWeb, agents: int, seeds: Path, directory: Path) -> Measured:
    watch = _Watch(shape, web)
    watch.crawl = api.Crawl(directory, [str(seeds)], shape.config(agents, web.address))
    start_s = time.time()
    watch.crawl.run(watch.look)
    commits = [event for event in events(directory) if event["event"] == "commit"]
    steady = [event for event in commits if watch.begin_s < event["s"] <= watch.end_s]
    pages = _visits(directory, watch.begin_s, watch.end_s)
    rounds = sum(pages.values()) / shape.width
    return Measured(
        agents,
        known_at_s(commits, shape.urls) - start_s,
        sum(pages.values()),
        watch.end_s - watch.begin_s,
        sum(event["generate_s"] for event in steady) / rounds / agents,
        sum(event["seconds"] for event in steady) / rounds / agents,
        len(steady),
        *watch.cores,
        min(pages.values()) if len(pages) == agents else 0,
    )


def events(directory: Path) -> list[dict[str, Any]]:
    """What the agents of a crawl have logged, oldest first: with `agent`, and `s`, the time."""
    found = [
        {"agent": path.name.partition(".")[0], **event, "s": _time_s(event["time"])}
        for path in (directory / "log").glob("*.jsonl*")
        for event in map(json.loads, path.read_text().splitlines())
    ]
    return sorted(found, key=lambda event: (float(event["s"]), str(event["agent"])))


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def known_at_s(commits: Sequence[dict[str, Any]], urls: int) -> float:
    """When all agents together knew so many pages."""
    known: dict[str, int] = {}
    for commit in commits:
        known[commit["agent"]] = commit["known"]
        if sum(known.values()) >= urls:
            return float(commit["s"])
    return float("inf")


def _visits(directory: Path, begin_s: float, end_s: float) -> dict[str, int]:
    """Pages that came meanwhile, by agent: files are named after it."""
    sql = """SELECT regexp_extract(warc, '/([^/-]+)-', 1) AS agent, count(*) AS pages FROM visits
        WHERE NOT is_robots AND epoch_ms(time) / 1000 + elapsed_s > ? AND epoch_ms(time) / 1000 + elapsed_s <= ?
        GROUP BY agent ORDER BY agent"""
    with closing(query.open_database(directory)) as database:
        return {str(agent): int(pages) for agent, pages in database.execute(sql, [begin_s, end_s]).fetchall()}
