"""This module compares sites with one crawler that is stretched over two places (UniCrawl, section V-B2 and V-B3)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from experiments.harness import Block, Row, columns
from experiments.sites_lab import Lab, Lines, first_pages
from experiments.sites_runs import Crawled, Setting
from experiments.stretched import Stretched
from gossamer.sim.figures import Curve, Figure
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

TIMES = 3  # of which the median counts
WIDTH = 400  # pages of a round, of all agents together: the paper's
MB_PER_S = 12.5  # each way
ROUND_TRIP_MS = 20.0  # "the scale of an European country" (section V-A2); of its own places the paper says nothing
STRETCHED, TWO, THREE = "stretched over 2", "2 sites", "3 sites"
PAPER_TIME, PAPER_UPDATE, PAPER_SAVED = 1.75, 10.0, 93.6


def stretched(lab: Lab) -> None:
    """On a web that answers at once: whatever waits, waits for the other place, or for this machine."""
    spec = WebSpec.plain(
        seed=lab.arguments.seed, pages=lab.arguments.pages or 6_000, hosts=400, host_exponent=0.0, links=30.0,
        local=0.8, page_bytes=30_000.0,
    )  # fmt: skip
    rows: Lines = []
    curves: list[Curve] = []
    with RunningWeb(spec) as web:
        seeds = lab.seeds(first_pages(spec.hosts))
        for trip in lab.arguments.round_trip or [ROUND_TRIP_MS]:
            found = _compared(lab, trip, seeds, web.address)
            rows += [_row(name, trip, runs) for name, runs in found.items()]
            _say(lab, rows[-len(found) :], trip)
            curves += [_curve(name, trip, runs[0]) for name, runs in found.items()]
    lab.notes.append(
        f"stretched: {spec.pages:,} pages of {spec.hosts} hosts, 30 KB and 30 links each, answered at once; rounds of "
        f"{WIDTH} pages in all, 16 connections per place, {MB_PER_S:g} MB/s each way between two; medians of {TIMES} "
        "runs. Stretched: the same agents, one at each place, and files spread over both by the hash of their names. A "
        "phase is that of a round of one agent; fetching goes on during the others, and is what is left of the round"
    )
    shown = columns(
        "way: crawl | trip: round trip, ms | wall: first to last page, s | rate: pages/s | generate: generate, s | "
        "fetch: fetch, s | update: update and commit, s | pages: pages of a round | wire: bytes crossing per page"
    )
    lab.blocks.append(Block("One crawler over two places, and sites", rows, shown))
    title = "What crosses between places"
    lab.figures.append(Figure("sites-stretched", title, "seconds", "MB so far", curves, log_y=True))


def _compared(lab: Lab, trip: float, seeds: Path, web: str) -> dict[str, Sequence[Crawled]]:
    """In turns, so that a busy machine is so for all."""
    two = Setting(2, round_trip_ms=trip, mb_per_s=MB_PER_S, connections=16, width=WIDTH // 2, merge_files=0)
    three = replace(two, sites=3, width=WIDTH // 3)
    found: dict[str, list[Crawled]] = {STRETCHED: [], TWO: [], THREE: []}
    for _ in range(TIMES):
        found[STRETCHED].append(lab.stretched(two, seeds, web))
        found[TWO].append(lab.crawl(two, seeds, web))
        found[THREE].append(lab.crawl(three, seeds, web))
    return dict(found)


def _row(name: str, trip: float, runs: Sequence[Crawled]) -> Row:
    phases = [run.phases() for run in runs]
    row = {
        "way": name,
        "trip": trip,
        "wall": median(run.wall_s() for run in runs),
        "rate": median(run.pages_per_s() for run in runs),
        "generate": median(each.generate_s for each in phases),
        "fetch": median(each.fetch_s for each in phases),
        "update": median(each.update_s for each in phases),
        "pages": median(each.pages for each in phases),
        "wire": median(run.wire_bytes / len(run.visited()[0]) for run in runs),
    }
    return row | {f"of_{kind}": part for kind, part in kinds(runs[0]).items()}


def kinds(run: Crawled) -> dict[str, float]:
    """Bytes of files that crossed per page, by kind; those of a crawl that is not stretched do not."""
    pages = len(run.visited()[0])
    return {k: v / pages for k, v in run.bytes_by_kind.items()} if isinstance(run, Stretched) else {}


def _say(lab: Lab, rows: Sequence[Row], trip: float) -> None:
    by_name = {row["way"]: row for row in rows}
    for name, row in by_name.items():
        where = f"{name}, {trip:g} ms"
        lab.say("first to last page", where, row["wall"], "s")
        for phase in ("generate", "fetch", "update"):
            lab.say(f"{phase}, of a round", where, row[phase], "s")
        lab.say("bytes crossing per page", where, row["wire"], "bytes")
    for key, value in by_name[STRETCHED].items():
        if key.startswith("of_"):
            lab.say(f"bytes crossing per page, {key[3:]}", f"{STRETCHED}, {trip:g} ms", value, "bytes")
    one, two = by_name[STRETCHED], by_name[TWO]
    lab.say("wall time, stretched : 2 sites", f"{trip:g} ms", one["wall"] / two["wall"], "times", PAPER_TIME)
    lab.say("update, stretched : 2 sites", f"{trip:g} ms", one["update"] / two["update"], "times", PAPER_UPDATE)
    lab.say("saved on the wire", f"2 sites, {trip:g} ms", 100 * (1 - two["wire"] / one["wire"]), "%", PAPER_SAVED)


def _curve(name: str, trip: float, run: Crawled) -> Curve:
    seconds, crossed = np.array(run.crossed_by_time).T
    some = crossed >= 10_000  # before, nothing but greetings
    return Curve(f"{name}, {trip:g} ms", seconds[some], crossed[some] / 1e6, dashed=name == STRETCHED)
