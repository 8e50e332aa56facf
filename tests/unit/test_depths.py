"""How deep pages are, and which are too deep, does not depend on the order in which they are found."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from answers import HTML, answer, page
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.archive.chain import Chain
from gossamer.archive.digests import DigestCache
from gossamer.archive.state import AgentState
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.columns import Contributions, Outcome, Status
from gossamer.config import Config
from gossamer.crawl import commit, onward
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books, Known
from gossamer.crawl.reader import Reader
from gossamer.crawl.round import Round
from gossamer.crawl.scope import Scope
from gossamer.crawl.update import seeds
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, zone_of_key
from gossamer.frontier.strategies import strategy
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.owners import Owners
from gossamer.web.url import page_key, page_keys

PAGES, AGENTS = 10, ("a0", "a1")
Graph = Mapping[int, list[int]]


def url_of(number: int) -> str:
    """Every host has three pages; a fifth of the pages are dynamic."""
    return f"http://h{number // 3}.test/{'d?n=' if number % 5 == 4 else 's/'}{number}"


def limit_of(number: int, deepest: int) -> int:
    return min(deepest, 2) if number % 5 == 4 else deepest


def depths(graph: Graph, moved: set[int], deepest: int) -> dict[int, int]:
    """The truth: breadth first, where a redirect costs nothing."""
    found, queue = {0: 0}, deque([0])
    while queue:
        source = queue.popleft()
        for target in graph.get(source, [])[: 1 if source in moved else None]:
            depth = found[source] + (source not in moved)
            if depth <= limit_of(target, deepest) and depth < found.get(target, 255):
                found[target] = depth
                (queue.appendleft if source in moved else queue.append)(target)
    return found


class World:
    """One agent or two that visit pages in any order; messages arrive whenever somebody commits."""

    def __init__(self, graph: Graph, moved: set[int], deepest: int, agents: int, links: bool) -> None:
        self.graph, self.moved = graph, moved
        values = {"limits.depth": deepest, "limits.depth_dynamic": 2, "archive.links": links, "archive.warc": False}
        self.config = Config().replace({**values, "index.memory_mb": 16})
        self.store, self.exchange = Memory(), InProcess()
        self.names = AGENTS[:agents]
        self.messages: dict[str, list[Contributions]] = {name: [] for name in self.names}
        self.books = {name: self._open(name) for name in self.names}
        self.held: dict[str, list[tuple[int, ...]]] = {name: [] for name in self.names}
        ledger = self.books["a0"].ledger
        self.commit(self._owner(0), [], seeds([url_of(0)], ledger))

    def _zones(self, name: str) -> list[int]:
        return [zone for zone in range(ZONES_IN_ALL) if self.names[zone % len(self.names)] == name]

    def _owner(self, number: int) -> str:
        return self.names[int(zone_of_key(page_keys([url_of(number)]))[0]) % len(self.names)]

    def _open(self, name: str) -> Books:
        order = strategy("breadth-first")
        chain = Chain.open(self.store, name, self.exchange, zones=self._zones(name))
        index = PageIndex.open(self.store, chain.files, self.config.index)
        ledger = Ledger.of(chain.state.ledger)
        frontier = Frontier(index, order, self.config.index)
        return Books(self.store, self.config, chain, index, frontier, ledger, order)

    def reopen(self, name: str) -> None:
        """A crash: only what was committed is left."""
        self.books[name] = self._open(name)
        self.held[name] = []

    def take(self, name: str) -> None:
        """Pages that are about to be visited, as deep as they are thought to be now."""
        rows = self.books[name].frontier.take(1_000, 1.0, 100)
        names = ("key", "depth", "hops", "tries")
        self.held[name] += [tuple(int(row[column]) for column in names) for row in rows]

    def commit(self, name: str, visited: list[int], inbox: Contributions | None = None) -> None:
        books = self.books[name]
        round_ = Round(books.chain.round, None, DigestCache(10), Known(books.index))
        reader = Reader(self.config, Scope("any"))
        numbers = {page_key(url_of(number)): number for number in range(PAGES)}
        held = self.held[name]
        for place in sorted({place % len(held) for place in visited}, reverse=True) if held else []:
            key, depth, hops, tries = held.pop(place)
            round_.add(reader.read(self._answer(numbers[key], depth=depth, hops=hops, tries=tries)))
        rows = Contributions.joined([*self.messages[name], *([inbox] if inbox else [])])
        self.messages[name] = []
        owners = Owners(name, self._zones(name), [self.names[zone % len(self.names)] for zone in range(ZONES_IN_ALL)])
        closed = commit.close(books, round_, rows, owners, 0, 1.0)
        for to, part in owners.by_name(closed.links.key):
            self.messages[to].append(closed.links.take(part))
        state = AgentState(ledger=books.ledger.state(), depth_limits=commit.depth_limits(self.config))
        books.chain.commit(
            closed.changes, state=state, marks={}, outbox=[], exchange=self.exchange, applied=[], now_s=1.0
        )
        books.index.release(closed.changes)

    def _answer(self, number: int, **request: Any) -> Any:
        links = [url_of(target) for target in self.graph.get(number, [])]
        if number in self.moved:
            where = {"status": 301, "outcome": Outcome.MOVED, "location": links[0]}
            return answer(b"", url=url_of(number), **where, **request)
        return answer(page(*links), HTML, url=url_of(number), **request)

    def finish(self, order: Sequence[int] = range(PAGES)) -> None:
        """Until nobody has anything to do; of what is known, what comes first in the order is visited first."""
        places = {page_key(url_of(number)): place for place, number in enumerate(order)}
        while True:
            for name in self.names:
                self.take(name)
                self.held[name].sort(key=lambda held: places[held[0]])
            if not any(self.held.values()) and not any(self.messages.values()):
                return
            for name in self.names:
                self.commit(name, [0])

    def known(self) -> dict[int, tuple[int, int]]:
        """Depth and status of every page."""
        found = {}
        numbers = {page_key(url_of(number)): number for number in range(PAGES)}
        for books in self.books.values():
            for rows in books.index.pages.scan():
                found |= {numbers[int(row["key"])]: (int(row["depth"]), int(row["status"])) for row in rows}
        return found


def visit(world: World, number: int) -> None:
    """This page, now."""
    name = world._owner(number)
    world.take(name)
    places = [place for place, held in enumerate(world.held[name]) if held[0] == page_key(url_of(number))]
    world.commit(name, places)


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("links", [True, False])
def test_what_was_too_deep_by_a_long_way_is_visited_when_a_short_one_is_found(agents: int, links: bool) -> None:
    long, short = {0: [1, 6], 1: [2], 2: [3], 3: [5], 5: [7], 7: [8]}, {6: [3]}
    world = World({**long, **short}, set(), 4, agents, links)
    for number in (0, 1, 2, 3, 5):
        visit(world, number)
        for name in world.names:
            world.commit(name, [])
    assert world.known()[5] == (4, Status.FETCHED)
    assert 7 not in world.known(), "it is five links from the seed, as far as anybody knows"
    visit(world, 6)
    world.finish()
    assert world.known()[7] == (4, Status.FETCHED)
    assert 8 not in world.known()


@pytest.mark.parametrize("moved", [3, 5, 6])
@pytest.mark.parametrize("agents", [1, 2])
def test_what_redirects_is_no_deeper(agents: int, moved: int) -> None:
    graph = {0: [1, 6], 1: [2], 2: [3], 3: [5], 5: [7], 6: [3], 7: [8], 8: [0]}
    for deepest in (3, 4, 9):
        world = World(graph, {moved}, deepest, agents, False)
        world.finish([0, 1, 2, 3, 5, 7, 8, 4, 9, 6])
        assert {number: depth for number, (depth, _) in world.known().items()} == depths(graph, {moved}, deepest)


def test_more_depth_than_before_is_enough_to_go_on() -> None:
    world = World({0: [1], 1: [2], 2: [3]}, set(), 1, 1, False)
    world.finish()
    assert sorted(world.known()) == [0, 1]
    world.config = world.config.replace({"limits.depth": 2})
    world.reopen("a0")
    world.commit("a0", [])
    world.finish()
    assert world.known() == {0: (0, Status.FETCHED), 1: (1, Status.FETCHED), 2: (2, Status.FETCHED)}


def test_links_of_any_length_are_kept() -> None:
    index = PageIndex.open(Memory(), {}, Config().index)
    chance = np.random.default_rng(7)
    links = [(onward.REFUSED, f"http://h.test/{chance.bytes(600).hex()}") for _ in range(400)]
    keys = np.array([9, 3], np.uint64)
    onward.write(index, keys, [links, [(onward.LEVEL, "http://h.test/?page=2")]])
    assert onward.read(index, np.array([3, 4, 9], np.uint64)) == [[("=", "http://h.test/?page=2")], [], links]
    onward.write(index, keys, [[], links])
    assert onward.read(index, np.array([3, 9], np.uint64)) == [links, []]
    assert index.onward.count == 2


NUMBERS = st.integers(0, PAGES - 1)
LINKS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6)
SHORT_CUTS = st.lists(st.tuples(st.integers(7, PAGES - 1), st.integers(2, 6)), min_size=2, max_size=5)
STEPS = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 9), max_size=2), st.integers(0, 9)), max_size=9)


def graph_of(links: list[tuple[int, int]], short_cuts: list[tuple[int, int]]) -> dict[int, list[int]]:
    """A long way from 0 to 6, pages beside it that lead back to it, and what chance adds."""
    graph: dict[int, list[int]] = {}
    for source, target in [*pairwise(range(7)), (0, 7), (0, 8), (8, 9), *short_cuts, *links]:
        if source != target and target not in graph.setdefault(source, []):
            graph[source].append(target)
    return graph


@settings(max_examples=100, deadline=None)
@given(LINKS, SHORT_CUTS, st.sets(NUMBERS, max_size=3), st.integers(2, 5), st.integers(1, 2), st.booleans(), STEPS,
       st.just(list(range(PAGES))) | st.permutations(range(PAGES)))  # fmt: skip
def test_depths_are_those_of_the_graph_in_whatever_order_pages_are_found(
    links: list[tuple[int, int]], short_cuts: list[tuple[int, int]], moved: set[int], deepest: int, agents: int,
    stores_links: bool, steps: list[tuple[int, list[int], int]], order: list[int],
) -> None:  # fmt: skip
    graph = graph_of(links, short_cuts)
    moved = {number for number in moved if graph.get(number)}
    world = World(graph, moved, deepest, agents, stores_links)
    for agent, visited, crash in steps:
        name = world.names[agent % agents]
        world.take(name)
        world.commit(name, visited)
        if crash == 0:
            world.reopen(name)
    world.finish(order)
    found = world.known()
    assert {number: depth for number, (depth, _) in found.items()} == depths(graph, moved, deepest)
    assert {status for _, status in found.values()} <= {Status.FETCHED, Status.MOVED}
