"""`Queues` are the two queues of Castillo 2004, compiled: hosts on top, each with its pages.

Both are binary heaps in which an item can be found, so that a rank may rise or fall at any time. Equal ranks go by
key, as everywhere. A host is in the upper heap while it is *open* (nobody talks to it, and its delay has passed).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from gossamer.arrays import F64, I32, I64, U64, Bools

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
    sizes = np.bincount(host, minlength=hosts)
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    pages = len(key)
    return Queues(
        key,
        host,
        first,
        np.zeros(pages),
        np.zeros(pages, np.int32),
        np.full(pages, -1, np.int32),
        np.zeros(hosts, np.int32),
        np.zeros(hosts, np.int32),
        np.full(hosts, -1, np.int32),
        np.zeros(hosts),
        np.zeros(hosts, np.uint64),
        np.zeros(2, np.int64),
        np.ones(hosts, np.bool_),
    )


@njit(inline="always")
def _better(q: Queues, a: int, b: int) -> bool:
    return q.rank[a] > q.rank[b] or (q.rank[a] == q.rank[b] and q.key[a] < q.key[b])


@inlined
def _settle_page(q: Queues, host: int, at: int) -> None:
    """Move the page at this place of its host's heap to where it belongs."""
    first, size = q.first[host], q.size[host]
    page = q.pages[first + at]
    while at > 0:
        up = (at - 1) >> 1
        other = q.pages[first + up]
        if not _better(q, page, other):
            break
        q.pages[first + at] = other
        q.place[other] = at
        at = up
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _better(q, q.pages[first + down + 1], q.pages[first + down]):
            down += 1
        other = q.pages[first + down]
        if not _better(q, other, page):
            break
        q.pages[first + at] = other
        q.place[other] = at
        at = down
    q.pages[first + at] = page
    q.place[page] = at


@njit(inline="always")
def _host_better(q: Queues, a: int, b: int) -> bool:
    if q.host_rank[a] != q.host_rank[b]:
        return q.host_rank[a] > q.host_rank[b]
    return q.host_key[a] < q.host_key[b]


@inlined
def _settle_host(q: Queues, at: int) -> None:
    host, size = q.hosts[at], q.counts[0]
    while at > 0:
        up = (at - 1) >> 1
        other = q.hosts[up]
        if not _host_better(q, host, other):
            break
        q.hosts[at] = other
        q.host_place[other] = at
        at = up
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _host_better(q, q.hosts[down + 1], q.hosts[down]):
            down += 1
        other = q.hosts[down]
        if not _host_better(q, other, host):
            break
        q.hosts[at] = other
        q.host_place[other] = at
        at = down
    q.hosts[at] = host
    q.host_place[host] = at


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
                _settle_host(q, at)
        return
    q.host_rank[host] = rank
    q.host_key[host] = q.key[q.pages[q.first[host]]]
    if at < 0:
        at = q.counts[0]
        q.hosts[at] = host
        q.host_place[host] = at
        q.counts[0] += 1
    _settle_host(q, at)


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
    _settle_page(q, host, at)


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
        _settle_page(q, host, 0)
    return page


@inlined
def best_rank(q: Queues, host: int) -> float:
    """Of its pages; for a host that has some."""
    return q.rank[q.pages[q.first[host]]]
