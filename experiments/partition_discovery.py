"""This module is `partition --at discovery`: it places pages and hosts while a crawl discovers the web."""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.harness import Results
from experiments.partition_crawl import Discovered, Policy, discover
from experiments.partition_methods import PARTITIONERS
from experiments.partitioning import breadth_first, compiled, incidence_of
from gossamer.arrays import I32
from gossamer.frontier.strategies import Strategy, strategy
from gossamer.placement.partition import Goal, task
from gossamer.placement.ring import Ring
from gossamer.placement.stream import FENNEL, LDG
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph
from gossamer.sim.simulator import Conditions, simulate

SHOWN = {
    "k": "k",
    "level": "placed",
    "method": "method",
    "crossing": "links crossing per page",
    "spread": "±",
    "cut": "of all links",
    "imbalance": "imbalance",
    "moved": "pages moved per page",
}
POLICIES = {
    "ldg": Policy(LDG),
    "fennel": Policy(FENNEL),
    "fennel, when due": Policy(FENNEL, waits=True),
    "fennel, rebalanced": Policy(FENNEL, rebalances=True),
}


@dataclass(frozen=True)
class Case:
    goal: Goal
    level: str
    method: str


def results(graph: Graph, arguments: argparse.Namespace) -> Results:
    order = strategy(arguments.crawl)
    crawls = [_crawl(graph, order, arguments, run) for run in range(arguments.runs)]
    cases = list(_cases(graph, arguments))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda case: [_run(graph, case, *numbered) for numbered in enumerate(crawls)], cases))
    rows = [_row(graph, case, each) for case, each in zip(cases, found, strict=True)]
    notes = [
        f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {graph.rule}.",
        f"A crawl in {order.name} order; {len(crawls)} sets of {arguments.starts} start pages, ± is half the range.",
        "A page is known when a crawled page links to it; a link crosses if its ends have different sites when it is "
        "found, or as soon as both have one.",
        f"A site may take {arguments.nu:g} times its share of the pages known at that moment. A host is placed with "
        "one page and grows, so that it may overflow later. Imbalance: the fullest site in the end, in the worst run.",
        "When due: placed not with the first link, but when its first page is to be crawled. Rebalanced: whenever the "
        "crawl has doubled, hosts or pages may move. METIS knows the whole graph before the crawl.",
    ]
    name = f"partition-discovery-{graph.name}"
    return Results(name, f"Placed at discovery: {graph.name}", rows, SHOWN, notes, [_figure(name, graph, cases, rows)])


def _crawl(graph: Graph, order: Strategy, arguments: argparse.Namespace, run: int) -> I32:
    random = np.random.default_rng((arguments.seed, run))
    starts = random.choice(graph.pages, min(arguments.starts, graph.pages), replace=False).astype(np.int32)
    if order.name == "breadth-first":
        crawl: I32 = breadth_first(graph.indptr, graph.indices, starts)  # nothing to simulate, nothing to wait for
        return crawl
    return simulate(graph, order, starts, Conditions(seed=arguments.seed + run)).order.astype(np.int32)


def _cases(graph: Graph, arguments: argparse.Namespace) -> Iterator[Case]:
    for k in arguments.k:
        for level in ("page", "host"):
            if level == "page" or k <= len(graph.host_names):
                for method in ("hash", *POLICIES, "metis"):
                    yield Case(Goal(k, arguments.nu, arguments.shares), level, method)


def _run(graph: Graph, case: Case, run: int, crawl: I32) -> Discovered:
    is_page = case.level == "page"
    unit = np.arange(graph.pages, dtype=np.int32) if is_page else graph.host
    units = graph.pages if is_page else len(graph.host_names)
    policy = POLICIES.get(case.method) or Policy(FENNEL, given=_given(graph, case, run))
    return discover(graph, unit, units, crawl, case.goal, policy, run)


def _given(graph: Graph, case: Case, run: int) -> I32:
    random = np.random.default_rng(run)
    if case.method == "metis":
        known = compiled(task(incidence_of(graph, case.level), case.goal))
        return PARTITIONERS["metis"].place(known, np.zeros(0, np.int32), random)
    shares = case.goal.shares or (1.0,) * case.goal.parts
    if case.level == "page":
        return random.choice(len(shares), graph.pages, p=np.array(shares) / sum(shares)).astype(np.int32)
    ring = Ring({f"site-{run}-{number:04}": share for number, share in enumerate(shares)})
    return np.array([ring.sites.index(ring.site(name)) for name in graph.host_names], np.int32)


def _row(graph: Graph, case: Case, found: list[Discovered]) -> dict[str, Any]:
    crossing = np.array([each.crossing for each in found])
    return {
        "graph": graph.name,
        "k": case.goal.parts,
        "level": case.level,
        "method": case.method,
        "crossing": float(crossing.mean()),
        "spread": float(np.ptp(crossing) / 2),
        "cut": float(np.mean([each.cut for each in found])),
        "imbalance": float(max(each.imbalance for each in found)),
        "moved": float(np.mean([each.moved for each in found])),
        "runs": len(found),
    }


def _figure(name: str, graph: Graph, cases: list[Case], rows: list[dict[str, Any]]) -> Figure:
    curves = []
    for level, method in dict.fromkeys((case.level, case.method) for case in cases):
        ours = [row for row in rows if (row["level"], row["method"]) == (level, method)]
        x, y = np.array([row["k"] for row in ours]), np.array([row["crossing"] for row in ours])
        curves.append(Curve(f"{level}: {method}", x, y, dashed=level == "page"))
    title = f"Links that cross between sites, placed at discovery: {graph.name}"
    return Figure(name, title, "sites", "links crossing per crawled page", curves, log_y=True, markers=True)
