"""This experiment checks that the simulator crawls as the crawler does: strategy, graph and starts are the same.

With one connection the order of pages must be identical. With many it depends on who answers when, and no two crawls
are the same: several are made, each is simulated, and their mean cumulative PageRank must be the same within 1 % of all
PageRank, at every 5 % of the crawl.
"""

import argparse
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments import actual
from experiments.graphs import given_or_made
from experiments.harness import Results, Row, add_graph, add_orders, add_pages, add_starts, publish
from gossamer import sim
from gossamer.arrays import F64, I32
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.frontier.scoring import check_scores
from gossamer.frontier.strategies import ORDERS, Strategy, strategy
from gossamer.sim import measures
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import natural, positive, span
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, Knowledge

BAR = 0.01  # of all PageRank
LEAST = 1e-3  # per cent: less is drawn as this much, as a logarithmic axis has no zero
MARKS = 20
MADE_PAGES, MADE_HOSTS = 2_000, 40
EARLIER = 0.55  # part of the pages that the earlier crawl of historical strategies visits


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, made=True)
    add_orders(parser, "all that a crawl can run")
    add_pages(parser)
    add_starts(parser)
    parser.add_argument(
        "--width", type=natural, default=0, metavar="N", help="pages of a round (default: a twentieth of all)"
    )
    parser.add_argument("--only", choices=("one", "many"), help="only with one connection, or only with many")
    parser.add_argument("--connections", type=positive, default=64, metavar="N", help="how many are many (default: 64)")
    parser.add_argument("--repeat", type=positive, default=3, metavar="N", help="crawls with many (default: 3)")
    parser.add_argument(
        "--delay", type=span, default=0.005, metavar="S", help="between two connections to a host, with many"
    )
    parser.add_argument("--latency-ms", type=span, default=2.0, metavar="MS", help="of every host, with many")


@dataclass(frozen=True)
class Setting:
    """Everything but the strategy."""

    source: actual.Source
    starts: I32
    rank: F64
    pages: int  # 0: all
    one: Conditions | None
    many: Conditions | None
    repeat: int  # crawls with many
    latency_ms: float
    every: int
    earlier: Path  # directory of a crawl that came before
    history: F64 | None  # what it says


@dataclass(frozen=True)
class Pair:
    """The same crawl twice."""

    crawled: I32
    simulated: I32


def run(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        setting = prepare(arguments, Path(scratch))
        names = arguments.order or [name for name, order in ORDERS.items() if _runs(order)]
        if any(_has_history(strategy(name)) for name in names):
            setting = with_history(setting)
        rows: list[Row] = []
        curves: list[Row] = []
        for name in names:
            row, more = compare(name, setting)
            rows.append(row)
            curves += more
    publish(_results(setting, rows, curves), arguments.out, arguments.json)
    return 0 if all(row["passed"] for row in rows) else 1


def prepare(arguments: argparse.Namespace, scratch: Path) -> Setting:
    if arguments.connections < 2:
        raise ConfigError("--connections: many are at least 2")
    path, graph = given_or_made(arguments, scratch, MADE_PAGES, MADE_HOSTS)
    count = min(arguments.starts, graph.pages)
    starts = np.random.default_rng(arguments.seed).choice(graph.pages, count, replace=False).astype(np.int32)
    pages = min(arguments.pages or graph.pages, graph.pages)
    width = arguments.width or max(1, pages // MARKS)
    many = Conditions(arguments.connections, arguments.delay, width=width, seed=arguments.seed)
    return Setting(
        actual.Source(graph, path, arguments.hosts),
        starts,
        pagerank(graph.sources(), graph.indices, graph.pages),
        pages if arguments.pages else 0,
        Conditions(width=width, seed=arguments.seed) if arguments.only != "many" else None,
        many if arguments.only != "one" else None,
        arguments.repeat,
        arguments.latency_ms,
        max(width, pages // MARKS),
        scratch / "earlier",
        None,
    )


def with_history(setting: Setting) -> Setting:
    """Crawl half of it first."""
    graph = setting.source.graph
    first: dict[str, object] = {"crawl.pages": max(1, int(EARLIER * (setting.pages or graph.pages)))}
    conditions = Conditions(connections=64, width=1_000)
    actual.crawl(setting.source, "breadth-first", setting.starts, conditions, changes=first, directory=setting.earlier)
    return replace(setting, history=actual.history(graph, setting.earlier))


def compare(name: str, setting: Setting) -> tuple[Row, Sequence[Row]]:
    row: dict[str, object] = {"graph": setting.source.graph.name, "strategy": name, "pages": 0}
    row["simulator"] = simulator()
    row |= dict.fromkeys(("first_difference", "largest_difference", "at_percent", "single_crawl", "between_crawls"))
    passed, curves = True, []
    if setting.one is not None:
        pair = _both(name, setting, setting.one)
        row["first_difference"] = first_difference(pair)
        row["pages"] = len(pair.crawled)
        passed = row["first_difference"] is None
    if setting.many is not None:
        pairs = [_both(name, setting, setting.many) for _ in range(setting.repeat)]
        crawled, simulated = (
            np.array([at_marks(order, setting.rank) for order in orders])
            for orders in zip(*((pair.crawled, pair.simulated) for pair in pairs), strict=True)
        )
        found = differences(crawled, simulated)
        row |= found | {"pages": len(pairs[0].crawled)}
        passed &= found["largest_difference"] <= BAR
        passed &= all(len(pair.crawled) == len(pair.simulated) for pair in pairs)
        curves = [
            {"strategy": name, "percent": 100 * (mark + 1) // MARKS, "crawled": a, "simulated": b}
            for mark, (a, b) in enumerate(zip(crawled.mean(0).tolist(), simulated.mean(0).tolist(), strict=True))
        ]
    return row | {"passed": passed}, curves


def simulator() -> str:
    """Returns a digest of the code that simulates: all rows of a table must have the same."""
    sources = sorted(Path(sim.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def differences(crawled: F64, simulated: F64) -> dict[str, float]:
    """Of several crawls, a row of marks each: their mean against that of their simulations; and beside it, the worst of
    a single one against its own, and how far two crawls are apart."""
    apart = np.abs(crawled.mean(0) - simulated.mean(0))
    return {
        "largest_difference": float(apart.max()),
        "at_percent": 100 * (int(apart.argmax()) + 1) // MARKS,
        "single_crawl": float(np.abs(crawled - simulated).max()),
        "between_crawls": float(np.ptp(crawled, axis=0).max()),
    }


def _both(name: str, setting: Setting, conditions: Conditions) -> Pair:
    order = strategy(name)
    # With many connections rounds end by the clock: "every K pages" would be decided by a page more or less.
    every = setting.every if conditions.connections == 1 else 1
    changes: dict[str, object] = {"crawl.rescore": every, "crawl.pages": setting.pages}
    if _has_history(order):
        changes["crawl.history"] = str(setting.earlier)
    latency_ms = setting.latency_ms if conditions.connections > 1 else 0.0
    done = actual.crawl(setting.source, name, setting.starts, conditions, changes=changes, latency_ms=latency_ms)
    knowledge = Knowledge(history=setting.history, every=every)
    replay = actual.as_measured(setting.source.graph, conditions, done, changes)
    trace = replay.simulate(order, setting.starts, knowledge, setting.pages)
    return Pair(done.order, trace.order)


def first_difference(pair: Pair) -> int | None:
    """The number, from 1, of the first page that is another one."""
    shorter = min(len(pair.crawled), len(pair.simulated))
    different = np.flatnonzero(pair.crawled[:shorter] != pair.simulated[:shorter])
    if len(different):
        return int(different[0]) + 1
    return None if len(pair.crawled) == len(pair.simulated) else shorter + 1


def at_marks(order: I32, rank: F64) -> F64:
    """Cumulative PageRank at every 5 % of the crawl."""
    curve = measures.cumulative(order, rank)
    return np.array([measures.at(curve, len(order) * mark // MARKS or 1) for mark in range(1, MARKS + 1)])


def _has_history(order: Strategy) -> bool:
    return order.score is not None and order.score.source == "history"


def _runs(order: Strategy) -> bool:
    """Can a crawl know what this strategy asks for, if it is given an earlier crawl?"""
    if _has_history(order):
        return order.score is not None and not order.score.needs_oracle
    try:
        check_scores(order, Config())
    except ConfigError:
        return False
    return True


def _results(setting: Setting, rows: Sequence[Row], curves: Sequence[Row]) -> Results:
    graph, many = setting.source.graph, setting.many
    shown = {"strategy": "strategy", "pages": "pages"}
    notes = [f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {graph.rule}; {len(setting.starts)} starts"]
    if setting.one is not None:
        shown["first_difference"] = "first other page"
        notes.append(f"one connection, rounds of {setting.one.width:,}: the order of all pages must be identical")
    if many is not None:
        shown |= {"largest_difference": "largest difference", "at_percent": "at %"}
        shown |= {"single_crawl": "in one crawl", "between_crawls": "between crawls"}
        notes.append(
            f"{many.connections} connections, {1000 * many.delay_s:g} ms between two to a host, which answers after "
            f"{setting.latency_ms:g} ms: cumulative PageRank within {BAR:.0%} at every {100 // MARKS} % of the crawl, "
            f"the mean of {setting.repeat} crawls against that of their simulations"
        )
        notes.append(
            "in one crawl: the largest difference of any to its own simulation; between crawls: of two real ones"
        )
        notes.append(
            "the simulator gets what the crawl measured: in which order pages came, how long each host's first, "
            "second, ... page took and how late it was asked for, and each commit; it decides itself which pages those "
            "are, and makes rounds as crawl/agent.py does"
        )
    if setting.history is not None:
        notes.append(f"historical orders know a crawl of {np.isfinite(setting.history).sum():,} pages, breadth first")
    figures = [figure(graph.name, rows)] if many is not None else []
    title = "Simulator against crawler"
    return Results(f"parity-{graph.name}", title, rows, shown | {"passed": "passed"}, notes, figures, series=curves)


def figure(graph: str, rows: Sequence[Row]) -> Figure:
    """Of each strategy what the table says, so that the one is never older than the other."""
    place = np.arange(len(rows))
    kinds = {
        "single_crawl": "one crawl against its simulation",
        "between_crawls": "one crawl against another",
        "largest_difference": "mean of the crawls against that of their simulations",
    }
    drawn = [
        Curve(label, np.array([max(100 * row[kind], LEAST) for row in rows]), place, dots=True, color=color)
        for (kind, label), color in zip(kinds.items(), ("#fdae6b", "#bbbbbb", "#08519c"), strict=True)
    ]
    bar = np.array([-0.5, len(rows) - 0.5])
    drawn.append(Curve(f"the means differ by at most {BAR:.0%}", np.full(2, 100 * BAR), bar, dashed=True, color="0.4"))
    title, x = f"Simulator against crawler, many connections, {graph}", "largest difference, % of all PageRank"
    names = [str(row["strategy"]) for row in rows]
    return Figure(f"parity-{graph}", title, x, "", drawn, log_x=True, names=names)
