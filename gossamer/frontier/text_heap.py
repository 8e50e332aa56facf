"""`TextHeap` holds URLs and validators as one append-only stream of bytes, in segments.

A text's locator is its offset in the stream and never changes, whatever files the stream is cut into; it grows in
order of discovery, so it is also what breadth-first ranks by. An entry is a length (2 bytes, little endian) and the
bytes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.arrays import U64
from gossamer.errors import ArchiveError, disk_full_guard
from gossamer.frontier.index_files import Named, put, remove
from gossamer.frontier.index_pack import SUFFIX, Pack, age, opened

MAX_TEXT = 0xFFFF
MAX_DELTAS = 32  # rounds, before their small segments are joined
SEGMENT_BYTES = 256 << 20  # longer segments are never joined again


class Segment(NamedTuple):
    """A segment is memory-mapped. Its start is in the name of its file, or in the directory of its pack."""

    name: str
    kind: str
    start: int
    bytes: memoryview

    @property
    def stop(self) -> int:
        return self.start + len(self.bytes)

    @classmethod
    def open(cls, store: Store, name: str, kind: str) -> "Segment":
        view, start = opened(store.local(name), kind)
        if not name.endswith(SUFFIX):
            start = int(name.rsplit("-", 1)[1].split(".")[0], 16)
        return cls(name, kind, start, view)


class TextHeap:
    """The stream is in segments (files) without gaps, and a tail in memory that the next flush writes."""

    KIND = "index.heap"
    DELTA = "index.heap.delta"

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._tail = bytearray()
        self._tail_start = 0
        self._retired: dict[str, Segment] = {}

    @classmethod
    def open(cls, store: Store, files: Named) -> "TextHeap":
        heap = cls()
        named = [(kind, name) for kind in (cls.KIND, cls.DELTA) for name in files.get(kind, [])]
        segments = sorted((Segment.open(store, n, k) for k, n in named), key=lambda s: s.start)
        for segment in segments:
            if segment.start != heap._tail_start:
                raise ArchiveError(f"text heap: {segment.name} should start at {heap._tail_start:x}; a file is missing")
            heap._tail_start = segment.stop
        heap._set(segments)
        return heap

    def __len__(self) -> int:
        """Returns the bytes in the stream, which is the locator of the next text."""
        return self._tail_start + len(self._tail)

    def append(self, texts: Sequence[bytes]) -> U64:
        """Adds texts and returns their locators, in the same order."""
        sizes = np.fromiter(map(len, texts), np.uint64, len(texts))
        if len(sizes) and sizes.max() > MAX_TEXT:
            raise ValueError(f"a text of {sizes.max()} bytes; the heap takes {MAX_TEXT}")
        ends = np.cumsum(sizes + np.uint64(2), dtype=np.uint64)
        offsets = ends - sizes - np.uint64(2) + np.uint64(len(self))
        heads = sizes.astype("<u2").tobytes()
        parts = [b""] * (2 * len(texts))
        parts[0::2] = [heads[i : i + 2] for i in range(0, len(heads), 2)]
        parts[1::2] = texts
        self._tail += b"".join(parts)
        return offsets

    def read(self, offsets: U64) -> list[bytes]:
        """Returns the texts at these locators, in this order. The files are read in theirs."""
        texts = [b""] * len(offsets)
        order = np.argsort(offsets, kind="stable")
        sorted_offsets = offsets[order]
        starts = [*self._starts, self._tail_start]
        cuts = [*np.searchsorted(sorted_offsets, np.array(starts, np.uint64)).tolist(), len(offsets)]
        for number, (start, first, last) in enumerate(zip(starts, cuts, cuts[1:], strict=False)):
            data = self._segments[number].bytes if number < len(self._segments) else self._tail
            local = (sorted_offsets[first:last] - np.uint64(start)).tolist()
            for place, at in zip(order[first:last].tolist(), local, strict=True):
                size = data[at] | data[at + 1] << 8
                texts[place] = bytes(data[at + 2 : at + 2 + size])
        return texts

    def urgency(self, number: int) -> float:
        return age([segment.name for segment in self._fresh()], number) / MAX_DELTAS

    def write_delta(self, pack: Pack) -> None:
        """Adds what was appended to the round's pack."""
        if self._tail:
            name = pack.add(self.DELTA, self._tail, self._tail_start)
            self._take([*self._segments, Segment(name, self.DELTA, self._tail_start, pack.view(self.DELTA))])

    def fold(self, store: Store, label: str) -> Changes:
        """Writes what was appended as one with the small segments before it."""
        changes = Changes()
        joined = self._fresh()
        size = len(self._tail) + sum(len(segment.bytes) for segment in joined)
        for segment in reversed(self._segments[: len(self._segments) - len(joined)]):
            if len(segment.bytes) > size or size + len(segment.bytes) > SEGMENT_BYTES:
                break
            joined = [segment, *joined]
            size += len(segment.bytes)
        start = joined[0].start if joined else self._tail_start

        def write(path: Path) -> None:
            with disk_full_guard(path), path.open("wb") as file:
                file.writelines([*(segment.bytes for segment in joined), self._tail])

        name, _ = put(store, changes, self.KIND, label, write, f"{start:x}")
        for segment in joined:
            remove(changes, segment.kind, [segment.name])
            self._retired[segment.name] = segment
        left = self._segments[: len(self._segments) - len(joined)]
        self._take([*left, Segment.open(store, name, self.KIND)])
        return changes

    def go_on(self, _store: Store, _label: str, /) -> Changes:
        return Changes()  # segments are short enough to be joined at once

    def release(self, names: list[str]) -> None:
        """Lets go of the maps of files that a commit has removed."""
        for name in names:
            self._retired.pop(name, None)

    @property
    def memory_bytes(self) -> int:
        return len(self._tail)

    def _fresh(self) -> list[Segment]:
        return [segment for segment in self._segments if segment.kind == self.DELTA]

    def _take(self, segments: list[Segment]) -> None:
        """Goes on with segments that hold the tail, too."""
        self._tail_start, self._tail = len(self), bytearray()
        self._set(segments)

    def _set(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._starts = [segment.start for segment in segments]
