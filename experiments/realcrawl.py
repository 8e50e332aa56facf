"""This experiment runs the production crawler on a test web, against the clock and against its simulation.

It repeats Castillo 2004, section 4.5, Figures 4.12, 4.13, 4.15 and 4.16: crawls of .cl and .gr from one page of every
known host, in batches, with 15 seconds between two connections to a host (or 5, and 15 for small hosts). Here every
second is scaled down.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments import actual
from experiments.graphs import given_or_made
from experiments.harness import Results, Row, add_graph, add_orders, add_pages, columns, publish
from gossamer.arrays import F64, I32
from gossamer.config import Config
from gossamer.crawl.scheduler import per_host
from gossamer.errors import ConfigError
from gossamer.frontier.strategies import strategy
from gossamer.sim import measures
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph
from gossamer.sim.numbers import positive, span
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions

MADE_PAGES, MADE_HOSTS, MADE_SKEW = 4_000, 150, 3.0
BATCHES = 30  # Castillo's K was a thirtieth of its pages
DAYS = 8  # Castillo's crawl took so long: a day is that part of a crawl's time
LATENCY_S = 0.5
PAPER = {2: (0.50, 0.80), 4: (0.80, 0.95)}  # day: pages, PageRank; larger-sites-first, .cl, section 4.5.1
COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:olive")
SHOWN = columns(
    "strategy | pages | hours | pages_day_2: pages on day 2 | rank_day_2: PageRank | pages_day_4: on day 4 | "
    "rank_day_4: PageRank | average | simulated"
)


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, made=True)
    add_orders(parser, "breadth-first, larger-sites-first and opic")
    add_pages(parser)
    parser.add_argument("--scale", type=span, default=200.0, help="how many seconds become one (default: 200)")
    parser.add_argument("--delay", type=span, default=15.0, metavar="S", help="between connections to a host (15)")
    parser.add_argument(
        "--small-delay", type=span, default=0.0, metavar="S", help="for hosts with fewer than 100 pages; 0: the same"
    )
    parser.add_argument("--connections", type=positive, default=256, metavar="N", help="at a time (default: 256)")


@dataclass(frozen=True)
class Crawled:
    """One strategy: what the crawler did, and what the simulator says it would do."""

    name: str
    done: actual.Actual
    simulated: I32
    rank: F64  # PageRank of the pages that can be reached

    @property
    def curve(self) -> F64:
        return measures.cumulative(self.done.order, self.rank)

    def by_time(self) -> tuple[F64, F64]:
        """When pages had come, sorted, and the PageRank until then."""
        order = np.argsort(self.done.time_s, kind="stable")
        return self.done.time_s[order], np.cumsum(self.rank[self.done.order[order]])

    def at_day(self, day: int, days: float) -> tuple[float, float]:
        """Parts of pages and of PageRank at the end of a day."""
        time_s, rank = self.by_time()
        count = int(np.searchsorted(time_s, days * day / DAYS, side="right"))
        return count / len(time_s), float(rank[count - 1]) / float(rank[-1]) if count else 0.0


def run(arguments: argparse.Namespace) -> int:
    names = arguments.order or ["breadth-first", "larger-sites-first", "opic"]
    for name in names:
        if strategy(name).score is not None:
            raise ConfigError(f"realcrawl compares strategies that look at rows only, and {name} does not")
    if arguments.scale <= 0 or arguments.connections < 2:
        raise ConfigError("--scale is more than 0, and --connections more than 1")
    with tempfile.TemporaryDirectory() as scratch:
        path, graph = given_or_made(arguments, Path(scratch), MADE_PAGES, MADE_HOSTS, MADE_SKEW)
        source = actual.Source(graph, path, arguments.hosts)
        starts = home_pages(source.graph)
        rank = rank_of_reached(source.graph, starts)
        conditions = _conditions(arguments, int((rank > 0).sum()))
        crawls = [_crawl(name, source, starts, rank, conditions, arguments) for name in names]
    publish(_results(source.graph, crawls, conditions, arguments), arguments.out, arguments.json)
    return 0


def _conditions(arguments: argparse.Namespace, pages: int) -> Conditions:
    return Conditions(
        arguments.connections,
        arguments.delay / arguments.scale,
        arguments.small_delay / arguments.scale,
        width=max(1, pages // BATCHES),
        seed=arguments.seed,
    )


def home_pages(graph: Graph) -> I32:
    """One page of each host, the first in the graph's order."""
    return np.sort(np.unique(graph.host, return_index=True)[1]).astype(np.int32)


def rank_of_reached(graph: Graph, starts: I32) -> F64:
    """PageRank of the collection as it is in the end; pages that no link leads to have none."""
    reached = graph.reachable(starts.tolist())
    number = np.cumsum(reached) - 1
    source, target = graph.sources(), graph.indices
    inside = reached[source]  # and then the target too
    rank = np.zeros(graph.pages)
    rank[reached] = pagerank(number[source[inside]], number[target[inside]], int(reached.sum()))
    return rank


def _crawl(
    name: str,
    source: actual.Source,
    starts: I32,
    rank: F64,
    conditions: Conditions,
    arguments: argparse.Namespace,
) -> Crawled:
    latency_ms = 1000 * LATENCY_S / arguments.scale
    changes: dict[str, object] = {"crawl.pages": arguments.pages, "index.queue_per_host": _per_host(arguments)}
    done = actual.crawl(source, name, starts, conditions, changes=changes, latency_ms=latency_ms)
    replay = actual.as_measured(source.graph, conditions, done, changes)
    trace = replay.simulate(strategy(name), starts, pages=arguments.pages)
    return Crawled(name, done, trace.order, rank)


def _per_host(arguments: argparse.Namespace) -> int:
    """Pages of a host in the workbench: what production would choose if time were not scaled."""
    return per_host(Config().replace({"polite.delay_s": arguments.delay}))[0]


def _results(graph: Graph, crawls: Sequence[Crawled], conditions: Conditions, arguments: argparse.Namespace) -> Results:
    longest_s = max(float(one.done.time_s.max()) for one in crawls)
    rows = [_row(one, longest_s, arguments.scale) for one in crawls]
    rows.append(dict.fromkeys(rows[0]) | {"strategy": "Castillo: larger-sites-first", **_days(PAPER)})
    scale = arguments.scale
    small = f" ({arguments.small_delay:g} s for hosts with fewer than 100 pages)" if arguments.small_delay else ""
    notes = [
        f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {len(graph.host_names):,} hosts ({graph.rule}), "
        "begun with the first page of each host",
        f"time is scaled: {scale:g} s become 1 s, so {arguments.delay:g} s between two connections to a host{small} "
        f"are {1000 * conditions.delay_s:g} ms, and pages answer after {LATENCY_S:g} s; hours are scaled back. What "
        "the crawler itself needs for a page or a commit is not scaled: it weighs more than in a crawl of days",
        f"a day is an eighth of the longest crawl (Castillo's took {DAYS} days); rounds of {conditions.width:,} pages, "
        f"at most {_per_host(arguments)} of a host at a time, as at full scale; {conditions.connections:,} connections",
        "PageRank is that of the whole collection, in the end; the simulation gets the times that the crawl measured: "
        "of each host's first, second, ... page, and of each commit",
        *_statements(crawls),
    ]
    figures = [_over_time(crawls, scale), _by_day(crawls, longest_s), _against_simulated(crawls)]
    series = [point for one in crawls for point in _points(one, scale)]
    return Results("realcrawl", "A real crawl", rows, SHOWN, notes, figures, series=series)


def _row(one: Crawled, longest_s: float, scale: float) -> Row:
    return {
        "strategy": one.name,
        "pages": len(one.done.order),
        "hours": float(one.done.time_s.max()) * scale / 3600,
        **_days({day: one.at_day(day, longest_s) for day in PAPER}),
        "average": measures.average(one.curve),
        "simulated": measures.average(measures.cumulative(one.simulated, one.rank)),
    }


def _days(found: dict[int, tuple[float, float]]) -> dict[str, float]:
    named: dict[str, float] = {}
    for day, (pages, rank) in found.items():
        named |= {f"pages_day_{day}": pages, f"rank_day_{day}": rank}
    return named


def _statements(crawls: Sequence[Crawled]) -> list[str]:
    """What Castillo says, and whether it is so here."""
    found = []
    by_name = {one.name: one for one in crawls}
    larger, breadth = by_name.get("larger-sites-first"), by_name.get("breadth-first")
    if larger:
        ahead = measures.average(larger.curve) - measures.average(measures.cumulative(larger.simulated, larger.rank))
        words = "the same within 0.1 %" if abs(ahead) < 0.001 else "better" if ahead > 0 else "worse"
        found.append(
            'Castillo: "the actual crawl performed slightly better than the simulated crawl": '
            f"here {words} ({ahead:+.4f})"
        )
    if larger and breadth:
        until_s = [float(one.done.time_s.max()) for one in (larger, breadth)]
        half_s = [
            float(np.interp(0.8, rank / rank[-1], time_s)) for time_s, rank in (larger.by_time(), breadth.by_time())
        ]
        found.append(
            "Castillo: larger-sites-first is faster in documents and in good pages than breadth-first: here it took "
            f"{until_s[0] / until_s[1]:.0%} of its time for all pages, {half_s[0] / half_s[1]:.0%} for 80 % of PageRank"
        )
    return found


def _points(one: Crawled, scale: float) -> list[Row]:
    time_s, rank = one.by_time()
    keep = np.unique(np.linspace(0, len(time_s) - 1, 200).astype(np.int64))
    return [
        {"strategy": one.name, "hours": time_s[at] * scale / 3600, "pages": int(at) + 1, "rank": rank[at]}
        for at in keep.tolist()
    ]


# --- figures


def _over_time(crawls: Sequence[Crawled], scale: float) -> Figure:
    curves = []
    for one, color in zip(crawls, COLORS, strict=False):
        time_s, rank = one.by_time()
        hours = time_s * scale / 3600
        curves.append(Curve(f"{one.name}: PageRank", hours, rank, color=color))
        part = np.arange(1, len(hours) + 1) / len(hours)
        curves.append(Curve(f"{one.name}: pages", hours, part, dashed=True, color=color))
    return Figure("realcrawl-time", "PageRank and pages over time", "hours", "part of all", curves)


def _by_day(crawls: Sequence[Crawled], longest_s: float) -> Figure:
    curves = []
    for one, color in zip(crawls, COLORS, strict=False):
        day = 1 + np.minimum((one.done.time_s * DAYS / longest_s).astype(np.int64), DAYS - 1)
        rank = one.rank[one.done.order]
        used = np.flatnonzero(np.bincount(day))
        mean = np.bincount(day, rank)[used] / np.bincount(day)[used]
        curves.append(Curve(one.name, used.astype(np.float64), mean / float(rank.mean()), color=color))
    title, y = "Average PageRank of each day's pages", "average PageRank (1: that of all pages)"
    return Figure("realcrawl-day", title, "day of eight", y, curves, markers=True)


def _against_simulated(crawls: Sequence[Crawled]) -> Figure:
    curves = []
    for one, color in zip(crawls, COLORS, strict=False):
        pages = np.arange(1, len(one.curve) + 1) / len(one.curve)
        curves.append(Curve(f"{one.name}, actual", pages, one.curve, color=color))
        simulated = measures.cumulative(one.simulated, one.rank)
        part = np.arange(1, len(simulated) + 1) / len(one.curve)
        curves.append(Curve("simulated", part, simulated, dashed=True, color=color))
    return Figure("realcrawl-simulated", "Actual and simulated", "part of the pages", "cumulative PageRank", curves)
