import numpy as np
import pytest
from frontier_world import HOSTS, PLAIN, STEPS, World, key_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.columns import NEVER, Status
from gossamer.frontier.candidates import Candidates, Cuts, place_in_group, top
from gossamer.frontier.due_queue import DueQueue
from gossamer.frontier.strategies import ORDERS


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(PLAIN), st.sampled_from([6, 20, 10**6]), st.lists(st.one_of(STEPS), max_size=25))
def test_take_is_a_sort(order, capacity, steps):
    world = World(order, capacity)
    for step in steps:
        world.do(step)
    world.take(1000, 1000)


@pytest.mark.parametrize("order", PLAIN)
def test_a_long_crawl_with_few_candidates(order):
    """Power-law hosts, all pages visited once, in exactly the order of a sort."""
    world = World(order, 64)
    rng = np.random.default_rng(3)
    hosts = rng.zipf(1.6, 600) % 40
    world.write({key_of(int(h), i): (int(rng.integers(0, 90)), 0, Status.NEW) for i, h in enumerate(hosts)})
    while len(done := world.expected(16, 4)):
        world.take(16, 4)
        world.write(dict.fromkeys(done, (0, NEVER, Status.FETCHED)), settled=done)
        known = rng.choice(sorted(world.rows), 20, replace=False).tolist()
        fresh = {k: (int(rng.integers(0, 90)), 0, Status.NEW) for k in known if not world.rows[k]["status"]}
        world.write(fresh)
    assert world.frontier.pending == 0
    assert world.frontier.next_due_s() is None
    scans = world.frontier.scans
    world.take(16, 4)
    assert world.frontier.scans == scans
    if ORDERS[order].host_rank is not None:
        assert scans == 1  # hosts are read one by one
    else:
        assert scans < 30


def test_larger_sites_do_not_count_pages_that_are_on_their_way():
    world = World("larger-sites-first", 100)
    pages = [(1, page) for page in range(6)] + [(2, page) for page in range(5)]
    world.write({key_of(*page): (1, 0, Status.NEW) for page in pages})
    world.take(3, 9)
    assert sorted(key >> 40 for key in world.taken) == [2, 2, 3]  # six and five: the larger, then in turn
    world.take(4, 9)
    world.take(4, 9)


def test_next_due_skips_what_has_changed_since():
    world = World("opic", 100)
    keys = [key_of(1, page) for page in range(3)]
    world.write({key: (1, 2000 + 500 * i, Status.FAILED) for i, key in enumerate(keys)})
    world.take(5, 5)
    assert world.frontier.next_due_s() == 2000
    world.write({keys[0]: (1, NEVER, Status.GONE)})
    assert world.frontier.next_due_s() == 2500
    world.now = 2500
    world.take(5, 5)
    assert world.frontier.next_due_s() == 3000


def test_pages_beyond_the_horizon_are_found_again():
    world = World("opic", 8, later=8)
    world.write({key_of(h, 0): (1, 5000 + 100 * h, Status.FETCHED) for h in range(HOSTS)})
    world.take(9, 9)
    assert world.frontier._later.horizon_s < 7000
    for world.now in range(5000, 7000, 100):
        world.take(1, 9)
    assert len(world.taken) == HOSTS


def test_held_pages_are_not_taken():
    world = World("opic", 100)
    keys = [key_of(1, page) for page in range(4)]
    world.write(dict.fromkeys(keys, (5, 0, Status.NEW)))
    world.frontier.hold(np.array(keys[:2], np.uint64))
    world.taken = set(keys[:2])
    world.take(9, 3)
    assert len(world.taken) == 3


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(0, 45))
def test_top_and_turn(values, count):
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    assert top(np.array(values, np.float64), count).tolist() == expected
    turns = [values[:i].count(value) for i, value in enumerate(values)]
    assert place_in_group(np.array(values, np.uint64)).tolist() == turns


def test_cuts_remember_the_best_page_left_out():
    some = Cuts(np.array([1, 3], np.uint32), np.array([5.0, 6.0]), np.array([10, 11], np.uint64))
    other = Cuts(np.array([1, 2], np.uint32), np.array([7.0, 1.0]), np.array([12, 13], np.uint64))
    joined = some.joined(other)
    assert joined.hosts.tolist() == [1, 2, 3]
    assert joined.ranks.tolist() == [7.0, 1.0, 6.0]
    assert joined.without(np.array([2], np.uint32)).keys.tolist() == [12, 11]


def test_nothing_is_a_candidate_before_the_first_scan():
    candidates = Candidates()
    candidates.put(np.array([1], np.uint64), np.array([9.0]), np.array([True]))
    assert len(candidates) == 0


def test_later_is_bounded_and_forgets_the_farthest():
    later = DueQueue(100)
    later.clear()
    later.add(np.arange(300, dtype=np.uint64), (np.arange(300) * 60).astype(np.uint32))
    assert len(later) == 50
    assert later.horizon_s == 50 * 60
    assert later.take(120).tolist() == [0, 1, 2]
    later.add(np.array([7], np.uint64), np.array([later.horizon_s], np.uint32))
    assert len(later) == 47
