"""How good an order of pages is: cumulative PageRank, its average, Kendall's tau."""

import numpy as np

from gossamer.arrays import F64, Integers

SAMPLE = 5_000


def cumulative(order: Integers, rank: F64) -> F64:
    """Part of all PageRank after each page crawled."""
    return np.cumsum(rank[order])


def average(curve: F64) -> float:
    """Over the crawl. Of pages that no link led to it says nothing; a curve that ends below 1 does."""
    return float(curve.mean()) if len(curve) else 0.0


def at(curve: F64, pages: int) -> float:
    """PageRank after so many pages; what was reached, if the crawl ended before."""
    return float(curve[min(pages, len(curve)) - 1]) if len(curve) else 0.0


def ideal(rank: F64) -> F64:
    """No order is better."""
    return np.cumsum(np.sort(rank)[::-1])


def tau(order: Integers, rank: F64, seed: int = 0, sample: int = SAMPLE) -> float:
    """Kendall's tau of a sample of the crawled pages: order of the crawl against order of PageRank."""
    from scipy.stats import kendalltau

    if len(order) < 2:
        return float("nan")
    place = np.arange(len(order))
    if len(order) > sample:
        place = np.sort(np.random.default_rng(seed).choice(len(order), sample, replace=False))
    return float(kendalltau(-place, rank[order[place]]).statistic)
