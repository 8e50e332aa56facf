"""This module compiles the loops of the partitioners, and gives them graphs: in which order, at which level."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from experiments.partition_passes import propagate
from gossamer.arrays import I32, I64
from gossamer.placement import stream
from gossamer.placement.incidence import Incidence, incidence
from gossamer.placement.partition import Task
from gossamer.placement.stream import Parts, Rule
from gossamer.sim.graphs import Graph

ORDERS = ("random", "natural", "bfs", "dfs")
LEVELS = ("page", "host")

for _called in (stream.choose, stream.settle, stream.learn):
    register_jitable(_called)  # they stay what they are; compiled functions may call them


class Kernels(NamedTuple):
    stream: Any
    propagate: Any


@cache
def kernels() -> Kernels:
    """Production's own functions, compiled; each calls only functions of its own file, so numba notices changes."""
    return Kernels(njit(stream.stream, cache=True, nogil=True), njit(propagate, cache=True, nogil=True))


@dataclass(frozen=True, eq=False)
class Compiled(Task):
    """A task whose loops over all edges are compiled."""

    def stream(self, order: I32, part: I32, parts: Parts, rule: Rule, moving: bool = False) -> None:
        graph = self.graph
        columns = (graph.first, graph.other, graph.weight, graph.size)
        kernels().stream(*columns, order, part, parts, rule, self.closeness, self.toll, moving)

    def propagate(self, *columns: Any) -> int:
        return int(kernels().propagate(*columns))


def compiled(task: Task) -> Compiled:
    return Compiled(**vars(task))


def incidence_of(graph: Graph, level: str) -> Incidence:
    """Pages, of which a linked pair counts once; or hosts with their pages as size and all links between them."""
    if level == "page":
        return incidence(graph.sources(), graph.indices, graph.pages)
    source, target = graph.host[graph.sources()], graph.host[graph.indices]
    hosts = len(graph.host_names)
    sizes = np.maximum(np.bincount(graph.host, minlength=hosts), 1)
    return incidence(source, target, hosts, np.ones(graph.links), sizes)


def stream_order(graph: Incidence, name: str, random: np.random.Generator) -> I32:
    """In which vertices come; walks begin at a random vertex, and again wherever they have not been."""
    if name == "natural":
        return np.arange(graph.vertices, dtype=np.int32)
    starts = random.permutation(graph.vertices).astype(np.int32)
    return starts if name == "random" else _walk(graph.first, graph.other, starts, name == "dfs")


@njit(cache=True, nogil=True)
def _walk(first: I64, other: I32, starts: I32, is_deep: bool) -> I32:
    order = np.empty(len(starts), np.int32)
    waiting = np.empty(len(other) + 1, np.int32)
    done = np.zeros(len(starts), np.bool_)
    count = 0
    for start in starts:
        waiting[0] = start
        head, tail = 0, 1
        while head < tail:
            if is_deep:
                tail -= 1
                v = waiting[tail]
            else:
                v = waiting[head]
                head += 1
            if done[v]:
                continue
            done[v] = True
            order[count] = v
            count += 1
            for e in range(first[v], first[v + 1]):
                if not done[other[e]]:
                    waiting[tail] = other[e]
                    tail += 1
    return order


@njit(cache=True, nogil=True)
def breadth_first(indptr: I64, indices: I32, starts: I32) -> I32:
    """The pages that a crawl from these starts visits, in order of discovery."""
    order = np.empty(len(indptr) - 1, np.int32)
    known = np.zeros(len(order), np.bool_)
    count = 0
    for start in starts:
        if not known[start]:
            known[start] = True
            order[count] = start
            count += 1
    visited = 0
    while visited < count:
        page = order[visited]
        visited += 1
        for e in range(indptr[page], indptr[page + 1]):
            if not known[indices[e]]:
                known[indices[e]] = True
                order[count] = indices[e]
                count += 1
    return order[:count]
