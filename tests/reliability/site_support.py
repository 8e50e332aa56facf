"""Sites of several agents as real processes, ways to disturb them, and what must hold of all their chains together."""

import contextlib
import dataclasses
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
from support import PASSING, Command, check_equal, check_polite, outcomes, statuses

from gossamer.archive.bundle import messages_of
from gossamer.archive.chain import Chain, chains
from gossamer.archive.manifest import LINKS, NEWS, ZONES, Snapshot
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.archive.zones import ZONES_IN_ALL, named
from gossamer.cluster import store_registrar
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import read_address
from gossamer.cluster.protocol import Wish
from gossamer.cluster.registrar import of_agents
from gossamer.columns import Status
from gossamer.config import Config
from gossamer.crawl.inbox import decode
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.testweb.log import Log
from gossamer.testweb.web import SyntheticWeb

LEASE_S = 2.0
_PATIENCE_S = 120.0


@dataclasses.dataclass(frozen=True)
class Site(Command):
    """A `gossamer crawl` of several agents, and its processes."""

    def log_events(self) -> list[dict[str, Any]]:
        path = self.directory / "log" / "crawl.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def agents(self) -> dict[str, int]:
        """The newest process of each agent that lives."""
        started = [event for event in self.log_events() if event["event"] == "agent started"]
        newest = {event["agent"]: int(event["process"]) for event in started}
        return {name: process for name, process in newest.items() if is_ours(process)}

    def all_processes(self) -> set[int]:
        """Every process of the site that lives, whoever started it and whatever it was told."""
        started = {int(event["process"]) for event in self.log_events() if event["event"] == "agent started"}
        return {process for process in started if is_ours(process)} | {*self.servers()}

    def servers(self) -> list[int]:
        config = str(self.directory / "site" / "nats.conf").encode()
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and config in words(path)]

    def wish(self, retire: str = "") -> bool:
        """What `gossamer agents DIR` does."""
        if (self.directory / "registrar").is_dir():
            return store_registrar.of_agents(Directory(self.directory)).wish(Wish(retire=retire))
        address = read_address(self.directory / "site")
        if address is None:
            return False
        wire = Wire(address)
        try:
            return wire.wait_up(10.0) and of_agents(wire).wish(Wish(retire=retire))
        finally:
            wire.close()

    def visits(self) -> int:
        """Committed so far."""
        if not (self.directory / "manifest").exists():
            return 0
        return sum(at.state.counters.visits for at in snapshots(self.directory).values())

    def wait_until(self, process: "Popen[bytes]", condition: Callable[[], object], what: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert process.poll() is None, f"it ended before {what}: {self.said()}"
            assert time.monotonic() < end_s, f"no {what} within {_PATIENCE_S:g} s: {self.said()}"
            time.sleep(0.02)

    def end(self, process: "Popen[bytes]", timeout_s: float = 240.0) -> None:
        """It runs to its end, and leaves no process behind."""
        code = process.wait(timeout_s)
        assert code == 0, f"exit code {code}: {self.said()}"
        assert self.all_processes() == set()

    @contextlib.contextmanager
    def cared_for(self) -> Iterator[None]:
        """Whatever happens in the block, no process of the site outlives it."""
        try:
            yield
        finally:
            for process in self.all_processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def words(path: Path) -> bytes:
    """The command line of a process that may just have ended."""
    try:
        return (path / "cmdline").read_bytes()
    except OSError:
        return b""


def is_ours(process: int) -> bool:
    return b"gossamer" in words(Path("/proc") / str(process))


# Faults


class Trouble:
    """Disturbs a running site, at random but the same for the same seed; remembers what it did and when."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.done: list[tuple[str, float]] = []
        self._killed: dict[str, tuple[Any, int]] = {}  # what an agent had done, and how often it was killed since

    def make(self, kind: str) -> None:
        getattr(self, kind.replace(" ", "_"))()
        self.done.append((kind, time.time()))

    def kill_agent(self) -> None:
        """Kills one of them. Supervisors give up an agent that dies five times and does nothing in between."""
        end_s = time.monotonic() + _PATIENCE_S
        while not (found := self._others_than_hopeless()) and time.monotonic() < end_s:
            time.sleep(0.02)  # it is killed already, and its successor not begun
        if found:
            name, process, done, times = self.chance.choice(found)
            self._killed[name] = done, times + 1
            _signal(process, signal.SIGKILL)

    def _others_than_hopeless(self) -> list[tuple[str, int, Any, int]]:
        found, at = [], snapshots(self.site.directory)
        for name, process in sorted(self.site.agents().items()):
            done = (at[name].state.counters.visits, at[name].marks, at[name].zones) if name in at else None
            before, times = self._killed.get(name, (done, 0))
            found.append((name, process, done, times if done == before else 0))
        return [each for each in found if each[-1] < 4]

    def kill_all_agents(self) -> None:
        for process in self.site.agents().values():
            _signal(process, signal.SIGKILL)

    def kill_server(self) -> None:
        for process in self.site.servers():
            _signal(process, signal.SIGKILL)

    def stop_server(self) -> None:
        """For good: the supervisor must see that it is of no use any more."""
        for process in self.site.servers():
            _signal(process, signal.SIGSTOP)

    def stop_agent(self) -> None:
        """For longer than its lease; it wakes up when its successor is at work."""
        found = sorted(self.site.agents().items())
        if not found:
            return
        name, process = self.chance.choice(found)
        _signal(process, signal.SIGSTOP)
        end_s = time.monotonic() + 10 * LEASE_S
        while self.site.agents().get(name) == process and time.monotonic() < end_s:
            time.sleep(0.05)
        time.sleep(self.chance.uniform(0.0, 2.0))
        _signal(process, signal.SIGCONT)

    def add(self) -> None:
        self.site.wish()

    def retire(self) -> None:
        if found := sorted(self.site.agents().keys() - {"a0"}):
            self.site.wish(self.chance.choice(found))


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


# What the archive says


def snapshots(directory: Path) -> dict[str, Snapshot]:
    store = Directory(directory)
    return {name: Chain.read(store, name) for name in sorted(chains(store))}


def in_flight(directory: Path) -> list[tuple[str, bytes]]:
    """Kind and data of messages that their receivers have not committed."""
    at, store = snapshots(directory), Directory(directory)
    messages = [message for snapshot in at.values() for message in messages_of(store, snapshot.outbox)]
    none = Snapshot("")
    return [
        (message.kind, message.data)
        for message in messages
        if message.number > at.get(message.to, none).marks.get(message.stream, 0)
    ]


def check_zones(directory: Path) -> None:
    """Each zone has one owner, or is on its way to one."""
    owned = Counter(zone for at in snapshots(directory).values() for zone in at.zones)
    headers = [data for kind, data in in_flight(directory) if kind == ZONES and data[:1] == b"{"]
    owned.update(zone for data in headers for zone in named(json.loads(data)["zones"]))
    assert owned == Counter(range(ZONES_IN_ALL)), "a zone is lost, or has two owners"


def _cash_of(kind: str, data: bytes) -> int:
    if kind == LINKS:
        return int(decode(data).cash.sum())
    if kind == ZONES:  # in the first part, which is no table
        return int(json.loads(data)["cash"]) if data[:1] == b"{" else 0
    return int(json.loads(data).get("pool", 0)) if kind == NEWS else 0


def indexes(directory: Path) -> dict[str, tuple[PageIndex, Snapshot]]:
    store = Directory(directory)
    return {name: (PageIndex.open(store, at.files, Config().index), at) for name, at in snapshots(directory).items()}


def rows_of(index: PageIndex) -> Any:
    return np.concatenate([np.zeros(0, index.pages.dtype), *index.pages.scan()])


def hits(directory: Path) -> dict[str, int]:
    """Links to each page, over all agents; robots.txt that is read again names its sitemaps again."""
    found: dict[str, int] = {}
    for index, _ in indexes(directory).values():
        rows = rows_of(index)
        counted = dict(zip(index.urls(rows), rows["hits"].tolist(), strict=True))
        assert not counted.keys() & found.keys(), "known to two agents"
        found |= counted
    return {url: count for url, count in found.items() if not url.endswith("/sitemap.xml")}


def check_indexes(directory: Path) -> None:
    """Every index agrees with itself, its zones and its ledger; together they agree with the tables."""
    lacking, known = 0, dict[int, tuple[str, int]]()
    for index, at in indexes(directory).values():
        rows = rows_of(index)
        assert set(zone_of_key(rows["key"]).tolist()) <= set(at.zones)
        ledger = Ledger.of(at.state.ledger)
        assert len(rows) == index.count == ledger.known == at.state.counters.known
        lacking += ledger.missing(int(rows["cash"].sum()))
        hosts = index.hosts.rows
        assert int(hosts["known"].sum()) == len(rows)
        final = ~np.isin(rows["status"], (Status.NEW, Status.FAILED))
        assert int(hosts["visited"].sum()) == int(final.sum())
        visited = np.concatenate([np.zeros(0, index.visited.dtype), *index.visited.scan()])
        assert set(visited["key"].tolist()) <= set(rows["key"].tolist())
        states = zip(rows["key"].tolist(), index.urls(rows), rows["status"].tolist(), strict=True)
        known |= {key: (url, status) for key, url, status in states}
    assert lacking == sum(_cash_of(*message) for message in in_flight(directory)), "cash was lost or made"
    pages = {row["key"]: row for row in ask(directory, "SELECT * FROM pages")}
    assert {key: row["url"] for key, row in pages.items()} == {key: url for key, (url, _) in known.items()}
    for key, (_, status) in known.items():
        says = pages[key]["status"]
        assert Status(status).name.lower() == says or (says == "failed" and status == Status.GONE), pages[key]
    counted = sum(at.state.counters.visits for at in snapshots(directory).values())
    assert counted == sum(outcomes(directory).values())


def check_files(directory: Path) -> None:
    """What the manifests name is there."""
    store = Directory(directory)
    there = {name for prefix in ("warc/", "cdxj/", "tables/", "index/", "outbox/") for name in store.list(prefix)}
    assert {name for at in snapshots(directory).values() for name in at.names()} <= there | {*store.list("handover/")}


def check_same(directory: Path, undisturbed: Path) -> None:
    """As if one agent had crawled in peace."""
    check_zones(directory)
    check_indexes(directory)
    check_files(directory)
    check_equal(statuses(directory), statuses(undisturbed))
    check_equal(final_outcomes(directory), final_outcomes(undisturbed))
    check_equal(hits(directory), hits(undisturbed))


def final_outcomes(directory: Path) -> Counter[tuple[str, str, int]]:
    found = outcomes(directory)
    return Counter({key: count for key, count in found.items() if key[1] not in PASSING})


# What the server says


def since(log: Log, start_s: float) -> Log:
    rows = log.start_s >= start_s
    return Log(*(getattr(log, field.name)[rows] for field in dataclasses.fields(Log)))


def check_served(log: Log, web: SyntheticWeb, directory: Path, delay_s: float, lost: int) -> None:
    """Polite over all agents; and few requests whose answers were not committed."""
    check_polite(log, web, delay_s)
    asked = sum(not path.endswith("/robots.txt") for path in log.path.tolist())
    answered = ask(directory, "SELECT count(*) AS n FROM visits WHERE http_status > 0 AND NOT is_robots")[0]["n"]
    assert asked - answered <= lost, f"{asked - answered} requests were for nothing"
