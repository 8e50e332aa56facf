"""This experiment compares ways to share websites among clients: round robin, Pechnikov's batches and ours.

It repeats Table 1 of Pechnikov et al.: 99 websites, three and five clients. Its parts are `table` (that table on a web
that its figures allow, and on many drawn ones), `scale` (100 to 10,000 websites, 3 to 100 clients), and `real` (agents
throttled to Pechnikov's speeds).
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import jobs_real, jobs_webs
from experiments.harness import Block, Results, Row, columns, publish
from experiments.jobs_webs import MODES, PAPER_S, drawn, enacted_s, noise, reenacted, worst_ratio
from experiments.uniform_clients import uniform
from gossamer.scan.planners import plan
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive

PARTS = ("table", "scale", "real")
SCALES = tuple((websites, clients) for websites in (100, 1_000, 10_000) for clients in (3, 10, 30, 100))
SCALE_DRAWS = 5
SCALE_EXPONENT = 0.5  # of sizes by rank: with a steeper law the largest website alone decides, and plans are trivial
_PLANNERS = ("next-free", "next-free-reversed", "pechnikov-times", "multifit", "lpt")
SHOWN = columns(
    "part: web | clients | mode | makespan_s: makespan s | bound_s: bound s | ratio: to the bound | spread: ± | "
    "gain: batch-times is faster by | paper_s: paper s | paper_gain: paper: faster by"
)
SCALE_SHOWN = {"websites": "websites", "clients": "clients", **{n: n for n in _PLANNERS}, "plan_ms": "lpt: ms of CPU"}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", action="append", choices=PARTS, help="only these (default: table and scale)")
    parser.add_argument("--draws", type=positive, default=200, metavar="N", help="webs to draw (default: 200)")
    parser.add_argument(
        "--clients", action="append", type=int, choices=tuple(PAPER_S), help="only so many (default: three and five)"
    )
    parser.add_argument("--pages", type=positive, default=600, metavar="N", help="of the real web (default: 600)")
    parser.add_argument(
        "--delay", type=float, default=0.9, metavar="S",
        help="between two pages, at a real client that took 100 s for the reference site (default: 0.9)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    parts = arguments.part or ["table", "scale"]
    numbers = arguments.clients or list(PAPER_S)
    rows: list[Row] = []
    figures: list[Figure] = []
    blocks: list[Block] = []
    notes = [
        "ratio: makespan to the lower bound of the same web; gain: what batch by times gains on that mode",
        "Pechnikov's round robin: the next website to the next free client, the list by size; reversed: smallest first",
        f"the most that any list can lose against the best plan: {worst_ratio(3):.3f} with three clients, Pechnikov's "
        f"{PAPER_S[3]['round-robin-reversed'] / PAPER_S[3]['batch-times']:.3f}",
    ]
    if "table" in parts:
        web = reenacted(arguments.seed)
        for clients in numbers:
            rows += one_web(web, clients)
        ratios = {clients: many_webs(arguments.seed, arguments.draws, clients) for clients in numbers}
        for clients, found in ratios.items():
            rows += _summed(found, clients)
        figures += [_spread(clients, found) for clients, found in ratios.items()]
        notes += _claims(ratios)
    if "scale" in parts:
        scale = [row for websites, clients in SCALES for row in scaled(arguments.seed, websites, clients)]
        rows += [{**dict.fromkeys(rows[0] if rows else SHOWN), **row, "part": "scale"} for row in scale]
        title = f"Larger lists: makespan to the lower bound, {SCALE_DRAWS} draws each"
        blocks.append(Block(title, _turned(scale), SCALE_SHOWN))
        figures.append(_growth(scale))
    if "real" in parts:
        real, remarks = jobs_real.measure(arguments.seed, numbers, arguments.pages, arguments.delay)
        rows += [{**dict.fromkeys(rows[0] if rows else SHOWN), **row, "part": "real"} for row in real]
        blocks.append(Block("Real agents, throttled to Pechnikov's speeds", real, jobs_real.SHOWN))
        notes += remarks
    table = [row for row in rows if row["part"] not in ("scale", "real")]
    first = Block("Table 1 of Pechnikov et al.", table, SHOWN) if table else blocks.pop(0)
    shown = rows if arguments.json else first.rows
    publish(
        Results("jobs", first.title, shown, first.shown, notes, figures, blocks, rows), arguments.out, arguments.json
    )
    return 0


def one_web(web: jobs_webs.Web, clients: int) -> list[Row]:
    """Table 1 where times are as they were in the scan before."""
    task = web.task(clients)
    times = {mode: enacted_s(task, task, mode) for mode in MODES}
    return [_row("re-enacted", clients, mode, times[mode], task.bound_s(), times) for mode in MODES]


def _row(part: str, clients: int, mode: str, took_s: float, bound_s: float, times: dict[str, float]) -> Row:
    paper = PAPER_S[clients].get(mode)
    return {
        "part": part,
        "websites": jobs_webs.WEBSITES,
        "clients": clients,
        "mode": mode,
        "makespan_s": took_s,
        "bound_s": bound_s,
        "ratio": took_s / bound_s,
        "spread": None,
        "gain": took_s / times["batch-times"],
        "paper_s": paper,
        "paper_gain": paper / PAPER_S[clients]["batch-times"] if paper else None,
        "plan_ms": None,
    }


def many_webs(seed: int, draws: int, clients: int) -> dict[str, np.ndarray]:
    """By mode, makespans of drawn webs whose websites do not take quite what they took in the scan before."""
    random = np.random.default_rng(seed)
    found: dict[str, list[float]] = {mode: [] for mode in (*MODES, "bound")}
    for _ in range(draws):
        web = drawn(random)
        web = jobs_webs.Web(web.pages, web.work_s * PAPER_S[3]["batch-times"] / plan(web.task(3)).makespan_s)
        before, now = web.task(clients, noise(random)), web.task(clients, noise(random))
        for mode in MODES:
            found[mode].append(enacted_s(before, now, mode))
        found["bound"].append(now.bound_s())
    return {mode: np.array(values) for mode, values in found.items()}


def _summed(found: dict[str, np.ndarray], clients: int) -> list[Row]:
    rows: list[Row] = []
    means = {mode: float(values.mean()) for mode, values in found.items()}
    for mode in MODES:
        ratio = found[mode] / found["bound"]
        row = _row(f"{len(ratio)} drawn", clients, mode, means[mode], means["bound"], means)
        rows.append({**row, "ratio": float(ratio.mean()), "spread": float(ratio.std())})
    return rows


def _claims(ratios: dict[int, dict[str, np.ndarray]]) -> list[str]:
    remarks = []
    for clients, found in ratios.items():
        worse = np.maximum(found["round-robin"], found["round-robin-reversed"]) / found["batch-times"]
        paper = PAPER_S[clients]["round-robin-reversed"] / PAPER_S[clients]["batch-times"]
        dynamic = found["dynamic"] / found["batch"]
        remarks.append(
            f"{clients} clients, drawn webs: batch by times beats the worse round robin {worse.mean():.2f}-fold on "
            f"average, {worse.max():.2f} at most (paper {paper:.2f}); dynamic takes {dynamic.mean():.3f} of batch, "
            f"{dynamic.max():.3f} at most"
        )
    return remarks


def scaled(seed: int, websites: int, clients: int) -> list[Row]:
    """Planners on drawn lists of any length, clients' speeds between 3/4 and 5/4."""
    random = np.random.default_rng([seed, websites, clients])
    ratios: dict[str, list[float]] = {}
    took_ms: dict[str, list[float]] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for _ in range(SCALE_DRAWS):
        work = drawn(random, websites, SCALE_EXPONENT).work_s
        task = uniform(work / work.sum() * 3_600 * clients, random.uniform(0.75, 1.25, clients))
        for name in _PLANNERS:
            start_s = time.process_time()
            found = plan(task, name)
            took_ms.setdefault(name, []).append(1000 * (time.process_time() - start_s))
            ratios.setdefault(name, []).append(found.ratio)
            spans.setdefault(name, []).append((found.makespan_s, found.bound_s))
    return [
        {
            "websites": websites,
            "clients": clients,
            "mode": name,
            "makespan_s": float(np.mean([each for each, _ in spans[name]])),
            "bound_s": float(np.mean([each for _, each in spans[name]])),
            "ratio": float(np.mean(ratios[name])),
            "spread": float(np.std(ratios[name])),
            "plan_ms": float(np.median(took_ms[name])),
        }
        for name in _PLANNERS
    ]


def _turned(rows: Sequence[Row]) -> list[Row]:
    """A line for each size, a column for each planner."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        size = {name: row[name] for name in ("websites", "clients")}
        line = found.setdefault((row["websites"], row["clients"]), size)
        line[row["mode"]] = row["ratio"]
        if row["mode"] == "lpt":
            line["plan_ms"] = row["plan_ms"]
    return list(found.values())


def _spread(clients: int, found: dict[str, np.ndarray]) -> Figure:
    """Every mode's ratios in order: how often it is how bad."""
    curves = []
    for mode in MODES:
        ratio = np.sort(found[mode] / found["bound"])
        curves.append(Curve(mode, 100 * (np.arange(len(ratio)) + 0.5) / len(ratio), ratio))
    title = f"{jobs_webs.WEBSITES} websites, {clients} clients: {len(found['bound'])} drawn webs"
    return Figure(f"jobs-{clients}", title, "webs, the best first, %", "makespan / lower bound", curves)


def _growth(rows: Sequence[Row]) -> Figure:
    largest = max(row["websites"] for row in rows)
    curves = []
    for name in _PLANNERS:
        own = [row for row in rows if row["mode"] == name and row["websites"] == largest]
        gap = np.array([max(100 * (row["ratio"] - 1), 1e-4) for row in own])
        curves.append(Curve(name, np.array([row["clients"] for row in own]), gap))
    title = f"{largest:,} websites: how far from the lower bound"
    return Figure("jobs-scale", title, "clients", "above the bound, %", curves, log_x=True, log_y=True, markers=True)
