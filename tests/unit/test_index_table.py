import errno
import gc
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gossamer.archive.store import Memory
from gossamer.columns import HOST, LATER, NEVER, PAGE, VISITED
from gossamer.errors import ArchiveError, OutOfSpace
from gossamer.frontier import table as table_module
from gossamer.frontier.index_pack import flush
from gossamer.frontier.run_file import Run, write_merged, write_run
from gossamer.frontier.sorted_runs import Sorted, count_union, merge_two, merged, search, search_many
from gossamer.frontier.table import Table

ROW = st.tuples(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255)
)


def page_rows(content):
    """{key: (cash, text, hits, depth)} as sorted PAGE rows."""
    rows = np.zeros(len(content), PAGE.numpy)
    for place, key in enumerate(sorted(content)):
        rows[place] = (key, *content[key][:3], content[key][2] // 7, 3, content[key][3], 0, 1)
    return rows


def written(tmp_path, rows, table=PAGE):
    path = tmp_path / "x.run"
    write_run(path, table, [rows[:3], rows[3:]], len(rows), Sorted.of(rows).bounds(), 99)
    return Run("x", path, table)


@pytest.mark.parametrize(
    "cash", [[5, 5, 5], [0, 255, 7], [-1, 255, 0], [2**40, -(2**40), 1], [-(2**63), 2**63 - 1, 0], [0, 2**24, 3]]
)
def test_a_run_gives_back_what_was_written_at_any_width(tmp_path, cash):
    rows = page_rows({i * 10 + 1: (c, i << 33, i * 70000, i) for i, c in enumerate(cash * 3)})
    run = written(tmp_path, rows)
    assert run.count == 9
    assert run.total == 99
    assert np.array_equal(run.between(0, 9), rows)
    assert np.array_equal(run.take(np.array([8, 0, 3])), rows[[8, 0, 3]])
    assert np.array_equal(run.keys, rows["key"])


def test_a_run_of_an_earlier_version_has_zeros_where_a_column_came_later(tmp_path):
    before = replace(VISITED, columns=tuple(column for column in VISITED.columns if column.name not in LATER))
    rows = np.zeros(5, before.numpy)
    rows["key"], rows["visits"] = np.arange(5) * 7, np.arange(5) + 1
    written(tmp_path, rows, before)
    run = Run("x", tmp_path / "x.run", VISITED)
    assert run.between(0, 5)[["key", "visits", "history"]].tolist() == [(n * 7, n + 1, 0) for n in range(5)]
    assert run.take(np.array([3]))["history"].tolist() == [0]
    newer = np.zeros(2, VISITED.numpy)
    newer["key"], newer["history"] = [7, 9], [2**40, 5]
    write_merged(tmp_path / "y.run", VISITED, [run, Sorted.of(newer)], 6, 6)
    joined = Run("y", tmp_path / "y.run", VISITED).between(0, 6)
    assert joined[["key", "history"]].tolist() == [(0, 0), (7, 2**40), (9, 5), (14, 0), (21, 0), (28, 0)]


def test_a_narrow_range_takes_few_bytes(tmp_path):
    rows = np.zeros(1000, PAGE.numpy)
    rows["key"] = np.arange(1000)
    rows["cash"] = 2**50 + np.arange(1000)
    rows["text"] = np.arange(1000) + 2**35
    written(tmp_path, rows)
    assert (tmp_path / "x.run").stat().st_size < 1000 * (8 + 2 + 2) + 2000


def test_planes_that_are_nearly_all_zeros_are_sparse(tmp_path):
    """Also in a file that is merged of them, and where rows of large values are so many that it does not pay."""
    rng = np.random.default_rng(2)
    rows = np.zeros(40_000, PAGE.numpy)
    rows["key"] = np.arange(len(rows)) * 3
    rows["cash"] = 7
    rows["cash"][rng.random(len(rows)) < 0.02] = 2**60 + 5
    rows["due_s"][rng.random(len(rows)) < 0.1] = NEVER
    rows["tries"][-1] = 200
    run = written(tmp_path, rows)
    assert (tmp_path / "x.run").stat().st_size < len(rows) * (8 + 4 + 0.02 * 8 + 0.11 * 8) + 2_000
    assert np.array_equal(run.between(0, len(rows)), rows)
    assert np.array_equal(run.between(777, 779), rows[777:779])
    picked = rng.integers(0, len(rows), 500)
    assert np.array_equal(run.take(picked), rows[picked])
    newer = rows[1000:30_000].copy()
    newer["due_s"], newer["cash"] = np.arange(len(newer)), -(2**60)
    newer["key"][::2] += 1
    write_merged(tmp_path / "y.run", PAGE, [run, Sorted.of(newer)], 40_000 + 14_500, 1)
    content = {int(row["key"]): row for part in (rows, newer) for row in part}
    both = Run("y", tmp_path / "y.run", PAGE).between(0, 54_500)
    assert np.array_equal(both, np.array([content[key] for key in sorted(content)]))


def test_a_run_is_right_where_the_sample_was_not(tmp_path):
    """Planes that were thought to be nearly all zeros, as the first rows are, may have values everywhere."""
    rows = np.zeros(3_000, PAGE.numpy)
    rows["key"], rows["hits"][20:] = np.arange(len(rows)), 2**30
    write_run(tmp_path / "x.run", PAGE, [rows[:20], rows[20:]], len(rows), Sorted.of(rows).bounds(), 1)
    assert np.array_equal(Run("x", tmp_path / "x.run", PAGE).between(0, len(rows)), rows)


def test_host_rows_have_their_own_key(tmp_path):
    rows = np.zeros(4, HOST.numpy)
    rows["host"], rows["known"] = [1, 5, 7, 2**24 - 1], [1, 2, 3, 4]
    run = written(tmp_path, rows, HOST)
    assert np.array_equal(run.between(0, 4), rows)
    assert run.keys.dtype == np.uint32


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    rows = page_rows({1: (1, 2, 3, 4), 2: (1, 300, 3, 4)})
    written(tmp_path, rows)
    whole = (tmp_path / "x.run").read_bytes()
    for bad in (whole[:-1], b"something else entirely", whole[:40]):
        (tmp_path / "y.run").write_bytes(bad)
        with pytest.raises(ArchiveError, match=r"y\.run"):
            Run("y", tmp_path / "y.run", PAGE)
    with pytest.raises(ArchiveError, match="damaged"):
        Run("x", tmp_path / "x.run", HOST)
    with pytest.raises(ArchiveError, match="announced"):
        write_run(tmp_path / "z.run", PAGE, [rows], 3, Sorted.of(rows).bounds(), 3)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.dictionaries(st.integers(1, 60), ROW, max_size=40), min_size=1, max_size=5), st.integers(1, 9))
def test_merging_is_updating_dicts(contents, chunk_rows):
    sources = [Sorted.of(page_rows(content)) for content in contents]
    expected = {}
    for content in contents:
        expected |= content
    chunks = list(merged(sources, chunk_rows))
    assert count_union(sources) == len(expected)
    assert all(len(chunk) <= chunk_rows * len(sources) for chunk in chunks)
    rows = np.concatenate(chunks) if chunks else page_rows({})
    assert np.array_equal(rows, page_rows(expected))
    two = merge_two(sources[0], sources[-1])
    assert np.array_equal(two.rows, page_rows(contents[0] | contents[-1]))
    assert np.array_equal(two.keys, two.rows["key"])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.dictionaries(st.integers(1, 60), ROW, min_size=1, max_size=20), min_size=1, max_size=4))
def test_files_of_different_widths_merge(tmp_path_factory, contents):
    folder = tmp_path_factory.mktemp("runs")
    sources, expected = [], {}
    for number, content in enumerate(contents):
        rows = page_rows({key: (value[0] % 10 ** (number * 5), *value[1:]) for key, value in content.items()})
        write_run(folder / f"{number}", PAGE, [rows], len(rows), Sorted.of(rows).bounds(), 0)
        sources.append(Run("", folder / f"{number}", PAGE))
        expected |= {int(row["key"]): row for row in rows}
    write_merged(folder / "all", PAGE, sources, len(expected), 5)
    run = Run("all", folder / "all", PAGE)
    assert np.array_equal(run.between(0, run.count), np.array([expected[key] for key in sorted(expected)]))


@given(st.integers(0, 3), st.integers(0, 20000))
@settings(max_examples=20)
def test_searching_in_stretches_finds_the_same(seed, count):
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2**64 - 1, count, dtype=np.uint64))
    wanted = np.unique(np.concatenate((keys[::3], rng.integers(0, 2**64 - 1, 9000, dtype=np.uint64))))
    for mine, plain in zip(search_many(keys, wanted), search(keys, wanted), strict=True):
        assert np.array_equal(mine, plain)


class Model:
    """A table beside the dict that it should equal, and the committed files beside the dict of that moment."""

    def __init__(self, overlay_bytes):
        self.store = Memory()
        self.overlay_bytes = overlay_bytes
        self.files = {}
        self.round = 1
        self.committed = {}
        self.reopen()

    def reopen(self):
        self.table = Table.open(PAGE, self.store, self.files, self.overlay_bytes)
        self.content = dict(self.committed)

    def write(self, content):
        self.table.write(page_rows(content), len(content.keys() - self.content.keys()))
        self.content |= content

    def flush(self, commits):
        changes = flush([self.table], self.store, f"a0-{self.round:08d}")
        if not commits:
            self.reopen()  # a crash: what was written is not named, and the round's number is used again
            return
        self.round += 1
        for kind, names in changes.removed.items():
            for name in names:
                self.files[kind].remove(name)
                self.store.delete(name)
            self.table.release(names)
        for kind, names in changes.added.items():
            self.files.setdefault(kind, []).extend(names)
        self.committed = dict(self.content)

    def check(self):
        assert self.table.count == len(self.content)
        rows = list(self.table.scan(7))
        assert np.array_equal(np.concatenate(rows) if rows else page_rows({}), page_rows(self.content))
        asked = np.arange(0, 130, 3, dtype=np.uint64)
        found, rows = self.table.look_up(asked)
        assert found.tolist() == [key in self.content for key in asked.tolist()]
        there = {key: self.content[key] for key in asked.tolist() if key in self.content}
        assert np.array_equal(rows[found], page_rows(there))
        assert np.array_equal(rows["key"], asked)
        between = self.table.ranges(np.array([5, 50], np.uint64), np.array([20, 99], np.uint64))
        some = {k: v for k, v in self.content.items() if 5 <= k <= 20 or 50 <= k <= 99}
        assert np.array_equal(between, page_rows(some))


STEP = st.one_of(st.dictionaries(st.integers(1, 120), ROW, max_size=30), st.sampled_from(["commit", "crash", "reopen"]))


@settings(deadline=None, max_examples=80)
@given(st.lists(STEP, max_size=40), st.sampled_from([0, 500, 1500, 10**9]), st.sampled_from([2, 20, 10**6]))
def test_a_table_is_a_dict_through_folds_and_crashes(steps, overlay_bytes, merge_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "MERGE_ROWS", merge_rows)
        patch.setattr(table_module, "MERGE_PACE", 0)
        model = Model(overlay_bytes)
        for step in steps:
            if isinstance(step, dict):
                model.write(step)
            elif step == "reopen":
                model.reopen()
            else:
                model.flush(step == "commit")
            model.check()


def test_a_large_base_is_written_over_several_commits(monkeypatch):
    """Meanwhile runs are folded and joined beside it; no commit writes more of it than it may."""
    monkeypatch.setattr(table_module, "MERGE_ROWS", 100)
    monkeypatch.setattr(table_module, "MERGE_PACE", 2)
    model = Model(0)  # each commit folds
    rng = np.random.default_rng(4)
    model.write(dict.fromkeys(range(1, 2000), (1, 2, 3, 4)))
    model.flush(True)
    bases, merging = set(model.files["index.page.base"]), 0
    for number in range(120):
        model.write(dict.fromkeys(rng.integers(1, 3000, 40).tolist(), (number, 2, 3, 4)))
        before = model.table._merge
        model.flush(True)
        bases |= set(model.files["index.page.base"])
        merging += before is not None and model.table._merge is before
        assert sum(map(len, model.files.values())) <= 12
        assert 2 * sum(run.count for run in model.table._runs) <= model.table._base.count + 80
    model.check()
    assert len(bases) >= 3
    assert merging >= 10 * len(bases)


def test_a_merge_that_fails_leaves_the_table_as_it_was(monkeypatch):
    """What it had written goes away, as it does when the table is closed, or a whole fold overtakes it."""
    monkeypatch.setattr(table_module, "MERGE_ROWS", 100)
    monkeypatch.setattr(table_module, "MERGE_PACE", 0)
    model = Model(0)
    model.write(dict.fromkeys(range(1, 2000), (1, 2, 3, 4)))
    model.flush(True)
    model.write(dict.fromkeys(range(1, 600), (5, 2, 3, 4)))
    model.flush(True)
    model.flush(True)
    path = model.table._merge.path
    assert path.exists()
    monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OutOfSpace):
        model.table.go_on(model.store, "a0-00000099")
    monkeypatch.undo()
    assert model.table._merge is None
    model.check()
    gc.collect()
    assert not path.exists()


def test_files_stay_few_and_small():
    model = Model(44 * 100)
    rng = np.random.default_rng(1)
    for _ in range(300):
        keys = rng.integers(1, 3000, 40).tolist()
        model.write(dict.fromkeys(keys, (1, 2, 3, 4)))
        model.flush(True)
        assert sum(map(len, model.files.values())) <= 32 + 8
    model.check()
    base = model.table._base.count
    assert sum(run.count for run in model.table._runs) * 4 <= base
    before = model.files
    model.reopen()
    assert model.files == before
    assert model.table.count == len(model.content)


def test_two_bases_are_an_error():
    model = Model(0)
    model.write({1: (1, 2, 3, 4)})
    model.flush(True)
    name = model.files["index.page.base"][0]
    with pytest.raises(ArchiveError, match="2 bases"):
        Table.open(PAGE, model.store, {"index.page.base": [name, name]}, 0)


def test_an_old_scan_goes_on_while_files_are_replaced():
    model = Model(0)
    model.write({key: (key, 0, 0, 0) for key in range(1, 100)})
    model.flush(True)
    scan = model.table.scan(10)
    first = next(scan)
    model.write(dict.fromkeys(range(1, 200), (0, 0, 0, 0)))
    model.flush(True)
    rest = np.concatenate([first, *scan])
    assert rest["cash"].tolist() == list(range(1, 100))
