import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.columns import NEVER, PAGE, Status
from gossamer.index.candidates import Candidates, Cuts, top, turn
from gossamer.index.frontier import Frontier
from gossamer.index.later import Later
from gossamer.index.pages import PageIndex
from gossamer.order.strategies import ORDERS

INDEX = config.Index(memory_mb=16)
HOSTS = 12


def key_of(host, page):
    return (host + 1) << 40 | (page * 0x9E3779B1 + 7) % 2**40


class World:
    """A frontier beside plain dicts that say what it should do."""

    def __init__(self, order, capacity, later=0):
        self.index = PageIndex.open(Memory(), {}, INDEX)
        self.strategy = ORDERS[order]
        self.capacity = capacity
        self.later = later or 10**6
        self.rows = {}
        self.now = 1000
        self.restart()

    def restart(self):
        self.frontier = Frontier(self.index, self.strategy, INDEX, seed=7)
        self.frontier._capacity = self.capacity
        self.frontier._later._capacity = self.later
        self.taken = set()

    def write(self, content, settled=()):
        """{key: (cash, due, status)}"""
        rows = np.zeros(len(content), PAGE.numpy)
        hosts = {}
        for place, key in enumerate(sorted(content)):
            cash, due_s, status = content[key]
            old = self.rows.get(key)
            text = old["text"] if old is not None else len(self.rows) + 1
            rows[place] = (key, cash, text, abs(cash) % 5, due_s, status, cash % 3, 0, 0)
            was = old is not None and old["status"] not in (Status.NEW, Status.FAILED)
            known, visited = hosts.get(key >> 40, (0, 0))
            is_now = status not in (Status.NEW, Status.FAILED)
            hosts[key >> 40] = (known + (old is None), visited + is_now - was)
            self.rows[key] = rows[place]
        names = np.array(sorted(hosts), np.uint32)
        counts = np.array([hosts[name] for name in sorted(hosts)], np.int64).reshape(-1, 2)
        self.index.hosts.grow(names, names, counts[:, 0], counts[:, 1])
        self.index.pages.write(rows)
        self.taken -= set(settled)
        self.frontier.offer(rows, self.now, settled=np.array(sorted(settled), np.uint64))

    def expected(self, count, per_host):
        due = [k for k, row in self.rows.items() if row["due_s"] <= self.now and k not in self.taken]
        rows = np.array([self.rows[key] for key in due], PAGE.numpy)
        ranks = dict(zip(due, self.strategy.page_rank(rows, 7).tolist(), strict=True))
        room = dict.fromkeys({key >> 40 for key in due}, per_host)
        for key in self.taken:
            if key >> 40 in room:
                room[key >> 40] -= 1
        queues = {}
        for key in sorted(due, key=lambda k: (-ranks[k], k)):
            queues.setdefault(key >> 40, []).append(key)
        for host, queue in queues.items():
            del queue[max(room[host], 0) :]
        if self.strategy.host_rank is None:
            return sorted((k for q in queues.values() for k in q), key=lambda k: (-ranks[k], k))[:count]
        return self.greedy(queues, count)

    def greedy(self, queues, count):
        """One page after the other from the host with most pages that are neither visited nor taken."""
        pending = {}
        for key, row in self.rows.items():
            is_final = row["status"] not in (Status.NEW, Status.FAILED)
            pending[key >> 40] = pending.get(key >> 40, 0) + (not is_final) - (key in self.taken)
        chosen = []
        while len(chosen) < count and any(queues.values()):
            host = min((h for h in queues if queues[h]), key=lambda h: (-pending[h], queues[h][0]))
            chosen.append(queues[host].pop(0))
            pending[host] -= 1
        return chosen

    def take(self, count, per_host):
        expected = self.expected(count, per_host)
        rows = self.frontier.take(count, self.now, per_host)
        assert rows["key"].tolist() == expected
        assert all(rows[i] == self.rows[key] for i, key in enumerate(expected))
        self.taken |= set(expected)
        assert self.frontier.taken.tolist() == sorted(self.taken)


PAGES = st.builds(key_of, st.integers(0, HOSTS), st.integers(0, 12))
VALUE = st.tuples(
    st.integers(-4, 40),
    st.sampled_from([0, 0, 0, 900, 1010, 1200, 9000, NEVER]),
    st.sampled_from([Status.NEW, Status.NEW, Status.FAILED, Status.FETCHED]),
)
STEP = st.one_of(
    st.tuples(st.just("write"), st.dictionaries(PAGES, VALUE, min_size=1, max_size=40)),
    st.tuples(st.just("take"), st.integers(1, 30), st.integers(1, 6)),
    st.tuples(st.just("settle"), VALUE, st.integers(1, 9)),
    st.tuples(st.just("give_back"), st.integers(1, 9)),
    st.tuples(st.just("wait"), st.sampled_from([1, 15, 300, 9000])),
    st.tuples(st.just("restart")),
)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(ORDERS)), st.sampled_from([6, 20, 10**6]), st.lists(STEP, max_size=25))
def test_take_is_a_sort(order, capacity, steps):
    world = World(order, capacity)
    for step in steps:
        if step[0] == "write":
            world.write(step[1])
        elif step[0] == "take":
            world.take(step[1], step[2])
        elif step[0] == "wait":
            world.now += step[1]
        elif step[0] == "restart":
            world.restart()
        else:
            keys = sorted(world.taken)[: step[-1]]
            if step[0] == "settle" and keys:
                world.write(dict.fromkeys(keys, step[1]), settled=keys)
            else:
                world.frontier.give_back(np.array(keys, np.uint64))
                world.taken -= set(keys)
    world.take(1000, 1000)


@pytest.mark.parametrize("order", sorted(ORDERS))
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
    assert turn(np.array(values, np.uint64)).tolist() == turns


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
    later = Later(100)
    later.clear()
    later.add(np.arange(300, dtype=np.uint64), (np.arange(300) * 60).astype(np.uint32))
    assert len(later) == 50
    assert later.horizon_s == 50 * 60
    assert later.take(120).tolist() == [0, 1, 2]
    later.add(np.array([7], np.uint64), np.array([later.horizon_s], np.uint32))
    assert len(later) == 47
