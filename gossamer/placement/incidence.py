"""`Incidence` is the graph that partitioners see: vertices (hosts or pages) with sizes, and weighted edges (links).

An edge has no direction: a link costs the same whichever end it is sent from. Each is stored twice, in the row of
either end; loops are left out, because nothing can cut them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gossamer.arrays import F64, I32, I64, Integers
from gossamer.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Incidence:
    """The graph in rows (CSR): row v has the other ends and the weights of the edges of vertex v."""

    first: I64  # where the row of each vertex begins, and the end
    other: I32  # the other ends of its edges
    weight: F64  # of the edges
    size: I64  # of the vertices: 1, or the pages of a host

    @property
    def vertices(self) -> int:
        return len(self.size)

    @cached_property
    def edges(self) -> float:
        """The sum of their weights: m, where all are 1."""
        return float(self.weight.sum()) / 2

    @cached_property
    def total(self) -> int:
        """The sum of the sizes: n, where all are 1."""
        return int(self.size.sum())

    def sources(self) -> I32:
        """Returns the vertex to whose row each entry belongs."""
        return np.repeat(np.arange(self.vertices, dtype=np.int32), np.diff(self.first))


def incidence(
    source: Integers, target: Integers, vertices: int, weight: F64 | None = None, size: Integers | None = None
) -> Incidence:
    """Builds the graph from links between the vertices 0 to `vertices` - 1. Without weights a pair of vertices counts
    once, however often and in whichever direction it is linked; with them all its links are added up."""
    sizes = np.ones(vertices, np.int64) if size is None else np.asarray(size, np.int64)
    _check(source, target, vertices, weight, sizes)
    low, high = np.minimum(source, target).astype(np.int64), np.maximum(source, target).astype(np.int64)
    if weight is None:
        real = low != high
        pairs = np.unique(low[real] * vertices + high[real])
        sums = np.ones(len(pairs))
    else:
        real = (low != high) & (weight > 0)
        pairs, sums = summed(low[real] * vertices + high[real], weight[real].astype(np.float64))
    low, high = pairs // vertices, pairs % vertices
    ends = np.concatenate((low, high))
    order = np.argsort(ends, kind="stable")
    counts = np.bincount(ends, minlength=vertices)
    others = np.concatenate((high, low))[order].astype(np.int32)
    return Incidence(starts(counts), others, np.concatenate((sums, sums))[order], sizes)


def summed(pairs: I64, weight: F64) -> tuple[I64, F64]:
    """Returns distinct pairs in order, with the sums of their weights."""
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    begins = np.flatnonzero(np.diff(pairs, prepend=-1))
    return pairs[begins], np.add.reduceat(weight[order], begins) if len(begins) else np.zeros(0)


def starts(counts: Integers) -> I64:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _check(source: Integers, target: Integers, vertices: int, weight: F64 | None, size: I64) -> None:
    if vertices < 1:
        raise ConfigError("the graph is empty: there is nothing to place")
    if len(source) != len(target) or (weight is not None and len(weight) != len(source)):
        raise ConfigError("links need a source, a target and, if any has one, a weight each")
    if len(size) != vertices or size.min() < 1:
        raise ConfigError("every vertex needs a size of 1 or more")
    if len(source):
        lowest, highest = min(source.min(), target.min()), max(source.max(), target.max())
        if lowest < 0:
            raise ConfigError(f"vertex {lowest} is negative; vertices are numbered from 0")
        if highest >= vertices:
            raise ConfigError(f"vertex {highest} is out of range; the graph has {vertices}, numbered from 0")
    if weight is not None and len(weight) and not 0 <= weight.min() <= weight.max() < np.inf:
        raise ConfigError("weights of links are finite and not negative")
