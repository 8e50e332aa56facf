"""This module decides which hosts should change sites: their moves save more bytes on links than they cost."""

from dataclasses import dataclass
from math import inf

import numpy as np

from gossamer.arrays import F64, I32, I64
from gossamer.placement.incidence import Incidence
from gossamer.placement.partition import NOTHING, Goal, Overflow, Task, cut, imbalance, improve, overflows, task
from gossamer.placement.prices import LINK_BYTES
from gossamer.placement.stream import FENNEL

ROW_BYTES = 60.0  # of a page that moves, in a message: its row, what is known of its visit, and its URL; compressed


@dataclass(frozen=True)
class Moves:
    """The rows are the hosts that should move, dearest links first."""

    host: I64  # number
    to: I64  # number of a site
    links: F64  # that would no longer cross, less those that would begin to; dearer ones, and work, in proportion
    pages: I64
    crossing_before: float  # part of the links between hosts
    crossing_after: float
    fullest_before: float  # the fullest site, in proportion to its share
    fullest_after: float
    too_large: list[Overflow]  # sites that hold more than they should all the same, each with its largest host

    @property
    def saved_bytes(self) -> float:
        """The bytes saved, if as many links come again as have come so far."""
        return float(self.links.sum()) * LINK_BYTES

    @property
    def moved_bytes(self) -> float:
        return float(self.pages.sum()) * ROW_BYTES


def moves(
    graph: Incidence, goal: Goal, part: I32, seed: int = 0, toll: F64 = NOTHING, most_bytes: float = inf
) -> Moves:
    """Proposes moves by passes of FENNEL over all hosts: only those that save at least what they cost, each counted
    when those before it are carried out. `toll`: what each site costs each host besides, in links. Of what may be moved
    no more than `most_bytes` is, and then what saves most for each byte comes first."""
    work = task(graph, goal, toll)
    best = improve(work, part, FENNEL, np.random.default_rng(seed))
    wanted = np.flatnonzero(best != part)
    gains = np.array([_gain(work, part, host, int(best[host])) for host in wanted.tolist()], np.float64)
    after, chosen, links = part.copy(), [], []
    load = np.bincount(part, graph.size, goal.parts).astype(np.int64)
    worth, left = gains if most_bytes == inf else gains / np.maximum(graph.size[wanted], 1), most_bytes
    for host in wanted[np.argsort(-worth, kind="stable")].tolist():
        gain = _gain(work, after, host, int(best[host]))
        size, to = int(graph.size[host]), int(best[host])
        fits = load[to] + size <= work.before.capacity[to] or load[to] + size < load[after[host]]
        if fits and gain * LINK_BYTES > size * ROW_BYTES <= left:
            left -= size * ROW_BYTES
            load[after[host]] -= size
            load[to] += size
            after[host] = to
            chosen.append(host)
            links.append(gain)
    host_numbers = np.array(chosen, np.int64)
    return Moves(
        host_numbers,
        after[host_numbers].astype(np.int64),
        np.array(links, np.float64),
        graph.size[host_numbers],
        cut(graph, part),
        cut(graph, after),
        imbalance(work, part),
        imbalance(work, after),
        overflows(work, after),
    )


def _gain(work: Task, part: I32, host: int, to: int) -> float:
    """Returns what the host's links and the work on its pages cost less at the new site, in dearest links."""
    row = slice(work.graph.first[host], work.graph.first[host + 1])
    places, weight = part[work.graph.other[row]], work.graph.weight[row]
    if len(work.closeness):
        near = work.closeness[to, places] - work.closeness[part[host], places]
    else:
        near = (places == to).astype(np.float64) - (places == part[host])
    toll = work.toll[host, part[host]] - work.toll[host, to] if len(work.toll) else 0.0
    return float((weight * near).sum() + toll)
