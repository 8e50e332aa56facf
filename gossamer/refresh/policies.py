"""Refresh policies choose which known page to visit again: each is a pure function on columns, in one dict.

A policy gives every page a value; the largest goes first, equal ones by key. Policies of intervals and rates value a
page by its age, in intervals: from 1 on it is due. Policies of worth value a page by what a visit brings now: it is
always due, and the budget decides. So it is with rates and with adaptive intervals, where there is a budget: they say
which page is most overdue, and the budget says when it is visited. The crawl and the experiments call the same
functions.

Pages change as a Poisson process with rate D and have a weight w; the budget is R visits per second.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gossamer.arrays import F64, Bools, Indices, Integers

_STEPS = 100
_NEAR = 1e-10
PROBE = 0.25  # of the shortest interval after which a page had changed


# --- how often: rates


@dataclass(frozen=True)
class Caps:
    """`Caps` are politeness: a host takes so many visits per second, however many pages it has."""

    host: Integers  # of each page, a number from 0 on
    most_per_s: F64  # of each host


def azar_rates(change_per_s: F64, weight: F64, budget_per_s: float, caps: Caps | None = None) -> F64:
    """Returns the rates that keep most pages fresh at any time (Azar et al., PNAS 2018):
    r = max(0, sqrt(w D / price) - D). Pages that change too often for their weight are given up."""
    return _within_caps(_azar, change_per_s, weight, budget_per_s, caps)


def harmonic_rates(change_per_s: F64, weight: F64, budget_per_s: float, caps: Caps | None = None) -> F64:
    """Returns the rates that miss fewest changes, with a logarithmic penalty (Kolobov et al., NeurIPS 2019):
    r = (sqrt(D² + 4 w D / price) - D) / 2. No page starves."""
    return _within_caps(_harmonic, change_per_s, weight, budget_per_s, caps)


# A rate as a function of root = 1 / sqrt(price), and its slope. Both kinds are convex, never fall, and lie above the
# line root * sqrt(w D) - D: where that line meets the budget is to the right of the solution.
Rate = Callable[[F64, F64, F64], tuple[F64, F64]]


def _azar(root: F64, change: F64, worth: F64) -> tuple[F64, F64]:
    rate = root * worth - change
    chosen = rate > 0
    return np.where(chosen, rate, 0.0), np.where(chosen, worth, 0.0)


def _harmonic(root: F64, change: F64, worth: F64) -> tuple[F64, F64]:
    reach = np.hypot(change, 2 * root * worth)
    # The difference of two nearly equal numbers, written so that nothing is lost when the budget is small.
    rate = 2 * (root * worth) ** 2 / np.maximum(reach + change, 1e-300)
    return rate, 2 * root * worth * worth / np.maximum(reach, 1e-300)


def _within_caps(rate: Rate, change_per_s: F64, weight: F64, budget_per_s: float, caps: Caps | None) -> F64:
    """Returns rates within the caps. A page's price is the larger one of the budget's and its host's. Hosts over their
    cap get exactly that, and what they leave goes to the others, among which there may then be some over theirs: never
    more rounds than hosts."""
    change, worth = np.asarray(change_per_s, np.float64), np.sqrt(np.asarray(weight, np.float64) * change_per_s)
    everybody = np.zeros(len(change), np.intp)
    if caps is None:
        return _shared(rate, change, worth, everybody, np.array([budget_per_s]))
    capped = np.zeros(len(caps.most_per_s), np.bool_)
    rates = np.zeros(len(change))
    while True:
        free = np.flatnonzero(~capped[caps.host])
        rest = max(0.0, budget_per_s - caps.most_per_s[capped].sum())
        rates[free] = _shared(rate, change[free], worth[free], everybody[free], np.array([rest]))
        used = np.bincount(caps.host[free], rates[free], len(capped))
        over = ~capped & (used > caps.most_per_s * (1 + 1e-9))
        if not over.any():
            break
        capped |= over
    full = np.flatnonzero(capped[caps.host])
    rates[full] = _shared(rate, change[full], worth[full], caps.host[full].astype(np.intp), caps.most_per_s)
    return rates


def _shared(rate: Rate, change: F64, worth: F64, group: Indices, budget: F64) -> F64:
    """Returns rates that use up the budget of each group. Newton's method from the right on a convex function never
    overshoots, and for Azar's, which is piecewise linear, it ends in the solution itself."""
    if not len(change):
        return change.copy()
    one = len(budget) == 1

    def total(values: F64) -> F64:
        return np.array([values.sum()]) if one else np.bincount(group, values, len(budget)).astype(np.float64)

    def spread(values: F64) -> F64:
        return values if one else values[group]

    root = (budget + total(change)) / np.maximum(total(worth), 1e-300)
    for _ in range(_STEPS):
        rates, slopes = rate(spread(root), change, worth)
        over = total(rates) - budget
        if (over <= _NEAR * budget).all():
            break
        root = np.maximum(root - over / np.maximum(total(slopes), 1e-300), 0.0)
    used = total(rates)
    scale = np.divide(budget, used, out=np.zeros(len(budget)), where=used > 0)
    return rates * spread(scale)


# --- when: intervals


@dataclass(frozen=True)
class Intervals:
    """`Intervals` become shorter after a change and longer after none, between two ends."""

    shorter: float = 0.5
    longer: float = 1.5
    least_s: float = 60.0
    most_s: float = 90 * 86_400.0


def next_interval_s(policy: str, interval_s: F64, changed: Bools, rule: Intervals | None = None) -> F64:
    """Returns the interval until the next visit, after one that took place `interval_s` after the one before. Only
    "adaptive" learns."""
    if policy != "adaptive":
        return np.asarray(interval_s, np.float64).copy()
    rule = rule or Intervals()
    return np.clip(interval_s * np.where(changed, rule.shorter, rule.longer), rule.least_s, rule.most_s)


# --- what first: values


@dataclass(frozen=True)
class Pages:
    """`Pages` has what policies look at, one value a page."""

    change_per_s: F64  # estimated (refresh/change_rates.py)
    weight: F64
    age_s: F64  # since the last visit
    interval_s: F64  # of fixed and adaptive intervals
    toll: F64 | float = 0.0  # lambda times energy times carbon index (carbon/energy.py), in the unit of the worth
    caps: Caps | None = None
    probe_s: F64 | float = 0.0  # what is worth to know how often it changes, as an age; 0: nothing


@dataclass(frozen=True)
class Policy:
    name: str
    value: Callable[[Pages, float], F64]  # of a visit now; the budget in visits per second
    due_at: float = -np.inf  # pages below this value wait
    spends: bool = False  # where there is a budget, no page waits for its value
    weighs: bool = True  # the policy looks at the weight
    learns: bool = True  # the policy looks at change rates
    explores: bool = False  # the policy visits pages to learn how often they change
    is_green: bool = False  # the policy looks at the toll
    rates: Callable[[F64, F64, float, Caps | None], F64] | None = (
        None  # the value is age times these, which change slowly
    )

    def due_from(self, budget_per_s: float) -> float:
        """Returns the value from which on pages are due; the budget is inf if there is none."""
        return -np.inf if self.spends and budget_per_s < np.inf else self.due_at


def index_value(change_per_s: F64, weight: F64, age_s: F64) -> F64:
    """Returns what a visit brings beyond what its page would lose by waiting: (w / D) (1 - (1 + D t) e^(-D t)). The
    page with the largest goes first; that reaches the freshness of the best periodic schedule."""
    grown = change_per_s * age_s
    series = grown * (0.5 - grown * (1 / 3 - grown / 8))  # nothing is lost by subtraction; divided by D t
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = -(np.expm1(-grown) + grown * np.exp(-grown)) / grown
    return weight * age_s * np.where(grown < 1e-3, series, exact)


def _by_interval(pages: Pages, _budget_per_s: float) -> F64:
    return pages.age_s / pages.interval_s


def _by_azar(pages: Pages, budget_per_s: float) -> F64:
    return pages.age_s * azar_rates(pages.change_per_s, pages.weight, budget_per_s, pages.caps)


def _by_harmonic(pages: Pages, budget_per_s: float) -> F64:
    return pages.age_s * harmonic_rates(pages.change_per_s, pages.weight, budget_per_s, pages.caps)


def _by_index(pages: Pages, _budget_per_s: float) -> F64:
    return np.maximum(index_value(pages.change_per_s, pages.weight, pages.age_s), pages.weight * pages.probe_s)


def doubted(change_per_s: F64, changes: Integers) -> F64:
    """Returns rates that are lower, the fewer changes they were learned from: by one standard deviation. A page that
    seems too restless to be followed, after few visits, gets another chance to show that it is not."""
    return change_per_s * np.exp(-1 / np.sqrt(np.asarray(changes, np.float64) + 1))


def probes_s(shortest_s: F64, age_s: F64, usual_s: F64 | float) -> F64:
    """Returns which pages should be visited now to learn how often they change, as the age that such a visit is worth.
    A page that had changed at every visit is visited once after a quarter of the shortest interval so far, until a
    visit finds it unchanged (`change_rates.shortest_s`)."""
    with np.errstate(invalid="ignore"):
        now = (age_s >= shortest_s * PROBE) & (age_s < shortest_s * (2 * PROBE))
    return np.where(now, usual_s, 0.0)


def _by_staleness(pages: Pages, _budget_per_s: float) -> F64:
    return pages.weight * pages.age_s


def change_likelihood(change_per_s: F64, age_s: F64) -> F64:
    """Returns how likely it is that pages have changed since their last visit."""
    return -np.expm1(-change_per_s * age_s)


def _green(pages: Pages, budget_per_s: float) -> F64:
    """Staleness times Y, less carbon (LEADS D1.4, section 2.2): Y is importance times the likelihood of a change."""
    likely = change_likelihood(pages.change_per_s, pages.age_s)
    return likely * _by_staleness(pages, budget_per_s) - pages.toll


def _green_index(pages: Pages, budget_per_s: float) -> F64:
    return _by_index(pages, budget_per_s) - pages.toll


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        # Every page at the same interval; or sooner after a change, and later after none.
        Policy("fixed", _by_interval, 1.0, weighs=False, learns=False),
        Policy("adaptive", _by_interval, 1.0, spends=True, weighs=False, learns=False),
        # Rates that keep most pages fresh, and give up the most restless; or that miss fewest changes: no page starves.
        Policy("azar", _by_azar, 1.0, spends=True, rates=azar_rates),
        Policy("harmonic", _by_harmonic, 1.0, spends=True, rates=harmonic_rates),
        # The visit that brings most freshness now; or weight times age.
        Policy("index", _by_index, explores=True),
        Policy("stalest", _by_staleness, learns=False),
        # Weight times age times the likelihood of a change, less what its carbon costs; or the index less that.
        Policy("green", _green, is_green=True),
        Policy("green-index", _green_index, explores=True, is_green=True),
    )
}


def best(values: F64, keys: Integers, count: int) -> Indices:
    """Returns the indices of the `count` largest values, largest first, equal ones by key."""
    if count <= 0:
        return np.zeros(0, np.intp)
    if count < len(values):
        edge = np.partition(values, len(values) - count)[len(values) - count]
        above, level = np.flatnonzero(values > edge), np.flatnonzero(values == edge)
        level = level[np.argsort(keys[level], kind="stable")][: count - len(above)]
        chosen = np.concatenate((above, level))
    else:
        chosen = np.arange(len(values))
    return chosen[np.lexsort((keys[chosen], -values[chosen]))]
