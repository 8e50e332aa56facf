"""This experiment measures what several agents bring: speed, how soon a link is known elsewhere, what each mode costs.

It makes real crawls with real processes, all on this machine. It compares with UniCrawl (Le Quoc et al.), Figure 4a (1
to 4 nodes), with Bahrami et al., Figures 4 and 5 (1 to 32 agents), and with the measures of Cho and Garcia-Molina,
Parallel Crawlers (2002).
"""

import argparse
import os
from collections.abc import Sequence

import numpy as np

from experiments import agents_latency, agents_modes, agents_scaling
from experiments.harness import Block, Results, Row, columns, publish
from gossamer.config import CROSS_OVER
from gossamer.sim.figures import GREY, Curve, Figure
from gossamer.sim.numbers import positive, span

PARTS = ("scaling", "latency", "modes")
UNICRAWL_FACTOR = 3.79  # as UniCrawl says; its rounds of 1337 s and 312 s would make 4.29
# Bahrami et al.: over 8,919,411 and 3,081,852 transactions, at up to 222 and 75 a second
QUEUE_MS, TABLE_MS = 25.54, 9.169
SPEED = columns(
    "agents | pages_per_s: pages/s | factor: factor, bound by latency | unicrawl: UniCrawl, 8 cores a node | "
    "round_s: round s | inject_s: inject s | generate_s: generate s | commit_s: update, commit s | commits | "
    "crawler_cores: cores used | web_cores: by the web | cpu_ms: CPU ms/page | balance: least/mean"
)
LATENCY = columns(
    "agents | per_s: links/s | publish_ms: published ms | arrive_ms: seen ms | commit_ms: update, commit ms | "
    "known_ms: in the index ms | known_p95_ms: 95 % | look_up_ms: look-up ms | lost: not in time"
)
MODES = columns(
    "mode | agents | pages | coverage | overlap | overlap_half: at half | overlap_most: at 90 % | "
    "leaving: links to others/page | sent_urls: URLs sent/page | sent_bytes: bytes/page"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all", help="which experiment (default: all)")
    parser.add_argument("--agents", type=_counts, metavar="N,N", help="(1,2,3,4; 1,2,4,8,16,24,32; 1,2,4,8)")
    speed = parser.add_argument_group("scaling")
    shape = agents_scaling.Shape()
    speed.add_argument("--urls", type=positive, default=shape.urls, metavar="N", help="injected (1,000,000)")
    speed.add_argument("--hosts", type=positive, default=shape.hosts, metavar="N", help="they are on (1,000)")
    speed.add_argument("--width", type=positive, default=shape.width, metavar="N", help="pages of a round (4,000)")
    speed.add_argument("--rounds", type=positive, default=shape.rounds, metavar="N", help="measured (2)")
    speed.add_argument("--connections", type=positive, default=shape.connections, metavar="N", help="each (16)")
    speed.add_argument("--latency-ms", type=span, default=shape.latency_ms, metavar="MS", help="of the web (200)")
    speed.add_argument("--delay", type=span, default=shape.delay_s, metavar="S", help="between visits to a host (1)")
    latency = parser.add_argument_group("latency")
    latency.add_argument(
        "--rates", type=_counts, default=[10, 50, 100, 222], metavar="N,N", help="links a second (10,50,100,222)"
    )
    latency.add_argument("--seconds", type=span, default=5.0, metavar="S", help="of each measurement (5)")
    latency.add_argument("--known", type=positive, default=50_000, metavar="N", help="pages each agent knows (50,000)")
    modes = parser.add_argument_group("modes")
    modes.add_argument("--pages", type=positive, default=4_000, metavar="N", help="of the graph (4,000)")
    modes.add_argument("--starts", type=positive, default=20, metavar="N", help="seeds (20)")


def run(arguments: argparse.Namespace) -> int:
    runs = {"scaling": _scaling, "latency": _latency, "modes": _modes}
    for part in PARTS if arguments.part == "all" else (arguments.part,):
        publish(runs[part](arguments), arguments.out, arguments.json)
    return 0


def _counts(text: str) -> list[int]:
    return [positive(number) for number in text.split(",")]


# --- scaling


def _scaling(arguments: argparse.Namespace) -> Results:
    shape = agents_scaling.Shape(
        arguments.urls, arguments.hosts, arguments.width, arguments.rounds, arguments.connections,
        arguments.latency_ms, arguments.delay, arguments.seed,
    )  # fmt: skip
    found = list(agents_scaling.measure(shape, arguments.agents or [1, 2, 3, 4]))
    first = found[0]
    rows = [
        {
            "agents": one.agents,
            "pages_per_s": one.pages_per_s,
            "factor": one.pages_per_s / first.pages_per_s * first.agents,
            "unicrawl": {1: 1.0, 4: UNICRAWL_FACTOR}.get(one.agents),
            "round_s": shape.width / one.pages_per_s,
            "inject_s": one.inject_s,
            "generate_s": one.generate_s,
            "commit_s": one.commit_s,
            "commits": one.commits,
            "crawler_cores": one.crawler_cores,
            "web_cores": one.web_cores,
            "cpu_ms": 1000 * one.crawler_cores / one.pages_per_s,
            "balance": one.least * one.agents / one.pages,
        }
        for one in found
    ]
    limit = shape.connections * 1000 / shape.latency_ms if shape.latency_ms else float("inf")
    notes = [
        f"{shape.urls:,} URLs of {shape.hosts:,} hosts are injected; then rounds of {shape.width:,} pages, of all "
        f"agents together, {shape.rounds} of them measured (each agent: width {shape.width:,} divided by the agents)",
        f"bound by latency and politeness: a page takes {shape.latency_ms:g} ms on average, an agent has "
        f"{shape.connections} connections (at most {limit:,.0f} pages/s), a host is left alone for {shape.delay_s:g} s",
        "round s is the time in which a round's pages are fetched; generate, update and commit are what an agent "
        "spends on its part of a round, while its fetching goes on; cores used are those of all agents and nats-server",
        f"one agent is the plain crawl, without supervisor and NATS; this machine has {os.cpu_count()} cores",
        "UniCrawl, Figure 4a: 1 to 4 nodes of 8 cores, 1,337 to 312 s for a round of 50,000 pages; it states a factor "
        "of 3.79 in pages/s; its page server was saturated by 3 nodes",
    ]
    return Results("agents-scaling", "Agents and speed", rows, SPEED, notes, scaling_figures(rows))


def scaling_figures(rows: Sequence[Row]) -> list[Figure]:
    counts, factors = _column(rows, "agents"), _column(rows, "factor")
    paper = np.array([1.0, 4.0]), np.array([1.0, UNICRAWL_FACTOR])
    curves = [
        Curve("Gossamer: bound by latency, two cores", counts, factors, color="tab:blue"),
        Curve("UniCrawl: nodes of 8 cores, a web without delay", *paper, color="tab:orange"),
        Curve("as many times as agents", counts, counts, dashed=True, color="tab:gray"),
    ]
    title = "Pages per second, one agent (node) = 1"
    return [Figure("agents-scaling", title, "agents", "factor", curves, markers=True)]


# --- latency


def _latency(arguments: argparse.Namespace) -> Results:
    shape = agents_latency.Shape(arguments.seconds, arguments.known, arguments.seed)
    counts = arguments.agents or [1, 2, 4, 8, 16, 24, 32]
    found = list(agents_latency.measure(shape, counts, arguments.rates))
    rows = [
        {
            "agents": one.agents,
            "per_s": one.per_s,
            "links": one.links,
            **{f"{kind}_ms": one.mean(kind) for kind in ("publish", "arrive", "commit", "known", "look_up")},
            "known_p95_ms": one.worst("known"),
            "lost": one.lost,
        }
        for one in found
    ]
    weights = np.array([one.links for one in found], np.float64)
    queue, table, known, commit = (
        float(np.average(_column(rows, key), weights=weights))
        for key in ("arrive_ms", "look_up_ms", "known_ms", "commit_ms")
    )
    over_all = [
        {"what": "queue: published until seen by the owner", "ms": queue, "paper": QUEUE_MS},
        {"what": "table: look-up of a page", "ms": table, "paper": TABLE_MS},
        {"what": "table: update of the index and commit, synced to disk", "ms": commit, "paper": TABLE_MS},
        {"what": "both: published until in the owner's index", "ms": known, "paper": QUEUE_MS + TABLE_MS},
    ]
    notes = [
        f"links are published one by one, at random moments; every agent knows {shape.known:,} pages and takes in what "
        "comes at once, with one commit for all that has come. In a crawl links travel by round, thousands in a "
        "message, and wait for the receiver's next commit",
        f"agents live in {agents_latency.PROCESSES} processes (this machine has {os.cpu_count()} cores), each with its "
        "own connection, exchange, index, chain and thread; nats-server stores each message in a file; an agent looks "
        "every 2 ms",
        "Bahrami et al. (Figures 4 and 5): a cloud's queue and table, 1 to 32 agents on three machines, averages over "
        "all transactions; up to 222 a second on the queue, 75 on the table",
    ]
    blocks = [Block("Over all links", over_all, {"what": "", "ms": "ms", "paper": "Bahrami et al."})]
    return Results("agents-latency", "How soon a link is known", rows, LATENCY, notes, latency_figures(rows), blocks)


_BEHIND = (2, 24)  # numbers of agents whose lines stand behind the others


def latency_figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        _by_rate(rows, "known_ms", "agents-latency", "Published until in the owner's index", QUEUE_MS + TABLE_MS),
        _by_rate(rows, "arrive_ms", "agents-queue", "Queue: published until seen by the owner", QUEUE_MS),
        _by_rate(rows, "look_up_ms", "agents-table", "Table: look-up of a page", TABLE_MS),
    ]


def _by_rate(rows: Sequence[Row], key: str, name: str, title: str, paper_ms: float) -> Figure:
    curves = []
    for agents in sorted({row["agents"] for row in rows}):
        points = sorted((row["per_s"], row[key]) for row in rows if row["agents"] == agents)
        color = GREY if agents in _BEHIND else ""
        per_s, ms = np.array(points).T
        curves.append(Curve(f"{agents} agents" if agents > 1 else "1 agent", per_s, ms, color=color))
    ends = np.array([min(row["per_s"] for row in rows), max(row["per_s"] for row in rows)])
    curves.append(Curve("Bahrami et al., average", ends, np.full(2, paper_ms), dashed=True, color="tab:gray"))
    return Figure(name, title, "links per second", "ms, mean", curves, log_y=True, markers=True)


# --- modes


def _modes(arguments: argparse.Namespace) -> Results:
    shape = agents_modes.Shape(arguments.pages, max(1, arguments.pages // 10), arguments.starts, arguments.seed)
    found = list(agents_modes.measure(shape, arguments.agents or [1, 2, 4, 8]))
    rows = [_mode_row(one) for one in found]
    notes = [
        f"a made graph: {shape.pages:,} pages on {shape.hosts:,} hosts, of which {found[0].reachable:,} can be reached "
        f"from the {min(shape.starts, shape.hosts)} seeds, first pages of hosts; partitions are by host",
        "coverage = pages got / pages that can be reached; overlap = (visits - pages got) / pages got; communication = "
        "exchanged URLs / pages got (Cho and Garcia-Molina, Parallel Crawlers, 2002)",
        "overlap at half and at 90 %: when so much was covered. A crawl in cross-over that is not stopped ends when "
        "everybody has seen everything that it can reach",
        "URLs are sent once per round and target, however many links lead there; bytes are those of messages, seeds "
        "and news included",
    ]
    figures = [
        _by_agents(found, "coverage", "agents-coverage", "Coverage", "part of what can be reached"),
        _by_agents(found, "overlap", "agents-overlap", "Overlap, in the end", "further visits per page"),
        _overlaps(found),
    ]
    series = [point for one in found for point in _points(one)]
    return Results("agents-modes", "Modes between agents", rows, MODES, notes, figures, series=series)


def _mode_row(one: agents_modes.Crawled) -> Row:
    return {
        "mode": one.mode if one.agents > 1 else "alone",
        "agents": one.agents,
        "visits": one.visits,
        "pages": one.pages,
        "coverage": one.coverage,
        "overlap": one.overlap,
        "overlap_half": one.overlap_when(0.5),
        "overlap_most": one.overlap_when(0.9),
        "leaving": one.leaving / one.pages,
        "sent_urls": one.sent_urls / one.pages,
        "sent_bytes": one.sent_bytes / one.pages,
    }


def _by_agents(found: Sequence[agents_modes.Crawled], what: str, name: str, title: str, y: str) -> Figure:
    curves = []
    for mode in agents_modes.MODES:
        mine = [one for one in found if one.mode == mode or one.agents == 1]
        points = np.array([(one.agents, getattr(one, what)) for one in mine], np.float64)
        curves.append(Curve(mode, points[:, 0], points[:, 1], dashed=mode == CROSS_OVER))  # it may lie on another
    return Figure(name, title, "agents", y, curves, markers=True)


def _overlaps(found: Sequence[agents_modes.Crawled]) -> Figure:
    crossing = [one for one in found if one.mode == CROSS_OVER]
    curves = [Curve(f"{one.agents} agents", one.coverage_at, one.overlap_at) for one in crossing]
    return Figure("agents-cross-over", "Cross-over: overlap as the crawl goes on", "coverage", "overlap", curves)


def _points(one: agents_modes.Crawled) -> list[Row]:
    keep = np.unique(np.linspace(0, one.visits - 1, min(one.visits, 200)).astype(np.int64))
    columns = {"coverage": one.coverage_at, "overlap": one.overlap_at}
    named = {"mode": one.mode, "agents": one.agents}
    return [
        {**named, "visits": at + 1, **{name: float(column[at]) for name, column in columns.items()}}
        for at in keep.tolist()
    ]


def _column(rows: Sequence[Row], key: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array([row[key] for row in rows], np.float64)
