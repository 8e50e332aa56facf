"""Partitions whole graphs in passes over a stream of vertices: one, several, or moves that improve what there is."""

import numpy as np

from gossamer.arrays import I32
from gossamer.placement.stream import Rule
from gossamer.placement.task import GAMMA, Task

LDG = Rule(gamma=0.0, fading=1.0, slack=0.0, ties_first=False)
FENNEL = Rule(gamma=GAMMA, fading=0.0, slack=0.0, ties_first=False)
HARD = Rule(gamma=0.0, fading=0.0, slack=0.0, ties_first=False)  # nothing but links, and the capacities
PASSES = 10
STEEPER = 1.5  # alpha of the next pass: first the links decide, in the end the balance


def one_pass(task: Task, order: I32, rule: Rule, constant: float = 1.0) -> I32:
    """Each vertex is placed when it comes, for good. `constant`: FENNEL's alpha times this."""
    part = task.unplaced()
    task.stream(order, part, task.begin(rule, constant=constant), rule)
    return part


def live_pass(task: Task, order: I32, rule: Rule) -> I32:
    """The same without knowing how many vertices and edges will come."""
    rule = rule._replace(slack=task.slack)
    parts = task.begin(rule, constant=0.0)
    parts.capacity[:] = 1  # grows with what is seen
    part = task.unplaced()
    task.stream(order, part, parts, rule)
    return part


def restream(task: Task, order: I32, rule: Rule, passes: int = PASSES) -> I32:
    """The same stream again and again (Nishimura and Ugander 2013): neighbours count with their latest place, loads
    begin at 0 in every pass. FENNEL's alpha rises; in the middle it is that of one pass."""
    part = task.unplaced()
    for number in range(passes):
        task.stream(order, part, task.begin(rule, constant=STEEPER ** (number - passes // 2)), rule)
    return part


def improve(
    task: Task,
    part: I32,
    rule: Rule,
    random: np.random.Generator,
    passes: int = PASSES - 1,
    fixed: int = 0,
    steeper: float = 1.0,
) -> I32:
    """Vertices leave their part one by one, in random order, for where they belong; loads always count all. Ends when
    hardly any moves. The last `fixed` vertices stay."""
    part = part.copy()
    count = task.graph.vertices - fixed
    load = task.before.load + np.bincount(part[:count], task.graph.size[:count], task.parts).astype(np.int64)
    for number in range(passes):
        before = part.copy()
        parts = task.begin(rule, load=load, constant=steeper ** (number - passes // 2))
        task.stream(random.permutation(count).astype(np.int32), part, parts, rule, moving=True)
        load = parts.load
        if steeper == 1.0 and np.count_nonzero(part != before) * 1000 < count:
            break
    return part
