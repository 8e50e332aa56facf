"""`Hosts` keeps hosts and registrable domains as columns in memory: how many of their pages are known and visited."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gossamer import columns
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.arrays import I64, U16, AnyKeys, Bools, Rows
from gossamer.frontier.index_files import Files, Named, by_age, put, remove
from gossamer.frontier.index_pack import Pack, age
from gossamer.frontier.run_file import Run, write_run
from gossamer.frontier.sorted_runs import Sorted, merge_two, raw, search, union

MAX_DELTAS = 32  # rounds
BASE = "index.host.base"
DELTA = "index.host.delta"


class Hosts:
    """There is one row per host, sorted by host, of 18 bytes: a million hosts are 22 MB."""

    def __init__(self) -> None:
        self._hosts = Sorted.of(np.zeros(0, columns.HOST.numpy))
        self._changed = np.zeros(0, np.uint32)
        self._files: dict[str, list[str]] = {BASE: [], DELTA: []}
        self._count_domains()

    @classmethod
    def open(cls, store: Files, files: Named) -> "Hosts":
        hosts = cls()
        for kind in (BASE, DELTA):
            for name in by_age(files.get(kind, [])):
                run = Run(name, store.local(name), columns.HOST, kind)
                hosts._hosts = merge_two(hosts._hosts, Sorted.of(run.between(0, run.count)))
                hosts._files[kind].append(name)
        hosts._count_domains()
        return hosts

    @property
    def rows(self) -> Rows:
        """All rows, as columns.HOST; read only."""
        return self._hosts.rows

    def __len__(self) -> int:
        return len(self._hosts.keys)

    def look_up(self, hosts: AnyKeys) -> tuple[Bools, Rows]:
        found, positions = search(self._hosts.keys, hosts)
        rows = np.zeros(len(hosts), columns.HOST.numpy)
        raw(rows)[found] = raw(self._hosts.take(positions[found]))
        rows["host"] = hosts
        return found, rows

    def domain_counts(self, domains: AnyKeys) -> tuple[I64, I64]:
        """Returns pages and hosts known of each domain."""
        found, positions = search(self._domains, domains)
        pages, hosts = np.zeros(len(domains), np.int64), np.zeros(len(domains), np.int64)
        pages[found] = self._domain_pages[positions[found]]
        hosts[found] = self._domain_hosts[positions[found]]
        return pages, hosts

    def grow(self, hosts: AnyKeys, domains: AnyKeys, known: I64, visited: I64) -> None:
        """Adds to the counters of hosts (sorted, unique); those not known before enter with their domain."""
        if not len(hosts):
            return
        found, rows = self.look_up(hosts)
        rows["domain"][~found] = domains[~found]
        rows["known"] += known.astype(np.uint32)
        rows["visited"] = np.clip(rows["visited"].astype(np.int64) + visited, 0, rows["known"])
        raw(self._hosts.rows)[search(self._hosts.keys, hosts)[1][found]] = raw(rows)[found]
        if not found.all():
            self._hosts = merge_two(self._hosts, Sorted.of(rows[~found]))
        self._changed = union(self._changed, hosts.astype(np.uint32))
        self._grow_domains(rows["domain"], known, ~found)

    def locate(self, hosts: AnyKeys, country: U16) -> None:
        """Sets the countries of hosts (sorted, unique); those that are not known are left out."""
        found, rows = self.look_up(hosts)
        moved = found & (rows["country"] != country)
        if moved.any():
            self._hosts.rows["country"][search(self._hosts.keys, hosts[moved])[1]] = country[moved]
            self._changed = union(self._changed, hosts[moved].astype(np.uint32))

    def urgency(self, number: int) -> float:
        return age(self._files[DELTA], number) / MAX_DELTAS

    def write_delta(self, pack: Pack) -> None:
        """Adds the changed rows to the round's pack."""
        if len(self._changed):
            path = pack.scratch(DELTA)
            self._write(path, self.look_up(self._changed)[1])
            self._files[DELTA].append(pack.add(DELTA, path))
            self._changed = np.zeros(0, np.uint32)

    def fold(self, store: Store, label: str) -> Changes:
        """Writes all rows."""
        changes = Changes()
        for kind, names in self._files.items():
            remove(changes, kind, names)
        self._files, self._changed = {BASE: [], DELTA: []}, np.zeros(0, np.uint32)
        if len(self):
            self._files[BASE] = [put(store, changes, BASE, label, lambda path: self._write(path, self.rows))[0]]
        return changes

    def retain(self, store: Store, label: str, keep: Callable[[Rows], Bools]) -> Changes:
        """Keeps only rows that pass."""
        self._hosts = Sorted.of(self.rows[keep(self.rows)])
        self._count_domains()
        return self.fold(store, label)

    def _write(self, path: Path, rows: Rows) -> None:
        write_run(path, columns.HOST, [rows], len(rows), Sorted.of(rows).bounds(), len(self))

    @property
    def memory_bytes(self) -> int:
        parts = (self._hosts.keys, self.rows, self._domains, self._domain_pages, self._domain_hosts)
        return sum(part.nbytes for part in parts)

    def _count_domains(self) -> None:
        rows = self._hosts.rows
        self._domains, inverse, counts = np.unique(rows["domain"], return_inverse=True, return_counts=True)
        self._domain_hosts: I64 = counts.astype(np.int64)
        self._domain_pages: I64 = np.zeros(len(self._domains), np.int64)
        np.add.at(self._domain_pages, inverse, rows["known"].astype(np.int64))

    def _grow_domains(self, domains: AnyKeys, known: I64, is_new: Bools) -> None:
        touched, inverse = np.unique(domains, return_inverse=True)
        found, places = search(self._domains, touched)
        if not found.all():
            new, at = touched[~found], places[~found]
            self._domains = np.insert(self._domains, at, new)
            self._domain_pages = np.insert(self._domain_pages, at, 0)
            self._domain_hosts = np.insert(self._domain_hosts, at, 0)
            places = np.searchsorted(self._domains, touched)
        np.add.at(self._domain_pages, places[inverse], known)
        np.add.at(self._domain_hosts, places[inverse], is_new.astype(np.int64))
