"""`Namesakes` tells hosts apart whose names have the same 24 bits: of a million hosts, some 6 % have such a neighbour.

The index has one row for both, and so one count of known pages. That is enough until the count reaches a limit: then
the pages are counted by name, so that no host is full because of another one.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from gossamer.arrays import AnyKeys
from gossamer.columns import HOST_BITS, REQUISITE
from gossamer.frontier.table import Table
from gossamer.frontier.text_heap import TextHeap
from gossamer.web.url import host_of

_SHIFT = 64 - HOST_BITS
_MOST = 100_000  # hosts whose pages are counted; they take some 40 MB


class Namesakes:
    """A host's pages are read when its limit is reached; from then on new ones are added up. Of very many hosts all
    counts are forgotten, and read again where they are needed."""

    def __init__(self, pages: Table, heap: TextHeap) -> None:
        self._pages, self._heap = pages, heap
        self._known: dict[int, Counter[str]] = {}

    def known(self, host: int) -> Counter[str]:
        """Returns how many pages are known of each host with this key, by name."""
        if host not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            first, last = np.array([[host << _SHIFT], [(host + 1 << _SHIFT) - 1]], np.uint64)
            rows = self._pages.ranges(first, last)
            texts = self._heap.read(rows["text"][rows["hops"] < REQUISITE])
            self._known[host] = Counter(host_of(text.decode()) for text in texts)
        return self._known[host]

    def entered(self, hosts: AnyKeys, names: Iterable[str]) -> None:
        """Counts new pages: the key and the name of the host of each."""
        if self._known:
            for host, name in zip(hosts.tolist(), names, strict=True):
                if host in self._known:
                    self._known[host][name] += 1

    def forget(self, hosts: AnyKeys) -> None:
        """Forgets what was counted of these hosts: it has changed otherwise."""
        for host in hosts.tolist():
            self._known.pop(host, None)
