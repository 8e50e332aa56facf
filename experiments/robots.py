"""This experiment shows what more connections do to the order of pages, and how much faster they are.

It repeats Castillo 2004, section 4.3.5: Figure 4.7 (order), Table 4.2 and Figure 4.8 (speed-up by bandwidth); w = 15 s,
c = 1.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import (
    STATEMENTS_SHOWN,
    Block,
    Results,
    add_graph,
    add_pages,
    add_starts,
    columns,
    publish,
    statement,
)
from gossamer.arrays import F64, I32
from gossamer.frontier.strategies import strategy
from gossamer.sim import measures
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.numbers import positive
from gossamer.sim.ranking import pagerank
from gossamer.sim.simulator import Conditions, simulate, speeds

ROBOTS = (1, 64, 256)
DELAY_S = 15.0
BANDWIDTHS = (200, 2_000, 20_000, 200_000, 2_000_000, 20_000_000)
# Castillo, Table 4.2: speed-ups for 1, 64 and 256 robots
PAPER = {
    200: (0.2, 1.6, 3.0),
    2_000: (0.7, 3.8, 16.0),
    20_000: (1.0, 27.0, 83.3),
    200_000: (1.0, 43.0, 114.1),
    2_000_000: (1.0, 54.3, 204.3),
    20_000_000: (1.0, 54.6, 220.1),
}
PAGES_PER_HOST = 16  # enough hosts for 256 robots: each may be asked once in 15 s, and answers in less than one
HOSTS_HELP = f"even:N, power:N, cuts:N, or own: the graph's own (default: power, {PAGES_PER_HOST} pages to a host)"
ORDERS = ("larger-sites-first", "breadth-first")
COLORS = {
    "larger-sites-first": ("#9ecae1", "#4292c6", "#08519c"),
    "breadth-first": ("#fdae6b", "#f16913", "#a63603"),
}
SAME = 0.01  # averages that differ by less are the same
LINEAR = 0.98  # of r times: a speed-up below is sub-linear
FULL = 0.9  # a link or all robots together that are busy for this part of the time are the limit

ORDER_SHOWN = columns("strategy | robots | average | spread: ± | at_10_percent: at 10 % | hours")
SPEED_SHOWN = columns(
    "bandwidth: bytes/s | robots | speedup: moving on | limit: limited by | speedup_waiting: waiting | "
    "limit_waiting: limited by | paper: Castillo"
)


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, hosts=HOSTS_HELP)
    add_starts(parser)
    parser.add_argument("--repeat", type=positive, default=3, metavar="N", help="sets, for the order (default: 3)")
    add_pages(parser, "half of all, for speed-ups")


def run(arguments: argparse.Namespace) -> int:
    graph = enough_hosts(arguments.graph, arguments.hosts)
    experiment = Experiment(graph, arguments)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        orders = list(pool.map(experiment.order, product(ORDERS, ROBOTS)))
        cases = [Case(False, 0, 1), Case(True, 0, 1)]
        cases += [Case(*case) for case in product((False, True), BANDWIDTHS, ROBOTS)]
        times = dict(zip(cases, pool.map(experiment.speed, cases), strict=True))
    publish(experiment.order_results(orders), arguments.out, arguments.json)
    publish(experiment.speed_results(times), arguments.out, arguments.json)
    return 0


def enough_hosts(path: Path, rule: str) -> Graph:
    """By default as many as hundreds of robots need, also where the graph has its own."""
    if rule == "own":
        return load(path)
    if rule:
        return load(path, rule)
    graph = load(path)
    return graph.with_hosts(f"power:{max(1, graph.pages // PAGES_PER_HOST)}")


@dataclass(frozen=True)
class Case:
    is_waiting: bool  # a robot stays with its host for w seconds after each page; false: it goes on to another
    bandwidth: int  # 0: no limit
    robots: int

    def conditions(self, seed: int) -> Conditions:
        stay, rest_s = (2**31 - 1, DELAY_S) if self.is_waiting else (1, 0.0)
        return Conditions(self.robots, DELAY_S, burst=stay, burst_delay_s=rest_s, bandwidth=self.bandwidth, seed=seed)


@dataclass(frozen=True)
class Order:
    name: str
    robots: int
    averages: F64  # one per set of starts
    at_10: F64
    hours: F64
    curve: F64  # of the first set


@dataclass(frozen=True)
class Speed:
    seconds: float
    limit: str


class Experiment:
    def __init__(self, graph: Graph, arguments: argparse.Namespace) -> None:
        self.graph, self._seed = graph, arguments.seed
        self.rank = pagerank(graph.sources(), graph.indices, graph.pages)
        self.pages = min(arguments.pages or graph.pages // 2, graph.pages)
        count = min(arguments.starts, graph.pages)
        random = [np.random.default_rng((arguments.seed, number)) for number in range(max(1, arguments.repeat))]
        self._starts: list[I32] = [draw.choice(graph.pages, count, replace=False).astype(np.int32) for draw in random]
        latency_s, speed = speeds(graph, arguments.seed)
        self._page_s = float((latency_s[graph.host] + graph.page_bytes / speed[graph.host]).mean())

    def order(self, case: tuple[str, int]) -> Order:
        name, robots = case
        curves, hours = [], []
        for number, starts in enumerate(self._starts):
            conditions = Conditions(connections=robots, delay_s=DELAY_S, seed=self._seed + number)
            trace = simulate(self.graph, strategy(name), starts, conditions)
            curves.append(measures.cumulative(trace.order, self.rank))
            hours.append(trace.seconds / 3600)
        averages = np.array([measures.average(curve) for curve in curves])
        at_10 = np.array([measures.at(curve, self.graph.pages // 10) for curve in curves])
        return Order(name, robots, averages, at_10, np.array(hours), curves[0])

    def speed(self, case: Case) -> Speed:
        order = strategy("larger-sites-first")
        trace = simulate(self.graph, order, self._starts[0], case.conditions(self._seed), pages=self.pages)
        carried = float(self.graph.page_bytes[trace.order].sum()) / max(trace.seconds, 1e-9)
        if case.bandwidth and carried >= FULL * case.bandwidth:
            return Speed(trace.seconds, "the link")
        is_busy = measures.mean_active(trace, trace.seconds) >= FULL * case.robots
        return Speed(trace.seconds, "robots" if is_busy else "hosts")

    def order_results(self, found: Sequence[Order]) -> Results:
        graph = self.graph
        curves = [
            Curve(
                f"{each.name}, r = {each.robots}",
                np.arange(1, len(each.curve) + 1) / graph.pages,
                each.curve,
                color=COLORS[each.name][ROBOTS.index(each.robots)],
            )
            for each in found
        ]
        apart = [float(np.ptp([each.averages.mean() for each in found if each.robots == r])) for r in ROBOTS]
        title = f"Robots and the order of pages, {graph.name}"
        return Results(
            f"robots-{graph.name}",
            title,
            [
                {
                    "graph": graph.name,
                    "strategy": each.name,
                    "robots": each.robots,
                    "average": float(each.averages.mean()),
                    "spread": float(np.ptp(each.averages) / 2),
                    "at_10_percent": float(each.at_10.mean()),
                    "hours": float(each.hours.mean()),
                }
                for each in found
            ],
            ORDER_SHOWN,
            [
                f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {graph.rule}.",
                f"w = {DELAY_S:.0f} s, c = 1, one connection to a host, unlimited bandwidth; "
                f"{len(self._starts)} sets of {len(self._starts[0])} random start pages, ± is half the range.",
                "Hours of the whole crawl. It cannot end before its largest host: "
                f"{np.bincount(graph.host).max():,} pages, {np.bincount(graph.host).max() * DELAY_S / 3600:.1f} hours.",
                f"The two strategies differ by {apart[0]:.4f} with one robot and by {apart[-1]:.4f} with {ROBOTS[-1]}:"
                " the more robots, the sooner every host that may be asked is asked, whatever its rank.",
                "Compared with Castillo 2004, Figure 4.7.",
            ],
            [Figure(f"robots-{graph.name}", title, "part of the pages", "part of their PageRank", curves)],
            [Block("Statements of Castillo 2004", order_claims(found), STATEMENTS_SHOWN)],
        )

    def speed_results(self, times: dict[Case, Speed]) -> Results:
        graph = self.graph
        rows = speed_rows(graph.name, times)
        title = f"Speed-up by bandwidth, {graph.name}"
        return Results(
            f"robots-speed-{graph.name}",
            title,
            rows,
            SPEED_SHOWN,
            [
                f"larger-sites-first, w = {DELAY_S:.0f} s, the first {self.pages:,} pages: a whole crawl ends"
                " with its largest hosts, one page each in 15 s, however many robots there are.",
                "Speed-up: the time of one robot with an unlimited link over that of the case, for as many pages. It"
                " may be a little above r: where hosts are scarce slow ones fall behind, others' pages come first.",
                f"Moving on: while a host rests, its robot asks another, c = 1; a page takes {self._page_s:.2f} s."
                " Waiting: it stays with its host on one connection, c without a limit, and pauses for w after each"
                f" page, {self._page_s + DELAY_S:.1f} s a page at most: on an open connection latency is half."
                " Castillo's first column says that its robots wait.",
                f"Pages have {graph.page_bytes.mean():,.0f} bytes; {graph.rule}. 256 robots that move on need some"
                f" {256 * (1 + DELAY_S / self._page_s):,.0f} hosts with pages at any time.",
                "Compared with Castillo 2004, Table 4.2. Its small bandwidths cannot be one link that robots share:"
                " if 200 bytes/s slow one robot to 0.2, the bytes alone take 4 of its 5 times, and no number of robots"
                " is faster than 0.25 (Castillo: 1.6 and 3.0); at 2,000 not faster than 2.3 (Castillo: 3.8 and 16.0).",
            ],
            [speed_figure(graph.name, rows)],
            [Block("Statements of Castillo 2004", speed_claims(rows), STATEMENTS_SHOWN)],
        )


def speed_figure(graph: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    curves = []
    bandwidths = np.array(BANDWIDTHS)
    kinds = (
        ("speedup", "moving on", COLORS["larger-sites-first"]),
        ("speedup_waiting", "waiting", COLORS["breadth-first"]),
        ("paper", "Castillo", ("", "#bbbbbb", "#555555")),
    )
    for key, label, colors in kinds:
        for place, robots in list(enumerate(ROBOTS))[1:]:
            speedup = np.array([row[key] for row in rows if row["robots"] == robots])
            curves.append(Curve(f"r = {robots}, {label}", bandwidths, speedup, key == "paper", color=colors[place]))
    title = f"Speed-up by bandwidth, {graph}"
    name = f"robots-speed-{graph}"
    return Figure(name, title, "bandwidth, bytes per second", "speed-up", curves, log_x=True, markers=True)


def speed_rows(graph: str, times: dict[Case, Speed]) -> list[dict[str, Any]]:
    """One for each bandwidth and number of robots."""

    def speedup(case: Case) -> float:
        return times[Case(case.is_waiting, 0, 1)].seconds / times[case].seconds

    rows = []
    for bandwidth, (place, robots) in product(BANDWIDTHS, enumerate(ROBOTS)):
        moving, waiting = Case(False, bandwidth, robots), Case(True, bandwidth, robots)
        rows.append(
            {
                "graph": graph,
                "bandwidth": bandwidth,
                "robots": robots,
                "speedup": speedup(moving),
                "limit": times[moving].limit,
                "hours": times[moving].seconds / 3600,
                "speedup_waiting": speedup(waiting),
                "limit_waiting": times[waiting].limit,
                "hours_waiting": times[waiting].seconds / 3600,
                "paper": PAPER[bandwidth][place],
            }
        )
    return rows


def order_claims(found: Sequence[Order]) -> list[dict[str, str]]:
    large, breadth = (np.array([each.averages for each in found if each.name == name]) for name in ORDERS)
    apart = float(np.ptp(large.mean(axis=1)))
    steps = np.diff(breadth, axis=0)
    grows = np.min(steps > 0, axis=0)  # one for each set of starts
    return [
        statement(
            "larger-sites-first is not affected by the number of robots",
            apart < SAME,
            f"averages differ by {apart:.4f}",
        ),
        statement(
            "breadth-first improves as robots are added",
            True if grows.all() else None if grows.any() else False,
            f"in {grows.sum()} of {len(grows)} sets; {steps[0].mean():+.4f} from 1 to 64, "
            f"{steps[1].mean():+.4f} from 64 to 256",
        ),
    ]


def speed_claims(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    claims = []
    for key, kind in (("speedup", "moving on"), ("speedup_waiting", "waiting")):
        table = np.array([row[key] for row in rows]).reshape(len(BANDWIDTHS), len(ROBOTS))
        part = table[-1, 1:] / table[-1, 0] / np.array(ROBOTS[1:])
        more = table[:, 2] / table[:, 1]
        full = [row["bandwidth"] for row in rows if row["robots"] == 64 and row[f"limit{key[7:]}"] == "the link"]
        gains = [gain for bandwidth, gain in zip(BANDWIDTHS, more.tolist(), strict=True) if bandwidth in full]
        claims += [
            statement(
                f"the speed-up is sub-linear ({kind})",
                (part < LINEAR).all(),
                ", ".join(f"{each:.0%} of {r}" for each, r in zip(part, ROBOTS[1:], strict=True)),
            ),
            statement(
                f"with a full link more robots bring nothing ({kind})",
                max(gains) < 1.1 if gains else None,
                f"256 against 64 robots: {max(gains):.2f} times at most" if gains else "no link was full",
            ),
        ]
    return claims
