"""These planners solve linear programs with scipy: exactly for small cases, and rounded for unrelated clients."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.errors import ConfigError
from gossamer.scan import search
from gossamer.scan.task import Task, loads_s

MOST = 400  # websites x clients that the exact planner accepts
MOST_RELAXED = 50_000
_LIMIT_S = 20.0
_MISSING = "this planner needs scipy: pip install 'gossamer-crawler[lab]' (the planner lpt does not)"


@dataclass(frozen=True)
class Proven:
    """`Proven` is an assignment, with the bound that the solver proved."""

    owner: I64
    bound_s: float
    note: str = ""


def exact(task: Task) -> Proven:
    """Minimises the makespan T as an integer program: every website once, every client within T."""
    if task.websites * task.clients > MOST:
        raise ConfigError(
            f"the planner exact takes up to {MOST} pairs of website and client, not {task.websites} x {task.clients}; "
            "the planner lpt takes any number"
        )
    found = _solved(task, integer=True)
    if found.x is None:  # out of time before anything was found
        return Proven(_lpt(task), 0.0, "the solver ran out of time; this is lpt's")
    owner = _shares(task, found.x).argmax(axis=1)
    best = search.improved(task.times_s, task.busy_s, owner, 0.0)
    proof = float(found.mip_dual_bound) * (1 - 1e-9) if found.mip_dual_bound is not None else 0.0
    return Proven(best, max(0.0, proof), "" if found.status == 0 else "the solver ran out of time: not proven")


def relaxed(task: Task) -> Proven:
    """Solves the relaxation in which websites may be divided: it divides at most clients - 1 of them (Lenstra, Shmoys,
    Tardos 1990). Those go, longest first, to the client that finishes them first; then moves and exchanges follow, from
    here and from lpt's start."""
    if task.websites * task.clients > MOST_RELAXED:
        raise ConfigError(
            f"the planner unrelated takes up to {MOST_RELAXED:,} pairs of website and client, not "
            f"{task.websites} x {task.clients}; the planner lpt takes any number"
        )
    found = _solved(task, integer=False)
    if found.x is None:
        return Proven(_lpt(task), 0.0, "the relaxation was not solved; this is lpt's")
    shares = _shares(task, found.x)
    owner = shares.argmax(axis=1)
    is_whole = shares.max(axis=1) > 1 - 1e-6
    own_s = np.where(is_whole, task.times_s[np.arange(task.websites), owner], 0.0)
    busy_s = task.busy_s + np.bincount(owner, own_s, task.clients)
    divided = np.flatnonzero(~is_whole)
    parts = task.times_s[divided]
    owner[divided] = search.greedy(parts, busy_s, search.longest_first(parts))
    bound_s = float(found.fun) * (1 - 1e-9)
    tries = [search.improved(task.times_s, task.busy_s, start, bound_s) for start in (owner, _lpt(task))]
    return Proven(min(tries, key=lambda each: float(loads_s(task, each).max())), bound_s)


def _lpt(task: Task) -> I64:
    return search.greedy(task.times_s, task.busy_s, search.longest_first(task.times_s))


def _shares(task: Task, x: F64) -> F64:
    return np.asarray(x[:-1]).reshape(task.websites, task.clients)


def _solved(task: Task, integer: bool) -> Any:
    """Returns the solution: x[i, j], row by row, then T."""
    try:
        optimize, sparse = import_module("scipy.optimize"), import_module("scipy.sparse")
    except ImportError:
        raise ConfigError(_MISSING) from None
    n, m = task.times_s.shape
    pair = np.arange(n * m)
    # Seconds in the order of 1: solvers have absolute tolerances.
    scale = float(max(task.times_s.max(initial=0.0), task.busy_s.max())) or 1.0
    once = sparse.csr_array((np.ones(n * m), (pair // m, pair)), shape=(n, n * m + 1))
    values = np.concatenate((task.times_s.ravel() / scale, np.full(m, -1.0)))
    rows = np.concatenate((pair % m, np.arange(m)))
    columns = np.concatenate((pair, np.full(m, n * m)))
    within = sparse.csr_array((values, (rows, columns)), shape=(m, n * m + 1))
    constraints = [
        optimize.LinearConstraint(once, 1, 1),
        optimize.LinearConstraint(within, -np.inf, -task.busy_s / scale),
    ]
    goal = np.zeros(n * m + 1)
    goal[-1] = 1.0
    found = optimize.milp(
        goal,
        constraints=constraints,
        integrality=np.append(np.full(n * m, int(integer)), 0),
        bounds=optimize.Bounds(0, np.append(np.ones(n * m), np.inf)),
        options={"time_limit": _LIMIT_S, "mip_rel_gap": 1e-9},
    )
    if found.x is not None:
        found.fun = float(found.fun) * scale
        if found.mip_dual_bound is not None:
            found.mip_dual_bound = float(found.mip_dual_bound) * scale
    return found
