"""An ordering strategy decides what to crawl next: a few pure functions on columns; all are in one dict.

A strategy ranks pages (`page_rank`, on columns.PAGE), and may rank hosts first (`host_rank`, on columns.HOST). Higher
goes first; equal ranks go by key. With a host rank a crawl takes, again and again, the best page of the best host,
whose rank falls by one with each page taken. A strategy may also say how a visited page's cash is divided among its
links (`link_weight`, on columns.LINK). What columns cannot tell, because it takes the whole graph or an earlier crawl,
comes as one more column, `score` (`frontier/scores.py`).

The crawl and the simulator run the same functions; the simulator compiles them with numba, so they use NumPy only in
ways that it understands.
"""

import importlib
import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from gossamer.arrays import F64, I64, Integers, Rows
from gossamer.columns import REQUISITE
from gossamer.errors import ConfigError
from gossamer.frontier.pages import is_in, zone_of_host, zone_of_key


@dataclass(frozen=True)
class Score:
    """A score is one more column: where it comes from, and what pages get that are not there."""

    source: Literal["pagerank", "authority", "history", "oracle"]
    new: Literal["zero", "sum", "parent", "random", "oracle"] = "zero"

    @property
    def is_batch(self) -> bool:
        """Whether it is computed from the links known so far, again and again."""
        return self.source in ("pagerank", "authority")

    @property
    def needs_links(self) -> bool:
        """Whether the links of the whole crawl decide: of several agents, none has them all."""
        return self.is_batch or self.new == "parent"

    @property
    def needs_oracle(self) -> bool:
        """Whether only the simulator can know it."""
        return "oracle" in (self.source, self.new)


@dataclass(frozen=True)
class Strategy:
    """A name and pure functions on columns: the same rows and random seed give the same ranks."""

    name: str
    meaning: str
    page_rank: Callable[
        [Rows, int], F64
    ]  # PAGE rows, the random seed of the crawl; with `score`, if the strategy has one
    host_rank: Callable[[Rows], F64] | None = None  # HOST rows
    link_weight: Callable[[Rows], I64] | None = None  # LINK rows: parts of the cash; None: all alike
    virtual: bool = False  # cash that nobody took is given to all known pages alike
    damping: Fraction = Fraction(1)  # part of its cash that a visited page passes on
    score: Score | None = None
    needs_topic: bool = False  # crawl.topic, in words: `relevance` of links is known


def by_discovery(rows: Rows, _random_seed: int) -> F64:
    return -rows["text"].astype(np.float64)


def by_hits(rows: Rows, _random_seed: int) -> F64:
    return rows["hits"].astype(np.float64)


def by_cash(rows: Rows, _random_seed: int) -> F64:
    """Stored cash lacks the virtual page's running total: the same amount for all, so the order is right."""
    return rows["cash"].astype(np.float64)


def by_score(rows: Rows, _random_seed: int) -> F64:
    return rows["score"].astype(np.float64)


def by_chance(rows: Rows, random_seed: int) -> F64:
    """A hash of key and random seed (the finaliser of SplitMix64): the same page gets the same rank every time."""
    hashed = rows["key"] ^ np.uint64(random_seed)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((hashed ^ (hashed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64)


def by_depth(rows: Rows, _random_seed: int) -> F64:
    """Depth, then cash: its logarithm stays below one level of depth and keeps its order at any size."""
    cash = rows["cash"].astype(np.float64)
    squeezed: F64 = np.sign(cash) * np.log2(1 + np.abs(cash)) / 64
    return squeezed - 2.0 * rows["depth"].astype(np.float64)


def by_pending(hosts: Rows) -> F64:
    known: F64 = hosts["known"].astype(np.float64)
    return known - hosts["visited"].astype(np.float64)


def to_other_hosts(links: Rows) -> I64:
    """Links from other hosts are worth more than those inside a host."""
    return 1 + 9 * links["foreign"].astype(np.int64)


def only_to_other_hosts(links: Rows) -> I64:
    """Links inside a host carry next to nothing; not nothing, or pages that only their own host links to would go by
    key alone."""
    return 1 + 999 * links["foreign"].astype(np.int64)


def to_topic(links: Rows) -> I64:
    """A link that says all the right words gets as much as a thousand that say none; squared, so that few words do
    not add up to many."""
    return 1 + (999.0 * links["relevance"] ** 2).astype(np.int64)


_HISTORY = "PageRank of an earlier crawl (crawl.history) first; new pages"

ORDERS: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("opic", "most OPIC cash first", by_cash),
        Strategy("opic-virtual", "OPIC with a virtual page that links to all", by_cash, virtual=True),
        Strategy(
            "opic-foreign", "OPIC; links to other hosts get ten times as much", by_cash, link_weight=to_other_hosts
        ),
        Strategy(
            "trans-host",
            "OPIC; hardly any link but those between hosts counts",
            by_cash,
            link_weight=only_to_other_hosts,
        ),
        Strategy("rankmass", "OPIC that passes on 85 %: a lower bound of PageRank", by_cash, damping=Fraction(17, 20)),
        Strategy(
            "relevance",
            "most cash first, and links on crawl.topic get most of it",
            by_cash,
            link_weight=to_topic,
            needs_topic=True,
        ),
        Strategy("breadth-first", "in order of discovery", by_discovery),
        Strategy("backlink-count", "most links seen first (citation count)", by_hits),
        Strategy("larger-sites-first", "hosts with most unvisited pages first", by_discovery, by_pending),
        Strategy("larger-sites-opic", "the same, and on each host most cash first", by_cash, by_pending),
        Strategy("shallow-first", "fewest links from a seed first, then most cash", by_depth),
        Strategy("random", "a random page of those known", by_chance),
        Strategy("batch-pagerank", "PageRank of the known links, every K pages", by_score, score=Score("pagerank")),
        Strategy(
            "partial-pagerank",
            "the same; between, new pages get shares of those that link to them",
            by_score,
            score=Score("pagerank", "sum"),
        ),
        Strategy("hits-authority", "authority on the known links, every K pages", by_score, score=Score("authority")),
        Strategy("historical-pagerank-zero", f"{_HISTORY} last", by_score, score=Score("history")),
        Strategy(
            "historical-pagerank-random", f"{_HISTORY} as a random old one", by_score, score=Score("history", "random")
        ),
        Strategy(
            "historical-pagerank-parent",
            f"{_HISTORY} by their first referrer",
            by_score,
            score=Score("history", "parent"),
        ),
        Strategy(
            "historical-pagerank-omniscient", f"{_HISTORY} by their own", by_score, score=Score("history", "oracle")
        ),
        Strategy("omniscient", "true PageRank first", by_score, score=Score("oracle")),
    )
}


def own_first(strategy: Strategy, zones: Callable[[], Collection[int]]) -> Strategy:
    """Returns the same strategy, but pages and hosts of zones that are not ours now come after all of our own."""

    def behind(ranks: F64, zone: Integers) -> F64:
        # Logarithms, so that any rank fits below those of our own, and in the same order.
        lower = 1e200 * np.sign(ranks) * np.log1p(np.abs(ranks)) - 1e203
        return np.where(is_in(zones())[zone], ranks, lower)

    def page_rank(rows: Rows, random_seed: int) -> F64:
        return behind(strategy.page_rank(rows, random_seed), zone_of_key(rows["key"]))

    def host_rank(rows: Rows) -> F64:
        assert strategy.host_rank is not None
        return behind(strategy.host_rank(rows), zone_of_host(rows["host"]))

    return replace(strategy, page_rank=page_rank, host_rank=host_rank if strategy.host_rank else None)


def requisites_first(strategy: Strategy) -> Strategy:
    """Returns the same strategy, but what pages need comes before all pages, in order of discovery: so it is fetched
    soon after the page that needs it."""

    def page_rank(rows: Rows, random_seed: int) -> F64:
        ranks = strategy.page_rank(rows, random_seed)
        needed = rows["hops"] >= REQUISITE
        return np.where(needed, 1e299 - rows["text"].astype(np.float64) * 1e280, ranks) if needed.any() else ranks

    return replace(strategy, page_rank=page_rank)


def strategy(name: str) -> Strategy:
    """Returns a known strategy, or your own as "module:name"."""
    if name in ORDERS:
        return ORDERS[name]
    if ":" in name:
        return _imported(name)
    import difflib  # only for those who mistype

    near = difflib.get_close_matches(name, ORDERS, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(ORDERS)}"
    raise ConfigError(f'there is no order "{name}"; {hint}')


def _imported(name: str) -> Strategy:
    module, _, attribute = name.partition(":")
    if (here := os.getcwd()) not in sys.path:  # last, so that no file of the user's stands in for one of Python's
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f'order "{name}": {error}; write "module:name" of a Strategy') from error
    if not isinstance(found, Strategy):
        raise ConfigError(f'order "{name}" is not a Strategy of gossamer.frontier.strategies')
    return found
