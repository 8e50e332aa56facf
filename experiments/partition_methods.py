"""This module has all partitioners of whole graphs by name: what each does, in one dict."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from experiments import partition_offline as offline
from experiments.partition_multilevel import buffered
from experiments.partition_passes import STEEPER, improve, live_pass, one_pass, restream, unlinked
from gossamer.arrays import I32
from gossamer.errors import ConfigError
from gossamer.placement.partition import NOTHING, Task
from gossamer.placement.stream import FENNEL, GAMMA, LDG, Rule

Random = np.random.Generator

LEADS_CONSTANT = GAMMA / 2  # LEADS D1.4 prints FENNEL's price with this factor
SAMPLE = 0.1


@dataclass(frozen=True)
class Partitioner:
    name: str
    meaning: str
    place: Callable[[Task, I32, Random], I32]  # vertices in the order in which they come; the part of each
    ordered: bool = True  # that order matters
    random: bool = False  # something else is random
    passes: int = 1  # over the stream; 0: it needs the whole graph at once


def _once(task: Task, order: I32, _random: Random, rule: Rule, constant: float = 1.0) -> I32:
    return one_pass(task, order, rule, constant)


def _tight(task: Task, order: I32, _random: Random) -> I32:
    return one_pass(task, order, LDG._replace(fading=task.slack))


def _live(task: Task, order: I32, _random: Random, rule: Rule) -> I32:
    return live_pass(task, order, rule)


def _again(task: Task, order: I32, _random: Random, rule: Rule) -> I32:
    return restream(task, order, rule)


def _moved(task: Task, order: I32, random: Random) -> I32:
    return improve(task, one_pass(task, order, FENNEL), FENNEL, random, steeper=STEEPER)


def _in_buffers(task: Task, order: I32, random: Random, buffers: int, moves: int = 0) -> I32:
    return improve(task, buffered(task, order, buffers, random), FENNEL, random, moves)


def _hash(task: Task, _order: I32, random: Random) -> I32:
    """What a ring does, in the mean: each vertex for itself, in proportion to the shares. Those that find their part
    full go to the emptiest."""
    wanted = random.choice(task.parts, task.graph.vertices, p=task.before.share / task.parts).astype(np.int32)
    lonely = replace(task, graph=unlinked(task.graph), closeness=NOTHING, toll=NOTHING)
    return offline.within(lonely, wanted)


def _sampled(task: Task, order: I32, random: Random) -> I32:
    return offline.sampled(task, order, SAMPLE, int(random.integers(2**31)))


def _metis(task: Task, _order: I32, random: Random) -> I32:
    return offline.metis(task, int(random.integers(2**31)))


def _kahip(task: Task, _order: I32, random: Random) -> I32:
    return offline.kahip(task, int(random.integers(2**31)))


def _all() -> Iterator[Partitioner]:
    yield Partitioner("hash", "each vertex by its hash", _hash, ordered=False, random=True)
    yield Partitioner("ldg-first", "LDG, ties to the first part", partial(_once, rule=LDG._replace(ties_first=True)))
    yield Partitioner("ldg-tight", "LDG, links fade to nothing at n / k", _tight)
    yield Partitioner("ldg", "LDG", partial(_once, rule=LDG))
    yield Partitioner("fennel", "FENNEL", partial(_once, rule=FENNEL))
    yield Partitioner(
        "fennel-leads", "FENNEL, constant of LEADS D1.4", partial(_once, rule=FENNEL, constant=LEADS_CONSTANT)
    )
    yield Partitioner("fennel-live", "FENNEL, n and m as seen so far", partial(_live, rule=FENNEL))
    yield Partitioner("sample-fennel", "METIS on the first tenth, then FENNEL", _sampled, random=True)
    yield Partitioner("buffered-16", "16 buffers", partial(_in_buffers, buffers=16), random=True)
    yield Partitioner("buffered-4", "4 buffers", partial(_in_buffers, buffers=4), random=True)
    yield Partitioner("reldg", "LDG, 10 passes", partial(_again, rule=LDG), passes=10)
    yield Partitioner("refennel", "FENNEL, 10 passes", partial(_again, rule=FENNEL), passes=10)
    yield Partitioner("fennel-moves", "FENNEL, then 9 passes of moves", _moved, random=True, passes=10)
    moved = partial(_in_buffers, buffers=4, moves=4)
    yield Partitioner("buffered-moves", "4 buffers, then 4 passes of moves", moved, random=True, passes=5)
    whole = partial(_in_buffers, buffers=1)
    yield Partitioner("multilevel", "all in one buffer", whole, ordered=False, random=True, passes=0)
    yield Partitioner("metis", "METIS", _metis, ordered=False, random=True, passes=0)
    yield Partitioner("kahip", "KaHIP", _kahip, ordered=False, random=True, passes=0)


PARTITIONERS = {each.name: each for each in _all()}


def partitioner(name: str) -> Partitioner:
    try:
        return PARTITIONERS[name]
    except KeyError:
        raise ConfigError(f'there is no partitioner "{name}"; known are {", ".join(PARTITIONERS)}') from None
