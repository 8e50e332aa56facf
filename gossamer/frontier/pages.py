"""`PageIndex` is the index of the crawl: known pages, visited pages, their texts and their hosts, flushed as one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gossamer import columns, config
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.zones import FIRST_BITS, LAST_BITS, ZONES_IN_ALL
from gossamer.arrays import AnyKeys, Bools, Rows
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.index_files import Named
from gossamer.frontier.index_pack import flush
from gossamer.frontier.namesakes import Namesakes
from gossamer.frontier.table import Table
from gossamer.frontier.text_heap import TextHeap
from gossamer.frontier.wildcard_traps import WildcardTraps

HOST_SHIFT = np.uint64(64 - columns.HOST_BITS)
_LAST, _FIRST = np.uint32((1 << LAST_BITS) - 1), np.uint32(FIRST_BITS)
_REST = np.uint32(columns.HOST_BITS - FIRST_BITS)


@dataclass(eq=False)
class PageIndex:
    """It divides `index.memory_mb`: a sixth for the pages' overlay, a sixteenth for the visited ones' and half of that
    for what these have onward, a sixth for the frontier's candidates; the rest is work space (a merge needs twice its
    overlay for a moment)."""

    pages: Table
    visited: Table
    onward: Table
    heap: TextHeap
    hosts: Hosts
    traps: WildcardTraps

    def __post_init__(self) -> None:
        self.namesakes = Namesakes(self.pages, self.heap)

    @classmethod
    def open(cls, store: Store, files: Named, settings: config.Index) -> "PageIndex":
        """Opens the named files; without names the index is empty."""
        memory = settings.memory_mb << 20
        hosts = Hosts(Table.open(columns.HOST, store, files, memory // 64))
        return cls(
            Table.open(columns.PAGE, store, files, memory // 6),
            Table.open(columns.VISITED, store, files, memory // 16),
            Table.open(columns.ONWARD, store, files, memory // 32),
            TextHeap.open(store, files),
            hosts,
            WildcardTraps(Table.open(columns.KIN, store, files, memory // 64), hosts),
        )

    @property
    def count(self) -> int:
        """The number of known pages."""
        return self.pages.count

    def urls(self, rows: Rows) -> list[str]:
        """Returns the URLs of PAGE rows."""
        return [text.decode() for text in self.heap.read(rows["text"])]

    def flush(self, store: Store, label: str) -> Changes:
        """Writes what changed since the last flush. Once per round: the round's number names the files."""
        return flush(self._parts, store, label)

    def retain(self, store: Store, label: str, keep: Callable[[AnyKeys], Bools]) -> Changes:
        """Forgets all pages and hosts but those whose host keys pass; their texts stay. Nothing may be unflushed."""
        changes = Changes()
        for table in (self.pages, self.visited, self.onward, self.traps.table):
            changes |= table.retain(store, label, lambda rows: keep(host_of_key(rows["key"])))
        changes |= self.hosts.retain(store, label, lambda rows: keep(rows["host"]))
        self.traps.recount()
        self.namesakes = Namesakes(self.pages, self.heap)
        return changes

    def release(self, changes: Changes) -> None:
        """Lets go of the files that a commit has removed."""
        for names in changes.removed.values():
            for part in self._parts:
                part.release(names)

    @property
    def memory_bytes(self) -> int:
        return sum(part.memory_bytes for part in (*self._parts, self.hosts))

    @property
    def _parts(self) -> tuple[Table | TextHeap, ...]:
        return self.pages, self.visited, self.onward, self.traps.table, self.hosts.table, self.heap


def zone_of_host(hosts: AnyKeys) -> AnyKeys:
    """Returns the zone of host keys."""
    keys = hosts.astype(np.uint32)
    return (keys & _LAST) << _FIRST | keys >> _REST


def zone_of_key(keys: AnyKeys) -> AnyKeys:
    """Returns the zone of page keys."""
    return zone_of_host(keys >> HOST_SHIFT)


def is_in(zones: Iterable[int]) -> Bools:
    """Returns for each zone whether it is one of these."""
    found = np.zeros(ZONES_IN_ALL, np.bool_)
    found[list(zones)] = True
    return found


def host_of_key(keys: AnyKeys) -> AnyKeys:
    """Returns the host's part of page keys."""
    return (keys >> HOST_SHIFT).astype(np.uint32)
