"""These functions choose pages by their value less the price of their carbon, as LEADS D1.4 (2015, section 2) does.

Production prices carbon in its refresh policies (`refresh/policies.py`, `carbon/prices.py`); the experiments choose
page by page and need no more than this.
"""

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, U64, Indices, Integers
from gossamer.carbon.energy import BYTES_PER_GB, CENTRE_KWH_PER_GB, J_PER_KWH, Energy, Lambdas
from gossamer.refresh.policies import best

LEAST_NETWORK_KWH_PER_GB = 0.001

LOW = Energy((CENTRE_KWH_PER_GB + LEAST_NETWORK_KWH_PER_GB) * J_PER_KWH / BYTES_PER_GB)
HIGH = Energy()


def refresh_weights(score: F64, change_per_s: F64, within_s: float) -> F64:
    """Y: how much a page asks to be refreshed, by its score and how likely it changes within a while; 1 on average."""
    asked = score * -np.expm1(-change_per_s * within_s)
    mean = asked.mean() if len(asked) else 0.0
    return asked / mean if mean > 0 else np.ones(len(asked))


def green_value(worth: F64, carbon: F64, lambdas: npt.ArrayLike) -> F64:
    """`carbon` is e g of a visit now; `lambdas` of its page (Lambdas.of)."""
    value: F64 = worth - np.asarray(lambdas) * carbon
    return value


def choose(values: F64, keys: Integers, count: int, idle: bool = False) -> Indices:
    """The best page for each of `count` threads. A crawler that may idle leaves pages alone that cost more than a visit
    is worth now; that of LEADS D1.4 never idles. What is forbidden (`affordable`) stays so."""
    chosen = best(values, keys, count)
    return chosen[values[chosen] >= 0] if idle else chosen[values[chosen] > -np.inf]


def affordable(values: F64, carbon: F64, left: F64, group: Integers) -> F64:
    """Prices lead to a budget, this keeps it: a visit that costs more than is left of it (per group) is forbidden.
    Group -1 has no budget."""
    return np.where((group < 0) | (carbon <= left[group]), values, -np.inf)


def within(chosen: Indices, carbon: F64, left: F64, group: Integers) -> Indices:
    """Of pages chosen together, best first, those that their groups can pay for one after the other."""
    order = np.argsort(group[chosen], kind="stable")
    sums = np.cumsum(carbon[chosen][order])
    _, first, which = np.unique(group[chosen][order], return_index=True, return_inverse=True)
    before = np.concatenate(([0.0], sums))[first][which]
    paid = np.empty(len(chosen), np.bool_)
    paid[order] = (group[chosen][order] < 0) | (sums - before <= left[group[chosen][order]] * (1 + 1e-9))
    return chosen[paid]


def shuffled(keys: U64, seed: int) -> U64:
    """Keys in an order that the seed decides (the finaliser of SplitMix64): equal values then go by chance."""
    hashed = keys ^ np.uint64(seed % 2**64)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


def free_lambdas(groups: int) -> Lambdas:
    """Carbon costs nothing yet, and the price follows the budgets."""
    return Lambdas(np.zeros(groups), np.ones(groups, np.bool_), np.zeros(groups))


def given_lambdas(value: npt.ArrayLike) -> Lambdas:
    """Prices that stay."""
    fixed = np.asarray(value, np.float64)
    return Lambdas(fixed, np.zeros(len(fixed), np.bool_), np.zeros(len(fixed)))
