"""This module measures what replicas cost over a distance: pages per second with them and without, and how far behind
they are."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from experiments.harness import Block, Row, columns
from experiments.sites_lab import Lab, first_pages
from experiments.sites_runs import Done, Setting
from gossamer.cluster.federation_file import home_of
from gossamer.cluster.replicas import holders, replica_of
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

TIMES = 3  # crawls of each, in turns
ROUND_TRIP_MS = 80.0
LOOK_S = 0.02


class Pair(NamedTuple):
    """A site's commits, and those of them that its replica has: folders of manifests."""

    own: Path
    replica: Path


class Lags:
    """`Lags` notes when each commit of a site was first seen, and when its replica first had it, or a later one."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._committed: list[dict[int, float]] = [{} for _ in pairs]
        self._replicated: list[dict[int, float]] = [{} for _ in pairs]

    def look(self, now_s: float) -> None:
        for at, pair in enumerate(self._pairs):
            for folder, seen in ((pair.own, self._committed[at]), (pair.replica, self._replicated[at])):
                if number := _newest(folder):
                    seen.setdefault(number, now_s)

    def seconds(self) -> list[float]:
        """Returns how long each commit took to its replica. One that the replica left out came with the next."""
        found = []
        for committed, replicated in zip(self._committed, self._replicated, strict=True):
            for number, since_s in committed.items():
                later = [at_s for has, at_s in replicated.items() if has >= number]
                if later:
                    found.append(max(0.0, min(later) - since_s))
        return found


def _newest(folder: Path) -> int:
    try:
        return max((int(path.stem) for path in folder.iterdir() if path.stem.isdigit()), default=0)
    except OSError:  # there is none yet
        return 0


@contextmanager
def watching(setting: Setting, folder: Path) -> Iterator[Lags]:
    """Looks on while sites in this folder crawl."""
    pairs = [
        Pair(folder / site / "manifest" / home_of(site), replica_of(folder / holder, site) / "manifest" / home_of(site))
        for site in setting.names
        for holder in holders(setting.names, site, setting.replicas)
    ]
    lags, over = Lags(pairs), threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            lags.look(time.monotonic())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lags
    finally:
        over.set()
        thread.join()


def replicas(lab: Lab) -> None:
    """A web that answers in a tenth of a second and asks for no pauses, as for `distance`."""
    spec = WebSpec.plain(
        seed=lab.arguments.seed, pages=lab.arguments.pages or 9_000, hosts=300, host_exponent=0.0, links=12.0,
        local=0.8, page_bytes=4_000.0, latency_ms=100.0,
    )  # fmt: skip
    sites, trip = lab.arguments.sites[0], (lab.arguments.round_trip or [ROUND_TRIP_MS])[-1]
    found: Mapping[int, list[Done]] = {1: [], 2: []}
    behind: Mapping[int, list[float]] = {1: [], 2: []}
    with RunningWeb(spec) as web:
        seeds = lab.seeds(first_pages(spec.hosts))
        for _ in range(TIMES):
            for count in found:
                setting = Setting(sites, round_trip_ms=trip, connections=12, width=200, replicas=count)
                with watching(setting, lab.next_folder) as lags:
                    found[count].append(lab.crawl(setting, seeds, web.address))
                behind[count] += lags.seconds()
    rows = [_row(count, found[count], behind[count]) for count in found]
    alone, kept = rows
    lab.say("pages per second kept with replicas", f"{trip:g} ms", 100 * kept["rate"] / alone["rate"], "%")
    lab.say("behind, 95 % of commits", f"{trip:g} ms", kept["p95"], "s")
    lab.notes.append(
        f"replicas: {spec.pages:,} pages of {spec.hosts} hosts that answer after 100 ms, {sites} sites, 12 connections "
        f"each, {trip:g} ms between two; medians of {TIMES} crawls of each, in turns; pages per second from 10 to 80 % "
        "of the crawl. Behind: from when a commit is there to when its replica has it, of all commits"
    )
    shown = columns(
        "replicas | rate: pages/s | lowest: from | highest: to | update: update and commit, s | commits | "
        "middle: behind, s | p95: 95 % within, s | most: at most, s | wire: bytes crossing per page"
    )
    lab.blocks.append(Block("Replicas over a distance", rows, shown))


def _row(count: int, crawls: Sequence[Done], behind: Sequence[float]) -> Row:
    rates = [each.pages_per_s() for each in crawls]
    percentiles = np.percentile(behind, [50, 95, 100]).tolist() if behind else [None] * 3
    return {
        "replicas": count - 1,
        "rate": median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "update": median(each.phases().update_s for each in crawls),
        "commits": len(behind) or None,
        **dict(zip(("middle", "p95", "most"), percentiles, strict=True)),
        "wire": median(each.wire_bytes / len(each.visited()[0]) for each in crawls),
    }
