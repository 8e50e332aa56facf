"""This module has every planner by its name: functions from a task to an owner for each website."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.errors import ConfigError
from gossamer.scan import exact, search
from gossamer.scan.task import Plan, Task, loads_s

_HALVINGS = 30  # of MULTIFIT's interval
_FAR, _SMALL = 0.001, 20_000  # part of the bound, and pairs of website and client, for which a second start is tried


def deal(task: Task) -> I64:
    """Assigns round robin, as one deals cards: the order of the list, and nothing else."""
    return np.arange(task.websites, dtype=np.int64) % task.clients


def next_free(task: Task) -> I64:
    """Assigns round robin as it happens: the next website of the list goes to the client that is free first."""
    return _handed_out(task, np.arange(task.websites, dtype=np.int64))


def next_free_reversed(task: Task) -> I64:
    return _handed_out(task, np.arange(task.websites, dtype=np.int64)[::-1])


def _handed_out(task: Task, order: I64) -> I64:
    """Assigns without knowing how long a website takes: to who is free first, not to who would finish first."""
    owner = np.zeros(task.websites, np.int64)
    free_s = task.busy_s.copy()
    for i in order.tolist():
        j = int(free_s.argmin())
        owner[i] = j
        free_s[j] += task.times_s[i, j]
    return owner


def pechnikov_by_pages(task: Task) -> I64:
    return _five_steps(task.pages, task.speed)


def pechnikov_by_times(task: Task) -> I64:
    return _five_steps(task.work_s, task.speed)


def _five_steps(size: F64, speed: F64) -> I64:
    """Follows the heuristic of Pechnikov et al., section 5, step by step."""
    owner = np.full(len(size), -1, np.int64)
    largest = np.argsort(-size, kind="stable")  # step 1
    fastest = np.argsort(-speed, kind="stable")
    share = size.sum() * speed / speed.sum()  # steps 2 and 3
    taken = 0
    for j in fastest.tolist():  # step 4: the next largest until the share would be exceeded; that one goes back
        sums = size[largest[taken:]].cumsum()
        # What only rounding lifts above its share is not above it. A website that exceeds the whole share stays all the
        # same: put back, it would meet smaller shares only, and end as the last one on a slow client.
        fits = max(1, int(np.searchsorted(sums, share[j] * (1 + 1e-12), side="right")))
        owner[largest[taken : taken + fits]] = j
        taken += fits
    # Step 5: what is left, from the smallest up, to the batches in reverse order. The paper leaves open how many each
    # gets: the slowest is topped up until its share is reached, then the next; what remains at the end is dealt out.
    left = largest[taken:][::-1]
    filled = np.bincount(owner[owner >= 0], size[owner >= 0], len(speed))
    slowest, at = fastest[::-1], 0
    for j in slowest.tolist():
        while at < len(left) and filled[j] < share[j] * (1 - 1e-12):
            owner[left[at]] = j
            filled[j] += size[left[at]]
            at += 1
    for place, i in enumerate(left[at:].tolist()):
        owner[i] = slowest[place % len(slowest)]
    return owner


def lpt(task: Task) -> I64:
    """Assigns longest first to who finishes first (Graham 1969), then moves and exchanges while they help."""
    bound_s = task.bound_s()
    start = search.greedy(task.times_s, task.busy_s, search.longest_first(task.times_s))
    best = search.improved(task.times_s, task.busy_s, start, bound_s)
    gap_s = float(loads_s(task, best).max()) - bound_s
    if gap_s > _FAR * bound_s and task.times_s.size <= _SMALL:
        # Few websites per client: the search ends early from one start, and another one costs little.
        other = search.improved(task.times_s, task.busy_s, multifit(task), bound_s)
        best = min((best, other), key=lambda each: float(loads_s(task, each).max()))
    return best


def multifit(task: Task) -> I64:
    """MULTIFIT (Coffman, Garey, Johnson 1978) finds the least time limit with which first-fit decreasing places all."""
    order = search.longest_first(task.times_s)
    slowest_first = np.argsort(task.speed, kind="stable")
    best = search.greedy(task.times_s, task.busy_s, order)
    low, high = task.bound_s(), float(loads_s(task, best).max())
    for _ in range(_HALVINGS):
        if high - low <= 1e-9 * max(high, 1e-300):
            break
        middle = (low + high) / 2
        found = _first_fit(task, order, slowest_first, middle)
        if found is None:
            low = middle
        else:
            best, high = found, min(middle, float(loads_s(task, found).max()))
    return best


def _first_fit(task: Task, order: I64, clients: I64, limit_s: float) -> I64 | None:
    owner = np.zeros(task.websites, np.int64)
    loads = task.busy_s[clients].copy()
    times = task.times_s[:, clients]
    for i in order.tolist():
        fits = loads + times[i] <= limit_s
        j = int(fits.argmax())
        if not fits[j]:
            return None
        owner[i] = clients[j]
        loads[j] += times[i, j]
    return owner


@dataclass(frozen=True)
class Planner:
    name: str
    meaning: str
    place: Callable[[Task], I64 | exact.Proven]


PLANNERS: dict[str, Planner] = {
    planner.name: planner
    for planner in (
        Planner("deal", "round robin, dealt out like cards", deal),
        Planner("next-free", "round robin: the next website to the next free client", next_free),
        Planner("next-free-reversed", "the same from the list's end", next_free_reversed),
        Planner("pechnikov-pages", "the five steps of Pechnikov et al., by numbers of pages", pechnikov_by_pages),
        Planner("pechnikov-times", "the five steps of Pechnikov et al., by scan times", pechnikov_by_times),
        Planner("lpt", "longest first, then moves and exchanges while they help", lpt),
        Planner("multifit", "the least time limit under which all fit, by halving", multifit),
        Planner("unrelated", "the linear relaxation, rounded, then moves and exchanges", exact.relaxed),
        Planner("exact", "the best there is; small cases only", exact.exact),
    )
}


def plan(task: Task, planner: str = "lpt") -> Plan:
    if planner not in PLANNERS:
        raise ConfigError(f"no planner is called {planner}; there are {', '.join(PLANNERS)}")
    bound_s, note = task.bound_s(), ""
    if not task.websites:
        return Plan(planner, np.zeros(0, np.int64), task.busy_s.copy(), bound_s)
    found = PLANNERS[planner].place(task)
    if isinstance(found, exact.Proven):
        bound_s, note, found = max(bound_s, found.bound_s), found.note, found.owner
    return Plan(planner, found, loads_s(task, found), bound_s, note)
