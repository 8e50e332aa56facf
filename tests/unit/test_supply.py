"""When the workbench is topped up: not for every page that it loses, and at once when it is nearly empty."""

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.store import Memory
from gossamer.clocks import VirtualClock
from gossamer.config import Config
from gossamer.crawl.closing import Books
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.reader import Reader
from gossamer.crawl.scope import Scope
from gossamer.crawl.supply import Supply
from gossamer.crawl.update import RoundColumns, seeds, update
from gossamer.federation.exchange import InProcess
from gossamer.fetch.robots_book import RobotsBook
from gossamer.index.frontier import Frontier
from gossamer.index.pages import PageIndex
from gossamer.order.strategies import strategy

WIDTH, HOSTS, PAGES = 100, 10, 1_000
CONFIG = Config().replace(
    {"crawl.width": WIDTH, "polite.delay_s": 1.0, "polite.connections": 4, "resolve.map": {"*": "127.0.0.1:1"}}
)


def supply(clock: VirtualClock) -> Supply:
    """Few hosts with many pages each; nobody fetches what is taken."""
    store, order, ledger = Memory(), strategy("opic"), Ledger()
    chain = Chain.open(store, "a0", InProcess())
    index = PageIndex.open(store, chain.files, CONFIG.index)
    frontier = Frontier(index, order, CONFIG.index)
    urls = [f"http://h{number % HOSTS}.test/{number}" for number in range(PAGES)]
    columns = RoundColumns(inbox=seeds(urls, ledger))
    update(index, frontier, ledger, columns, limits=CONFIG.limits, strategy=order, now_s=clock.now())
    books = Books(store, CONFIG, chain, index, frontier, ledger, order)
    fetching = Fetching(CONFIG, clock, RobotsBook(CONFIG.polite, "Gossamer"), Reader(CONFIG, Scope("any", [])))
    return Supply(books, fetching, clock, lambda: lambda keys: np.ones(len(keys), np.bool_))


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
