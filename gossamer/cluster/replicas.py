"""Replication keeps each site's archive at other sites too: the holder asks for what it lacks, the site answers with
its files.

A replica is an archive like any other, as of a commit that the site has made: the files first, then the manifests that
name them.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gossamer.archive.chain import chains
from gossamer.archive.checksums import Checksum
from gossamer.archive.manifest import Snapshot, file_name, file_names, load, number_of, sealed
from gossamer.archive.mark import MARK
from gossamer.archive.store import Directory, Memory
from gossamer.clocks import Clock
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.protocol import decode, encode
from gossamer.cluster.site_service import (
    FILES,
    MANIFEST_BYTES,
    Ask,
    Request,
    Source,
    check_own,
    is_served,
    numbers,
    pieces,
)
from gossamer.errors import ArchiveError, SiteError, Unreadable, disk_full_guard
from gossamer.web.url import host_key

T = TypeVar("T")
FOLDER = "replicas"  # of a site's directory: those of others
_PARTIAL = ".partial"  # no site has such a name
_ASK_S = 0.25
_WRONG_S = 5.0
_FILES_AT_ONCE = 8
_ANSWER_S = 10.0
_FOLDERS = ("manifest/", "warc/", "cdxj/", "tables/", "index/", "outbox/", "handover/")


def holders(sites: Sequence[str], site: str, replicas: int) -> list[str]:
    """Returns the sites that keep what a site has: those that follow it on a ring of names."""
    ring = sorted(sites, key=lambda name: (host_key(name), name))
    start = ring.index(site)
    return [ring[(start + step) % len(ring)] for step in range(1, min(replicas, len(ring)))]


class Replica:
    """`Replica` is a holder's side: one site's archive, brought up to date by a thread."""

    def __init__(self, folder: Path, site: str, holder: str, wire: Wire, clock: Clock) -> None:
        self._open(folder, clock.now())
        self._site, self._holder, self._wire = site, holder, wire
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._complaint = ""
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._thread.start()

    def _open(self, folder: Path, now_s: float) -> None:
        """Opens the replica. Before it has a manifest, it is none, and is kept under another name."""
        self._folder = folder
        is_begun = (folder / MARK).exists()
        self._store = Directory.prepare(folder if is_begun else folder.with_name(folder.name + _PARTIAL), now_s)
        self._name()

    def _name(self) -> None:
        if self._store.path != self._folder and chains(self._store):
            self._store.path.rename(self._folder)
            self._store = Directory(self._folder)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raises the error of the thread: a disk that is full must not stay hidden."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            pause_s = _ASK_S
            while not self._ending.wait(pause_s):
                pause_s = self._follow()
        except BaseException as error:
            self._failure = error

    def _follow(self) -> float:
        """Catches up; returns when to do so again. A site that sends something else than its archive gets no replica:
        what it has to say waits, and nobody else's does."""
        try:
            while self.catch_up(self._ask) and not self._ending.is_set():
                pass
        except (Unreachable, FileNotFoundError):  # it is away, or has newer files: ask again
            return _ASK_S
        except (SiteError, ArchiveError, Unreadable, ValueError, LookupError, TypeError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                print(f"gossamer: {self._site} gets no replica here: {error}", file=sys.stderr)
            return _WRONG_S
        return _ASK_S

    def catch_up(self, ask: Ask) -> bool:
        """Reports what we have, asks what there is, and fetches what is new; returns whether something was."""
        have = numbers(self._store)
        answer = decode(dict[str, list[str]], ask(Request(have=have)) or b"{}")
        new = {agent: names for agent, names in answer.items() if names and number_of(names[-1]) != have.get(agent, 0)}
        for agent, names in new.items():
            self._fetch(agent, names, ask)
        return bool(new)

    def _fetch(self, agent: str, names: list[str], ask: Ask) -> None:
        """Fetches what we lack of one agent's archive, several files at a time: far away, each request takes long."""
        there = Memory()
        for name, data in zip(names, _at_once(lambda name: _manifest(name, ask), names), strict=True):
            there.put(name, data)
        at = load(there, agent)[0]
        check_own(self._site, agent, at)
        if is_of_another_life(load(self._store, agent)[0], at):
            self._sweep(agent, set(), [])
        missing = [name for name in sorted(at.names()) if not self._store.local(name).exists()]
        _at_once(lambda name: self._keep(name, ask, at.sums.get(name)), missing)
        # One full manifest: those before it name files that may be gone.
        newest = file_name(agent, at.number)
        self._store.create(newest, sealed(at))
        self._sweep(agent, at.names(), [newest])
        self._name()

    def _keep(self, name: str, ask: Ask, known: Checksum | None) -> None:
        path = self._store.scratch(name)
        with disk_full_guard(path), path.open("wb") as file:
            for piece in pieces(name, ask, known.size if known else None, known):
                file.write(piece)
        self._store.put(name, path)

    def _sweep(self, agent: str, named: set[str], manifests: list[str]) -> None:
        """Deletes what the site no longer has; manifests first, so that none ever names what is not there. Names tell
        whose files they are."""
        for name in file_names(self._store, agent):
            if name not in manifests:
                self._store.delete(name)
        for folder in _FOLDERS[1:]:
            for name in self._store.list(folder):
                if name not in named and f"{agent}-" in name:
                    self._store.delete(name)

    def _ask(self, request: Request) -> bytes:
        if self._ending.is_set():
            raise Unreachable("we are leaving")
        data = encode(request)
        return self._wire.call(lambda link: link.ask(f"{FILES}.{self._holder}", data, _ANSWER_S), _ANSWER_S)


class Replication:
    """Runs both sides, for one site of several. Call `begin` and `close` in a thread that lives as long as they
    shall."""

    def __init__(
        self, directory: Path, site: str, names: Sequence[str], replicas: int, clock: Clock, source: Source
    ) -> None:
        """`source` is what others ask; whoever makes it has it served."""
        self._directory, self._site, self._clock, self._source = directory, site, clock, source
        self._of = [name for name in names if name != site and site in holders(names, name, replicas)]
        self._replicas: list[Replica] = []

    def begin(self, wires: Mapping[str, Wire]) -> None:
        for name in self._of:
            self._replicas.append(
                Replica(replica_of(self._directory, name), name, self._site, wires[name], self._clock)
            )

    def replicated(self, agent: str) -> int:
        for replica in self._replicas:
            replica.check()
        return self._source.replicated.get(agent, 0)

    def finish(self, patience_s: float) -> bool:
        """Gives the last commits time to reach their holders; returns whether they did."""
        end_s = self._clock.monotonic() + patience_s
        while not self._source.is_complete() and self._clock.monotonic() < end_s:
            time.sleep(_ASK_S)
        return self._source.is_complete()

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()


def _manifest(name: str, ask: Ask) -> bytes:
    if not is_served(name):
        raise SiteError(f"it shows a manifest {name!r}")
    return b"".join(pieces(name, ask, MANIFEST_BYTES))


def _at_once(work: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """Does the work for all names, some at a time. When it returns, or raises an error, nothing is under way."""
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        return list(pool.map(work, names))


def replica_of(directory: Path, site: str) -> Path:
    """Returns where a site keeps what another one has."""
    return directory / FOLDER / site


def is_of_another_life(mine: Snapshot, at: Snapshot) -> bool:
    """Returns whether a chain cannot have been as `mine` before it was as `at`: its site has come back from a replica
    that was behind. Then the same numbers, and names of files, mean other things. Each process that continues a chain
    begins an epoch, and records with which number."""
    epochs, theirs = mine.state.epochs, at.state.epochs
    if any(theirs.get(epoch, begun) != begun for epoch, begun in epochs.items()):
        return True
    begun = theirs.get(mine.epoch + 1)
    return mine.number > at.number or (begun is not None and 0 < begun <= mine.number)
