"""This module is `partition --at discovery`: it places pages and hosts while a simulated crawl discovers them.

Only links of crawled pages are known. It makes the same decision as production (`placement.partitioners.Live`),
compiled around a crawl's order. A unit is what is placed as a whole: a page, or a host with all its pages.
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from experiments.harness import Results, columns
from experiments.paired import interval
from experiments.partition_methods import PARTITIONERS
from experiments.partition_passes import improve
from experiments.partitioning import breadth_first, compiled, incidence_of, kernels
from gossamer.arrays import F64, I32, I64, Bools
from gossamer.frontier.strategies import Strategy, strategy
from gossamer.placement.incidence import incidence
from gossamer.placement.partition import Goal, task
from gossamer.placement.partitioners import START
from gossamer.placement.rebalance import ROW_BYTES, moves
from gossamer.placement.ring import Ring
from gossamer.placement.stream import FENNEL, LDG, LINKED, Parts, Rule, choose, learn, settle
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph
from gossamer.sim.simulator import Conditions, simulate

MOVES = 4  # passes of a rebalance
BOUNDS = (0.05, 0.2, 1.0)  # pages that a rebalance moves at most, per page crawled so far


@dataclass(frozen=True)
class Policy:
    rule: Rule
    waits: bool = False  # a unit is placed when its first page is due, not when its first link is seen
    rebalances: bool = False  # whenever the crawl has doubled
    bound: float = (
        0.0  # a rebalance is production's, and moves so many pages per crawled page at most; 0: it need not pay
    )
    given: I32 | None = None  # places that somebody else decided


@dataclass(frozen=True)
class Discovered:
    crossing: float  # links from one part to another, per crawled page
    cut: float  # the same in proportion to all links
    imbalance: float  # pages of the fullest part in proportion to the mean
    moved: float  # pages that a rebalance gave to another part, per crawled page


class Known(NamedTuple):
    """What the crawl knows."""

    page: Bools
    part: I32  # of each unit; -1: none yet
    size: I64  # of each unit: its pages known so far
    seen: F64  # links to each unit from each part, while it has no place itself
    crossed: I64  # one number: links from one part to another


def discover(graph: Graph, unit: I32, units: int, crawl: I32, goal: Goal, policy: Policy, seed: int) -> Discovered:
    """Crawl in this order, place units as the policy says."""
    parts = goal.before(START, 0.0)
    rule = policy.rule._replace(slack=goal.slack)
    part = np.full(units, -1, np.int32) if policy.given is None else policy.given.copy()
    seen = np.zeros((units, goal.parts))
    known = Known(np.zeros(graph.pages, np.bool_), part, np.zeros(units, np.int64), seen, np.zeros(1, np.int64))
    moved = begin = 0
    while begin < len(crawl):
        end = min(len(crawl), max(START, 2 * begin)) if policy.rebalances else len(crawl)
        _follow()(graph.indptr, graph.indices, unit, crawl[begin:end], known, parts, rule, policy.waits)
        if end < len(crawl):
            moved += _rebalance(graph, unit, crawl[:end], goal, known, parts, policy, seed)
        begin = end
    for late in np.flatnonzero((part < 0) & (known.size > 0)).tolist():
        put(late, known, parts, rule)
    fair = parts.share * parts.load.sum() / goal.parts
    crossed, links = int(known.crossed[0]), int(graph.degree[crawl].sum())
    return Discovered(
        crossed / len(crawl), crossed / max(links, 1), float((parts.load / fair).max()), moved / len(crawl)
    )


def follow(
    indptr: I64, indices: I32, unit: I32, crawl: I32, known: Known, parts: Parts, rule: Rule, waits: bool
) -> None:
    for page in crawl:
        own = unit[page]
        meet(page, own, known, parts, rule)  # a start; all others have been met
        if known.part[own] < 0:
            put(own, known, parts, rule)
        for e in range(indptr[page], indptr[page + 1]):
            other = unit[indices[e]]
            meet(indices[e], other, known, parts, rule)
            if other == own:
                continue
            parts.known[LINKED] += 1.0
            if known.part[other] >= 0:
                known.crossed[0] += known.part[other] != known.part[own]
                continue
            known.seen[other, known.part[own]] += 1.0
            if not waits:
                put(other, known, parts, rule)


def meet(page: int, own: int, known: Known, parts: Parts, rule: Rule) -> None:
    """A page becomes known. Its unit grows, and the part that has it."""
    if not known.page[page]:
        known.page[page] = True
        known.size[own] += 1
        learn(parts, rule, 1, 0.0)
        if known.part[own] >= 0:
            settle(parts, rule, known.part[own], 1)


def put(own: int, known: Known, parts: Parts, rule: Rule) -> None:
    """A unit gets its place; links to it that waited for this are sent now."""
    seen = known.seen[own]
    part = choose(seen, np.zeros(len(seen)), known.size[own], parts, rule.ties_first)
    known.part[own] = part
    known.crossed[0] += int(seen.sum() - seen[part])
    settle(parts, rule, part, known.size[own])


@cache
def _follow() -> Any:
    kernels()
    for called in (meet, put):
        register_jitable(called)
    return njit(follow, nogil=True)


def _rebalance(
    graph: Graph, unit: I32, crawled: I32, goal: Goal, known: Known, parts: Parts, policy: Policy, seed: int
) -> int:
    """Moves among what is placed, by the links found so far. Returns how many pages change their part."""
    placed = np.flatnonzero(known.part >= 0)
    number = np.full(len(known.part), -1, np.int64)
    number[placed] = np.arange(len(placed))
    is_crawled = np.zeros(graph.pages, np.bool_)
    is_crawled[crawled] = True
    sources = graph.sources()
    found = is_crawled[sources]
    source, target = number[unit[sources[found]]], number[unit[graph.indices[found]]]
    real = (source >= 0) & (target >= 0)
    linked = incidence(source[real], target[real], len(placed), np.ones(int(real.sum())), known.size[placed])
    before = known.part[placed]
    if policy.bound:
        found_moves = moves(linked, goal, before, seed, most_bytes=policy.bound * len(crawled) * ROW_BYTES)
        after = before.copy()
        after[found_moves.host] = found_moves.to
    else:
        after = improve(compiled(task(linked, goal)), before, FENNEL, np.random.default_rng(seed), MOVES)
    known.part[placed] = after
    for number_of, load in enumerate(np.bincount(after, known.size[placed], goal.parts).astype(np.int64).tolist()):
        settle(parts, policy.rule, number_of, load - int(parts.load[number_of]))
    return int(known.size[placed][before != after].sum())


# --- the experiment

SHOWN = columns(
    "k | level: placed | method | crossing: links crossing per page | low: from | high: to | cut: of all links | "
    "imbalance | moved: pages moved per page"
)
POLICIES = {
    "ldg": Policy(LDG),
    "fennel": Policy(FENNEL),
    "fennel, when due": Policy(FENNEL, waits=True),
    "fennel, rebalanced": Policy(FENNEL, rebalances=True),
    **{f"fennel, {bound:g} moved": Policy(FENNEL, rebalances=True, bound=bound) for bound in BOUNDS},
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
        f"A crawl in {order.name} order; {len(crawls)} sets of {arguments.starts} start pages.",
        "A page is known when a crawled page links to it; a link crosses if its ends have different sites when it is "
        "found, or as soon as both have one.",
        f"A site may take {arguments.nu:g} times its share of the pages known at that moment. A host is placed with "
        "one page and grows, so that it may overflow later. Imbalance: the fullest site in the end, in the worst run.",
        "When due: placed not with the first link, but when its first page is to be crawled. Rebalanced: whenever the "
        "crawl has doubled, hosts or pages may move. Moved: the same as `gossamer federation rebalance` does it, "
        "only what pays, and no more than so many pages per page crawled so far.",
        "METIS knows the whole graph before the crawl.",
        "From, to: 95 % bootstrap interval of the mean.",
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
                    if level == "host" or not getattr(POLICIES.get(method), "bound", 0.0):  # it is made for hosts
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
        **dict(zip(("low", "high"), interval(crossing), strict=True)),
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
