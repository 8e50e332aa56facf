"""This module forecasts a crawl that has not been made from a small one: its pages, its bytes and how long it takes.

A small crawl knows more pages than it has visited, and there are pages that it does not know. How many is estimated as
Good and Turing do for species: the part of the links that lead to a page with no other link is about the part of the
next links that will lead to unknown pages,

    pages = known / (1 - once / links)

shared among hosts by their known pages. The interval is at least that of the estimator itself (Esty, 1983). What pages
need to be shown is no page; its bytes and time are shared among the pages.

A host takes a page every `delay_s`, and what it took beyond that in the small crawl: that is the time of its answers
and of our own work. It cannot be made shorter, and connections are busy for the time of the answers. The slower of both
decides. Waiting for pages that failed is not counted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossamer.api import Crawl
from gossamer.arrays import F64
from gossamer.config import Config
from gossamer.config.folders import folder_of
from gossamer.config.last_run import recall
from gossamer.errors import ArchiveError

# Of the logarithm, for 90 %: fitted on webs of other seeds than the tests have (docs/lab.md).
UNSEEN = 0.8  # times the part of the pages that is not known
PACE = 0.3  # of the duration, beside that
_MOST_TIMES = 20.0  # there may be more pages than are known: where all links lead to new ones, nobody can tell
_SURE = 1.645  # standard deviations on both sides, for 90 %
_NEVER = 3.0  # times may happen what was not seen once, with 95 %
_LEAST = 20  # visited pages that a forecast needs
_BUSY = 25  # per cent of a host's gaps that are shorter than its usual one: in the others it had nothing to do

_PAGES_SQL = """
    SELECT p.host AS host, count(*) AS known, count(*) FILTER (v.key IS NOT NULL) AS visited,
        count(*) FILTER (l.links = 1) AS once, count(*) FILTER (l.links = 2) AS twice,
        coalesce(sum(l.links), 0)::BIGINT AS links
    FROM pages p
    LEFT JOIN (SELECT target, count(DISTINCT source) AS links FROM links WHERE verdict IN ('followed', 'later')
        GROUP BY target) l ON l.target = p.key
    LEFT JOIN (SELECT DISTINCT key FROM visits WHERE NOT is_robots) v ON v.key = p.key
    WHERE p.kind IS DISTINCT FROM 'requisite' GROUP BY p.host ORDER BY p.host"""
_VISITS_SQL = """
    SELECT host, epoch_ms(time) / 1000 AS begun_s, elapsed_s, wire_bytes, is_robots,
        NOT is_robots AND kind IS DISTINCT FROM 'requisite' AS is_page FROM visits ORDER BY host, time"""


class Range(NamedTuple):
    """A range has the value that is forecast, and where it is with a probability of 90 %."""

    low: float
    value: float
    high: float

    @classmethod
    def around(cls, value: float, spread: float, least: float = 0.0) -> "Range":
        return cls(max(least, value * np.exp(-spread)), value, max(least, value * np.exp(spread)))


@dataclass(frozen=True)
class Outlook:
    visited: int  # pages of the small crawl
    known: int  # pages that it knows
    pages: Range
    wire_bytes: Range
    seconds: Range
    is_complete: bool  # nothing is left: these are figures of the crawl itself
    limit: str  # what decides how long it takes: the longest host, or connections


def outlook(directory: Path, delay_s: float | None = None, connections: int | None = None) -> Outlook:
    """Forecasts the crawl of everything that can be reached from the pages of a small one, by default with the delay
    and the connections of that."""
    config, crawl = recall(folder_of(directory)) or Config(), Crawl(directory)
    is_same = delay_s is None and connections is None
    delay_s = config.polite.delay_s if delay_s is None else delay_s
    hosts, visits = crawl.query(_PAGES_SQL), crawl.query(_VISITS_SQL)
    known, visited, once, twice, links = (
        np.array([row[name] for row in hosts], np.float64) for name in ("known", "visited", "once", "twice", "links")
    )
    if visited.sum() < _LEAST:
        raise ArchiveError(f"{directory} has {int(visited.sum())} visited pages; a forecast needs at least {_LEAST}")
    is_complete = not crawl.query("SELECT 1 FROM frontier LIMIT 1")
    new, doubt = (0.0, 0.0) if is_complete else _unseen(float(once.sum()), float(twice.sum()), float(links.sum()))
    pages = known / (1 - new)
    spread = max(UNSEEN * new, doubt / (1 - new))
    sizes = np.array([row["wire_bytes"] for row in visits if not row["is_robots"]], np.float64)
    each = len(sizes) / sum(bool(row["is_page"]) for row in visits)  # requests for a page, with what it needs
    vary = 0.0 if is_complete else _SURE * float(sizes.std() / np.sqrt(len(sizes)) / max(sizes.mean(), 1.0))
    busy_s, longest_s = _bounds_s([row["host"] for row in hosts], pages * each, visits, config.polite.delay_s, delay_s)
    in_all_s = busy_s / (connections or config.polite.connections)
    whole = Range.around(float(pages.sum()), spread, float(known.sum()))
    return Outlook(
        int(visited.sum()),
        int(known.sum()),
        Range(np.floor(whole.low), whole.value, np.ceil(whole.high)),
        Range.around(float(sizes.sum() if is_complete else pages.sum() * each * sizes.mean()), np.hypot(spread, vary)),
        _took(visits)
        if is_complete and is_same
        else Range.around(max(longest_s, in_all_s), float(np.hypot(spread, PACE))),
        is_complete,
        "the host with most pages" if longest_s >= in_all_s else "connections",
    )


def _unseen(once: float, twice: float, links: float) -> tuple[float, float]:
    """Returns which part of the next links will lead to unknown pages, and how much more that may be."""
    links = max(links, 1.0)
    new = min(once / links, 1 - 1 / _MOST_TIMES)
    return new, max(_SURE * np.sqrt(once * (1 - new) + 2 * twice), _NEVER) / links


def _took(visits: list[dict[str, Any]]) -> Range:
    """Returns how long the crawl was under way."""
    span_s = max(row["begun_s"] + row["elapsed_s"] for row in visits) - min(row["begun_s"] for row in visits)
    return Range(span_s, span_s, span_s)


def _bounds_s(
    names: list[str], pages: F64, visits: list[dict[str, Any]], had_s: float, delay_s: float
) -> tuple[float, float]:
    """Returns for how long requests are under way, all together, and how long the slowest host takes."""
    begun_s, took_s, host = (np.array([row[name] for row in visits]) for name in ("begun_s", "elapsed_s", "host"))
    gaps_s, same = np.diff(begun_s), host[1:] == host[:-1]
    all_gaps_s = gaps_s[same]
    usual_s = float(np.percentile(all_gaps_s, _BUSY)) if len(all_gaps_s) else had_s
    paces_s, answers_s = np.empty(len(names)), np.empty(len(names))
    for place, name in enumerate(names):
        own = gaps_s[same & (host[1:] == name)]
        pace_s = float(np.percentile(own, _BUSY)) if len(own) >= 3 else usual_s
        paces_s[place] = delay_s + max(0.0, pace_s - had_s)
        answers_s[place] = took_s[host == name].mean() if (host == name).any() else took_s.mean()
    return float((pages * answers_s).sum()), float((pages * paces_s).max())
