"""This module shows a scan to a person: clients at work, and the results in the end."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.text import Text

from gossamer.scan.coordinator import View
from gossamer.scan.records import Record
from gossamer.watch import panel
from gossamer.watch.figures import count, printable, size, span

_SHOWN = 3


def wide(console: Console) -> Console:
    """Returns a console that never cuts figures: a narrow terminal breaks lines itself, and a pipe has no margin."""
    console.width = max(console.width, 110 if console.is_terminal else 200)
    return console


class Display(panel.Panel):
    """Use it as a context manager; call `update` as often as you like."""

    def update(self, view: View) -> None:
        self.draw(view.elapsed_s, lambda: _drawn(view), lambda: _line(view))


def _line(view: View) -> str:
    each = "  ".join(f"{row['client']} {row['done']}+{len(row['under_way'])}" for row in view.clients)
    pages = sum(row["pages"] for row in view.clients)
    line = f"{span(view.elapsed_s)}  {view.done:,} of {view.total:,} websites  {count(pages)} pages  {each}"
    return line + (f"  waiting for {_few(view.waits)}" if view.waits else "")


def _drawn(view: View) -> RenderableType:
    table = panel.table("client", "done", "waiting", "pages", "forecast", "under way", texts=("under way",))
    for row in view.clients:
        under_way = ", ".join(row["under_way"][:3]) + (" …" if len(row["under_way"]) > 3 else "")
        left = span(row["left_s"]) if row["alive"] else "died"
        cells = (count(row["done"]), count(row["waiting"]), count(row["pages"]), left, printable(under_way))
        table.add_row(Text(row["client"], "" if row["alive"] else "red"), *cells)
    waits = [Text(f"waiting for {_few(view.waits)}", "dim")] if view.waits else []
    head = Text(f"{view.done:,} of {view.total:,} websites, {span(view.elapsed_s)} so far", "bold")
    return Group(head, table, *waits)


def _few(waits: list[str]) -> str:
    rest = f" and {len(waits) - _SHOWN:,} more" if len(waits) > _SHOWN else ""
    return printable(", ".join(waits[:_SHOWN]) + rest)


def summary(record: Record, sums: dict[str, Any], sites: pa.Table, folder: Path) -> RenderableType:
    rows = sites.to_pylist()
    table = panel.table("client", "websites", "pages", "sent", "links away", "s in all")
    for client in sorted({row["client"] for row in rows}):
        own = [row for row in rows if row["client"] == client]
        total = {name: sum(row[name] for row in own) for name in ("pages", "wire_bytes", "links", "scan_s")}
        table.add_row(
            client, count(len(own)), count(total["pages"]), size(total["wire_bytes"]), count(total["links"]),
            f"{total['scan_s']:,.1f}",
        )  # fmt: skip
    kinds = Counter(row["status"] for row in rows)
    statuses = ", ".join(f"{number:,} {status}" for status, number in kinds.most_common())
    lines = [
        f"scan {record.number}: {len(rows):,} websites in {span(record.makespan_s)} ({statuses})",
        f"links to other websites: {sums['seen']:,} seen ({sums['appeared']:,} appeared), {sums['gone']:,} gone, "
        f"{sums['unknown']:,} unknown",
    ]
    if record.planned_s:
        lines.append(
            f"planned {record.planned_s:,.1f} s, at best {record.bound_s:,.1f} s, took {record.makespan_s:,.1f} s"
        )
    files = f"{folder}: links, changes, sites, unread (.parquet and .csv)"
    return Group(Text(), table, Text(), *(Text(line) for line in lines), Text(files, "dim"))
