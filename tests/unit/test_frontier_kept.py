"""A frontier that was kept in a commit goes on exactly as one that reads the whole index."""

from dataclasses import replace

import numpy as np
import pytest
from frontier_world import INDEX, PLAIN, SETTLE, STEPS, TAKE, WRITE, World, key_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer import config
from gossamer.columns import NEVER, Status
from gossamer.frontier import frontier, table
from gossamer.frontier.frontier_file import KIND
from gossamer.frontier.strategies import ORDERS


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Every second commit with rows folds the index, and no frontier is too large to be kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "MAX_DELTAS", 1)
        patch.setattr(frontier, "KEEP_SHARE", 0)
        yield


REOPEN = st.tuples(st.just("reopen"), st.sampled_from([0, 0, 5, 400, -300]))
ROUND = st.tuples(st.just("round"), TAKE, SETTLE, WRITE)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(PLAIN),
    st.sampled_from([6, 20, 10**6]),
    st.sampled_from([(4, 100), (10**6, 1)]),
    st.lists(ROUND, min_size=2, max_size=4),
    st.lists(st.one_of(ROUND, REOPEN, *STEPS), max_size=20),
)
def test_take_is_a_sort_across_restarts(order, capacity, later, rounds, steps):
    world = World(order, capacity, *later)
    for step in (*rounds, ("reopen", 0), *steps, ("commit",), ("reopen", 0)):
        world.do(step)
    world.take(7, 2)
    world.take(1000, 1000)


@pytest.mark.parametrize("order", PLAIN)
@pytest.mark.parametrize("capacity", [40, 10**6])
def test_a_long_crawl_that_is_killed_again_and_again(order, capacity):
    """Its takes are those of a sort (`World.take` compares), and those of a frontier that scans."""
    world = World(order, capacity)
    rng = np.random.default_rng(5)
    restored = scans = 0
    hosts = rng.zipf(1.6, 500) % 30
    world.write({key_of(int(h), i): (int(rng.integers(0, 90)), 0, Status.NEW) for i, h in enumerate(hosts)})
    for number in range(60):
        world.take(8, 3)
        world.now += 20
        done = sorted(world.taken)[:6]  # some are on their way at any commit
        due = [NEVER, world.now + 50, world.now + 2000][number % 3]
        world.write(dict.fromkeys(done, (0, due, Status.FETCHED)), settled=done)
        fresh = rng.choice([k for k in sorted(world.rows) if not world.rows[k]["status"]], 12, replace=False)
        world.write({int(k): (int(rng.integers(0, 90)), 0, Status.NEW) for k in fresh})
        if number % 4:
            world.commit()
        if number % 5 == 4:
            world.reopen()
            other = world.new_frontier(INDEX, seed=7)
            assert other.take(8, world.now, 3)["key"].tolist() == world.expected(8, 3)
            world.take(8, 3)
            restored += world.frontier._kept_at is not None
            scans += world.frontier.scans
    assert restored >= 6
    assert scans <= 6  # where the floor has to come down, and before the first fold


def filled(order="opic"):
    """A world whose frontier was kept, and something happened since."""
    world = World(order, 10**6)
    world.write({key_of(h, p): (10 * h + p, 0, Status.NEW) for h in range(5) for p in range(9)})
    world.commit()
    world.write({key_of(9, 0): (5, 0, Status.NEW), key_of(9, 1): (700, 1100, Status.FAILED)})
    world.take(4, 9)
    world.commit()
    assert len(world.files[KIND]) == 1
    world.write({key_of(1, 1): (500, 0, Status.NEW), key_of(1, 2): (1, NEVER, Status.GONE)})
    world.commit()
    return world


@pytest.mark.parametrize("order", ["opic", "larger-sites-first"])
def test_a_restart_does_not_scan(order):
    world = filled(order)
    world.reopen()
    world.take(20, 6)
    assert world.frontier.scans == 0
    assert len(world.frontier._candidates)


def scans_after(world, **changed):
    world.reopen(**changed)
    world.frontier.take(20, world.now, 6)
    return world.frontier.scans


def test_another_order_seed_or_memory_scans():
    assert scans_after(filled()) == 0
    assert scans_after(filled(), seed=8) == 1
    assert scans_after(filled(), settings=config.Index(memory_mb=17)) == 1
    world = filled()
    world.strategy = ORDERS["backlink-count"]
    world.reopen()
    world.take(20, 6)
    assert world.frontier.scans == 1


def test_an_order_that_changed_behind_its_name_scans():
    world = filled()
    world.strategy = replace(world.strategy, page_rank=ORDERS["backlink-count"].page_rank)
    world.reopen()
    world.take(20, 6)
    assert world.frontier.scans == 1


def test_a_clock_that_was_set_back_scans():
    world = filled()
    world.now = 1100
    world.write({key_of(8, 0): (5, 0, Status.NEW)})
    world.take(1, 9)
    world.commit()
    world.now = 1050
    world.reopen()
    world.take(20, 6)
    assert key_of(9, 1) not in world.taken
    assert world.frontier.scans == 1


def test_a_file_from_before_the_last_fold_scans():
    """As an older version leaves it, which does not know of such files."""
    world = filled()
    world.write({key_of(7, 0): (5, 0, Status.NEW)})
    world.commit()
    kept = list(world.files[KIND])
    for page in (1, 2):  # new ones only: no rank in the file is wrong
        world.write({key_of(7, page): (600, 0, Status.NEW)})
        world.commit()
    assert world.files[KIND] != kept
    world.files[KIND] = kept
    world.reopen()
    world.take(20, 6)
    assert world.frontier.scans == 1


def test_what_is_below_the_floor_is_found_after_a_restart():
    world = World("opic", 16)
    world.write({key_of(page % 11, page): (page, 0, Status.NEW) for page in range(60)})
    world.commit()
    world.take(2, 2)
    world.write({key_of(3, 99): (5, NEVER, Status.GONE)})
    world.commit()
    assert len(world.files[KIND]) == 1
    world.reopen()
    assert world.frontier._candidates.floor is not None
    world.take(2, 2)
    assert world.frontier.scans == 0
    world.take(60, 60)
    assert world.frontier.scans == 1


def test_what_a_scan_found_is_kept():
    world = filled()
    kept = list(world.files[KIND])
    world.restart()
    world.frontier.restore(world.store, world.files)
    world.frontier._candidates.raise_floor(3)
    world.take(30, 30)
    assert world.frontier.scans == 1
    world.commit()
    assert world.files[KIND] != kept
    assert len(world.files[KIND]) == 1


@pytest.mark.parametrize("damage", ["missing", "empty", "version", "header", "short", "long"])
def test_a_file_that_cannot_be_used_scans_and_is_replaced(damage):
    world = filled()
    (name,) = world.files[KIND]
    data = world.store.get(name)
    path = world.store.local(name)
    broken = {
        "empty": b"",
        "version": data.replace(b"GOSSFRO1", b"GOSSFRO0"),
        "header": data.replace(b'{"whose"', b'["whose"'),
        "short": data[:-1],
        "long": data + b"x",
    }
    if damage == "missing":
        path.unlink()
        world.store.local = lambda other, local=world.store.local: path if other == name else local(other)
    else:
        world.store.put(name, broken[damage])
    world.reopen()
    world.take(20, 6)
    assert world.frontier.scans == 1
    world.commit()
    assert len(world.files[KIND]) == 1
    assert world.files[KIND] != [name]
    assert scans_after(world) == 0


def test_new_ranks_are_never_mixed_with_kept_ones():
    world = filled()
    world.reopen()
    world.frontier.rank_anew()
    world.commit()
    assert world.files[KIND] == []
    world.take(20, 6)
    assert world.frontier.scans == 1
    world.commit()
    assert len(world.files[KIND]) == 1
    assert scans_after(world) == 0


def test_a_file_is_written_only_when_the_old_one_is_of_no_use(monkeypatch):
    world = filled()
    before = list(world.files[KIND])
    world.take(3, 9)
    monkeypatch.setattr(table, "MAX_DELTAS", 9)  # no fold is due
    world.commit()
    assert world.files[KIND] == before
    monkeypatch.setattr(table, "MAX_DELTAS", 1)
    world.write({key_of(8, 0): (5, 0, Status.NEW)})
    world.commit()
    assert len(world.files[KIND]) == 1
    assert world.files[KIND] != before


def test_a_frontier_as_large_as_the_index_is_not_kept(monkeypatch):
    monkeypatch.setattr(frontier, "KEEP_SHARE", 8)
    world = World("opic", 10**6)
    for page in range(9):
        world.write({key_of(h, page): (5, 0, Status.NEW) for h in range(5)})
        world.take(1, 9)
        world.commit()
    assert not world.files.get(KIND)
    everything = dict.fromkeys(world.rows, (0, NEVER, Status.FETCHED))
    world.write({**everything, key_of(1, 1): (5, 0, Status.NEW)}, settled=everything)
    for page in range(3):
        world.write({key_of(1, 2): (page, 0, Status.NEW)})
        world.commit()
    assert len(world.files[KIND]) == 1
