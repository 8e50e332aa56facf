"""`Run` is an immutable sorted column file: written once as a stream, memory-mapped, looked up by position.

A file is a small JSON header and the columns, each contiguous and 64-byte aligned. A column is stored as
`value - low` in as few bytes as its range needs, split into planes of 4, 2 and 1 bytes. A plane that is nearly all
zeros, as the high bytes of cash and the times of pages that were never visited are, is stored sparse. A page's row of
36 bytes then takes about 22, which is page cache and merge time saved. Keys are stored as they are, because they are
searched in place. A merge copies planes without decoding them where old and new file agree on `low` and widths.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO

import numpy as np

from gossamer import columns
from gossamer.arrays import AnyKeys, Indices, Rows, Unsigned
from gossamer.errors import ArchiveError, disk_full_guard
from gossamer.frontier.index_files import damaged
from gossamer.frontier.index_pack import opened
from gossamer.frontier.sorted_runs import CHUNK_ROWS, Bounds, Plane, Source, Spec, search, steps

MAGIC = b"GOSSRUN2"
BEFORE = b"GOSSRUN1"  # of files in which no plane is sparse
ALIGN = 64
SAMPLE_ROWS = 1 << 14  # by which is decided which planes are sparse
SAMPLES = 32
SPOOL_BYTES = 1 << 20

Piece = tuple[int, Callable[[Spec], list[Unsigned]]]  # a number of rows, and their planes of any column


def write_run(path: Path, table: columns.Table, chunks: Iterable[Rows], count: int, bounds: Bounds, total: int) -> None:
    """Writes exactly `count` sorted rows within `bounds`; `total` is how many keys the table then has."""

    def piece(rows: Rows) -> Piece:
        return len(rows), lambda spec: spec.encode(rows[spec.name])

    chunks = iter(chunks)
    first = next(chunks, np.zeros(0, table.numpy))
    sample = first[:: max(len(first) // SAMPLE_ROWS, 1)]
    for _ in _writing(path, table, map(piece, chain([first], chunks)), count, bounds, total, sample):
        pass


def write_merged(path: Path, table: columns.Table, sources: Sequence[Source], count: int, total: int) -> None:
    """Writes what sources, from oldest to newest, are together: `count` distinct keys."""
    for _ in writing_merged(path, table, sources, count, total):
        pass


def writing_merged(
    path: Path, table: columns.Table, sources: Sequence[Source], count: int, total: int, chunk_rows: int = CHUNK_ROWS
) -> Iterator[int]:
    """Does the same in small steps; yields how many rows are written. The file is whole at the end only."""
    each = [source.bounds() for source in sources]
    bounds = {name: (min(b[name][0] for b in each), max(b[name][1] for b in each)) for name in table.names}
    pieces = ((step.size, step.encoded) for step in steps(sources, chunk_rows))
    return _writing(path, table, pieces, count, bounds, total, _sample(table, sources))


def _sample(table: columns.Table, sources: Sequence[Source]) -> Rows:
    """Returns short stretches of rows, in proportion to how many each source has."""
    apart = max(sum(len(source.keys) for source in sources) // SAMPLES, SAMPLE_ROWS // SAMPLES)
    stretches = [
        source.between(start, min(start + SAMPLE_ROWS // SAMPLES, len(source.keys)))
        for source in sources
        for start in range(0, len(source.keys), apart)
    ]
    return np.concatenate([np.zeros(0, table.numpy), *stretches])


def _layout(table: columns.Table, count: int, bounds: Bounds, sample: Rows) -> tuple[list[Spec], int]:
    layout, place = [], 0
    for column in table.columns:
        low, high = bounds[column.name]
        if column is table.columns[0]:
            layout.append(Spec(column.name, 0, high, [Plane(np.dtype(column.dtype).itemsize, place)]))
        else:
            # Zero needs no subtraction, and files that count from zero agree.
            low = 0 if low > 0 and _widths(0, high) == _widths(low, high) else low
            spec = Spec(column.name, low, high, [Plane(width, 0) for width in _widths(low, high)])
            samples = spec.encode(sample[column.name])
            planes = [Plane(s.itemsize, 0, 0 if _is_sparse(s, count) else -1) for s in samples]
            layout.append(spec._replace(planes=planes))
        planes = layout[-1].planes
        for number, plane in enumerate(planes):
            if plane.filled < 0:
                planes[number] = plane._replace(place=place)
                place = _aligned(place + count * plane.width)
    return layout, place


def _widths(low: int, high: int) -> list[int]:
    width = ((high - low).bit_length() + 7) // 8
    return [4, 4] if width == 8 else [plane for plane in (4, 2, 1) if width & plane]


def _is_sparse(sample: Unsigned, count: int) -> bool:
    """Returns whether a plane takes at most half as many bytes if only what is not zero is stored."""
    return count < 2**32 and 2 * (4 + sample.itemsize) * int(np.count_nonzero(sample)) <= sample.nbytes


def _aligned(place: int) -> int:
    return -(-place // ALIGN) * ALIGN


@dataclass
class _Spool:
    """`_Spool` keeps what a sparse plane has until that is all, in files without names if it is much."""

    rows: SpooledTemporaryFile[bytes]
    values: SpooledTemporaryFile[bytes]
    filled: int = 0

    def add(self, plane: Unsigned, before: int) -> None:
        where = np.flatnonzero(plane != 0)  # far faster than the same of numbers
        self.rows.write((where + before).astype(np.uint32).data)
        self.values.write(plane[where].data)
        self.filled += len(where)

    def end(self, file: BinaryIO, start: int) -> int:
        """Moves all into the file, and returns where it ends there."""
        for part in (self.rows, self.values):
            part.seek(0)
            file.seek(start)
            shutil.copyfileobj(part, file, SPOOL_BYTES)
            start += _aligned(file.tell() - start)
        return start


def _writing(
    path: Path, table: columns.Table, pieces: Iterable[Piece], count: int, bounds: Bounds, total: int, sample: Rows
) -> Iterator[int]:
    layout, size = _layout(table, count, bounds, sample)
    header = {"table": table.name, "rows": count, "total": total, "bytes": size, "columns": layout}
    sparse = [(spec, number) for spec in layout for number, plane in enumerate(spec.planes) if plane.filled >= 0]
    # Where sparse planes are, and how many values they have, is known at the end: the header leaves room for that.
    room = len(json.dumps(header)) + 32 * (len(sparse) + 1)
    start, written = _aligned(len(MAGIC) + 4 + room), 0
    with disk_full_guard(path), path.open("wb") as file, ExitStack() as stack:

        def spooled() -> SpooledTemporaryFile[bytes]:
            return stack.enter_context(SpooledTemporaryFile(SPOOL_BYTES, dir=str(path.parent)))

        spools = {(spec.name, number): _Spool(spooled(), spooled()) for spec, number in sparse}
        file.truncate(start + size)
        for rows, encoded in pieces:
            for spec in layout if written + rows <= count else []:
                for number, (plane, values) in enumerate(zip(spec.planes, encoded(spec), strict=True)):
                    if plane.filled < 0:
                        _write_all(file.fileno(), values, start + plane.place + written * plane.width)
                    else:
                        spools[spec.name, number].add(values, written)
            written += rows
            yield written
        if written != count:
            raise ArchiveError(f"{path.name}: {written} rows where {count} were announced; the index is damaged")
        for spec, number in sparse:
            spool = spools[spec.name, number]
            spec.planes[number] = Plane(spec.planes[number].width, size, spool.filled)
            size = spool.end(file, start + size) - start
        file.truncate(start + size)
        file.seek(0)
        head = json.dumps(header | {"bytes": size}, separators=(",", ":")).encode().ljust(start - len(MAGIC) - 4)
        file.write(MAGIC + len(head).to_bytes(4, "little") + head)


def _write_all(fd: int, plane: Unsigned, offset: int) -> None:
    view = np.ascontiguousarray(plane).view(np.uint8).data
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


@dataclass(frozen=True)
class Sparse:
    """A sparse plane of a file is read like one that has all values."""

    rows: Unsigned
    values: Unsigned

    def take(self, positions: Indices) -> Unsigned:
        found, places = search(self.rows, positions.astype(np.uint32))
        taken = np.zeros(len(positions), self.values.dtype)
        taken[found] = self.values[places[found]]
        return taken

    def __getitem__(self, part: slice) -> Unsigned:
        first, last = np.searchsorted(self.rows, np.array([part.start, part.stop], np.uint32))
        values = np.zeros(part.stop - part.start, self.values.dtype)
        values[self.rows[first:last] - np.uint32(part.start)] = self.values[first:last]
        return values


class Run:
    """A run is memory-mapped; its rows are decoded when they are read. In a pack it is the delta of a kind."""

    def __init__(self, name: str, path: Path, table: columns.Table, kind: str = "") -> None:
        self.name = name
        self._map, _ = opened(path, kind)
        try:
            size = int.from_bytes(self._map[8:12], "little")
            if self._map[:8] not in (MAGIC, BEFORE) or len(self._map) < 12 + size:
                raise ArchiveError(f"{path} is not an index file of this version")
            self._read_header(json.loads(bytes(self._map[12 : 12 + size])), _aligned(12 + size), table)
        except (ValueError, KeyError, TypeError, IndexError):
            raise damaged(path) from None

    def _read_header(self, header: dict[str, Any], start: int, table: columns.Table) -> None:
        if header["table"] != table.name or len(self._map) != start + header["bytes"]:
            raise ValueError("of another table, or cut off")
        self.count: int = header["rows"]
        self.total: int = header["total"]
        self._dtype = table.numpy
        self._specs = {name: Spec(name, 0, 0, []) for name in columns.LATER if name in table.names}
        for name, low, high, planes in header["columns"]:
            self._specs[name] = Spec(name, low, high, [Plane(*values) for values in planes])
        self._planes = {
            name: [self._mapped(plane, start + plane.place) for plane in spec.planes]
            for name, spec in self._specs.items()
        }
        keys = self._planes[table.columns[0].name][0]
        assert isinstance(keys, np.ndarray)
        self.keys: AnyKeys = keys

    def _mapped(self, plane: Plane, place: int) -> Unsigned | Sparse:
        if plane.filled < 0:
            return np.frombuffer(self._map, f"u{plane.width}", self.count, place)
        rows = np.frombuffer(self._map, np.uint32, plane.filled, place)
        return Sparse(rows, np.frombuffer(self._map, f"u{plane.width}", plane.filled, _aligned(place + rows.nbytes)))

    def bounds(self) -> Bounds:
        return {name: (spec.low, spec.high) for name, spec in self._specs.items()}

    def take(self, positions: Indices) -> Rows:
        rows = np.empty(len(positions), self._dtype)
        for name, planes in self._planes.items():
            rows[name] = self._decoded(name, [plane.take(positions) for plane in planes])
        return rows

    def between(self, start: int, stop: int) -> Rows:
        rows = np.empty(stop - start, self._dtype)
        for name, planes in self._planes.items():
            rows[name] = self._decoded(name, [plane[start:stop] for plane in planes])
        return rows

    def encoded(self, spec: Spec, start: int, stop: int) -> list[Unsigned]:
        mine = self._specs[spec.name]
        planes = [plane[start:stop] for plane in self._planes[spec.name]]
        if (mine.low, mine.widths) == (spec.low, spec.widths):
            return planes
        values = self._decoded(spec.name, planes)
        return spec.encode(np.full(stop - start, values) if isinstance(values, int) else values)

    def _decoded(self, name: str, planes: list[Unsigned]) -> Unsigned | int:
        """Returns a column's values; one value, if it has no planes."""
        low = self._specs[name].low
        if not planes:
            return low
        values = planes[0]
        if len(planes) > 1 or low:
            values = values.astype(np.uint64)
            shift = 8 * planes[0].itemsize
            for plane in planes[1:]:
                values |= plane.astype(np.uint64) << np.uint64(shift)
                shift += 8 * plane.itemsize
            values += np.uint64(low % 2**64)
        # 64-bit values fit the column again modulo 2**64; narrower ones were never changed.
        return values.astype(self._dtype[name], copy=False)
