"""Copies keep the same archive at several places, on other disks or in buckets: what is put into it is also stored
there before it counts."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import permutations
from pathlib import Path
from typing import TypeVar

from gossamer.archive import places
from gossamer.archive.chain import Chain
from gossamer.archive.checksums import Checksum
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import chains, load
from gossamer.archive.mark import MARK
from gossamer.archive.store import Store
from gossamer.config import Config
from gossamer.config.folders import Address, Place, as_place
from gossamer.errors import ArchiveError, disk_full_guard

T = TypeVar("T")

_ONLY_THERE = ("tmp/", "lock/", "aside/", "probe/", "registrar/", "log/")  # what belongs to a place, not to the crawl


class Copied:
    """`Copied` is a Store: an archive, and others with the same files. Reading heals: what the first has lost comes
    back."""

    def __init__(self, first: Store, copies: Sequence[Store]) -> None:
        self._first = first
        self._copies = list(copies)

    @property
    def path(self) -> Place:
        place: Place = self._first.path  # type: ignore[attr-defined]
        return place

    def put(self, name: str, data: bytes | Path) -> None:
        for copy in self._copies:
            copy.put(name, copied(data, copy.scratch(name)) if isinstance(data, Path) else data)
        self._first.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Creates a file; the first place decides. A crash before the others have it is mended by `mend`."""
        for copy in self._copies:
            copy.settle()
        if not self._first.create(name, data):
            return False
        for copy in self._copies:
            copy.put(name, data)
        return True

    def get(self, name: str) -> bytes:
        return self._healed(name, lambda: self._first.get(name))

    def local(self, name: str) -> Path:
        try:
            return self._healed(name, lambda: _there(self._first.local(name)))
        except FileNotFoundError:
            return self._first.local(name)  # as it says what is missing

    def checksum(self, name: str) -> Checksum:
        return self._healed(name, lambda: self._first.checksum(name))

    def size(self, name: str) -> int:
        return self._healed(name, lambda: self._first.size(name))

    def _healed(self, name: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            for copy in self._copies:
                if has(copy, name):
                    self._first.put(name, copied(copy.local(name), self._first.scratch(name)))
                    return read()
            raise

    def list(self, prefix: str) -> list[str]:
        return self._first.list(prefix)

    def delete(self, *names: str) -> None:
        for store in (self._first, *self._copies):
            store.delete(*names)

    def settle(self) -> None:
        for store in (*self._copies, self._first):
            store.settle()

    def fetch(self, names: Iterable[str]) -> None:
        self._first.fetch(names)

    def scratch(self, name: str) -> Path:
        return self._first.scratch(name)

    def lock(self, agent: str) -> AbstractContextManager[None]:
        return self._first.lock(agent)

    def mend(self, names: Sequence[str]) -> int:
        """Copies what a crash, or a new disk, left without its copies. Returns how many files that were."""
        missing = [(copy, name) for copy in self._copies for name in sorted({*names} - {*copy.list("")})]
        for copy, name in missing:
            copy.put(name, copied(self.local(name), copy.scratch(name)))
        return len(missing)


def open_store(crawl: Place, config: Config, agent: str, now_s: float) -> Store:
    """Returns an agent's view of the archive, with the copies that it has to keep."""
    first: Store = places.opened(crawl, config)
    if config.site.copies == 1:
        return first
    disks = [as_place(disk) for disk in disks_of(agent, config.site.disks, config.site.copies)]
    check_apart([crawl, *disks])
    return Copied(first, [places.prepare(disk, config, now_s) for disk in disks])


def check_apart(found: Sequence[Place]) -> None:
    """Raises an error if two places are the same, or one is inside another of the same bucket."""
    directories = [place.resolve() for place in found if isinstance(place, Path)]
    addresses = [f"{place}/" for place in found if isinstance(place, Address)]
    is_inside = any(one.startswith(other) for one, other in permutations(addresses, 2))
    if len({*directories}) < len(directories) or is_inside:
        raise ArchiveError("site.disks must be different directories or addresses, and not the crawl's own")


def mend(store: Store, chain: Chain) -> None:
    """Adds the copies that are missing; called at the beginning."""
    if isinstance(store, Copied):
        store.mend(sorted(chain.snapshot.names()) + store.list(f"manifest/{chain.agent}/"))


def disks_of(agent: str, disks: Sequence[str], copies: int) -> list[str]:
    """Returns the disks for the copies of an agent's files: agents begin at different disks, so that all are used."""
    if copies - 1 > len(disks):
        raise ArchiveError(
            f"site.copies is {copies}: that takes {copies - 1} more in site.disks, where {len(disks)} are given"
        )
    start = int("".join(filter(str.isdigit, agent)) or "0")
    return [disks[(start + i) % len(disks)] for i in range(copies - 1)]


def remember(config: Config) -> None:
    """Keeps the options of a run also with its copies, for a crawl that is restored from one."""
    for disk in map(as_place, config.site.disks if config.site.copies > 1 else []):
        if places.exists(disk):
            places.remember(places.opened(disk), config)


def restore(target: Place, disks: Sequence[Place]) -> int:
    """Restores an archive from its copies, or copies it elsewhere; any of the places may be in a bucket. Returns how
    many files that were."""
    if places.exists(target):
        raise ArchiveError(f"{target} holds a crawl already; restore into an empty directory, or an empty folder")
    for disk in disks:
        if not places.exists(disk):
            raise ArchiveError(f"{disk} holds no copies of a crawl; give the places that were in site.disks")
    check_apart([target, *disks])
    found: list[Store] = [places.opened(disk) for disk in disks]
    named = _named(found)
    names = {
        name: copy
        for copy in found
        for name in copy.list("")
        if not name.startswith(_ONLY_THERE) and (label_of(name) is None or name in named)
    }
    if isinstance(target, Path):
        target.mkdir(parents=True, exist_ok=True)
    into: Store = places.unmarked(target)
    # Manifests last, and the mark that makes it an archive after them: half of a restoration is none.
    for step in (lambda n: n != MARK and not _is_manifest(n), _is_manifest, lambda n: n == MARK):
        for name in filter(step, sorted(names)):
            into.put(name, copied(names[name].local(name), into.scratch(name)))
        into.settle()
    return len(names)


def has(store: Store, name: str) -> bool:
    try:
        return store.size(name) >= 0
    except FileNotFoundError:
        return False


def _is_manifest(name: str) -> bool:
    return name.startswith("manifest/")


def _there(path: Path) -> Path:
    path.stat()  # a directory gives the name of any file, whether it is there or not
    return path


def _named(copies: Sequence[Store]) -> set[str]:
    """Returns what the newest manifests name. A crash leaves more on a copy, as that is written before the crawl's
    own place; of an agent whose manifests cannot be read, all that is there counts: a repair decides about it."""
    named: set[str] = set()
    for agent in {agent for copy in copies for agent in chains(copy)}:
        try:
            named |= max((load(copy, agent)[0] for copy in copies), key=lambda at: at.number).names()
        except ArchiveError:
            named |= {name for copy in copies for name in copy.list("") if (of := label_of(name)) and of.agent == agent}
    return named


def copied(source: Path, target: Path) -> Path:
    """Copies a file, and returns where the copy is."""
    with disk_full_guard(target):
        shutil.copyfile(source, target)
    return target
