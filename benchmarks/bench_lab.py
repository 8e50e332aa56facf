"""How fast the lab simulates: a million pages with ten million links, one core; the last line is JSON.

python -m benchmarks.bench_lab [PAGES]

The graph: most links stay near their page, as in a list of URLs in order; the others prefer pages that were linked
before, so that in-degrees follow a power law. The limit beside it: reading every link once, in the same order.
"""

import json
import sys
import time

import numpy as np
from numba import njit

from gossamer.frontier.strategies import ORDERS
from gossamer.sim.graphs import PAGE_BYTES, Graph, linked
from gossamer.sim.simulator import Conditions, simulate

STARTS = 50


def synthetic(pages: int, degree: int = 10, seed: int = 0) -> Graph:
    random = np.random.default_rng(seed)
    links = pages * degree
    source = np.repeat(np.arange(pages), degree)
    near = np.clip(source + np.rint(random.normal(0, 50, links)).astype(np.int64), 0, pages - 1)
    popular = (pages * random.random(links) ** 3).astype(np.int64)
    target = np.where(random.random(links) < 0.7, near, popular[random.permutation(links)])
    sizes = np.full(pages, PAGE_BYTES)
    bare = Graph("synthetic", *linked(source, target, pages), np.zeros(pages, np.int32), [], sizes, "")
    return bare.with_hosts("power")


@njit(cache=True)
def walk(indptr: np.ndarray, indices: np.ndarray, order: np.ndarray) -> int:
    """The least that any simulation must do: look at every link of every page."""
    total = 0
    for page in order:
        for place in range(indptr[page], indptr[page + 1]):
            total += indices[place]
    return total


def seconds(graph: Graph, name: str, conditions: Conditions) -> tuple[float, np.ndarray]:
    starts = np.random.default_rng(0).choice(graph.pages, STARTS, replace=False)
    simulate(graph, ORDERS[name], starts, conditions, pages=100)  # compiles
    begin = time.process_time()
    trace = simulate(graph, ORDERS[name], starts, conditions)
    return time.process_time() - begin, trace.order


def main() -> None:
    graph = synthetic(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    graph.keys  # noqa: B018  hashing URLs is not what is measured
    print(f"{graph.pages:,} pages, {graph.links:,} links, {graph.rule}")
    figures: dict[str, float] = {"pages": graph.pages, "links": graph.links}
    cases = {
        "opic": ("opic", Conditions()),
        "breadth_first": ("breadth-first", Conditions()),
        "larger_sites_first": ("larger-sites-first", Conditions()),
        "opic_256_robots": ("opic", Conditions(connections=256, delay_s=15.0, bandwidth=2e6)),
        "opic_batches": ("opic", Conditions(width=10_000)),
    }
    for label, (name, conditions) in cases.items():
        figures[f"{label}_s"], order = seconds(graph, name, conditions)
        walk(graph.indptr, graph.indices, order[:10])
        begin = time.process_time()
        walk(graph.indptr, graph.indices, order)
        limit_s = time.process_time() - begin
        print(
            f"{label:20} {figures[f'{label}_s']:7.2f} s for {len(order):,} pages; all links read once: {limit_s:.3f} s"
        )
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
