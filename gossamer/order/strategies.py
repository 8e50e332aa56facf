"""What to crawl next: every strategy is a pure function on columns, in one dict.

A strategy ranks pages (`page_rank`, on columns.PAGE), and may rank hosts first (`host_rank`, on
columns.HOST). Higher goes first; equal ranks go by key. With a host rank a crawl takes, again and again, the
best page of the best host, whose rank falls by one with each page taken. The crawl and the simulator run the
same functions.
"""

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gossamer.errors import ConfigError

Rows = npt.NDArray[np.void]
Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Strategy:
    name: str
    meaning: str
    page_rank: Callable[[Rows, int], Ranks]  # PAGE rows, seed of the crawl
    host_rank: Callable[[Rows], Ranks] | None = None  # HOST rows
    virtual: bool = False  # cash that nobody took is given to all known pages alike


def by_discovery(rows: Rows, _seed: int) -> Ranks:
    return -rows["text"].astype(np.float64)


def by_hits(rows: Rows, _seed: int) -> Ranks:
    return rows["hits"].astype(np.float64)


def by_cash(rows: Rows, _seed: int) -> Ranks:
    """Stored cash lacks the virtual page's running total: the same amount for all, so the order is right."""
    return rows["cash"].astype(np.float64)


def by_chance(rows: Rows, seed: int) -> Ranks:
    """A hash of key and seed (the finaliser of SplitMix64): the same page gets the same rank every time."""
    mixed = rows["key"] ^ np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64)


def by_depth(rows: Rows, _seed: int) -> Ranks:
    """Depth, then cash: its logarithm stays below one level of depth and keeps its order at any size."""
    cash = rows["cash"].astype(np.float64)
    squeezed: Ranks = np.sign(cash) * np.log2(1 + np.abs(cash)) / 64
    return squeezed - 2.0 * rows["depth"].astype(np.float64)


def by_pending(hosts: Rows) -> Ranks:
    known: Ranks = hosts["known"].astype(np.float64)
    return known - hosts["visited"].astype(np.float64)


ORDERS: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("opic", "most OPIC cash first", by_cash),
        Strategy("opic-virtual", "OPIC with a virtual page that links to all", by_cash, virtual=True),
        Strategy("breadth-first", "in order of discovery", by_discovery),
        Strategy("backlink-count", "most links seen first", by_hits),
        Strategy("larger-sites-first", "hosts with most unvisited pages first", by_discovery, by_pending),
        Strategy("larger-sites-opic", "the same, and on each host most cash first", by_cash, by_pending),
        Strategy("shallow-first", "fewest links from a seed first, then most cash", by_depth),
        Strategy("random", "a random page of those known", by_chance),
    )
}


def strategy(name: str) -> Strategy:
    """A known one, or your own as "module:name"."""
    if name in ORDERS:
        return ORDERS[name]
    if ":" in name:
        return _imported(name)
    near = difflib.get_close_matches(name, ORDERS, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(ORDERS)}"
    raise ConfigError(f'there is no order "{name}"; {hint}')


def _imported(name: str) -> Strategy:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f'order "{name}": {error}; write "module:name" of a Strategy') from error
    if not isinstance(found, Strategy):
        raise ConfigError(f'order "{name}" is not a Strategy of gossamer.order.strategies')
    return found
