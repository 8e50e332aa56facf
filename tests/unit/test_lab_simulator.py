"""The simulator: orders computed by hand, cash that is never lost, and the same orders as production's own update."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.columns import NEVER, Status
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.update import VISIT, CashUse, Links, RoundColumns, seeds, update
from gossamer.errors import ConfigError
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.scores import HistoricalScores, Lesson, LinkScores, scored
from gossamer.frontier.strategies import ORDERS, Strategy, by_cash, by_pending
from gossamer.sim import world as w
from gossamer.sim.graphs import Graph
from gossamer.sim.simulator import Conditions, Knowledge, Rounds, Simulation, simulate
from gossamer.web.url import page_key

INDEX = config.Index(memory_mb=16)
NO_LIMITS = config.Limits(pages_per_host=0, pages_per_domain=0, hosts_per_domain=0)
PRODUCTION = [name for name, order in ORDERS.items() if order.score is None or not order.score.needs_oracle]


def to_other_hosts(links):
    return 1 + 3 * links["foreign"].astype(np.int64)


# Everything that a strategy can be at once, and what ORDERS may lack.
WEIGHTED = Strategy("weighted", "for the test", by_cash, link_weight=to_other_hosts)
ALL_AT_ONCE = Strategy("all", "for the test", by_cash, by_pending, to_other_hosts, virtual=True, damping=Fraction(3, 5))
ALL = [*(ORDERS[name] for name in PRODUCTION), WEIGHTED, ALL_AT_ONCE]


def graph_of(sizes, links, shuffle=None):
    """Hosts of these sizes, {page: targets}. Pages are numbered by key, so that ties go by number."""
    names = sorted((f"h{n}.test" for n in range(len(sizes))), key=lambda name: page_key(f"http://{name}/"))
    urls = []
    for name, size in zip(names, sizes, strict=True):
        urls += sorted((f"http://{name}/{n}.html" for n in range(size)), key=page_key)
    host = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    number = np.arange(len(urls)) if shuffle is None else np.asarray(shuffle)  # new number of each page
    back = np.argsort(number)
    rows = [[int(number[target]) for target in links.get(int(page), [])] for page in back]
    return Graph(
        "made by hand",
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.array([target for row in rows for target in row], np.int32),
        host[back],
        names,
        np.full(len(urls), 1000.0),
        rule="by hand",
        listed=[urls[page] for page in back],
    )


# Hosts {0 1 2 3} and {4 5 6}.
SMALL = graph_of([4, 3], {0: [4, 1, 2], 1: [2], 2: [3, 5, 6], 4: [3, 5, 6], 5: [6]})
OLD = np.array([0.6, 0.3, np.nan, 0.2, 0.1, 0.4, 0.05])
TRUE = np.array([0, 1, 5, 2, 3, 9, 4]) / 24


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "breadth-first": [0, 4, 1, 2, 3, 5, 6],
        "backlink-count": [0, 1, 2, 3, 4, 5, 6],  # 2 has two links; then all have one
        "opic": [0, 1, 2, 4, 3, 5, 6],  # thirds; 2 gets another one; 3, 5, 6 get two ninths and then one more
        "opic-virtual": [0, 1, 2, 4, 3, 5, 6],
        "rankmass": [0, 1, 2, 4, 3, 5, 6],
        "shallow-first": [0, 1, 2, 4, 3, 5, 6],
        "larger-sites-first": [0, 1, 2, 4, 5, 3, 6],  # pending 2:1, 1:1, then 1:3, 1:2, 1:1
        "larger-sites-opic": [0, 1, 2, 4, 5, 3, 6],
        "batch-pagerank": [0, 1, 2, 3, 4, 5, 6],  # never computed: all alike
        "partial-pagerank": [0, 1, 2, 3, 4, 5, 6],
        "hits-authority": [0, 1, 2, 3, 4, 5, 6],
        "historical-pagerank-zero": [0, 1, 4, 5, 3, 6, 2],
        "historical-pagerank-parent": [0, 1, 2, 5, 3, 4, 6],  # 2 inherits .6 / 3
        "historical-pagerank-omniscient": [0, 1, 2, 5, 3, 4, 6],  # 2 has 5 / 24
        "omniscient": [0, 2, 5, 6, 4, 3, 1],
    }.items(),
)
def test_orders_by_hand(name, expected):
    knowledge = Knowledge(oracle=TRUE, history=OLD, every=100)
    assert simulate(SMALL, ORDERS[name], [0], knowledge=knowledge).order.tolist() == expected


def test_random_goes_by_hash_and_seed():
    star = graph_of([30], {0: list(range(1, 30))})
    orders = [simulate(star, ORDERS["random"], [0], Conditions(seed=seed)).order.tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(30))


def test_a_batch_is_chosen_before_its_pages_teach():
    """Two at a time: 4 and 1 are chosen together, then 2 and what 4 led to."""
    trace = simulate(SMALL, ORDERS["breadth-first"], [0], Conditions(width=2))
    assert trace.order.tolist() == [0, 4, 1, 2, 3, 5, 6]
    assert trace.batch.tolist() == [1, 2, 2, 3, 3, 4, 4]
    # With everything at once 1 does not lift 2 above 4 in time, and all three go by key.
    assert simulate(SMALL, ORDERS["opic"], [0], Conditions(width=9)).order.tolist() == [0, 1, 2, 4, 3, 5, 6]


def test_the_first_pages_are_those_of_a_longer_crawl():
    whole = simulate(SMALL, ORDERS["opic"], [0], Conditions(width=2)).order
    for pages in range(1, 8):
        assert simulate(SMALL, ORDERS["opic"], [0], Conditions(width=2), pages=pages).order.tolist() == (
            whole[:pages].tolist()
        )


def test_what_a_strategy_needs_and_does_not_get():
    for name, missing in (
        ("omniscient", "oracle"),
        ("historical-pagerank-zero", "earlier crawl"),
        ("historical-pagerank-omniscient", "oracle"),
    ):
        with pytest.raises(ConfigError, match=missing):
            simulate(SMALL, ORDERS[name], [0])
    for starts in ([], [1, 1]):
        with pytest.raises(ConfigError, match="begins with"):
            simulate(SMALL, ORDERS["opic"], starts)


@st.composite
def graphs(draw):
    """Hosts, links (of a page distinct), and where to start."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    pages = sum(sizes)
    page = st.integers(0, pages - 1)
    links = {n: draw(st.lists(page, unique=True, max_size=6)) for n in range(pages)}
    return sizes, links, draw(st.lists(page, unique=True, min_size=1, max_size=4))


def minted(starts):
    ledger = Ledger()
    ledger.mint(len(starts))
    return ledger.minted


@settings(max_examples=60)
@given(graphs(), st.sampled_from(["opic", "opic-virtual", "rankmass", "weighted", "all"]), st.sampled_from([0, 1, 3]))
def test_no_cash_is_lost(made, name, width):
    sizes, links, starts = made
    order = {**ORDERS, "weighted": WEIGHTED, "all": ALL_AT_ONCE}[name]
    simulation = Simulation(graph_of(sizes, links), order, Conditions(width=width), Knowledge())
    simulation.run(np.array(starts, np.int32), 0)
    world = simulation.world
    number, cash = world.number, world.pages["cash"]
    known = world.state != w.UNKNOWN
    assert number["known"] == known.sum()
    assert int(cash.sum()) + int(number["known"] * number["given"] + number["pool"]) == minted(starts)
    assert (cash[known] + number["given"] >= 0).all()
    assert not cash[~known].any()
    assert not world.taken.any()


@settings(max_examples=40)
@given(graphs(), st.sampled_from(ALL), st.sampled_from([0, 2, 5]), st.randoms(use_true_random=False))
def test_numbers_of_pages_decide_nothing(made, order, width, random):
    sizes, links, starts = made
    shuffle = list(range(sum(sizes)))
    random.shuffle(shuffle)
    old = np.where(np.arange(sum(sizes)) % 3, 1 / (2 + np.arange(sum(sizes))), np.nan)
    found = []
    for numbers in (np.arange(sum(sizes)), np.array(shuffle)):
        graph = graph_of(sizes, links, numbers)
        knowledge = Knowledge(history=old[np.argsort(numbers)], relevance=np.zeros(graph.links), every=3)
        trace = simulate(graph, order, numbers[starts], Conditions(width=width), knowledge)
        found.append([graph.urls[page] for page in trace.order.tolist()])
    assert found[0] == found[1]


# --- parity without servers


class Production:
    """A crawl without a network: what `crawl/commit.py` does, round by round."""

    def __init__(self, graph, order, knowledge, seed=0):
        self.graph, self.relevance, self.seed = graph, knowledge.relevance, seed
        self.number = {int(key): page for page, key in enumerate(graph.keys)}
        self.scores = self._scores(order, knowledge)
        self.order = scored(order, self.scores) if self.scores else order
        self.index = PageIndex.open(Memory(), {}, INDEX)
        self.frontier = Frontier(self.index, self.order, INDEX, seed)
        self.ledger = Ledger()

    def _scores(self, order, knowledge):
        if order.score is None:
            return None
        if order.score.is_batch:
            return LinkScores(order.score, knowledge.every)
        old = ~np.isnan(knowledge.history)
        return HistoricalScores(order.score, self.graph.keys[old], knowledge.history[old], self.seed)

    def crawl(self, starts, width):
        self.close(RoundColumns(inbox=seeds([self.graph.urls[page] for page in starts], self.ledger)))
        visited = []
        while len(rows := self.frontier.take(width, 1000.0, width)):
            pages = [self.number[int(key)] for key in rows["key"]]
            visited += pages
            self.close(self.round_of(pages))
        return visited

    def round_of(self, pages):
        graph = self.graph
        visits = np.array([(graph.keys[page], Status.FETCHED, NEVER, 0, CashUse.SPEND) for page in pages], VISIT.numpy)
        parts = [slice(graph.indptr[page], graph.indptr[page + 1]) for page in pages]
        rows = [graph.indices[part] for part in parts]
        relevance = None if self.relevance is None else np.concatenate([self.relevance[part] for part in parts])
        source = np.repeat(np.arange(len(pages), dtype=np.int32), [len(row) for row in rows])
        target = np.concatenate(rows)
        urls = {int(graph.keys[page]): graph.urls[page] for page in target.tolist()}
        return RoundColumns(visits, Links(source, graph.keys[target], np.ones(len(target), bool), relevance), urls)

    def close(self, columns):
        result = update(
            self.index, self.frontier, self.ledger, columns, limits=NO_LIMITS, strategy=self.order,
            now_s=1000.0, seed=self.seed,
        )  # fmt: skip
        if self.scores is None:
            return
        links = columns.links
        lesson = Lesson(
            result.new.key, result.new.referrer, columns.visits["key"], links.source, links.target, links.followed
        )
        changed = self.scores.learn(lesson)
        if changed is None:
            self.frontier.rank_anew()
        elif len(changed):
            self.frontier.offer(self.index.pages.look_up(changed)[1], 1000.0)


@pytest.mark.parametrize("order", ALL, ids=lambda order: order.name)
@settings(max_examples=25)
@given(made=graphs(), width=st.sampled_from([1, 2, 3, 7, 100]), every=st.integers(1, 12), data=st.data())
def test_the_same_order_as_production(order, made, width, every, data):
    sizes, links, starts = made
    graph = graph_of(sizes, links)
    values = st.lists(st.sampled_from([np.nan, 0.1, 0.2, 0.3, 0.7]), min_size=graph.pages, max_size=graph.pages)
    history = np.array(data.draw(values)) if order.score and order.score.source == "history" else None
    words = st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=graph.links, max_size=graph.links)
    relevance = np.array(data.draw(words)) if order.needs_topic else None
    knowledge = Knowledge(history=history, relevance=relevance, every=every)
    expected = Production(graph, order, knowledge, seed=5).crawl(starts, width)
    assert simulate(graph, order, starts, Conditions(width=width, seed=5), knowledge).order.tolist() == expected
    if width == 1:  # every page its own round: what it teaches is known at once
        assert simulate(graph, order, starts, Conditions(seed=5), knowledge).order.tolist() == expected


def test_weights_leave_the_virtual_page_out_as_in_production():
    links = {0: [0, 1, 15, 16], 1: [0, 1, 4], 15: [2, 3, 0]}
    graph = graph_of([1, 2, 6, 8], {page: links.get(page, []) for page in range(17)})
    expected = Production(graph, ALL_AT_ONCE, Knowledge(every=1), seed=5).crawl([0], 1)
    assert simulate(graph, ALL_AT_ONCE, [0], Conditions(width=1, seed=5), Knowledge(every=1)).order.tolist() == expected


def test_pages_of_one_round_do_not_give_each_other_scores():
    """Page 22 leads to page 0, and both are visited in the same round: page 0 passes on what it had before."""
    links = {0: [0, 1, 8], 1: [2, 1, 4, 14], 13: [1, 7], 14: [0, 1, 2, 3, 6], 20: [3, 5, 10, 13, 19, 22], 22: [0]}
    graph = graph_of([1, 6, 8, 8], {page: links.get(page, []) for page in range(23)})
    order, knowledge = ORDERS["partial-pagerank"], Knowledge(every=9)
    expected = Production(graph, order, knowledge, seed=5).crawl([20], 2)
    assert simulate(graph, order, [20], Conditions(width=2, seed=5), knowledge).order.tolist() == expected


# --- rounds as production makes them


@settings(max_examples=60)
@given(
    graphs(), st.sampled_from(["opic", "breadth-first", "larger-sites-first", "batch-pagerank"]), st.integers(2, 9),
    st.integers(1, 3), st.integers(0, 2), st.integers(1, 6), st.sampled_from([0.0, 0.5, 3.0]),
)  # fmt: skip
def test_rounds_keep_what_they_promise(made, name, connections, soon, more, width, cost):
    sizes, links, starts = made
    graph = graph_of(sizes, links)
    rounds = Rounds(soon, soon + more, cost)
    conditions = Conditions(connections, delay_s=1.0, width=width, rounds=rounds)
    trace = simulate(graph, ORDERS[name], starts, conditions, Knowledge(every=4))
    assert sorted(trace.order.tolist()) == np.flatnonzero(graph.reachable(starts)).tolist()
    assert (np.diff(trace.time_s) >= 0).all()
    assert cost or (np.bincount(trace.batch) <= width).all()
    # Until a round is over its pages count as taken, so that no host has more than its part of it.
    per_round = np.unique(np.stack((trace.batch, graph.host[trace.order])), axis=1, return_counts=True)[1]
    assert (per_round <= soon + more).all()


def test_computing_scores_does_not_make_rounds_longer():
    """Pages without links are all alike, whatever is computed. While a round is committed the workbench runs empty: it
    is filled again before what came meanwhile is committed too."""
    graph, conditions = graph_of([30, 30], {}), Conditions(8, delay_s=1.0, width=8, rounds=Rounds(4, 4, commit_s=20.0))
    never, always = (
        simulate(graph, ORDERS["batch-pagerank"], np.arange(60), conditions, Knowledge(every=every))
        for every in (1_000, 1)
    )
    assert always.order.tolist() == never.order.tolist()
    assert always.time_s.tolist() == never.time_s.tolist()


def test_a_workbench_is_topped_up_as_in_production():
    """As `test_supply.py` has it: what few hosts fill to a half is not topped up for every page, but when a quarter is
    left."""
    hosts, width = 10, 100
    prompt = replace(graph_of([100] * hosts, {}), latency_s=np.full(hosts, 0.001), speed=np.full(hosts, 1e9))
    conditions = Conditions(4, delay_s=0.001, width=width, rounds=Rounds(2, 200))
    simulation = Simulation(prompt, ORDERS["opic"], conditions, Knowledge())
    simulation.run(np.arange(prompt.pages, dtype=np.int32), width)
    taken_at_once = width // 2 + 1
    assert simulation.world.number["taken"] == taken_at_once + 3 * (taken_at_once - width // 4)


def test_a_starving_round_ends_after_its_time():
    """One page leads to the next, each on a host of its own: without early rounds there is nothing else to do."""
    chain = graph_of([1] * 6, {page: [page + 1] for page in range(5)})
    trace = simulate(chain, ORDERS["opic"], [0], Conditions(8, width=100, rounds=Rounds()))
    assert trace.order.tolist() == list(range(6))
    assert trace.batch.tolist() == list(range(6))
