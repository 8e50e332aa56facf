"""This module is the harness of all experiments: their command line, the options that they share, and what each leaves
behind: a table for people, lines of JSON for programs, files, and figures.

An experiment is a module with a docstring, `options(parser)` and `run(arguments)`; `EXPERIMENTS` names them.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from gossamer.arrays import F64
from gossamer.cli.app import Parser
from gossamer.errors import ConfigError
from gossamer.sim.figures import Figure, draw
from gossamer.sim.numbers import natural, positive

EXPERIMENTS = (
    "order", "robots", "batch", "partition", "realcrawl", "parity", "agents", "sites", "jobs", "refresh",
    "refresh-real", "green", "cloud", "paired", "link-database", "leads-table", "castillo", "cpu-slices", "scale",
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    if arguments.out is not None:  # now, not after everything has been computed
        if arguments.out.exists() and not arguments.out.is_dir():
            raise ConfigError(f"--out {arguments.out} is a file; give a directory")
        arguments.out.mkdir(parents=True, exist_ok=True)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="gossamer lab", description="Run the experiments that compare Gossamer with papers.")
    commands = top.add_subparsers(required=True, metavar="EXPERIMENT")
    for name in EXPERIMENTS:
        experiment = import_module(f"experiments.{name.replace('-', '_')}")
        text = (experiment.__doc__ or "").splitlines()[0]
        sub = commands.add_parser(name, help=text.removeprefix("This experiment ").rstrip("."), description=text)
        sub.add_argument("--json", action="store_true", help="one object per line")
        sub.add_argument("--out", type=Path, metavar="DIR", help="write JSON, Parquet and figures (PNG, SVG) there")
        sub.add_argument("--seed", type=natural, default=0, help="of everything random (default: 0)")
        experiment.options(sub)
        sub.set_defaults(run=experiment.run)
    return top


# --- options that several experiments share: which graph, on which hosts, in which orders, from which pages on


def add_graph(
    parser: argparse.ArgumentParser, made: bool = False, hosts: str = "other hosts: even:N, power:N or cuts:N"
) -> None:
    """`made`: where any graph will do, none need be given."""
    kinds = "npz, list of links, or the directory of a crawl" + (" (default: a made one)" if made else "")
    parser.add_argument("--graph", type=Path, required=not made, help=kinds)
    parser.add_argument("--hosts", default="", metavar="RULE", help=hosts)


def add_orders(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--order", action="append", metavar="NAME", help=f"only these strategies (default: {default})")


def add_starts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=positive, default=50, metavar="N", help="random start pages (default: 50)")


def add_pages(parser: argparse.ArgumentParser, default: str = "all") -> None:
    parser.add_argument("--pages", type=natural, default=0, metavar="N", help=f"only so many (default: {default})")


# --- results


Row = Mapping[str, Any]


def columns(text: str) -> dict[str, str]:
    """The columns of a table, "key: heading | key: heading | key"; a key alone is its own heading."""
    pairs = (part.partition(":") for part in text.split(" | "))
    return {key: heading.strip() if colon else key for key, colon, heading in pairs}


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


# --- statements of the literature, tested on what was just measured


STATEMENTS_SHOWN = {"statement": "statement", "here": "here", "figures": "figures"}


def statement(text: str, holds: object, figures: str) -> dict[str, Any]:
    """`holds`: None if it is open."""
    here = "is open" if holds is None else "holds" if holds else "does not hold"
    return {"statement": text, "here": here, "figures": figures}


@dataclass(frozen=True)
class Claim:
    better: str
    worse: str


CLAIMS_SHOWN = {
    "statement": "statement",
    "here": "here",
    "sets": "in sets",
    "difference": "difference",
    "low": "from",
    "high": "to",
    "p": "p",
    "paper": "Castillo's",
}


def check(claims: Sequence[Claim], averages: Mapping[str, F64], paper: Mapping[str, float]) -> list[dict[str, Any]]:
    """A row for each claim whose strategies were run; the same starts are compared with each other."""
    return [
        _row(claim, averages[claim.better] - averages[claim.worse], paper)
        for claim in claims
        if claim.better in averages and claim.worse in averages
    ]


def _row(claim: Claim, differences: F64, paper: Mapping[str, float]) -> dict[str, Any]:
    wins, count = int((differences > 0).sum()), len(differences)
    theirs = paper[claim.better] - paper[claim.worse] if {claim.better, claim.worse} <= paper.keys() else None
    low, high = _interval(differences)
    return {
        "statement": f"{claim.better} is better than {claim.worse}",
        "here": _verdict(differences, low, high),
        "sets": f"{wins} of {count}",
        "difference": float(differences.mean()),
        "low": low,
        "high": high,
        "p": f"{p_value(differences):.0e}",
        "paper": theirs,
    }


def _interval(differences: F64) -> tuple[float | None, float | None]:
    """Returns the 95 % interval of the mean; of one set there is none."""
    if len(differences) < 2:
        return None, None
    mean, either_side = float(differences.mean()), reach(float(differences.std(ddof=1)), len(differences))
    return mean - either_side, mean + either_side


def reach(deviation: float, count: int) -> float:
    """Returns how far the 95 % interval of a mean reaches to either side (Student's), by the standard deviation of so
    many values."""
    from scipy.stats import t as student

    return float(student.ppf(0.975, count - 1)) * deviation / math.sqrt(count)


def p_value(differences: F64) -> float:
    """Returns that of Wilcoxon's signed-rank test, two-sided; 1 if there is no difference at all."""
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences).pvalue) if differences.any() else 1.0


def _verdict(differences: F64, low: float | None, high: float | None) -> str:
    """Of one set of starts nothing is known for sure."""
    if not differences.any():
        return "no difference"
    if low is None or high is None:
        return "is open"
    return "holds" if low > 0 else "does not hold" if high <= 0 else "is open"
