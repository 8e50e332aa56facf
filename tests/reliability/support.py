"""Crawls as real processes that may be killed, and what must hold of their archives and of the server's log."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from commands import ROOT, environment, line

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Snapshot
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.cli.app import main
from gossamer.columns import Status
from gossamer.config import Config
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import PageIndex
from gossamer.testweb.log import Log
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.web import SyntheticWeb

CLOCK_S = 0.001  # how exactly two processes agree about a moment
PASSING = ("server_error", "throttled", "broken", "timeout", "connect_failed")  # a page is visited again after these


# A process forked from one that has imported everything restarts in a few milliseconds: sooner than a delay has passed,
# so that the log shows whether a crawl that comes back waits.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "gossamer.api",
        "gossamer.archive.query",
        "gossamer.cli.app",
        "gossamer.testweb.running",
        "gossamer.watch.progress",
    ]
)

Target = Callable[[list[str], Path], None]


def crawl_here(arguments: list[str], output: Path) -> None:
    """What a forked process does: the command line's own function."""
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(main(arguments))


@dataclass(frozen=True)
class Command:
    """A `gossamer crawl` of a test web."""

    web: RunningWeb
    directory: Path
    options: Sequence[str]
    seeds: Sequence[str] | None = None  # None: the web's own

    def arguments(self) -> list[str]:
        seeds = self.web.start_urls if self.seeds is None else list(self.seeds)
        fixed = ["--dir", str(self.directory), "--testweb", self.web.address, "--json"]
        return ["crawl", *seeds, *fixed, *self.options]

    @contextlib.contextmanager
    def running(self) -> Iterator["subprocess.Popen[bytes]"]:
        """The command in a shell's sense. It is gone when the block ends, whatever happens in it."""
        with self.output.open("ab") as output:  # nobody reads a pipe of a process that is going to be killed
            process = subprocess.Popen(
                line(*self.arguments()), stdout=output, stderr=output, cwd=ROOT, env=environment()
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def forked(self, target: Target = crawl_here) -> Iterator[BaseProcess]:
        """The same without the time that Python needs to start."""
        process = _FORKS.Process(target=target, args=(self.arguments(), self.output))
        process.start()
        try:
            yield process
        finally:
            process.kill()
            process.join()
            process.close()

    def finish(self, timeout_s: float) -> None:
        """Run to the end."""
        with self.forked() as process:
            process.join(timeout_s)
            assert process.exitcode == 0, f"exit code {process.exitcode}: {self.said()}"

    @property
    def output(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.output")

    def said(self) -> str:
        return self.output.read_text()[-4_000:]

    def events(self, name: str) -> int:
        """How many of these the crawl has logged."""
        log = self.directory / "log" / "crawl.jsonl"
        return log.read_bytes().count(f'"event":"{name}"'.encode()) if log.exists() else 0

    def wait_for(self, process: BaseProcess, name: str, count: int, timeout_s: float = 60.0) -> None:
        """Until the crawl has logged so many of these."""
        end_s = time.monotonic() + timeout_s
        while self.events(name) < count:
            assert process.is_alive(), self.said()
            assert time.monotonic() < end_s, f"no {name} within {timeout_s:g} s: {self.said()}"
            time.sleep(0.002)


@dataclass(frozen=True)
class Committed:
    """What a crawl directory says is done, at one moment."""

    time_s: float
    final: frozenset[str]  # URLs of pages that must never be asked for again
    robots: frozenset[str]  # origins whose robots.txt is known


def committed(directory: Path, time_s: float) -> Committed:
    """Reads the tables itself: it must be done before the crawl that starts next would contact anybody."""
    if not (directory / "manifest").exists():
        return Committed(time_s, frozenset(), frozenset())
    files = snapshot_of(directory).files
    visits = _rows(directory, files.get("visits", []), ["url", "outcome", "is_robots"])
    robots = _rows(directory, files.get("robots", []), ["origin", "verdict"])
    return Committed(
        time_s,
        frozenset(row["url"] for row in visits if not row["is_robots"] and row["outcome"] not in PASSING),
        frozenset(row["origin"] for row in robots if row["verdict"] != "deny_all"),
    )


def _rows(directory: Path, names: Sequence[str], columns: list[str]) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(directory / name).read(columns) for name in names]
    return [row for table in tables for row in table.to_pylist()]


# What the archive says


def statuses(directory: Path) -> dict[str, str]:
    """Every known page with what its last visit made of it."""
    return {row["url"]: row["status"] for row in ask(directory, "SELECT url, status FROM pages")}


def outcomes(directory: Path) -> Counter[tuple[str, str, int]]:
    """How often each page was visited with which outcome, as the archive has it."""
    sql = "SELECT url, outcome, http_status FROM visits WHERE NOT is_robots"
    return Counter((row["url"], row["outcome"], row["http_status"]) for row in ask(directory, sql))


def order(directory: Path) -> list[str]:
    """URLs in order of their visits. Times are too coarse; rows are in order within each round."""
    rows = _rows(directory, snapshot_of(directory).files["visits"], ["round", "url", "is_robots"])
    rows.sort(key=lambda row: row["round"])
    return [row["url"] for row in rows if not row["is_robots"]]


def snapshot_of(directory: Path, agent: str = "a0") -> Snapshot:
    return Chain.read(Directory(directory), agent)


def open_index(directory: Path) -> PageIndex:
    return PageIndex.open(Directory(directory), snapshot_of(directory).files, Config().index)


def hits(directory: Path) -> dict[str, int]:
    """Links to each page, as counted by the index: a round applied twice or not at all shows here. Sitemaps are left
    out: a robots.txt that is read again after a crash names its own again."""
    index = open_index(directory)
    rows = np.concatenate(list(index.pages.scan()))
    counted = zip(index.urls(rows), rows["hits"].tolist(), strict=True)
    return {url: count for url, count in counted if not url.endswith("/sitemap.xml")}


def check_index(directory: Path) -> None:
    """The index agrees with itself, with the ledger and with the tables."""
    snapshot, index = snapshot_of(directory), open_index(directory)
    rows = np.concatenate(list(index.pages.scan()))
    ledger = Ledger.from_dict(snapshot.state["ledger"])
    assert ledger.missing(int(rows["cash"].sum())) == 0, "cash was lost or made"
    pages = {row["key"]: row for row in ask(directory, "SELECT * FROM pages")}
    assert len(rows) == index.count == ledger.known == len(pages)
    urls = index.urls(rows)
    assert {row["key"]: row["url"] for row in pages.values()} == dict(zip(rows["key"].tolist(), urls, strict=True))
    for key, status in zip(rows["key"].tolist(), rows["status"].tolist(), strict=True):
        says = pages[key]["status"]
        # The last of several passing failures makes a page gone; the table only knows that it failed.
        assert Status(status).name.lower() == says or (says == "failed" and status == Status.GONE), pages[key]
    hosts = index.hosts.rows
    assert int(hosts["known"].sum()) == len(rows)
    final = ~np.isin(rows["status"], (Status.NEW, Status.FAILED))
    assert int(hosts["visited"].sum()) == int(final.sum())
    counters = snapshot.state["counters"]
    assert counters["known"] == len(rows)
    assert counters["visits"] == sum(outcomes(directory).values())


def check_no_leftovers(directory: Path) -> None:
    """Every file of the archive is named by the newest manifest, and every name is a file."""
    store, snapshot = Directory(directory), snapshot_of(directory)
    there = {name for prefix in ("warc/", "cdxj/", "tables/", "index/", "outbox/") for name in store.list(prefix)}
    assert there == snapshot.names()
    assert store.list("tmp/") == []


def check_visited_once(directory: Path, retries: int) -> None:
    """No page has two final visits, and none more failed ones than there are retries."""
    sql = f"""SELECT url, count(*) FILTER (outcome NOT IN {PASSING}) AS final, count(*) AS visits
        FROM visits WHERE NOT is_robots GROUP BY url"""
    for row in ask(directory, sql):
        assert row["final"] <= 1, row
        assert row["visits"] <= retries + 1, row


# What the server says


def check_polite(log: Log, web: SyntheticWeb, delay_s: float) -> None:
    """Never two requests to a host at a time, and its delay between them; crawl-delays once they are known."""
    assert log.overlaps() == []
    for name, gaps in log.intervals().items():
        assert len(gaps) == 0 or gaps.min() >= delay_s - CLOCK_S, (name, float(gaps.min()))
    for name, rows in log.by_host():
        own_s = web.plan.hosts[web.plan.hosts.number(name)].crawl_delay_s
        if own_s:
            # Whoever has lost a robots.txt that was not committed must read it again to know the delay.
            asks = np.array([path.endswith("robots.txt") for path in log.path[rows].tolist()])[1:]
            gaps = log.intervals()[name][~asks]
            assert gaps.min(initial=own_s) >= own_s - CLOCK_S, (name, own_s, float(gaps.min()))


def check_not_again(log: Log, kills: Sequence[Committed]) -> None:
    """What was committed when the process was killed is not asked for afterwards."""
    done_s: dict[str, float] = {}
    for kill in kills:
        for url in (*kill.final, *(f"{origin}/robots.txt" for origin in kill.robots)):
            done_s.setdefault(url, kill.time_s)
    again = [
        (url, start_s - done_s[url])
        for url, start_s in zip(log.urls, log.start_s.tolist(), strict=True)
        if start_s > done_s.get(url, float("inf"))
    ]
    assert again == []


def check_repeats(log: Log, kills: Sequence[Committed], most: int) -> None:
    """A kill costs only what was not committed: the round, and what finished while it was being committed."""
    starts, urls = log.start_s, np.array(log.urls)
    is_page = np.array([not path.endswith("robots.txt") for path in log.path.tolist()], bool)
    before: frozenset[str] = frozenset()
    before_s = 0.0
    for kill in kills:
        ran = is_page & (starts > before_s) & (starts <= kill.time_s)
        lost = set(urls[ran].tolist()) - kill.final
        assert len(lost) <= most, f"{len(lost)} pages of one run were not committed"
        assert before <= kill.final, "committed visits vanished"
        before, before_s = kill.final, kill.time_s
    repeats = sum(count - 1 for count in Counter(urls[is_page].tolist()).values())
    assert repeats <= most * len(kills)


def check_complete(directory: Path, log: Log, web: SyntheticWeb) -> None:
    """What could be reached was asked for, and all that was asked for is in the archive."""
    reachable = set(web.urls(web.reachable()))
    asked = {url for url in log.urls if web.page(url) >= 0}
    assert asked == reachable
    answered = ask(directory, "SELECT DISTINCT url FROM visits WHERE http_status > 0 AND NOT is_robots")
    assert {row["url"] for row in answered if web.page(row["url"]) >= 0} == reachable


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where two mappings differ; shorter to read than the mappings."""
    keys = one.keys() | other.keys()
    return {key: (one.get(key), other.get(key)) for key in sorted(keys) if one.get(key) != other.get(key)}


def check_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """With a message that shows where they differ, outside of pytest too."""
    found = differing(one, other)
    assert not found, found
