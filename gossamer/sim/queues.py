"""`Queues` are the two queues of Castillo 2004, compiled: hosts on top, each with its pages.

Both are binary heaps in which an item can be found, so that a rank may rise or fall at any time. Equal ranks go by
key, as everywhere. A host is in the upper heap while it is *open* (nobody talks to it, and its delay has passed).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gossamer.arrays import F64, I32, I64, U64, Bools
from gossamer.sim.world import zeros

# Columns are hundreds of words as arguments, and a call that is really made copies them all.
inlined = njit(forceinline=True)


class Queues(NamedTuple):
    key: U64  # of pages
    host: I32  # of pages
    first: I64  # where a host's part of `pages` begins
    rank: F64  # of pages
    pages: I32  # the heaps of all hosts, one after the other
    place: I32  # of a page in `pages`, -1: it is not queued
    size: I32  # of each host's heap
    hosts: I32  # the upper heap
    host_place: I32
    host_rank: F64  # as in the upper heap ...
    host_key: U64  # ... and the key of the best page: pages change before their hosts are placed
    counts: I64  # 0: hosts in the upper heap, 1: pages in all
    open: Bools


def queues(key: U64, host: I32, hosts: int) -> Queues:
    """Empty ones, all hosts open."""
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(host, minlength=hosts))))
    pages = len(key)
    return zeros(
        Queues,
        hosts,
        key=key,
        host=host,
        first=first,
        rank=np.zeros(pages),
        pages=np.zeros(pages, np.int32),
        place=np.full(pages, -1, np.int32),
        host_place=np.full(hosts, -1, np.int32),
        counts=np.zeros(2, np.int64),
        open=np.ones(hosts, np.bool_),
    )


def settling(better: Callable[[Any, int, int], bool]) -> Callable[..., None]:
    """Compiles a function that moves an item of a binary heap to where it belongs. `better(by, a, b)` tells whether
    item a goes before item b."""

    @inlined
    def settle(by: Any, items: I32, place: I32, first: int, at: int, size: int) -> None:
        """`items` has the heap from `first` on, the item at place `at` of it, and `place` the place of each item."""
        item = items[first + at]
        while at > 0:
            up = (at - 1) >> 1
            other = items[first + up]
            if not better(by, item, other):
                break
            items[first + at] = other
            place[other] = at
            at = up
        while True:
            down = 2 * at + 1
            if down >= size:
                break
            if down + 1 < size and better(by, items[first + down + 1], items[first + down]):
                down += 1
            other = items[first + down]
            if not better(by, other, item):
                break
            items[first + at] = other
            place[other] = at
            at = down
        items[first + at] = item
        place[item] = at

    return settle


@njit(inline="always")
def _better(q: Queues, a: int, b: int) -> bool:
    return q.rank[a] > q.rank[b] or (q.rank[a] == q.rank[b] and q.key[a] < q.key[b])


@njit(inline="always")
def _host_better(q: Queues, a: int, b: int) -> bool:
    if q.host_rank[a] != q.host_rank[b]:
        return q.host_rank[a] > q.host_rank[b]
    return q.host_key[a] < q.host_key[b]


_settle_page, _settle_host = settling(_better), settling(_host_better)


@inlined
def place_host(q: Queues, host: int, rank: float) -> None:
    """The host ranks so, or its best page changed: it moves, enters or leaves the upper heap."""
    at = q.host_place[host]
    if q.size[host] == 0 or not q.open[host]:
        if at >= 0:
            q.counts[0] -= 1
            q.host_place[host] = -1
            last = q.hosts[q.counts[0]]
            if last != host:
                q.hosts[at] = last
                q.host_place[last] = at
                _settle_host(q, q.hosts, q.host_place, 0, at, q.counts[0])
        return
    q.host_rank[host] = rank
    q.host_key[host] = q.key[q.pages[q.first[host]]]
    if at < 0:
        at = q.counts[0]
        q.hosts[at] = host
        q.host_place[host] = at
        q.counts[0] += 1
    _settle_host(q, q.hosts, q.host_place, 0, at, q.counts[0])


@inlined
def put(q: Queues, page: int, rank: float) -> None:
    """Queue a page, or change its rank. Its host must be placed afterwards."""
    host = q.host[page]
    q.rank[page] = rank
    at = q.place[page]
    if at < 0:
        at = q.size[host]
        q.pages[q.first[host] + at] = page
        q.size[host] += 1
        q.counts[1] += 1
    _settle_page(q, q.pages, q.place, q.first[host], at, q.size[host])


@inlined
def pop(q: Queues, host: int) -> int:
    """Take the best page of a host. The host must be placed afterwards."""
    first = q.first[host]
    page = q.pages[first]
    q.place[page] = -1
    q.size[host] -= 1
    q.counts[1] -= 1
    if q.size[host]:
        last = q.pages[first + q.size[host]]
        q.pages[first] = last
        q.place[last] = 0
        _settle_page(q, q.pages, q.place, first, 0, q.size[host])
    return page


@inlined
def best_rank(q: Queues, host: int) -> float:
    """Of its pages; for a host that has some."""
    return q.rank[q.pages[q.first[host]]]
