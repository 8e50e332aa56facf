"""A crawl that dies at its k-th operation on files: the process that test_commit_kill.py forks again and again.

Every write, truncation, sync, link, rename, removal and new directory below the crawl's directory counts, those of
Parquet files included. At the k-th one the process kills itself: a write is half done then, anything else not at all.
After the first commit of a round with pages nothing counts any more.

A power cut is harsher than a kill. Then what was not synced is lost too: the bytes of files, and the names that links
and renames gave them, while removals stay (the order that a journal keeps is not to be relied on).
"""

import builtins
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support import crawl_here

from gossamer.archive import chain
from gossamer.frontier import frontier, table, text_heap

_open, _fsync, _pwrite, _unlink, _replace = io.open, os.fsync, os.pwrite, os.unlink, os.replace
_PIECE_BYTES = 8 << 10


@dataclass(frozen=True)
class Death:
    """When and how; also the function that a forked process runs."""

    at: int  # number of the operation, from 1; 0: never
    directory: Path
    report: Path  # gets a line per operation
    power_cut: bool = False
    eager: bool = False  # every commit folds the index, keeps the frontier, writes a full manifest, removes old files

    def __call__(self, arguments: list[str], output: Path) -> None:
        if self.eager:
            chain.FULL_EVERY = 1
            frontier.KEEP_SHARE = 0
            table.MAX_DELTAS = text_heap.MAX_DELTAS = 1
        install(Operations(self))
        crawl_here(arguments, output)


class Operations:
    def __init__(self, death: Death) -> None:
        self._death = death
        self._top = f"{death.directory}{os.sep}"
        self._count = 0
        self._over = False
        self._report = _open(death.report, "a", buffering=1)
        self._synced: dict[int, int] = {}  # inode of a file with bytes not synced: how many are
        self._named: list[tuple[str, str, bytes | None]] = []  # (directory, path, what it was) of names not synced

    def concern(self, path: Any) -> bool:
        return not self._over and os.fspath(path).startswith(self._top)

    def done(self, kind: str, path: Any, half: Callable[[], object] | None = None) -> None:
        """Before an operation: count it, and die if it is the one."""
        self._count += 1
        self._report.write(f"{kind} {os.fspath(path).removeprefix(self._top)}\n")
        if self._count == self._death.at:
            if half:
                half()
            if self._death.power_cut:
                self._cut()
            os.kill(os.getpid(), signal.SIGKILL)

    def log(self, line: bytes) -> None:
        event = json.loads(line)
        if event["event"] == "commit" and event["visits"]:
            self._over = True
            self._report.write("committed\n")

    # What a power cut takes away

    def dirty(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._synced.setdefault(status.st_ino, status.st_size)

    def clean(self, descriptor: int) -> None:
        self._synced.pop(os.fstat(descriptor).st_ino, None)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._named = [each for each in self._named if each[0] != path]

    def named(self, path: Any, before: bytes | None = None) -> None:
        self._named.append((os.path.dirname(os.fspath(path)), os.fspath(path), before))

    def _cut(self) -> None:
        for _, path, before in reversed(self._named):
            if before is not None:  # a rename that replaced a file
                with _open(path + ".before", "wb") as file:
                    file.write(before)
                _replace(path + ".before", path)
            elif os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                _unlink(path)
        for folder, _, names in os.walk(self._death.directory):
            for name in names:
                path = os.path.join(folder, name)
                size = self._synced.get(os.stat(path).st_ino)
                if size is not None:
                    os.truncate(path, size)


class Watched:
    """A file open for writing whose writes count, and reach the system at once."""

    def __init__(self, file: Any, path: str, operations: Operations) -> None:
        self._file, self._path, self._operations = file, path, operations

    def write(self, data: Any) -> int:
        if self._path.endswith("crawl.jsonl"):
            self._operations.log(bytes(data))
        elif self._operations.concern(self._path):
            self._operations.dirty(self._file.fileno())
            self._operations.done("write", self._path, lambda: self._push(data[: len(data) // 2]))
        return self._push(data)

    def _push(self, data: Any) -> int:
        written: int = self._file.write(data)
        self._file.flush()
        return written

    def writelines(self, lines: Iterable[Any]) -> None:
        parts = list(lines)
        self.write("".join(parts) if all(isinstance(part, str) for part in parts) else b"".join(parts))

    def truncate(self, size: int) -> int:
        if self._operations.concern(self._path):
            self._operations.dirty(self._file.fileno())
            self._operations.done("truncate", self._path)
        return int(self._file.truncate(size))

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def install(operations: Operations) -> None:
    """Replace what Python code calls to change files. Arrow writes its files itself: it gets one of ours."""

    def opened(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or not operations.concern(file):
            return _open(file, mode, *args, **more)
        is_new = not os.path.exists(file)
        found = Watched(_open(file, mode, *args, **more), os.fspath(file), operations)
        if is_new:
            operations.named(file)
        return found

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if operations.concern(f"{path}{os.sep}"):
            operations.done("sync", path)
        _fsync(descriptor)
        operations.clean(descriptor)

    def pwrite(descriptor: int, data: Any, offset: int) -> int:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if operations.concern(path):
            operations.dirty(descriptor)
            operations.done("write", path, lambda: _pwrite(descriptor, data[: len(data) // 2], offset))
        return _pwrite(descriptor, data, offset)

    def naming(kind: str, real: Callable[..., None]) -> Callable[..., None]:
        def act(source: Any, target: Any, **more: Any) -> None:
            if operations.concern(target):
                operations.done(kind, target)
            before = Path(target).read_bytes() if kind == "rename" and os.path.isfile(target) else None
            real(source, target, **more)
            operations.named(target, before)

        return act

    def changing(kind: str, real: Callable[..., None]) -> Callable[..., None]:
        def act(path: Any, *args: Any, **more: Any) -> None:
            # pathlib asks to remove what is not there, and to make what is: nothing happens then.
            if operations.concern(path) and os.path.lexists(path) == (kind == "remove"):
                operations.done(kind, path)
            real(path, *args, **more)
            if kind == "folder":
                operations.named(path)

        return act

    io.open = builtins.open = opened
    os.fsync, os.pwrite = fsync, pwrite  # type: ignore[assignment]
    os.link, os.replace = naming("link", os.link), naming("rename", os.replace)
    os.rename = naming("rename", os.rename)
    os.unlink = os.remove = changing("remove", _unlink)
    os.mkdir = changing("folder", os.mkdir)
    _install_arrow(opened)


class _Pieces(io.RawIOBase):
    """What Arrow writes, a few bytes at a time, goes to the file in pieces of a buffer's size."""

    def __init__(self, file: Watched) -> None:
        self._watched = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._watched.write(bytes(data))


def _install_arrow(opened: Callable[..., Any]) -> None:
    write_table, writer = pq.write_table, pq.ParquetWriter

    def write(rows: Any, where: Any, **more: Any) -> None:
        with opened(where, "wb") as file, io.BufferedWriter(_Pieces(file), _PIECE_BYTES) as sink:
            write_table(rows, sink, **more)

    class Writer(writer):  # type: ignore[misc, valid-type]
        def __init__(self, where: Any, schema: Any, **more: Any) -> None:
            self._file = opened(where, "wb")
            self._sink = io.BufferedWriter(_Pieces(self._file), _PIECE_BYTES)
            super().__init__(self._sink, schema, **more)

        def close(self) -> None:
            if self.is_open:
                super().close()
                self._sink.close()
                self._file.close()

    pq.write_table, pq.ParquetWriter = write, Writer
