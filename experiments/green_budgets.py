"""This module keeps budgets of carbon over weeks, per host, per country or for all, by prices that find themselves."""

from typing import Any

import numpy as np

from experiments.green_choice import affordable, choose, free_lambdas, green_value, within
from experiments.green_web import (
    COUNTRIES,
    DAY_S,
    HOSTS,
    HOUR_S,
    PAGES,
    VISITS_PER_DAY,
    GreenWeb,
    fresh_s,
    made,
)
from experiments.harness import Results, columns
from gossamer.arrays import F64, Indices
from gossamer.carbon.energy import GAIN, J_PER_KWH, pace
from gossamer.refresh.policies import index_value
from gossamer.sim.figures import Curve, Figure

WARM_DAYS, DAYS = 7, 7
STEP_S = 600.0
KEEP = 0.98
WEEKS = 3
CUTS = (0.8, 0.6, 0.3)  # budgets, as parts of what is spent without any
SHOWN_CUT = 0.6
SHOWN = columns(
    "budgets | cut: of the free carbon | week | spent: spent of a budget, mean | least: the least | most: the most | "
    "freshness | visits"
)


def results(seed: int) -> Results:
    web = made(seed, "mix", WARM_DAYS + WEEKS * DAYS)
    groups = {"all together": np.zeros(PAGES, np.intp), "country": web.country, "host": web.host}
    free = weeks(web, groups["all together"], None, False)[0]
    rows: list[dict[str, Any]] = []
    curves = []
    for name, group in groups.items():
        unbounded = _sums(group[free.page], free.carbon, int(group.max()) + 1)
        for part in CUTS:
            found = weeks(web, group, part * unbounded, False, WEEKS)
            for number in (1, WEEKS):
                seen = found[number - 1]
                used = _sums(group[seen.page], seen.carbon, len(unbounded)) / part / unbounded
                rows.append(_row(name, part, number, used, seen))
            if part == SHOWN_CUT and name != "host":
                prices = np.concatenate([seen.price for seen in found]) / J_PER_KWH
                curves.append(Curve(name, np.arange(0.0, len(prices)) * STEP_S / DAY_S, prices))
    return Results(
        "green-budgets",
        f"Weeks within a budget: {PAGES:,} pages, {HOSTS} hosts in {len(COUNTRIES)} countries",
        rows,
        SHOWN,
        notes=(
            f"without a budget the index policy has a freshness of {free.freshness:.4f} and makes {len(free.page):,} "
            "visits a week",
            "signal: mix; prices begin at zero, go on from week to week, and are adapted every ten minutes; what is "
            "left of a budget is spread evenly over what is left of its week; a visit that costs more is not made",
            "of the least and the most: one host of sixty has about 35 visits a week, of which one may be 5 % of its "
            "budget; it is never exceeded",
        ),
        figures=(
            Figure(
                "green-budgets",
                f"How prices find themselves: {SHOWN_CUT:.0%} of the free carbon",
                "day",
                "mean lambda (worth per J and g/kWh)",
                curves,
            ),
        ),
    )


class Week:
    """What happened."""

    def __init__(self) -> None:
        self._pages: list[Indices] = []
        self._grams: list[F64] = []
        self._prices: list[float] = []
        self._fresh = 0.0

    def add(self, web: GreenWeb, chosen: Indices, grams: F64, age_s: F64, price: float) -> None:
        self._pages.append(chosen)
        self._grams.append(grams[chosen])
        self._prices.append(price)
        fresh = web.weight * fresh_s(web.change_per_s, age_s, age_s + STEP_S)
        self._fresh += float(fresh.sum() / web.weight.sum()) / STEP_S

    @property
    def page(self) -> Indices:
        return np.concatenate(self._pages)

    @property
    def carbon(self) -> F64:
        grams: F64 = np.concatenate(self._grams)
        return grams

    @property
    def price(self) -> F64:
        return np.array(self._prices, np.float64)

    @property
    def freshness(self) -> float:
        return self._fresh / len(self._prices)


def weeks(web: GreenWeb, group: Indices, budget_g: F64 | None, idle: bool, count: int = 1) -> list[Week]:
    """With the functions of production, step by step, after a week without a budget; every week has the same, and
    prices go on."""
    groups, keys = int(group.max()) + 1, np.arange(PAGES)
    age_s = np.random.default_rng(1).random(PAGES) * PAGES / VISITS_PER_DAY * DAY_S
    prices, owed, found = free_lambdas(groups), 0.0, [Week() for _ in range(count + 1)]
    steps, before = round(DAYS * DAY_S / STEP_S), round(WARM_DAYS * DAY_S / STEP_S)
    for step in range(before + count * steps):
        number, at = (0, step) if step < before else (1 + (step - before) // steps, (step - before) % steps)
        if at == 0:
            left_g = budget_g.copy() if budget_g is not None and number else np.full(groups, np.inf)
        owed += VISITS_PER_DAY * STEP_S / DAY_S
        visits, owed = int(owed), owed % 1
        grams = web.carbon_g(int(step * STEP_S // HOUR_S))
        worth = index_value(web.change_per_s, web.weight, age_s)
        value = affordable(green_value(worth, grams, prices.of(group)), grams, left_g, group)
        chosen = within(choose(value, keys, visits, idle), grams, left_g, group)
        used_g = _sums(group[chosen], grams[chosen], groups)
        prices = prices.learned(_sums(group[chosen], worth[chosen], groups), used_g, KEEP)
        if budget_g is not None and number:
            allowed_g = pace(left_g, np.zeros(groups), at * STEP_S, STEP_S, DAYS * DAY_S)
            prices = prices.update(used_g, allowed_g, GAIN * STEP_S / (DAYS * DAY_S))
        left_g = left_g - used_g
        age_s[chosen] = 0.0
        found[number].add(web, chosen, grams, age_s, float(prices.value.mean()))
        age_s += STEP_S
    return found[1:]


def _sums(group: Indices, values: F64, groups: int) -> F64:
    sums: F64 = np.bincount(group, values, groups).astype(np.float64)
    return sums


def _row(name: str, part: float, week: int, used: F64, found: Week) -> dict[str, Any]:
    return {
        "part": "budgets",
        "budgets": name,
        "cut": part,
        "week": week,
        "spent": float(used.mean()),
        "least": float(used.min()),
        "most": float(used.max()),
        "freshness": found.freshness,
        "visits": len(found.page),
    }
