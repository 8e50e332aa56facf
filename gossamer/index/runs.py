"""Immutable sorted column files: written once, memory-mapped, looked up by position, merged as streams.

A file is a small JSON header and the columns, each contiguous and 64-byte aligned. A column is stored as
`value - low` in as few bytes as its range needs, split into planes of 4, 2 and 1 bytes: a page's row of 36
bytes takes about 28, which is page cache and merge time saved. Keys are stored as they are, because they
are searched in place.
"""

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gossamer import columns
from gossamer.archive.store import room
from gossamer.errors import ArchiveError

Keys = npt.NDArray[np.unsignedinteger[Any]]
Rows = npt.NDArray[np.void]
Positions = npt.NDArray[np.intp]
Bounds = dict[str, tuple[int, int]]  # lowest and highest value of each column

MAGIC = b"GOSSRUN1"
ALIGN = 64
CHUNK_ROWS = 1 << 18


class Source(Protocol):
    """Rows sorted by their unique keys, in memory or in a file."""

    @property
    def keys(self) -> Keys: ...

    def take(self, positions: Positions) -> Rows: ...

    def between(self, start: int, stop: int) -> Rows: ...

    def bounds(self) -> Bounds: ...


@dataclass(frozen=True)
class Sorted:
    """A run in memory. Its keys are also kept apart: searching a strided column would copy it each time."""

    keys: Keys
    rows: Rows

    @classmethod
    def of(cls, rows: Rows) -> "Sorted":
        return cls(np.ascontiguousarray(rows[key_name(rows.dtype)]), rows)

    def take(self, positions: Positions) -> Rows:
        return self.rows.take(positions)

    def between(self, start: int, stop: int) -> Rows:
        return self.rows[start:stop]

    def bounds(self) -> Bounds:
        names = self.rows.dtype.names or ()
        if not len(self.rows):
            return dict.fromkeys(names, (0, 0))
        return {name: (int(self.rows[name].min()), int(self.rows[name].max())) for name in names}


def key_name(dtype: np.dtype[Any]) -> str:
    return (dtype.names or ("",))[0]


def raw(rows: Rows) -> Rows:
    """The same rows without their fields: NumPy then copies them ten times faster."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


def search(keys: Keys, wanted: Keys) -> tuple[npt.NDArray[np.bool_], Positions]:
    """Which of the wanted keys are there, and where each is or would be."""
    positions = np.searchsorted(keys, wanted)
    if not len(keys):
        return np.zeros(len(wanted), np.bool_), positions
    return keys.take(positions, mode="clip") == wanted, positions


def spans(starts: Positions, sizes: Positions) -> Positions:
    """All positions of the spans [start, start + size), one after the other."""
    ends = np.cumsum(sizes)
    shift: Positions = np.repeat(starts - (ends - sizes), sizes)
    return np.arange(len(shift)) + shift


def merge_two(old: Sorted, new: Sorted) -> Sorted:
    """Both together; where both have a key, the new row stands."""
    if not len(old.keys) or not len(new.keys):
        return new if len(new.keys) else old
    same, positions = search(old.keys, new.keys)
    old_keys, old_rows = old.keys, raw(old.rows)
    if same.any():
        keep = np.ones(len(old_keys), np.bool_)
        keep[positions[same]] = False
        old_keys, old_rows = old_keys[keep], old_rows[keep]
        # What stood before a key moves up by the dropped ones below it.
        positions = positions - (np.cumsum(same) - same)
    places = positions + np.arange(len(new.keys))
    keys = np.empty(len(old_keys) + len(new.keys), new.keys.dtype)
    rows = np.empty(len(keys), new.rows.dtype)
    is_old = np.ones(len(keys), np.bool_)
    is_old[places] = False
    keys[places], keys[is_old] = new.keys, old_keys
    raw(rows)[places], raw(rows)[is_old] = raw(new.rows), old_rows
    return Sorted(keys, rows)


def merged(sources: Sequence[Source], chunk_rows: int = CHUNK_ROWS) -> Iterator[Rows]:
    """Sources from oldest to newest as one stream; the newest row of a key wins; bounded memory."""
    places = [0] * len(sources)
    while True:
        ends = [min(place + chunk_rows, len(s.keys)) for place, s in zip(places, sources, strict=True)]
        # Nobody may run past the nearest last key of a source that has more to come.
        limits = [int(s.keys[end - 1]) for end, s in zip(ends, sources, strict=True) if end < len(s.keys)]
        if limits:
            limit = sources[0].keys.dtype.type(min(limits))
            ends = [
                place + int(np.searchsorted(s.keys[place:end], limit, side="right"))
                for place, end, s in zip(places, ends, sources, strict=True)
            ]
        chunk: Sorted | None = None
        for place, end, source in zip(places, ends, sources, strict=True):
            if end > place:
                piece = Sorted(source.keys[place:end], source.between(place, end))
                chunk = merge_two(chunk, piece) if chunk else piece
        if chunk is None:
            return
        places = ends
        yield chunk.rows


def count_union(sources: Sequence[Source], chunk_rows: int = 1 << 20) -> int:
    """How many distinct keys: what a file must make room for before it can be written as a stream."""

    class KeysOnly(Sorted):
        def between(self, start: int, stop: int) -> Rows:
            return self.keys[start:stop].view([("key", self.keys.dtype)])

    thin = [KeysOnly(s.keys, s.keys.view([("key", s.keys.dtype)])) for s in sources]
    return sum(len(rows) for rows in merged(thin, chunk_rows))


def _planes(low: int, high: int) -> list[int]:
    width = ((high - low).bit_length() + 7) // 8
    return [8] if width == 8 else [plane for plane in (4, 2, 1) if width & plane]


def write_run(
    path: Path, table: columns.Table, chunks: Iterable[Rows], count: int, bounds: Bounds, total: int
) -> None:
    """Write exactly `count` sorted rows within `bounds`; `total` is how many keys the table then has."""
    layout, place = [], 0
    for column in table.columns:
        low, high = bounds[column.name]
        is_key = column is table.columns[0]
        low = 0 if is_key or (low > 0 and _planes(0, high) == _planes(low, high)) else low
        planes = []
        for width in [np.dtype(column.dtype).itemsize] if is_key else _planes(low, high):
            planes.append([width, place])
            place += -(-count * width // ALIGN) * ALIGN
        layout.append({"name": column.name, "low": low, "high": high, "planes": planes})
    header = {"table": table.name, "rows": count, "total": total, "bytes": place, "columns": layout}
    head = json.dumps(header, separators=(",", ":")).encode()
    start = -(-(len(MAGIC) + 4 + len(head)) // ALIGN) * ALIGN
    with room(path), path.open("wb") as file:
        file.write(MAGIC + len(head).to_bytes(4, "little") + head)
        file.truncate(start + place)
        file.flush()
        written = 0
        for rows in chunks:
            for spec in layout:
                _write_column(file.fileno(), start, written, rows, spec)
            written += len(rows)
    if written != count:
        raise ArchiveError(f"{path.name}: {written} rows where {count} were announced; the index is damaged")


def _write_column(fd: int, start: int, written: int, rows: Rows, spec: Any) -> None:
    values = rows[spec["name"]].astype(np.uint64)  # modulo 2**64, as is the subtraction
    if spec["low"]:
        values -= np.uint64(spec["low"] % 2**64)
    shift = 0
    for width, place in spec["planes"]:
        part = (values >> np.uint64(shift)).astype(f"u{width}") if shift else values.astype(f"u{width}")
        _write_all(fd, part.tobytes(), start + place + written * width)
        shift += 8 * width


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done


class Run:
    """One such file, memory-mapped."""

    def __init__(self, name: str, path: Path, table: columns.Table) -> None:
        self.name = name
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(self._map[8:12], "little")
        if self._map[:8] != MAGIC or len(self._map) < 12 + size:
            raise ArchiveError(f"{path} is not an index file of this version")
        header = json.loads(self._map[12 : 12 + size])
        start = -(-(12 + size) // ALIGN) * ALIGN
        if header["table"] != table.name or len(self._map) != start + header["bytes"]:
            raise ArchiveError(f"{path} is damaged: restore it, or the crawl directory, from a copy")
        self.count: int = header["rows"]
        self.total: int = header["total"]
        self._dtype = table.numpy
        self._columns = [
            (spec["name"], spec["low"], spec["high"], [self._plane(start, *at) for at in spec["planes"]])
            for spec in header["columns"]
        ]
        self.keys: Keys = self._columns[0][3][0]

    def _plane(self, start: int, width: int, place: int) -> Keys:
        return np.frombuffer(self._map, f"u{width}", self.count, start + place)

    @property
    def file_bytes(self) -> int:
        return len(self._map)

    def bounds(self) -> Bounds:
        return {name: (low, high) for name, low, high, _ in self._columns}

    def take(self, positions: Positions) -> Rows:
        return self._decode(len(positions), lambda plane: plane.take(positions))

    def between(self, start: int, stop: int) -> Rows:
        return self._decode(stop - start, lambda plane: plane[start:stop])

    def _decode(self, count: int, pick: Any) -> Rows:
        rows = np.empty(count, self._dtype)
        for name, low, _, planes in self._columns:
            if not planes:
                rows[name] = low
                continue
            values = pick(planes[0])
            if len(planes) > 1 or low:
                values = values.astype(np.uint64)
                shift = 8 * planes[0].itemsize
                for plane in planes[1:]:
                    values |= pick(plane).astype(np.uint64) << np.uint64(shift)
                    shift += 8 * plane.itemsize
                values += np.uint64(low % 2**64)
            # 64-bit values fit the column again modulo 2**64; narrower ones were never changed.
            rows[name] = values.astype(self._dtype[name], copy=False)
        return rows
