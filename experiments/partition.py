"""This experiment compares partitioners: which links each cuts, and how evenly it fills the sites.

It repeats Table 2 of LEADS D1.4 (2015, section 4) on any graph: vertices come in some order and are placed for good;
with `--at discovery` they come as a crawl finds them.
"""

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments import partition_discovery, partition_statements
from experiments.harness import Results, add_graph, add_starts, columns, publish
from experiments.partition_methods import PARTITIONERS, Partitioner, partitioner
from experiments.partitioning import LEVELS, ORDERS, compiled, incidence_of, stream_order
from gossamer.arrays import F64, I32
from gossamer.errors import ConfigError
from gossamer.placement.partition import SLACK, Goal, Task, cut, imbalance, overflows, task
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, load
from gossamer.sim.numbers import positive

SLOW = {"kahip"}  # minutes where others take seconds: only if asked for
DRAWN = {
    "hash",
    "ldg-first",
    "ldg",
    "fennel",
    "buffered-16",
    "buffered-4",
    "refennel",
    "fennel-moves",
    "buffered-moves",
}
DRAWN |= {"multilevel", "metis"}
ANY = "any"  # order of the stream, where it does not matter
SHOWN = columns("k | order | method | meaning: what it does | cut | spread: ± | imbalance | seconds: s")


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser)
    parser.add_argument("--k", type=_numbers, default=[2, 4, 8, 16], metavar="K,K", help="parts (default: 2,4,8,16)")
    parser.add_argument("--order", type=_orders, default=["random"], metavar="NAME,NAME", help=", ".join(ORDERS))
    parser.add_argument("--runs", type=positive, default=10, metavar="N", help="with other random orders (default: 10)")
    parser.add_argument("--method", action="append", metavar="NAME", help=f"of {', '.join(PARTITIONERS)}")
    parser.add_argument("--level", choices=LEVELS, default=LEVELS[0], help="what is placed (default: page)")
    parser.add_argument("--nu", type=float, default=SLACK, help=f"a part's load in proportion (default: {SLACK})")
    parser.add_argument("--shares", type=_shares, default=(), metavar="A,B", help="unequal parts, for one k")
    parser.add_argument("--at", choices=("arrival", "discovery"), default="arrival", help="when vertices are placed")
    parser.add_argument("--crawl", default="breadth-first", metavar="NAME", help="at discovery: the crawl's order")
    add_starts(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.shares and arguments.k != [len(arguments.shares)]:
        raise ConfigError(f"--shares has {len(arguments.shares)} parts: give --k {len(arguments.shares)}")
    graph = load(arguments.graph, arguments.hosts)
    if arguments.at == "discovery":
        results = partition_discovery.results(graph, arguments)
    else:
        results = Experiment(graph, arguments).results()
    publish(results, arguments.out, arguments.json)
    return 0


@dataclass(frozen=True)
class Case:
    task: Task
    order: str
    method: Partitioner


@dataclass(frozen=True)
class Found:
    case: Case
    cuts: F64  # one per run
    imbalances: F64
    seconds: F64
    full: int  # parts that had to take more than their capacity, in the last run

    @property
    def key(self) -> tuple[int, str, str]:
        return self.case.task.parts, self.case.order, self.case.method.name


class Experiment:
    def __init__(self, graph: Graph, arguments: argparse.Namespace) -> None:
        self._graph = graph
        self._arguments = arguments
        self._linked = incidence_of(graph, arguments.level)
        self._methods = [
            partitioner(name) for name in arguments.method or PARTITIONERS if arguments.method or name not in SLOW
        ]

        self._name = f"partition-{graph.name}" + ("" if arguments.level == "page" else f"-{arguments.level}s")

    @cached_property
    def _orders(self) -> dict[str, list[I32]]:
        """The same for all methods and k."""
        runs = range(self._arguments.runs)
        draws = {
            name: [np.random.default_rng((self._arguments.seed, run)) for run in runs] for name in self._arguments.order
        }
        orders = {name: [stream_order(self._linked, name, draw) for draw in draws[name]] for name in draws}
        return orders | {ANY: [stream_order(self._linked, "natural", np.random.default_rng(0))] * len(runs)}

    def results(self) -> Results:
        cases = list(self._cases())
        self._orders  # noqa: B018  once, before threads ask for it
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiled loops run outside Python's lock
            found = list(pool.map(self._measure, cases))
        name = self._graph.name
        cuts = {each.key: each.cuts for each in found}
        return Results(
            self._name,
            f"Edges cut on {name}",
            [self._row(each) for each in found],
            SHOWN,
            self._notes(found),
            [self._figure(order, found) for order in self._arguments.order],
            [block for block in partition_statements.blocks(name, cuts) if block.rows],
        )

    def _cases(self) -> Sequence[Case]:
        arguments = self._arguments
        goals = [Goal(k, arguments.nu, arguments.shares) for k in arguments.k]
        tasks = [compiled(task(self._linked, goal)) for goal in goals]
        return [
            Case(each, order, method)
            for each in tasks
            for order in (*arguments.order, ANY)
            for method in self._methods
            if method.ordered == (order != ANY)
        ]

    def _measure(self, case: Case) -> Found:
        is_same = case.order == "natural" and not case.method.random
        cuts, imbalances, seconds = [], [], []
        for run, order in enumerate(self._orders[case.order][: 1 if is_same else None]):
            begin = time.thread_time()
            part = case.method.place(case.task, order, np.random.default_rng((self._arguments.seed, run, 1)))
            seconds.append(time.thread_time() - begin)
            cuts.append(cut(self._linked, part))
            imbalances.append(imbalance(case.task, part))
        full = len(overflows(case.task, part))
        return Found(case, np.array(cuts), np.array(imbalances), np.array(seconds), full)

    def _row(self, each: Found) -> dict[str, Any]:
        k, order, method = each.key
        return {
            "graph": self._graph.name,
            "k": k,
            "order": order,
            "method": method,
            "meaning": each.case.method.meaning,
            "cut": float(each.cuts.mean()),
            "spread": float(np.ptp(each.cuts) / 2),
            "imbalance": float(each.imbalances.max()),
            "seconds": float(np.median(each.seconds)),
            "runs": len(each.cuts),
            "level": self._arguments.level,
        }

    def _notes(self, found: Sequence[Found]) -> list[str]:
        graph, arguments = self._linked, self._arguments
        notes = [
            f"{self._graph.name}: {graph.vertices:,} {arguments.level}s, {graph.edges:,.0f} edges, {self._graph.rule}.",
            "Of pages a linked pair is one edge; of hosts every link counts, and a host weighs as many as its pages.",
            f"No part takes more than {arguments.nu:g} times its share. Imbalance: the fullest part in proportion to "
            "its share, in the worst run. Cut: part of the edges that lead from one part to another.",
            f"Up to {arguments.runs} runs, with other random orders or seeds; ± is half their range. s: seconds of one "
            "core for one run, compiled, the median.",
            "Reference cuts are one run each of other implementations; in the range: of our runs here, however few.",
        ]
        if any(each.full for each in found):
            largest = int(np.argmax(graph.size))
            size = int(graph.size[largest])
            notes.append(
                f"Capacities could not be kept everywhere, because nothing is split: {self._graph.host_names[largest]} "
                f"alone has {size:,} pages, {size / graph.total:.1%} of all."
            )
        return notes

    def _figure(self, order: str, found: Sequence[Found]) -> Figure:
        curves = []
        drawn = [each for each in self._methods if self._arguments.method or each.name in DRAWN]
        for method in drawn:
            ours = [each for each in found if each.case.method is method and each.case.order in (order, ANY)]
            x = np.array([each.case.task.parts for each in ours])
            y = np.array([100 * each.cuts.mean() for each in ours])
            curves.append(Curve(method.name, x, y, dashed=not method.passes))
        title = f"Edges cut on {self._graph.name}, {order} order"
        return Figure(f"{self._name}-{order}", title, "parts", "% of the edges", curves, log_y=True, markers=True)


def _numbers(text: str) -> list[int]:
    return [positive(each) for each in text.split(",")]


def _shares(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))


def _orders(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in ORDERS:
            raise argparse.ArgumentTypeError(f"there is no order {name!r}; known are {', '.join(ORDERS)}")
    return names
