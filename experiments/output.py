"""What every experiment leaves behind: a table for people, lines of JSON for programs, files, and figures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from gossamer.sim.figures import Figure, draw

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Block:
    """A further table."""

    title: str
    rows: Sequence[Row]
    shown: Mapping[str, str]


@dataclass(frozen=True)
class Results:
    name: str  # of the experiment, and of its files
    title: str
    rows: Sequence[Row]  # one object per line with --json; the same keys in each
    shown: Mapping[str, str]  # keys that the table shows, and their headings
    notes: Sequence[str] = ()  # what a reader must know: rules, sources, differences
    figures: Sequence[Figure] = field(default_factory=tuple)
    more: Sequence[Block] = ()
    series: Sequence[Row] = ()  # curves, long form, for the Parquet file; the rows if there are none

    @property
    def blocks(self) -> list[Block]:
        return [Block(self.title, self.rows, self.shown), *self.more]


def publish(results: Results, out: Path | None, as_json: bool, stream: TextIO | None = None) -> None:
    """Print, and with `out` write NAME.json, NAME.parquet and the figures as PNG and SVG."""
    if as_json:
        for row in results.rows:
            print(json.dumps(row, allow_nan=False), file=stream)
    else:
        _print(results, stream)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    blocks = {block.title: {"shown": dict(block.shown), "rows": list(block.rows)} for block in results.blocks}
    facts = {"experiment": results.name, "title": results.title, "notes": list(results.notes), "tables": blocks}
    (out / f"{results.name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    pq.write_table(pa.Table.from_pylist(list(results.series or results.rows)), out / f"{results.name}.parquet")
    for figure in results.figures:
        draw(figure, out)
    if not as_json:
        names = [f"{results.name}.json", f"{results.name}.parquet", *(f"{each.name}.png" for each in results.figures)]
        print(f"written to {out}: {', '.join(names)}{' (and .svg)' if results.figures else ''}", file=stream)


def _print(results: Results, stream: TextIO | None) -> None:
    console = Console(file=stream)
    tables = [_table(block) for block in results.blocks]
    # Figures are never cut: a narrow terminal breaks lines itself, and a pipe has no margin.
    widest = max(console.measure(table, options=console.options.update(width=1_000)).maximum for table in tables)
    console.width = max(console.width, widest) if console.is_terminal else max(200, widest)
    for table in tables:
        console.print(table)
        console.print()
    for note in results.notes:
        console.print(f"- {note}", style="dim", highlight=False)


def _table(block: Block) -> Table:
    table = Table(title=block.title, title_justify="left", title_style="bold", box=None, header_style="dim")
    numeric = {key for key in block.shown if any(isinstance(row.get(key), int | float) for row in block.rows)}
    for key, heading in block.shown.items():
        table.add_column(heading, justify="right" if key in numeric else "left", no_wrap=True)
    for row in block.rows:
        table.add_row(*(cell(row.get(key)) for key in block.shown))
    return table


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 10 else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(block: Block) -> str:
    """The table for a page of the documentation."""
    lines = ["| " + " | ".join(block.shown.values()) + " |", "|" + "---|" * len(block.shown)]
    lines += ["| " + " | ".join(cell(row.get(key)) for key in block.shown) + " |" for row in block.rows]
    return "\n".join(lines) + "\n"
