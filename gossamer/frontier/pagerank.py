"""This module computes PageRank, and the authorities of HITS, on columns of links."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, Integers

Flow = Callable[[Integers, Integers, F64, int], F64]  # what comes to each page over links from `source` to `target`

DAMPING = 0.85
TOLERANCE = 1e-9  # of the sum of changes
ROUNDS = 200
_CLOSE = 1e-4  # authorities order a frontier: the last digits do not matter


def counted(source: Integers, target: Integers, value: F64, pages: int) -> F64:
    """Adds up link by link, in their order: the last digits depend on it."""
    # Without any links NumPy would count in whole numbers.
    return np.bincount(target, weights=value[source], minlength=pages).astype(np.float64, copy=False)


def pagerank(
    source: Integers, target: Integers, pages: int, tolerance: float = TOLERANCE, flow_of: Flow = counted
) -> F64:
    """Returns ranks that sum to 1. A page without links leads anywhere."""
    if not pages:
        return np.zeros(0)
    source, target = _places(source), _places(target)
    degree = np.bincount(source, minlength=pages)
    dangling = np.flatnonzero(degree == 0)
    part = DAMPING / np.maximum(degree, 1)
    rank: F64 = np.full(pages, 1 / pages)
    for _ in range(ROUNDS):
        flow = flow_of(source, target, rank * part, pages)
        flow += (1 - DAMPING + DAMPING * rank[dangling].sum()) / pages
        change = np.abs(flow - rank).sum()
        rank = flow
        if change < tolerance:
            break
    rank /= rank.sum()
    return rank


def authorities(source: Integers, target: Integers, pages: int, flow_of: Flow = counted) -> F64:
    """Returns a(i) = sum of h(j) over links j to i, h(i) = sum of a(j) over links i to j, each normalised to sum 1."""
    source, target = _places(source), _places(target)
    hub = np.ones(pages)
    authority = np.full(pages, 1 / max(pages, 1))
    for _ in range(ROUNDS):
        new = _normal(flow_of(source, target, hub, pages))
        hub = _normal(flow_of(target, source, new, pages))
        change = np.abs(new - authority).sum()
        authority = new
        if change < _CLOSE:
            break
    return authority


def _places(nodes: Integers) -> Integers:
    """Returns numbers of NumPy's own width; else it would convert them in every round."""
    return nodes.astype(np.intp, copy=False)


def _normal(values: npt.NDArray[Any]) -> F64:
    normal: F64 = values / max(values.sum(), 1e-300)
    return normal
