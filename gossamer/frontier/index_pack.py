"""`Pack` is one file with all that a commit changes in the index: a delta of each of its parts.

A commit then writes, syncs and uploads one file instead of six. The manifest names the pack once for each kind that
still needs its delta; it is deleted when no kind does. So that no pack stays for the sake of one small delta, every
part *folds* before its oldest delta is `MAX_DELTAS` rounds old: it writes a file of its own that makes its deltas
unnecessary. Parts take turns, as a rule one in a commit.

The deltas come first, each aligned to 64 bytes, then a directory in JSON, its length and a magic number.
"""

import json
import mmap
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from gossamer.archive.labels import label_of
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.errors import disk_full_guard
from gossamer.frontier.index_files import damaged, mapped

SUFFIX = ".pack"
MAGIC = b"GOSSPCK1"
ALIGN = 64
PRESSING = 2.0  # a part that is so urgent does not wait for its turn


class Entry(NamedTuple):
    """`Entry` says where in a pack the delta of a kind is."""

    kind: str
    place: int
    size: int
    start: int  # of texts: their place in the stream


class Part(Protocol):
    """`Part` is a table of the index, its texts or its hosts: whatever is flushed together."""

    def urgency(self, number: int) -> float:
        """Returns how much a fold is due in this round: from 1 on it is."""

    def fold(self, store: Store, label: str) -> Changes:
        """Writes a file of its own, which has what changed and makes all deltas unnecessary."""

    def write_delta(self, pack: "Pack") -> None:
        """Adds what changed since the last flush to the pack, if anything did."""

    def go_on(self, store: Store, label: str, /) -> Changes:
        """Goes on with a file that is written over several flushes, after any fold or delta of this one."""


class Pack:
    """`Pack` is being written. It becomes a file of the archive by `close`, unless it is empty."""

    def __init__(self, store: Store, label: str) -> None:
        self.name = f"index/round-{label}{SUFFIX}"
        self._store, self._label = store, label
        self._path = store.scratch(self.name)
        self._file: BinaryIO | None = None
        self._entries: list[Entry] = []

    def scratch(self, kind: str) -> Path:
        """Returns where the delta of a kind can be built."""
        return self._store.scratch(f"index/{kind}-{self._label}")

    def add(self, kind: str, delta: Path | bytes | bytearray, start: int = 0) -> str:
        """Adds a delta, and returns the pack's name. A Path is a file made at `scratch(...)`."""
        with disk_full_guard(self._path):
            if self._file is None:
                self._file = self._path.open("w+b")
            place = self._file.seek(-(-self._file.tell() // ALIGN) * ALIGN)
            if isinstance(delta, Path):
                with delta.open("rb") as source:
                    shutil.copyfileobj(source, self._file, 1 << 20)
                delta.unlink()
            else:
                self._file.write(delta)
            self._entries.append(Entry(kind, place, self._file.tell() - place, start))
        return self.name

    def view(self, kind: str) -> memoryview:
        """Maps a delta that was added. The map stays valid when the file is moved to its place."""
        assert self._file is not None
        with disk_full_guard(self._path):
            self._file.flush()
        return _slice(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), self._entries, kind)

    def close(self) -> Changes:
        """Stores the pack, and returns what a manifest says of it."""
        changes = Changes()
        if self._file is None:
            return changes
        directory = json.dumps(self._entries, separators=(",", ":")).encode()
        with disk_full_guard(self._path), self._file as file:
            file.write(directory + len(directory).to_bytes(4, "little") + MAGIC)
        self._store.put(self.name, self._path)
        for entry in self._entries:
            changes.added.setdefault(entry.kind, []).append(self.name)
        return changes


def flush(parts: Sequence[Part], store: Store, label: str) -> Changes:
    """Writes what changed in the parts since the last flush, once per round: the round's number names the files."""
    changes, pack = Changes(), Pack(store, label)
    urgency = {part: part.urgency(int(label.rpartition("-")[2])) for part in parts}
    first = max(parts, key=lambda part: urgency[part])
    for part in parts:
        if urgency[part] >= (1.0 if part is first else PRESSING):
            changes |= part.fold(store, label)
        else:
            part.write_delta(pack)
        changes |= part.go_on(store, label)
    return changes | pack.close()


def opened(path: Path, kind: str) -> tuple[memoryview, int]:
    """Maps a file of the index, or the delta of a kind in a pack; also returns where its texts begin, if it has any."""
    whole = mapped(path)
    if path.suffix != SUFFIX:
        return memoryview(whole), 0
    try:
        end = len(whole) - len(MAGIC) - 4
        size = int.from_bytes(whole[end : end + 4], "little")
        if whole[end + 4 :] != MAGIC:
            raise ValueError("cut off")
        entries = [Entry(*each) for each in json.loads(whole[end - size : end])]
        return _slice(whole, entries, kind), next(entry.start for entry in entries if entry.kind == kind)
    except (ValueError, TypeError, IndexError, StopIteration):
        raise damaged(path) from None


def age(deltas: Sequence[str], number: int) -> int:
    """Returns how many rounds ago the first of these deltas was written."""
    labels = [label for name in deltas[:1] if (label := label_of(name))]
    return number - labels[0].number if labels else 0


def _slice(whole: mmap.mmap, entries: Sequence[Entry], kind: str) -> memoryview:
    entry = next(entry for entry in entries if entry.kind == kind)
    return memoryview(whole)[entry.place : entry.place + entry.size]
