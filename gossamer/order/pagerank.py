"""Importance by links alone, on columns of links: PageRank, and the authorities of HITS."""

from typing import Any

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.integer]
F8 = npt.NDArray[np.float64]

DAMPING = 0.85
TOLERANCE = 1e-9  # of the sum of changes
ROUNDS = 200
_CLOSE = 1e-4  # authorities order a frontier: the last digits do not matter


def pagerank(source: Nodes, target: Nodes, pages: int, tolerance: float = TOLERANCE) -> F8:
    """Sums to 1. A page without links leads anywhere."""
    if not pages:
        return np.zeros(0)
    degree = np.bincount(source, minlength=pages)
    dangling = np.flatnonzero(degree == 0)
    part = DAMPING / np.maximum(degree, 1)
    rank: F8 = np.full(pages, 1 / pages)
    for _ in range(ROUNDS):
        flow = _sums(target, (rank * part)[source], pages)
        flow += (1 - DAMPING + DAMPING * rank[dangling].sum()) / pages
        change = np.abs(flow - rank).sum()
        rank = flow
        if change < tolerance:
            break
    rank /= rank.sum()
    return rank


def authorities(source: Nodes, target: Nodes, pages: int) -> F8:
    """a(i) = sum of h(j) over links j to i, h(i) = sum of a(j) over links i to j, each normalised to sum 1."""
    hub = np.ones(pages)
    authority = np.full(pages, 1 / max(pages, 1))
    for _ in range(ROUNDS):
        new = _normal(np.bincount(target, weights=hub[source], minlength=pages))
        hub = _normal(np.bincount(source, weights=new[target], minlength=pages))
        change = np.abs(new - authority).sum()
        authority = new
        if change < _CLOSE:
            break
    return authority


def _normal(values: npt.NDArray[Any]) -> F8:
    normal: F8 = values / max(values.sum(), 1e-300)
    return normal


def _sums(where: Nodes, what: F8, pages: int) -> F8:
    """Of what comes to each page. Without any links NumPy would count in whole numbers."""
    sums: F8 = np.bincount(where, weights=what, minlength=pages).astype(np.float64, copy=False)
    return sums
