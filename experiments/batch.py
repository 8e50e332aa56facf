"""This experiment shows how soon the robots of a batch of pages run out of hosts, and what two remedies bring.

It repeats Castillo 2004, section 4.4: Figure 4.9 (pages of a batch by host), Figures 4.10 and 4.11 (active robots over
time), then ending a batch early and preparing the next one in advance.
"""

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.harness import STATEMENTS_SHOWN, Block, Results, add_graph, add_starts, columns, publish, statement
from experiments.robots import DELAY_S, HOSTS_HELP, enough_hosts
from gossamer.arrays import F64, I32, I64
from gossamer.errors import ConfigError
from gossamer.frontier.strategies import strategy
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.graphs import Graph, linked
from gossamer.sim.measures import busy_s, mean_active
from gossamer.sim.numbers import natural, positive
from gossamer.sim.simulator import Conditions, Trace, simulate, speeds
from gossamer.sim.world import KEPT_LATENCY

ORDER = "breadth-first"
BURST = 100
# Castillo, section 4.4: hours of a batch with small (2,000 bytes/s) and large (20,000) bandwidth, by c
PAPER = {("small", 1): 33.0, ("small", BURST): 29.0, ("large", 1): 9.0, ("large", BURST): 3.0}
# With c = 100 Castillo's link is full: 29 h at 2,000 bytes/s are 209 MB, 3 h at 20,000 are 216 MB. With c = 1 and
# the large one it is not: 9 h are what its largest host takes. Ours has the same link times against that.
LINK_TIMES = {"small": 29.0 / 9.0, "large": 2.9 / 9.0}
BATCHES = 4  # for the remedies
BINS = 300  # of time, in figures
REMEDIES = {  # early, advance: as in Conditions
    "none": (0.0, 0.0),
    "end early, below 10 % active": (0.1, 0.0),
    "end early, below 50 % active": (0.5, 0.0),
    "next in advance, at 10 % left": (0.0, 0.1),
    "next in advance, at 50 % left": (0.0, 0.5),
}
COLORS = dict(zip(REMEDIES, ("#999999", "#fdae6b", "#d94801", "#9ecae1", "#08519c"), strict=True))
DRAWN = ("none", "end early, below 50 % active", "next in advance, at 50 % left")  # more would hide each other

SHOWN = columns(
    "link | bandwidth: bytes/s | burst: c | hours | paper_hours: Castillo: hours | scaled_hours: ours, scaled | "
    "link_hours: link alone | host_hours: slowest host alone | active: active robots"
)
REMEDY_SHOWN = columns("remedy | burst: c | hours | active: active robots | link_use: of the link | batches")


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, hosts=HOSTS_HELP)
    add_starts(parser)
    parser.add_argument("--width", type=natural, default=0, metavar="K", help="of a batch (default: a 35th of all)")
    parser.add_argument("--connections", type=positive, default=256, metavar="R", help="robots (default: 256)")


def run(arguments: argparse.Namespace) -> int:
    graph = enough_hosts(arguments.graph, arguments.hosts)
    random = np.random.default_rng(arguments.seed)
    starts = random.choice(graph.pages, min(arguments.starts, graph.pages), replace=False).astype(np.int32)
    rest, waiting = middle(graph, starts, arguments.seed)
    if not len(waiting):
        raise ConfigError(f"{graph.name} has too few pages: after half of the crawl nothing waits for a batch")
    width = min(arguments.width or max(1, graph.pages // 35), len(waiting))
    experiment = Experiment(graph, rest, waiting, width, arguments.connections)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = list(PAPER)
        traces = dict(zip(cases, pool.map(experiment.batch, cases), strict=True))
        remedies = [(name, burst) for burst in (1, BURST) for name in REMEDIES]
        crawls = dict(zip(remedies, pool.map(experiment.crawl, remedies), strict=True))
    publish(experiment.batch_results(traces), arguments.out, arguments.json)
    publish(experiment.remedy_results(crawls), arguments.out, arguments.json)
    return 0


def middle(graph: Graph, starts: I32, seed: int) -> tuple[Graph, I32]:
    """A breadth-first crawl half done: the pages that are left, with the links among them, and those of them that
    are known, as they were discovered. Breadth-first needs to know no more to go on."""
    trace = simulate(graph, strategy(ORDER), starts, pages=graph.pages // 2)
    is_left = np.ones(graph.pages, np.bool_)
    is_left[trace.order] = False
    degree = graph.degree[trace.order]
    first = np.repeat(graph.indptr[trace.order] - np.concatenate(([0], np.cumsum(degree)[:-1])), degree)
    found = np.concatenate((starts, graph.indices[first + np.arange(degree.sum())]))
    pages, place = np.unique(found, return_index=True)
    known = pages[np.argsort(place)]
    left = np.flatnonzero(is_left)
    number: I64 = np.cumsum(is_left) - 1
    source, target = graph.sources(), graph.indices
    among = is_left[source] & is_left[target]
    latency_s, speed = speeds(graph, seed)
    rest = Graph(
        graph.name,
        *linked(number[source[among]], number[target[among]], len(left)),
        graph.host[left],
        graph.host_names,
        graph.page_bytes[left],
        graph.rule,
        latency_s=latency_s,
        speed=speed,
    )
    return rest, number[known[is_left[known]]].astype(np.int32)


@dataclass(frozen=True)
class Experiment:
    graph: Graph
    rest: Graph
    waiting: I32  # known pages of `rest`, in the order of breadth-first
    width: int
    connections: int

    @cached_property
    def per_host(self) -> I64:
        """Pages of the batch on each host."""
        return np.bincount(self.rest.host[self.waiting[: self.width]], minlength=len(self.rest.host_names))

    @cached_property
    def batch_bytes(self) -> float:
        return float(self.rest.page_bytes[self.waiting[: self.width]].sum())

    def host_s(self, burst: int) -> float:
        """What the batch takes at least because each host is asked politely."""
        latency_s, speed = speeds(self.rest, 0)  # its own
        pages = self.waiting[: self.width]
        host = self.rest.host[pages]
        received_s = np.bincount(host, self.rest.page_bytes[pages] / speed[host], len(self.per_host))
        opened = -(-self.per_host // burst)
        answered_s = latency_s * (opened + KEPT_LATENCY * (self.per_host - opened))
        return float((received_s + answered_s + DELAY_S * np.maximum(opened - 1, 0)).max())

    def bandwidth(self, link: str) -> float:
        return self.batch_bytes / (LINK_TIMES[link] * self.host_s(1))

    def batch(self, case: tuple[str, int]) -> Trace:
        link, burst = case
        return self._simulate(link, burst, self.width)

    def crawl(self, case: tuple[str, int]) -> Trace:
        remedy, burst = case
        return self._simulate("large", burst, BATCHES * self.width, *REMEDIES[remedy])

    def _simulate(self, link: str, burst: int, pages: int, early: float = 0.0, advance: float = 0.0) -> Trace:
        conditions = Conditions(
            connections=self.connections,
            delay_s=DELAY_S,
            burst=burst,
            bandwidth=self.bandwidth(link),
            width=self.width,
            early=early,
            advance=advance,
        )
        return simulate(self.rest, strategy(ORDER), self.waiting, conditions, pages=pages)

    # --- what is said about it

    def batch_results(self, traces: dict[tuple[str, int], Trace]) -> Results:
        graph, name = self.graph, f"batch-{self.graph.name}"
        host_h = self.host_s(1) / 3600
        rows = [
            {
                "graph": graph.name,
                "link": link,
                "bandwidth": self.bandwidth(link),
                "burst": burst,
                "hours": trace.seconds / 3600,
                "paper_hours": PAPER[link, burst],
                "scaled_hours": trace.seconds / 3600 / host_h * PAPER["large", 1],
                "link_hours": self.batch_bytes / self.bandwidth(link) / 3600,
                "host_hours": self.host_s(burst) / 3600,
                "active": mean_active(trace, trace.seconds),
            }
            for (link, burst), trace in traces.items()
        ]
        sizes = np.sort(self.per_host[self.per_host > 0])[::-1]
        return Results(
            name,
            f"One batch in the middle of a crawl, {graph.name}",
            rows,
            SHOWN,
            [
                f"{graph.name}: {graph.pages:,} pages, {graph.rule}; r = {self.connections}, w = {DELAY_S:.0f} s.",
                f"The batch: half of the pages are crawled breadth-first, the next K = {self.width:,} in that order are"
                f" the batch, the same for all cases. They are on {len(sizes):,} hosts; the largest has {sizes[0]:,},"
                f" {(sizes == 1).sum():,} have one.",
                "Bandwidths mean what Castillo's do: receiving the batch takes 29/9 (small) and 2.9/9 (large) of the"
                " time that its slowest host takes with c = 1. In Castillo 2004 c = 100 fills both links (29 h at 2,000"
                " and 3 h at 20,000 bytes/s are the same 0.21 GB), and 9 h are the slowest host.",
                f"Scaled: hours, were that host's {host_h:.1f} h Castillo's 9. Castillo's 9 and 29 h set the scale;"
                " whether c = 100 fills the links, and how far c = 1 stays behind, is found here.",
            ],
            [
                self._sizes_figure(f"{name}-hosts", sizes),
                *(self._active_figure(f"{name}-{link}", link, traces) for link in LINK_TIMES),
            ],
            [Block("Statements of Castillo 2004", self._claims(sizes, traces), STATEMENTS_SHOWN)],
        )

    def _claims(self, sizes: I64, traces: dict[tuple[str, int], Trace]) -> list[dict[str, str]]:
        every = np.bincount(self.graph.host)
        batch, whole = gini(sizes), gini(every[every > 0])
        idle = {
            case: float(np.mean(over_time(trace, trace.seconds)[1] < self.connections / 2))
            for case, trace in traces.items()
        }
        saved = {link: 1 - traces[link, BURST].seconds / traces[link, 1].seconds for link in LINK_TIMES}
        return [
            statement(
                "a batch is less skewed than the whole",
                batch < whole,
                f"Gini coefficient of pages by host {batch:.2f}, of all pages {whole:.2f}",
            ),
            statement(
                "with c = 1 most robots are idle most of the time",
                min(idle["small", 1], idle["large", 1]) > 0.5,
                f"more than half of them: {idle['small', 1]:.0%} of the time (small link), "
                f"{idle['large', 1]:.0%} (large)",
            ),
            statement(
                "c = 100 saves most where bandwidth is large (Castillo: 12 % and 67 %)",
                saved["large"] > saved["small"] > 0,
                f"{saved['small']:.0%} and {saved['large']:.0%}",
            ),
        ]

    def _sizes_figure(self, name: str, sizes: I64) -> Figure:
        every = np.sort(np.bincount(self.graph.host))[::-1]
        curves = [
            Curve("all pages", *_by_rank(every[every > 0]), color="#bbbbbb"),
            Curve("the batch", *_by_rank(sizes), color="#08519c"),
        ]
        title = f"Pages by host in a batch, {self.graph.name}"
        return Figure(name, title, "hosts, the largest first", "pages of the host", curves, log_x=True, log_y=True)

    def _active_figure(self, name: str, link: str, traces: dict[tuple[str, int], Trace]) -> Figure:
        title = f"Active robots, {link} link ({self.bandwidth(link):,.0f} bytes/s), {self.graph.name}"
        colors = {1: "#f16913", BURST: "#08519c"}
        curves = [
            _active(f"c = {burst}", traces[link, burst], traces[link, burst].seconds, colors[burst])
            for burst in (1, BURST)
        ]
        return Figure(name, title, "hours", "active robots", curves)

    def remedy_results(self, crawls: dict[tuple[str, int], Trace]) -> Results:
        graph, name, pages = self.graph, f"batch-remedies-{self.graph.name}", BATCHES * self.width
        rows = []
        for (remedy, burst), trace in crawls.items():
            visited = min(pages, len(trace.order))
            end_s = float(trace.time_s[visited - 1])
            carried = float(self.rest.page_bytes[trace.order[:visited]].sum())
            rows.append(
                {
                    "graph": graph.name,
                    "remedy": remedy,
                    "burst": burst,
                    "pages": visited,
                    "hours": end_s / 3600,
                    "active": mean_active(trace, end_s),
                    "link_use": f"{carried / end_s / self.bandwidth('large'):.0%}",
                    "batches": int(trace.batch[visited - 1]),
                }
            )
        title = f"Remedies, c = 1, large link, {graph.name}"
        ends_s = {remedy: float(crawls[remedy, 1].time_s[:pages][-1]) for remedy in REMEDIES}
        active = [_active(_label(each), crawls[each, 1], ends_s[each], COLORS[each]) for each in DRAWN]
        done = [_done(_label(each), crawls[each, 1].time_s[:pages], COLORS[each]) for each in REMEDIES]
        return Results(
            name,
            f"Two remedies: {pages:,} pages in batches of {self.width:,}, large link, {graph.name}",
            rows,
            REMEDY_SHOWN,
            [
                "The crawl goes on from its middle until so many pages have come; hours are those of these pages.",
                "End early: when fewer robots are active and no host is free, a batch ends; what is left of it returns"
                " to the frontier. Not before a tenth of it has been visited.",
                "Next in advance: when no more than this part of a batch is left, the workbench is filled up again with"
                " what is known by then.",
                "Pages left behind are those of large hosts: they wait for the end of the crawl, and no remedy but"
                " c > 1 (or a smaller w) shortens that.",
                "Compared with Castillo 2004, section 4.4, which has the idea and no figures.",
            ],
            [
                Figure(name, title, "hours", "pages", done),
                Figure(f"{name}-active", title, "hours", "active robots", active),
            ],
        )


def gini(sizes: I64) -> float:
    """0: all hosts have as many pages; near 1: one has them all."""
    ordered = np.sort(sizes)
    count = len(ordered)
    return float((2 * np.arange(1, count + 1) - count - 1) @ ordered / (count * ordered.sum()))


def over_time(trace: Trace, until_s: float, bins: int = BINS) -> tuple[F64, F64]:
    """The middle of each bin in seconds, and the mean number of busy connections in it."""
    edges: F64 = np.linspace(0.0, until_s, bins + 1)
    return (edges[1:] + edges[:-1]) / 2, np.diff(busy_s(trace, edges)) / (until_s / bins)


def _by_rank(sizes: I64) -> tuple[F64, F64]:
    """Few points for each decade are enough on a logarithmic axis."""
    places = np.unique(np.geomspace(1, len(sizes), 200).astype(np.int64))
    return places.astype(np.float64), sizes[places - 1].astype(np.float64)


def _active(label: str, trace: Trace, until_s: float, color: str) -> Curve:
    middle_s, active = over_time(trace, until_s)
    return Curve(label, middle_s / 3600, active, color=color)


def _done(label: str, time_s: F64, color: str) -> Curve:
    return Curve(label, time_s / 3600, np.arange(1, len(time_s) + 1), color=color)


def _label(remedy: str) -> str:
    return "no remedy" if remedy == "none" else remedy
