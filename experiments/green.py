"""This experiment sets staleness against carbon: what the green policy saves, and how far it is from the best.

It repeats LEADS D1.4 (2015), section 2: Figures 3 and 4, heuristics that know less, many servers, budgets.
"""

import argparse
from typing import Any

import numpy as np

from experiments import green_bound, green_budgets, green_saved, green_times
from experiments.green_simulation import FULL, HEURISTICS, Totals, Web, crawl, in_turn
from experiments.harness import Block, Results, columns, publish
from gossamer.arrays import F64
from gossamer.carbon.sun import day_index, solar_index
from gossamer.geography import coordinates
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive

PARTS = ("figures", "times", "servers", "bound", "saved", "budgets")
SLOTS_PER_DAY = 1440  # a slot is a minute, and so is the unit of staleness
SUNRISE_H, SUNSET_H = 7.5, 17.0
BEGIN_S = 1_767_225_600.0  # 1 January 2026
FIGURE_TO = 0.7  # staleness added, in the figure; the table has it all
COUNTRIES = ("US", "BR", "GB", "DE", "ZA", "IN", "CN", "JP", "AU", "MX", "FR", "KR")

SHOWN = columns("index | price: lambda | staleness | staleness_error: ± | carbon | carbon_error: ±")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=PARTS, action="append", help="only this (default: all)")
    parser.add_argument("--pages", type=positive, default=1000, metavar="N", help="of figures, servers; default: 1000")
    parser.add_argument("--lambdas", type=positive, default=21, metavar="N", help="values of lambda (default: 21)")
    parser.add_argument("--runs", type=positive, default=10, metavar="N", help="webs to simulate (default: 10)")
    parser.add_argument("--days", type=positive, default=3, metavar="N", help="measured, after two more (default: 3)")


def run(arguments: argparse.Namespace) -> int:
    own = {"figures": _figures, "servers": _servers}
    others = {"times": green_times, "bound": green_bound, "saved": green_saved, "budgets": green_budgets}
    for part in PARTS:
        if part in (arguments.part or PARTS):
            results = own[part](arguments) if part in own else others[part].results(arguments.seed)
            publish(results, arguments.out, arguments.json)
    return 0


# --- Figures 3 and 4: one server


def _figures(arguments: argparse.Namespace) -> Results:
    slots = (2 + arguments.days) * SLOTS_PER_DAY
    hours = np.arange(slots) % SLOTS_PER_DAY / 60
    indexes = {"constant": np.ones(slots), "solar day": day_index(hours, SUNRISE_H, SUNSET_H)}
    price = np.linspace(0, arguments.pages, arguments.lambdas)
    server = np.zeros(arguments.pages, np.intp)
    rows, shape, curves = [], [], []
    for name, index in indexes.items():
        staleness, carbon = _swept(arguments, price, server, index[:, None])
        rows += _price_rows(name, price, staleness, carbon)
        shape += [_convexity(name, staleness), _linearity(name, price, carbon)]
        curves.append((name, staleness.mean(axis=0), carbon.mean(axis=0)))
    unit = "of the total at lambda = 0"
    figures = (
        Figure(
            "green-staleness",
            "Figure 3: total staleness against lambda",
            "lambda, minutes per gram",
            f"staleness, {unit}",
            [Curve(name, price, stale / stale[0]) for name, stale, _ in curves],
            markers=True,
        ),
        Figure(
            "green-carbon",
            "Figure 4: total carbon against lambda",
            "lambda, minutes per gram",
            f"carbon, {unit}",
            [Curve(name, price, carbon / carbon[0]) for name, _, carbon in curves],
            markers=True,
        ),
    )
    return Results(
        "green-figures",
        f"One server, {arguments.pages:,} pages, {arguments.runs} webs",
        rows,
        SHOWN,
        notes=(
            "energies uniform in [0, 1]; staleness in minutes, summed over pages and minutes; carbon in grams",
            f"measured over {arguments.days} days, after two to settle; one download a minute, never idle",
            "solar day: sunrise 07:30, sunset 17:00, index 1, 0 at 12:15, 1",
        ),
        figures=figures,
        more=(Block("Shape", shape, {"index": "index", "curve": "curve", "statement": "statement", "here": "here"}),),
    )


def _swept(arguments: argparse.Namespace, price: F64, server: Any, index: F64) -> tuple[F64, F64]:
    """Totals of each web (rows) at each lambda (columns)."""
    random = np.random.default_rng(arguments.seed)
    shape, totals = (arguments.runs, len(price)), []
    for _ in range(arguments.runs):
        energy = np.repeat(random.random((1, arguments.pages)), len(price), axis=0)
        stale = np.repeat(in_turn(1, arguments.pages, random), len(price), axis=0)
        totals.append(crawl(Web(energy, server, index), price, FULL, stale, 2 * SLOTS_PER_DAY))
    staleness = np.concatenate([each.staleness for each in totals]).reshape(shape)
    return staleness, np.concatenate([each.carbon for each in totals]).reshape(shape)


def _price_rows(name: str, price: F64, staleness: F64, carbon: F64) -> list[dict[str, Any]]:
    return [
        {
            "part": "figures",
            "index": name,
            "price": float(price[at]),
            "staleness": float(staleness[:, at].mean()),
            "staleness_error": _error(staleness[:, at]),
            "carbon": float(carbon[:, at].mean()),
            "carbon_error": _error(carbon[:, at]),
        }
        for at in range(len(price))
    ]


def _error(values: F64) -> float:
    """Of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _convexity(name: str, staleness: F64) -> dict[str, Any]:
    second = np.diff(staleness, 2, axis=1)
    mean = second.mean(axis=0)
    error = second.std(axis=0, ddof=1) / np.sqrt(len(second)) if len(second) > 1 else np.zeros(len(mean))
    below = int((mean + 2 * error < 0).sum())
    rises = bool((np.diff(staleness.mean(axis=0)) >= 0).all())
    here = f"{'rises' if rises else 'does not always rise'}; {len(mean) - below} of {len(mean)} second differences"
    return {"index": name, "curve": "staleness", "statement": "rises, convex", "here": f"{here} not negative"}


def _linearity(name: str, price: F64, carbon: F64) -> dict[str, Any]:
    mean = carbon.mean(axis=0)
    off = mean - np.polyval(np.polyfit(price, mean, 1), price)
    fits = 1 - off.var() / mean.var() if mean.var() else 1.0
    falls = "falls" if (np.diff(mean) <= 0).all() else "does not always fall"
    here = f"{falls}; R² of a straight line {fits:.4f}, at most {np.abs(off).max() / np.ptp(mean):.1%} of its range off"
    return {"index": name, "curve": "carbon", "statement": "falls, almost linearly", "here": here}


# --- many servers, and heuristics that know less


def _servers(arguments: argparse.Namespace) -> Results:
    random = np.random.default_rng(arguments.seed)
    slots = (2 + arguments.days) * SLOTS_PER_DAY
    latitude, longitude = coordinates(COUNTRIES)
    time_s = BEGIN_S + 60.0 * np.arange(slots)
    index = solar_index(time_s[:, None], latitude, longitude)
    server = np.sort(random.integers(0, len(COUNTRIES), arguments.pages))
    price = np.concatenate(([0.0], np.geomspace(arguments.pages / 20, 8 * arguments.pages, 11)))
    energy = np.repeat(random.random((1, arguments.pages)), len(price), axis=0)
    stale = np.repeat(in_turn(1, arguments.pages, random), len(price), axis=0)
    rows, curves, base = [], [], None
    for heuristic in HEURISTICS:
        totals = crawl(Web(energy, server, index), price, heuristic, stale, 2 * SLOTS_PER_DAY)
        base = base or Totals(totals.staleness[:1].copy(), totals.carbon[:1].copy())
        staler, saved = totals.staleness / base.staleness - 1, 1 - totals.carbon / base.carbon
        rows += [
            {
                "part": "servers",
                "knows": heuristic.name,
                "price": float(price[at]),
                "staler": float(staler[at]),
                "saved": float(saved[at]),
            }
            for at in range(len(price))
        ]
        if heuristic.sizes or heuristic.index:
            curves.append(Curve(heuristic.name, staler[staler < FIGURE_TO], saved[staler < FIGURE_TO]))
    shown = {"knows": "policy knows", "price": "lambda", "staler": "staleness more", "saved": "carbon less"}
    return Results(
        "green-servers",
        f"{len(COUNTRIES)} servers around the Earth, {arguments.pages:,} pages",
        rows,
        shown,
        notes=(
            f"solar index at {', '.join(COUNTRIES)}, from 1 January on; against the stalest page first (lambda = 0)",
            "no index: takes the mean of all; no sizes: takes the mean energy; neither: the stalest page at any lambda",
            "server staleness: one number a server, as in LEADS D1.4; all servers grow, and pages come in turn",
            "a download takes one slot of a minute; in the part `times` it takes LEADS D1.4's 100 ms + size / 1 Mbit/s",
        ),
        figures=(
            Figure(
                "green-servers",
                "Carbon saved against staleness added, by what the policy knows",
                "staleness more (part)",
                "carbon less (part)",
                curves,
                markers=True,
            ),
        ),
    )
