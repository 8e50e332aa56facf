"""What a simulated crawl consists of, as columns that compiled code shares: graph, hosts, how far it has come."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossamer.columns import HOST, LINK, PAGE
from gossamer.sim.queues import F8, I4

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Aligned, unlike the index's own: compiled code wants it so.
PAGE_ROW = np.dtype([*PAGE.numpy.descr, ("score", "f8")], align=True)
HOST_ROW = np.dtype(HOST.numpy.descr, align=True)
LINK_ROW = np.dtype(LINK.numpy.descr, align=True)

KEPT_LATENCY = 0.5  # of a page on a connection that is open already: one round trip instead of two
UNKNOWN, QUEUED, TAKEN_OUT = 0, 1, 2  # taken out of the frontier: to the workbench, on its way, or visited
AT_REST, WAITING, RECEIVING = 0, 1, 2
NOTHING, SUM, PARENT = 0, 1, 2  # what a page without a score of its own gets from the pages that link to it

# Places in World.number
VISITS, KNOWN, V, POOL, ACTIVE, HELD, CHANGES, DRAINING, BATCHES, BATCH_START, TAKEN, STARVING = range(12)
COMMITTING, LESSONS, LEARNT_ANEW = 12, 13, 14
NUMBERS = 15
# Places in World.real
TIME, VIRTUAL_TIME, SPEEDS, LEARNT, TOPPED, COMMITTED, COST = range(7)
REALS = 7


class World(NamedTuple):
    """The graph, and how far the crawl has come."""

    indptr: I8
    indices: I4
    relevance: F8  # of links, to the topic; empty if there is none
    pages: npt.NDArray[np.void]  # PAGE_ROW
    hosts: npt.NDArray[np.void]  # HOST_ROW
    state: npt.NDArray[np.uint8]  # of pages
    taken: I4  # of hosts: pages taken out and not yet learnt from
    scored: Mask  # pages with a score that links do not change
    page_bytes: F8
    latency_s: F8  # of hosts
    pace_s: F8  # or of the first, second, ... request to each host, as they were measured ...
    lag_s: F8  # ... and how much later than allowed each was made, if there was something to ask for
    pace_first: I8  # where a host's begin
    asked: I4  # of hosts: requests so far
    commits_s: F8  # what the commit of the seeds took, of the first round, the second, ...
    speed: F8  # of hosts, bytes per second
    number: I8
    real: F8
    held: I4  # visited, and not yet learnt from
    order: I4  # pages as they were visited
    time_s: F8  # when
    active_s: F8  # when the number of connections changed ...
    active: I4  # ... and what it became
    batch_of: I4  # for each visit
    touched: I4  # scratch: pages that a lesson is about ...
    mark: I4  # ... and the last lesson that each page was in


class Hosts(NamedTuple):
    """What each host's connection is doing. A host has at most one event ahead."""

    phase: npt.NDArray[np.uint8]
    page: I4  # on its way
    served: I4  # pages on this connection
    due: F8  # end of the phase: real time, or virtual time for what is being received
    waiting: I4  # heap of hosts by due
    receiving: I4  # heap of hosts by due in virtual time
    sizes: I8  # of the two


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
