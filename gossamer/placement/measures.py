"""What a partition is worth: the edges that it cuts, what they cost, and how evenly it fills the parts."""

from dataclasses import dataclass

import numpy as np

from gossamer.arrays import I32, I64
from gossamer.placement.incidence import Incidence
from gossamer.placement.task import Task


@dataclass(frozen=True)
class Overflow:
    """A part that holds more than it should."""

    part: int
    excess: int
    vertex: int  # its largest one
    size: int


def cut(graph: Incidence, part: I32) -> float:
    """Part of the edges, by weight, that lead from one part to another."""
    crossing = part[graph.sources()] != part[graph.other]
    return float(graph.weight[crossing].sum() / 2 / graph.edges) if graph.edges else 0.0


def loads(graph: Incidence, part: I32, parts: int) -> I64:
    """Of what is placed so far."""
    placed = part >= 0
    return np.bincount(part[placed], weights=graph.size[placed], minlength=parts).astype(np.int64)


def imbalance(task: Task, part: I32) -> float:
    """Of the fullest part, in proportion to its share of the total: 1 is perfect, `Goal.slack` the limit."""
    fair = task.before.share * task.graph.total / task.parts
    return float((loads(task.graph, part, task.parts) / fair).max())


def overflows(task: Task, part: I32) -> list[Overflow]:
    """A vertex is never split, so very large ones may not fit anywhere: which, and what they cost in balance."""
    excess = loads(task.graph, part, task.parts) - task.before.capacity
    found = []
    for full in np.flatnonzero(excess > 0).tolist():
        members = np.flatnonzero(part == full)
        largest = int(members[np.argmax(task.graph.size[members])])
        found.append(Overflow(full, int(excess[full]), largest, int(task.graph.size[largest])))
    return found


def cost(task: Task, part: I32) -> float:
    """The priced objective without its balance: links between parts by their distance, and tolls; in links."""
    source, target = part[task.graph.sources()], part[task.graph.other]
    if len(task.closeness):
        links = task.graph.weight * (1 - task.closeness[source, target])
    else:
        links = task.graph.weight * (source != target)
    tolls = task.toll[np.arange(len(part)), part].sum() if len(task.toll) else 0.0
    return float(links.sum() / 2 + tolls)
