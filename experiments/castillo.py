"""This experiment repeats Castillo's comparison under the conditions of the real crawls: all home pages known, and more
hosts than connections.

Castillo (2004, section 4.5) began with the home pages of 50,000 hosts, had 1,000 connections, and waited 15 s between
two pages of a host, or 5 s where a host has at least 100 pages. Each set is crawled by each order; differences to OPIC
are of the same set, whose latencies are drawn anew, and whose random starts are others.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

from experiments.harness import STATEMENTS_SHOWN, Block, Results, Row, columns, p_value, publish, statement
from experiments.paired import STARTS, interval
from gossamer.arrays import F64, I32
from gossamer.frontier.strategies import strategy
from gossamer.sim import measures
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.numbers import positive
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, simulate

HOSTS_PER_CONNECTION = 50  # 50,000 and 1,000
ORDERS = ("opic", "larger-sites-first", "breadth-first")
WAITS = {"15 s": (15.0, 0.0), "5 s, small hosts 15 s": (5.0, 15.0)}
MARKS = (0.5, 0.8)  # of the pages: Castillo had 80 and 95 % of PageRank by then
CASTILLO = {0.5: 0.80, 0.8: 0.95}
LARGER = "larger-sites-first"
MEASURES = ("average", "at_50", "at_80", "hours", "hours_80")
SHOWN = columns(
    "kind | graph | starts | wait: between pages of a host | order | average | difference: to OPIC | low: from | "
    "high: to | p | wins: sets better | at_50: PageRank at 50 % | at_80: at 80 % | hours_80: hours to 80 % | "
    "saved: less time than OPIC | saved_low: from | saved_high: to"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", type=Path, action="append", default=[], help="constants were chosen on it")
    parser.add_argument("--held", type=Path, action="append", default=[], help="no constant was chosen on it")
    parser.add_argument("--repeat", type=positive, default=30, metavar="N", help="sets (default: 30)")
    parser.add_argument("--starts", type=positive, default=50, metavar="N", help="random start pages (default: 50)")


def run(arguments: argparse.Namespace) -> int:
    rows: list[Row] = []
    notes: list[str] = []
    for path in (*arguments.graph, *arguments.held):
        graph = load(path)
        rows += crawled(graph, "held out" if path in arguments.held else "given", arguments)
        hosts = np.bincount(graph.host, minlength=len(graph.host_names))
        notes.append(
            f"{graph.name}: {graph.pages:,} pages of {len(hosts):,} hosts, the largest has {hosts.max():,}; "
            f"{connections(graph)} connections"
        )
    publish(_results(rows, notes, arguments), arguments.out, arguments.json)
    return 0


def connections(graph: Graph) -> int:
    return max(1, len(graph.host_names) // HOSTS_PER_CONNECTION)


def crawled(graph: Graph, kind: str, arguments: argparse.Namespace) -> Iterator[Row]:
    rank = pagerank(graph.sources(), graph.indices, graph.pages)
    cells = list(product(("homes", "random"), WAITS, ORDERS, range(arguments.repeat)))

    def measured(cell: tuple[str, str, str, int]) -> tuple[float, ...]:
        kind_of_starts, wait, name, number = cell
        delay_s, small_delay_s = WAITS[wait]
        conditions = Conditions(connections(graph), delay_s, small_delay_s, seed=arguments.seed + number)
        chosen = homes(graph) if kind_of_starts == "homes" else _random(graph, arguments, number)
        trace = simulate(graph, strategy(name), chosen, conditions)
        curve = measures.cumulative(trace.order, rank)
        at = [float(measures.at(curve, max(1, int(part * len(curve))))) / float(curve[-1]) for part in MARKS]
        hours = [float(trace.time_s[int(part * len(trace.time_s)) - 1]) / 3600 for part in (1.0, MARKS[1])]
        return (measures.average(curve), *at, *hours)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the simulator runs outside Python's lock
        found = dict(zip(cells, pool.map(measured, cells), strict=True))
    for starts, wait in product(("homes", "random"), WAITS):
        by_order = {
            name: dict(zip(MEASURES, np.array([found[starts, wait, name, n] for n in range(arguments.repeat)]).T,
                           strict=True))
            for name in ORDERS
        }  # fmt: skip
        words = "all home pages" if starts == "homes" else STARTS[starts]
        facts = {"kind": kind, "graph": graph.name, "starts": words, "wait": wait}
        yield from (_row(facts, name, by_order) for name in ORDERS)


def homes(graph: Graph) -> I32:
    """Of each host the page that most links lead to."""
    links = np.bincount(graph.indices, minlength=graph.pages)
    best = np.lexsort((np.arange(graph.pages), -links, graph.host))
    _, first = np.unique(graph.host[best], return_index=True)
    return np.asarray(best[first], np.int32)


def _random(graph: Graph, arguments: argparse.Namespace, number: int) -> I32:
    draw = np.random.default_rng((arguments.seed, number))
    found: I32 = draw.choice(graph.pages, min(arguments.starts, graph.pages), replace=False).astype(np.int32)
    return found


def _row(facts: Row, name: str, by_order: Mapping[str, Mapping[str, F64]]) -> Row:
    ours, opic = by_order[name], by_order["opic"]
    gain, saved = ours["average"] - opic["average"], 1 - ours["hours_80"] / opic["hours_80"]
    (low, high), (saved_low, saved_high) = interval(gain), interval(saved)
    return {
        **facts,
        "order": name,
        **{measure: float(ours[measure].mean()) for measure in MEASURES},
        "difference": float(gain.mean()),
        "low": low,
        "high": high,
        "p": f"{p_value(gain):.0e}",
        "wins": f"{int((gain > 0).sum())} of {len(gain)}",
        "saved": float(saved.mean()),
        "saved_low": saved_low,
        "saved_high": saved_high,
    }


def statements(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        where = f"{row['graph']}, {row['starts']}, {row['wait']}: "
        if row["order"] == LARGER:
            figures = f"{where}{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}], p = {row['p']}"
            yield statement("larger-sites-first is better than opic (+.0040)", _above(row["low"], row["high"]), figures)
            figures = f"{where}{row['saved']:+.1%} [{row['saved_low']:+.1%}, {row['saved_high']:+.1%}]"
            holds = _above(row["saved_low"], row["saved_high"])
            yield statement("larger-sites-first has 80 % of the pages sooner than opic", holds, figures)
        if row["order"] == "breadth-first":
            figures = f"{where}{-row['difference']:+.4f} [{-row['high']:+.4f}, {-row['low']:+.4f}], p = {row['p']}"
            yield statement("opic is better than breadth-first (+.0284)", _above(-row["high"], -row["low"]), figures)
        if row["order"] == LARGER:
            figures = f"{where}{row['at_50']:.0%} at 50 %, {row['at_80']:.0%} at 80 %"
            holds = row["at_50"] >= CASTILLO[0.5] and row["at_80"] >= CASTILLO[0.8]
            yield statement("80 % of PageRank with 50 % of the pages, 95 % with 80 %", holds, figures)


def _above(low: float, high: float) -> bool | None:
    return True if low > 0 else False if high <= 0 else None


def _results(rows: Sequence[Row], notes: Sequence[str], arguments: argparse.Namespace) -> Results:
    return Results(
        "castillo",
        "Castillo's conditions: home pages, more hosts than connections",
        rows,
        SHOWN,
        (
            *notes,
            f"a connection for {HOSTS_PER_CONNECTION} hosts, as Castillo had; c = 1, an unlimited link; "
            f"{arguments.repeat} sets, {arguments.starts} random pages where starts are random; small hosts have less "
            "than 100 pages",
            "from, to: 95 % bootstrap interval of the mean over sets; p: Wilcoxon's signed-rank test, each row for "
            "itself; PageRank in proportion to that of all pages which the crawl reaches",
            "home pages: of each host the page that most links lead to",
        ),
        [figure(rows)],
        [Block("Statements of Castillo 2004", list(statements(rows)), STATEMENTS_SHOWN)],
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Of larger-sites-first and breadth-first what the table says: a dot is a mean, a line its interval."""
    colors = {LARGER: "#f16913", "breadth-first": "#08519c"}
    cells = list(dict.fromkeys((row["graph"], row["starts"], row["wait"]) for row in rows))
    curves = []
    for name, color in colors.items():
        ours = [(place, row) for place, cell in enumerate(cells) for row in rows
                if row["order"] == name and (row["graph"], row["starts"], row["wait"]) == cell]  # fmt: skip
        for place, row in ours:
            curves.append(Curve("", np.array([row["low"], row["high"]]), np.full(2, place), color=color))
        means = np.array([row["difference"] for _, row in ours])
        curves.append(Curve(name, means, np.array([place for place, _ in ours]), dots=True, color=color))
    curves.append(Curve("as good as OPIC", np.zeros(2), np.array([-0.5, len(cells) - 0.5]), dashed=True, color="0.4"))
    title = "Orders against OPIC under Castillo's conditions, with 95 % intervals"
    x = "difference of the average cumulative PageRank"
    return Figure("castillo", title, x, "", curves, names=[", ".join(cell) for cell in cells])
