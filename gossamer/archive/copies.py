"""Copies keep the same archive on several disks: what is put into it is also stored there before it counts."""

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.archive.chain import Chain
from gossamer.archive.checksums import Checksum, of_file
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import chains, load
from gossamer.archive.store import Directory, Store
from gossamer.config import Config
from gossamer.config.folders import Place
from gossamer.errors import ArchiveError, ConfigError, disk_full_guard

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore


class Copied:
    """`Copied` is a Store: a directory, and others with the same files. Reading heals: what the first has lost comes
    back."""

    def __init__(self, first: Directory, copies: Sequence[Directory]) -> None:
        self._first = first
        self._copies = list(copies)

    @property
    def path(self) -> Path:
        return self._first.path

    def put(self, name: str, data: bytes | Path) -> None:
        for copy in self._copies:
            copy.put(name, _copied(data, copy.scratch(name)) if isinstance(data, Path) else data)
        self._first.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Creates a file; the first directory decides. A crash before the others have it is mended by `mend`."""
        if not self._first.create(name, data):
            return False
        for copy in self._copies:
            copy.put(name, data)
        return True

    def get(self, name: str) -> bytes:
        return self.local(name).read_bytes()

    def local(self, name: str) -> Path:
        path = self._first.local(name)
        if not path.exists():
            for copy in self._copies:
                if copy.local(name).exists():
                    self._first.put(name, _copied(copy.local(name), self._first.scratch(name)))
                    break
        return path

    def checksum(self, name: str) -> Checksum:
        return of_file(self.local(name))

    def size(self, name: str) -> int:
        return self.local(name).stat().st_size

    def list(self, prefix: str) -> list[str]:
        return self._first.list(prefix)

    def delete(self, *names: str) -> None:
        for store in (self._first, *self._copies):
            store.delete(*names)

    def settle(self) -> None:
        """Has nothing to wait for."""

    def fetch(self, names: Iterable[str]) -> None:
        """Has all files near."""

    def scratch(self, name: str) -> Path:
        return self._first.scratch(name)

    def lock(self, agent: str) -> AbstractContextManager[None]:
        return self._first.lock(agent)

    def mend(self, names: Sequence[str]) -> int:
        """Copies what a crash, or a new disk, left without its copies. Returns how many files that were."""
        missing = [(copy, name) for copy in self._copies for name in names if not copy.local(name).exists()]
        for copy, name in missing:
            copy.put(name, _copied(self.local(name), copy.scratch(name)))
        return len(missing)


def open_store(crawl: Place, config: Config, agent: str, now_s: float) -> "Directory | Copied | ObjectStore":
    """Returns an agent's view of the archive, with the copies that it has to keep."""
    if not isinstance(crawl, Path):
        if config.site.copies > 1:
            raise ConfigError(f"site.copies is for directories; {crawl} is kept by its store, with copies of its own")
        from gossamer.archive.object_store import ObjectStore

        return ObjectStore.open(crawl, cache_bytes=config.archive.cache_mb << 20)
    first = Directory(crawl)
    if config.site.copies == 1:
        return first
    disks = disks_of(agent, config.site.disks, config.site.copies)
    places = [crawl, *map(Path, disks)]
    if len({place.resolve() for place in places}) < len(places):
        raise ArchiveError("site.disks must be different directories, and not the crawl's own")
    return Copied(first, [Directory.prepare(disk, now_s) for disk in disks])


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
    digits = "".join(c for c in agent if c.isdigit())
    start = int(digits or "0")
    return [disks[(start + i) % len(disks)] for i in range(copies - 1)]


def restore(directory: Path, disks: Sequence[Path]) -> int:
    """Restores a directory from its copies, after its disk was lost. Returns how many files that were."""
    if (directory / "gossamer.json").exists():
        raise ArchiveError(f"{directory} holds a crawl already; restore into an empty directory")
    for disk in disks:
        if not (disk / "gossamer.json").exists():
            raise ArchiveError(f"{disk} holds no copies of a crawl; give the directories that were in site.disks")
    found = [Directory(disk) for disk in disks]
    restored = 0
    # Manifests last, and the mark that makes it an archive after them: half of a restoration is none.
    named = _named(found)
    names = {
        name: copy
        for copy in found
        for name in copy.list("")
        if not name.startswith(("tmp/", "lock/", "aside/")) and (label_of(name) is None or name in named)
    }
    for name in sorted(names, key=lambda name: (name == "gossamer.json", name.startswith("manifest/"), name)):
        target = directory / name
        with disk_full_guard(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(names[name].local(name), target)
        restored += 1
    return restored


def _named(copies: Sequence[Directory]) -> set[str]:
    """Returns what the newest manifests name. A crash leaves more on a copy, as that is written before the crawl's
    directory; of an agent whose manifests cannot be read, all that is there counts: a repair decides about it."""
    named: set[str] = set()
    for agent in {agent for copy in copies for agent in chains(copy)}:
        try:
            named |= max((load(copy, agent)[0] for copy in copies), key=lambda at: at.number).names()
        except ArchiveError:
            named |= {name for copy in copies for name in copy.list("") if (of := label_of(name)) and of.agent == agent}
    return named


def _copied(source: Path, target: Path) -> Path:
    with disk_full_guard(target):
        shutil.copyfile(source, target)
    return target
