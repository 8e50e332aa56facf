"""This module asks what a crawl should weigh pages by: how much of the freshness that counts by PageRank is kept if
visits are shared out by OPIC's estimate, by the number of links, or alike.

The crawl visits every page once, from random starts, in the order of OPIC, perhaps again in random orders, and passes
cash on as production does. Then visits are shared out by the rates of Azar et al. for the weights that it believes in,
and what that keeps fresh is counted by the true ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Results, columns
from experiments.paired import interval
from experiments.refresh_simulation import DAY_S
from gossamer.arrays import F64, I32
from gossamer.columns import PAGE, VISITED
from gossamer.crawl.ledger import SEED_CASH
from gossamer.frontier.strategies import ORDERS
from gossamer.refresh.importance import Importance
from gossamer.refresh.policies import azar_rates
from gossamer.sim.graphs import Graph, load
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, simulate

PER_DAY = 0.1  # visits of a page
VISITS = (1, 5)  # that each page had before
SETS, STARTS = 10, 50
SHOWN = columns(
    "graph | visits: visits before | weight: weighed by | of_optimum: of the optimum | low: from | high: to"
)


def cash_of(graph: Graph, order: I32, starts: I32, visits: int = 1, seed: int = 0) -> tuple[Any, Any]:
    """Returns the VISITED and PAGE rows of the pages that were crawled in this order, and then again in random ones:
    what each has passed on, and what it has got since."""
    cash, history = np.zeros(graph.pages, np.int64), np.zeros(graph.pages, np.int64)
    cash[starts] = SEED_CASH
    random = np.random.default_rng(seed)
    for again in range(visits):
        for page in (random.permutation(order) if again else order).tolist():
            targets = graph.indices[graph.indptr[page] : graph.indptr[page + 1]]
            history[page], share = history[page] + cash[page], cash[page] // max(len(targets), 1)
            cash[page] = 0
            cash[targets] += share  # they are distinct
    pages, visited = np.zeros(len(order), PAGE.numpy), np.zeros(len(order), VISITED.numpy)
    pages["cash"], visited["history"], visited["visits"] = cash[order], history[order], visits
    pages["hits"] = np.bincount(graph.indices[np.isin(graph.sources(), order)], minlength=graph.pages)[order]
    return visited, pages


def weights(visited: Any, pages: Any) -> dict[str, F64]:
    importance, alone = Importance(), Importance()
    for each in (importance, alone):
        each.measure([(visited, pages)])
    often = visited.copy()
    often["visits"] = np.iinfo(np.uint16).max  # then links hardly count
    return {
        "importance": importance.of(visited, pages),
        "OPIC alone": alone.of(often, pages),
        "hits": pages["hits"] + 1.0,
        "alike": np.ones(len(pages)),
    }


def results(paths: Sequence[Path], seed: int, sets: int = SETS) -> Results:
    rows = [row for path in paths for row in _on(load(path), seed, sets)]
    return Results(
        "refresh-weights",
        "What pages are weighed by, where PageRank is what counts",
        rows,
        SHOWN,
        notes=(
            f"{sets} crawls of each graph from {STARTS} random pages, each with other change rates (lognormal, median"
            f" 0.1 a day, sigma 2, whatever the page); {PER_DAY:g} visits per page and day",
            "visits are shared out by the rates of Azar et al., at equal intervals; the optimum does so by PageRank"
            " itself; freshness is computed, not simulated",
            "from, to: 95 % bootstrap interval over the crawls",
        ),
    )


def _on(graph: Graph, seed: int, sets: int) -> list[dict[str, Any]]:
    rank = pagerank(graph.sources(), graph.indices, graph.pages)
    found: dict[tuple[int, str], list[float]] = {}
    for number in range(sets):
        random = np.random.default_rng((seed, number))
        starts = random.choice(graph.pages, min(STARTS, graph.pages), replace=False).astype(np.int32)
        order = simulate(graph, ORDERS["opic"], starts, Conditions()).order
        change = random.lognormal(np.log(0.1 / DAY_S), 2.0, len(order))
        per_s = PER_DAY * len(order) / DAY_S
        best = kept_fresh(change, rank[order], azar_rates(change, rank[order], per_s))
        for visits in VISITS:
            for name, weight in weights(*cash_of(graph, order, starts, visits, number)).items():
                kept = kept_fresh(change, rank[order], azar_rates(change, weight, per_s))
                found.setdefault((visits, name), []).append(kept / best)
    rows = []
    for (visits, name), values in found.items():
        low, high = interval(np.array(values), seed)
        row = {"graph": graph.name, "visits": visits, "weight": name, "of_optimum": float(np.mean(values))}
        rows.append({**row, "low": low, "high": high})
    return rows


def kept_fresh(change_per_s: F64, weight: F64, rates: F64) -> float:
    """Returns the part of all weight that is fresh on average, with visits at equal intervals."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fresh = np.where(rates > 0, -np.expm1(-change_per_s / rates) * rates / change_per_s, 0.0)
    return float((weight * fresh).sum() / weight.sum())
