"""This module is the streaming graph partitioner: it places one vertex after the other by LDG or FENNEL, with prices.

`choose` is the whole decision for one vertex, given how much links it to each part. It is plain Python on small NumPy
arrays: a site calls it for a host that it has just discovered (`partitioners.Live`), a rebalance for all hosts. The
experiments compile the same functions for graphs of millions of edges. The score of a part is

    links[i] * factor[i] - size * price[i] - toll[i]

LDG (Stanton and Kliot 2012): factor 1 - load / capacity, price 0. FENNEL (Tsourakakis et al. 2014): factor 1, price
alpha gamma load^(gamma - 1). The best part that has room wins; equal ones by the smaller load in proportion to the
capacity, then by number.
"""

import math
from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64, I32, I64

GAMMA = 1.5
ROUNDING = 1e-9  # 1.1 * 100 / 10 is a little more than 11
SEEN, LINKED, COMPUTED, ALPHA = range(4)  # places in Parts.known


class Rule(NamedTuple):
    """The rule says what a full part costs."""

    gamma: float  # FENNEL's, above 1; 0: no price
    fading: float  # LDG's: links to a part count 1 - fading * load / capacity of it; 0: fully
    slack: float  # nu, where neither n nor m is known before the end; 0: capacities and alpha are given
    ties_first: bool  # equal parts by number only, however full they are


LDG = Rule(gamma=0.0, fading=1.0, slack=0.0, ties_first=False)
FENNEL = Rule(gamma=GAMMA, fading=0.0, slack=0.0, ties_first=False)


class Parts(NamedTuple):
    """The state of all parts: `settle` and `learn` keep it true."""

    load: I64
    capacity: I64
    share: F64  # of the total, times k: 1 where all parts are alike
    factor: F64
    price: F64
    known: F64  # size seen, weight of edges seen, size when alpha was computed, alpha


def choose(links: F64, toll: F64, size: int, parts: Parts, ties_first: bool) -> int:
    """Returns the part for a vertex. Where none has room, it goes where it overflows least."""
    load, capacity = parts.load, parts.capacity
    best = -1
    best_score = best_fill = 0.0
    for i in range(len(load)):
        if load[i] + size > capacity[i]:
            continue
        score = links[i] * parts.factor[i] - size * parts.price[i] - toll[i]
        if best >= 0 and (score < best_score or (score == best_score and ties_first)):
            continue
        fill = load[i] / parts.share[i]
        if best < 0 or score > best_score or fill < best_fill:
            best, best_score, best_fill = i, score, fill
    if best < 0:
        best = int(np.argmin(load - capacity))
    return best


def settle(parts: Parts, rule: Rule, part: int, size: int) -> None:
    """A vertex joins a part, or leaves it (negative size)."""
    load = parts.load[part] + size
    parts.load[part] = load
    if rule.fading > 0:
        parts.factor[part] = 1.0 - rule.fading * load / parts.capacity[part]
    if rule.gamma > 0:
        parts.price[part] = parts.known[ALPHA] * rule.gamma * (load / parts.share[part]) ** (rule.gamma - 1.0)


def learn(parts: Parts, rule: Rule, size: int, linked: float) -> None:
    """A vertex appears, with edges of this weight to earlier ones: n and m grow. Capacities follow at once, so that
    they hold at any time; alpha when n has doubled."""
    known, k = parts.known, len(parts.load)
    known[SEEN] += size
    known[LINKED] += linked
    is_due = known[SEEN] > 0 and known[SEEN] >= 2 * known[COMPUTED]
    if is_due:
        known[COMPUTED] = known[SEEN]
        known[ALPHA] = k ** (rule.gamma - 1.0) * known[LINKED] / known[SEEN] ** rule.gamma
    for i in range(k):
        parts.capacity[i] = max(parts.capacity[i], math.ceil(rule.slack * known[SEEN] * parts.share[i] / k - ROUNDING))
        if is_due or rule.fading > 0:
            settle(parts, rule, i, 0)


def stream(
    first: I64,
    other: I32,
    weight: F64,
    size: I64,
    order: I32,
    part: I32,
    parts: Parts,
    rule: Rule,
    closeness: F64,
    toll: F64,
    moving: bool,
) -> None:
    """Places the vertices of `order` one by one. `part` has the places known so far (-1: none) and receives the new
    ones. `closeness` of two parts: what a link between them saves of one between the furthest two; empty: all or
    nothing. `toll`: what each part costs each vertex besides, in links; empty: nothing. `moving`: `parts` counts the
    vertices already, each is taken out before it is placed anew."""
    k = len(parts.load)
    links, near, none = np.zeros(k), np.zeros(k), np.zeros(k)
    for v in order:
        links[:] = 0.0
        for e in range(first[v], first[v + 1]):
            place = part[other[e]]
            if place >= 0:
                links[place] += weight[e]
        if moving:
            settle(parts, rule, part[v], -size[v])
        if rule.slack > 0:
            learn(parts, rule, size[v], links.sum())
        near[:] = links
        if len(closeness) > 0:
            for i in range(k):
                near[i] = (closeness[i] * links).sum()
        part[v] = choose(near, toll[v] if len(toll) > 0 else none, size[v], parts, rule.ties_first)
        settle(parts, rule, part[v], size[v])
