"""How fast partitioners place: edges per second of one core, compiled, k = 16; the last line is JSON.

python -m benchmarks.bench_place [GRAPH.npz]

Without a graph: a made one, a million vertices with ten million links. Vertices come in random order, the worst one
for the memory. The limit beside it: looking up the part of every neighbour, in the same order.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit

from benchmarks.bench_lab import synthetic
from experiments.partition_methods import PARTITIONERS
from experiments.partitioning import compiled, incidence_of
from gossamer.placement.partition import Goal, Task, cut, task
from gossamer.placement.partitioners import Live
from gossamer.sim.graphs import load

PARTS = 16
METHODS = ("ldg", "fennel", "fennel-live", "refennel", "buffered-16", "multilevel", "metis")
HOSTS = 20_000  # placed one by one, by plain Python, as a site does


@njit(cache=True)
def walk(first: np.ndarray, other: np.ndarray, order: np.ndarray, part: np.ndarray) -> int:
    """The least that any partitioner must do."""
    total = 0
    for vertex in order:
        for edge in range(first[vertex], first[vertex + 1]):
            total += part[other[edge]]
    return total


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def small() -> Task:
    """Enough to compile everything."""
    return compiled(task(incidence_of(synthetic(3_000), "page"), Goal(PARTS)))


def main() -> None:
    source = load(Path(sys.argv[1])) if len(sys.argv) > 1 else synthetic(1_000_000)
    graph = incidence_of(source, "page")
    print(f"{source.name}: {graph.vertices:,} vertices, {graph.edges:,.0f} edges, k = {PARTS}")
    each = compiled(task(graph, Goal(PARTS)))
    order = np.random.default_rng(0).permutation(graph.vertices).astype(np.int32)
    part = np.zeros(graph.vertices, np.int32)
    walk(graph.first, graph.other, order[:10], part)
    limit = graph.edges / seconds(lambda: walk(graph.first, graph.other, order, part))
    print(f"{'limit':14} {limit / 1e6:7.1f} million edges/s: the part of every neighbour, looked up")
    figures = {"vertices": graph.vertices, "edges": graph.edges, "limit": limit}
    tiny = small()
    for name in METHODS:
        place = PARTITIONERS[name].place
        place(tiny, np.arange(tiny.graph.vertices, dtype=np.int32), np.random.default_rng(0))
        begin = time.process_time()
        part = place(each, order, np.random.default_rng(0))
        figures[name] = graph.edges / (time.process_time() - begin)
        print(f"{name:14} {figures[name] / 1e6:7.1f} million edges/s, cut {cut(graph, part):6.1%}")
    live = Live(Goal(PARTS))
    links = np.random.default_rng(0).poisson(0.3, (HOSTS, PARTS)).astype(np.float64)
    spent = seconds(lambda: [live.place(row) for row in links])
    figures["live_us"] = spent / HOSTS * 1e6
    print(f"{'one host':14} {figures['live_us']:7.1f} µs, plain Python, as a site decides")
    print(json.dumps({key: round(value, 1) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
