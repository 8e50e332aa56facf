"""This module visits a web again and again, by a refresh policy, in simulated time: how fresh does it stay?

It makes one visit at a time, at equal distances; which one is decided by the functions that production calls
(refresh/policies.py), with true change rates or with those learned from the visits made (refresh/change_rates.py).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gossamer.arrays import F64, Bools, Indices
from gossamer.refresh.change_rates import counted, none_counted, rates, shortest_s
from gossamer.refresh.policies import POLICIES, Intervals, Pages, best, doubted, next_interval_s, probes_s

DAY_S = 86_400.0
ADAPTS = 10.0  # adaptive intervals are at most so many times shorter or longer than the mean one
_LOOKS = 40  # times per round of all pages that estimates and rates are computed anew


class World(Protocol):
    @property
    def weight(self) -> F64: ...

    @property
    def change_per_s(self) -> F64:
        """The truth, as far as there is one."""

    def changed(self, pages: Indices, last_s: F64, now_s: float) -> Bools:
        """Whether each has changed since its last visit."""

    def quiet_s(self, pages: Indices, last_s: F64, now_s: float) -> F64:
        """How long before now each has changed last, if it has since its last visit."""

    def fresh_s(self, pages: Indices, last_s: F64, from_s: F64, to_s: float) -> F64:
        """How long, between two times, our copy of each was the current one."""


@dataclass(frozen=True)
class Poisson:
    """Pages that change at random with known rates. Freshness is the expected one, given the visits: nothing after a
    visit depends on whether the page changed since, so this has the same mean as counting and far less noise."""

    change_per_s: F64
    weight: F64
    random: np.random.Generator

    def changed(self, pages: Indices, last_s: F64, now_s: float) -> Bools:
        return self.random.random(len(pages)) < -np.expm1(-self.change_per_s[pages] * (now_s - last_s))

    def quiet_s(self, pages: Indices, last_s: F64, now_s: float) -> F64:
        change = self.change_per_s[pages]
        return -np.log1p(self.random.random(len(pages)) * np.expm1(-change * (now_s - last_s))) / change

    def fresh_s(self, pages: Indices, last_s: F64, from_s: F64, to_s: float) -> F64:
        change = self.change_per_s[pages]
        begins = np.exp(-change * (from_s - last_s))
        return begins * -np.expm1(-change * (to_s - from_s)) / change


@dataclass(frozen=True)
class Recorded:
    """Pages that changed at known times; the rates are those of the whole record, which no policy could know."""

    begin: Indices  # of page j the changes begin[j] to begin[j + 1] of time_s, sorted
    time_s: F64
    weight: F64
    length_s: float

    @property
    def change_per_s(self) -> F64:
        return (np.diff(self.begin) + 0.5) / self.length_s

    def changed(self, pages: Indices, last_s: F64, now_s: float) -> Bools:
        return self._next(pages, last_s) <= now_s

    def quiet_s(self, pages: Indices, *_: object) -> F64:
        return np.full(len(pages), np.nan)  # nobody saw when exactly

    def fresh_s(self, pages: Indices, last_s: F64, from_s: F64, to_s: float) -> F64:
        return np.maximum(np.minimum(self._next(pages, last_s), to_s) - from_s, 0.0)

    def _next(self, pages: Indices, last_s: F64) -> F64:
        """The first change after a visit."""
        found = np.full(len(pages), np.inf)
        for place, (page, last) in enumerate(zip(pages.tolist(), last_s.tolist(), strict=True)):
            times = self.time_s[self.begin[page] : self.begin[page + 1]]
            at = np.searchsorted(times, last, "right")
            if at < len(times):
                found[place] = times[at]
        return found


@dataclass(frozen=True)
class Run:
    policy: str
    budget_per_s: float
    learns: bool = False  # rates from its own visits, not the truth
    visits_per_page: float = 30.0
    warm: float = 0.5  # the part of the run that is not measured
    dated: float = 0.0  # part of the pages whose server says when they changed last

    @property
    def label(self) -> str:
        return self.policy + (" (learned)" if self.learns else "")


@dataclass(frozen=True)
class Outcome:
    freshness: float  # part of all weight whose copy is current, over time
    visits: int
    starved: float  # part of the pages never visited while measured
    spent: float  # part of the visits that the budget allowed while measured
    change_per_s: F64  # as believed at the end


def simulate(world: World, run: Run, random: np.random.Generator, end_s: float | None = None) -> Outcome:
    """`end_s`: of a record; else the run lasts for `visits_per_page`."""
    pages = len(world.weight)
    step_s = 1 / run.budget_per_s
    steps = max(1, int(end_s * run.budget_per_s) if end_s else round(run.visits_per_page * pages))
    state = _State(world, run, random)
    begin_s = steps * run.warm * step_s
    credit = 0.0
    for step in range(1, steps + 1):
        credit = min(credit + 1.0, 50.0)  # a policy that waits may catch up a little
        for page in state.due(step * step_s, int(credit), step):
            credit -= 1
            state.visit(page, step * step_s, begin_s)
    return state.outcome(steps * step_s, begin_s)


class _State:
    def __init__(self, world: World, run: Run, random: np.random.Generator) -> None:
        self._world, self._run = world, run
        self._policy = POLICIES[run.policy]
        pages = len(world.weight)
        mean_s = pages / run.budget_per_s
        self._keys = random.permutation(pages)
        self._every = np.arange(pages)
        self._last_s = -random.random(pages) * mean_s
        self._interval_s = np.full(pages, mean_s)
        self._rule = Intervals(least_s=mean_s / ADAPTS, most_s=mean_s * ADAPTS)
        self._counters, self._mean_s = none_counted(pages), mean_s
        self._touched: list[int] = []
        self._shortest_s, self._changes = np.full(pages, np.nan), np.zeros(pages, np.int64)
        self._dated = random.random(pages) < run.dated if run.dated else np.zeros(pages, np.bool_)
        self._change = world.change_per_s if not run.learns else rates(self._counters, mean_s)
        self._rates: F64 | None = None
        self._look = max(1, pages // _LOOKS)
        self._fresh_s, self._visits = np.zeros(pages), np.zeros(pages, np.int64)

    def due(self, now_s: float, count: int, step: int) -> Indices:
        if step % self._look == 1 or self._look == 1:
            self._learn()
        age_s = now_s - self._last_s
        if self._policy.rates:
            if self._rates is None:
                self._rates = self._policy.rates(self._change, self._world.weight, self._run.budget_per_s, None)
            values = age_s * self._rates
        else:
            change, probe_s = self._change, np.zeros(len(age_s))
            if self._run.learns and self._policy.explores:
                change = doubted(change, self._changes)
                probe_s = probes_s(self._shortest_s, age_s, self._mean_s)
            rows = Pages(change, self._world.weight, age_s, self._interval_s, probe_s=probe_s)
            values = self._policy.value(rows, self._run.budget_per_s)
        chosen = best(values, self._keys, count)
        return chosen[values[chosen] >= self._policy.due_from(self._run.budget_per_s)]

    def visit(self, page: int, now_s: float, begin_s: float) -> None:
        one = self._every[page : page + 1]
        last_s = self._last_s[one]
        if now_s > begin_s:
            self._fresh_s[one] += self._world.fresh_s(one, last_s, np.maximum(last_s, begin_s), now_s)
            self._visits[page] += 1
        if self._run.learns or self._run.policy == "adaptive":
            changed = self._world.changed(one, last_s, now_s)
            self._interval_s[one] = next_interval_s(self._run.policy, self._interval_s[one], changed, self._rule)
            if self._run.learns:
                quiet_s = self._world.quiet_s(one, last_s, now_s) if self._dated[page] else np.nan
                self._counters[one] = counted(self._counters[one], now_s - last_s, changed, quiet_s=quiet_s)
                self._touched.append(page)
                self._changes[one] += changed
        self._last_s[page] = now_s

    def _learn(self) -> None:
        if self._touched:
            pages = np.unique(self._touched)
            self._change[pages] = rates(self._counters[pages], self._mean_s)
            self._shortest_s[pages] = shortest_s(self._counters[pages])
            self._touched, self._rates = [], None

    def outcome(self, end_s: float, begin_s: float) -> Outcome:
        last = self._world.fresh_s(self._every, self._last_s, np.maximum(self._last_s, begin_s), end_s)
        weight = self._world.weight
        fresh = float((weight * (self._fresh_s + last)).sum() / weight.sum() / (end_s - begin_s))
        visits = int(self._visits.sum())
        spent = visits / ((end_s - begin_s) * self._run.budget_per_s)
        return Outcome(fresh, visits, float((self._visits == 0).mean()), spent, self._change)


# --- the best that is possible


def periodic_optimum(change_per_s: F64, weight: F64, budget_per_s: float) -> tuple[float, F64]:
    """Freshness and rates of the best schedule of equal intervals, an upper bound of all schedules: every visited page
    has the same index value when it is visited, (w / D) (1 - (1 + x) e^-x) with x = D / r."""
    low, high = 0.0, float((weight / change_per_s).max())
    for _ in range(200):
        price = (low + high) / 2
        spent = _rates_at(price, change_per_s, weight)
        low, high = (price, high) if spent.sum() > budget_per_s else (low, price)
    chosen = _rates_at(high, change_per_s, weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        fresh = np.where(chosen > 0, -np.expm1(-change_per_s / chosen) * chosen / change_per_s, 0.0)
    return float((weight * fresh).sum() / weight.sum()), chosen


def _rates_at(price: float, change_per_s: F64, weight: F64) -> F64:
    level = price * change_per_s / weight
    possible = level < 1
    level = np.where(possible, level, 0.5)
    grown = np.where(level < 0.1, np.sqrt(2 * level), 1.0)
    for _ in range(60):  # 1 - (1 + x) e^-x = level; its slope is x e^-x
        off = -np.expm1(-grown) - grown * np.exp(-grown) - level
        grown = np.clip(grown - off / np.maximum(grown * np.exp(-grown), 1e-300), grown / 4, grown + 2)
    return np.where(possible, change_per_s / grown, 0.0)
