"""The decision for one vertex, by hand; hosts placed as they are discovered; moves; prices."""

import math

import numpy as np
import pytest

from experiments.partition_methods import partitioner
from experiments.partition_passes import cost, one_pass, unplaced
from gossamer.errors import ConfigError
from gossamer.geography import kilometres
from gossamer.placement import partition as measures
from gossamer.placement import prices
from gossamer.placement.incidence import incidence
from gossamer.placement.network import as_kilometres
from gossamer.placement.partition import Goal, improve, task
from gossamer.placement.partitioners import Live
from gossamer.placement.stream import ALPHA, FENNEL, LDG, LINKED, SEEN, Parts, Rule, choose, learn, settle

FREE = np.zeros(2)


def parts(loads: list[int], rule: Rule, alpha: float = 0.0, capacity: int = 100) -> Parts:
    each = Goal(len(loads), 1.0).before(capacity * len(loads), alpha)
    for part, load in enumerate(loads):
        settle(each, rule, part, load)
    return each


def test_ldg_weighs_links_by_the_room_that_is_left() -> None:
    """3 * (1 - 50/100) = 1.5 is less than 2 * (1 - 20/100) = 1.6."""
    assert choose(np.array([3.0, 2.0]), FREE, 1, parts([50, 20], LDG), False) == 1
    assert choose(np.array([3.0, 2.0]), FREE, 1, parts([40, 20], LDG), False) == 0


def test_fennel_subtracts_alpha_gamma_root_of_load() -> None:
    """With alpha = 0.1: 3 - .15 * 7.07 = 1.94 against 2 - .15 * 0 = 2; with 0.05: 2.47 against 2."""
    assert choose(np.array([3.0, 2.0]), FREE, 1, parts([50, 0], FENNEL, 0.1), False) == 1
    assert choose(np.array([3.0, 2.0]), FREE, 1, parts([50, 0], FENNEL, 0.05), False) == 0
    assert parts([49, 0], FENNEL, 0.1).price.tolist() == pytest.approx([0.1 * 1.5 * 7, 0])


def test_a_full_part_takes_nothing_and_equal_parts_go_by_load() -> None:
    assert choose(np.array([9.0, 0.0]), FREE, 1, parts([100, 99], LDG), False) == 1
    assert choose(np.array([0.0, 0.0]), FREE, 1, parts([5, 4], LDG), False) == 1
    assert choose(np.array([0.0, 0.0]), FREE, 1, parts([5, 4], LDG), True) == 0
    assert choose(np.array([0.0, 0.0]), FREE, 7, parts([95, 97], LDG), False) == 0  # neither has room: the least over


def test_unequal_parts_are_filled_in_proportion() -> None:
    each = task(incidence(np.array([0]), np.array([1]), 90), Goal(2, 1.1, (2.0, 1.0)))
    for rule in (LDG, FENNEL):
        part = one_pass(each, np.arange(90, dtype=np.int32), rule)
        assert np.bincount(part).tolist() == [60, 30]


def test_alpha_follows_when_n_has_doubled() -> None:
    each = Goal(4).before(1, 0.0)
    rule = FENNEL._replace(slack=1.1)
    seen = []
    for _ in range(8):
        learn(each, rule, 1, 3.0)
        seen.append(float(each.known[ALPHA]))
    expected = {n: 2 * 3 * n / n**1.5 for n in (1, 2, 4, 8)}
    assert seen == pytest.approx([expected[n] for n in (1, 2, 2, 4, 4, 4, 4, 8)])
    assert each.capacity.tolist() == [math.ceil(1.1 * 8 / 4)] * 4


def test_live_decides_as_the_stream_does() -> None:
    random = np.random.default_rng(0)
    source, target = random.integers(0, 200, 900), random.integers(0, 200, 900)
    graph = incidence(source, target, 200)
    goal = Goal(4)
    live = Live(goal, FENNEL, start=1)
    each = task(graph, goal)
    order = np.arange(200, dtype=np.int32)
    together = partitioner("fennel-live").place(each, order, random)
    part = unplaced(each)
    for vertex in order.tolist():
        others = part[graph.other[graph.first[vertex] : graph.first[vertex + 1]]]
        part[vertex] = live.place(np.bincount(others[others >= 0], minlength=4).astype(np.float64))
    assert (part == together).all()
    assert live.parts.known[[SEEN, LINKED]].tolist() == [200, graph.edges]


def test_hosts_grow() -> None:
    live = Live(Goal(2), start=100)
    assert live.place(np.array([0.0, 0.0])) == 0
    live.grow(0, 30, links=5.0)
    assert live.place(np.array([1.0, 1.0])) == 1
    live.grow(1, 31)
    assert live.parts.load.tolist() == [31, 32]
    assert live.place(np.array([1.0, 1.0]), 5) == 0
    assert live.place(np.array([0.0, 1.0]), 5, toll=np.array([0.0, 9.0])) == 0


def test_moves_find_two_cliques_and_never_leave_a_worse_cut() -> None:
    pairs = [(a, b) for base in (0, 6) for a in range(base, base + 6) for b in range(base, a)]
    graph = incidence(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]), 12)
    each = task(graph, Goal(2, 1.2))
    mixed = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0], np.int32)
    part = improve(each, mixed, FENNEL, np.random.default_rng(0))
    assert measures.cut(graph, part) == 0
    assert measures.imbalance(each, part) == 1.0


def test_near_sites_are_cheaper_than_far_ones() -> None:
    """Two sites in one city, one overseas: what does not fit with its neighbours goes next door."""
    near, far = 0.001, 0.1
    trips = np.array([[0, near, far], [near, 0, far], [far, far, 0]])
    close = prices.closeness(prices.link_cost(np.zeros(3), trips, per_second=1.0))
    assert close.diagonal().tolist() == [1, 1, 1]
    assert close[0, 1] > 0.98
    assert close[0, 2] == 0
    live = Live(Goal(3, closeness=close), start=1000)
    assert live.place(np.array([0.0, 0.0, 5.0])) == 2
    live.parts.load[0] = live.parts.capacity[0]
    assert live.place(np.array([5.0, 0.0, 0.0])) == 1


def test_costs_are_those_of_bytes_waiting_and_work() -> None:
    cost = prices.link_cost(np.array([0.02, 0.10]), np.array([[0.0, 0.2], [0.4, 0.0]]), per_second=2.0, link_bytes=1e9)
    assert cost.tolist() == [[0.0, pytest.approx(0.06 + 0.6)], [pytest.approx(0.06 + 0.6), 0.0]]
    page = np.array([[1.0 + 10 * 1.5, 3.0 + 10 * 0.6]])
    assert prices.tolls(page, np.array([20]), 2.0).tolist() == [[7.0 * 20 / 2, 0.0]]
    with pytest.raises(ConfigError, match="some must be above 0"):
        prices.closeness(np.zeros((2, 2)))


def test_a_price_that_changes_moves_hosts() -> None:
    """Everything at one site, until its CPU becomes dear."""
    graph = incidence(np.arange(9), np.arange(1, 10), 10, np.ones(9), np.full(10, 3))
    goal, random = Goal(2, 2.0), np.random.default_rng(0)
    part = np.zeros(10, np.int32)
    for cpu, expected in ((np.array([1.0, 1.0]), 0), (np.array([9.0, 1.0]), 1)):
        toll = prices.tolls(np.tile(cpu, (10, 1)), graph.size, dearest_link=1.0)
        each = task(graph, goal, toll)
        part = improve(each, part, FENNEL._replace(gamma=0.0), random)
        assert (part == expected).all()
        assert cost(each, part) == 0


def test_multilevel_minds_tolls_and_closeness() -> None:
    random = np.random.default_rng(0)
    graph = incidence(random.integers(0, 300, 900), random.integers(0, 300, 900), 300)
    toll = np.zeros((300, 4))
    toll[:150, 0] = 50.0  # these must not go to part 0
    close = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1.0]])
    order = np.arange(300, dtype=np.int32)
    each = task(graph, Goal(4, 1.3, closeness=close), toll)
    plain = task(graph, Goal(4, 1.3))
    for name in ("fennel", "buffered-4", "multilevel", "fennel-moves"):
        part = partitioner(name).place(each, order, np.random.default_rng(1))
        assert (part[:150] != 0).all()
        blind = partitioner(name).place(plain, order, np.random.default_rng(1))
        assert cost(each, part) < cost(each, blind)


def test_distances_on_earth() -> None:
    lisbon_dresden, stockholm = np.array([38.72, 51.05]), np.array([59.33])
    found = kilometres(lisbon_dresden, np.array([-9.14, 13.74]), stockholm, np.array([18.07]))
    assert found[:, 0].tolist() == pytest.approx([2990, 965], rel=0.01)
    assert as_kilometres(np.array([0.0301])).tolist() == pytest.approx([1000.0])
