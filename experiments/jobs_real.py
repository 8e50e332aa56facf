"""This module makes Table 1 with real clients: the production scan on a test web, throttled to Pechnikov's speeds."""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from experiments.harness import Row, columns
from experiments.jobs_webs import PAPER_S, REFERENCE_S, WEBSITES, Throttled, throttled_sizes
from experiments.uniform_clients import uniform
from gossamer.arrays import I64
from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.scan.clients import Worker
from gossamer.scan.command import Run, Wish
from gossamer.scan.defaults import defaults
from gossamer.scan.dispatch import Dispatch
from gossamer.scan.planners import plan
from gossamer.scan.records import Scans
from gossamer.scan.results import read_sites
from gossamer.scan.websites import Listed, Website
from gossamer.sim.graphs import load
from gossamer.testweb.running import RunningWeb

REFERENCE = 30  # pages of the reference site here
# To see what opening and closing a website takes, and a page beside the delay: many websites of two pages, three large
# ones, and a delay that leaves the machine as idle as it will be.
_SMALL, _LARGE_PAGES, _DELAY_S = 36, 40, 0.25
SHOWN = columns(
    "clients | mode | makespan_s: makespan s | bound_s: bound s | ratio: to the bound | "
    "gain: batch-times is faster by | paper_gain: seed: faster by"
)
# In this order: the first scans teach the others. (mode of the scan, its planner, whether the list is turned round)
RUNS = {
    "round-robin": ("round-robin", "lpt", False),
    "round-robin-reversed": ("round-robin", "lpt", True),
    "batch-pages": ("batch", "pechnikov-pages", False),
    "batch-times": ("batch", "pechnikov-times", False),
    "batch": ("batch", "lpt", False),
    "dynamic": ("dynamic", "lpt", False),
}


def measure(seed: int, numbers: Sequence[int], pages: int, delay_s: float) -> tuple[list[Row], list[str]]:
    """The rows of the table, and what was done."""
    rows: list[Row] = []
    notes = [
        f"real: {WEBSITES} websites of the test web for each number of clients; each has one at a time, all begin "
        f"together; a client that took 100 s for Pechnikov's reference site waits {delay_s:g} s between two pages; "
        "speeds and times are learned from the reference site and the scans before; the bound is of the measured times"
    ]
    for clients in numbers:
        with tempfile.TemporaryDirectory() as scratch:
            throttle = _throttle(Path(scratch), delay_s)
            sizes = throttled_sizes(seed, pages, throttle, clients)
            path = Path(scratch) / "web.npz"
            make(path, np.append(sizes, REFERENCE))
            with RunningWeb(graph=path) as running:
                rows += _table(Path(scratch), clients, _starts(path), _config(running.address), throttle)
        notes.append(
            f"real, {clients} clients: {sizes.sum():,} pages, {sizes[0]:,} of them on the largest website; opening and "
            f"closing one took {throttle.site_s:.3f} s, a page {1000 * throttle.page_s:.1f} ms, which is not throttled"
        )
    return rows, notes


def _throttle(folder: Path, delay_s: float) -> Throttled:
    """What is not throttled, as three clients at once have it here: opening and closing a website, and a page."""
    path = folder / "small.npz"
    make(path, np.append(np.full(_SMALL, 2), np.full(3, _LARGE_PAGES)))
    starts = _starts(path)
    websites = [Website(start.split("/")[2], start) for start in starts]
    workers = [Worker(f"c{j}", 1, {"polite.delay_s": _DELAY_S}) for j in range(3)]
    took_s = []
    with RunningWeb(graph=path) as running:
        for number, some in enumerate((websites[:_SMALL], websites[_SMALL:])):
            scans = Scans(folder / f"small{number}")
            with scans.lock():
                _scan(scans, workers, _config(running.address), Wish("round-robin", quiet=True), some)
            took_s.append(_makespan_s(scans) * len(workers) / len(some))
    small_s, large_s = took_s
    page_s = max(0.0, (large_s - small_s) / (_LARGE_PAGES - 2) - _DELAY_S)
    return Throttled(delay_s, max(0.0, small_s - _DELAY_S - page_s), page_s)


class Together(Dispatch):
    """Begins when all clients are ready."""

    def next(self, client: int, now_s: float) -> int | None:
        self._ready = {*getattr(self, "_ready", ()), client}
        return super().next(client, now_s) if self._ready >= self.alive else None


def _scan(
    scans: Scans, workers: list[Worker], config: Config, wish: Wish, websites: list[Website], planner: str = "lpt"
) -> None:
    run = Run(scans, workers, config, wish, RealClock(), Console(quiet=True))
    run.make_dispatch = functools.partial(Together, planner=planner)
    run.once(Listed(websites, [], []))


def make(path: Path, sizes: I64) -> None:
    """A graph of websites: their first page leads to all others of theirs, and to the first page of the next."""
    first = np.concatenate(([0], np.cumsum(sizes)))
    rows = []
    for number, size in enumerate(sizes.tolist()):
        start, following = int(first[number]), int(first[(number + 1) % len(sizes)])
        rows.append(np.append(np.arange(start + 1, start + size), following))
        rows += [np.array([start])] * (size - 1)
    np.savez_compressed(
        path,
        indptr=np.cumsum([0, *map(len, rows)]),
        indices=np.concatenate(rows).astype(np.int32),
        host=np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        host_names=np.array([f"w{number}.test" for number in range(len(sizes))], "S"),
    )


def _starts(path: Path) -> list[str]:
    graph = load(path)
    first = np.searchsorted(graph.host, np.arange(len(graph.host_names)))
    return [graph.urls[page] for page in first.tolist()]


def _config(address: str) -> Config:
    return defaults().replace(
        {"resolve.map": {"*": address}, "polite.robots": False, "crawl.patience_s": 1.0, "limits.depth": 3}
    )


def _table(folder: Path, clients: int, starts: list[str], config: Config, throttle: Throttled) -> list[Row]:
    delays_s = throttle.delays_s(clients).tolist()
    workers = [Worker(f"c{j}", 1, {"polite.delay_s": delay_s}) for j, delay_s in enumerate(delays_s)]
    scans = Scans(folder / "scans")
    websites = [Website(start.split("/")[2], start) for start in starts[:-1]]
    took_s: dict[str, float] = {}
    for mode, (how, planner, is_reversed) in RUNS.items():
        wish = Wish(how, reference=starts[-1], quiet=True)
        with scans.lock():
            _scan(scans, workers, config, wish, websites[:: -1 if is_reversed else 1], planner)
        took_s[mode] = _makespan_s(scans)
    bound_s = _bound_s(scans, clients)
    paper = PAPER_S[clients]
    return [
        {
            "websites": len(websites),
            "clients": clients,
            "mode": mode,
            "makespan_s": seconds,
            "bound_s": bound_s,
            "ratio": seconds / bound_s,
            "gain": seconds / took_s["batch-times"],
            "paper_s": paper.get(mode),
            "paper_gain": paper[mode] / paper["batch-times"] if mode in paper else None,
        }
        for mode, seconds in took_s.items()
    ]


def _makespan_s(scans: Scans) -> float:
    """From the first website's beginning to the last one's end: processes start before."""
    rows = read_sites(scans, scans.numbers()[-1]).to_pylist()
    assert all(row["status"] == "ok" for row in rows), "a loopback website did not answer"
    return float((max(row["ended"] for row in rows) - min(row["begun"] for row in rows)).total_seconds())


def _bound_s(scans: Scans, clients: int) -> float:
    """Of the measured times: each website's median over the scans, as it would be at the typical speed."""
    speed = {f"c{j}": float(np.mean(REFERENCE_S[clients]) / seconds) for j, seconds in enumerate(REFERENCE_S[clients])}
    work: dict[str, list[float]] = {}
    for number in scans.numbers():
        for row in read_sites(scans, number).to_pylist():
            work.setdefault(row["site"], []).append(row["scan_s"] * speed[row["client"]])
    return plan(uniform([float(np.median(each)) for each in work.values()], list(speed.values()))).bound_s
