"""This experiment compares refresh policies: freshness against budget, and what estimates of change rates are worth.

Pages change as Poisson processes with rates of a wide spread, or as a crawl of your own has recorded.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import refresh_estimates, refresh_recorded, refresh_weights
from experiments.green_choice import choose, green_value
from experiments.harness import Block, Results, Row, columns, publish
from experiments.refresh_simulation import ADAPTS, DAY_S, Poisson, Run, periodic_optimum, simulate
from gossamer.arrays import F64
from gossamer.refresh.change_rates import counted, none_counted, rates
from gossamer.refresh.policies import azar_rates, best, harmonic_rates, index_value
from gossamer.sim.figures import GREY, Curve, Figure
from gossamer.sim.numbers import positive

PARTS = ("policies", "estimates", "restless", "speed")
RESTLESS_PER_DAY, RESTLESS_PAGES, RESTLESS_VISITS, RESTLESS_RUNS = 5.0, 200, 25, 10
RESTLESS_BUDGETS = (0.1, 0.5)
BUDGETS = (0.02, 0.05, 0.1, 0.3, 1.0)
MEDIAN_PER_DAY, SPREAD = 0.1, 2.0
POLICIES = ("index", "azar", "harmonic", "stalest", "fixed", "adaptive")
BOUND = "periodic optimum"
LEARNED = ("index", "azar", "harmonic")
SHOWN = columns(
    "budget: visits per page and day | policy | freshness | spread: ± | of_optimum: of the optimum | "
    "starved: pages never visited | spent: of the budget spent"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=PARTS, action="append", help="only this (default: all)")
    parser.add_argument("--pages", type=positive, default=1_000, metavar="N", help="of a web (default: 1,000)")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="webs to simulate (default: 3)")
    parser.add_argument("--visits", type=positive, default=20, metavar="N", help="of a page, on average (default: 20)")
    parser.add_argument("--graph", type=Path, action="append", help="also what to weigh pages by, on this graph")
    parser.add_argument("--crawl", type=Path, metavar="DIR", help="also on the changes that this crawl has seen")


def run(arguments: argparse.Namespace) -> int:
    parts = arguments.part or (() if arguments.graph else PARTS)
    if "policies" in parts:
        publish(_policies(arguments), arguments.out, arguments.json)
    if "estimates" in parts:
        publish(refresh_estimates.results(arguments.seed), arguments.out, arguments.json)
    if "restless" in parts:
        publish(_restless(arguments.seed), arguments.out, arguments.json)
    if "speed" in parts:
        publish(_speed(arguments.seed), None, arguments.json)
    if arguments.graph:
        publish(refresh_weights.results(arguments.graph, arguments.seed), arguments.out, arguments.json)
    if arguments.crawl:
        publish(refresh_recorded.results(arguments.crawl, arguments.seed), arguments.out, arguments.json)
    return 0


def web(pages: int, random: np.random.Generator) -> tuple[F64, F64]:
    """Change rates and weights: most pages change every few days or weeks, some every hour; few are important."""
    return random.lognormal(np.log(MEDIAN_PER_DAY / DAY_S), SPREAD, pages), random.pareto(1.5, pages) + 1


# --- policies against budgets


def _policies(arguments: argparse.Namespace) -> Results:
    runs = _runs()
    rows = [row for budget in BUDGETS for row in _at(budget, runs, arguments)]
    return Results(
        "refresh-policies",
        f"Freshness of {arguments.pages:,} pages by refresh policy",
        rows,
        SHOWN,
        notes=(
            f"changes per page and day: lognormal, median {MEDIAN_PER_DAY}, sigma {SPREAD}; weights: Pareto, 1.5",
            "freshness: part of all weight whose copy is current, over time; the first half of a run is not counted",
            "(learned): change rates from the policy's own visits, 32 bytes a page; the others know them",
            f"adaptive: half the interval after a change, 1.5 times after none, within {ADAPTS:g} times the mean",
            "the periodic optimum is an upper bound of every schedule that knows rates, not changes",
        ),
        figures=(figure(rows),),
        more=(Block("Part of the optimum, by visits per page and day", *_side_by_side(rows)),),
    )


def _runs() -> list[tuple[str, bool]]:
    """Policies that know all change rates, then those that learn them."""
    return [(name, False) for name in POLICIES] + [(name, True) for name in LEARNED]


_BEHIND = ("stalest", "fixed", "adaptive")  # their lines stand behind the others: they are what others improve on


def figure(rows: Sequence[Row]) -> Figure:
    curves = [
        Curve(
            Run(name, 0.0, learns).label,
            np.array(BUDGETS),
            np.array([row["of_optimum"] for row in rows if row["policy"] == Run(name, 0.0, learns).label]),
            dashed=learns,
            color=GREY if name in _BEHIND else f"C{POLICIES.index(name)}",
        )
        for name, learns in _runs()
    ]
    title = "Freshness against budget, as a part of the periodic optimum"
    x, y = "visits per page and day", "freshness, part of the optimum"
    return Figure("refresh-policies", title, x, y, curves, log_x=True, markers=True)


def _side_by_side(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each policy, a column for each budget; the first row is the optimum itself."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        is_bound = row["policy"] == BOUND
        shown = found.setdefault(row["policy"], {"policy": "the optimum: freshness" if is_bound else row["policy"]})
        shown[f"{row['budget']:g}"] = row["freshness" if is_bound else "of_optimum"]
    return list(found.values()), {"policy": "policy", **{f"{budget:g}": f"{budget:g}" for budget in BUDGETS}}


def _at(budget: float, runs: list[tuple[str, bool]], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[float, ...]]] = {}
    for number in range(arguments.runs):
        random = np.random.default_rng((arguments.seed, number))
        change, weight = web(arguments.pages, random)
        per_s = budget * arguments.pages / DAY_S
        bound, _ = periodic_optimum(change, weight, per_s)
        found.setdefault(BOUND, []).append((bound, 1.0, 0.0, 1.0))
        for name, learns in runs:
            setting = Run(name, per_s, learns, arguments.visits)
            outcome = simulate(Poisson(change, weight, random), setting, np.random.default_rng(number))
            each = (outcome.freshness, outcome.freshness / bound, outcome.starved, outcome.spent)
            found.setdefault(setting.label, []).append(each)
    return [_row(budget, label, np.array(values)) for label, values in found.items()]


def _row(budget: float, label: str, values: F64) -> dict[str, Any]:
    mean = values.mean(axis=0)
    return {
        "part": "policies",
        "budget": budget,
        "policy": label,
        "freshness": float(mean[0]),
        "spread": float(values[:, 0].std(ddof=1)) if len(values) > 1 else 0.0,
        "of_optimum": float(mean[1]),
        "starved": float(mean[2]),
        "spent": float(mean[3]),
    }


# --- pages that change faster than they are visited


def _restless(seed: int) -> Results:
    rows = []
    for budget in RESTLESS_BUDGETS:
        found: dict[str, list[float]] = {}
        for number in range(RESTLESS_RUNS):
            random = np.random.default_rng((seed, number))
            change = random.lognormal(np.log(RESTLESS_PER_DAY / DAY_S), 1.0, RESTLESS_PAGES)
            weight, per_s = np.ones(RESTLESS_PAGES), budget * RESTLESS_PAGES / DAY_S
            bound, _ = periodic_optimum(change, weight, per_s)
            for name, learns, dated in (
                ("fixed", False, 0.0),
                ("index", False, 0.0),
                ("index", True, 0.0),
                ("index", True, 0.5),
            ):
                setting = Run(name, per_s, learns, RESTLESS_VISITS, dated=dated)
                outcome = simulate(Poisson(change, weight, random), setting, np.random.default_rng(number))
                label = setting.label + (", half of the pages dated" if dated else "")
                found.setdefault(label, []).append(outcome.freshness / bound)
        for label, values in found.items():
            spread = float(np.std(values, ddof=1))
            rows.append(
                {
                    "part": "restless",
                    "budget": budget,
                    "policy": label,
                    "of_optimum": float(np.mean(values)),
                    "spread": spread,
                }
            )
    return Results(
        "refresh-restless",
        f"Pages that change {RESTLESS_PER_DAY:g} times a day, and are visited less than once",
        rows,
        columns("budget: visits per page and day | policy | of_optimum: of the optimum | spread: ±"),
        notes=(
            f"{RESTLESS_PAGES} pages that weigh the same, {RESTLESS_VISITS} visits each, {RESTLESS_RUNS} webs",
            "changes per page and day: lognormal, sigma 1",
            "dated: servers tell when the page was modified",
        ),
    )


# --- a million pages


def _speed(seed: int, pages: int = 1_000_000) -> Results:
    """On one core; only printed, because machines differ."""
    random = np.random.default_rng(seed)
    change, weight = web(pages, random)
    age_s, keys, counters = random.random(pages) * 1e6, random.permutation(pages), none_counted(pages)
    carbon = random.lognormal(0, 1, pages)
    for _ in range(5):
        interval_s = random.lognormal(12, 1, pages)
        changed = random.random(pages) < -np.expm1(-change * interval_s)
        counters = counted(counters, interval_s, changed)
    work: dict[str, Callable[[], object]] = {
        "change rates from counters": lambda: rates(counters, 1e5),
        "rates of Azar et al.": lambda: azar_rates(change, weight, 0.1 * pages / DAY_S),
        "rates of Kolobov et al.": lambda: harmonic_rates(change, weight, 0.1 * pages / DAY_S),
        "the 10,000 best by index": lambda: best(index_value(change, weight, age_s), keys, 10_000),
        "the same, less their carbon": lambda: choose(
            green_value(index_value(change, weight, age_s), carbon, 1.0), keys, 10_000
        ),
    }
    rows = []
    for name, compute in work.items():
        begin, begin_cpu = time.perf_counter(), time.process_time()
        compute()
        took = {"cpu_s": time.process_time() - begin_cpu, "seconds": time.perf_counter() - begin}
        rows.append({"part": "speed", "what": name, "pages": pages, **took})
    shown = {"what": "what", "pages": "pages", "cpu_s": "seconds of a core", "seconds": "by the clock"}
    return Results("refresh-speed", "A million pages, one core", rows, shown)
