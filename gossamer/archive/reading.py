"""A crawl directory as readers see it: the committed files and states of all its agents, joined."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from gossamer.archive.chain import snapshots
from gossamer.archive.damage import check_named
from gossamer.archive.manifest import Snapshot
from gossamer.archive.mark import is_federation
from gossamer.archive.store import ReadOnly
from gossamer.errors import ArchiveError

T = TypeVar("T")

_TRIES = 10


@dataclass(frozen=True)
class Reading:
    """What was committed when we looked."""

    directory: Path
    snapshots: dict[str, Snapshot]  # by agent
    roots: Mapping[str, Path] = field(default_factory=dict)  # of a federation: where each agent's files are

    def names(self, kind: str) -> list[str]:
        """The archive's files of a kind, all agents, in order of commit."""
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
        """Whether several agents may know the same page."""
        return any(snapshot.state.overlap for snapshot in self.snapshots.values())

    def missing(self) -> Path | None:
        """A file that is no longer there."""
        return next((path for kind in self.kinds for path in self.paths(kind) if not path.exists()), None)

    @property
    def numbers(self) -> dict[str, int]:
        return {agent: snapshot.number for agent, snapshot in self.snapshots.items()}


def read(directory: Path) -> Reading:
    """Look at a crawl, running or not. Before its first commit it is empty. The file of a federation stands for the
    directories of all its sites."""
    if is_federation(directory):
        return _read_sites(directory)
    store = ReadOnly(directory)
    found = snapshots(store)
    if not found:
        check_named(store)
    return Reading(Path(directory).resolve(), found)


def _read_sites(path: Path) -> Reading:
    from gossamer.cluster.federation_file import load  # knows crawls, as we do not know federations

    federation = load(path)
    if not federation.here:
        places = ", ".join(str(federation.directory(site)) for site in federation.sites)
        raise ArchiveError(f"no site of {path} is on this machine: there is no crawl in {places}; ask where one runs")
    found: dict[str, Snapshot] = {}
    roots: dict[str, Path] = {}
    for site in federation.here:
        root = federation.directory(site).resolve()
        ours = snapshots(ReadOnly(root))
        found |= ours
        roots |= dict.fromkeys(ours, root)
    return Reading(path.resolve(), found, roots)


def left_out(directory: Path) -> str:
    """Which sites of a federation are not read, as they are not on this machine, in words; nothing if all are."""
    from gossamer.cluster.federation_file import load

    if not is_federation(directory):
        return ""
    federation = load(directory)
    names = federation.elsewhere if federation.here else []
    places = ", ".join(str(federation.directory(site)) for site in names)
    return f"without {', '.join(names)}: nothing of {'it' if len(names) == 1 else 'them'} is in {places}" * bool(names)


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
    raise ArchiveError(
        f"{missing} is missing: the archive is damaged; restore that file from a copy, or see what "
        f"`gossamer repair {directory} --dry-run` can do"
    )


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
