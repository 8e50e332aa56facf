"""One file of the index in a commit: what is in it, how long it stays, and what came before it."""

from pathlib import Path

import numpy as np
import pytest

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Memory
from gossamer.columns import HOST, PAGE
from gossamer.config import Index
from gossamer.errors import ArchiveError
from gossamer.frontier import table as table_module
from gossamer.frontier import text_heap
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.index_files import by_age, file_name
from gossamer.frontier.index_pack import Pack, opened
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.run_file import write_run
from gossamer.frontier.sorted_runs import Sorted
from gossamer.frontier.table import Table


class Crawled:
    """An index, and the files that manifests would name after each round."""

    def __init__(self) -> None:
        self.store = Memory()
        self.files: dict[str, list[str]] = {}
        self.index = PageIndex.open(self.store, self.files, Index())
        self.number = 0

    def round(self, pages: int, visited: bool = True) -> Changes:
        self.number += 1
        keys = np.arange(self.number * 100 + 1, self.number * 100 + 1 + pages, dtype=np.uint64)
        rows = np.zeros(pages, PAGE.numpy)
        rows["key"] = keys
        rows["text"] = self.index.heap.append([b"https://example.org/%d" % key for key in keys])
        self.index.pages.write(rows, pages)
        self.index.hosts.grow(*(np.array([self.number], np.uint32),) * 2, *(np.array([pages]),) * 2)
        if visited:
            self.index.visited.write(np.zeros(1, self.index.visited.dtype))
        changes = self.index.flush(self.store, f"a0-{self.number:08d}")
        self.commit(changes)
        return changes

    def commit(self, changes: Changes) -> None:
        before = self.names
        for kind, names in changes.added.items():
            self.files.setdefault(kind, []).extend(names)
        for kind, names in changes.removed.items():
            self.files[kind] = [name for name in self.files[kind] if name not in names]
        self.store.delete(*((before | named(changes.added)) - self.names))
        self.index.release(changes)

    @property
    def names(self) -> set[str]:
        return named(self.files)

    def check(self) -> None:
        again = PageIndex.open(self.store, self.files, Index())
        keys = np.concatenate([rows["key"] for rows in self.index.pages.scan()])
        found, rows = again.pages.look_up(keys)
        assert found.all()
        assert again.urls(rows) == [f"https://example.org/{key}" for key in keys.tolist()]
        assert np.array_equal(again.hosts.rows, self.index.hosts.rows)
        assert (again.count, again.visited.count) == (self.index.count, self.index.visited.count)


def named(files: dict[str, list[str]]) -> set[str]:
    return {name for names in files.values() for name in names}


def test_a_round_writes_one_file() -> None:
    crawled = Crawled()
    changes = crawled.round(7)
    assert named(changes.added) == {"index/round-a0-00000001.pack"}
    assert sorted(changes.added) == ["index.heap.delta", "index.host.delta", "index.page.delta", "index.visited.delta"]
    assert crawled.store.list("") == ["index/round-a0-00000001.pack"]
    crawled.check()
    assert not crawled.index.flush(crawled.store, "a0-00000002")


def test_parts_fold_in_turns_and_no_pack_stays_for_long() -> None:
    crawled = Crawled()
    folds = []
    for number in range(1, 200):
        changes = crawled.round(3, visited=number in (1, 40))  # a table that seldom changes
        folds.append(len([name for name in named(changes.added) if not name.endswith(".pack")]))
        packs = [name for name in crawled.names if name.endswith(".pack")]
        assert len(packs) <= table_module.MAX_DELTAS + 4  # the last of four parts waits for three others
        assert sorted(crawled.names) == crawled.store.list("")
    assert max(folds) == 1
    assert sum(folds) >= 4 * 4
    crawled.check()


def test_a_part_that_cannot_wait_folds_beside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (table_module, text_heap):
        monkeypatch.setattr(module, "MAX_DELTAS", 1)
    crawled = Crawled()
    for _ in range(9):
        crawled.round(3)
        assert len(crawled.names) < 20
    crawled.check()


def test_a_pack_that_is_cut_off_or_of_another_kind_is_damaged(tmp_path: Path) -> None:
    crawled = Crawled()
    crawled.round(3)
    whole = crawled.store.get("index/round-a0-00000001.pack")
    for bad in (
        whole[:-1],
        whole[:20],
        whole[:-12] + b"\xff\xff\xff\x7f" + whole[-8:],
        whole[:-13] + b"x" + whole[-12:],
    ):
        path = tmp_path / "round-a0-00000001.pack"
        path.write_bytes(bad)
        with pytest.raises(ArchiveError, match=r"round-a0-00000001\.pack is damaged"):
            opened(path, "index.page.delta")
    path.write_bytes(whole)
    with pytest.raises(ArchiveError, match="damaged"):
        opened(path, "index.kin.delta")


def test_files_of_each_kind_from_before_packs_come_first() -> None:
    """A crawl that wrote a file for each delta goes on: those are older than any pack, whatever their names are."""
    crawled = Crawled()
    store = crawled.store
    visited = crawled.index.visited.spec
    rows = np.zeros(1, visited.numpy)
    for number in (1, 2):
        rows["key"], rows["visits"] = 5, number
        name = file_name("index.visited.delta", f"a0-{number:08d}")
        write_run(store.scratch(name), visited, [rows], 1, Sorted.of(rows).bounds(), 1)
        store.put(name, store.scratch(name))
        crawled.files.setdefault("index.visited.delta", []).append(name)
    table = Table.open(visited, store, crawled.files, 1 << 20)
    rows["visits"] = 3
    table.write(rows)
    pack = Pack(store, "a0-00000003")
    table.write_delta(pack)
    crawled.commit(pack.close())
    assert sorted(crawled.files["index.visited.delta"])[0].startswith("index/round")  # not the order of their names
    again = Table.open(visited, store, crawled.files, 1 << 20)
    assert again.look_up(np.array([5], np.uint64))[1]["visits"].tolist() == [3]
    assert by_age(crawled.files["index.visited.delta"])[-1] == "index/round-a0-00000003.pack"


def test_hosts_may_all_leave() -> None:
    crawled = Crawled()
    crawled.round(3)
    crawled.number += 1
    crawled.commit(crawled.index.hosts.retain(crawled.store, "a0-00000002", lambda rows: rows["host"] == 77))
    assert len(Hosts(Table.open(HOST, crawled.store, crawled.files, 1 << 20))) == 0
    assert HOST.numpy == crawled.index.hosts.rows.dtype
