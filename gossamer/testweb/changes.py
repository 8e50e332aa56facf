"""Pages change by a Poisson process of their own over all time; this module computes any part of it directly.

The number of changes in the whole horizon is drawn once; then each half of a span gets its share by a fair binomial
split, as exact Poisson processes do. So the count up to any time, and the time of any change, take a walk down a
binary tree of about log2(number of changes) steps, and no state.
"""

import math

from gossamer.testweb.mix import draw, mix, normal, unit

HORIZON_S = 2.0**27  # four years; nothing changes afterwards
_FEW = 3  # so many changes in a span are placed one by one
_NODE = 0xD1342543DE82EF95


def version(bits: int, rate_per_s: float, t_s: float) -> int:
    """Returns how many changes a page with these bits has seen by time t_s."""
    if rate_per_s <= 0 or t_s <= 0:
        return 0
    left_of, count, node, start, width = 0, _total(bits, rate_per_s), 1, 0.0, HORIZON_S
    if t_s >= HORIZON_S:
        return count
    while count > _FEW:
        first = _split(count, mix(bits ^ node * _NODE))
        width /= 2
        if t_s >= start + width:
            left_of, count, node, start = left_of + first, count - first, 2 * node + 1, start + width
        else:
            count, node = first, 2 * node
    return left_of + sum(when <= t_s for when in _times(bits, node, count, start, width))


def changed_at(bits: int, rate_per_s: float, number: int) -> float:
    """Returns when the number-th change happens (1 is the first); infinity if it never does."""
    count, node, start, width = _total(bits, rate_per_s) if rate_per_s > 0 else 0, 1, 0.0, HORIZON_S
    if number < 1:
        return 0.0
    if number > count:
        return math.inf
    while count > _FEW:
        first = _split(count, mix(bits ^ node * _NODE))
        width /= 2
        if number > first:
            number, count, node, start = number - first, count - first, 2 * node + 1, start + width
        else:
            count, node = first, 2 * node
    return _times(bits, node, count, start, width)[number - 1]


def _times(bits: int, node: int, count: int, start: float, width: float) -> list[float]:
    inside = mix(bits ^ node * _NODE)
    return sorted(start + width * unit(draw(inside, nth)) for nth in range(count))


def _split(count: int, bits: int) -> int:
    """Draws Binomial(count, 1/2): exact up to 64 by counting random bits, then as a normal number."""
    if count <= 64:
        return (bits & ((1 << count) - 1)).bit_count()
    return min(count, max(0, round(count / 2 + normal(bits) * math.sqrt(count) / 2)))


def _total(bits: int, rate_per_s: float) -> int:
    """Draws Poisson(rate x horizon): by inversion when small, else as a normal number."""
    mean = rate_per_s * HORIZON_S
    bits = draw(bits, 50)
    if mean > 50:
        return max(0, round(mean + normal(bits) * math.sqrt(mean)))
    chance, count, term = unit(bits), 0, math.exp(-mean)
    below = term
    while chance >= below and count < 200:
        count += 1
        term *= mean / count
        below += term
    return count
