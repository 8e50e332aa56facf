"""The three modes between agents of Cho and Garcia-Molina, each as a real site of several processes: which pages it
gets, which twice, what is sent, and where the cash is."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crawls import QUICK, crawl, statuses

from gossamer import Crawl
from gossamer.archive.bundle import messages_of
from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import LINKS, NEWS, ZONES, Snapshot
from gossamer.archive.store import Directory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.columns import Status
from gossamer.config import CROSS_OVER, FIREWALL, Config
from gossamer.crawl.inbox import decode
from gossamer.crawl.ledger import Ledger
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.web.url import page_key

SPEC = WebSpec.plain(seed=5, hosts=40, pages=500, page_bytes=2_000.0, links=6.0, local=0.7, redirects=0.05)
SEEDS = 4  # pages of different hosts
AGENTS = 3
VALUES: dict[str, Any] = {
    **QUICK, "site.agents": AGENTS, "crawl.width": 40, "limits.depth": 250, "limits.depth_dynamic": 250,
    "polite.connections": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def seeds(web: RunningWeb) -> list[str]:
    return web.truth.urls(web.truth.plan.offsets[:SEEDS])


@pytest.fixture(scope="module")
def alone(web: RunningWeb, seeds: list[str], tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    return crawl(web, tmp_path_factory.mktemp("alone") / "crawl", {**VALUES, "site.agents": 1}, seeds)


def in_mode(web: RunningWeb, directory: Path, seeds: list[str], mode: str, **values: Any) -> Crawl:
    return crawl(web, directory, {**VALUES, "site.mode": mode, **values}, seeds)


def same_pages(found: Crawl, other: Crawl) -> bool:
    """Each page once, and all that the other has."""
    (row,) = found.query("SELECT count(*) AS pages FROM pages")
    return len(statuses(found)) == row["pages"] and statuses(found) == statuses(other)


def states(found: Crawl) -> dict[str, Snapshot]:
    return snapshots(Directory(found.directory))


def owners(found: Crawl) -> list[str]:
    """Of each zone."""
    names = {zone: name for name, at in states(found).items() for zone in at.zones}
    return [names[zone] for zone in range(ZONES_IN_ALL)]


def owner_of(found: Crawl) -> Callable[[str], str]:
    names = owners(found)
    return lambda url: names[int(zone_of_key(np.array([page_key(url)], np.uint64))[0])]


def index(found: Crawl, at: Snapshot) -> tuple[PageIndex, Any]:
    opened = PageIndex.open(Directory(found.directory), at.files, Config().index)
    return opened, np.concatenate([np.zeros(0, opened.pages.dtype), *opened.pages.scan()])


def visits(found: Crawl) -> list[tuple[str, str]]:
    """Who visited what: the files of a visit are named after its agent."""
    rows = found.query("SELECT url, warc FROM visits WHERE NOT is_robots")
    return [(row["warc"].rpartition("/")[2].partition("-")[0], row["url"]) for row in rows]


def cash_of(kind: str, data: bytes) -> int:
    if kind == LINKS:
        return int(decode(data).cash.sum())
    said = json.loads(data) if kind in (NEWS, ZONES) and data[:1] == b"{" else {}
    return int(said.get("pool", 0)) + int(said.get("cash", 0))


def check_cash(found: Crawl) -> None:
    """Whatever was minted is on pages, in pools, or in messages that are not committed yet."""
    at, store, lacking, flying = states(found), Directory(found.directory), 0, 0
    for snapshot in at.values():
        opened, rows = index(found, snapshot)
        ledger = Ledger.of(snapshot.state.ledger)
        assert ledger.known == len(rows) == opened.count
        lacking += ledger.missing(int(rows["cash"].sum()))
        for message in messages_of(store, snapshot.outbox):
            if message.number > at[message.to].marks.get(message.stream, 0):
                flying += cash_of(message.kind, message.data)
    assert lacking == flying, "cash was lost or made"


def check_hosts(found: Crawl) -> None:
    """What each agent counts per host is what it knows."""
    for snapshot in states(found).values():
        opened, rows = index(found, snapshot)
        assert int(opened.hosts.rows["known"].sum()) == len(rows)
        final = ~np.isin(rows["status"], (Status.NEW, Status.FAILED))
        assert int(opened.hosts.rows["visited"].sum()) == int(final.sum())


def commits(found: Crawl) -> list[dict[str, Any]]:
    lines = [line for path in (found.directory / "log").glob("a*.jsonl") for line in path.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["event"] == "commit"]


def within(web: RunningWeb, found: Crawl, seeds: list[str]) -> set[str]:
    """What links lead to without ever leaving the zones of an agent."""
    truth, reached, owner = web.truth, set(seeds), owner_of(found)
    front = list(seeds)
    while front:
        url = front.pop()
        page = truth.page(url)
        targets = truth.links(page) or ([truth.target(page)] if truth.status(page) in range(300, 400) else [])
        for target in truth.urls(targets):
            if target not in reached and owner(target) == owner(url):
                reached.add(target)
                front.append(target)
    return reached


def test_exchange_gets_what_one_agent_gets(web: RunningWeb, alone: Crawl, seeds: list[str], tmp_path: Path) -> None:
    found = in_mode(web, tmp_path / "crawl", seeds, "exchange")
    assert same_pages(found, alone)
    owner = owner_of(found)
    assert len({agent for agent, _ in visits(found)}) == AGENTS
    assert set(Counter(url for _, url in visits(found)).values()) == {1}
    assert all(agent == owner(url) for agent, url in visits(found))
    assert sum(event["sent_links"] for event in commits(found)) > 0
    check_cash(found)
    check_hosts(found)


@pytest.mark.parametrize("order", ["opic", "opic-virtual"])
def test_firewall_stays_in_its_zones(web: RunningWeb, seeds: list[str], tmp_path: Path, order: str) -> None:
    found = in_mode(web, tmp_path / "crawl", seeds, FIREWALL, **{"crawl.order": order})
    expected, owner = within(web, found, seeds), owner_of(found)
    assert set(statuses(found)) == {url for _, url in visits(found)} == expected
    assert len(expected) < SPEC.pages, "this web has pages that a firewall cannot get"
    assert all(agent == owner(url) for agent, url in visits(found))
    verdicts = found.query(
        "SELECT DISTINCT s.url AS source, target_url AS target, verdict FROM links l JOIN pages s ON s.key = l.source"
    )
    for row in verdicts:
        is_foreign = owner(row["source"]) != owner(row["target"])
        assert (row["verdict"] == "foreign") == is_foreign, row
    assert sum(event["sent_links"] for event in commits(found)) == 0
    check_cash(found)
    check_hosts(found)
    ledgers = [Ledger.of(at.state.ledger) for at in states(found).values()]
    given = sum(ledger.v * ledger.known for ledger in ledgers)  # by the virtual page, to all
    assert sum(ledger.pool for ledger in ledgers) + given > 0
    assert bool(given) == (order == "opic-virtual")


def test_cross_over_gets_all_and_some_twice(web: RunningWeb, alone: Crawl, seeds: list[str], tmp_path: Path) -> None:
    found = in_mode(web, tmp_path / "crawl", seeds, CROSS_OVER)
    assert same_pages(found, alone)
    times = Counter(url for _, url in visits(found))
    assert max(times.values()) > 1, "several agents found the same page"
    assert set(Counter(visits(found)).values()) == {1}, "but none of them twice"
    assert sum(event["sent_links"] for event in commits(found)) == 0
    check_cash(found)
    check_hosts(found)


def test_cross_over_goes_abroad_when_nothing_of_its_own_is_left(
    web: RunningWeb, seeds: list[str], tmp_path: Path
) -> None:
    """By each agent's own visits, round by round: with a foreign page in it, a round has no page of its own. With one
    connection a round ends when all its pages are back; with more, pages of its own that an agent finds abroad are
    asked for while the last foreign ones are still under way."""
    values = {"crawl.order": "larger-sites-first", "polite.connections": 1}
    found = in_mode(web, tmp_path / "crawl", seeds, CROSS_OVER, **values)
    owner = owner_of(found)
    rows = found.query("SELECT url, round, warc FROM visits WHERE NOT is_robots")
    kinds: dict[tuple[str, int], set[bool]] = {}
    for row in rows:
        agent = row["warc"].rpartition("/")[2].partition("-")[0]
        kinds.setdefault((agent, row["round"]), set()).add(owner(row["url"]) == agent)
    assert {len(kind) for kind in kinds.values()} == {1}, "own and foreign pages in one round"
    assert {True} in kinds.values()
    assert {False} in kinds.values()


@pytest.mark.slow
def test_cross_over_goes_on_though_a_page_of_its_own_has_to_wait(
    web: RunningWeb, seeds: list[str], tmp_path: Path
) -> None:
    """A host that does not answer is tried again much later: what is left abroad is crawled all the same, and then it
    ends."""
    web.fault("h1.test", "hang")
    try:
        found = in_mode(web, tmp_path / "crawl", seeds, CROSS_OVER, **{"fetch.timeout_s": 0.5, "fetch.retries": 50})
    finally:
        web.fault("h1.test")
    other = [url for url, status in statuses(found).items() if "//h1.test/" not in url and status == "new"]
    assert not other


@pytest.mark.slow
def test_cross_over_hands_zones_over(web: RunningWeb, alone: Crawl, seeds: list[str], tmp_path: Path) -> None:
    """Others take over zones of which they know pages already, and those who lose zones keep what they know abroad."""
    found = in_mode(web, tmp_path / "crawl", seeds, CROSS_OVER, **{"crawl.pages": 700})
    assert max(Counter(url for _, url in visits(found)).values()) > 1
    for agents in (2, 4):
        found = in_mode(web, tmp_path / "crawl", [], CROSS_OVER, **{"site.agents": agents})
        assert Counter(owners(found)).keys() == {"a0", "a1", "a2", "a3"} - ({"a2", "a3"} if agents == 2 else set())
        check_cash(found)
        check_hosts(found)
    assert same_pages(found, alone)


@pytest.mark.slow
def test_a_crawl_that_crossed_over_may_exchange_later(
    web: RunningWeb, alone: Crawl, seeds: list[str], tmp_path: Path
) -> None:
    in_mode(web, tmp_path / "crawl", seeds, CROSS_OVER, **{"crawl.pages": 700})
    found = in_mode(web, tmp_path / "crawl", [], "exchange")
    assert same_pages(found, alone)
    check_cash(found)
    check_hosts(found)


def test_cross_over_comes_with_a_warning() -> None:
    """Nobody knows when others visit a host: each agent is polite for itself."""
    both = {"site.agents": 2, "site.mode": CROSS_OVER}
    assert any("cross-over" in warning for warning in Config().replace(both).warnings())
    assert not Config().replace({**both, "site.agents": 1}).warnings()
    assert not Config().replace({**both, "site.mode": FIREWALL}).warnings()
