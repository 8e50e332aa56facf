"""Two agents that own half of the zones each crawl together what one crawls alone: outbox and inbox at work."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crawls import QUICK, Fixed

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Message, Snapshot
from gossamer.archive.query import ask
from gossamer.archive.store import Directory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.crawl.agent import Agent
from gossamer.crawl.inbox import Inbox, decode
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.seeds import hand_in
from gossamer.event_log import EventLog
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.sharing.exchange import InProcess, Joined
from gossamer.sharing.peers import Sharing
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.wiring import open_books

# No passing failures, so that every page is asked for once; no page may be refused for its depth, which depends on
# the order in which links arrive.
SPEC = WebSpec(
    seed=13, hosts=40, pages=500, page_bytes=3_000.0, links=20.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 40, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 16,
}  # fmt: skip
PATIENCE_S = 120.0
HALVES = range(ZONES_IN_ALL // 2), range(ZONES_IN_ALL // 2, ZONES_IN_ALL)


@dataclass
class Place:
    """One agent's directory, and what it was told."""

    directory: Path
    exchange: InProcess
    config: Config
    zones: range
    owners: tuple[str, ...]
    seeds: list[str] = field(default_factory=list)
    runs: int = 0

    def is_idle(self) -> bool:
        return not self.seeds and not self.pending()

    def run(self) -> None:
        """From start to end, as a process would."""
        store = Directory.prepare(self.directory, RealClock().now())
        hand_in(Inbox(store), self.seeds, [])
        self.seeds = []
        with store.lock(self.config.crawl.agent), EventLog(self.directory / "log" / "crawl.jsonl") as log:
            chain = Chain.open(store, self.config.crawl.agent, self.exchange, self.zones)
            exchange = Joined(self.exchange, Inbox(store))
            books = open_books(store, self.config, RealClock(), chain)
            peers = Sharing(books, exchange, Fixed(self.owners), log)
            peers.settle(RealClock().now())
            Agent(books, RealClock(), peers, log).run(lambda _: None)
        self.runs += 1

    def snapshot(self) -> Snapshot:
        if not self.directory.exists():
            return Snapshot(self.config.crawl.agent)
        return Chain.read(Directory(self.directory), self.config.crawl.agent)

    def pending(self) -> list[Message]:
        return self.exchange.pending(self.config.crawl.agent, self.snapshot().marks)

    def index(self) -> PageIndex:
        return PageIndex.open(Directory(self.directory), self.snapshot().files, self.config.index)

    def rows(self) -> np.ndarray:
        index = self.index()
        return np.concatenate([np.zeros(0, index.pages.dtype), *index.pages.scan()])

    def hits(self) -> dict[str, int]:
        rows = self.rows()
        return dict(zip(self.index().urls(rows), rows["hits"].tolist(), strict=True))

    def missing(self) -> int:
        """Cash that this agent minted and does not have; below 0: what it has from the other."""
        at = self.snapshot()
        return Ledger.of(at.state.ledger).missing(int(self.rows()["cash"].sum())) if at.number else 0


def places(directory: Path, web: RunningWeb, *zones: range, values: dict[str, Any] | None = None) -> list[Place]:
    exchange = InProcess()
    config = Config().replace({**VALUES, "resolve.map": {"*": web.address}, **(values or {})})
    agents = [config.replace({"crawl.agent": f"a{number}"}) for number in range(len(zones))]
    names = {zone: config.crawl.agent for config, owned in zip(agents, zones, strict=True) for zone in owned}
    owners = tuple(names[zone] for zone in range(ZONES_IN_ALL))
    return [Place(directory / c.crawl.agent, exchange, c, z, owners) for c, z in zip(agents, zones, strict=True)]


def in_flight(both: list[Place]) -> int:
    return sum(int(decode(message.data).cash.sum()) for place in both for message in place.pending())


def take_turns(both: list[Place]) -> None:
    """One runs, then the other, until neither has anything to do; no cash is ever lost between them."""
    while any(not place.is_idle() for place in both):
        for place in both:
            if not place.is_idle():
                place.run()
            assert sum(p.missing() for p in both) == in_flight(both)


def run_together(both: list[Place]) -> None:
    """Both at the same time, each in its own thread, again and again while there is work for it."""
    over = threading.Event()
    busy = [False] * len(both)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            while not over.is_set():
                busy[number] = True
                if not both[number].is_idle():
                    both[number].run()
                busy[number] = False
                over.wait(0.02)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(both))]
    for thread in threads:
        thread.start()
    end_s = time.monotonic() + PATIENCE_S
    while not failures and time.monotonic() < end_s:
        runs = [place.runs for place in both]
        if not any(busy) and all(place.is_idle() for place in both) and runs == [place.runs for place in both]:
            break
        time.sleep(0.02)
    over.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert all(place.is_idle() for place in both)


def statuses(place: Place) -> dict[str, str]:
    return {row["url"]: row["status"] for row in ask(place.directory, "SELECT url, status FROM pages")}


def check_same(web: RunningWeb, alone: Place, both: list[Place], log_lines: int) -> None:
    """Together they know, have visited and have counted exactly what one alone has."""
    first, second = (statuses(place) for place in both)
    assert not first.keys() & second.keys(), "known to both"
    assert min(len(first), len(second)) > 100
    assert first | second == statuses(alone)
    for place in both:
        zones = zone_of_key(place.rows()["key"])
        assert set(zones.tolist()) <= set(place.zones)
    hits = [place.hits() for place in both]
    assert hits[0] | hits[1] == alone.hits(), "a link was lost or counted twice"
    requests = Counter(web.log().urls[log_lines:])
    assert set(requests.values()) == {1}, "each page and each robots.txt is asked for once"
    assert sum(place.missing() for place in both) == in_flight(both) == 0


@pytest.fixture(scope="module")
def alone(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Place:
    (place,) = places(tmp_path_factory.mktemp("alone"), web, range(ZONES_IN_ALL))
    place.seeds = web.start_urls
    place.run()
    assert place.missing() == 0
    return place


@pytest.mark.parametrize("seeded", ["one", "other", "both"])
def test_in_turns(web: RunningWeb, alone: Place, tmp_path: Path, seeded: str) -> None:
    lines = len(web.log())
    both = places(tmp_path, web, *HALVES)
    for place in both if seeded == "both" else both[:1] if seeded == "one" else both[1:]:
        place.seeds = web.start_urls
    take_turns(both)
    assert min(place.runs for place in both) >= 2
    check_same(web, alone, both, lines)


def test_in_turns_with_a_virtual_page_and_interleaved_zones(web: RunningWeb, alone: Place, tmp_path: Path) -> None:
    lines = len(web.log())
    zones = range(0, ZONES_IN_ALL, 2), range(1, ZONES_IN_ALL, 2)
    both = places(tmp_path, web, *zones, values={"crawl.order": "opic-virtual"})
    both[0].seeds = web.start_urls
    take_turns(both)
    check_same(web, alone, both, lines)


def test_in_short_runs(web: RunningWeb, alone: Place, tmp_path: Path) -> None:
    """A run that ends with its frontier full goes on later: nothing that arrives meanwhile is lost."""
    lines = len(web.log())
    both = places(tmp_path, web, *HALVES, values={"crawl.rounds": 2})
    for place in both:
        place.seeds = web.start_urls
    visits = -1
    while visits < (visits := sum(place.snapshot().state.counters.visits for place in both)) or (
        any(not place.is_idle() for place in both)
    ):
        for place in both:
            place.run()
        assert sum(place.missing() for place in both) == in_flight(both)
    check_same(web, alone, both, lines)


def test_at_the_same_time(web: RunningWeb, alone: Place, tmp_path: Path) -> None:
    lines = len(web.log())
    both = places(tmp_path, web, *HALVES)
    for place in both:
        place.seeds = web.start_urls
    run_together(both)
    check_same(web, alone, both, lines)


CURRENT_LINKS = """SELECT DISTINCT source, target_url FROM links l JOIN (
    SELECT key, arg_max(round, (time, round)) AS round FROM visits
    WHERE outcome <> 'unchanged' AND status <> 'failed' AND NOT is_robots GROUP BY key
) c ON c.key = l.source AND c.round = l.round WHERE verdict = 'followed'"""


def test_links_that_vanish_no_longer_count_at_the_other_agent(tmp_path: Path) -> None:
    """Every page is visited again after some of them changed: hits are those of the current versions, exactly."""
    spec = WebSpec.plain(seed=7, hosts=12, pages=120, page_bytes=2_000.0, links=12.0, changing=0.6, changes_per_day=0.3)
    values: dict[str, Any] = {"crawl.sitemaps": False}
    with RunningWeb(spec, options=["--speed", "0"]) as web:
        both = places(tmp_path, web, *HALVES, values=values)
        both[0].seeds = web.start_urls
        take_turns(both)
        first = [place.hits() for place in both]
        web.advance(2 * 86_400.0)
        again = {"refresh.policy": "fixed", "refresh.interval_s": 1.0, "refresh.least_s": 1.0, "refresh.share": 1.0}
        for place in both:
            visits = place.snapshot().state.counters.visits
            place.config = place.config.replace({**again, "crawl.pages": visits + len(first[both.index(place)])})
            place.run()
            assert sum(p.missing() for p in both) == in_flight(both)
            place.config = place.config.replace({"refresh.policy": "never", "crawl.pages": 0})
        take_turns(both)
    found = [ask(place.directory, "SELECT outcome FROM visits WHERE NOT is_robots") for place in both]
    outcomes = Counter(row["outcome"] for rows in found for row in rows)
    assert outcomes["unchanged"] > 30
    assert outcomes["ok"] > 130
    links = Counter(row["target_url"] for place in both for row in ask(place.directory, CURRENT_LINKS))
    hits = both[0].hits() | both[1].hits()
    assert {url: number for url, number in hits.items() if number} == dict(links)
    assert hits != first[0] | first[1]
    assert sum(place.missing() for place in both) == in_flight(both) == 0
