"""`ObjectStore` is an archive in a bucket: a Store over obstore, with the files that it reads in a cache on local disk.

What a commit puts goes up in parallel, and `create`, which makes the manifest, waits for all of it: a commit takes
two round trips, or three if the answer to the second is lost. A create whose answer is lost is tried again and told
that the name exists: a random token in the object's metadata says whether it was ours (`_is_ours`).

There are no locks at an address. The chain's epochs decide who owns a crawl; a lock only tells processes of this
machine from each other.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gossamer.archive.buckets import asked, connect, explained
from gossamer.archive.cache import Cache
from gossamer.archive.checksums import Checksum, of_bytes, of_file
from gossamer.archive.labels import label_of
from gossamer.archive.mark import MARK, SCRATCH, decode_mark, judged, no_crawl
from gossamer.archive.state import encoded
from gossamer.archive.store import checked, held, holder, new_mark
from gossamer.config.folders import Address, folder_of
from gossamer.errors import ArchiveError, GossamerError, OutOfSpace, StoreError

if TYPE_CHECKING:
    from typing import BinaryIO

T = TypeVar("T")

CACHE_BYTES = 10_000 << 20
_UPLOADS = 16  # at a time: all that a commit puts, as a rule
_PART_BYTES = 32 << 20  # larger files go up in parts of so many bytes
_TOKEN = "gossamer"  # the metadata field
_FIRST_WAIT_S, _LAST_WAIT_S = 0.02, 5.0
_PATIENCE_S = 180.0  # as obstore's own
_PROBE = "probe/"
_HASTY = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}


class ObjectStore:
    """`ObjectStore` is the archive at an address. Threads may share it.

    An upload that fails is not forgotten: `create` and `settle` raise its error until the same name is put again.
    """

    def __init__(
        self,
        address: Address,
        *,
        folder: Path | None = None,
        cache_bytes: int = CACHE_BYTES,
        pinning: bool = False,
        retry: dict[str, Any] | None = None,
        grace_s: float | None = None,
    ) -> None:
        """Touches nothing. With `pinning`, files that were asked for stay in the cache: a reader needs all at once."""
        self.path = address
        grace = {} if grace_s is None else {"grace_s": grace_s}
        self._cache = Cache(folder or folder_of(address), cache_bytes, **grace)
        self._bucket = connect(address, retry)
        self._pinned: set[str] | None = set() if pinning else None
        self._pool = ThreadPoolExecutor(_UPLOADS, thread_name_prefix="store")
        self._lock = threading.Lock()
        self._puts: dict[str, Future[None]] = {}  # under way, or failed
        self._deletes: dict[str, Future[None]] = {}  # under way
        self._sums: dict[str, Checksum] = {}  # of files that we put: immutable
        self._sizes: dict[str, int] = {}  # of files that we put or listed

    # Opening

    @classmethod
    def prepare(cls, address: Address, now_s: float, **options: Any) -> "ObjectStore":
        """Opens an archive to write to it, or begins one where nothing is. The store must honour conditions."""
        store = cls(address, **options)
        mark = store.mark_bytes()
        if mark is None and store._has_anything():
            raise ArchiveError(f"{address} is not empty and holds no crawl; choose another folder of that bucket")
        if mark is not None:
            judged(decode_mark(mark), address)
        store._probe()
        if mark is None and not store.create(MARK, mark := encoded(new_mark(now_s))):
            mark = store.get(MARK)  # another process was faster: the same archive
        store._cache.belong(mark or b"")
        return store

    @classmethod
    def open(cls, address: Address, read_only: bool = False, **options: Any) -> "ObjectStore":
        """Opens an archive that exists."""
        store = cls(address, **options)
        mark = store.mark_bytes()
        if mark is None:
            raise no_crawl(address)
        judged(decode_mark(mark), address, read_only)
        store._cache.belong(mark)
        return store

    @property
    def folder(self) -> Path:
        """Returns where this machine keeps what belongs to the crawl and is not in its archive."""
        return self._cache.folder

    def mark_bytes(self) -> bytes | None:
        """Asks for the mark, with little patience: a wrong address should not keep the user waiting."""
        import obstore

        hasty = connect(self.path, _HASTY)
        try:
            return asked(self.path, lambda: bytes(obstore.get(hasty, MARK).bytes()))
        except FileNotFoundError:
            return None

    def _has_anything(self) -> bool:
        import obstore

        return any(asked(self.path, lambda: next(iter(obstore.list(self._bucket, chunk_size=1)), [])))

    def _probe(self) -> None:
        """Creates an object twice. A store that lets the second pass would let two crawls overwrite each other."""
        name = f"{_PROBE}{secrets.token_hex(8)}"
        try:
            if not self.create(name, b"1"):
                raise StoreError(f"{self.path}: the store says that an object exists which was never there")
            if self.create(name, b"2"):
                raise StoreError(
                    f"{self.path}: the store ignores conditions: it let us create an object that existed "
                    "(If-None-Match: *). There, two crawls could overwrite each other unnoticed, so nothing was begun: "
                    "use a store, or a later version of it, that has conditional writes (docs/cloud.md)"
                )
        finally:
            with contextlib.suppress(GossamerError):
                self.delete(name)
                self.settle()

    # Writing

    def put(self, name: str, data: bytes | Path) -> None:
        """Hands a file over; it is durable when `create` or `settle` returns."""
        self._finish(checked(name))
        body: bytes | BinaryIO
        if isinstance(data, Path):
            known = of_file(data)
            # Opened at once: another process that shares the cache may remove the file before its turn comes.
            body = self._entered(name, lambda: data).open("rb")
        else:
            known, body = of_bytes(data), data
            self._entered(name, lambda: data)
        with self._lock:
            self._sums[name], self._sizes[name] = known, known.size
            self._puts[name] = self._pool.submit(self._upload, name, body)
            self._forget_done()

    def create(self, name: str, data: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        self._settle_puts()
        self._finish(checked(name))
        token = secrets.token_hex(16)
        failed: Exception | None = None
        for wait_s in _waits():
            try:
                obstore.put(self._bucket, name, data, mode="create", attributes={_TOKEN: token})
                return True
            except AlreadyExistsError as error:
                # S3 says 409 while another create of the name is under way: nothing is decided before it is there.
                if (ours := self._is_ours(name, token)) is not None:
                    return ours
                failed = error
            except (BaseError, FileNotFoundError) as error:
                failed = error
                if not _is_passing(error):
                    break
            time.sleep(wait_s)
        assert failed is not None
        raise explained(self.path, failed)

    def delete(self, *names: str) -> None:
        """Deletes files, in the background; whoever asks for one of the names meanwhile waits."""
        scratch = [name for name in names if name.startswith(SCRATCH)]
        for name in scratch:
            (self._cache.folder / checked(name)).unlink(missing_ok=True)
        if gone := [checked(name) for name in names if not name.startswith(SCRATCH)]:
            for name in gone:
                self._cache.drop(name)
            with self._lock:
                before = [found for name in gone for of in (self._puts, self._deletes) if (found := of.get(name))]
                for name in gone:
                    self._puts.pop(name, None)
                    self._sums.pop(name, None)
                    self._sizes.pop(name, None)
                self._deletes |= dict.fromkeys(gone, self._pool.submit(self._remove, gone, before))
                self._forget_done()

    def settle(self) -> None:
        self._settle_puts()
        with self._lock:
            deletes = list(self._deletes.values())
        wait(deletes)

    def _settle_puts(self) -> None:
        with self._lock:
            puts = list(self._puts.values())
        for each in puts:
            each.result()
        with self._lock:
            self._forget_done()

    def _finish(self, name: str) -> None:
        """Waits for what is under way with a name; whether it succeeded does not matter any more."""
        with self._lock:
            found = [future for of in (self._puts, self._deletes) if (future := of.get(name))]
        wait(found)

    def _forget_done(self) -> None:
        self._puts = {n: f for n, f in self._puts.items() if not f.done() or f.exception() is not None}
        self._deletes = {n: f for n, f in self._deletes.items() if not f.done()}

    def _upload(self, name: str, body: "bytes | BinaryIO") -> None:
        import obstore

        def send() -> None:
            if not isinstance(body, bytes):
                body.seek(0)
            obstore.put(self._bucket, name, body, chunk_size=_PART_BYTES, max_concurrency=2)

        try:
            self._patiently(send)
        finally:
            if not isinstance(body, bytes):
                body.close()

    def _remove(self, names: list[str], before: Iterable[Future[None]]) -> None:
        """Deletes. What cannot be deleted now is named by no manifest, or by no one that counts, and swept later."""
        import obstore
        from obstore.exceptions import BaseError

        wait(before)
        with contextlib.suppress(BaseError):
            try:
                obstore.delete(self._bucket, names)
            except FileNotFoundError:  # Azure's and Google's say so, and may have stopped there
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        obstore.delete(self._bucket, name)

    def _is_ours(self, name: str, token: str) -> bool | None:
        """Returns whether the object of that name is the one that we created; None if there is none."""
        import obstore

        try:
            found = self._patiently(lambda: obstore.get(self._bucket, name, options={"head": True}))
        except FileNotFoundError:
            return None
        return dict(found.attributes).get(_TOKEN) == token

    # Reading

    def get(self, name: str) -> bytes:
        """Asks the store, unless a commit made the file: those never change."""
        import obstore

        if label_of(checked(name)) and (found := self._cache.find(name)):
            with contextlib.suppress(FileNotFoundError):
                return found.read_bytes()
        self._finish(name)
        return self._patiently(lambda: bytes(obstore.get(self._bucket, name).bytes()))

    def local(self, name: str) -> Path:
        found = self._cache.find(checked(name)) or self._fetched(name)
        if self._pinned is not None:
            self._pinned.add(name)
        return found

    def is_evicted(self) -> bool:
        """Returns whether a file that we gave to a reader is no longer in the cache."""
        return any(self._cache.find(name) is None for name in self._pinned or ())

    def fetch(self, names: Iterable[str]) -> None:
        """Brings files into the cache, several at a time."""
        missing = [name for name in names if not self._cache.find(checked(name))]
        if self._pinned is not None:
            self._pinned.update(missing)
        with ThreadPoolExecutor(_UPLOADS) as pool:
            for each in [pool.submit(self._fetched, name) for name in missing]:
                with contextlib.suppress(FileNotFoundError):  # whoever asks for that one by name is told
                    each.result()

    def _fetched(self, name: str) -> Path:
        import obstore

        self._finish(name)
        return self._patiently(lambda: self._entered(name, lambda: obstore.get(self._bucket, name).stream()))

    def _entered(self, name: str, data: "Callable[[], bytes | Path | Iterable[bytes]]") -> Path:
        """Takes a file into the cache; other files give way if the disk is full."""
        try:
            return self._cache.enter(name, data(), self._kept())
        except OutOfSpace:
            if not self._cache.make_room(self._kept()):
                raise
            return self._cache.enter(name, data(), self._kept())

    def checksum(self, name: str) -> Checksum:
        return self._sums.get(name) or of_file(self.local(name))

    def size(self, name: str) -> int:
        import obstore

        if (known := self._sizes.get(checked(name))) is None:
            self._finish(name)
            known = int(self._patiently(lambda: obstore.head(self._bucket, name))["size"])
        return known

    def list(self, prefix: str) -> list[str]:
        """Lists by path segment, as obstore does, and selects by text."""
        import obstore

        if prefix.startswith(SCRATCH):
            return [name for name in self._cache.scratched() if name.startswith(prefix)]
        self.settle()
        folder = prefix.rpartition("/")[0] or None
        pages = self._patiently(lambda: [*obstore.list(self._bucket, folder, chunk_size=1000)])
        found = {meta["path"]: int(meta["size"]) for page in pages for meta in page if meta["path"].startswith(prefix)}
        self._sizes |= found
        return sorted(found)

    def scratch(self, name: str) -> Path:
        return self._cache.scratch(checked(name))

    def _kept(self) -> set[str]:
        """Returns which files must stay in the cache now."""
        with self._lock:
            return {*self._puts, *(self._pinned or ())}

    def _patiently(self, work: Callable[[], T]) -> T:
        """Returns the result of a request that can be repeated. obstore does so itself, except in the middle of an
        answer."""
        from obstore.exceptions import BaseError

        def attempt() -> T:
            for wait_s in _waits():
                try:
                    return work()
                except BaseError as error:
                    if not _is_passing(error):
                        raise
                time.sleep(wait_s)
            return work()

        return asked(self.path, attempt)

    # Locks

    def lock(self, agent: str) -> AbstractContextManager[None]:
        path = self._cache.folder / "lock" / agent
        return held(path, str(self.path))

    def holder(self, agent: str) -> int:
        """Returns the process of this machine that holds the agent's lock, 0 if none does."""
        return holder(self._cache.folder / "lock" / agent)


def _waits() -> Iterator[float]:
    """Yields how long to wait before the next attempt, until our patience is at its end."""
    end_s, wait_s = time.monotonic() + _PATIENCE_S, _FIRST_WAIT_S
    while time.monotonic() < end_s:
        yield wait_s
        wait_s = min(2 * wait_s, _LAST_WAIT_S)


def _is_passing(error: Exception) -> bool:
    """Returns whether the same request may succeed a moment later."""
    from obstore.exceptions import GenericError

    return isinstance(error, GenericError) and "status code: 4" not in str(error)
