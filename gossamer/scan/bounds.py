"""This module computes lower bounds of the makespan: no assignment can end earlier."""

import numpy as np

from gossamer.arrays import F64

_STEPS = 60  # of the search for prices
_ENOUGH = 200_000  # entries of a table for which all steps are worth their time


def shared_bound_s(times_s: F64, busy_s: F64) -> float:
    """Returns the bound for unrelated clients. One of them must scan the longest. With any prices y of clients' seconds
    that sum to 1, the makespan is at least the sum of what each website costs where it is cheapest (the dual of the
    linear relaxation). Prices are improved by steps along the subgradient; each of them gives a bound that holds.
    """
    if not len(times_s):
        return float(busy_s.max(initial=0.0))
    alone = float(max((times_s + busy_s).min(axis=1).max(), busy_s.max()))
    if times_s.shape[1] == 1:
        return float(times_s.sum() + busy_s[0])
    totals = np.maximum(times_s.sum(axis=0), 1e-300)
    price = (1 / totals) / (1 / totals).sum()
    best = alone
    steps = _STEPS if times_s.size <= _ENOUGH else 5
    for step in range(steps):
        priced = times_s * price
        cheapest = priced.argmin(axis=1)
        value = float(priced[np.arange(len(times_s)), cheapest].sum() + price @ busy_s)
        best = max(best, value)
        loads = busy_s + np.bincount(cheapest, times_s[np.arange(len(times_s)), cheapest], times_s.shape[1])
        spread = loads - loads.mean()
        scale = float(np.abs(spread).max())
        if scale <= 1e-12 * max(best, 1e-300):
            break
        # Multiplicative: prices stay positive. A client that is the cheapest for all websites becomes dearer.
        price = price * np.exp(0.3 / (1 + step) * spread / scale)
        price /= price.sum()
    return best
