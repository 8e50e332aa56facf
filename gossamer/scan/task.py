"""`Task` is the input of a planner and `Plan` its result: websites, clients, seconds; and how good an assignment is."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, I64
from gossamer.errors import ConfigError

_STEPS = 60  # of the search for prices
_ENOUGH = 200_000  # entries of a table for which all steps are worth their time


@dataclass(frozen=True)
class Task:
    """`Task` has n websites for m clients. A row of `times_s` is a website, a column a client."""

    times_s: F64  # (n, m): what each website would take on each client
    speed: F64  # (m): of clients, against each other; the performance on the reference site of Pechnikov et al.
    pages: F64  # (n): sizes, for the planner that goes by them
    busy_s: F64  # (m): how long each client is occupied before it can begin

    @property
    def websites(self) -> int:
        return len(self.times_s)

    @property
    def clients(self) -> int:
        return int(self.times_s.shape[1])

    @property
    def work_s(self) -> F64:
        """Returns the time of each website on a client of mean speed: one figure where a planner wants one."""
        work: F64 = (self.times_s * self.speed).mean(axis=1) / self.speed.mean()
        return work

    def bound_s(self) -> float:
        """Returns the lower bound: no assignment ends earlier."""
        return _bound_s(self.times_s, self.busy_s)


def _bound_s(times_s: F64, busy_s: F64) -> float:
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


def task(times_s: npt.ArrayLike, *, speed: Any = None, pages: Any = None, busy_s: Any = None) -> Task:
    """Makes a task for unrelated clients: any times. Speeds are derived from them, unless given."""
    times = np.asarray(times_s, np.float64)
    if times.ndim != 2 or not times.shape[1]:
        raise ConfigError("a plan needs at least one client")
    if not (np.isfinite(times).all() and (times >= 0).all()):
        raise ConfigError("times must be finite and not negative")
    seen = 1.0 / np.maximum(times.sum(axis=0), 1e-12)
    return Task(
        times,
        np.asarray(seen / seen.max() if speed is None else speed, np.float64),
        times.mean(axis=1) if pages is None else np.asarray(pages, np.float64),
        np.zeros(times.shape[1]) if busy_s is None else np.asarray(busy_s, np.float64),
    )


@dataclass(frozen=True)
class Plan:
    """`Plan` says which client scans what, and compares that with the best that is possible."""

    planner: str
    owner: I64  # of each website: which client
    loads_s: F64  # of each client: when it has finished
    bound_s: float
    note: str = field(default="", compare=False)

    @property
    def makespan_s(self) -> float:
        return float(self.loads_s.max())

    @property
    def ratio(self) -> float:
        """Returns the makespan against the lower bound; 1 is perfect."""
        return self.makespan_s / self.bound_s if self.bound_s > 0 else 1.0


def loads_s(task: Task, owner: I64) -> F64:
    """Returns when each client has finished."""
    own = task.times_s[np.arange(task.websites), owner]
    return task.busy_s + np.bincount(owner, own, task.clients)
