"""This module estimates how often a page changes, from its visits, in 32 bytes a page.

Two visits of a page tell how long they were apart, and whether the page had changed. Of each page we count these, in
16 buckets of the interval's logarithm: columns 0 to 15 the visits that found a change, 16 to 31 those that found none.
If changes are a Poisson process with rate D, the most likely D solves

    sum over changed of t / (e^(D t) - 1)  =  sum over unchanged of t

A page seen changed only, or unchanged only, would get infinity or zero; so one changed and one unchanged visit are
added, each after half the interval that is usual at its host, or after half the shortest one after which the page had
changed, if that is less: a page that changes within hours is not taken for one that rests for days.

Where the server tells when the page was modified, a visit that found a change tells more: the page changed at that
moment, and has been quiet since. That is counted as a change after the shortest interval, and none after the rest.
"""

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, U8, Bools, Indices

BUCKETS = 16
COUNTERS = np.dtype((np.uint8, (2 * BUCKETS,)))  # of one page
FIRST_S = 64.0  # bucket b has intervals from FIRST_S * 2^b on: a minute to 48 days; shorter and longer go to the ends
_CHUNK = 1 << 14  # pages that are solved together: they fit a processor's cache
_STEPS = 40
_NEAR = 1e-3  # a step below this was the last: the error left is about its square; buckets are coarser by far


def none_counted(pages: int) -> U8:
    return np.zeros(pages, COUNTERS)


def counted(
    counters: U8,
    interval_s: npt.ArrayLike,
    changed: Bools,
    first_s: float = FIRST_S,
    quiet_s: npt.ArrayLike = np.nan,
) -> U8:
    """Returns the counters after one more visit each. When one is full, its page's are all halved: the old fades.
    `quiet_s` is how long before the visit a page was modified, if that is known. Times below `first_s` tell nothing:
    many servers give the time of their answer."""
    interval_s = np.asarray(interval_s, np.float64)
    quiet_s = np.broadcast_to(np.asarray(quiet_s, np.float64), len(counters))
    with np.errstate(invalid="ignore"):
        dated = changed & (quiet_s >= first_s) & (quiet_s < interval_s)
    bucket = _buckets(interval_s, first_s)
    new = _added(
        counters, np.where(changed, np.where(dated, 0, bucket), bucket + BUCKETS), np.ones(len(counters), np.bool_)
    )
    return _added(new, _buckets(np.where(dated, quiet_s, first_s), first_s) + BUCKETS, dated)


def _buckets(interval_s: F64, first_s: float) -> Indices:
    ratio = np.maximum(interval_s / first_s, 1.0)
    return np.minimum(np.log2(ratio), BUCKETS - 1).astype(np.intp)


def _added(counters: U8, column: Indices, which: Bools) -> U8:
    new, rows = counters.copy(), np.flatnonzero(which)
    column = np.broadcast_to(column, len(counters))[rows]
    full = new[rows, column] == np.iinfo(np.uint8).max
    new[rows[full]] >>= 1
    new[rows, column] += 1
    return new


def shortest_s(counters: U8, first_s: float = FIRST_S) -> F64:
    """Returns the shortest interval after which each page had changed, if it never had not; else nan. Such a page
    may change ever so often: the most likely rate only says how often it was visited."""
    changed = counters[:, :BUCKETS] > 0
    restless = changed.any(axis=1) & ~(counters[:, BUCKETS:] > 0).any(axis=1)
    return np.where(restless, first_s * 2.0 ** (changed.argmax(axis=1) + 0.5), np.nan)


def rates(counters: U8, prior_interval_s: npt.ArrayLike, first_s: float = FIRST_S) -> F64:
    """Returns changes per second of each page; `prior_interval_s` is the mean interval between visits at its host."""
    half_s = np.broadcast_to(np.maximum(np.asarray(prior_interval_s, np.float64), 1e-3) / 2, len(counters))
    found = np.empty(len(counters))
    for at in range(0, len(counters), _CHUNK):
        part = slice(at, at + _CHUNK)
        seen = counters[part]
        changed = seen[:, :BUCKETS] > 0
        own_s = np.where(changed.any(axis=1), first_s * 2.0 ** (changed.argmax(axis=1) - 0.5), np.inf)
        found[part] = _solved(seen.astype(np.float64), np.minimum(half_s[part], own_s), first_s)
    return found


def _solved(counters: F64, half_s: F64, first_s: float) -> F64:
    """Solves by Newton's method on the logarithm of both sides, in log D; rows that are done stay behind."""
    middle_s = first_s * 2.0 ** (np.arange(BUCKETS) + 0.5)
    changed = np.ascontiguousarray((counters[:, :BUCKETS] * middle_s).T)  # seconds, one row per bucket
    quiet_s = counters[:, BUCKETS:] @ middle_s + half_s
    used = np.flatnonzero(changed.any(axis=1))  # the other buckets need no work
    seen = counters[:, :BUCKETS].sum(axis=1) + 1
    mean_s = (changed.sum(axis=0) + half_s) / seen
    rate: F64 = np.log1p(seen * mean_s / quiet_s) / mean_s
    rows = np.arange(len(rate))
    for _ in range(_STEPS):
        left, slope = _expected(rate[rows], changed[:, rows], used, half_s[rows], middle_s[0])
        step = np.clip(left / slope * np.log(left / quiet_s[rows]), -2.0, 2.0)
        rate[rows] *= np.exp(step)
        rows = rows[np.abs(step) > _NEAR]
        if not len(rows):
            break
    return rate


def _expected(rate: F64, changed: F64, used: Indices, half_s: F64, first_s: float) -> tuple[F64, F64]:
    """Returns the left side, and minus its slope in log D. Each bucket's e^(D t) is the square of the one before: one
    exponential serves all sixteen."""
    grown = np.expm1(np.minimum(rate * half_s, 300.0))
    left = half_s / grown
    slope = left * rate * half_s * (1 + 1 / grown)
    exponent = rate * first_s
    grown = np.expm1(np.minimum(exponent, 300.0))
    bucket = 0
    for wanted in used:
        for _ in range(bucket, wanted):
            grown = np.minimum(grown * (grown + 2), 1e150)
            exponent = exponent * 2
        bucket = wanted
        term = changed[bucket] / grown
        left += term
        slope += term * exponent * (1 + 1 / grown)
    return left, slope
