"""A crawl directory as readers see it: the committed files and states of all its agents, joined."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from gossamer.archive.chain import Chain, Snapshot
from gossamer.archive.store import Directory
from gossamer.errors import ArchiveError

T = TypeVar("T")

_TRIES = 10


@dataclass(frozen=True)
class Reading:
    """What was committed when we looked."""

    directory: Path
    snapshots: dict[str, Snapshot]  # by agent

    def names(self, kind: str) -> list[str]:
        """The archive's files of a kind, all agents, in order of commit."""
        return [name for snapshot in self.snapshots.values() for name in snapshot.files.get(kind, [])]

    def paths(self, kind: str) -> list[Path]:
        return [self.directory / name for name in self.names(kind)]

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for snapshot in self.snapshots.values() for kind in snapshot.files})

    @property
    def overlap(self) -> bool:
        """Whether several agents may know the same page."""
        return any(snapshot.state.get("overlap") for snapshot in self.snapshots.values())

    def missing(self) -> Path | None:
        """A file that is no longer there."""
        return next((path for kind in self.kinds for path in self.paths(kind) if not path.exists()), None)

    @property
    def numbers(self) -> dict[str, int]:
        return {agent: snapshot.number for agent, snapshot in self.snapshots.items()}


def read(directory: Path) -> Reading:
    """Look at a crawl, running or not. Before its first commit it is empty."""
    store = Directory(directory)
    agents = sorted({name.split("/")[1] for name in store.list("manifest/")})
    return Reading(Path(directory).resolve(), {agent: Chain.read(store, agent) for agent in agents})


def reading(directory: Path, work: Callable[[Reading], T]) -> T:
    """The result of work on what is committed.

    If files vanish meanwhile, because a running crawl merged them, it is done again on the newer ones, unless
    some of it was `irrevocable`.
    """
    for _ in range(_TRIES):
        at = read(directory)
        try:
            return work(at)
        except (OSError, duckdb.Error, pa.ArrowException, _Begun) as error:
            cause = error.cause if isinstance(error, _Begun) else error
            missing = at.missing()  # asked of the files: DuckDB has many ways to say so
            if missing is None:
                raise cause from None
            if read(directory).numbers == at.numbers:
                break
            if cause is not error:
                again = "the crawl merged its files meanwhile; run the same command again"
                raise ArchiveError(again) from cause
    raise ArchiveError(f"{missing} is missing: the archive is damaged; restore that file from a copy")


@contextlib.contextmanager
def irrevocable() -> Iterator[None]:
    """Around writing what cannot be taken back, such as standard output: there is no second attempt."""
    try:
        yield
    except (OSError, duckdb.Error, pa.ArrowException) as error:
        raise _Begun(error) from error


class _Begun(Exception):
    """An error after some output; never leaves `reading`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause
