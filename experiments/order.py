"""This experiment compares orders by cumulative PageRank: which one finds the important pages first?

It repeats Castillo 2004, chapter 4: Table 4.1 and Figures 4.3 to 4.6, with one connection and no delay, because only
the order counts.
"""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.graphs import earlier
from experiments.harness import (
    CLAIMS_SHOWN,
    Block,
    Claim,
    Results,
    add_graph,
    add_orders,
    add_pages,
    add_starts,
    check,
    columns,
    publish,
    reach,
)
from gossamer.arrays import F64, I32
from gossamer.frontier.strategies import ORDERS, Strategy, strategy
from gossamer.sim import measures
from gossamer.sim.crawled import remembered
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.hosts import RULES
from gossamer.sim.numbers import natural, positive
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import RECOMPUTATIONS, Conditions, Knowledge, simulate

# Castillo, Table 4.1: average cumulative PageRank and Kendall's tau, .cl and .gr of 2004, 2.5 to 3.5 M pages
PAPER = {
    "backlink-count": (0.4952, 0.0157),
    "partial-pagerank": (0.5221, 0.0236),
    "breadth-first": (0.6425, 0.1293),
    "batch-pagerank": (0.6341, 0.1961),
    "opic": (0.6709, 0.2229),
    "larger-sites-first": (0.6749, 0.2498),
    "historical-pagerank-zero": (0.6758, 0.3573),
    "historical-pagerank-random": (0.6977, 0.3689),
    "historical-pagerank-parent": (0.7074, 0.3520),
    "historical-pagerank-omniscient": (0.7731, 0.6385),
    "omniscient": (0.7427, 0.6504),
}

CLAIMS = (
    Claim("larger-sites-first", "opic"),
    Claim("opic", "breadth-first"),
    Claim("opic", "batch-pagerank"),
    Claim("opic", "partial-pagerank"),
    Claim("breadth-first", "batch-pagerank"),
    Claim("batch-pagerank", "partial-pagerank"),
    Claim("partial-pagerank", "backlink-count"),
    Claim("random", "backlink-count"),
    Claim("random", "partial-pagerank"),
    Claim("historical-pagerank-zero", "opic"),
    Claim("historical-pagerank-parent", "opic"),
    Claim("historical-pagerank-random", "historical-pagerank-zero"),
    Claim("historical-pagerank-parent", "historical-pagerank-random"),
    Claim("historical-pagerank-omniscient", "omniscient"),
    Claim("omniscient", "historical-pagerank-parent"),
)

SHOWN = columns(
    "strategy | hosts | average | spread: ± | at_10_percent: at 10 % | tau | paper_average: Castillo: average | "
    "paper_tau: tau"
)


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    add_orders(parser, "all")
    add_pages(parser)
    add_starts(parser)
    parser.add_argument("--repeat", type=positive, default=30, metavar="N", help="sets of them (default: 30)")
    parser.add_argument("--rescore", type=natural, default=0, metavar="K", help="default: a 35th of the pages")
    parser.add_argument("--earlier", type=Path, metavar="DIR", help="an earlier crawl of the same web")
    parser.add_argument(
        "--start-old", action="store_true", help="historical strategies begin with the best old pages instead"
    )


def run(arguments: argparse.Namespace) -> int:
    graph = load(arguments.graph, arguments.hosts)
    orders = [strategy(name) for name in arguments.order or ORDERS if arguments.order or not ORDERS[name].needs_topic]
    experiment = Experiment(graph, arguments)
    cases = [case for order in orders for case in experiment.cases(order)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the simulator runs outside Python's lock
        found = list(pool.map(experiment.measure, cases))
    publish(experiment.results(found), arguments.out, arguments.json)
    return 0


@dataclass(frozen=True)
class Case:
    order: Strategy
    graph: Graph
    hosts: str  # the rule, where it matters


@dataclass(frozen=True)
class Found:
    case: Case
    averages: F64  # one per set of starts
    at_10: F64
    taus: F64
    curve: F64  # of the first set


class Experiment:
    def __init__(self, graph: Graph, arguments: argparse.Namespace) -> None:
        self.graph = graph
        self._arguments = arguments
        self.pages = min(arguments.pages or graph.pages, graph.pages)
        self.name = f"{graph.name}{'-first' * (self.pages < graph.pages)}"
        self.rank = pagerank(graph.sources(), graph.indices, graph.pages)
        random = [np.random.default_rng((arguments.seed, number)) for number in range(arguments.repeat)]
        count = min(arguments.starts, graph.pages)
        self._starts: list[I32] = [draw.choice(graph.pages, count, replace=False).astype(np.int32) for draw in random]
        if arguments.earlier:
            self._history = [remembered(graph, arguments.earlier)] * arguments.repeat
        else:
            self._history = [earlier(graph, self.rank, arguments.seed + number) for number in range(arguments.repeat)]

    def cases(self, order: Strategy) -> list[Case]:
        """Strategies that rank hosts are shown under every host rule, where hosts are only a rule."""
        if order.host_rank is None:
            return [Case(order, self.graph, "")]
        if self.graph.has_hosts or self._arguments.hosts:
            return [Case(order, self.graph, self._arguments.hosts or "its own")]
        return [Case(order, self.graph.with_hosts(rule), rule) for rule in RULES]

    def measure(self, case: Case) -> Found:
        averages, at_10, taus, curves = [], [], [], []
        for number, (starts, history) in enumerate(zip(self._starts, self._history, strict=True)):
            seed = self._arguments.seed + number
            if self._arguments.start_old and case.order.score and case.order.score.source == "history":
                starts = np.argsort(-np.nan_to_num(history), kind="stable")[: len(starts)].astype(np.int32)
            known = Knowledge(self.rank, history, every=self._every)
            order = simulate(case.graph, case.order, starts, Conditions(seed=seed), known, self.pages).order
            curve = measures.cumulative(order, self.rank)
            averages.append(measures.average(curve))
            at_10.append(measures.at(curve, self.pages // 10))
            taus.append(measures.tau(order, self.rank, seed))
            curves.append(curve)
        return Found(case, np.array(averages), np.array(at_10), np.array(taus), curves[0])

    def results(self, found: Sequence[Found]) -> Results:
        ranked = sorted(found, key=lambda each: -each.averages.mean())
        rows = [self._row(each) for each in ranked]
        shown = ("", "its own", self._arguments.hosts or RULES[0])
        averages = {each.case.order.name: each.averages for each in found if each.case.hosts in shown}
        claims = check(CLAIMS, averages, {name: average for name, (average, _) in PAPER.items()})
        graph, every = self.graph, self._every
        part = f", of which the first {self.pages:,} are crawled" if self.pages < graph.pages else ""
        notes = [
            f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {graph.rule}{part}.",
            "One connection, no delay. Average: of the cumulative PageRank over the crawl; at 10 %: after a tenth of "
            "the pages; tau: Kendall's, of the order of the crawl against that by PageRank.",
            f"Strategies that compute PageRank or authority do so every {every:,} pages; a crawl does with "
            f"--set crawl.rescore={every}.",
            f"Average over {len(self._starts)} sets of {len(self._starts[0])} random start pages; ± is the 95 % "
            "interval of the mean (Student's).",
            "From, to: the same of the difference; p: Wilcoxon's signed-rank test, two-sided, each row for itself.",
            "An average is taken over the pages that links lead to from the starts, of the PageRank of all pages.",
            self._snapshot_note(),
            "Compared with Castillo 2004, Table 4.1, .cl and .gr, 2.5 to 3.5 million pages.",
            f"The ideal order has an average of {measures.average(measures.ideal(self.rank)[: self.pages]):.4f}.",
        ]
        return Results(
            f"order-{self.name}",
            f"Orders on {graph.name}{part}",
            rows,
            SHOWN,
            notes,
            self._figures(ranked),
            [Block("Statements of Castillo 2004", claims, CLAIMS_SHOWN)] if claims else [],
            [point for each in ranked for point in _points(graph.name, each)],
        )

    @property
    def _every(self) -> int:
        return self._arguments.rescore or max(1, self.pages // RECOMPUTATIONS)

    def _snapshot_note(self) -> str:
        if self._arguments.earlier:
            part = float(np.mean(~np.isnan(self._history[0])))
            return f"Historical strategies remember {self._arguments.earlier}, which had {part:.0%} of these pages."
        old = ~np.isnan(self._history[0])
        return (
            f"Historical strategies remember a snapshot with {old.mean():.0%} of the pages and "
            f"{self.rank[old].sum():.0%} of their PageRank, drawn with a chance that grows with PageRank; "
            "a quarter of the links did not exist yet."
        )

    def _row(self, each: Found) -> dict[str, Any]:
        name = each.case.order.name
        paper_average, paper_tau = PAPER.get(name, (None, None))
        return {
            "graph": self.graph.name,
            "strategy": name,
            "hosts": each.case.hosts,
            "average": float(each.averages.mean()),
            "spread": reach(float(each.averages.std(ddof=1)), len(each.averages)) if len(each.averages) > 1 else None,
            "at_10_percent": float(each.at_10.mean()),
            "tau": None if np.isnan(each.taus).any() else float(each.taus.mean()),
            "paper_average": paper_average,
            "paper_tau": paper_tau,
        }

    def _figures(self, ranked: Sequence[Found]) -> list[Figure]:
        remembers = [each for each in ranked if each.case.order.score and each.case.order.score.source == "history"]
        others = [each for each in ranked if each not in remembers]
        compared = [each for each in ranked if each in remembers or each.case.order.name in ("omniscient", "opic")]
        figures = [self._figure("", f"Cumulative PageRank on {self.graph.name}", others)]
        if remembers:
            title = f"Strategies that remember an earlier crawl, on {self.graph.name}"
            figures.append(self._figure("-history", title, compared))
        return figures

    def _figure(self, suffix: str, title: str, found: Sequence[Found]) -> Figure:
        ideal = measures.ideal(self.rank)[: self.pages]
        curves = [Curve("ideal", np.arange(1, len(ideal) + 1) / len(ideal), ideal, dashed=True, color="black")]
        for each in found:
            label = each.case.order.name + (f" ({each.case.hosts})" if each.case.hosts not in ("", "its own") else "")
            curves.append(Curve(label, np.arange(1, len(each.curve) + 1) / self.pages, each.curve))
        return Figure(f"order-{self.name}{suffix}", title, "part of the pages", "part of their PageRank", curves)


def _points(graph: str, each: Found) -> list[dict[str, Any]]:
    """A curve in a hundred points."""
    places = np.unique(np.linspace(0, len(each.curve) - 1, 100).astype(np.int64))
    return [
        {
            "graph": graph,
            "strategy": each.case.order.name,
            "hosts": each.case.hosts,
            "pages": place + 1,
            "pagerank": value,
        }
        for place, value in zip(places.tolist(), each.curve[places].tolist(), strict=True)
    ]
