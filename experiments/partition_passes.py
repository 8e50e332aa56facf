"""This module partitions whole graphs in passes over a stream of vertices: one, several, or moves."""

import numpy as np

from gossamer.arrays import F64, I32, I64, Integers
from gossamer.placement.incidence import Incidence, starts, summed
from gossamer.placement.partition import Task
from gossamer.placement.stream import ALPHA, Parts, Rule, settle

HARD = Rule(gamma=0.0, fading=0.0, slack=0.0, ties_first=False)  # nothing but links, and the capacities
PASSES = 10
STEEPER = 1.5  # alpha of the next pass: first the links decide, in the end the balance


def begin(task: Task, rule: Rule, load: I64 | None = None, constant: float = 1.0) -> Parts:
    """`Task.begin` with FENNEL's alpha times `constant`."""
    parts = task.begin(rule, load)
    parts.known[ALPHA] *= constant
    for part in range(task.parts):
        settle(parts, rule, part, 0)
    return parts


def unplaced(task: Task) -> I32:
    return np.full(task.graph.vertices, -1, np.int32)


def one_pass(task: Task, order: I32, rule: Rule, constant: float = 1.0) -> I32:
    """Each vertex is placed when it comes, for good. `constant`: FENNEL's alpha times this."""
    part = unplaced(task)
    task.stream(order, part, begin(task, rule, constant=constant), rule)
    return part


def live_pass(task: Task, order: I32, rule: Rule) -> I32:
    """The same without knowing how many vertices and edges will come."""
    rule = rule._replace(slack=task.slack)
    parts = begin(task, rule, constant=0.0)
    parts.capacity[:] = 1  # grows with what is seen
    part = unplaced(task)
    task.stream(order, part, parts, rule)
    return part


def restream(task: Task, order: I32, rule: Rule, passes: int = PASSES) -> I32:
    """The same stream again and again (Nishimura and Ugander 2013): neighbours count with their latest place, loads
    begin at 0 in every pass. FENNEL's alpha rises; in the middle it is that of one pass."""
    part = unplaced(task)
    for number in range(passes):
        task.stream(order, part, begin(task, rule, constant=STEEPER ** (number - passes // 2)), rule)
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
    """`partition.improve`, but the last `fixed` vertices stay, and alpha rises from pass to pass if it is `steeper`."""
    part = part.copy()
    count = task.graph.vertices - fixed
    load = task.before.load + np.bincount(part[:count], task.graph.size[:count], task.parts).astype(np.int64)
    for number in range(passes):
        before = part.copy()
        parts = begin(task, rule, load, steeper ** (number - passes // 2))
        task.stream(random.permutation(count).astype(np.int32), part, parts, rule, moving=True)
        load = parts.load
        if steeper == 1.0 and np.count_nonzero(part != before) * 1000 < count:
            break
    return part


def cost(task: Task, part: I32) -> float:
    """The priced objective without its balance: links between parts by their distance, and tolls; in links."""
    source, target = part[task.graph.sources()], part[task.graph.other]
    if len(task.closeness):
        links = task.graph.weight * (1 - task.closeness[source, target])
    else:
        links = task.graph.weight * (source != target)
    tolls = task.toll[np.arange(len(part)), part].sum() if len(task.toll) else 0.0
    return float(links.sum() / 2 + tolls)


def merged(graph: Incidence, label: Integers, labels: int) -> Incidence:
    """Vertices with the same label become one: sizes and weights are added up, edges inside vanish. Those with label -1
    are left out."""
    source, target = label[graph.sources()].astype(np.int64), label[graph.other].astype(np.int64)
    real = (source != target) & (source >= 0) & (target >= 0)
    pairs, sums = summed(source[real] * labels + target[real], graph.weight[real])
    kept = label >= 0
    sizes = np.bincount(label[kept], weights=graph.size[kept], minlength=labels).astype(np.int64)
    counts = np.bincount(pairs // labels, minlength=labels)
    return Incidence(starts(counts), (pairs % labels).astype(np.int32), sums, sizes)


def unlinked(graph: Incidence) -> Incidence:
    """The same vertices without edges."""
    return Incidence(np.zeros_like(graph.first), np.zeros(0, np.int32), np.zeros(0), graph.size)


def propagate(first: I64, other: I32, weight: F64, size: I64, order: I32, label: I32, load: I64, limit: int) -> int:
    """Label propagation: every vertex of `order` in turn takes the label that most of its edges have, of those with
    room for it (Raghavan et al. 2007; with a limit, Meyerhenke et al. 2014). Equal ones: its own, else the smaller
    group, else the lower label. `load`: the size of each group. Returns how many vertices changed."""
    pull = np.zeros(len(load))
    near = np.empty(len(load), np.int32)
    changes = 0
    for v in order:
        count = 0
        for e in range(first[v], first[v + 1]):
            group = label[other[e]]
            if pull[group] == 0.0:
                near[count] = group
                count += 1
            pull[group] += weight[e]
        own = best = label[v]
        for j in range(count):
            group = near[j]
            if group != own and load[group] + size[v] <= limit:
                ahead = pull[group] - pull[best]
                if ahead > 0 or (ahead == 0 and best != own and (load[group], group) < (load[best], best)):
                    best = group
        for j in range(count):
            pull[near[j]] = 0.0
        if best != own:
            load[own] -= size[v]
            load[best] += size[v]
            label[v] = best
            changes += 1
    return changes
