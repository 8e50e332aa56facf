"""This module partitions graphs with METIS or KaHIP, which see everything at once: to measure streaming against."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from experiments.partition_passes import HARD, merged, unplaced
from gossamer.arrays import F64, I32
from gossamer.errors import ConfigError
from gossamer.placement.partition import Task, loads
from gossamer.placement.stream import FENNEL


def metis(task: Task, seed: int) -> I32:
    return within(task, _metis(task, seed))


def _metis(task: Task, seed: int) -> I32:
    pymetis = _module("pymetis", "METIS", "lab")
    graph = task.graph
    _, part = pymetis.part_graph(
        task.parts,
        pymetis.CSRAdjacency(graph.first, graph.other),
        vweights=graph.size,
        eweights=_whole(graph.weight),
        tpwgts=(task.before.share / task.parts).tolist(),
        options=pymetis.Options(seed=seed, ufactor=max(1, round((task.slack - 1) * 1000))),
    )
    return np.array(part, np.int32)


def kahip(task: Task, seed: int) -> I32:
    module = _module("kahip", "KaHIP", "kahip")
    if not (task.before.share == 1).all():
        raise ConfigError("KaHIP fills all parts alike; METIS can fill unequal ones")
    graph = task.graph
    columns = (graph.size, graph.first, _whole(graph.weight), graph.other)
    _, part = module.kaffpa(*columns, task.parts, task.slack - 1, True, seed, module.ECO)
    return within(task, np.array(part, np.int32))


def sampled(task: Task, order: I32, fraction: float, seed: int) -> I32:
    """METIS for the beginning of the stream, FENNEL for the rest."""
    count = min(len(order), max(task.parts, round(len(order) * fraction)))
    label = np.full(task.graph.vertices, -1, np.int64)
    label[order[:count]] = np.arange(count)
    part = unplaced(task)
    part[order[:count]] = _metis(replace(task, graph=merged(task.graph, label, count)), seed)
    load = loads(task.graph, part, task.parts)
    task.stream(order[count:], part, task.begin(FENNEL, load=load), FENNEL)
    return within(task, part)


def within(task: Task, part: I32) -> I32:
    """Vertices of overfull parts move to where there is room: offline partitioners take capacities less seriously."""
    full = loads(task.graph, part, task.parts) > task.before.capacity
    if full.any():
        parts = task.begin(HARD, load=loads(task.graph, part, task.parts))
        task.stream(np.flatnonzero(full[part]).astype(np.int32), part, parts, HARD, moving=True)
    return part


def _whole(weight: F64) -> I32:
    """They count in whole numbers."""
    finest = 1.0 if (weight == np.rint(weight)).all() else 1000 / float(weight.mean())
    return np.clip(np.rint(weight * finest), 1, 2**31 - 1).astype(np.int32)


def _module(name: str, method: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(f"{method} is not installed: pip install 'gossamer-crawler[{extra}]'") from None
