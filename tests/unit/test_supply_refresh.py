"""How generate mixes pages that were never visited with those that are visited again."""

import numpy as np
import pytest

from gossamer.archive.chain import Chain
from gossamer.archive.store import Memory
from gossamer.clocks import VirtualClock
from gossamer.columns import NEVER, PAGE, VISITED, Status
from gossamer.config import Config
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books
from gossamer.crawl.reader import Reader
from gossamer.crawl.scheduler import Scheduler
from gossamer.crawl.scope import Scope
from gossamer.fetch.request import Request
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import strategy
from gossamer.refresh.refresher import Refresher
from gossamer.sharing.exchange import InProcess
from gossamer.web.url import page_keys

NOW_S = 1_700_000_000.0
WIDTH = 40


class Taken(Fetching):
    """Nobody fetches what is taken; it is noted."""

    requests: list[Request]

    def add(self, requests: list[Request]) -> None:
        self.requests = [*getattr(self, "requests", []), *requests]

    def take(self) -> list[Request]:
        found, self.requests = getattr(self, "requests", []), []
        return found


def world(new: int, old: int, **values: object) -> tuple[Scheduler, Taken, Frontier]:
    """Pages never visited, and pages whose time has come again, ten of each on a host."""
    given = {name.replace("__", "."): value for name, value in values.items()}
    config = Config().replace(
        {"crawl.width": WIDTH, "polite.delay_s": 0.0, "polite.connections": 4, "resolve.map": {"*": "127.0.0.1:1"},
         "refresh.policy": "fixed", "refresh.interval_s": 100.0, **given}
    )  # fmt: skip
    clock, store, order = VirtualClock(NOW_S), Memory(), strategy("opic")
    chain = Chain.open(store, "a0", InProcess())
    index = PageIndex.open(store, chain.files, config.index)
    urls = [f"http://h{number // 10}.test/{number}" for number in range(new + old)]
    pages = np.zeros(new + old, PAGE.numpy)
    pages["key"], pages["text"] = page_keys(urls), index.heap.append([url.encode() for url in urls])
    pages["status"][new:], pages["due_s"][new:] = Status.FETCHED, NEVER
    visited = np.zeros(old, VISITED.numpy)
    visited["key"], visited["last_s"], visited["visits"] = pages["key"][new:], NOW_S - 1000, 1
    visited["validators"] = 2**64 - 1
    index.pages.write(pages[np.argsort(pages["key"])])
    index.visited.write(visited[np.argsort(visited["key"])])
    frontier = Frontier(index, order, config.index)
    books = Books(store, config, chain, index, frontier, Ledger(), order)
    books.refresher = Refresher(index, config, clock)
    fetching = Taken(config, clock, RobotsCache(config.polite, "Gossamer"), Reader(config, Scope("any", [])))
    return Scheduler(books, fetching, clock, lambda keys: np.ones(len(keys), np.bool_)), fetching, frontier


def is_old(request: Request, new: int) -> bool:
    return int(request.url.rsplit("/", 1)[1]) >= new


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.8])
def test_refreshes_have_their_share_while_there_is_something_to_discover(share: float) -> None:
    supply, fetching, _ = world(2_000, 2_000, refresh__share=share)
    found: list[Request] = []
    for _ in range(30):
        supply.committed()
        supply.top_up(round_is_empty=True)
        found += fetching.take()
        supply.outstanding = 0
    old = sum(is_old(request, 2_000) for request in found)
    assert len(found) == 30 * WIDTH
    assert old <= share * len(found)
    assert old >= share * len(found) - WIDTH - 1


def test_when_nothing_is_left_to_discover_they_get_all() -> None:
    supply, fetching, _ = world(10, 100, refresh__share=0.1)
    supply.top_up(round_is_empty=True)
    found = fetching.take()
    assert len(found) == WIDTH
    assert sum(is_old(request, 10) for request in found) == WIDTH - 10


def test_they_go_first_at_their_host_in_the_order_of_the_policy() -> None:
    supply, fetching, _ = world(0, 60)
    supply.top_up(round_is_empty=True)
    ranks = [request.rank for request in fetching.take()]
    assert ranks == sorted(ranks, reverse=True)
    assert min(ranks) > 1e200


def test_nothing_is_taken_twice_before_it_has_come_back() -> None:
    supply, fetching, frontier = world(0, 60)
    supply.top_up(round_is_empty=True)
    first = {request.key for request in fetching.take()}
    supply.outstanding = 0
    supply.committed()
    supply.top_up(round_is_empty=True)
    second = {request.key for request in fetching.take()}
    assert (len(first), len(second), first & second) == (WIDTH, 20, set())
    assert set(frontier.taken.tolist()) == first | second


def test_when_it_comes_again() -> None:
    supply, _, _ = world(0, 60)
    supply.top_up(round_is_empty=True)
    assert supply.next_due_s() == NOW_S
    assert supply.is_patient
    nothing, _, _ = world(0, 0)
    nothing.top_up(round_is_empty=True)
    assert nothing.next_due_s() is None


def test_in_lockstep_time_moves_when_all_is_due() -> None:
    supply, fetching, _ = world(0, 60, polite__connections=1, refresh__interval_s=1001.0)
    for _ in range(2):
        supply.top_up(round_is_empty=True)
        assert fetching.take() == []
    clock = supply._clock
    assert isinstance(clock, VirtualClock)
    clock.advance(1.0)
    supply.top_up(round_is_empty=True)  # sees that all is due
    supply.top_up(round_is_empty=True)
    assert len(fetching.take()) == WIDTH
