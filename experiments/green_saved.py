"""This module sets carbon saved against freshness lost, and splits it among page sizes, countries and hours."""

from itertools import chain, combinations, permutations
from typing import Any

import numpy as np

from experiments.green_choice import green_value
from experiments.green_web import COUNTRIES, DAY_S, HOUR_S, PAGES, VISITS_PER_DAY, GreenWeb, fresh_s, made
from experiments.harness import Block, Results, columns
from gossamer.arrays import F64
from gossamer.refresh.policies import index_value
from gossamer.sim.figures import Curve, Figure

KNOWN = ("sizes", "country", "hour")
WARM_DAYS, DAYS = 14, 28
CUTS = (0.2, 0.4, 0.6)
FIGURE_TO = 0.08
LOST = 0.01  # freshness that the split may cost
SHOWN = columns("signal | knows: policy knows | price: lambda | freshness | lost: freshness lost | saved: carbon saved")
Sets = tuple[tuple[str, ...], ...]


def results(seed: int) -> Results:
    subsets: Sets = tuple(chain.from_iterable(combinations(KNOWN, size) for size in range(1, len(KNOWN) + 1)))
    rows: list[dict[str, Any]] = []
    for kind in ("solar", "mix"):
        web = made(seed, kind, WARM_DAYS + DAYS)
        rows += _swept(web, kind, subsets)
    whole = ", ".join(KNOWN)
    cuts = [_cost(rows, kind, cut) for kind in ("solar", "mix") for cut in CUTS]
    split = [_split(rows, kind) for kind in ("solar", "mix")]
    curves = [
        Curve(
            f"{row_set} ({kind})",
            *_nearby(*_curve(rows, kind, row_set)),
            dashed=kind == "mix",
        )
        for kind, row_set in [("solar", ", ".join(each)) for each in subsets] + [("mix", whole)]
    ]
    return Results(
        "green-saved",
        f"Freshness index less lambda e g: {PAGES:,} pages in {len(COUNTRIES)} countries",
        rows,
        SHOWN,
        notes=(
            f"{', '.join(COUNTRIES)}; {VISITS_PER_DAY:g} visits a day, 12 or 13 an hour, never idle; {DAYS} days in "
            f"April after {WARM_DAYS} to settle",
            "sizes: lognormal, median 30 KB, sigma 1.2; solar: country mean by night, nothing at noon; mix: country "
            "mean, lower by day by the sun's share of its power",
            "what a policy does not know it takes to be as on average",
            f"the split: carbon saved at {LOST:.0%} less freshness, each part what it adds on average over all orders",
        ),
        figures=(
            Figure(
                "green-saved",
                "Carbon saved against freshness lost",
                "freshness lost (part)",
                "carbon saved (part)",
                curves,
                markers=True,
            ),
        ),
        more=(
            Block("What a cut costs", cuts, {"signal": "signal", "saved": "carbon saved", "lost": "freshness lost"}),
            Block(
                f"Where it comes from, at {LOST:.0%} less freshness",
                split,
                {"signal": "signal", "all": "carbon saved", "sizes": "sizes", "country": "country", "hour": "hour"},
            ),
        ),
    )


def _swept(web: GreenWeb, kind: str, subsets: Sets) -> list[dict[str, Any]]:
    """Every subset at every lambda, all at once: a row of each array is a run. Lambda is in units of what a visit is
    worth per gram when carbon costs nothing."""
    unit = _unit(web)
    prices = np.concatenate(([0.0], np.geomspace(0.05, 20.0, 9)))
    runs = [(subset, price) for subset in subsets for price in prices]
    price = np.array([each for _, each in runs]) * unit
    freshness, carbon = simulate(web, price, [subset for subset, _ in runs])
    return [
        {
            "part": "saved",
            "signal": kind,
            "knows": ", ".join(subset),
            "price": float(each),
            "freshness": float(fresh),
            "lost": float(1 - fresh / freshness[0]),
            "saved": float(1 - spent / carbon[0]),
        }
        for (subset, each), fresh, spent in zip(runs, freshness, carbon, strict=True)
    ]


def _unit(web: GreenWeb) -> float:
    age_s = PAGES / VISITS_PER_DAY * DAY_S
    worth = index_value(web.change_per_s, web.weight, np.full(PAGES, age_s))
    return float(worth.mean() / web.carbon_g(0).mean())


def believed(web: GreenWeb, knows: tuple[str, ...]) -> F64:
    """Carbon of a visit, hours x pages, as a policy sees it that knows only so much."""
    energy_j = web.energy_j if "sizes" in knows else np.full(PAGES, web.energy_j.mean())
    mean = web.g_per_kwh.mean(axis=0)
    level = mean if "country" in knows else np.full(len(mean), mean.mean())
    shape = web.g_per_kwh / mean if "hour" in knows else np.ones(web.g_per_kwh.shape)
    grams: F64 = (level * shape)[:, web.country] * energy_j / 3.6e6
    return grams


def simulate(web: GreenWeb, price: F64, knows: list[tuple[str, ...]]) -> tuple[F64, F64]:
    """Freshness and carbon of each run."""
    seen = {each: believed(web, each) for each in dict.fromkeys(knows)}
    runs = len(price)
    age_s = np.repeat(np.random.default_rng(1).random((1, PAGES)) * PAGES / VISITS_PER_DAY * DAY_S, runs, axis=0)
    fresh, carbon, owed = np.zeros(runs), np.zeros(runs), 0.0
    for hour in range(24 * (WARM_DAYS + DAYS)):
        owed += VISITS_PER_DAY / 24
        count, owed = int(owed), owed % 1
        worth = index_value(web.change_per_s, web.weight, age_s)
        value = green_value(worth, np.stack([seen[each][hour] for each in knows]), price[:, None])
        chosen = np.argpartition(value, PAGES - count, axis=1)[:, PAGES - count :]
        np.put_along_axis(age_s, chosen, 0.0, axis=1)
        if hour >= 24 * WARM_DAYS:
            carbon += web.carbon_g(hour)[chosen].sum(axis=1)
            fresh += (web.weight * fresh_s(web.change_per_s, age_s, age_s + HOUR_S)).sum(axis=1)
        age_s += HOUR_S
    return fresh / web.weight.sum() / (DAYS * DAY_S), carbon


def _curve(rows: list[dict[str, Any]], kind: str, knows: str) -> tuple[F64, F64]:
    mine = [row for row in rows if row["signal"] == kind and row["knows"] == knows]
    return np.array([row["lost"] for row in mine]), np.array([row["saved"] for row in mine])


def _nearby(lost: F64, saved: F64) -> tuple[F64, F64]:
    """What the figure shows; the table has it all."""
    return lost[lost < FIGURE_TO], saved[lost < FIGURE_TO]


def _cost(rows: list[dict[str, Any]], kind: str, cut: float) -> dict[str, Any]:
    lost, saved = _curve(rows, kind, ", ".join(KNOWN))
    return {"signal": kind, "saved": cut, "lost": float(np.interp(cut, saved, lost))}


def _split(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Shapley's: what each adds to those before it, over all orders."""

    def saved(knows: tuple[str, ...]) -> float:
        if not knows:
            return 0.0
        ordered = ", ".join(name for name in KNOWN if name in knows)
        lost, less = _curve(rows, kind, ordered)
        return float(np.interp(LOST, np.maximum.accumulate(lost), np.maximum.accumulate(less)))

    orders = list(permutations(KNOWN))
    parts = {
        name: sum(saved(order[: order.index(name) + 1]) - saved(order[: order.index(name)]) for order in orders)
        / len(orders)
        for name in KNOWN
    }
    return {"signal": kind, "all": saved(KNOWN), **parts}
