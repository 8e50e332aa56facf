"""What crosses between sites, and what distance costs: real sites, with a proxy between them that counts and delays.

UniCrawl, sections V-A2 and V-B: bytes between sites, throughput by ping distance. Placement: seed 000, section 4.
"""

import argparse
import json
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.errors import ConfigError
from gossamer.federation.file import load
from gossamer.lab.arguments import add_graph, add_pages
from gossamer.lab.figures import Curve, Figure
from gossamer.lab.graphs import load as load_graph
from gossamer.lab.made import make
from gossamer.lab.numbers import positive
from gossamer.lab.output import Block, Results, Row, publish
from gossamer.lab.proxy import Proxy
from gossamer.place.hosts import NAMES
from gossamer.site import federated
from gossamer.testweb.running import RunningWeb

MADE_PAGES, MADE_HOSTS, MADE_SKEW = 6_000, 200, 2.0
STARTS = 20
SITES = ("north", "east", "south", "west", "centre", "coast", "isle", "lake")
SHOWN = {
    "partitioner": "partitioner",
    "scores": "scores",
    "round_trip_ms": "round trip, ms",
    "pages": "pages",
    "links_per_page": "links crossing per page",
    "bytes_per_record": "bytes per link",
    "bytes_per_page": "bytes per page",
    "wire_per_page": "on the wire",
    "largest": "largest share",
    "pages_per_s": "pages/s",
    "commit_s": "s per commit",
}
PAPER = {20.0: 334.0, 80.0: 278.0}  # round trip in ms: pages/s over three sites, UniCrawl, Figure 4(b)


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, made=True)
    add_pages(parser)
    parser.add_argument("--sites", type=positive, default=3, metavar="N", help="up to 8 (default: 3)")
    parser.add_argument(
        "--partitioner", action="append", choices=NAMES, help="compare these (default: ring, ldg and fennel)"
    )
    parser.add_argument("--scores", action="append", choices=("global", "local"), help="(default: global)")
    parser.add_argument(
        "--round-trip", action="append", type=float, metavar="MS", help="between sites, as often as you like (0)"
    )
    parser.add_argument("--delay", type=float, default=0.0, metavar="S", help="between requests to a host (0)")


@dataclass(frozen=True)
class Setting:
    partitioner: str
    scores: str
    round_trip_ms: float


def run(arguments: argparse.Namespace) -> int:
    if not 2 <= arguments.sites <= len(SITES):
        raise ConfigError(f"--sites is between 2 and {len(SITES)}")
    settings = [
        Setting(partitioner, scores, trip)
        for partitioner in arguments.partitioner or ["ring", "ldg", "fennel"]
        for scores in arguments.scores or ["global"]
        for trip in arguments.round_trip or [0.0]
    ]
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.graph
        if path is None:
            path = Path(scratch) / "made.npz"
            make(path, MADE_PAGES, MADE_HOSTS, arguments.seed, MADE_SKEW)
        graph = load_graph(path, arguments.hosts)
        starts = np.random.default_rng(arguments.seed).choice(graph.pages, min(STARTS, graph.pages), replace=False)
        seeds = Path(scratch) / "seeds.txt"
        seeds.write_text("".join(f"{graph.urls[start]}\n" for start in np.sort(starts).tolist()))
        options_ = ["--graph-hosts", arguments.hosts] if arguments.hosts else []
        rows = []
        with RunningWeb(graph=path, options=options_) as web:
            for number, setting in enumerate(settings):
                folder = Path(scratch) / str(number)
                folder.mkdir()
                rows.append(
                    measure(
                        setting, folder, seeds, web.address, SITES[: arguments.sites], arguments.delay, arguments.pages
                    )
                )
    notes = [
        f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {len(graph.host_names):,} hosts ({graph.rule}); "
        f"{len(starts)} start pages; {arguments.sites} sites of one agent each, all on this machine",
        "a link crosses once per round and target, however many pages have it; bytes are of the letters, on the wire "
        "also those of TLS, NATS and receipts, both directions",
        "UniCrawl over three sites: 334 pages/s at 20 ms round trip, 278 at 80",
    ]
    lines = [line for row in rows for line in _lines(row)]
    shown = {"experiment": "experiment", "setting": "setting", "value": "value", "unit": "unit", "paper": "paper"}
    blocks = [Block("By setting", rows, SHOWN)]
    publish(
        Results("sites", "Several sites", lines, shown, notes, _figures(rows), blocks), arguments.out, arguments.json
    )
    return 0


def measure(
    setting: Setting, folder: Path, seeds: Path, web: str, names: Sequence[str], delay_s: float, pages: int
) -> Row:
    """One crawl by real sites, each reached by the others through a proxy."""
    with ExitStack() as stack:
        behind = {name: _free_port() for name in names}
        proxies = {
            name: stack.enter_context(closing(Proxy(port, setting.round_trip_ms / 2000)))
            for name, port in behind.items()
        }
        path = folder / "sites.toml"
        path.write_text(_file(setting, {name: proxies[name].port for name in names}, behind, web, delay_s, pages))
        federation = load(path)
        federated.prepare(federation)
        start_s = time.monotonic()
        stats = federated.FederationRun(federation, [str(seeds)]).run(lambda _: None)
        took_s = time.monotonic() - start_s
        wire = sum(proxy.sent + proxy.received for proxy in proxies.values())
    crossed = [sent for name in names for sent in federated.crossed(federation, name).values()]
    total = {key: sum(sent.get(key, 0) for sent in crossed) for key in ("links", "urls", "keys", "bytes")}
    visits = {name: federated.counters(federation, name)["visits"] for name in names}
    made = sum(visits.values())
    commits = [cost_s for name in names for cost_s in _commits_s(federation.directory(name))]
    first_s = _busy_s([federation.directory(name) for name in names])
    return {
        "partitioner": setting.partitioner,
        "scores": setting.scores,
        "round_trip_ms": setting.round_trip_ms,
        "pages": made,
        "links_per_page": total["links"] / max(1, made),
        "bytes_per_record": total["bytes"] / max(1, total["urls"] + total["keys"]),
        "bytes_per_page": total["bytes"] / max(1, made),
        "wire_per_page": wire / max(1, made),
        "largest": max(visits.values()) / max(1, made),
        "pages_per_s": made / max(first_s, 0.001),
        "commit_s": float(np.mean(commits)) if commits else 0.0,
        "seconds": took_s,
        "known": stats.known,
    }


def _lines(row: Row) -> list[Row]:
    setting = f"{row['partitioner']}, {row['scores']}, {row['round_trip_ms']:g} ms"
    units = {
        "links_per_page": "links", "bytes_per_record": "bytes", "bytes_per_page": "bytes", "pages_per_s": "pages/s",
        "commit_s": "s", "largest": "part of pages",
    }  # fmt: skip
    paper = {"pages_per_s": PAPER.get(float(row["round_trip_ms"]))}
    return [
        {"experiment": name, "setting": setting, "value": row[name], "unit": unit, "paper": paper.get(name)}
        for name, unit in units.items()
    ]


def _figures(rows: Sequence[Row]) -> list[Figure]:
    """Throughput by distance, if that was varied."""
    by: dict[str, list[Row]] = {}
    for row in rows:
        by.setdefault(f"{row['partitioner']}, {row['scores']}", []).append(row)
    if max(len(some) for some in by.values()) < 2:
        return []
    curves = [
        Curve(name, np.array([r["round_trip_ms"] for r in some]), np.array([r["pages_per_s"] for r in some]))
        for name, some in by.items()
    ]
    paper = Curve("UniCrawl, Figure 4(b)", np.array([*PAPER]), np.array([*PAPER.values()]), dashed=True)
    title = "Throughput by distance of the sites"
    return [Figure("sites-distance", title, "round trip, ms", "pages/s", [*curves, paper], markers=True)]


def _file(setting: Setting, ports: dict[str, int], behind: dict[str, int], web: str, delay_s: float, limit: int) -> str:
    lines = ["[federation]", f'partitioner = "{setting.partitioner}"']
    for name, port in ports.items():
        lines += [f"[sites.{name}]", f'address = "127.0.0.1:{port}"', f'listen = "127.0.0.1:{behind[name]}"']
    return "\n".join(
        [
            *lines,
            "[crawl]", 'scope = "any"', "patience_s = 3", "width = 500", "sitemaps = false", f"pages = {limit}",
            "[site]", f'scores = "{setting.scores}"',
            "[polite]", f"delay_s = {delay_s}", "robots = false", "connections = 32",
            "[limits]", "depth = 250", "depth_dynamic = 250", "pages_per_host = 0", "pages_per_domain = 0",
            "[resolve]", f'map = {{"*" = "{web}"}}',
        ]
    )  # fmt: skip


def _events(directory: Path) -> list[dict[str, object]]:
    files = sorted((directory / "log").glob("*_a*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _commits_s(directory: Path) -> list[float]:
    """What commits of rounds took: the update phase, and syncing."""
    commits = [event for event in _events(directory) if event["event"] == "commit" and event["visits"]]
    return [float(str(event["seconds"])) for event in commits]


def _busy_s(directories: Sequence[Path]) -> float:
    """From the first commit to the last that brought pages."""
    times = [
        np.datetime64(str(event["time"]).rstrip("Z"), "ms")
        for directory in directories
        for event in _events(directory)
        if event["event"] == "commit" and event["visits"]
    ]
    return float((max(times) - min(times)) / np.timedelta64(1, "s")) if times else 0.0


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
