"""This module places pages or hosts while a simulated crawl discovers them: only links of crawled pages are known.

It makes the same decision as production (`placement.partitioners.Live`), compiled around a crawl's order. A unit
is what is placed as a whole: a page, or a host with all its pages.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from experiments.partition_passes import improve
from experiments.partitioning import compiled, kernels
from gossamer.arrays import F64, I32, I64, Bools
from gossamer.placement.incidence import incidence
from gossamer.placement.partition import Goal, task
from gossamer.placement.partitioners import START
from gossamer.placement.stream import FENNEL, LINKED, Parts, Rule, choose, learn, settle
from gossamer.sim.graphs import Graph

MOVES = 4  # passes of a rebalance


@dataclass(frozen=True)
class Policy:
    rule: Rule
    waits: bool = False  # a unit is placed when its first page is due, not when its first link is seen
    rebalances: bool = False  # whenever the crawl has doubled
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
            moved += _rebalance(graph, unit, crawl[:end], goal, known, parts, rule, seed)
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
    graph: Graph, unit: I32, crawled: I32, goal: Goal, known: Known, parts: Parts, rule: Rule, seed: int
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
    random = np.random.default_rng(seed)
    after = improve(compiled(task(linked, goal)), before, FENNEL, random, MOVES)
    known.part[placed] = after
    for number_of, load in enumerate(np.bincount(after, known.size[placed], goal.parts).astype(np.int64).tolist()):
        settle(parts, rule, number_of, load - int(parts.load[number_of]))
    return int(known.size[placed][before != after].sum())
