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
_GONE = ("No files found", "No such file", "FileNotFoundError")  # how DuckDB and Arrow put it


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
    def numbers(self) -> dict[str, int]:
        return {agent: snapshot.number for agent, snapshot in self.snapshots.items()}


def read(directory: Path) -> Reading:
    """Look at a crawl, running or not. Before its first commit it is empty."""
    store = Directory(directory)
    agents = sorted({name.split("/")[1] for name in store.list("manifest/")})
    return Reading(Path(directory).resolve(), {agent: Chain.read(store, agent) for agent in agents})


def reading(directory: Path, work: Callable[[Reading], T]) -> T:
    """The result of work on what is committed.

    If files vanish meanwhile, because a running crawl merged them, it is done again on the newer ones.
    """
    for _ in range(_TRIES):
        at = read(directory)
        try:
            return work(at)
        except (OSError, duckdb.Error, pa.ArrowException) as error:
            if not vanished(error):
                raise
            missing = getattr(error, "filename", None) or error
            if read(directory).numbers == at.numbers:
                break
    raise ArchiveError(f"the archive in {directory} is damaged, a file is missing: {missing}")


def vanished(error: Exception) -> bool:
    """Whether an error, of the system or of DuckDB, means that a file is no longer there."""
    return isinstance(error, FileNotFoundError) or any(sign in str(error) for sign in _GONE)


@contextlib.contextmanager
def irrevocable() -> Iterator[None]:
    """Around writing what cannot be taken back, such as standard output: no second attempt."""
    try:
        yield
    except (OSError, duckdb.Error, pa.ArrowException) as error:
        if vanished(error):
            raise ArchiveError("the crawl merged its files meanwhile; run the same command again") from error
        raise
