"""This module bounds the greedy policy: linear programming finds the optimum of the relaxed problem.

A page that was downloaded in slot t of a day and is downloaded again after d slots has been stale for 0 + 1 + ... +
(d - 1) in between, and costs e g(t + d). Every schedule is a flow of such intervals through the hours of the day. The
relaxed problem asks that on average one page is downloaded in each hour of the day, and that carbon stays within what
the greedy policy spent; no schedule can be less stale than its optimum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.green_simulation import FULL, Web, crawl, in_turn
from experiments.harness import Results, columns
from gossamer.arrays import F64, Indices
from gossamer.carbon.sun import day_index
from gossamer.sim.figures import Curve, Figure

HOURS = 24
LONGEST = 8 * HOURS  # between two downloads of a page; nothing waits longer at any lambda here
CLASSES, PER_CLASS = 6, 9  # pages of a class have the same energy and server
ZONES = (0, 8, 16)
DAYS, WARM = 120, 40
PRICES = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0)
SHOWN = columns(
    "price: lambda | carbon: carbon a slot | staleness: mean staleness, greedy | bound: relaxed optimum | "
    "gap: greedy above"
)


@dataclass(frozen=True)
class Kinds:
    energy: F64
    server: Indices
    index: F64  # hours x servers


def results(seed: int) -> Results:
    random = np.random.default_rng(seed)
    index = np.stack([day_index((np.arange(HOURS) + 0.5 + zone) % HOURS, 7.5, 17.0) for zone in ZONES], 1)
    kinds = Kinds(random.random(CLASSES), np.arange(CLASSES) % len(ZONES), index)
    rows = [_compared(kinds, price, random) for price in PRICES]
    carbon = np.array([row["carbon"] for row in rows])
    curves = [Curve("greedy", carbon, np.array([row["staleness"] for row in rows]))]
    curves.append(Curve("relaxed optimum", carbon, np.array([row["bound"] for row in rows]), dashed=True))
    return Results(
        "green-bound",
        f"Greedy against the relaxed optimum: {CLASSES * PER_CLASS} pages, {len(ZONES)} servers, slots of an hour",
        rows,
        SHOWN,
        notes=(
            "the optimum knows the index of all hours to come and may download part of a page; the greedy policy knows "
            "this hour",
            f"intervals of up to {LONGEST // HOURS} days; staleness in hours a page, carbon with energies in [0, 1]",
        ),
        figures=(
            Figure(
                "green-bound",
                "The greedy policy and the best possible",
                "carbon a slot",
                "mean staleness, hours",
                curves,
                markers=True,
            ),
        ),
    )


def _compared(kinds: Kinds, price: float, random: np.random.Generator) -> dict[str, Any]:
    energy = np.repeat(kinds.energy, PER_CLASS)[None, :]
    web = Web(energy, np.repeat(kinds.server, PER_CLASS), np.tile(kinds.index, (DAYS, 1)))
    stale = in_turn(1, energy.shape[1], random)
    totals = crawl(web, np.array([price]), FULL, stale, WARM * HOURS)
    slots = (DAYS - WARM) * HOURS
    staleness = float(totals.staleness[0]) / slots / energy.shape[1]
    carbon = float(totals.carbon[0]) / slots
    bound = relaxed(kinds, carbon)
    return {
        "part": "bound",
        "price": price,
        "carbon": carbon,
        "staleness": staleness,
        "bound": bound,
        "gap": staleness / bound - 1,
    }


def relaxed(kinds: Kinds, carbon: float) -> float:
    """Least mean staleness of a page with so much carbon a slot. A variable for each class, hour and interval: how many
    such intervals begin in that hour, of a day and page."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    kind, hour, length = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(CLASSES), np.arange(HOURS), np.arange(1, LONGEST + 1), indexing="ij")
    )
    ends = (hour + length) % HOURS
    column = np.arange(len(kind))
    ones = np.ones(len(kind))
    stale = length * (length - 1) / 2
    spent = kinds.energy[kind] * kinds.index[ends, kinds.server[kind]]
    # as many intervals of a class begin in an hour as end in it; and each page is in one interval at any time
    flow = coo_array(
        (
            np.concatenate((ones, -ones)),
            (np.concatenate((kind * HOURS + hour, kind * HOURS + ends)), np.concatenate((column, column))),
        ),
        shape=(CLASSES * HOURS, len(kind)),
    )
    always = coo_array((length.astype(float), (kind, column)), shape=(CLASSES, len(kind)))
    # one download in each hour of the day, and carbon within its limit
    slots = coo_array((np.full(len(kind), float(PER_CLASS)), (ends, column)), shape=(HOURS, len(kind)))
    limit = coo_array((PER_CLASS * spent, (np.zeros(len(kind), np.intp), column)), shape=(1, len(kind)))
    found = linprog(
        stale / CLASSES / HOURS,
        A_ub=vstack((slots, limit)).tocsr(),
        b_ub=np.concatenate((ones[:HOURS], [carbon * HOURS * (1 + 1e-9)])),
        A_eq=vstack((flow, always)).tocsr(),
        b_eq=np.concatenate((np.zeros(CLASSES * HOURS), np.full(CLASSES, float(HOURS)))),
        method="highs",
    )
    if not found.success:
        raise ArithmeticError(found.message)
    return float(found.fun)
