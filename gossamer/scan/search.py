"""Local search improves an assignment: websites move from the client that ends last, or change places with others."""

import numpy as np

from gossamer.arrays import F64, I64

CLOSE = 1e-5  # within this part of the bound there is nothing left to win
_TURNS = 400
_PARTNERS = 12  # clients that end earliest are looked at for an exchange
_LONGEST = 400  # websites of a client that are looked at for an exchange


def greedy(times_s: F64, busy_s: F64, order: I64) -> I64:
    """Assigns one after the other to the client that would finish it first; ties go to the first client."""
    owner = np.zeros(len(times_s), np.int64)
    loads = busy_s.copy()
    for i in order.tolist():
        ends = loads + times_s[i]
        j = int(ends.argmin())
        owner[i] = j
        loads[j] = ends[j]
    return owner


def longest_first(times_s: F64) -> I64:
    """Returns the order by the time on the client that suits each website best; ties stay in the order of the list."""
    return np.argsort(-times_s.min(axis=1), kind="stable")


def improved(times_s: F64, busy_s: F64, owner: I64, bound_s: float) -> I64:
    """Returns an assignment that ends no later. Every turn takes the best move or exchange of the client that ends
    last, and the search stops where there is none: no single one of them could make that client end earlier."""
    owner = owner.copy()
    rows = np.arange(len(times_s))
    loads = busy_s + np.bincount(owner, times_s[rows, owner], times_s.shape[1])
    for _ in range(_TURNS):
        last = int(loads.argmax())
        if loads[last] <= bound_s * (1 + CLOSE):
            break
        own = np.flatnonzero(owner == last)
        found = _best(times_s, loads, owner, last, own)
        if found is None:
            break
        here, to, there = found
        owner[here] = to
        loads[last] -= times_s[here, last]
        loads[to] += times_s[here, to]
        if there >= 0:
            owner[there] = last
            loads[to] -= times_s[there, to]
            loads[last] += times_s[there, last]
    return owner


def _best(times_s: F64, loads: F64, owner: I64, last: int, own: I64) -> tuple[int, int, int] | None:
    """Returns which website goes where, and which comes back (-1: none). The later end of the two clients decides."""
    if not len(own):
        return None
    peak = loads[last] * (1 - 1e-12)
    choice: tuple[int, int, int] | None = None
    ends = loads + times_s[own]
    ends[:, last] = np.inf
    ends = np.maximum(ends, (loads[last] - times_s[own, last])[:, None])
    at = int(ends.argmin())
    here, to = divmod(at, len(loads))
    if ends[here, to] < peak:
        peak, choice = float(ends[here, to]), (int(own[here]), to, -1)
    if len(own) > _LONGEST:
        own = own[np.argsort(-times_s[own, last], kind="stable")[:_LONGEST]]
    for to in np.argsort(loads, kind="stable")[:_PARTNERS].tolist():
        if to == last:
            continue
        theirs = np.flatnonzero(owner == to)
        if not len(theirs):
            continue
        if len(theirs) > _LONGEST:
            theirs = theirs[np.argsort(-times_s[theirs, to], kind="stable")[:_LONGEST]]
        ours_s = loads[last] - times_s[own, last][:, None] + times_s[theirs, last][None, :]
        theirs_s = loads[to] + times_s[own, to][:, None] - times_s[theirs, to][None, :]
        ends = np.maximum(ours_s, theirs_s)
        at = int(ends.argmin())
        here, there = divmod(at, len(theirs))
        if ends[here, there] < peak:
            peak, choice = float(ends[here, there]), (int(own[here]), to, int(theirs[there]))
    return choice
