"""`Store` is where the archive is: only this module makes files durable, by immutable names and create-if-absent."""

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gossamer.archive.checksums import Checksum, of_bytes, of_file
from gossamer.archive.mark import LAYOUT, MARK, SCRATCH, Mark, check_mark, shield
from gossamer.archive.state import encoded
from gossamer.errors import ArchiveBusy, ArchiveError, disk_full_guard
from gossamer.version import __version__

_LOCK_TRIES = 5  # `holder` takes the lock for an instant; do not mistake that for a crawl


class Files(Protocol):
    """Port: the part of a store that those need who only read."""

    def local(self, name: str) -> Path:
        """Returns a local file with the content, to be read or mapped soon."""


class Store(Files, Protocol):
    """Port: where the archive is. Names are relative, with slashes; a missing name is a FileNotFoundError."""

    def put(self, name: str, data: bytes | Path) -> None:
        """Stores a file. It is durable when the next `create` or `settle` has returned. A Path is a file made at
        `scratch(...)`; it is moved.

        The same name may be put again only while no manifest names it.
        """

    def settle(self) -> None:
        """Returns when all that was put is durable, and all that was deleted is gone."""

    def create(self, name: str, data: bytes) -> bool:
        """Makes a file durable, after all that was put before, unless the name exists: then it returns False. Of
        several who try, exactly one gets True."""

    def get(self, name: str) -> bytes: ...

    def fetch(self, names: Iterable[str]) -> None:
        """Brings files near that will be asked for; it says nothing of those that are missing."""

    def checksum(self, name: str) -> Checksum:
        """Returns the checksum of the content as it is now."""

    def size(self, name: str) -> int: ...

    def list(self, prefix: str) -> list[str]:
        """Returns all names that start with the text `prefix`, sorted."""

    def delete(self, *names: str) -> None:
        """Deletes files; a missing name is no error."""

    def scratch(self, name: str) -> Path:
        """Returns where to build the file that `put(name, path)` will take; not part of the archive yet."""

    def lock(self, agent: str) -> AbstractContextManager[None]:
        """Holds a lock while an agent runs; ArchiveBusy if another holds it. A courtesy: the chain decides."""


def checked(name: str) -> str:
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise ArchiveError(f"{name!r} is not a name inside an archive")
    return name


def where(store: Store) -> str:
    """Returns the directory of a store, or its address, for messages to people."""
    return str(getattr(store, "path", "DIR"))


class Directory:
    """`Directory` is a local directory. Files are synced before they are visible, and the directory after."""

    # Of all in this process, and unlike those of others: neither scratch files of two stores nor of two machines that
    # share a directory may have the same name.
    _serial = itertools.count(int.from_bytes(os.urandom(5)))

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._known: set[Path] = set()
        self._check()

    def _check(self) -> Mark:
        return check_mark(self.path)

    @classmethod
    def prepare(cls, path: Path | str, now_s: float) -> "Directory":
        """Opens an archive, or makes one of an absent or empty directory."""
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise ArchiveError(f"{path} is a file; choose another --dir")
        if not (path / MARK).exists():
            with disk_full_guard(path):
                path.mkdir(parents=True, exist_ok=True)
            # A crash while making one may leave the scratch directory; that is still empty.
            if any(entry.name != SCRATCH.rstrip("/") for entry in path.iterdir()):
                raise ArchiveError(
                    f"{path} is not empty and holds no crawl; choose another --dir (it is made if absent)"
                )
            Unchecked(path).put(MARK, encoded(new_mark(now_s)))  # another process may be faster: the same archive
            with disk_full_guard(path):
                sync(path.parent)
        return cls(path)

    def put(self, name: str, data: bytes | Path) -> None:
        target = self._target(name)
        with disk_full_guard(target):
            if isinstance(data, Path):
                sync(data)
                os.replace(data, target)
            else:
                self._placed(data, target, os.replace)
            sync(target.parent)

    def create(self, name: str, data: bytes) -> bool:
        target = self._target(name)
        if target.exists():  # cheap, and the link below decides anyway
            return False
        with disk_full_guard(target):
            try:
                self._placed(data, target, os.link)
            except FileExistsError:
                return False
            sync(target.parent)
        return True

    def get(self, name: str) -> bytes:
        return self.local(name).read_bytes()

    def local(self, name: str) -> Path:
        return self.path.absolute() / checked(name)  # Arrow takes a relative name with a colon for an address

    def checksum(self, name: str) -> Checksum:
        return of_file(self.local(name))

    def size(self, name: str) -> int:
        return self.local(name).stat().st_size

    def list(self, prefix: str) -> list[str]:
        folder = prefix.rpartition("/")[0]
        names: list[str] = []
        pending = [folder]
        while pending:
            folder = pending.pop()
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(self.path / folder) as it,
            ):
                for entry in it:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(name)
                    elif name.startswith(prefix):
                        names.append(name)
        return sorted(names)

    def delete(self, *names: str) -> None:
        # Not synced: a deletion that a crash undoes leaves a file that no manifest names; those are swept.
        for name in names:
            self.local(name).unlink(missing_ok=True)

    def settle(self) -> None:
        """Has nothing to wait for."""

    def fetch(self, names: Iterable[str]) -> None:
        """Has all files near."""

    def scratch(self, name: str) -> Path:
        path = self.path.absolute() / SCRATCH / checked(name).replace("/", "+")
        with disk_full_guard(path):
            path.parent.mkdir(exist_ok=True)
            shield(path, name)
        return path

    def lock(self, agent: str) -> AbstractContextManager[None]:
        return held(self._target(f"lock/{agent}"), str(self.path))

    def holder(self, agent: str) -> int:
        """Returns the process that holds the agent's lock, 0 if none does."""
        return holder(self.path / "lock" / agent)

    def _target(self, name: str) -> Path:
        target = self.path / checked(name)
        if target.parent not in self._known:
            with disk_full_guard(target):
                self._make(target.parent)
            self._known.add(target.parent)
        return target

    def _make(self, folder: Path) -> None:
        """Makes a folder so that a crash cannot lose it."""
        if folder.is_dir() or folder == self.path:
            return
        self._make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)

    def _placed(self, data: bytes, target: Path, place: Callable[[Path, Path], None]) -> None:
        """Writes and syncs a scratch file, then uses `place`: link (fails if the target exists) or replace."""
        while True:
            scratch = self.scratch(f"{os.getpid()}-{next(self._serial)}-{target.name}")
            try:
                scratch.write_bytes(data)
                sync(scratch)
                place(scratch, target)
                return
            except FileNotFoundError:
                # A crawl that just starts sweeps scratch files, perhaps this one of `gossamer add`. Again,
                # then, unless it is the archive itself that is gone.
                if not target.parent.is_dir():
                    raise
            finally:
                scratch.unlink(missing_ok=True)


class ReadOnly(Directory):
    """`ReadOnly` is the same for those who only look: an archive of an earlier layout too."""

    def _check(self) -> Mark:
        return check_mark(self.path, read_only=True)


class Unchecked(Directory):
    """`Unchecked` is the same for those who verify and repair: also if the mark is missing or damaged."""

    def _check(self) -> Mark:
        return Mark(layout=LAYOUT)


class Memory:
    """`Memory` is the same in memory, for tests and for crawls that leave nothing behind."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._locks: set[str] = set()
        self._folder = Path(tempfile.mkdtemp(prefix="gossamer-"))
        weakref.finalize(self, shutil.rmtree, self._folder, True)

    def put(self, name: str, data: bytes | Path) -> None:
        checked(name)
        if isinstance(data, Path):
            self._files[name] = data.read_bytes()
            data.unlink()
        else:
            self._files[name] = bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        # setdefault is one step for the interpreter: of two threads exactly one finds its own object.
        mine = bytes(bytearray(data))
        return self._files.setdefault(checked(name), mine) is mine

    def get(self, name: str) -> bytes:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "not in the archive", name) from None

    def local(self, name: str) -> Path:
        data = self.get(name)
        path = self._folder / "local" / checked(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            path.unlink(missing_ok=True)  # whoever has mapped the old content keeps it
            path.write_bytes(data)
        return path

    def checksum(self, name: str) -> Checksum:
        return of_bytes(self.get(name))

    def size(self, name: str) -> int:
        return len(self.get(name))

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in list(self._files) if name.startswith(prefix))

    def delete(self, *names: str) -> None:
        for name in names:
            self._files.pop(name, None)

    def settle(self) -> None:
        """Has nothing to wait for."""

    def fetch(self, names: Iterable[str]) -> None:
        """Has all files near."""

    def scratch(self, name: str) -> Path:
        return self._folder / checked(name).replace("/", "+")

    @contextlib.contextmanager
    def lock(self, agent: str) -> Iterator[None]:
        if agent in self._locks:
            raise ArchiveBusy(f"this archive is being crawled by process {os.getpid()}")
        self._locks.add(agent)
        try:
            yield
        finally:
            self._locks.discard(agent)


def sync(path: Path) -> None:
    """Syncs a file or folder: it is on disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_mark(now_s: float) -> Mark:
    return Mark(layout=LAYOUT, gossamer=__version__, created=now_s)


@contextlib.contextmanager
def held(path: Path, archive: str) -> Iterator[None]:
    """Holds a lock file while an archive is written to."""
    with disk_full_guard(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)  # closing it must not try again to write what found no space
    with file:
        if not _flocked(file.fileno(), _LOCK_TRIES):
            raise ArchiveBusy(
                f"{archive} is being crawled by process {_pid(path)}; stop that one, or choose another --dir"
            )
        with disk_full_guard(path):
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
        yield


def holder(path: Path) -> int:
    """Returns the process that holds a lock file, 0 if none does."""
    try:
        with path.open("rb") as file:
            return 0 if _flocked(file.fileno(), 1) else _pid(path)
    except FileNotFoundError:
        return 0


def _flocked(descriptor: int, tries: int) -> bool:
    for attempt in range(tries):
        if attempt:
            time.sleep(0.02)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _pid(path: Path) -> int:
    text = path.read_bytes().strip()
    return int(text) if text.isdigit() else 0
