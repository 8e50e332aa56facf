"""A crawl of very many small rounds keeps few files, of every kind: what a commit writes is merged or replaced."""

from typing import Any

import numpy as np
import pytest
from archive_samples import Round, answer

from gossamer import columns
from gossamer.archive.chain import FULL_EVERY, Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.merge import merge, room_beside
from gossamer.archive.row_files import RowFiles
from gossamer.archive.store import Memory
from gossamer.archive.tables import write_table
from gossamer.columns import PAGE
from gossamer.config import Config, Index
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import ORDERS
from gossamer.sharing.exchange import InProcess

PAGES = 3  # that a round finds; it visits one
NOW_S = 1_700_000_000
BLANKS = {"time": NOW_S, "expires": NOW_S, "string": "x", "dict": "x", "bool": False, "binary": b"x"}


class Crawl:
    """An agent's archive and index, with a commit as `crawl/agent.py` makes it: all kinds of files at once."""

    def __init__(self) -> None:
        self.store, self.config = Memory(), Config()
        self.chain = Chain.open(self.store, "a0", InProcess())
        self.index = PageIndex.open(self.store, {}, Index(memory_mb=1))
        self.frontier = Frontier(self.index, ORDERS["breadth-first"], Index())
        self.resting = RowFiles(self.store, self.chain, columns.RESTING, (0.0, 0))
        self.hosts: dict[str, tuple[float, int]] = {}
        self.plain = {("scope", ".txt"): b"x\n", ("named", ".txt"): b"x\n", ("hostmap", ".bin"): b"x\n"}
        for table in columns.STORED.values():  # all but visits are the same in each round: written once, to save time
            if table is not columns.VISITS:
                values = {c.name: [_blank(c)] for c in table.columns}
                (name,) = write_table(self.store, table, "a0", 0, values).added[table.name]
                self.plain[table.name, ".parquet"] = self.store.get(name)
                self.store.delete(name)

    def round(self) -> None:
        store, number = self.store, self.chain.round
        changes = Round(number).write(store, self.config, [answer(f"http://a.test/{number}")])
        for (kind, suffix), data in self.plain.items():
            name = f"tables/{kind}-a0-{number:08d}{suffix}"
            store.put(name, data)
            changes |= Changes({kind: [name]})
        self.hosts[f"h{number % 300}"] = (float(number), 1)
        changes |= self.resting.write(dict(self.hosts))
        changes |= self._index(number)
        changes |= merge(store, self.chain.files, self.config, number, room_beside(changes, 0))
        self.chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=float(number))
        self.index.release(changes)

    def _index(self, number: int) -> Changes:
        taken = self.frontier.take(1, NOW_S, 1)
        taken["due_s"], taken["status"] = columns.NEVER, columns.Status.FETCHED
        rows = np.zeros(PAGES, PAGE.numpy)
        rows["key"] = np.sort(np.random.default_rng(number).integers(1, 2**63, PAGES, dtype=np.uint64))
        rows["text"] = self.index.heap.append([b"http://a.test/%d/%d" % (number, page) for page in range(PAGES)])
        self.index.pages.write(taken, 0)
        self.index.pages.write(rows, PAGES)
        both = np.concatenate((taken, rows))
        self.frontier.offer(both[np.argsort(both["key"])], NOW_S, settled=np.ascontiguousarray(taken["key"]))
        visited = np.zeros(len(taken), self.index.visited.dtype)
        visited["key"] = taken["key"]
        self.index.visited.write(visited)
        one = np.array([number % 300 + 1], np.uint32)
        self.index.hosts.grow(one, one, np.array([PAGES]), np.array([1]))
        label = f"a0-{number:08d}"
        return self.index.flush(self.store, label) | self.frontier.flush(self.store, label)


def _blank(column: columns.Column) -> Any:
    return BLANKS.get(column.name, BLANKS.get(column.dtype, 0))


def _names(crawl: Crawl) -> set[str]:
    return {name for names in crawl.chain.files.values() for name in names}


@pytest.mark.parametrize("rounds", [400, pytest.param(2_000, marks=pytest.mark.slow)])
def test_files_are_few_however_many_rounds_there_were(rounds: int) -> None:
    crawl, most = Crawl(), 0
    for _ in range(rounds):
        crawl.round()
        most = max(most, len(_names(crawl)))
    counts = {kind: len(names) for kind, names in crawl.chain.files.items()}
    bound = 2 * crawl.config.archive.merge_files + 11  # those that wait, and those that were merged: their logarithm
    assert all(count <= bound for count in counts.values()), counts
    assert set(counts) >= {"warc", "cdxj", "scope", "named", "hostmap", "resting", *columns.STORED}
    assert most <= 40 * 15, "each round wrote files of 15 kinds"
    on_disk = [name for name in crawl.store.list("") if not name.startswith("lock/")]
    assert len(on_disk) <= len(_names(crawl)) + 2 * FULL_EVERY + 2
    manifests = [name for name in on_disk if name.startswith("manifest/")]
    assert max(len(crawl.store.get(name)) for name in manifests) < 200_000
    reopened = PageIndex.open(crawl.store, Chain.read(crawl.store, "a0").files, Index(memory_mb=1))
    assert reopened.count == crawl.index.count == rounds * PAGES
