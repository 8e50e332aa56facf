"""A simulated crawl consists of these columns, which compiled code shares: graph, hosts, how far it has come."""

from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np

from gossamer.arrays import F64, I32, I64, U8, Bools, Rows
from gossamer.columns import HOST, LINK, PAGE

T = TypeVar("T")

# Aligned, unlike the index's own: compiled code wants it so.
PAGE_ROW = np.dtype([*PAGE.numpy.descr, ("score", "f8")], align=True)
HOST_ROW = np.dtype(HOST.numpy.descr, align=True)
LINK_ROW = np.dtype(LINK.numpy.descr, align=True)

KEPT_LATENCY = 0.5  # of a page on a connection that is open already: one round trip instead of two
UNKNOWN, QUEUED, TAKEN_OUT = 0, 1, 2  # taken out of the frontier: to the workbench, on its way, or visited
AT_REST, WAITING, RECEIVING = 0, 1, 2
NOTHING, SUM, PARENT = 0, 1, 2  # what a page without a score of its own gets from the pages that link to it

NUMBERS = np.dtype([
    (name, "i8")
    for name in (
        "visits", "known", "active", "held", "changes", "taken", "lessons",
        "given", "pool",  # cash: what the virtual page has given each page (crawl/ledger.py), and what it has
        "batches", "batch_start", "draining", "starving", "committing", "learnt_anew",
    )
])  # fmt: skip
REALS = np.dtype(
    [(name, "f8") for name in ("time_s", "virtual_s", "speeds", "learnt_s", "topped_s", "committed_s", "cost_s")]
)


def zeros(kind: type[T], rows: int, **given: Any) -> T:
    """Makes columns of a class: those that are given, and for the others zeros of the type that is annotated."""
    missing = {name: hint for name, hint in get_type_hints(kind).items() if name not in given}
    return kind(**given, **{name: np.zeros(rows, get_args(get_args(hint)[1])[0]) for name, hint in missing.items()})


class World(NamedTuple):
    """The graph, and how far the crawl has come."""

    indptr: I64
    indices: I32
    relevance: F64  # of links, to the topic; empty if there is none
    pages: Rows  # PAGE_ROW
    hosts: Rows  # HOST_ROW
    state: U8  # of pages
    taken: I32  # of hosts: pages taken out and not yet learnt from
    scored: Bools  # pages with a score that links do not change
    page_bytes: F64
    latency_s: F64  # of hosts
    pace_s: F64  # or of the first, second, ... request to each host, as they were measured ...
    lag_s: F64  # ... and how much later than allowed each was made, if there was something to ask for
    pace_first: I64  # where a host's begin
    asked: I32  # of hosts: requests so far
    commits_s: F64  # what the commit of the seeds took, of the first round, the second, ...
    speed: F64  # of hosts, bytes per second
    number: np.void  # NUMBERS: how many there are so far
    real: np.void  # REALS
    held: I32  # visited, and not yet learnt from
    order: I32  # pages as they were visited
    time_s: F64  # when
    active_s: F64  # when the number of connections changed ...
    active: I32  # ... and what it became
    batch_of: I32  # for each visit
    touched: I32  # scratch: pages that a lesson is about ...
    mark: I32  # ... and the last lesson that each page was in


class Hosts(NamedTuple):
    """What each host's connection is doing. A host has at most one event ahead."""

    phase: U8
    page: I32  # on its way
    served: I32  # pages on this connection
    due: F64  # end of the phase: real time, or virtual time for what is being received
    waiting: I32  # heap of hosts by due
    receiving: I32  # heap of hosts by due in virtual time
    sizes: I64  # of the two
    place: I32  # of a host in the heap that it is in


class Calls(NamedTuple):
    """The strategy's own functions, compiled; pointers."""

    page_rank: Any
    host_rank: Any
    link_weight: Any


class Rules(NamedTuple):
    connections: int
    delay_s: float
    small_delay_s: float
    small_pages: int
    burst: int
    burst_delay_s: float
    bandwidth: float  # bytes per second, 0: no limit
    width: int  # pages of a batch, 0: none, what a page teaches is known at once
    early: float  # end a batch when less than this part of the connections is busy
    advance: float  # prepare the next when no more than this part of a batch is left
    host_first: bool
    virtual: bool
    damping_num: int
    damping_den: int
    gift: int
    weighted: bool
    seed: int
    soon: int  # pages of a host that are taken out while there are others; 0: as many as there are
    later: int  # and where there are not
    rounds: bool  # as production makes them (see `_make_rounds`), instead of batches
    commit_s: float  # what a commit takes that was not measured
