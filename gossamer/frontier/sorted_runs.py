"""This module searches and merges sorted runs, as in an LSM tree: rows by unique keys, the newest row of a key wins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gossamer.arrays import AnyKeys, Bools, Indices, Rows, Unsigned

Bounds = dict[str, tuple[int, int]]  # lowest and highest value of each column

CHUNK_ROWS = 1 << 18
STRETCH = 1024


class Plane(NamedTuple):
    """A plane has so many bytes of each value of a column, at a place in the file. A sparse plane has only those values
    that are not zero: the numbers of their rows (4 bytes each), then the values."""

    width: int
    place: int
    filled: int = -1  # how many values a sparse plane has; -1: the plane has all


class Spec(NamedTuple):
    """A file stores a column as `value - low`, in planes."""

    name: str
    low: int
    high: int
    planes: list[Plane]

    @property
    def widths(self) -> list[int]:
        return [plane.width for plane in self.planes]

    def encode(self, values: npt.NDArray[Any]) -> list[Unsigned]:
        if not self.planes:
            return []
        if len(self.planes) > 1 or self.low:
            values = values.astype(np.uint64)  # modulo 2**64, as is the subtraction
            values -= np.uint64(self.low % 2**64)
        parts, shift = [], 0
        for width in self.widths:
            parts.append((values >> np.uint64(shift) if shift else values).astype(f"u{width}"))
            shift += 8 * width
        return parts


class Source(Protocol):
    """A source has sorted rows, in memory or in a file."""

    @property
    def keys(self) -> AnyKeys: ...

    def take(self, positions: Indices) -> Rows: ...

    def between(self, start: int, stop: int) -> Rows: ...

    def encoded(self, spec: Spec, start: int, stop: int) -> list[Unsigned]: ...

    def bounds(self) -> Bounds: ...


@dataclass(frozen=True)
class Sorted:
    """A run in memory keeps its keys apart too: searching a strided column would copy it each time."""

    keys: AnyKeys
    rows: Rows

    @classmethod
    def of(cls, rows: Rows) -> "Sorted":
        return cls(np.ascontiguousarray(rows[key_name(rows.dtype)]), rows)

    def take(self, positions: Indices) -> Rows:
        return self.rows.take(positions)

    def between(self, start: int, stop: int) -> Rows:
        return self.rows[start:stop]

    def encoded(self, spec: Spec, start: int, stop: int) -> list[Unsigned]:
        return spec.encode(self.rows[spec.name][start:stop])

    def bounds(self) -> Bounds:
        names = self.rows.dtype.names or ()
        if not len(self.rows):
            return dict.fromkeys(names, (0, 0))
        return {name: (int(self.rows[name].min()), int(self.rows[name].max())) for name in names}


def key_name(dtype: np.dtype[Any]) -> str:
    return (dtype.names or ("",))[0]


def raw(rows: Rows) -> Rows:
    """Returns the same rows without their fields: NumPy then copies them ten times faster."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


def search(keys: AnyKeys, wanted: AnyKeys) -> tuple[Bools, Indices]:
    """Returns which of the wanted keys are there, and where each is or would be."""
    positions = np.searchsorted(keys, wanted)
    if not len(keys):
        return np.zeros(len(wanted), np.bool_), positions
    return keys.take(positions, mode="clip") == wanted, positions


def search_many(keys: AnyKeys, wanted: AnyKeys) -> tuple[Bools, Indices]:
    """Does the same for wanted keys that are sorted.

    NumPy's search starts anew from all that is above the last hit, which misses the cache at every step; in
    short stretches, each in its own part of the keys, it takes half the time.
    """
    if len(wanted) < 4 * STRETCH:
        return search(keys, wanted)
    cuts = [*np.searchsorted(keys, wanted[::STRETCH]).tolist(), len(keys)]
    positions = np.empty(len(wanted), np.intp)
    for number, (low, high) in enumerate(pairwise(cuts)):
        here = slice(number * STRETCH, (number + 1) * STRETCH)
        positions[here] = np.searchsorted(keys[low:high], wanted[here]) + low
    found = keys.take(positions, mode="clip") == wanted if len(keys) else np.zeros(len(wanted), np.bool_)
    return found, positions


def spans(starts: Indices, sizes: Indices) -> Indices:
    """Returns all positions of the spans [start, start + size), one after the other."""
    ends = np.cumsum(sizes)
    shift: Indices = np.repeat(starts - (ends - sizes), sizes)
    return np.arange(len(shift)) + shift


def union(some: AnyKeys, others: AnyKeys) -> AnyKeys:
    """Returns all keys of both, sorted, each once. (np.union1d hashes first, which takes five times as long.)"""
    both = np.sort(np.concatenate((some, others)))
    once: AnyKeys = both[np.diff(both, prepend=both[:1] + 1) != 0]
    return once


def merge_two(old: Sorted, new: Sorted) -> Sorted:
    """Merges both; where both have a key, the new row stands."""
    if not len(old.keys) or not len(new.keys):
        return new if len(new.keys) else old
    same, positions = search_many(old.keys, new.keys)
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


class Step(NamedTuple):
    """A step of a merge has slices of sources, oldest first, and which of their rows stand, by key."""

    slices: list[tuple[Source, int, int]]
    pick: Indices | None  # positions in the slices laid end to end; None: all, there is one slice only
    size: int

    def rows(self) -> Rows:
        pieces = [source.between(start, stop) for source, start, stop in self.slices]
        if self.pick is None:
            return pieces[0]
        return np.concatenate([raw(piece) for piece in pieces]).take(self.pick).view(pieces[0].dtype)

    def encoded(self, spec: Spec) -> list[Unsigned]:
        pieces = [source.encoded(spec, start, stop) for source, start, stop in self.slices]
        if self.pick is None:
            return pieces[0]
        return [np.concatenate(planes).take(self.pick) for planes in zip(*pieces, strict=True)]


def steps(sources: Sequence[Source], chunk_rows: int = CHUNK_ROWS) -> Iterator[Step]:
    """Goes through sources from oldest to newest side by side, at most `chunk_rows` of each at a time."""
    places = [0] * len(sources)
    while True:
        ends = [min(place + chunk_rows, len(s.keys)) for place, s in zip(places, sources, strict=True)]
        # Nobody may run past the nearest last key of a source that has more to come.
        limits = [s.keys[end - 1] for end, s in zip(ends, sources, strict=True) if end < len(s.keys)]
        if limits:
            limit = min(limits)
            ends = [
                place + int(np.searchsorted(s.keys[place:end], limit, side="right"))
                for place, end, s in zip(places, ends, sources, strict=True)
            ]
        slices = [(s, a, b) for s, a, b in zip(sources, places, ends, strict=True) if b > a]
        if not slices:
            return
        places = ends
        if len(slices) == 1:
            yield Step(slices, None, slices[0][2] - slices[0][1])
            continue
        keys = np.concatenate([source.keys[start:stop] for source, start, stop in slices])
        order = np.argsort(keys, kind="stable")  # finds the sorted stretches: this is a merge
        keys = keys[order]
        pick = order[np.diff(keys, append=keys[-1:] + 1) != 0]
        yield Step(slices, pick, len(pick))


def merged(sources: Sequence[Source], chunk_rows: int = CHUNK_ROWS) -> Iterator[Rows]:
    """Merges all sources into one stream of rows."""
    return (step.rows() for step in steps(sources, chunk_rows))


def count_union(sources: Sequence[Source]) -> int:
    """Returns how many distinct keys there are: a file makes room for them before it is written as a stream."""
    return sum(step.size for step in steps(sources))
