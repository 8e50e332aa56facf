"""`Cache` keeps files of an archive elsewhere on this machine's disk, bounded in bytes; only this module removes them.

Names are immutable, so that a cached file is right for as long as its archive exists. Two things end that: another
archive at the same address, and a machine that went down before the file was on its disk. Both empty the cache.
"""

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gossamer.archive.mark import SCRATCH, shield, this_boot
from gossamer.errors import OutOfSpace, disk_full_guard

_FILES = "files"
_OF = "archive.json"  # whose files these are, and in which life of the machine they were written
_MAPS = Path("/proc/self/maps")
_GRACE_S = 10.0  # whoever was given a file has so long to open it
_SERIAL = itertools.count()  # of part files: one process may have several caches in a folder
_FILLED = 0.9  # of the limit, when the oldest files have been removed


class _Entry(NamedTuple):
    used_s: float
    size: int
    name: str


class Cache:
    """`Cache` has a folder of this machine. Several processes may share it: whoever has a file open, or mapped, keeps
    it, also if another process removes it."""

    def __init__(self, folder: Path, limit_bytes: int, grace_s: float = _GRACE_S) -> None:
        self.folder, self._limit, self._grace_s = folder, limit_bytes, grace_s
        self._files = folder / _FILES
        self._held: int | None = None  # bytes, as far as this process knows

    def belong(self, mark: bytes) -> None:
        """Empties the cache, unless its files are of the archive with this mark and of this life of the machine."""
        owner, path = mark + b"\n" + this_boot().encode(), self.folder / _OF
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == owner:
                return
        shutil.rmtree(self._files, ignore_errors=True)
        self._held = None
        with self._guard(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            part = self._part()
            part.write_bytes(owner)
            os.replace(part, path)

    def scratch(self, name: str) -> Path:
        path = self.folder / SCRATCH / name.replace("/", "+")
        with self._guard(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            shield(path, name)
        return path

    def scratched(self) -> list[str]:
        """Returns the names of all scratch files, in the archive's way."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(SCRATCH + path.name for path in (self.folder / SCRATCH).iterdir())
        return []

    def find(self, name: str) -> Path | None:
        """Returns the cached file, which counts as used now."""
        path = self._files / name
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        return path

    def enter(self, name: str, data: bytes | Path | Iterable[bytes], kept: Collection[str] = ()) -> Path:
        """Takes a file in, whole or not at all; a Path is moved. Names in `kept` are not removed for it."""
        path = self._files / name
        size = self._place(data, path)
        self._held = self.held() if self._held is None else self._held + size
        if self._held > self._limit:
            self._remove(int(self._limit * _FILLED), {*kept, name})
        return path

    def make_room(self, kept: Collection[str]) -> bool:
        """Removes all that can be removed, as the disk is full. Returns whether that was anything."""
        return self._remove(0, kept)

    def drop(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            path = self._files / name
            size = path.stat().st_size
            path.unlink()
            self._held = None if self._held is None else self._held - size

    def held(self) -> int:
        """Returns the bytes of all files."""
        return sum(entry.size for entry in self._entries())

    def _place(self, data: bytes | Path | Iterable[bytes], path: Path) -> int:
        with self._guard(path):
            path.parent.mkdir(parents=True, exist_ok=True)  # another process, or the user, may have emptied it
            if isinstance(data, Path):
                os.replace(data, path)
                os.utime(path)
            else:
                part = self._part()
                try:
                    shield(part, path.name)
                    with part.open("wb") as file:
                        file.writelines([data] if isinstance(data, bytes) else data)
                    os.replace(part, path)
                finally:
                    part.unlink(missing_ok=True)
            return path.stat().st_size

    def _remove(self, down_to: int, kept: Collection[str]) -> bool:
        """Removes the files that were used longest ago, and returns whether there were any. What is mapped stays, as
        that would free nothing."""
        entries = sorted(self._entries())
        held, before_s, removed = sum(entry.size for entry in entries), time.time() - self._grace_s, False
        stays = {*kept, *self._mapped()}
        for entry in entries:
            if held <= down_to or entry.used_s > before_s:
                break
            if entry.name not in stays:
                (self._files / entry.name).unlink(missing_ok=True)
                held, removed = held - entry.size, True
        self._held = held
        return removed

    def _entries(self) -> Iterator[_Entry]:
        for folder, _, names in os.walk(self._files):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):  # another process removes files, too
                    found = path.stat()
                    yield _Entry(found.st_mtime, found.st_size, str(path.relative_to(self._files)))

    def _mapped(self) -> set[str]:
        """Returns the files that this process has mapped into its memory."""
        with contextlib.suppress(OSError):
            start = f"{self._files}/"
            lines = _MAPS.read_text(errors="replace").splitlines()
            return {line[at + len(start) :] for line in lines if (at := line.find(start)) >= 0}
        return set()

    def _part(self) -> Path:
        return self.scratch(f"{os.getpid()}-{next(_SERIAL)}.part")

    @contextlib.contextmanager
    def _guard(self, path: Path) -> Iterator[None]:
        try:
            with disk_full_guard(path):
                yield
        except OutOfSpace as error:
            raise OutOfSpace(
                f"no space left for the cache in {self.folder}: free some, lower archive.cache_mb, or move the cache "
                "with the environment variable GOSSAMER_CACHE; everything committed so far is safe"
            ) from error
