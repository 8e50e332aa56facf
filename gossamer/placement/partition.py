"""This module describes and improves a partition: a graph, parts with capacities, what crossing links cost."""

import math
from dataclasses import dataclass, field

import numpy as np

from gossamer.arrays import F64, I32, I64
from gossamer.errors import ConfigError
from gossamer.placement.incidence import Incidence
from gossamer.placement.stream import ALPHA, GAMMA, ROUNDING, Parts, Rule, settle, stream

SLACK = 1.1  # nu
PASSES = 9  # of moves, at most
NOTHING: F64 = np.zeros((0, 0))


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
        """Returns the parts as they are while they are empty."""
        k = self.parts
        shares = np.array(self.shares or (1.0,) * k, np.float64)
        shares *= k / shares.sum()
        capacity = np.ceil(self.slack * total * shares / k - ROUNDING).astype(np.int64)
        known = np.zeros(4)
        known[ALPHA] = alpha
        return Parts(np.zeros(k, np.int64), capacity, shares, np.ones(k), np.zeros(k), known)


@dataclass(frozen=True, eq=False)
class Task:
    """A graph and the parts that its vertices are to be placed in, checked by `task`."""

    graph: Incidence
    before: Parts  # as they are before any vertex of the graph is placed
    slack: float
    closeness: F64
    toll: F64 = field(default_factory=lambda: NOTHING)  # of each vertex at each part, in links

    @property
    def parts(self) -> int:
        return len(self.before.load)

    def begin(self, rule: Rule, load: I64 | None = None) -> Parts:
        """Returns a state to work on, with these loads."""
        before = self.before
        counts = (before.load if load is None else load).copy(), before.capacity.copy()
        parts = Parts(*counts, before.share, before.factor.copy(), before.price.copy(), before.known.copy())
        for part in range(self.parts):
            settle(parts, rule, part, 0)
        return parts

    def stream(self, order: I32, part: I32, parts: Parts, rule: Rule, moving: bool = False) -> None:
        """Places the vertices of `order` one by one (see `stream.stream`)."""
        graph = self.graph
        columns = (graph.first, graph.other, graph.weight, graph.size)
        stream(*columns, order, part, parts, rule, self.closeness, self.toll, moving)


def task(graph: Incidence, goal: Goal, toll: F64 = NOTHING) -> Task:
    if goal.parts > graph.vertices:
        raise ConfigError(f"{goal.parts} parts for {graph.vertices} vertices: some would be empty; ask for fewer parts")
    if len(toll) and toll.shape != (graph.vertices, goal.parts):
        raise ConfigError(f"toll is a table of {graph.vertices} vertices times {goal.parts} parts")
    alpha = goal.parts ** (GAMMA - 1) * graph.edges / graph.total**GAMMA
    return Task(graph, goal.before(graph.total, alpha), goal.slack, goal.closeness, toll)


def improve(task: Task, part: I32, rule: Rule, random: np.random.Generator, passes: int = PASSES) -> I32:
    """Vertices leave their part one by one, in random order, for where they belong; loads always count all of them.
    The passes end when hardly any vertex moves."""
    part = part.copy()
    load = task.before.load + loads(task.graph, part, task.parts)
    for _ in range(passes):
        before = part.copy()
        parts = task.begin(rule, load)
        task.stream(random.permutation(len(part)).astype(np.int32), part, parts, rule, moving=True)
        load = parts.load
        if np.count_nonzero(part != before) * 1000 < len(part):
            break
    return part


@dataclass(frozen=True)
class Overflow:
    """A part that holds more than it should."""

    part: int
    excess: int
    vertex: int  # its largest one
    size: int


def cut(graph: Incidence, part: I32) -> float:
    """Returns the share of the edges, by weight, that lead from one part to another."""
    crossing = part[graph.sources()] != part[graph.other]
    return float(graph.weight[crossing].sum() / 2 / graph.edges) if graph.edges else 0.0


def loads(graph: Incidence, part: I32, parts: int) -> I64:
    """Returns the size of each part; a vertex that is not placed yet has part -1."""
    placed = part >= 0
    return np.bincount(part[placed], weights=graph.size[placed], minlength=parts).astype(np.int64)


def imbalance(task: Task, part: I32) -> float:
    """Returns the load of the fullest part in proportion to its share: 1 is perfect, `Goal.slack` is the limit."""
    fair = task.before.share * task.graph.total / task.parts
    return float((loads(task.graph, part, task.parts) / fair).max())


def overflows(task: Task, part: I32) -> list[Overflow]:
    """Returns the parts above their capacity. A vertex is never split, so a very large one may not fit anywhere."""
    excess = loads(task.graph, part, task.parts) - task.before.capacity
    found = []
    for full in np.flatnonzero(excess > 0).tolist():
        members = np.flatnonzero(part == full)
        largest = int(members[np.argmax(task.graph.size[members])])
        found.append(Overflow(full, int(excess[full]), largest, int(task.graph.size[largest])))
    return found
