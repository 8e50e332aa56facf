"""Merged files say the same as the small ones did, and a crash on the way loses nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from archive_samples import START, Response, Round, answer
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from gossamer import columns
from gossamer.archive import merge as merging
from gossamer.archive.chain import Chain, contents
from gossamer.archive.manifest import Changes
from gossamer.archive.merge import choose, merge
from gossamer.archive.store import Directory, Memory, Store
from gossamer.archive.tables import write_table
from gossamer.archive.warc_reader import read_record
from gossamer.config import Config
from gossamer.sharing.exchange import InProcess

CONFIG = Config().replace({"archive.merge_files": 4})


def commit(chain: Chain, changes: Changes) -> None:
    chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=1.0)


def round_of(number: int, pages: int) -> list[Response]:
    noise = np.random.default_rng(number).bytes(300 * pages)
    return [
        answer(f"http://a.test/{number}/{i}", noise[300 * i : 300 * i + 300], started_s=START + number)
        for i in range(pages)
    ]


def small_tables(store: Store, number: int) -> Changes:
    page: dict[str, Any] = {"key": [number], "url": [f"u{number}"], "host": "h", "domain": "d", "referrer": 0}
    link: dict[str, Any] = {"source": [number, number], "target": [1, 2], "target_url": [f"t{number}", "same"]}
    changes = write_table(store, columns.PAGES, "a0", number, page | {"round": number, "depth": 0, "kind": "page"})
    link |= {"verdict": "followed", "round": number, "kind": "link"}
    return changes | write_table(store, columns.LINKS, "a0", number, link)


def crawl(store: Store, chain: Chain, rounds: int, pages: int = 3, config: Config = CONFIG) -> None:
    for _ in range(rounds):
        number = chain.round
        changes = Round(number).write(store, config, round_of(number, pages))
        changes |= small_tables(store, number)
        commit(chain, changes | merge(store, chain.files, config, number))


def check(store: Store, chain: Chain, pages: int = 3) -> None:
    """Whatever was merged: all visits are there, where visits and CDXJ say, and nowhere twice."""
    expected = {a.request.url: a for n in range(1, chain.number + 1) for a in round_of(n, pages)}
    visits = [row for name in chain.files["visits"] for row in pq.read_table(store.local(name)).to_pylist()]
    assert sorted(row["url"] for row in visits) == sorted(expected)
    for row in visits:
        assert row["warc"] in chain.files["warc"]
        record = read_record(store.local(row["warc"]), row["warc_offset"], row["warc_bytes"])
        assert record.headers["WARC-Target-URI"] == row["url"]
        assert record.body == expected[row["url"]].body
    places = {(row["url"], row["warc"].split("/")[1], row["warc_offset"]) for row in visits}
    indexed = []
    for name in chain.files["cdxj"]:
        lines = store.get(name).decode().splitlines()
        assert [line.split("{")[0] for line in lines] == sorted(line.split("{")[0] for line in lines)
        indexed += [json.loads(line[line.index("{") :]) for line in lines]
    assert {(f["url"], f["filename"], int(f["offset"])) for f in indexed} == places
    assert len(indexed) == len(visits)
    for name in chain.files["warc"]:
        with store.local(name).open("rb") as file:
            assert all(record.raw_stream.read() is not None for record in ArchiveIterator(file, check_digests="raise"))
    for kind, per_round in (("pages", 1), ("links", 2)):
        rows = [row for name in chain.files[kind] for row in pq.read_table(store.local(name)).to_pylist()]
        assert sorted(row["round"] for row in rows) == sorted(list(range(1, chain.number + 1)) * per_round)
    assert set(store.list("warc/") + store.list("tables/") + store.list("cdxj/")) == Chain.read(store, "a0").names()


@pytest.mark.parametrize("rounds", [3, 4, 5, 6, 20])
def test_merging_changes_nothing_but_the_files(rounds: int) -> None:
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    crawl(store, chain, rounds)
    check(store, chain)
    if rounds > 4:
        assert len(chain.files["visits"]) < rounds
        assert len(chain.files["warc"]) < rounds


def test_names(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    chain = Chain.open(store, "a0", InProcess())
    crawl(store, chain, 5)
    span = "00000001-00000004-00000005"
    assert chain.files == {
        "warc": ["warc/a0-00000005-0.warc.gz", f"warc/a0-{span}.warc.gz"],
        "cdxj": ["cdxj/a0-00000005.cdxj", f"cdxj/a0-{span}.cdxj"],
        **{
            k: [f"tables/{k}-a0-00000005.parquet", f"tables/{k}-a0-{span}.parquet"]
            for k in ("visits", "pages", "links")
        },
    }
    assert store.list("tmp/") == []
    check(store, chain)


def test_warc_files_stay_below_their_limit() -> None:
    """Fewer WARC files are joined than visits files: visits that were merged already are rewritten."""
    config = CONFIG.replace({"archive.warc_bytes": 1 << 16})
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    crawl(store, chain, 24, pages=20, config=config)
    assert all(len(store.get(name)) <= 1 << 16 for name in chain.files["warc"])
    assert len(chain.files["warc"]) < 24
    check(store, chain, pages=20)


def test_never(tmp_path: Path) -> None:
    config = CONFIG.replace({"archive.merge_files": 0})
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    crawl(store, chain, 6, config=config)
    assert len(chain.files["visits"]) == 6


def test_few_files_after_many_rounds() -> None:
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    for number in range(1, 81):
        commit(chain, small_tables(store, number) | merge(store, chain.files, CONFIG, number))
    assert len(chain.files["pages"]) < 10
    (rows,) = {sum(pq.read_metadata(store.local(n)).num_rows for n in chain.files["pages"])}
    assert rows == 80


def test_commits_without_room_still_bound_the_number_of_files() -> None:
    """Many agents have many messages: no commit has room, but what has waited for long is merged."""
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    for _ in range(40):
        number = chain.round
        commit(chain, small_tables(store, number) | merge(store, chain.files, CONFIG, number, room=0))
    assert all(len(chain.files[kind]) <= 2 * 4 + 3 for kind in ("pages", "links"))


def test_lists_of_a_scope_and_host_maps_become_few_files() -> None:
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    for number in range(1, 101):
        names = {"scope": f"tables/scope-{chain.label}.txt", "hostmap": f"tables/hostmap-{chain.label}.bin"}
        store.put(names["scope"], b"h%d.test\n" % number)
        store.put(names["hostmap"], bytes([number] * 8))
        changes = Changes({kind: [name] for kind, name in names.items()})
        commit(chain, changes | merge(store, chain.files, CONFIG, chain.round))
    assert all(len(chain.files[kind]) < 12 for kind in ("scope", "hostmap"))
    lines = b"".join(contents(store, "scope")).split()
    assert sorted(lines) == sorted(b"h%d.test" % number for number in range(1, 101))
    entries = b"".join(contents(store, "hostmap"))
    assert sorted(entries) == sorted(number for number in range(1, 101) for _ in range(8))


class Merging(Memory):
    """Another agent merges its files while the first of them is read."""

    is_due = False

    def get(self, name: str) -> bytes:
        if self.is_due and name == "tables/scope-a0-00000001.txt":
            self.is_due = False
            chain = Chain.open(self, "a0", InProcess())
            merged = f"tables/scope-a0-00000001-00000002-{chain.round:08d}.txt"
            self.put(merged, b"a.test\nb.test\n")
            commit(chain, Changes({"scope": [merged]}, {"scope": chain.files["scope"]}))
        return super().get(name)


def test_files_that_are_merged_while_they_are_read_are_not_missed() -> None:
    store = Merging()
    chain = Chain.open(store, "a0", InProcess())
    for name in (b"a.test", b"b.test"):
        path = f"tables/scope-{chain.label}.txt"
        store.put(path, name + b"\n")
        commit(chain, Changes({"scope": [path]}))
    store.is_due = True
    assert b"".join(contents(store, "scope")) == b"a.test\nb.test\n"
    store.delete(*chain.read(store, "a0").files["scope"])
    with pytest.raises(FileNotFoundError):
        contents(store, "scope")


def test_large_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_GROUP_ROWS", 5)
    store = Memory()
    chain = Chain.open(store, "a0", InProcess())
    crawl(store, chain, 5)
    (name,) = [name for name in chain.files["visits"] if name.count("-") > 2]
    meta = pq.read_metadata(store.local(name))
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [6, 6]
    check(store, chain)


class Crash(BaseException):
    pass


def test_crash_anywhere_while_merging() -> None:
    """The round that merges is done or not done; afterwards it can be done again, and nothing is left over."""

    class Dying(Memory):
        left = 10**9

        def put(self, name: str, data: bytes | Path) -> None:
            self._tick()
            super().put(name, data)

        def create(self, name: str, data: bytes) -> bool:
            self._tick()
            return super().create(name, data)

        def delete(self, *names: str) -> None:
            for name in names:
                self._tick()
                super().delete(name)

        def _tick(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise Crash

    crashes, before = 0, Memory()
    crawl(before, Chain.open(before, "a0", InProcess()), 4)
    for k in range(100):
        store = Dying()
        for name in before.list(""):
            store.put(name, before.get(name))
        chain = Chain.open(store, "a0", InProcess())
        store.left = k
        try:
            crawl(store, chain, 1)
        except Crash:
            crashes += 1
        else:
            break
        store.left = 10**9
        chain = Chain.open(store, "a0", InProcess())
        check(store, chain)
        assert chain.number in (4, 5)
        crawl(store, chain, 5 - chain.number)
        check(store, chain)
        assert len(chain.files["visits"]) == 2
    assert crashes > 15


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(2, 8), st.integers(50, 3000))
def test_choose(sizes: list[int], least: int, limit: int) -> None:
    files = [(size, str(i)) for i, size in enumerate(sizes)]
    pack = choose(files, least, limit)
    assert len(pack) != 1
    if pack:
        first = int(pack[0])
        assert pack == [str(i) for i in range(first, first + len(pack))], "consecutive"
        assert sum(sizes[int(name)] for name in pack) <= limit
        assert len(sizes) - first >= least
        assert sizes[first] <= sum(sizes[first + 1 :])
    elif len(sizes) >= least and not any(size > limit // 2 for size in sizes):
        assert (
            sizes[0] > sum(sizes[1:]) or len(sizes) - 1 < least or max(sizes) > limit // 2 or _descending(sizes, least)
        )


def _descending(sizes: list[int], least: int) -> bool:
    """The oldest files are each larger than all after them, until too few are left."""
    while len(sizes) >= least and sizes[0] > sum(sizes[1:]):
        sizes = sizes[1:]
    return len(sizes) < least


def test_choose_waits_for_the_rest_to_catch_up() -> None:
    assert choose([(31, "a"), *[(1, str(i)) for i in range(30)]], 31, 1000) == []
    assert len(choose([(31, "a"), *[(1, str(i)) for i in range(31)]], 31, 1000)) == 32
    assert choose([(31, "a"), *[(1, str(i)) for i in range(30)]], 30, 1000) == [str(i) for i in range(30)]


def test_rows_that_take_much_memory_are_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A robots.txt of one repeated line is half a megabyte in memory and nothing on disk."""
    monkeypatch.setattr(merging, "_GROUP_BYTES", 1 << 20)
    store, names = Memory(), []
    for number in range(1, 9):
        values = {"origin": [f"o{number}"], "time": 1.0, "expires": 2.0, "http_status": 200, "verdict": "rules"}
        row = values | {"body": [b"%d" % number * 400_000]}
        names += write_table(store, columns.ROBOTS, "a0", number, row).added["robots"]
    changes = merge(store, {"robots": names}, CONFIG, 9)
    file = pq.ParquetFile(store.local(changes.added["robots"][0]))
    assert file.num_row_groups == 3
    assert [row["origin"] for row in file.read().to_pylist()] == [f"o{n}" for n in range(1, 9)]
