"""This experiment compares orders pairwise over many sets of start pages, on graphs of several kinds.

Each set of starts is crawled by each order; differences to OPIC are of the same set. They come with the mean, a
bootstrap interval, and the p-value of Wilcoxon's signed-rank test. The weight of `opic-foreign` is chosen with each
graph left out in turn, and tried on graphs that had no part in any choice (experiments/held_out.py).
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Block, Results, Row, columns, p_value, publish
from gossamer.arrays import F64, I32, I64
from gossamer.arrays import Rows as Columns
from gossamer.frontier.strategies import ORDERS, Strategy
from gossamer.sim import measures
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.numbers import positive
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, simulate

WEIGHTS = (4, 10, 30, 1000)  # of a link to another host
CHOSEN = 10  # of opic-foreign
OTHERS = ("backlink-count", "breadth-first")
PAGES = 5_000  # of a crawl, at most: what comes first is what an order is for
RESAMPLES = 10_000
LEVEL = 0.95
STARTS = {"random": "random pages", "homes": "home pages"}
ADVICE = columns(
    "kind | graph | pages | hosts | foreign: links between hosts | starts | opic | difference | low: from | high: to | "
    "p | wins: sets better"
)
RULED = columns("graph | weight: weight by the others | gain: its gain here | low: from | high: to | fixed: gain of 10")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", type=Path, action="append", required=True, help="constants were chosen on it")
    parser.add_argument("--held", type=Path, action="append", default=[], help="no constant was chosen on it")
    parser.add_argument("--repeat", type=positive, default=30, metavar="N", help="sets of starts (default: 30)")
    parser.add_argument("--starts", type=positive, default=50, metavar="N", help="pages of a set (default: 50)")


def run(arguments: argparse.Namespace) -> int:
    found: list[Compared] = []
    for path in (*arguments.graph, *arguments.held):
        kind = "given" if path in arguments.graph else "held out"
        found += measured(load(path), kind, arguments)
    publish(results(found, arguments), arguments.out, arguments.json)
    return 0


def weighted(weight: int) -> Strategy:
    """OPIC whose links to other hosts get so many times as much."""

    def link_weight(links: Columns) -> I64:
        parts: I64 = 1 + (weight - 1) * links["foreign"].astype(np.int64)
        return parts

    return replace(ORDERS["opic"], name=f"foreign-{weight}", link_weight=link_weight)


_FOREIGN = {weight: weighted(weight) for weight in WEIGHTS}


@dataclass(frozen=True)
class Compared:
    """`Compared` has what was measured on one graph, from one kind of starts: averages by order, one for each set."""

    kind: str
    graph: str
    pages: int
    hosts: int
    foreign: float
    starts: str
    averages: Mapping[str, F64]

    def gain(self, name: str) -> F64:
        """Returns how much better than OPIC an order was, in each set."""
        difference: F64 = self.averages[name] - self.averages["opic"]
        return difference


def measured(graph: Graph, kind: str, arguments: argparse.Namespace) -> list[Compared]:
    rank = pagerank(graph.sources(), graph.indices, graph.pages)
    foreign = float(np.mean(graph.host[graph.sources()] != graph.host[graph.indices]))
    found = []
    for name, draw in _draws(graph, arguments.starts).items():
        sets = [draw(np.random.default_rng((arguments.seed, number))) for number in range(arguments.repeat)]
        tried = WEIGHTS if name == "random" else (CHOSEN,)
        orders = [ORDERS["opic"], *(_FOREIGN[weight] for weight in tried), *(ORDERS[other] for other in OTHERS)]

        def average(case: tuple[Strategy, I32]) -> float:
            trace = simulate(graph, case[0], case[1], Conditions(), pages=PAGES)
            return measures.average(measures.cumulative(trace.order, rank))

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # the simulator runs outside Python's lock
            values = list(pool.map(average, [(order, starts) for order in orders for starts in sets]))
        rows = np.array(values).reshape(len(orders), len(sets))
        averages = {order.name: row for order, row in zip(orders, rows, strict=True)}
        found.append(Compared(kind, graph.name, graph.pages, len(graph.host_names), foreign, name, averages))
    return found


def _draws(graph: Graph, count: int) -> dict[str, Callable[[np.random.Generator], I32]]:
    """Returns the kinds of starts: random pages, or of as many hosts, but of no more than half of them, the page that
    most links lead to."""
    links = np.bincount(graph.indices, minlength=graph.pages)
    best = np.lexsort((np.arange(graph.pages), -links, graph.host))
    _, first = np.unique(graph.host[best], return_index=True)
    homes = best[first]

    def random(draw: np.random.Generator) -> I32:
        return draw.choice(graph.pages, min(count, graph.pages), replace=False).astype(np.int32)

    def home(draw: np.random.Generator) -> I32:
        return draw.choice(homes, max(1, min(count, len(homes) // 2)), replace=False).astype(np.int32)

    return {"random": random, "homes": home}


# --- statistics


def interval(differences: F64, seed: int = 0) -> tuple[float, float]:
    """Returns the bootstrap interval of the mean (percentiles)."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(differences), (RESAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def row(each: Compared, name: str) -> dict[str, Any]:
    gain = each.gain(name)
    low, high = interval(gain)
    return {
        "kind": each.kind,
        "graph": each.graph,
        "pages": each.pages,
        "hosts": each.hosts,
        "foreign": each.foreign,
        "starts": STARTS[each.starts],
        "order": name,
        "opic": float(each.averages["opic"].mean()),
        "difference": float(gain.mean()),
        "low": low,
        "high": high,
        "p": f"{p_value(gain):.0e}",
        "wins": f"{int((gain > 0).sum())} of {len(gain)}",
    }


def left_out(found: Sequence[Compared]) -> list[dict[str, Any]]:
    """Chooses the weight with most mean gain on all given graphs but one, and tries it on that one; on graphs that are
    held out, the weight that all given graphs choose."""
    whole = [each for each in found if each.starts == "random"]
    rows = []
    for each in whole:
        others = [other for other in whole if other.kind == "given" and other.graph != each.graph]
        if not others:
            continue
        gains = {w: float(np.mean([other.gain(f"foreign-{w}").mean() for other in others])) for w in WEIGHTS}
        weight = max(gains, key=lambda w: (gains[w], -w))
        gain = each.gain(f"foreign-{weight}")
        low, high = interval(gain)
        rows.append(
            {
                "kind": each.kind,
                "graph": each.graph,
                "weight": weight,
                "gain": float(gain.mean()),
                "low": low,
                "high": high,
                "fixed": float(each.gain(f"foreign-{CHOSEN}").mean()),
            }
        )
    return rows


# --- results


def results(found: Sequence[Compared], arguments: argparse.Namespace) -> Results:
    rows = [row(each, name) for each in found for name in each.averages if name != "opic"]

    def of(name: str) -> list[dict[str, Any]]:
        return [each for each in rows if each["order"] == name]

    shown = f"foreign-{CHOSEN}"
    return Results(
        "paired",
        f"Orders against OPIC, {arguments.repeat} sets of starts",
        rows,
        {"order": "order", **ADVICE},
        (
            f"average cumulative PageRank; differences to OPIC from the same starts, mean over {arguments.repeat} sets"
            f" of at most {arguments.starts} pages, one connection, no delay; the first {PAGES:,} pages of each crawl",
            f"from, to: {LEVEL:.0%} bootstrap interval of the mean, {RESAMPLES:,} resamples; p: Wilcoxon's signed-rank"
            " test, two-sided, each row for itself",
            "home pages: of as many hosts, but of no more than half of them, the page that most links lead to",
            f"opic-foreign is foreign-{CHOSEN}, trans-host is foreign-1000; from home pages only {CHOSEN} was tried",
        ),
        (figure(rows),),
        [
            Block("opic-foreign", of(shown), ADVICE),
            Block("trans-host", of("foreign-1000"), ADVICE),
            *(Block(name, of(name), ADVICE) for name in OTHERS),
            Block("The weight, chosen on the other given graphs", left_out(found), RULED),
        ],
    )


def figure(rows: Sequence[Row]) -> Figure:
    """Of opic-foreign what the table says: a dot is a mean, a line its interval."""
    shown = [each for each in rows if each["order"] == f"foreign-{CHOSEN}"]
    colors = {STARTS["random"]: "#08519c", STARTS["homes"]: "#f16913"}
    curves = []
    for place, each in enumerate(shown):
        ends = np.array([each["low"], each["high"]])
        curves.append(Curve("", ends, np.full(2, place), color=colors[each["starts"]]))
    for starts, color in colors.items():
        at = [place for place, each in enumerate(shown) if each["starts"] == starts]
        means = np.array([shown[place]["difference"] for place in at])
        curves.append(Curve(starts, means, np.array(at), dots=True, color=color))
    curves.append(Curve("as good as OPIC", np.zeros(2), np.array([-0.5, len(shown) - 0.5]), dashed=True, color="0.4"))
    names = [f"{each['graph']} ({each['kind']})" for each in shown]
    title = "opic-foreign against OPIC, with 95 % intervals"
    return Figure("paired", title, "difference of the average cumulative PageRank", "", curves, names=names)
