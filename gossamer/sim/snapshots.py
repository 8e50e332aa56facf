"""Makes an earlier snapshot of a graph, for strategies that remember: which pages it had, and their PageRank then.

The rule: each page was there with a chance that grows with its PageRank, drawn so that 55 % of the pages were, which
have about 72 % of the PageRank of today (Castillo, section 4.3.4); a quarter of the links between them did not exist.
"""

from pathlib import Path

import numpy as np

from gossamer.arrays import F64, Bools
from gossamer.frontier.sorted_runs import search
from gossamer.sim.graphs import Graph
from gossamer.sim.ranking import pagerank

PAGES, RANK = 0.55, 0.72
OLD_LINKS = 0.75


def earlier(graph: Graph, rank: F64, seed: int) -> F64:
    """The PageRank of each page in the earlier snapshot, NaN for pages that it did not have."""
    random = np.random.default_rng(seed)
    old = _old_pages(rank, random.exponential(size=graph.pages))
    source, target = graph.sources(), graph.indices
    kept = old[source] & old[target] & (random.random(graph.links) < OLD_LINKS)
    number = np.cumsum(old) - 1
    history = np.full(graph.pages, np.nan)
    history[old] = pagerank(number[source[kept]], number[target[kept]], int(old.sum()))
    return history


def remembered(graph: Graph, directory: Path) -> F64:
    """The same from the directory of an earlier crawl."""
    from gossamer.archive.linkgraph import read_links

    old = read_links(directory)
    order = np.argsort(old.keys)
    ranks = pagerank(old.source, old.target, len(old.keys))[order]
    found, at = search(old.keys[order], graph.keys)
    history = np.full(graph.pages, np.nan)
    history[found] = ranks[at[found]]
    return history


def _old_pages(rank: F64, draw: F64) -> Bools:
    """Sampling without replacement with weights rank**power: the power is found by bisection."""
    count = round(PAGES * len(rank))
    low, high = 0.0, 3.0
    old = np.zeros(len(rank), np.bool_)
    for _ in range(40):
        power = (low + high) / 2
        old[:] = False
        old[np.argsort(draw / rank**power, kind="stable")[:count]] = True
        low, high = (power, high) if rank[old].sum() < RANK else (low, power)
    return old
