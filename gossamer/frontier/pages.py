"""The index as the crawl sees it: known pages, visited pages, their texts and their hosts, flushed as one."""

from collections.abc import Callable

import numpy as np

from gossamer import columns, config
from gossamer.archive.manifest import Changes
from gossamer.arrays import Bools, Rows
from gossamer.frontier.files import FileStore, Named
from gossamer.frontier.heap import Heap
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.kin import Kin
from gossamer.frontier.merging import Keys
from gossamer.frontier.table import Table

HOST_SHIFT = np.uint64(64 - columns.HOST_BITS)
ZONE_SHIFT = np.uint64(64 - columns.ZONE_BITS)


class PageIndex:
    """Shares of `index.memory_mb`: a sixth for the pages' overlay, a sixteenth for the visited ones' and half of that
    for what these have onward, a sixth for the frontier's candidates; the rest is work space (a merge needs twice its
    overlay for a moment)."""

    def __init__(self, pages: Table, visited: Table, onward: Table, heap: Heap, hosts: Hosts, kin: Kin) -> None:
        self.pages = pages
        self.visited = visited
        self.onward = onward
        self.heap = heap
        self.hosts = hosts
        self.kin = kin

    @classmethod
    def open(cls, store: FileStore, files: Named, settings: config.Index) -> "PageIndex":
        """What the named files say; no names, an empty index."""
        memory = settings.memory_mb << 20
        hosts = Hosts.open(store, files)
        return cls(
            Table.open(columns.PAGE, store, files, memory // 6),
            Table.open(columns.VISITED, store, files, memory // 16),
            Table.open(columns.ONWARD, store, files, memory // 32),
            Heap.open(store, files),
            hosts,
            Kin(Table.open(columns.KIN, store, files, memory // 64), hosts),
        )

    @property
    def count(self) -> int:
        """Pages known."""
        return self.pages.count

    def urls(self, rows: Rows) -> list[str]:
        """The URLs of PAGE rows."""
        return [text.decode() for text in self.heap.read(rows["text"])]

    def flush(self, store: FileStore, label: str) -> Changes:
        """Write what changed since the last flush. Once per round: the round's number names the files."""
        changes = Changes()
        for part in (self.pages, self.visited, self.onward, self.heap, self.hosts, self.kin):
            changes = changes | part.flush(store, label)
        return changes

    def retain(self, store: FileStore, label: str, keep: Callable[[Keys], Bools]) -> Changes:
        """Forget all pages and hosts but those whose host keys pass; their texts stay. Nothing may be unflushed."""
        changes = self.pages.retain(store, label, lambda rows: keep(host_of_key(rows["key"])))
        changes |= self.visited.retain(store, label, lambda rows: keep(host_of_key(rows["key"])))
        changes |= self.onward.retain(store, label, lambda rows: keep(host_of_key(rows["key"])))
        changes |= self.kin.table.retain(store, label, lambda rows: keep(host_of_key(rows["key"])))
        changes |= self.hosts.retain(store, label, lambda rows: keep(rows["host"]))
        self.kin.recount()
        return changes

    def release(self, changes: Changes) -> None:
        """After the commit: the files that it removed may go."""
        for names in changes.removed.values():
            self.pages.release(names)
            self.visited.release(names)
            self.onward.release(names)
            self.kin.release(names)
            self.heap.release(names)

    @property
    def memory_bytes(self) -> int:
        parts = (self.pages, self.visited, self.onward, self.heap, self.hosts, self.kin)
        return sum(part.memory_bytes for part in parts)


def zone_of_key(keys: Keys) -> Keys:
    """The zone of page keys."""
    return (keys >> ZONE_SHIFT).astype(np.uint8)


def zone_of_host(hosts: Keys) -> Keys:
    """The zone of the host's part of keys."""
    return (hosts >> np.uint32(columns.HOST_BITS - columns.ZONE_BITS)).astype(np.uint8)


def host_of_key(keys: Keys) -> Keys:
    """The host's part of page keys."""
    return (keys >> HOST_SHIFT).astype(np.uint32)
