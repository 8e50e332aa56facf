"""`Run` is an immutable sorted column file: written once as a stream, memory-mapped, looked up by position.

A file is a small JSON header and the columns, each contiguous and 64-byte aligned. A column is stored as
`value - low` in as few bytes as its range needs, split into planes of 4, 2 and 1 bytes: a page's row of 36 bytes takes
about 28, which is page cache and merge time saved. Keys are stored as they are, because they are searched in place. A
merge copies planes without decoding them where old and new file agree on `low` and widths.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import columns
from gossamer.arrays import AnyKeys, Indices, Rows, Unsigned
from gossamer.errors import ArchiveError, disk_full_guard
from gossamer.frontier.index_files import damaged
from gossamer.frontier.index_pack import opened
from gossamer.frontier.sorted_runs import Bounds, Source, Spec, steps

MAGIC = b"GOSSRUN1"
ALIGN = 64

Piece = tuple[int, Callable[[Spec], list[Unsigned]]]  # a number of rows, and their planes of any column


def write_run(path: Path, table: columns.Table, chunks: Iterable[Rows], count: int, bounds: Bounds, total: int) -> None:
    """Writes exactly `count` sorted rows within `bounds`; `total` is how many keys the table then has."""

    def piece(rows: Rows) -> Piece:
        return len(rows), lambda spec: spec.encode(rows[spec.name])

    _write(path, table, map(piece, chunks), count, bounds, total)


def write_merged(path: Path, table: columns.Table, sources: Sequence[Source], count: int, total: int) -> None:
    """Writes what sources, from oldest to newest, are together: `count` distinct keys."""
    each = [source.bounds() for source in sources]
    bounds = {name: (min(b[name][0] for b in each), max(b[name][1] for b in each)) for name in table.names}
    _write(path, table, ((step.size, step.encoded) for step in steps(sources)), count, bounds, total)


def _layout(table: columns.Table, count: int, bounds: Bounds) -> tuple[list[Spec], int]:
    layout, place = [], 0
    for column in table.columns:
        low, high = bounds[column.name]
        if column is table.columns[0]:
            low, widths = 0, [np.dtype(column.dtype).itemsize]
        else:
            # Zero needs no subtraction, and files that count from zero agree.
            low = 0 if low > 0 and _widths(0, high) == _widths(low, high) else low
            widths = _widths(low, high)
        planes = []
        for width in widths:
            planes.append((width, place))
            place += -(-count * width // ALIGN) * ALIGN
        layout.append(Spec(column.name, low, high, planes))
    return layout, place


def _widths(low: int, high: int) -> list[int]:
    width = ((high - low).bit_length() + 7) // 8
    return [8] if width == 8 else [plane for plane in (4, 2, 1) if width & plane]


def _write(path: Path, table: columns.Table, pieces: Iterable[Piece], count: int, bounds: Bounds, total: int) -> None:
    layout, size = _layout(table, count, bounds)
    header = {"table": table.name, "rows": count, "total": total, "bytes": size, "columns": layout}
    head = json.dumps(header, separators=(",", ":")).encode()
    start = -(-(len(MAGIC) + 4 + len(head)) // ALIGN) * ALIGN
    written = 0
    with disk_full_guard(path), path.open("wb") as file:
        file.write(MAGIC + len(head).to_bytes(4, "little") + head)
        file.truncate(start + size)
        file.flush()
        for rows, encoded in pieces:
            for spec in layout if written + rows <= count else []:
                for (width, place), plane in zip(spec.planes, encoded(spec), strict=True):
                    _write_all(file.fileno(), plane, start + place + written * width)
            written += rows
    if written != count:
        raise ArchiveError(f"{path.name}: {written} rows where {count} were announced; the index is damaged")


def _write_all(fd: int, plane: Unsigned, offset: int) -> None:
    view = np.ascontiguousarray(plane).view(np.uint8).data
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


class Run:
    """A run is memory-mapped; its rows are decoded when they are read. In a pack it is the delta of a kind."""

    def __init__(self, name: str, path: Path, table: columns.Table, kind: str = "") -> None:
        self.name = name
        self._map, _ = opened(path, kind)
        try:
            size = int.from_bytes(self._map[8:12], "little")
            if self._map[:8] != MAGIC or len(self._map) < 12 + size:
                raise ArchiveError(f"{path} is not an index file of this version")
            self._read_header(json.loads(bytes(self._map[12 : 12 + size])), -(-(12 + size) // ALIGN) * ALIGN, table)
        except (ValueError, KeyError, TypeError, IndexError):
            raise damaged(path) from None

    def _read_header(self, header: dict[str, Any], start: int, table: columns.Table) -> None:
        if header["table"] != table.name or len(self._map) != start + header["bytes"]:
            raise ValueError("of another table, or cut off")
        self.count: int = header["rows"]
        self.total: int = header["total"]
        self._dtype = table.numpy
        self._specs = {name: Spec(name, 0, 0, []) for name in columns.LATER if name in table.names}
        self._specs |= {spec.name: spec for spec in (Spec(*values) for values in header["columns"])}
        self._planes = {
            name: [self._mapped(width, start + place) for width, place in spec.planes]
            for name, spec in self._specs.items()
        }
        self.keys: AnyKeys = self._planes[table.columns[0].name][0]

    def _mapped(self, width: int, place: int) -> Unsigned:
        return np.frombuffer(self._map, f"u{width}", self.count, place)

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
