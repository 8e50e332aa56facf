"""This module partitions a buffer of the stream at once, as well as offline partitioners do: clusters, then members.

The stream is cut into buffers. Of each, vertices that belong together are merged, again and again, until few are left;
those are placed by restreamed FENNEL; then the clusters are taken apart level by level, and vertices that are better
off elsewhere move (as in Faraj and Schulz, Buffered Streaming Graph Partitioning, 2022). What earlier buffers put into
a part stands in the buffer's graph as one vertex, an anchor: the last vertices of the graph, one for each part. With
one buffer for everything this is an offline partitioner.
"""

from dataclasses import replace

import numpy as np

from experiments.partition_passes import PASSES, begin, cost, improve, merged, propagate, unplaced
from experiments.partitioning import Compiled
from gossamer.arrays import I32
from gossamer.placement.incidence import Incidence, incidence
from gossamer.placement.partition import Task
from gossamer.placement.stream import FENNEL

SMALL = 60  # vertices per part: the coarsest graph has hardly more
CLUSTERS = 14  # per part at least: smaller ones fill the parts better
ROUNDS = 4  # of label propagation on each level
MOVES = 5  # passes of moves on each level
TRIES = 4  # of the coarsest graph
STEEPER = 1.3  # alpha from pass to pass there


def buffered(task: Task, order: I32, buffers: int, random: np.random.Generator) -> I32:
    """One pass over the stream in so many buffers; places in earlier ones are final."""
    part = unplaced(task)
    load = np.zeros(task.parts, np.int64)
    for batch in np.array_split(order, min(buffers, len(order))):
        graph = _with_anchors(task, batch, part)
        toll = np.concatenate((task.toll[batch], np.zeros((task.parts, task.parts)))) if len(task.toll) else task.toll
        chosen = multilevel(replace(task, graph=graph, toll=toll, before=task.before._replace(load=load)), random)
        part[batch] = chosen[: len(batch)]
        load = load + np.bincount(part[batch], weights=task.graph.size[batch], minlength=task.parts).astype(np.int64)
    return part


def multilevel(task: Task, random: np.random.Generator) -> I32:
    """Places all vertices; the last ones are the anchors of the parts."""
    levels: list[tuple[Task, I32]] = []
    limit = int(task.graph.size[: -task.parts].sum()) // (task.parts * CLUSTERS)
    while task.graph.vertices > (SMALL + 1) * task.parts:
        label, labels = _clusters(task, limit, random)
        if labels > 0.95 * task.graph.vertices:
            break
        levels.append((task, label))
        task = _coarser(task, label, labels)
    part = _coarsest(task, random)
    for finer, label in reversed(levels):
        part = improve(finer, part[label], FENNEL, random, MOVES, fixed=finer.parts)
    return part


def _coarsest(task: Task, random: np.random.Generator) -> I32:
    """Large clusters first, then a few random orders: the best of them."""
    count = task.graph.vertices - task.parts
    orders = [np.argsort(-task.graph.size[:count], kind="stable")]
    orders += [random.permutation(count) for _ in range(TRIES - 1)]
    tries = [_restreamed(task, order.astype(np.int32), random) for order in orders]
    return min(tries, key=lambda part: (_excess(task, part), cost(task, part)))


def _restreamed(task: Task, order: I32, random: np.random.Generator) -> I32:
    part = unplaced(task)
    part[len(order) :] = np.arange(task.parts)
    for number in range(PASSES):
        task.stream(order, part, begin(task, FENNEL, constant=STEEPER**number), FENNEL)
    return improve(task, part, FENNEL, random, MOVES, fixed=task.parts)


def _excess(task: Task, part: I32) -> int:
    count = task.graph.vertices - task.parts
    load = np.bincount(part[:count], weights=task.graph.size[:count], minlength=task.parts)
    return int(np.maximum(task.before.load + load - task.before.capacity, 0).sum())


def _clusters(task: Task, limit: int, random: np.random.Generator) -> tuple[I32, int]:
    graph, count = task.graph, task.graph.vertices - task.parts
    label = np.arange(graph.vertices, dtype=np.int32)
    load = graph.size.copy()
    load[count:] = limit  # nothing joins an anchor
    propagated = task.propagate if isinstance(task, Compiled) else propagate
    for _ in range(ROUNDS):
        order = random.permutation(count).astype(np.int32)
        columns = (graph.first, graph.other, graph.weight, graph.size)
        if propagated(*columns, order, label, load, limit) * 50 < count:
            break
    used, numbered = np.unique(label, return_inverse=True)  # in order, so anchors stay the last
    return numbered.astype(np.int32), len(used)


def _coarser(task: Task, label: I32, labels: int) -> Task:
    toll = task.toll
    if len(toll):
        toll = np.stack([np.bincount(label, column, labels) for column in toll.T], axis=1)
    return replace(task, graph=merged(task.graph, label, labels), toll=toll)


def _with_anchors(task: Task, batch: I32, part: I32) -> Incidence:
    """The edges among these vertices, and those to the parts of vertices that are placed already."""
    graph, count = task.graph, len(batch)
    local = np.where(part >= 0, count + part.astype(np.int64), -1)
    local[batch] = np.arange(count)
    lengths = graph.first[batch + 1] - graph.first[batch]
    skipped = np.repeat(graph.first[batch] - np.cumsum(lengths) + lengths, lengths)
    entries = skipped + np.arange(len(skipped))
    source, target, weight = np.repeat(np.arange(count), lengths), local[graph.other[entries]], graph.weight[entries]
    known = (target >= count) | (target > source)  # edges within the batch are in two rows
    sizes = np.concatenate((graph.size[batch], np.ones(task.parts, np.int64)))
    return incidence(source[known], target[known], count + task.parts, weight[known], sizes)
