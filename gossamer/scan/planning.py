"""`gossamer plan` shows the next scan as planners see it, for people, programs, and as a figure."""

import argparse
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gossamer.arrays import I64
from gossamer.config import last_run
from gossamer.errors import ArchiveError, ConfigError
from gossamer.scan import clients, requirements
from gossamer.scan.clients import Worker
from gossamer.scan.defaults import defaults
from gossamer.scan.exact import MOST, MOST_RELAXED
from gossamer.scan.history import Outlook, outlook
from gossamer.scan.model import batch_s
from gossamer.scan.planners import PLANNERS
from gossamer.scan.planners import plan as planned
from gossamer.scan.records import Record, Scans
from gossamer.scan.show import wide
from gossamer.scan.task import Plan, Task
from gossamer.scan.websites import read_list
from gossamer.sim.figures import STYLE
from gossamer.watch import panel
from gossamer.watch.figures import count, span

_NAMED = 0.07  # of the width of a figure: bars this long carry their website's name
_BATCH_LINE = 24  # bytes of a website in a batch, beyond its name


def plan(arguments: argparse.Namespace) -> int:
    if arguments.planner not in PLANNERS:
        raise ConfigError(f"no planner is called {arguments.planner}; there are {', '.join(PLANNERS)}")
    scans = Scans(Path(arguments.dir))
    config = last_run.recall(scans.directory) or defaults()
    listed = read_list(arguments.websites, config.crawl.scope)
    records = scans.ended()
    if not records:
        raise ArchiveError(f"{arguments.dir} holds no finished scan to learn from; `gossamer scan` makes one")
    workers, times = _clients(arguments, records)
    names = [website.name for website in listed.websites]
    ahead = outlook(scans, names, {worker.name: worker.delay_s(config) for worker in workers}, times)
    task, column = ahead.task([worker.slots for worker in workers])
    found = planned(task, arguments.planner)
    warnings = requirements.warnings(scans, records)
    console = wide(Console())
    if arguments.compare:
        _print_compared(compared(task), arguments.json, console)
    else:
        rows = _rows(ahead, column, workers, records[-1].clients, found)
        _print_plan(rows, found, ahead, arguments.json, console)
    if not arguments.json:
        unknown = len(names) - len(ahead.known)
        if unknown:
            console.print(f"{unknown:,} websites were never scanned: they are taken for typical ones", highlight=False)
        wrong = [f"{line} is listed again" for line in listed.duplicates]
        wrong += [f"{line} is no web address" for line in listed.invalid]
        for line in wrong + warnings:
            console.print(f"gossamer: {line}", highlight=False, markup=False, soft_wrap=True)
    if arguments.figure is not None:
        _draw(arguments.figure, found, task, column, ahead)
    return 0


def _clients(arguments: argparse.Namespace, records: Sequence[Record]) -> tuple[list[Worker], dict[str, float]]:
    last = records[-1].clients
    if arguments.clients is not None:
        return clients.load(arguments.clients, arguments.at_once or 4)
    return [Worker(name, arguments.at_once or int(had.get("at_once", 4))) for name, had in last.items()], {}


def compared(task: Task) -> list[Plan]:
    """Returns the plan of every planner that takes a case of this size, and has what it needs."""
    size, found = task.websites * task.clients, []
    for name in PLANNERS:
        if size > {"exact": MOST, "unrelated": MOST_RELAXED}.get(name, size):
            continue
        try:
            found.append(planned(task, name))
        except ConfigError:  # scipy is not installed; lpt does without
            continue
    return found


def _rows(
    ahead: Outlook, column: I64, workers: Sequence[Worker], ways: Mapping[str, dict[str, Any]], found: Plan
) -> list[dict[str, Any]]:
    """Returns one row per client: what it gets, how long that takes, and how sure we are. `column` has the client of
    each column of the plan."""
    rows = []
    for j, worker in enumerate(workers):
        own = np.flatnonzero(column[found.owner] == j)
        times_s = ahead.times_s[own, j]
        way = ways.get(worker.name, {})
        names = [ahead.websites[i] for i in own[np.argsort(-times_s, kind="stable")].tolist()]
        rows.append(
            {
                "client": worker.name,
                "speed": float(1 / ahead.model.factor[j]),
                "websites": names,
                "pages": float(ahead.requests[own].sum()),
                "time_s": float(found.loads_s[column == j].max()) + _way_s(way, ahead, own),
                "spread_s": float(np.sqrt(((times_s * ahead.spread[own]) ** 2).sum())) / worker.slots,
                "floor_s": float(ahead.floor_s[own, j].max(initial=0.0)),
            }
        )
    return rows


def _way_s(way: dict[str, Any], ahead: Outlook, own: I64) -> float:
    """Returns the time of the way to the coordinator and back."""
    if "server_s" not in way or "transfer_bytes_per_s" not in way:
        return 0.0
    batch_bytes = sum(len(ahead.websites[i]) + _BATCH_LINE for i in own.tolist())
    return batch_s(way["server_s"], way["transfer_bytes_per_s"], batch_bytes, float(ahead.result_bytes[own].sum()))


def _print_plan(rows: Sequence[dict[str, Any]], found: Plan, ahead: Outlook, as_json: bool, console: Console) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(row | {"planner": found.planner}))
        print(json.dumps(_as_json(found)))
        return
    table = panel.table(
        "client", "own speed", "websites", "pages", "predicted s", "±", "longest floor s", "first", texts=("first",)
    )
    for row in rows:
        first = ", ".join(row["websites"][:3]) + (" …" if len(row["websites"]) > 3 else "")
        table.add_row(
            row["client"], f"{row['speed']:.2f}", count(len(row["websites"])), count(row["pages"]),
            f"{row['time_s']:,.1f}", f"{row['spread_s']:,.1f}", f"{row['floor_s']:,.1f}", first,
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(_in_words(found), highlight=False)
    for name, seen in ahead.parameters.items():
        console.print(
            f"{name}: a page takes {1000 * seen.lookup_s:.1f} ms for its address, "
            f"{1000 * seen.connect_s:.1f} to connect, {1000 * seen.answer_s:.1f} to be answered, "
            f"{_speed(seen.download_bytes_per_s)} to download, {seen.site_s:.2f} s a website, "
            f"{_speed(seen.own_bytes_per_s)} of its own",
            style="dim", highlight=False,
        )  # fmt: skip


def _speed(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1000:,.0f} KB/s" if np.isfinite(bytes_per_s) else "too fast to be seen"


def _in_words(found: Plan) -> str:
    gap = 100 * (found.ratio - 1)
    more = f"; {found.note}" if found.note else ""
    return (
        f"{found.planner}: all done after {found.makespan_s:,.1f} s ({span(found.makespan_s)}); "
        f"no plan can be faster than {found.bound_s:,.1f} s, the gap is {gap:.2f} %{more}"
    )


def _as_json(found: Plan) -> dict[str, Any]:
    ends = {"makespan_s": found.makespan_s, "bound_s": found.bound_s, "ratio": found.ratio}
    return {"planner": found.planner, **ends, "note": found.note}


def _print_compared(plans: Sequence[Plan], as_json: bool, console: Console) -> None:
    if as_json:
        for found in plans:
            print(json.dumps(_as_json(found)))
        return
    bound_s = max(found.bound_s for found in plans)
    table = panel.table("planner", "makespan s", "to the bound", "meaning", texts=("meaning",))
    for found in plans:
        ratio = found.makespan_s / bound_s if bound_s else 1.0
        table.add_row(found.planner, f"{found.makespan_s:,.2f}", f"{ratio:.4f}", PLANNERS[found.planner].meaning)
    console.print(table)
    console.print()
    console.print(f"no plan can be faster than {bound_s:,.2f} s", highlight=False)


def _draw(path: Path, plan: Plan, task: Task, column: I64, ahead: Outlook) -> None:
    """Draws a bar for every client, cut into its websites, and the bound that no plan can beat."""
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure {path}: name a .png or an .svg file")
    try:
        mpl: Any = import_module("matplotlib")
    except ImportError:
        raise ConfigError("--figure needs matplotlib: pip install 'gossamer-crawler[lab]'") from None
    mpl.use("Agg")
    plt: Any = import_module("matplotlib.pyplot")
    with mpl.rc_context(STYLE):
        canvas, axes = plt.subplots(figsize=(9.0, 1.6 + 0.38 * task.clients))
        shades = plt.get_cmap("tab20").colors
        for j in range(task.clients):
            own = np.flatnonzero(plan.owner == j)
            own = own[np.argsort(-task.times_s[own, j], kind="stable")]
            widths = task.times_s[own, j]
            starts = task.busy_s[j] + widths.cumsum() - widths
            colors = [shades[(2 * int(column[j]) + k % 2) % 20] for k in range(len(own))]
            axes.barh(j, widths, left=starts, height=0.72, color=colors, edgecolor="white", linewidth=0.4)
            for i, start, width in zip(own.tolist(), starts.tolist(), widths.tolist(), strict=True):
                if width > _NAMED * plan.makespan_s * max(1, len(ahead.websites[i]) / 8):
                    axes.text(start + width / 2, j, ahead.websites[i], ha="center", va="center", fontsize=7)
        axes.axvline(plan.bound_s, color="black", linestyle="--", linewidth=1)
        axes.set_yticks(range(task.clients), [ahead.clients[j] for j in column.tolist()])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        title = f"{plan.planner}: {plan.makespan_s:,.1f} s, {plan.ratio:.4f} times the bound (dashed)"
        axes.set(xlabel="seconds", title=title)
        canvas.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(canvas)
