"""This module reads what experiments have on record: the tables of docs/*/*.json."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.harness import Row

DOCS = Path(__file__).resolve().parents[1] / "docs"


@cache
def record(name: str) -> dict[str, Any]:
    """Returns the tables of docs/NAME.json by title; the first has the title "" too."""
    facts = json.loads((DOCS / f"{name}.json").read_text())
    tables = {title: block["rows"] for title, block in facts["tables"].items()}
    return {"": tables[facts["title"]], **tables}


def find(name: str, title: str = "", **wanted: object) -> Row:
    """Returns the one row that has these values."""
    (row,) = (row for row in record(name)[title] if all(row.get(key) == value for key, value in wanted.items()))
    found: Row = row
    return found


class Difference(NamedTuple):
    """A mean difference on one graph, and the 95 % interval of it."""

    graph: str
    mean: float
    low: float
    high: float
    is_held_out: bool

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def paired(order: str, sign: int = 1, starts: str = "random pages") -> list[Difference]:
    """Returns the difference to OPIC on each graph, turned around if the sign is -1."""
    rows = (row for row in record("lab/paired")[""] if row["order"] == order and row["starts"] == starts)
    return [difference(row, row["graph"], sign) for row in rows]


def difference(row: Row, graph: str, sign: int = 1) -> Difference:
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return Difference(graph, sign * row["difference"], low, high, row["kind"] == "held out")


def verdict(found: Iterable[Difference]) -> str:
    """Returns on how many graphs the interval is above zero, and on how many it is below."""
    found = list(found)
    above, below = sum(each.low > 0 for each in found), sum(each.high < 0 for each in found)
    return f"on {above} of {len(found)}" + (f"; the opposite on {below}" if below else "")


def ends(found: Iterable[Difference]) -> str:
    """Returns the least and the largest mean with their intervals."""
    found = list(found)
    low, high = min(found, key=lambda each: each.mean), max(found, key=lambda each: each.mean)
    return f"{low} ({low.graph})" if low == high else f"{low} ({low.graph}) to {high} ({high.graph})"
