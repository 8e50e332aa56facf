"""`Table` is one table of the index, an LSM tree: a base, a few runs, an overlay in memory and its log of rounds.

Newest wins, in this order: overlay, runs from newest to oldest, base. Every round's changed rows go to a *delta* in the
round's pack, as absolute values, so that replaying one twice, or on top of a later base, changes nothing. When the
overlay exceeds its bound (or its log is too old) it is folded into a run, and its deltas are not needed any more. Runs
are joined like the digits of a binary counter; when they hold a quarter of the base, they and the base become the new
base. A large one is written over several flushes, so that none of them takes long; until it is whole no manifest names
it, so that a crash costs nothing but the work.
Copy-on-write maps are no alternative: with uniform keys one round touches nearly every page of the file.
"""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from gossamer import columns
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Files, Store, sync
from gossamer.arrays import AnyKeys, Bools, Rows
from gossamer.errors import ArchiveError, disk_full_guard
from gossamer.frontier.index_files import Named, by_age, put, remove
from gossamer.frontier.index_pack import Pack, age
from gossamer.frontier.run_file import Run, write_merged, write_run, writing_merged
from gossamer.frontier.sorted_runs import (
    CHUNK_ROWS,
    Sorted,
    Source,
    count_union,
    key_name,
    merge_two,
    merged,
    raw,
    search,
    search_many,
    spans,
)

MAX_DELTAS = 32  # rounds: more would make a restart slow, as each delta is read and merged
BASE_SHARE = 4  # runs may hold 1/4 of the base: few rewrites, few bytes
MERGE_ROWS = 1 << 22  # of a new base in one flush,
MERGE_PACE = 8  # or so many times the rows of the round: it is whole before the runs hold half of the base


class Merge:
    """`Merge` writes what a base and its runs are together, a part at a time."""

    def __init__(self, store: Store, kind: str, label: str, table: columns.Table, runs: list[Run], count: int) -> None:
        self.runs, self.label = runs, label
        self.path = store.scratch(f"index/{kind}-merge-{label}")
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        self._done = 0
        self._written = writing_merged(self.path, table, runs, count, count, min(CHUNK_ROWS, MERGE_ROWS))

    def ends(self, rows: int) -> bool:
        """Writes at least so many rows more, and returns whether that was all."""
        goal = self._done + rows
        for written in self._written:
            if written >= goal:
                self._done = written
                with disk_full_guard(self.path):
                    sync(self.path)  # now, or the last part would wait for the disk to take the whole file
                return False
        return True


class Table:
    """The table has known keys and their rows. Keys come in sorted and unique; so do rows."""

    def __init__(self, table: columns.Table, overlay_bytes: int) -> None:
        self.spec = table
        self.dtype = table.numpy
        self.count = 0
        self._overlay_bytes = overlay_bytes
        self._base: Run | None = None
        self._runs: list[Run] = []
        self._overlay: list[Sorted] = []  # oldest to newest, each at least twice as long as the next
        self._unflushed: list[Sorted] = []
        self._deltas: list[str] = []
        self._retired: dict[str, Run] = {}
        self._merge: Merge | None = None
        self._recent = 0  # rows written since it went on

    @classmethod
    def open(cls, table: columns.Table, store: Files, files: Named, overlay_bytes: int) -> "Table":
        """Opens the named files, and nothing else."""
        opened = cls(table, overlay_bytes)
        bases = sorted(files.get(opened._kind("base"), []))
        if len(bases) > 1:
            raise ArchiveError(f"the manifest names {len(bases)} bases of the {table.name} table: {bases}")
        newest: Run | None = None
        for name in bases:
            opened._base = newest = Run(name, store.local(name), table)
        for name in by_age(files.get(opened._kind("run"), [])):
            opened._runs.append(newest := Run(name, store.local(name), table))
        for name in by_age(files.get(opened._kind("delta"), [])):
            newest = Run(name, store.local(name), table, opened._kind("delta"))
            opened._push(Sorted.of(newest.between(0, newest.count)))
            opened._deltas.append(name)
        opened.count = newest.total if newest else 0
        return opened

    def look_up(self, keys: AnyKeys) -> tuple[Bools, Rows]:
        """Returns which keys are known, and their rows; an unknown key's row has only its key."""
        rows = np.zeros(len(keys), self.dtype)
        found = np.zeros(len(keys), np.bool_)
        missing = np.arange(len(keys))
        wanted = keys
        for source in self._newest_first():
            if not len(missing):
                break
            here, positions = search_many(source.keys, wanted)
            if here.any():
                raw(rows)[missing[here]] = raw(source.take(positions[here]))
                found[missing[here]] = True
                missing, wanted = missing[~here], wanted[~here]
        rows[key_name(self.dtype)] = keys
        return found, rows

    def ranges(self, first: AnyKeys, last: AnyKeys) -> Rows:
        """Returns all rows whose keys are in one of the ranges [first, last]; ranges are sorted and disjoint."""
        result: Sorted | None = None
        for source in reversed(list(self._newest_first())):
            starts = np.searchsorted(source.keys, first)
            sizes = np.searchsorted(source.keys, last, side="right") - starts
            if sizes.any():
                positions = spans(starts, sizes)
                piece = Sorted(source.keys.take(positions), source.take(positions))
                result = merge_two(result, piece) if result else piece
        return result.rows if result else np.zeros(0, self.dtype)

    def write(self, rows: Rows, added: int | None = None) -> None:
        """Writes rows as they are from now on; `added` of them have keys that were not known (who asked, knows)."""
        if len(rows):
            piece = Sorted.of(rows)
            if added is None:
                added = len(rows) - int(self.look_up(piece.keys)[0].sum())
            self._unflushed.append(piece)
            self._push(piece)
            self.count += added
            self._recent += len(rows)

    def scan(self, chunk_rows: int = CHUNK_ROWS) -> Iterator[Rows]:
        """Yields every row, by key. The table may change meanwhile: the scan sees it as it was at the start."""
        return merged(list(reversed(list(self._newest_first()))), chunk_rows)

    @property
    def folded(self) -> str:
        """The file of the last fold; empty before the first. Another name means another fold."""
        newest = self._runs[-1] if self._runs else self._base
        return newest.name if newest else ""

    def since_fold(self) -> Iterator[Rows]:
        """Yields the rows written since then, by key: all that the overlay has."""
        return merged(list(self._overlay))

    def is_since_fold(self, keys: AnyKeys) -> Bools:
        """Returns which of the keys have such rows."""
        found = np.zeros(len(keys), np.bool_)
        for piece in self._overlay:
            found |= search(piece.keys, keys)[0]
        return found

    def urgency(self, number: int) -> float:
        """Returns how much a fold is due: another round like this one must still fit, and the log must not be long."""
        held = _bytes(self._overlay) + _bytes(self._unflushed)
        return max(held / max(self._overlay_bytes, 1), age(self._deltas, number) / MAX_DELTAS)

    def write_delta(self, pack: Pack) -> None:
        """Adds the round's rows to its pack, as a delta."""
        if not self._unflushed:
            return
        delta = self._unflushed[0]
        for piece in self._unflushed[1:]:
            delta = merge_two(delta, piece)
        path = pack.scratch(self._kind("delta"))
        write_merged(path, self.spec, [delta], len(delta.keys), self.count)
        self._deltas.append(pack.add(self._kind("delta"), path))
        self._unflushed = []

    def fold(self, store: Store, label: str) -> Changes:
        """Turns the overlay into a file, together with those runs (and the base) that are not much longer."""
        changes = Changes()
        size = sum(len(piece.keys) for piece in self._overlay)
        known = self._base.count if self._base else 0
        runs = size + sum(run.count for run in self._runs)
        is_due = BASE_SHARE * runs >= known
        # Runs that hold half of the base wait no longer: its merge was interrupted again and again.
        whole = is_due and (known + runs <= MERGE_ROWS or BASE_SHARE * runs >= 2 * known)
        if whole:
            self._merge = None
        read = len(self._merge.runs) - 1 if self._merge else 0  # by a merge that goes on
        left = len(self._runs)
        while left > read and (whole or self._runs[left - 1].count <= 1.5 * size):
            left -= 1
            size += self._runs[left].count
        joined = self._runs[left:]
        if whole and self._base:
            joined = [self._base, *joined]
        sources: list[Source] = [*joined, *self._overlay]
        kind = self._kind("base" if whole else "run")
        count = self.count if whole else count_union(sources)

        def write(path: Path) -> None:
            write_merged(path, self.spec, sources, count, self.count)

        run = Run(*put(store, changes, kind, label, write), self.spec)
        if whole and self._base:
            remove(changes, self._kind("base"), [self._base.name])
        remove(changes, self._kind("run"), [old.name for old in self._runs[left:]])
        remove(changes, self._kind("delta"), self._deltas)
        self._retired.update({old.name: old for old in joined})
        self._runs = self._runs[:left] if whole else [*self._runs[:left], run]
        self._base = run if whole else self._base
        self._deltas, self._overlay, self._unflushed = [], [], []
        if is_due and not whole and self._base and not self._merge:
            self._merge = Merge(store, kind, label, self.spec, [self._base, *self._runs], self.count)
        return changes

    def go_on(self, store: Store, label: str) -> Changes:
        """Writes the next part of a new base, if one is being written. The last part puts it in place."""
        changes, merge, recent = Changes(), self._merge, self._recent
        self._merge, self._recent = None, 0  # a merge that fails is given up: the next fold begins another
        if merge and (merge.label == label or not merge.ends(max(MERGE_ROWS, MERGE_PACE * recent))):
            self._merge = merge
        elif merge:
            named = put(store, changes, self._kind("base"), label, lambda path: os.replace(merge.path, path))
            remove(changes, self._kind("base"), [merge.runs[0].name])
            remove(changes, self._kind("run"), [run.name for run in merge.runs[1:]])
            self._retired.update({run.name: run for run in merge.runs})
            self._base, self._runs = Run(*named, self.spec), self._runs[len(merge.runs) - 1 :]
        return changes

    def retain(self, store: Store, label: str, keep: Callable[[Rows], Bools]) -> Changes:
        """Keeps only rows that pass. All files become one, or none."""
        changes = Changes()
        sources = list(self._newest_first())
        bounds = [source.bounds() for source in sources if len(source.keys)]
        self.count = sum(int(keep(rows).sum()) for rows in self.scan())
        base = None
        if self.count:
            widest = {c: (min(b[c][0] for b in bounds), max(b[c][1] for b in bounds)) for c in bounds[0]}

            def write(path: Path) -> None:
                kept = (rows[keep(rows)] for rows in self.scan())
                write_run(path, self.spec, kept, self.count, widest, self.count)

            base = Run(*put(store, changes, self._kind("base"), label, write), self.spec)
        if self._base:
            remove(changes, self._kind("base"), [self._base.name])
            self._retired[self._base.name] = self._base
        remove(changes, self._kind("run"), [run.name for run in self._runs])
        remove(changes, self._kind("delta"), self._deltas)
        self._retired.update({run.name: run for run in self._runs})
        self._base, self._runs, self._deltas, self._overlay, self._merge = base, [], [], [], None
        return changes

    def release(self, names: list[str]) -> None:
        """Lets go of the maps of files that a commit has removed."""
        for name in names:
            self._retired.pop(name, None)

    @property
    def memory_bytes(self) -> int:
        return _bytes({id(piece): piece for piece in [*self._overlay, *self._unflushed]}.values())

    def _kind(self, level: str) -> str:
        return f"index.{self.spec.name}.{level}"

    def _newest_first(self) -> Iterator[Source]:
        yield from reversed(self._overlay)
        yield from reversed(self._runs)
        if self._base:
            yield self._base

    def _push(self, piece: Sorted) -> None:
        while self._overlay and len(self._overlay[-1].keys) < 2 * len(piece.keys):
            piece = merge_two(self._overlay.pop(), piece)
        self._overlay.append(piece)


def _bytes(pieces: Iterable[Sorted]) -> int:
    return sum(piece.keys.nbytes + piece.rows.nbytes for piece in pieces)
