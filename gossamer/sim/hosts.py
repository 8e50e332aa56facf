"""Graphs that know no hosts get them here: neighbours in the file's order share one, by one of three rules.

even:N    N ranges of equal size
power:N   N ranges whose sizes follow a power law, in random order
cuts:N    N ranges, cut where few links of neighbours cross: files sorted by URL have their hosts there
"""

import numpy as np

from gossamer.arrays import I32, I64
from gossamer.errors import ConfigError

HOSTS = 1_000
RULES = ("power:1000", "cuts:1000", "even:1000")
EXPONENT = 0.8  # the k-th largest host has size ~ 1 / k**EXPONENT: few large ones, many small ones
NEIGHBOURS = 1_000  # links that reach further say nothing about where a host ends


def host_rule(rule: str, indptr: I64, indices: I32) -> tuple[I32, str]:
    """The host of each page, and the rule in words."""
    name, _, count = rule.partition(":")
    pages = len(indptr) - 1
    try:
        hosts = min(int(count or HOSTS), pages)
        if hosts < 1:
            raise ValueError
        sizes = {"even": _even, "power": _power, "cuts": _cuts}[name](hosts, indptr, indices)
    except (KeyError, ValueError):
        raise ConfigError(f'there is no host rule "{rule}"; known are even:N, power:N and cuts:N') from None
    host = np.repeat(np.arange(hosts, dtype=np.int32), sizes)
    return host, f"{hosts:,} hosts by rule {name}: {_WORDS[name]}"


_WORDS = {
    "even": "ranges of equal size",
    "power": f"ranges whose sizes follow a power law with exponent {EXPONENT}",
    "cuts": "ranges cut where few links between neighbours cross",
}


def _even(hosts: int, indptr: I64, _indices: I32) -> I64:
    ends: I64 = np.linspace(0, len(indptr) - 1, hosts + 1).astype(np.int64)
    return ends[1:] - ends[:-1]


def _power(hosts: int, indptr: I64, _indices: I32) -> I64:
    weights = np.arange(1, hosts + 1) ** -EXPONENT
    np.random.default_rng(0).shuffle(weights)
    spare = len(indptr) - 1 - hosts  # each has one page at least
    ends: I64 = np.floor(np.cumsum(weights) / weights.sum() * spare + 0.5).astype(np.int64)
    return np.diff(ends, prepend=0) + 1


def _cuts(hosts: int, indptr: I64, indices: I32) -> I64:
    """Of all places between two pages, those that the fewest links cross, as seen from their surroundings."""
    pages = len(indptr) - 1
    if hosts >= pages:
        return np.ones(pages, np.int64)
    source = np.repeat(np.arange(pages), np.diff(indptr))
    near = (np.abs(source - indices) < NEIGHBOURS) & (source != indices)
    low, high = np.minimum(source, indices)[near], np.maximum(source, indices)[near]
    crossing = np.cumsum(np.bincount(low, minlength=pages) - np.bincount(high, minlength=pages))[:-1]
    window = max(3, pages // (4 * hosts))
    around = np.convolve(crossing, np.ones(window) / window, "same")
    # Equal places: the one whose surroundings are better linked is the sharper cut.
    order = np.lexsort((-around, crossing / (around + 1.0)))
    ends = np.sort(order[: hosts - 1]) + 1
    return np.diff(np.concatenate(([0], ends, [pages])))
