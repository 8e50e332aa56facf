"""`Reading` is a crawl as readers see it: the committed files and states of all its agents, joined."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import duckdb
import pyarrow as pa

from gossamer.archive.chain import snapshots
from gossamer.archive.damage import check_named
from gossamer.archive.manifest import Snapshot
from gossamer.archive.store import ReadOnly
from gossamer.errors import ArchiveError

T = TypeVar("T")

_TRIES = 10


@dataclass(frozen=True)
class Reading:
    """`Reading` holds what was committed when we looked."""

    directory: Path
    snapshots: dict[str, Snapshot]  # by agent
    roots: Mapping[str, Path] = field(default_factory=dict)  # where each agent's files are, if not in the directory

    def names(self, kind: str) -> list[str]:
        """Returns the archive's files of a kind, all agents, in order of commit."""
        return [name for snapshot in self.snapshots.values() for name in snapshot.files.get(kind, [])]

    def paths(self, kind: str) -> list[Path]:
        return [self.root(agent) / name for agent, at in self.snapshots.items() for name in at.files.get(kind, [])]

    def root(self, agent: str) -> Path:
        return self.roots.get(agent, self.directory)

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for snapshot in self.snapshots.values() for kind in snapshot.files})

    @property
    def overlap(self) -> bool:
        """Returns whether several agents may know the same page."""
        return any(snapshot.state.overlap for snapshot in self.snapshots.values())

    def missing(self) -> Path | None:
        """Returns a file that is no longer there."""
        return next((path for kind in self.kinds for path in self.paths(kind) if not path.exists()), None)

    @property
    def numbers(self) -> dict[str, int]:
        return {agent: snapshot.number for agent, snapshot in self.snapshots.items()}


class Location(Protocol):
    """Port: where a crawl is. It can be read as one archive, again and again, while the crawl runs.

    `str` gives the name by which the user knows it.
    """

    def read(self) -> Reading:
        """Returns what is committed now. Before its first commit a crawl is empty."""

    def left_out(self) -> str:
        """Returns which parts of the crawl cannot be read from here, in words; empty if all can."""


@dataclass(frozen=True)
class CrawlDirectory:
    """`CrawlDirectory` is the location of most crawls: one directory of this machine."""

    path: Path

    def read(self) -> Reading:
        store = ReadOnly(self.path)
        found = snapshots(store)
        if not found:
            check_named(store)
        return Reading(self.path.resolve(), found)

    def left_out(self) -> str:
        return ""

    def __str__(self) -> str:
        return str(self.path)


Where = str | Path | Location  # a name is that of a directory; `cluster.location.locate` knows federations, too


def reading(where: Where, work: Callable[[Reading], T]) -> T:
    """Returns the result of work on what is committed.

    If files vanish meanwhile, because a running crawl merged them, it is done again on the newer ones, unless
    some of it was `irrevocable`.
    """
    location = CrawlDirectory(Path(where)) if isinstance(where, str | Path) else where
    for _ in range(_TRIES):
        at = location.read()
        try:
            return work(at)
        except (OSError, duckdb.Error, pa.ArrowException, _Begun) as error:
            cause = error.cause if isinstance(error, _Begun) else error
            missing = at.missing()  # checked on the files: DuckDB has many messages for it
            if missing is None:
                raise cause from None
            if location.read().numbers == at.numbers:
                break
            if cause is not error:
                again = "the crawl merged its files meanwhile; run the same command again"
                raise ArchiveError(again) from cause
    raise ArchiveError(
        f"{missing} is missing: the archive is damaged; restore that file from a copy, or see what "
        f"`gossamer repair {location} --dry-run` can do"
    )


@contextlib.contextmanager
def irrevocable() -> Iterator[None]:
    """Marks the writing of what cannot be taken back, such as standard output: there is no second attempt."""
    try:
        yield
    except (OSError, duckdb.Error, pa.ArrowException) as error:
        raise _Begun(error) from error


class _Begun(Exception):
    """An error came after some output; this never leaves `reading`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause
