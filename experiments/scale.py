"""This experiment lets many agents and sites share a web of a million hosts, in virtual time, and finds what breaks.

What agents say to each other, who owns what, and how sites join is the code of real crawls; the pages are counts
(experiments/scale_world.py). Each row is simulated in a process of its own, so that its memory is its own.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from experiments.harness import Block, Results, Row, columns, publish
from experiments.scale_world import Shape, Web, World
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive

PARTS = ("agents", "full", "sites", "map", "join")
AGENTS = (2, 4, 8, 16, 32, 64, 200)  # of one site
FULL, CYCLE = (2, 4, 8, 16), 64  # agents; rounds, in which each sends all that it has several times
SAMPLE = 40  # rounds that are measured, at most, where all are alike
SITES, OF_A_SITE = (2, 4, 8, 16, 32), 8
MAPPED, OF_A_MAPPED_SITE = (2, 4, 8, 16), 2
JOINED, OF_A_JOINED_SITE = (3, 8, 31), 4
WORK = ("arrive", "take", "send", "commit", "look")
_TURNS = 400  # rounds of an agent, at most, until a list of sites is carried out
AT_WORK = columns(
    "sites | agents | rounds: rounds end | partitioner | messages | kb: kB | link_bytes: bytes/link, within | "
    "far_bytes: between sites | manifest_kb: manifest kB | report_bytes: report, bytes | cpu_ms: CPU ms | "
    "look_ms: of another look | memory_mb: MB of an agent | fullest: fullest agent"
)
BILLION = columns(
    "sites | agents | partitioner | rounds: rounds of each | hours | messages: million messages | gb: GB sent | "
    "cpu_h: CPU hours"
)
GROWN = columns(
    "sites | agents | moved: hosts that move | pages: pages that move | messages | mb: MB | rounds: rounds of each | "
    "seconds: virtual s | cpu_s: CPU s, the most of an agent"
)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", action="append", choices=PARTS, help="only these (default: all)")
    parser.add_argument("--most", type=positive, default=256, metavar="N", help="agents in all (default: 256)")
    parser.add_argument("--hosts", type=positive, default=1_000_000, metavar="N")
    parser.add_argument("--links", type=positive, default=1_000_000_000, metavar="N", help="between hosts, as counts")


def run(arguments: argparse.Namespace) -> int:
    found = list(_measured(arguments))
    rows, grown = (
        [row for row in found if "messages" in row and "moved" not in row],
        [row for row in found if "moved" in row],
    )
    more = [
        Block(
            "A billion links, computed",
            [computed(row, arguments.links) for row in rows if row["rounds"] == "by time"],
            BILLION,
        )
    ]
    more += [Block("A site joins", grown, GROWN)] if grown else []
    results = Results("scale", "At work", rows, AT_WORK, NOTES, figures(rows), more)
    publish(results, arguments.out, arguments.json)
    return 0


NOTES = (
    "A round is 400 visits of one agent, with 6 links each to other hosts; all figures are of one agent's round.",
    "Messages are those of NATS; bytes are their headers, subjects and data, without TCP, TLS and receipts.",
    "CPU is that of sharing alone: judging what comes, taking it in, sending, committing. A look comes each 0.25 s.",
)


def shapes(parts: Sequence[str], most: int, hosts: int, links: int, seed: int) -> Iterator[tuple[str, Shape]]:
    """Yields what is simulated, and in which part."""
    base = Shape(hosts=hosts, links=links, seed=seed)
    given = {
        "agents": [replace(base, agents=agents) for agents in AGENTS],
        "full": [replace(base, agents=agents, is_full=True) for agents in FULL],
        "sites": [replace(base, sites=sites, agents=OF_A_SITE) for sites in SITES],
        "map": [replace(base, sites=sites, agents=OF_A_MAPPED_SITE, partitioner="fennel") for sites in MAPPED],
        "join": [replace(base, sites=sites, agents=OF_A_JOINED_SITE) for sites in JOINED],
    }
    for part in parts:
        yield from ((part, shape) for shape in given[part] if shape.sites * shape.agents <= most)


def _measured(arguments: argparse.Namespace) -> Iterator[Row]:
    todo = shapes(arguments.part or PARTS, arguments.most, arguments.hosts, arguments.links, arguments.seed)
    for part, shape in todo:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            row = process.submit(joined if part == "join" else at_work, shape).result()
        if not arguments.json:
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        yield row


def at_work(shape: Shape) -> Row:
    """Measures a round of all agents, after one in which they have begun to hear of each other."""
    web, agents = Web(shape), shape.sites * shape.agents
    before_mb = _resident_mb()
    world = World(shape, web)
    world.rounds(1)
    world.wires.sent.clear()
    for agent in world.agents:
        agent.cpu_s.clear()
    made = agents * CYCLE if shape.is_full else min(agents, SAMPLE)
    for _ in range(made):
        world.turn()
    assert world.missing() == 0
    sent, cpu_s = world.wires.sent, {name: sum(agent.cpu_s[name] for agent in world.agents) for name in WORK}
    return {
        "sites": shape.sites,
        "agents": agents,
        "rounds": "full" if shape.is_full else "by time",
        "partitioner": shape.partitioner if shape.sites > 1 else "-",
        "messages": (sent["within_messages"] + sent["between_messages"]) / made,
        "kb": (sent["within_bytes"] + sent["between_bytes"]) / made / 1000,
        "link_bytes": sent["within_bytes"] / sent["within_links"] if sent["within_links"] else None,
        "far_bytes": sent["between_bytes"] / sent["between_links"] if sent["between_links"] else None,
        "manifest_kb": sent["manifest_bytes"] / made / 1000,
        "report_bytes": sent["report_bytes"] / sent["reports"],
        "cpu_ms": 1000 * sum(cpu_s[name] for name in WORK if name != "look") / made,
        "look_ms": 1000 * cpu_s["look"] / made,
        "memory_mb": (_resident_mb() - before_mb) / agents,
        "fullest": world.fullest(),
    }


def joined(shape: Shape) -> Row:
    """Lets a site join, and waits until all have carried that out."""
    world = World(shape)
    world.rounds(1)
    world.wires.sent.clear()
    begun_s, hosts = world.clock.now(), {agent.name: len(agent.books.index.hosts) for agent in world.agents}
    for agent in world.agents:
        agent.cpu_s.clear()
    new = world.join()
    turns = 0
    while not world.is_settled:
        world.turn()
        turns += 1
        assert turns < _TURNS * len(world.agents), "the list of sites is never carried out"
    assert world.missing() == 0
    assert sum(len(agent.books.index.hosts) for agent in world.agents) == sum(hosts.values())
    sent = world.wires.sent
    return {
        "sites": shape.sites,
        "agents": len(world.agents),
        "moved": sum(len(agent.books.index.hosts) for agent in new.agents.values()),
        "pages": sum(agent.known for agent in new.agents.values()),
        "messages": sent["within_messages"] + sent["between_messages"],
        "mb": (sent["within_bytes"] + sent["between_bytes"]) / 1e6,
        "rounds": turns / len(world.agents),
        "seconds": world.clock.now() - begun_s,
        "cpu_s": max(sum(agent.cpu_s.values()) for agent in world.agents),
    }


def computed(row: Row, links: int) -> Row:
    """Returns what so many links would take, if every round is like the measured one."""
    shape, agents = Shape(), row["agents"]
    rounds = links / (agents * shape.visits * shape.onward)
    return {
        "sites": row["sites"],
        "agents": agents,
        "partitioner": row["partitioner"],
        "rounds": round(rounds),
        "hours": rounds * shape.round_s / 3600,
        "messages": rounds * agents * row["messages"] / 1e6,
        "gb": rounds * agents * row["kb"] / 1e6,
        "cpu_h": rounds * agents * (row["cpu_ms"] + row["look_ms"] * 4 * shape.round_s) / 3.6e6,
    }


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Draws what a round of one agent takes at one site, against the number of agents."""

    def curve(label: str, key: str, kind: str = "by time") -> Curve:
        here = [row for row in rows if row["sites"] == 1 and row["rounds"] == kind]
        x, y = ([row[name] for row in here] for name in ("agents", key))
        return Curve(label, np.array(x), np.array(y), dashed=kind == "full")

    curves = [curve("messages", "messages"), curve("manifest, kB", "manifest_kb"), curve("CPU, ms", "cpu_ms")]
    curves += [
        curve("sent, kB", "kb"),
        curve("messages, full", "messages", "full"),
        curve("CPU, full", "cpu_ms", "full"),
    ]
    curves = [each for each in curves if len(each.x) > 1]
    if not curves:
        return []
    title = "One agent's round of 400 visits, by the number of agents of its site"
    return [Figure("scale-agents", title, "agents", "of a round", curves, log_x=True, log_y=True, markers=True)]


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
