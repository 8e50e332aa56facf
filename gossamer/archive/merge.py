"""This module compacts the archive: it merges the many small files that rounds leave into few large ones.

It removes nothing, and merges no more at a time than a commit has room for: each file is a request to a store far away.
The new files are durable, and the changes returned become true with the next commit. A crash
before it leaves files that no manifest names.
"""

import heapq
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer import columns
from gossamer.archive import cdxj
from gossamer.archive.labels import Label, label_of
from gossamer.archive.manifest import Changes, Files
from gossamer.archive.store import Store
from gossamer.archive.tables import parquet_options
from gossamer.config import Config
from gossamer.errors import ArchiveError, disk_full_guard

Places = dict[str, tuple[str, int]]  # old WARC file: new one, and where in it the old one begins

PUTS = 12  # files of a commit, with its manifest, as a rule
_LATE = 2  # times as many files of a kind as are worth merging: then they are merged, whatever room there is
_TABLE_BYTES = 128 << 20  # larger tables and CDXJ files gain nothing from being merged
_GROUP_ROWS = 1 << 17  # rows buffered for one row group,
_GROUP_BYTES = 64 << 20  # unless they take more memory than that: a small file may hold megabytes of one letter
_PLACED = ("visits", "cdxj")  # kinds that have the places of records
_PLAIN = {"scope": ".txt", "named": ".txt", "hostmap": ".bin"}  # kinds that are read whole, from the first to the last
_SUFFIX = {"warc": ".warc.gz", "cdxj": ".cdxj"}
_PART = re.compile(r"-(\d{1,7})\.warc\.gz$")


def room_beside(changes: Changes, messages: int) -> int:
    """Returns how many files a commit can still write, beside these, its messages and its manifest."""
    return PUTS - len({name for names in changes.added.values() for name in names}) - messages - 1


def merge(store: Store, files: Files, config: Config, number: int, room: int = PUTS) -> Changes:
    """Merges what is worth it, into at most `room` files, unless it has waited for long; `files` are the chain's,
    `number` is its round. Mostly there is nothing. A commit that has too many files anyway (less than no room) may
    have one more, or files of many kinds pile up."""
    changes, places, room = Changes(), Places(), 1 if room < 0 else room
    if config.archive.merge_files < 2:
        return changes
    work = _Merger(store, config, number)
    packs = {kind: [pack] if (pack := work.pack(kind, files)) else [] for kind in ("warc", "cdxj", *columns.STORED)}
    for warc in packs.pop("warc"):
        # Whatever has the places of moved records must be rewritten.
        moved = {kind: work.rewritten(files.get(kind, ()), warc, packs[kind]) for kind in _PLACED}
        needed = 1 + sum(map(len, moved.values()))
        if needed <= room or work.is_late(files["warc"]):
            changes |= work.join_warc(warc, places)
            packs, room = {**packs, **moved}, max(room - 1, needed - 1)
    for kind in _PLAIN:
        if (plain := work.pack(kind, files)) and (room > 0 or work.is_late(files[kind])):
            changes |= work.join_plain(kind, plain)
            room -= 1
    for kind in (*_PLACED, *columns.STORED):
        for names in packs.pop(kind, []):
            if room > 0 or work.is_late(files[kind]):
                changes |= work.join_cdxj(names, places) if kind == "cdxj" else work.join_table(kind, names, places)
                room -= 1
    return changes


def choose(sizes: list[tuple[int, str]], least: int, limit: int) -> list[str]:
    """Returns which of the newest files, given oldest first, become one: at least so many, up to `limit` bytes.

    A file larger than all after it together waits until they have caught up. So a byte is copied about as
    often as the logarithm of the number of rounds, and that many files stay besides the newest ones.
    """
    tail = list(sizes)
    while len(tail) >= least and tail[0][0] > sum(size for size, _ in tail[1:]):
        tail.pop(0)
    if len(tail) < least:
        return []
    total, pack = 0, []
    for size, name in tail:
        total += size
        if total > limit:
            break
        pack.append(name)
    return pack if len(pack) > 1 else []


def named_label(name: str) -> Label:
    """Returns the label of a file that a manifest names."""
    label = label_of(name)
    if label is None:
        raise ArchiveError(f"{name} is not a name that a round gives to its files")
    return label


class _Merger:
    def __init__(self, store: Store, config: Config, number: int) -> None:
        self._store = store
        self._agent = config.crawl.agent
        self._warc_bytes = config.archive.warc_bytes
        self._least = config.archive.merge_files
        self._number = number

    def is_late(self, names: Sequence[str]) -> bool:
        return len(names) >= _LATE * self._least

    def pack(self, kind: str, files: Files) -> list[str]:
        """Returns the files of a kind that are to become one now: one set at a time, so that no commit waits long."""
        limit = self._warc_bytes if kind == "warc" else _TABLE_BYTES
        tail: list[tuple[int, str]] = []
        schema = None
        names = files.get(kind, ())
        if len(names) < self._least:  # mostly: the others are looked at, one by one
            return []
        for name in sorted(names, key=_order, reverse=True):
            size = self._store.size(name)
            if size > limit // 2:
                break
            if kind in columns.GROWING:  # only files with the same columns become one
                its = pq.read_schema(self._store.local(name)).remove_metadata()
                if schema not in (None, its):
                    break
                schema = its
            tail.append((size, name))
        return choose(tail[::-1], self._least, limit)

    def rewritten(self, names: Iterable[str], warc: list[str], packs: list[list[str]]) -> list[list[str]]:
        """Returns the sets of a kind's files that become one each, when these WARC files do: those that have places in
        them, and those that are merged anyway. Neighbours are one set, as they are rewritten whether joined or not."""
        sets: list[list[str]] = [[]]
        held, chosen = 0, {name for pack in packs for name in pack}
        for name in sorted(names, key=_order):
            size = self._store.size(name)
            is_chosen = name in chosen or overlaps(name, warc)
            if sets[-1] and (not is_chosen or held + size > _TABLE_BYTES):
                sets.append([])
                held = 0
            if is_chosen:
                sets[-1].append(name)
                held += size
        return [each for each in sets if each]

    def join_warc(self, pack: list[str], places: Places) -> Changes:
        """Concatenates: gzip members in a row are a WARC file. Where each file begins is noted in `places`."""
        name = self._name("warc", pack)
        self._store.fetch(pack)
        path = self._store.scratch(name)
        with disk_full_guard(path), path.open("wb") as target:
            for old in pack:
                places[old] = (name, target.tell())
                with self._store.local(old).open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
        return self._put("warc", name, path, pack)

    def join_plain(self, kind: str, pack: list[str]) -> Changes:
        """Concatenates: lines, or entries of a host map."""
        name = self._name(kind, pack)
        path = self._store.scratch(name)
        with disk_full_guard(path), path.open("wb") as target:
            target.writelines(self._store.get(old) for old in pack)
        return self._put(kind, name, path, pack)

    def join_cdxj(self, pack: list[str], places: Places) -> Changes:
        name = self._name("cdxj", pack)
        self._store.fetch(pack)
        path = self._store.scratch(name)
        with disk_full_guard(path), ExitStack() as stack, path.open("w", encoding="ascii", newline="\n") as target:
            sources = [stack.enter_context(self._store.local(old).open(encoding="ascii")) for old in pack]
            runs = [cdxj.moved(source, places) for source in sources]
            target.writelines(heapq.merge(*runs, key=lambda text: text.partition("{")[0]))
        return self._put("cdxj", name, path, pack)

    def join_table(self, kind: str, pack: list[str], places: Places) -> Changes:
        name = self._name(kind, pack)
        self._store.fetch(pack)
        path = self._store.scratch(name)
        paths = [self._store.local(old) for old in pack]
        schema = (
            pq.read_schema(paths[0]) if kind in columns.GROWING else _joint_schema(columns.STORED[kind].arrow, paths)
        )
        with disk_full_guard(path), pq.ParquetWriter(path, schema, **parquet_options(schema)) as writer:
            for rows in _grouped(paths, schema):
                writer.write_table(_moved(rows, places) if kind in _PLACED else rows)
        return self._put(kind, name, path, pack)

    def _name(self, kind: str, pack: list[str]) -> str:
        labels = [named_label(name) for name in pack]
        first, last = min(label.first for label in labels), max(label.last for label in labels)
        return merged_name(kind, self._agent, first, last, self._number)

    def _put(self, kind: str, name: str, path: Path, pack: list[str]) -> Changes:
        self._store.put(name, path)
        return Changes({kind: [name]}, {kind: pack})


def _joint_schema(known: pa.Schema, paths: list[Path]) -> pa.Schema:
    """Returns the columns that we know, and those that only some of the files have: a later version wrote them."""
    more = {field.name: field for path in paths for field in pq.read_schema(path)}
    return pa.schema([*known, *(field for name, field in more.items() if name not in known.names)])


def aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns rows with all of the columns; those that an earlier version did not write are NULL."""
    if rows.schema.equals(schema):
        return rows
    has = set(rows.column_names)
    values = [
        rows.column(field.name).cast(field.type) if field.name in has else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(values, schema=schema)


def _grouped(paths: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of the files, in order, in pieces that make good row groups and bound the memory."""
    waiting: list[pa.Table] = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                waiting.append(aligned(file.read_row_group(group), schema))
                if (
                    sum(rows.num_rows for rows in waiting) >= _GROUP_ROWS
                    or sum(rows.nbytes for rows in waiting) >= _GROUP_BYTES
                ):
                    yield _together(waiting)
                    waiting = []
    if waiting:
        yield _together(waiting)


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _moved(visits: pa.Table, places: Places) -> pa.Table:
    """Returns visits with their places in the concatenated WARC files."""
    warc: Any = visits.column("warc").combine_chunks()
    old = warc.dictionary.to_pylist()
    to = [places.get(name, (name, 0)) for name in old]
    distinct = list(dict.fromkeys(name for name, _ in to))
    position = {name: i for i, name in enumerate(distinct)}
    indices = np.asarray(warc.indices)
    moved = pa.DictionaryArray.from_arrays(
        np.array([position[name] for name, _ in to], np.int32)[indices], pa.array(distinct, pa.string())
    )
    shifts = np.array([shift for _, shift in to], np.uint64)[indices]
    offsets = pa.array(visits.column("warc_offset").to_numpy() + shifts)
    for name, values in (("warc", moved), ("warc_offset", offsets)):
        index = visits.schema.get_field_index(name)
        visits = visits.set_column(index, visits.schema.field(index), values)
    return visits


def merged_name(kind: str, agent: str, first: int, last: int, number: int) -> str:
    """Returns a name by the rounds that a file covers and the commit that makes it: it may be rewritten again."""
    stem = f"{agent}-{first:08d}-{last:08d}-{number:08d}"
    if kind in _SUFFIX:
        return f"{kind}/{stem}{_SUFFIX[kind]}"
    return f"tables/{kind}-{stem}{_PLAIN.get(kind, '.parquet')}"


def _order(name: str) -> tuple[int, int]:
    part = _PART.search(name)  # a round may have several WARC files
    return named_label(name).first, int(part[1]) if part else 0


def overlaps(name: str, others: Iterable[str]) -> bool:
    """Returns whether a file has rounds of one of the others."""
    mine = named_label(name)
    return any(mine.first <= other.last and other.first <= mine.last for other in map(named_label, others))
