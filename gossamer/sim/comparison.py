"""This module compares ways to crawl one graph: which order, with how many connections, and what each brings when."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from gossamer.arrays import F64, I32
from gossamer.frontier.strategies import Strategy
from gossamer.sim import measures
from gossamer.sim.graphs import Graph
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, Knowledge, simulate


@dataclass(frozen=True)
class Way:
    """How a crawl may go."""

    order: Strategy
    conditions: Conditions

    @property
    def name(self) -> str:
        return f"{self.order.name}, {self.conditions.connections:,} connections"


@dataclass(frozen=True)
class Forecast:
    """What a way brings. PageRank is that of the graph's pages, all together 1."""

    way: Way
    pages: int
    seconds: float
    average: float  # of the cumulative PageRank over the crawl: higher is an order that finds important pages earlier
    at_10_percent: float  # PageRank after a tenth of the graph's pages
    half_s: float  # seconds until half of the PageRank was collected; infinite if it never was
    busy: float  # connections that were busy, on average
    curve: F64  # cumulative PageRank after each page


def compare(graph: Graph, ways: Sequence[Way], starts: I32, knowledge: Knowledge, pages: int = 0) -> list[Forecast]:
    """Simulate each way from the same start pages, several at a time."""
    rank = knowledge.oracle
    assert rank is not None, "forecasts are made in PageRank"

    def forecast(way: Way) -> Forecast:
        trace = simulate(graph, way.order, starts, way.conditions, knowledge, pages)
        curve = measures.cumulative(trace.order, rank)
        half = int(np.searchsorted(curve, 0.5))
        return Forecast(
            way,
            len(trace.order),
            trace.seconds,
            measures.average(curve),
            measures.at(curve, max(1, graph.pages // 10)),
            float(trace.time_s[half]) if half < len(curve) else float("inf"),
            measures.mean_active(trace, trace.seconds),
            curve,
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the simulator runs outside Python's lock
        return list(pool.map(forecast, ways))


def start_pages(graph: Graph, count: int, seed: int) -> I32:
    """So many random pages; with 0 those where the crawl began that the graph comes from, or else 50 random ones."""
    if not count and graph.starts is not None and len(graph.starts):
        return graph.starts
    chosen = np.random.default_rng(seed).choice(graph.pages, min(count or 50, graph.pages), replace=False)
    return chosen.astype(np.int32)


def importance(graph: Graph) -> F64:
    """The PageRank of each page."""
    return pagerank(graph.sources(), graph.indices, graph.pages)
