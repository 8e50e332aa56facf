"""When the workbench is topped up: not for every page that it loses, and at once when it is nearly empty."""

from typing import Any

import numpy as np
import pytest
from answers import HTML, NOW_S, answer, page, reader

from gossamer.archive.chain import Chain
from gossamer.archive.digests import DigestCache
from gossamer.archive.store import Memory
from gossamer.clocks import VirtualClock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books, Known
from gossamer.crawl.pacing import ends_early
from gossamer.crawl.reader import Reader
from gossamer.crawl.round import Round
from gossamer.crawl.scheduler import Scheduler
from gossamer.crawl.scope import Scope
from gossamer.crawl.update import RoundColumns, seeds, update
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.strategies import strategy
from gossamer.sharing.exchange import InProcess
from gossamer.web.url import host_key

WIDTH, HOSTS, PAGES = 100, 10, 1_000
CONFIG = Config().replace(
    {"crawl.width": WIDTH, "polite.delay_s": 1.0, "polite.connections": 4, "resolve.map": {"*": "127.0.0.1:1"}}
)


def supply(clock: VirtualClock) -> Scheduler:
    """Few hosts with many pages each; nobody fetches what is taken."""
    store, order, ledger = Memory(), strategy("opic"), Ledger()
    chain = Chain.open(store, "a0", InProcess())
    index = PageIndex.open(store, chain.files, CONFIG.index)
    frontier = Frontier(index, order, CONFIG.index)
    urls = [f"http://h{number % HOSTS}.test/{number}" for number in range(PAGES)]
    columns = RoundColumns(inbox=seeds(urls, ledger))
    update(index, frontier, ledger, columns, limits=CONFIG.limits, strategy=order, now_s=clock.now())
    books = Books(store, CONFIG, chain, index, frontier, ledger, order)
    fetching = Fetching(CONFIG, clock, RobotsCache(CONFIG.polite, "Gossamer"), Reader(CONFIG, Scope("any", [])))
    return Scheduler(books, fetching, clock, lambda keys: np.ones(len(keys), np.bool_))


def test_what_few_hosts_fill_to_a_half_is_not_topped_up_for_every_page() -> None:
    clock = VirtualClock(1_000.0)
    it = supply(clock)
    it.top_up(round_is_empty=True)
    assert it.outstanding == WIDTH // 2 + 1
    for left in range(WIDTH // 2, WIDTH // 4, -1):
        it.outstanding -= 1
        it.top_up(round_is_empty=False)
        assert it.outstanding == left, "it was topped up for a page"
    clock.advance(1.0)
    it.top_up(round_is_empty=False)
    assert it.outstanding == WIDTH // 2 + 1


def test_a_workbench_that_is_nearly_empty_is_filled_at_once() -> None:
    it = supply(VirtualClock(1_000.0))
    it.top_up(round_is_empty=True)
    it.outstanding = WIDTH // 4
    it.top_up(round_is_empty=False)
    assert it.outstanding == WIDTH // 2 + 1


def test_after_a_commit_there_may_be_more_at_once() -> None:
    it = supply(VirtualClock(1_000.0))
    it.top_up(round_is_empty=True)
    it.outstanding -= 1
    it.committed()
    it.top_up(round_is_empty=False)
    assert it.outstanding == WIDTH // 2 + 1


def round_with(*links: str, url: str = "http://h1.test/1", **answered: Any) -> Round:
    """One that has visited a page with these links."""
    found = Round(1, None, DigestCache(10), Known(PageIndex.open(Memory(), {}, CONFIG.index)))
    found.add(reader().read(answer(page(*links), HTML, url=url, **answered)))
    return found


@pytest.mark.parametrize(
    ("links", "promises"),
    [
        ([], False),
        (["http://h2.test/2"], False),  # it is known
        (["http://h2.test/new", "http://h3.test/new"], False),  # their hosts have enough to do
        (["http://h2.test/new", "http://elsewhere.test/"], True),
    ],
)
def test_a_round_promises_what_would_keep_idle_connections_busy(links: list[str], promises: bool) -> None:
    it = supply(VirtualClock(NOW_S))
    it.top_up(round_is_empty=True)
    found = round_with(*links)
    assert it.promises(found) == promises
    assert it.promises(found) == promises, "asked again it says the same"


def test_pages_of_others_are_told_apart() -> None:
    """They keep none of our connections busy, so that a round is in less of a hurry for them."""
    it = supply(VirtualClock(NOW_S))
    foreign = host_key("elsewhere.test")
    it._is_native = lambda keys: host_of_key(keys) != foreign
    it.top_up(round_is_empty=True)
    found = round_with("http://h2.test/2")
    assert not it.promises(found)
    assert not it.has_for_others
    found.add(reader().read(answer(page("http://elsewhere.test/"), HTML, url="http://h1.test/31")))
    assert not it.promises(found)
    assert it.has_for_others
    found.add(reader().read(answer(page("http://another.test/"), HTML, url="http://h1.test/61")))
    assert it.promises(found)
    it.committed()
    assert not it.has_for_others


def test_a_host_that_has_nothing_left_to_do_makes_a_round_promising() -> None:
    it = supply(VirtualClock(NOW_S))
    it.top_up(round_is_empty=True)
    taken = it._books.frontier.taken
    of_host = taken[host_of_key(taken) == host_key("h2.test")]
    found = round_with("http://h2.test/new")
    assert not it.promises(found)
    urls = it._books.index.urls(it._books.index.pages.look_up(of_host)[1])
    for url in urls:
        found.add(reader().read(answer(page(), HTML, url=url)))
    assert it.promises(found)


def test_what_is_due_again_makes_a_round_promising() -> None:
    clock = VirtualClock(NOW_S)
    it = supply(clock)
    it.top_up(round_is_empty=True)
    found = round_with(outcome=Outcome.TIMEOUT, status=0)
    assert not it.promises(found)
    clock.advance(CONFIG.fetch.retry_s + 2)
    assert it.promises(found)


def test_a_round_ends_early_only_for_what_it_promises() -> None:
    assert ends_early(True, True, True, 1.0, 0.01)
    assert not ends_early(True, True, False, 1.0, 0.01)
    assert ends_early(True, True, False, 20.0, 0.01), "but it does end"
    assert not ends_early(False, False, True, 20.0, 0.01)
    assert not ends_early(False, False, False, 20.0, 0.01)
