"""This module compares estimators of change rates: counters of 32 bytes against simpler and larger ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.harness import Results, Row, columns
from experiments.refresh_simulation import DAY_S
from gossamer.arrays import F64
from gossamer.refresh.change_rates import counted, none_counted, rates
from gossamer.sim.figures import Curve, Figure

TITLE = "Error of estimated change rates"
VISITS = (1, 2, 5, 10, 20, 50, 100)
PAGES = 4000
MEAN_S = 10 * DAY_S
SHOWN = columns("visits | estimator | bytes: bytes a page | median_error: median error | error_90: 90 % below | bias")


def results(seed: int) -> Results:
    random = np.random.default_rng(seed)
    change = random.lognormal(np.log(0.1 / DAY_S), 1.5, PAGES)
    interval_s = random.lognormal(np.log(MEAN_S), 1.0, (max(VISITS), PAGES)) / np.exp(0.5)
    changed = random.random(interval_s.shape) < -np.expm1(-change * interval_s)
    rows = []
    for visits in VISITS:
        for name, (size, estimate) in _estimates(interval_s[:visits], changed[:visits]).items():
            rows.append(_row(visits, name, size, np.log(estimate / change)))
    return Results(
        "refresh-estimates",
        TITLE,
        rows,
        SHOWN,
        notes=(
            "errors are of the logarithm to base 2: 1 means twice, or half, the true rate",
            "true rates: lognormal, median 0.1 a day, sigma 1.5; intervals between visits: lognormal, mean 10 days, "
            "sigma 1",
            "all visits: the same equation on every interval as it was; counters: on 16 buckets of them; both with one "
            "changed and one unchanged visit more",
            "changes seen / time: each visit shows one change at most, so it is low for restless pages; half a change "
            "is added, so that none is zero; -log(...) (Cho and Garcia-Molina) gets as much where none was seen",
        ),
        figures=(figure(rows),),
    )


def figure(rows: Sequence[Row]) -> Figure:
    curves = [
        Curve(
            name,
            np.array(VISITS),
            np.array([row["median_error"] for row in rows if row["estimator"] == name]),
            dashed=name == "all visits",
        )
        for name in dict.fromkeys(str(row["estimator"]) for row in rows)
    ]
    y = "median error, powers of two"
    return Figure("refresh-estimates", TITLE, "visits", y, curves, log_x=True, markers=True)


def _estimates(interval_s: F64, changed: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, tuple[int, F64]]:
    visits = len(interval_s)
    counters = none_counted(PAGES)
    for each, seen in zip(interval_s, changed, strict=True):
        counters = counted(counters, each, seen)
    total_s, found = interval_s.sum(axis=0), changed.sum(axis=0)
    logged = -np.log((visits - found + 0.5) / (visits + 0.5)) / (total_s / visits)
    return {
        "counters (ours)": (32, rates(counters, MEAN_S)),
        "all visits": (9 * visits, _exact(interval_s, changed)),
        "changes seen / time": (8, (found + 0.5) / total_s),
        "-log(unchanged) / mean interval": (8, np.maximum(logged, 0.5 / total_s)),
        "the same for all": (0, np.full(PAGES, 2 * np.log(2) / MEAN_S)),
    }


def _exact(interval_s: F64, changed: np.ndarray[Any, np.dtype[np.bool_]]) -> F64:
    """By bisection on the logarithm."""
    half_s = np.full((1, PAGES), MEAN_S / 2)
    seen_s = np.concatenate((np.where(changed, interval_s, 0.0), half_s))
    quiet_s = np.where(changed, 0.0, interval_s).sum(axis=0) + MEAN_S / 2
    low, high = np.full(PAGES, np.log(1e-14)), np.full(PAGES, np.log(1.0))
    for _ in range(60):
        middle = (low + high) / 2
        grown = np.expm1(np.minimum(np.exp(middle) * seen_s, 300.0))
        left = np.divide(seen_s, grown, out=np.zeros_like(grown), where=seen_s > 0).sum(axis=0)
        low, high = np.where(left > quiet_s, middle, low), np.where(left > quiet_s, high, middle)
    found: F64 = np.exp((low + high) / 2)
    return found


def _row(visits: int, name: str, size: int, errors: F64) -> dict[str, Any]:
    errors = errors / np.log(2)
    return {
        "part": "estimates",
        "visits": visits,
        "estimator": name,
        "bytes": size,
        "median_error": float(np.median(np.abs(errors))),
        "error_90": float(np.quantile(np.abs(errors), 0.9)),
        "bias": float(np.median(errors)),
    }
