"""These functions choose pages by their value less the price of their carbon, as LEADS D1.4 (2015, section 2) does.

Production prices carbon in its refresh policies (`refresh/policies.py`, `carbon/prices.py`); the experiments choose
page by page and need no more than this.
"""

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, Indices, Integers
from gossamer.carbon.energy import Energy, Lambdas
from gossamer.refresh.policies import best

HIGH = Energy()


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


def free_lambdas(groups: int) -> Lambdas:
    """Carbon costs nothing yet, and the price follows the budgets."""
    return Lambdas(np.zeros(groups), np.ones(groups, np.bool_), np.zeros(groups))
