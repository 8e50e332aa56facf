"""`Resting` keeps the hosts that rest longer than usual: only this module writes and reads their files.

A commit adds one file, with the hosts that changed since the one before. If the files before it are not much longer, it
takes their place: each row is written about as often as the logarithm of their number, and few files stay.
"""

from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.tables import write_table
from gossamer.columns import RESTING
from gossamer.errors import ArchiveError

Rests = dict[str, tuple[float, int]]  # by host name: until when, and failures in a row

_AWAKE = (0.0, 0)  # of a host that rests no more
_LONGER = 2  # a file is replaced if it is at most so many times as long as the new rows


class Resting:
    """`Resting` has the resting hosts of one agent."""

    def __init__(self, store: Store, chain: Chain) -> None:
        self._store, self._chain = store, chain
        self._files: list[tuple[str, int]] = []  # with their rows, the oldest first
        self._kept: Rests = {}
        for name in chain.files.get(RESTING.name, ()):
            rows = read_rests(store, name)
            self._files.append((name, len(rows)))
            self._kept |= rows
        self._kept = _asleep(self._kept)
        self.hosts: Rests = {**chain.state.resting, **self._kept}

    def write(self, hosts: Rests) -> Changes:
        """Returns what the next commit must have so that these hosts rest; its state must have none."""
        new = {host: rest for host, rest in hosts.items() if self._kept.get(host) != rest}
        new |= dict.fromkeys(self._kept.keys() - hosts.keys(), _AWAKE)
        self.hosts = self._kept = hosts
        if not new:
            return Changes()
        replaced = []
        while self._files and self._files[-1][1] <= _LONGER * len(new):
            name, _ = self._files.pop()
            replaced.append(name)
            new = {**read_rests(self._store, name), **new}
        if not self._files:
            new = _asleep(new)
        columns = {
            "host": list(new),
            "until_s": [until_s for until_s, _ in new.values()],
            "failures": [failures for _, failures in new.values()],
        }
        changes = write_table(self._store, RESTING, self._chain.agent, self._chain.round, columns)
        self._files += [(name, len(new)) for name in changes.added.get(RESTING.name, ())]
        return changes | Changes({}, {RESTING.name: replaced})


def _asleep(hosts: Rests) -> Rests:
    return {host: rest for host, rest in hosts.items() if rest != _AWAKE}


class Files(Protocol):
    """Whoever reads one file needs this part of a store."""

    def local(self, name: str) -> Path: ...


def read_rests(store: Files, name: str) -> Rests:
    """Returns the hosts in one file; those that rest no more are among them, until 0."""
    try:
        rows = pq.read_table(store.local(name), columns=RESTING.names)
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{name} is missing or damaged: {error}; restore it from a copy") from None
    until_s, failures = rows["until_s"].to_pylist(), rows["failures"].to_pylist()
    return dict(zip(rows["host"].to_pylist(), zip(until_s, failures, strict=True), strict=True))
