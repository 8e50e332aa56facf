"""What is to be placed where, checked once: a graph, parts with their capacities, and what crossing links cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64, I32, I64
from gossamer.errors import ConfigError
from gossamer.placement.clustering import propagate
from gossamer.placement.incidence import Incidence
from gossamer.placement.stream import ALPHA, ROUNDING, Parts, Rule, settle, stream

SLACK = 1.1  # nu
GAMMA = 1.5
NOTHING: F64 = np.zeros((0, 0))


class Kernels(NamedTuple):
    """The two loops over all edges. The lab brings compiled ones, of the same functions."""

    stream: Callable[..., None] = stream
    propagate: Callable[..., int] = propagate


PLAIN = Kernels()


@dataclass(frozen=True, eq=False)
class Goal:
    """The parts: how many, how much each may take, and what links between them cost."""

    parts: int
    slack: float = SLACK  # a part takes at most this times its share
    shares: tuple[float, ...] = ()  # of the total, in any unit; empty: equal ones
    closeness: F64 = field(default_factory=lambda: NOTHING)  # see `prices.closeness`; empty: all parts are as far

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ConfigError(f"{self.parts} parts make no sense, at least 1 is needed")
        if not 1 <= self.slack < math.inf:
            raise ConfigError(f"a slack of {self.slack} makes no sense, at least 1 is needed")
        if self.shares and (len(self.shares) != self.parts or not 0 < min(self.shares) <= max(self.shares) < math.inf):
            raise ConfigError(f"each of the {self.parts} parts needs a share above 0")
        if len(self.closeness) and self.closeness.shape != (self.parts, self.parts):
            raise ConfigError(f"closeness is a table of {self.parts} times {self.parts} parts")

    def before(self, total: int, alpha: float) -> Parts:
        """The parts while they are empty."""
        k = self.parts
        shares = np.array(self.shares or (1.0,) * k, np.float64)
        shares *= k / shares.sum()
        capacity = np.ceil(self.slack * total * shares / k - ROUNDING).astype(np.int64)
        known = np.zeros(4)
        known[ALPHA] = alpha
        return Parts(np.zeros(k, np.int64), capacity, shares, np.ones(k), np.zeros(k), known)


@dataclass(frozen=True, eq=False)
class Task:
    graph: Incidence
    before: Parts  # as they are before any vertex of the graph is placed
    slack: float
    closeness: F64
    toll: F64 = field(default_factory=lambda: NOTHING)  # of each vertex at each part, in links
    kernels: Kernels = PLAIN

    @property
    def parts(self) -> int:
        return len(self.before.load)

    def unplaced(self) -> I32:
        return np.full(self.graph.vertices, -1, np.int32)

    def begin(self, rule: Rule, load: I64 | None = None, constant: float = 1.0) -> Parts:
        """A state to work on: with these loads, and alpha times `constant`."""
        before = self.before
        counts = (before.load if load is None else load).copy(), before.capacity.copy()
        parts = Parts(*counts, before.share, before.factor.copy(), before.price.copy(), before.known.copy())
        parts.known[ALPHA] *= constant
        for part in range(self.parts):
            settle(parts, rule, part, 0)
        return parts

    def stream(self, order: I32, part: I32, parts: Parts, rule: Rule, moving: bool = False) -> None:
        graph = self.graph
        columns = (graph.first, graph.other, graph.weight, graph.size)
        self.kernels.stream(*columns, order, part, parts, rule, self.closeness, self.toll, moving)


def task(graph: Incidence, goal: Goal, toll: F64 = NOTHING, kernels: Kernels = PLAIN) -> Task:
    if goal.parts > graph.vertices:
        raise ConfigError(f"{goal.parts} parts for {graph.vertices} vertices: some would be empty; ask for fewer parts")
    if len(toll) and toll.shape != (graph.vertices, goal.parts):
        raise ConfigError(f"toll is a table of {graph.vertices} vertices times {goal.parts} parts")
    alpha = goal.parts ** (GAMMA - 1) * graph.edges / graph.total**GAMMA
    return Task(graph, goal.before(graph.total, alpha), goal.slack, goal.closeness, toll, kernels)
