"""`Reading` is a crawl as readers see it: the committed files and states of all its agents, joined."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from gossamer.archive.chain import snapshots
from gossamer.archive.damage import check_named
from gossamer.archive.labels import FOLDERS
from gossamer.archive.manifest import Snapshot
from gossamer.archive.store import Files, ReadOnly, Store
from gossamer.config.folders import Place, as_place, folder_of
from gossamer.config.last_run import recall
from gossamer.errors import ArchiveError

T = TypeVar("T")

_TRIES = 30  # a crawl that commits several times a second may merge files during each of them
_FINAL = "is_final"  # of an error that came after some output


class Distant(Files, Protocol):
    """Port: the part of a Store that readers need of an archive that is not on this machine."""

    def fetch(self, names: Iterable[str]) -> None: ...

    def size(self, name: str) -> int: ...

    def list(self, prefix: str) -> list[str]: ...

    def is_evicted(self) -> bool:
        """Returns whether a file that we gave to a reader is no longer in the cache."""


@dataclass(frozen=True)
class Reading:
    """`Reading` holds what was committed when we looked."""

    directory: Place
    snapshots: dict[str, Snapshot]  # by agent
    roots: Mapping[str, Place] = field(default_factory=dict)  # where each agent's files are, if not in the directory
    stores: Mapping[Place, Distant] = field(default_factory=dict)  # of those places that are not on this machine

    def names(self, kind: str) -> list[str]:
        """Returns the archive's files of a kind, all agents, in order of commit."""
        return [name for snapshot in self.snapshots.values() for name in snapshot.files.get(kind, [])]

    def paths(self, kind: str) -> list[Path]:
        """Returns the files of a kind, as files of this machine."""
        return [path for agent, at in self.snapshots.items() for path in self.of_agent(agent, at.files.get(kind, []))]

    def of_agent(self, agent: str, names: Sequence[str]) -> list[Path]:
        """Returns files of one agent, as files of this machine: those that are elsewhere are fetched."""
        root = self.root(agent)
        if isinstance(root, Path):
            return [root / name for name in names]
        store = self.stores[root]
        store.fetch(names)
        return [store.local(name) for name in names]

    def root(self, agent: str) -> Place:
        return self.roots.get(agent, self.directory)

    def bytes(self, kind: str) -> int:
        """Returns how large the files of a kind are. What is elsewhere is not fetched for that."""
        return sum(self._size(agent, name) for agent, at in self.snapshots.items() for name in at.files.get(kind, []))

    def _size(self, agent: str, name: str) -> int:
        root = self.root(agent)
        if isinstance(root, Path):
            return (root / name).stat().st_size
        known = self.snapshots[agent].sums.get(name)
        return known.size if known else self.stores[root].size(name)

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for snapshot in self.snapshots.values() for kind in snapshot.files})

    @property
    def overlap(self) -> bool:
        """Returns whether several agents may know the same page."""
        return any(snapshot.state.overlap for snapshot in self.snapshots.values())

    def missing(self) -> str:
        """Returns the name of a file that is no longer there; empty if all are."""
        for agent, at in self.snapshots.items():
            root, names = self.root(agent), [name for names in at.files.values() for name in names]
            if isinstance(root, Path):
                gone = (name for name in names if not (root / name).exists())
            else:
                there = {name for folder in FOLDERS for name in self.stores[root].list(folder)}
                gone = (name for name in names if name not in there)
            if (found := next(gone, None)) is not None:
                return f"{root}/{found}"
        return ""

    def is_evicted(self) -> bool:
        """Returns whether another process has removed from the cache what we were given: it can be fetched again."""
        return any(store.is_evicted() for store in self.stores.values())

    @property
    def numbers(self) -> dict[str, int]:
        return {agent: snapshot.number for agent, snapshot in self.snapshots.items()}


def joined(path: Path, parts: Sequence[Reading]) -> Reading:
    """Returns several archives as one: no agent is in two of them. Its name is that of a file that lists them."""
    found = {agent: at for part in parts for agent, at in part.snapshots.items()}
    roots = {agent: part.root(agent) for part in parts for agent in part.snapshots}
    return Reading(path, found, roots, {place: store for part in parts for place, store in part.stores.items()})


class Location(Protocol):
    """Port: where a crawl is. It can be read as one archive, again and again, while the crawl runs.

    `str` gives the name by which the user knows it.
    """

    def read(self) -> Reading:
        """Returns what is committed now. Before its first commit a crawl is empty."""

    def left_out(self) -> str:
        """Returns which parts of the crawl cannot be read from here, in words; empty if all can."""


@dataclass(frozen=True)
class OnePlace:
    """`OnePlace` is the location of most crawls: a directory of this machine, or an address. What is read at an address
    is fetched into the cache."""

    place: Place

    def read(self) -> Reading:
        if isinstance(self.place, Path):
            return Reading(self.place.resolve(), _committed(ReadOnly(self.place)))
        from gossamer.archive.object_store import ObjectStore

        before = recall(folder_of(self.place))
        bound = {"cache_bytes": before.archive.cache_mb << 20} if before else {}
        store = ObjectStore.open(self.place, read_only=True, pinning=True, **bound)
        return Reading(self.place, _committed(store), stores={self.place: store})

    def left_out(self) -> str:
        return ""

    def __str__(self) -> str:
        return str(self.place)


def _committed(store: Store) -> dict[str, Snapshot]:
    found = snapshots(store)
    if not found:
        check_named(store)
    return found


Where = str | Path | Location  # a name of a directory or an address; `cluster.location.locate` knows federations, too


def location_of(crawl: Place) -> Location:
    return OnePlace(crawl)


def reading(where: Where, work: Callable[[Reading], T]) -> T:
    """Returns the result of work on what is committed.

    If files vanish meanwhile, because a running crawl merged them, it is done again on the newer ones, unless
    some of it was `irrevocable`.
    """
    location = location_of(as_place(where)) if isinstance(where, str | Path) else where
    for _ in range(_TRIES):
        at = location.read()
        try:
            return work(at)
        except troubles() as error:
            is_final = getattr(error, _FINAL, False)
            missing = at.missing()  # checked on the files: DuckDB has many messages for it
            if not missing and not is_final and at.is_evicted():
                continue
            if not missing:
                raise
            if location.read().numbers == at.numbers:
                break
            if is_final:
                raise ArchiveError("the crawl merged its files meanwhile; run the same command again") from error
    raise ArchiveError(
        f"{missing} is missing: the archive is damaged; restore that file from a copy, or see what "
        f"`gossamer repair {location} --dry-run` can do"
    )


@contextlib.contextmanager
def irrevocable() -> Iterator[None]:
    """Marks the writing of what cannot be taken back, such as standard output: there is no second attempt."""
    try:
        yield
    except troubles() as error:
        setattr(error, _FINAL, True)
        raise


def troubles() -> tuple[type[Exception], ...]:
    """Returns the errors of files that vanish under a reader. It is asked when there is one: then is time to import."""
    import duckdb
    import pyarrow as pa

    return OSError, duckdb.Error, pa.ArrowException
