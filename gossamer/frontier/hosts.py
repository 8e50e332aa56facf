"""`Hosts` keeps hosts and registrable domains as columns in memory: how many of their pages are known and visited."""

from collections.abc import Callable

import numpy as np

from gossamer import columns
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.arrays import I64, U16, AnyKeys, Bools, Rows
from gossamer.frontier.sorted_runs import Sorted, merge_two, raw, search
from gossamer.frontier.table import Table


class Hosts:
    """There is one row per host, sorted by host, of 18 bytes: a million hosts are 22 MB. On disk it is a table like the
    others, which is read as a whole when it is opened."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._read()

    def _read(self) -> None:
        self._hosts = Sorted.of(np.concatenate([np.zeros(0, self.table.dtype), *self.table.scan()]))
        self._count_domains()

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
        self._write(rows, found)
        self._grow_domains(rows["domain"], known, ~found)

    def locate(self, hosts: AnyKeys, country: U16) -> None:
        """Sets the countries of hosts (sorted, unique); those that are not known are left out."""
        found, rows = self.look_up(hosts)
        moved = found & (rows["country"] != country)
        if moved.any():
            rows["country"] = country
            self._write(rows[moved], found[moved])

    def _write(self, rows: Rows, found: Bools) -> None:
        """Writes rows; hosts that are not `found` are new."""
        raw(self._hosts.rows)[search(self._hosts.keys, rows["host"])[1][found]] = raw(rows)[found]
        if not found.all():
            self._hosts = merge_two(self._hosts, Sorted.of(rows[~found]))
        self.table.write(rows, int((~found).sum()))

    def retain(self, store: Store, label: str, keep: Callable[[Rows], Bools]) -> Changes:
        """Keeps only rows that pass. Nothing may be unflushed."""
        changes = self.table.retain(store, label, keep)
        self._read()
        return changes

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
