"""This experiment compares queues and tables: ours over NATS and over stores, a cloud's own services, and SQL.

It repeats Figures 4, 5 and 6 of Bahrami et al., A Cloud-based Web Crawler Architecture, on this machine: with Azurite,
Microsoft's emulator, through Microsoft's own clients, with SeaweedFS and with PostgreSQL. Parts whose server is not
installed are left out, and the notes say so.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments import cloud_latency, cloud_sql
from experiments.agents_latency import PROCESSES, Point, Shape
from experiments.harness import STATEMENTS_SHOWN, Block, Results, Row, columns, publish, statement
from experiments.servers import Missing
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive, span

PARTS = ("latency", "sql")
# Bahrami et al.: averages over 8,919,411 and 3,081,852 transactions, with 1 to 32 agents
QUEUE_MS, TABLE_MS = 25.54, 9.169
AGENTS, RATES = (1, 2, 4, 8, 16, 32), (5, 25, 50, 74)
FIXED_AGENTS, FIXED_RATE = 8, 25  # while the other is varied
FLAT = 1.5  # the highest is at most so many times the lowest
WORDS = {
    "nats": "NATS",
    "directory": "nothing but a directory",
    "seaweedfs": "nothing but a bucket (SeaweedFS)",
    "azurite": "Azure's queue and table (Azurite)",
}
SQL_WORDS = {
    "index": "Gossamer's index, on local disk",
    "table": "Azure's table service (Azurite)",
    "sql": "PostgreSQL, with a primary key",
    "sql-plain": "PostgreSQL, without any key",
}
COLORS = {"nats": "tab:blue", "directory": "tab:green", "seaweedfs": "tab:olive", "azurite": "tab:orange"}
SQL_COLORS = {"index": "tab:blue", "table": "tab:orange", "sql": "tab:purple", "sql-plain": "tab:pink"}
KINDS = {"publish": "insert_ms", "arrive": "arrive_ms", "look_up": "look_up_ms", "commit": "update_ms"}
LATENCY = columns(
    "words: queue and table | agents | per_s: links/s | insert_ms: queue: insert ms | "
    "arrive_ms: until its owner has it ms | look_up_ms: table: look-up ms | update_ms: insert or update ms | "
    "lost: not in time"
)
SQL = columns("words: table | agents | mean_ms: mean ms | p95_ms: 95 % ms | per_s: queries/s")
OVER_ALL = columns(
    "words: queue and table | insert_ms: queue: insert ms | arrive_ms: until its owner has it ms | "
    "look_up_ms: table: look-up ms | update_ms: insert or update ms"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all", help="which experiment (default: all)")
    parser.add_argument(
        "--service", action="append", choices=cloud_latency.SERVICES, help="only these queues and tables (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="one short run with few agents: shows that it works")
    parser.add_argument("--agents", type=_counts, metavar="N,N", help="how many ask (1,2,4,8,16,32)")
    parser.add_argument("--rates", type=_counts, metavar="N,N", help="links a second, with 8 agents (5,25,50,74)")
    parser.add_argument("--runs", type=positive, metavar="N", help="of each measurement; the median counts (3)")
    parser.add_argument("--seconds", type=span, metavar="S", help="of each run (1.5)")
    parser.add_argument("--known", type=positive, metavar="N", help="pages that each agent knows before (5,000)")
    parser.add_argument("--rows", type=positive, metavar="N", help="of the tables of the SQL part (20,000)")


def run(arguments: argparse.Namespace) -> int:
    quick = {"agents": [1, 2], "rates": [25], "runs": 1, "seconds": 1.0, "known": 200, "rows": 200}
    full = {"agents": AGENTS, "rates": RATES, "runs": 3, "seconds": 1.5, "known": 5_000, "rows": 20_000}
    for name, value in (quick if arguments.quick else full).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    runs = {"latency": _latency, "sql": _sql}
    for part in PARTS if arguments.part == "all" else (arguments.part,):
        if (results := runs[part](arguments)) is not None:
            publish(results, arguments.out, arguments.json)
    return 0


def _counts(text: str) -> list[int]:
    return [positive(number) for number in text.split(",")]


def _told(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _machine(load: Sequence[float], absent: Sequence[str]) -> list[str]:
    """What a reader must know of the machine, and what was left out."""
    before, now = load[0], os.getloadavg()[0]
    return [
        f"this machine has {os.cpu_count()} cores, shared by servers and agents; its load average was {before:.1f} at "
        f"the beginning and {now:.1f} at the end",
        *absent,
    ]


# --- latency of queue and table


def _latency(arguments: argparse.Namespace) -> Results | None:
    shape = Shape(arguments.seconds, arguments.known, arguments.seed)
    rows: list[Row] = []
    absent: list[str] = []
    load = os.getloadavg()
    for service in arguments.service or cloud_latency.SERVICES:
        try:
            rows += _rows(service, shape, arguments)
        except Missing as error:
            absent.append(f"without {WORDS[service]}: {error}")
            _told(absent[-1])
    if not rows:
        return None
    over_all = [*(_over_all(rows, service) for service in dict.fromkeys(row["service"] for row in rows)), _PAPER]
    notes = [
        "a link is put into its owner's queue at a random moment, received, looked up in the table, and inserted; "
        f"{arguments.runs} runs of {shape.seconds:g} s each: the median of their means",
        "NATS: insert is until nats-server has stored the message. Nothing but a store: until the sender's commit "
        "names it; a receiver looks every 0.2 to 5 s. The table of both is the agent's index: a look-up reads a mapped "
        "file, an update is a commit of all links that have come, in the place where the archive is",
        "Azurite: send, receive, delete of the queue service and get, upsert of the table service, one link at a time, "
        "as Bahrami's agents do; a receiver that found nothing asks again after 0.2 to 5 s",
        f"agents are threads of {PROCESSES} processes, each with its own connections; every agent knows "
        f"{shape.known:,} pages before",
        "Bahrami et al., Figures 4 and 5: averages over all transactions (insert, retrieve, delete) of 1 to 32 agents "
        "on three machines, by the service's own count, at up to 222 transactions a second on the queue and 75 on the "
        f"table. A link here is three of the queue and two of the table: {RATES[-1]} links/s are 222 and 148",
        *_machine(load, absent),
    ]
    more = [
        Block("Over all links", over_all, OVER_ALL),
        Block("Statements of the paper", flatness(rows), STATEMENTS_SHOWN),
    ]
    return Results(
        "cloud-latency", "Queue and table, by agents and rate", rows, LATENCY, notes, latency_figures(rows), more
    )


_PAPER = {
    "words": "Bahrami et al.: Azure, 2014",
    "insert_ms": QUEUE_MS,
    "arrive_ms": None,
    "look_up_ms": TABLE_MS,
    "update_ms": TABLE_MS,
}


def _rows(service: str, shape: Shape, arguments: argparse.Namespace) -> Iterator[Row]:
    for agents, rates in _plan(arguments.agents, arguments.rates):
        _told(f"{WORDS[service]}: {agents} agents" if agents > 1 else f"{WORDS[service]}: 1 agent")
        asked = [rate for rate in rates for _ in range(arguments.runs)]
        found = list(cloud_latency.measure(service, shape, agents, asked))
        for at in range(0, len(found), arguments.runs):
            yield _row(service, found[at : at + arguments.runs])


def _plan(counts: Sequence[int], rates: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    """All numbers of agents at one rate, and all rates with one number of agents."""
    rate = FIXED_RATE if FIXED_RATE in rates else rates[0]
    fixed = FIXED_AGENTS if FIXED_AGENTS in counts else counts[0]
    return [(agents, rates if agents == fixed else [rate]) for agents in counts]


def _row(service: str, runs: Sequence[Point]) -> dict[str, Any]:
    first = runs[0]
    means = {key: [one.mean(kind) for one in runs] for kind, key in KINDS.items()}
    return {
        "service": service,
        "words": WORDS[service],
        "agents": first.agents,
        "asked_per_s": first.asked_per_s,
        "per_s": statistics.median(one.per_s for one in runs),
        "links": sum(one.links for one in runs),
        **{key: statistics.median(values) for key, values in means.items()},
        **{f"{key}_runs": values for key, values in means.items()},
        "lost": sum(one.lost for one in runs),
    }


def _over_all(rows: Sequence[Row], service: str) -> Row:
    """The average by Bahrami's Equation 3: weighted by transactions."""
    mine = [row for row in rows if row["service"] == service]
    weights = [row["links"] for row in mine]
    means = {key: float(np.average([row[key] for row in mine], weights=weights)) for key in KINDS.values()}
    return {"words": WORDS[service], **means}


def flatness(rows: Sequence[Row]) -> Sequence[Row]:
    """Whether the latency stays the same as agents, or links, become more."""
    found = []
    for key, other, by, what in (
        ("insert_ms", "queue", "asked_per_s", "links per second"),
        ("insert_ms", "queue", "agents", "agents"),
        ("update_ms", "table", "asked_per_s", "links per second"),
        ("update_ms", "table", "agents", "agents"),
    ):
        for service in dict.fromkeys(row["service"] for row in rows):
            if len(line := _line(rows, service, key, by)) < 2:
                continue
            low, high = min(y for _, y in line), max(y for _, y in line)
            text = f"{WORDS[service]}: the {other} stays fairly flat with more {what}"
            figures = f"{low:.1f} to {high:.1f} ms for {line[0][0]:g} to {line[-1][0]:g}"
            found.append(statement(text, high <= FLAT * low, figures))
    return found


def _line(rows: Sequence[Row], service: str, key: str, by: str) -> list[tuple[float, float]]:
    """The points of one line, in order: by agents at the one rate, or by rate with the one number of agents."""
    rate, agents = _fixed(rows)
    other, value = ("asked_per_s", rate) if by == "agents" else ("agents", agents)
    mine = [row for row in rows if row["service"] == service and row[other] == value]
    return sorted((float(row[by]), float(row[key])) for row in mine)


def _fixed(rows: Sequence[Row]) -> tuple[float, int]:
    """The rate at which agents were varied, and the number of agents with which rates were."""
    rates, agents = ([row[key] for row in rows] for key in ("asked_per_s", "agents"))
    return statistics.mode(rates), statistics.mode(agents)


def latency_figures(rows: Sequence[Row]) -> list[Figure]:
    insert, update = "Queue: time to insert a link", "Table: time to insert or update a page"
    return [
        _figure(rows, "cloud-queue-rate", insert, "insert_ms", "asked_per_s"),
        _figure(rows, "cloud-queue-agents", insert, "insert_ms", "agents"),
        _figure(rows, "cloud-way-agents", "Queue: until the link's owner has it", "arrive_ms", "agents"),
        _figure(rows, "cloud-table-rate", update, "update_ms", "asked_per_s"),
        _figure(rows, "cloud-table-agents", update, "update_ms", "agents"),
        _figure(rows, "cloud-look-up-agents", "Table: time to look a page up", "look_up_ms", "agents"),
    ]


def _figure(rows: Sequence[Row], name: str, title: str, key: str, by: str) -> Figure:
    curves = []
    for service in dict.fromkeys(row["service"] for row in rows):
        x, y = np.array(_line(rows, service, key, by)).T
        curves.append(Curve(WORDS[service], x, y, color=COLORS[service]))
    ticks = sorted({float(value) for curve in curves for value in curve.x})
    paper_ms = QUEUE_MS if key in ("insert_ms", "arrive_ms") else TABLE_MS
    ends = np.array([ticks[0], ticks[-1]])
    curves.append(Curve("Bahrami et al.: Azure, 2014", ends, np.full(2, paper_ms), dashed=True, color="tab:gray"))
    rate, agents = _fixed(rows)
    fixed, label = (
        (f"{rate:g} links a second", "agents") if by == "agents" else (f"{agents} agents", "links per second")
    )
    return Figure(name, f"{title}, {fixed}", label, "milliseconds", curves, log_y=True, markers=True, ticks=ticks)


# --- SQL against table


def _sql(arguments: argparse.Namespace) -> Results | None:
    shape = cloud_sql.Shape(arguments.rows, arguments.seconds, arguments.seed)
    rows: list[Row] = []
    absent: list[str] = []
    load = os.getloadavg()
    for kind in cloud_sql.TABLES:
        _told(SQL_WORDS[kind])
        try:
            found = list(cloud_sql.measure(kind, shape, arguments.agents, arguments.runs))
            rows += [_sql_row(kind, found[at : at + arguments.runs]) for at in range(0, len(found), arguments.runs)]
        except Missing as error:
            absent.append(f"without {SQL_WORDS[kind]}: {error}")
            _told(absent[-1])
    if not rows:
        return None
    notes = [
        f"{shape.rows:,} pages on {max(1, shape.rows // 100):,} hosts; the query asks for one page by its host and the "
        "hash of its URL. Every agent asks again as soon as it is answered, so that the latency grows with the agents "
        f"where the machine has no more to give; {arguments.runs} runs of {shape.seconds:g} s: the median",
        "PostgreSQL: Debian's package with its own settings, on loopback, a connection for each agent, the query as it "
        "is (psycopg 3). Azurite: the table service through Microsoft's client, a request over HTTP for each query",
        "Bahrami et al., Figure 6: 18,233 transactions of a query on Azure's table service and on Microsoft's SQL "
        "database; its text has no figures, and does not say what the query was or which keys the database had",
        *_machine(load, absent),
    ]
    more = [Block("Statements of the paper", sql_statements(rows), STATEMENTS_SHOWN)]
    return Results("cloud-sql", "One query by many agents", rows, SQL, notes, [sql_figure(rows)], more)


def _sql_row(kind: str, runs: Sequence[cloud_sql.Asked]) -> dict[str, Any]:
    return {
        "kind": kind,
        "words": SQL_WORDS[kind],
        "agents": runs[0].agents,
        "mean_ms": statistics.median(float(one.times_ms.mean()) for one in runs),
        "p95_ms": statistics.median(float(np.percentile(one.times_ms, 95)) for one in runs),
        "per_s": statistics.median(one.per_s for one in runs),
        "queries": sum(len(one.times_ms) for one in runs),
    }


def sql_statements(rows: Sequence[Row]) -> Sequence[Row]:
    found = []
    table = _means(rows, "table")
    for kind in ("sql", "sql-plain"):
        sql = _means(rows, kind)
        if table and sql:
            wins = sum(table[agents] < sql[agents] for agents in table)
            holds = None if 0 < wins < len(table) else wins == len(table)
            text = f"the table service is faster than {SQL_WORDS[kind]}"
            ratios = [sql[agents] / table[agents] for agents in table]
            times = f"SQL takes {min(ratios):.2f} to {max(ratios):.2f} times as long"
            found.append(statement(text, holds, f"at {wins} of {len(table)} numbers of agents; {times}"))
    return found


def _means(rows: Sequence[Row], kind: str) -> Mapping[int, float]:
    return {row["agents"]: row["mean_ms"] for row in rows if row["kind"] == kind}


def sql_figure(rows: Sequence[Row]) -> Figure:
    curves = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        x, y = np.array(sorted(_means(rows, kind).items()), np.float64).T
        curves.append(Curve(SQL_WORDS[kind], x, y, color=SQL_COLORS[kind]))
    ticks = sorted({float(value) for curve in curves for value in curve.x})
    return Figure(
        "cloud-sql", "One page by its key: mean time of a query", "agents that ask at the same time", "milliseconds",
        curves, log_y=True, markers=True, ticks=ticks
    )  # fmt: skip
