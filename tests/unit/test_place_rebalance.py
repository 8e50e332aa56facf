"""Which hosts should change sites: only those whose moves are worth it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gossamer.placement.incidence import incidence
from gossamer.placement.partition import Goal, cut, loads, task
from gossamer.placement.prices import LINK_BYTES
from gossamer.placement.rebalance import ROW_BYTES, moves


def test_hosts_go_where_their_links_are() -> None:
    """Two groups of hosts that link among themselves; one host of each is at the wrong site."""
    groups = [range(5), range(5, 10)]
    pairs = np.array([(a, b) for group in groups for a in group for b in group if a < b])
    graph = incidence(pairs[:, 0], pairs[:, 1], 10, np.full(len(pairs), 100.0), np.full(10, 20))
    part = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 0], np.int32)
    found = moves(graph, Goal(2, slack=1.3), part)
    assert sorted(zip(found.host.tolist(), found.to.tolist(), strict=True)) == [(4, 0), (9, 1)]
    assert found.crossing_before > 0
    assert found.crossing_after == 0
    assert found.saved_bytes > found.moved_bytes


def test_a_large_host_with_few_links_stays() -> None:
    graph = incidence(np.array([0, 0]), np.array([1, 2]), 3, np.array([5.0, 1.0]), np.array([1000, 10, 10]))
    assert not len(moves(graph, Goal(2, slack=3.0), np.array([0, 1, 0], np.int32)).host[:0])
    found = moves(graph, Goal(2, slack=3.0), np.array([0, 1, 1], np.int32))
    assert 0 not in found.host.tolist(), "a thousand rows for six links"


@given(st.data())
def test_moves_pay_and_respect_capacities(data: st.DataObject) -> None:
    hosts, sites = data.draw(st.integers(3, 12)), data.draw(st.integers(2, 3))
    ends = st.integers(0, hosts - 1)
    links = data.draw(st.lists(st.tuples(ends, ends, st.integers(1, 300)), min_size=1, max_size=40))
    source, target, weight = (np.array(column) for column in zip(*links, strict=True))
    size = np.array(data.draw(st.lists(st.integers(1, 50), min_size=hosts, max_size=hosts)))
    graph = incidence(source, target, hosts, weight.astype(float), size)
    part = np.array(data.draw(st.lists(st.integers(0, sites - 1), min_size=hosts, max_size=hosts)), np.int32)
    goal = Goal(sites)
    found = moves(graph, goal, part)
    after = part.copy()
    after[found.host] = found.to
    saved = (cut(graph, part) - cut(graph, after)) * graph.edges
    assert abs(saved - found.links.sum()) < 1e-6
    assert (found.links * LINK_BYTES > found.pages * ROW_BYTES).all()
    full = np.maximum(task(graph, goal).before.capacity, loads(graph, part, sites).max())
    assert (loads(graph, after, sites) <= full).all()


def test_of_more_than_may_be_moved_what_saves_most_for_each_byte_moves_first() -> None:
    """Work is dearer at the first site; the largest of three hosts saves most in all."""
    graph = incidence(np.array([0]), np.array([1]), 3, np.array([1.0]), np.array([100, 10, 10]))
    toll = np.stack([np.array([2_000.0, 900.0, 60.0]), np.zeros(3)], axis=1)
    part, goal = np.zeros(3, np.int32), Goal(2, slack=2.0)
    assert moves(graph, goal, part, toll=toll).host.tolist() == [0, 1, 2]
    for rows, wanted in ((120, [1, 0, 2]), (119, [1, 0]), (20, [1, 2]), (10, [1]), (9, [])):
        found = moves(graph, goal, part, toll=toll, most_bytes=rows * ROW_BYTES)
        assert found.host.tolist() == wanted
        assert found.moved_bytes <= rows * ROW_BYTES


def test_prices_move_hosts() -> None:
    """Work is dearer at the first site; its hosts have few links."""
    graph = incidence(np.array([0]), np.array([1]), 4, np.array([10.0]), np.full(4, 20))
    part = np.zeros(4, np.int32)
    toll = np.stack([np.full(4, 500.0), np.zeros(4)], axis=1)
    assert not len(moves(graph, Goal(2, slack=2.0), part).host)
    found = moves(graph, Goal(2, slack=2.0), part, toll=toll)
    assert len(found.host) >= 2
    assert set(found.to.tolist()) == {1}
