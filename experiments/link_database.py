"""This experiment builds UniCrawl's link database L in crawls by several sites, and measures it beside our summed sums.

UniCrawl (Le Quoc et al., section VI) sketches it, believes that it "is inherently expensive in terms of storage and
computation time", and leaves a detailed evaluation as future work. Both ways see the same crawl, the same partitioner,
the same cache of sent URLs and the same encoding.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import sites
from experiments.harness import STATEMENTS_SHOWN, Block, Results, Row, add_graph, add_pages, columns, publish, statement
from experiments.link_triples import Costs, costs
from experiments.paired import interval
from experiments.sites_lab import Lab
from experiments.sites_runs import Setting
from gossamer.placement.partitioners import NAMES
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive

WAYS = {"sums": "sums, as we send them", "cleaned": "L, emptied after each round", "kept": "L, kept and read again"}
SHOWN = columns(
    "partitioner | way | links: links crossing per page | sent: bytes sent per page | stored: bytes stored per page | "
    "sending: CPU to send, µs per page | keeping: CPU to keep, µs per page"
)
RATIOS = columns("partitioner | way | what | ratio: times as much as sums | low: from | high: to")


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, made=True)
    add_pages(parser)
    parser.add_argument("--sites", type=positive, default=3, metavar="N", help="(default: 3)")
    parser.add_argument("--repeat", type=positive, default=5, metavar="N", help="crawls of each (default: 5)")
    parser.add_argument("--partitioner", action="append", choices=NAMES, help="(default: ring and fennel)")


def run(arguments: argparse.Namespace) -> int:
    found: list[tuple[str, int, Costs]] = []
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(arguments, Path(scratch))
        with sites.web_of(lab) as (web, seeds, note):
            for partitioner in arguments.partitioner or ["ring", "fennel"]:
                for number in range(arguments.repeat):
                    setting = Setting(arguments.sites, partitioner, pages=arguments.pages)
                    done = lab.crawl(setting, seeds, web.address)
                    folder = Path(scratch) / f"{partitioner}-{number}"
                    folder.mkdir()
                    found.append((partitioner, sum(done.visits.values()), costs(done.federation, folder)))
    publish(results(found, note, arguments), arguments.out, arguments.json)
    return 0


def results(found: Sequence[tuple[str, int, Costs]], note: str, arguments: argparse.Namespace) -> Results:
    each = [dict(_row(*crawl, way)) for crawl in found for way in WAYS]
    partitioners = list(dict.fromkeys(partitioner for partitioner, _, _ in found))
    rows = [_mean(each, partitioner, way) for partitioner in partitioners for way in WAYS]
    ratios = [ratio for partitioner in partitioners for ratio in _ratios(each, partitioner)]
    name = "made" if arguments.graph is None else arguments.graph.stem
    notes = [
        f"{note}; {arguments.sites} sites, {arguments.repeat} crawls with each partitioner; means",
        "built from the archive of each crawl, round by round as it was made: messages are encoded, decoded and taken "
        "in, by one process; CPU is that of its thread. The same message parts, partitioner and cache of sent URLs",
        "kept: as UniCrawl sketches it, all triples are read and grouped again in each round, from files that are "
        "sorted, packed and compressed; emptied: each round's triples are added to scores and dropped, as it allows",
        "stored: the most there was at a time; of sums, and of L where it is emptied, that is one round's messages. "
        "The score in each page's row is the same in all ways and not counted",
        f"scores by triples and by sums differ by at most {max(crawl.apart for *_, crawl in found):.2%}, by rounding",
        "from, to: 95 % bootstrap interval of the mean ratio, crawl by crawl",
    ]
    blocks = [
        Block("Against sums", ratios, RATIOS),
        Block("Statements of UniCrawl", list(_statements(ratios)), STATEMENTS_SHOWN),
    ]
    title = f"The database of all links: {name}"
    return Results(f"link-database-{name}", title, rows, SHOWN, notes, [figure(name, rows)], blocks, series=each)


def _row(partitioner: str, pages: int, crawl: Costs, way: str) -> Row:
    at = getattr(crawl, way)
    return {
        "partitioner": partitioner,
        "way": WAYS[way],
        "links": crawl.links / pages,
        "sent": at.sent / pages,
        "stored": at.stored / pages,
        "sending": 1e6 * at.sending_s / pages,
        "keeping": 1e6 * at.keeping_s / pages,
        "cpu": 1e6 * (at.sending_s + at.keeping_s) / pages,
    }


def _mean(each: Sequence[Row], partitioner: str, way: str) -> dict[str, Any]:
    ours = [row for row in each if (row["partitioner"], row["way"]) == (partitioner, WAYS[way])]
    means = {key: float(np.mean([row[key] for row in ours])) for key in ours[0] if key not in ("partitioner", "way")}
    return {"partitioner": partitioner, "way": WAYS[way], **means}


def _ratios(each: Sequence[Row], partitioner: str) -> Iterator[dict[str, Any]]:
    by_way = {
        way: [row for row in each if (row["partitioner"], row["way"]) == (partitioner, words)]
        for way, words in WAYS.items()
    }
    for way in ("cleaned", "kept"):
        for key, what in (("sent", "bytes sent"), ("stored", "bytes stored"), ("cpu", "CPU")):
            pairs = zip(by_way[way], by_way["sums"], strict=True)
            ratio = np.array([row[key] / max(ours[key], 1e-9) for row, ours in pairs])
            low, high = interval(ratio)
            yield {
                "partitioner": partitioner, "way": WAYS[way], "what": what, "ratio": float(ratio.mean()), "low": low,
                "high": high,
            }  # fmt: skip


def _statements(ratios: Sequence[Row]) -> Iterator[Row]:
    """A way is expensive if it takes at least twice as much; it is open, if the interval says both."""
    for row in ratios:
        if row["what"] != "bytes sent":
            words = (
                f"{row['way']}, {row['partitioner']}: {row['ratio']:.2f} times [{row['low']:.2f}, {row['high']:.2f}]"
            )
            holds = True if row["low"] >= 2 else False if row["high"] < 2 else None
            what = {"bytes stored": "storage", "CPU": "computation time"}[row["what"]]
            yield statement(f"L is expensive in {what}: at least twice as much", holds, words)


def figure(name: str, rows: Sequence[Row]) -> Figure:
    place = np.arange(len(rows))
    drawn = [
        Curve(label, np.array([row[key] for row in rows]), place, dots=True, color=color)
        for key, label, color in (
            ("sent", "bytes sent", "#08519c"), ("stored", "bytes stored", "#f16913"), ("cpu", "CPU, µs", "0.5")
        )
    ]  # fmt: skip
    names = [f"{row['partitioner']}: {row['way']}" for row in rows]
    title = f"What scores across sites cost, {name}"
    return Figure(f"link-database-{name}", title, "per crawled page", "", drawn, log_x=True, names=names)
