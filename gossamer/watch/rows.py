"""This module runs a query and writes its rows as a person or a program wants them: a table, CSV, JSON or Parquet."""

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TextIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from gossamer.archive import query
from gossamer.archive.outputs import replaced
from gossamer.archive.reading import Where, irrevocable
from gossamer.archive.views import TABLES
from gossamer.cluster.location import index_of
from gossamer.errors import QueryError
from gossamer.watch.figures import printable

FORMATS = ("table", "csv", "json", "parquet", "jsonl", "ndjson")

_SHOWN = 200  # rows of a table on the terminal
_SPECIAL = re.compile(r'[",\r\n]')
_CELL = 2_000  # characters of a cell there
_FOLD = 20  # characters of a line that a long cell needs to be readable
_ALIGNED = 1_000  # rows whose widths decide in a pipe, where it is not known how many follow
_PADDED = 100  # there longer cells push the others of their line aside
_EXPLAINED = ["explain_key", "explain_value"]

# Arrow's interval has no name for its three numbers and no Parquet; its time forgets the zone; its decimal is too short
# for 128 bits without a sign; the others it has only as bytes that are not readable, or not at all in Parquet.
_FOREIGN = frozenset(["interval", "time with time zone", "uhugeint", "bit", "bignum", "union"])
_FINE = frozenset(["timestamp_ns", "time_ns"])  # Python's times end at microseconds


def run(where: Where, sql: str, out: str = "table", file: Path | None = None) -> int:
    """Runs SQL, writes the last statement's result to a file or standard output, and returns how many rows."""
    return answer(partial(query.with_database, where, index=index_of), TABLES, sql, out, file)


def answer(opened: query.Opened[int], tables: Sequence[query.Named], sql: str, out: str, file: Path | None) -> int:
    """Does the same with any database: `opened` gives it to the work on it, and closes it."""
    if out not in FORMATS:
        raise QueryError(f"unknown format {out!r}; known are {', '.join(FORMATS)}")
    if out == "parquet" and file is None:
        raise QueryError("Parquet is not for a terminal: name a file to write to")

    def shown(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        return as_text(rows, to_file=out == "parquet")

    return query.answered(opened, tables, sql, lambda rows, total: _write(query.started(rows), total, out, file), shown)


def _write(rows: pa.RecordBatchReader, total: Callable[[], int | None], out: str, file: Path | None) -> int:
    writers = {"table": write_lines, "csv": write_csv, "json": write_json, "jsonl": write_jsonl, "ndjson": write_jsonl}
    if file is None:
        with irrevocable():
            if out == "table" and sys.stdout.isatty():
                return write_table(rows, Console(highlight=False), total)
            return writers[out](rows, sys.stdout)
    with replaced(file, force=True) as part:
        if out == "parquet":
            return write_parquet(rows, part)
        with part.open("w", encoding="utf-8", newline="") as stream:
            return writers[out](rows, stream)


def as_text(rows: duckdb.DuckDBPyRelation, to_file: bool) -> duckdb.DuckDBPyRelation:
    """Returns the same rows, with text for types that Arrow, Python or Parquet cannot hold. A Parquet file (`to_file`)
    keeps nanoseconds, and the keys of maps as they are; in all other formats a key is text."""
    foreign = _FOREIGN if to_file else _FOREIGN | _FINE
    types = [_type(kind, foreign, to_file) for kind in rows.types]
    if all(new == str(old) for new, old in zip(types, rows.types, strict=True)):
        return rows
    columns = enumerate(zip(rows.columns, types, strict=True), 1)
    return rows.project(", ".join(f"CAST(#{place} AS {kind}) AS {_name(name)}" for place, (name, kind) in columns))


def _type(kind: Any, foreign: frozenset[str], to_file: bool) -> str:
    """Returns a type as SQL, with text in place of what is foreign, however deep inside."""
    if kind.id in foreign:
        return "VARCHAR"
    if kind.id not in ("list", "array", "struct", "map"):
        return str(kind)
    parts = {name: part if name == "size" else _type(part, foreign, to_file) for name, part in kind.children}
    if kind.id == "list":
        return f"{parts['child']}[]"
    if kind.id == "array":
        return f"{parts['child']}[{parts['size']}]"
    if kind.id == "map":
        is_kept = to_file and parts["key"] != '"NULL"'
        return f"MAP({parts['key'] if is_kept else 'VARCHAR'}, {parts['value']})"
    return f"STRUCT({', '.join(f'{_name(name)} {part}' for name, part in parts.items())})"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write_table(rows: pa.RecordBatchReader, console: Console, total: Callable[[], int | None]) -> int:
    """Writes the first rows for a terminal, as a table, or one below the other if it would be too wide.

    Returns how many. If there are more, `total` is asked how many there are; it may not know.
    """
    names = rows.schema.names
    seen = list(islice(rows_of(rows), _SHOWN + 1))
    shown = seen[:_SHOWN]
    if names == _EXPLAINED:
        for row in shown:
            console.print(Text(str(row[-1])), soft_wrap=True)
        return len(shown)
    cells = [[shown_cell(value) for value in row] for row in shown]
    if _least_width(names, cells) > console.width:
        _write_records(names, cells, console)
    else:
        console.print(_grid(rows.schema, cells))
    console.print(Text(_count(len(shown)) if len(seen) == len(shown) else _left_out(len(shown), total()), "dim"))
    return len(shown)


def _left_out(shown: int, total: int | None) -> str:
    rest = "there are more" if total is None else f"{total - shown:,} more are left out"
    return f"{shown:,} rows; {rest}: add | less -S or --format csv to see all"


def write_lines(rows: pa.RecordBatchReader, out: TextIO) -> int:
    """Writes the table for a pipe or a file: all rows and whole cells, one line each, as they come; returns how
    many."""
    names = rows.schema.names
    if names == _EXPLAINED:
        return _write_all((f"{row[-1]}\n" for row in rows_of(rows)), out)
    cells = ([shown_cell(value, sys.maxsize).replace("\n", "\\n") for value in row] for row in rows_of(rows))
    first = list(islice(cells, _ALIGNED))
    widths = [min(_PADDED, max(map(cell_len, column))) for column in zip(names, *first, strict=True)]
    is_right = [_is_number(field.type) for field in rows.schema]
    out.write(_line(names, widths, is_right) + "  ".join("─" * width for width in widths) + "\n")
    written = _write_all((_line(row, widths, is_right) for row in chain(first, cells)), out)
    out.write(_count(written) + "\n")
    return written


def _line(cells: list[str], widths: list[int], is_right: list[bool]) -> str:
    pads = (" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
    padded = (pad + cell if right else cell + pad for cell, pad, right in zip(cells, pads, is_right, strict=True))
    return "  ".join(padded).rstrip(" ") + "\n"


def _count(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"


def _least_width(names: list[str], cells: list[list[str]]) -> int:
    """Returns the width that a readable table needs: short cells whole, long ones folded at _FOLD."""
    widths = [min(_FOLD, max(map(cell_len, (name, *(row[i] for row in cells))))) for i, name in enumerate(names)]
    return sum(widths) + 3 * len(widths)


def _grid(schema: pa.Schema, cells: list[list[str]]) -> Table:
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for field in schema:
        justify: JustifyMethod = "right" if _is_number(field.type) else "left"
        table.add_column(Text(field.name), justify=justify, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _is_number(kind: pa.DataType) -> bool:
    return any(check(kind) for check in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _write_records(names: list[str], cells: list[list[str]], console: Console) -> None:
    for number, row in enumerate(cells, 1):
        console.print(Text(f"row {number:,}", "dim"))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            grid.add_row(Text(name), Text(cell))
        console.print(grid)
        console.print()


def write_csv(rows: pa.RecordBatchReader, out: TextIO) -> int:
    """Writes CSV by RFC 4180, but lines end in LF; NULL is empty and an empty text is two quotes."""
    out.write(",".join(map(_csv, rows.schema.names)) + "\n")
    return _write_all((",".join(map(_csv, row)) + "\n" for row in rows_of(rows)), out)


def write_json(rows: pa.RecordBatchReader, out: TextIO) -> int:
    """Writes an array with one object per line: whole it is JSON, and it can be read as it comes."""
    before = chain(["[\n"], repeat(",\n"))
    written = _write_all((begin + text for text, begin in zip(_objects(rows), before, strict=False)), out)
    out.write("\n]\n" if written else "[]\n")
    return written


def write_jsonl(rows: pa.RecordBatchReader, out: TextIO) -> int:
    """Writes JSON lines: one object per line, and nothing else."""
    return _write_all((f"{text}\n" for text in _objects(rows)), out)


def _write_all(texts: Iterable[str], out: TextIO) -> int:
    """Writes texts as they come, and returns how many there were."""
    return sum(1 for text in texts if out.write(text))


def _objects(rows: pa.RecordBatchReader) -> Iterator[str]:
    names = rows.schema.names
    for row in rows_of(rows):
        entry = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        yield json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def write_parquet(rows: pa.RecordBatchReader, path: Path) -> int:
    written = 0
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
            written += batch.num_rows
    return written


def rows_of(batches: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    """Yields rows of plain values."""
    names = batches.schema.names
    for batch in batches:
        yield from zip(*map(_values, batch.columns, names), strict=True)


def _values(column: pa.Array, name: str) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except OverflowError:  # Python's calendar ends there
        raise QueryError(f"{name} is outside the years 1 to 9999: write {name}::VARCHAR to see it") from None
    return values


def shown_cell(value: Any, most: int = _CELL) -> str:
    """Returns a value as text that is safe to show, of at most so many characters."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds" if value.microsecond else "seconds")
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = json.dumps(_plain(value), ensure_ascii=False) if _nested(value) else str(value)
    return printable(text if len(text) <= most else text[:most] + "…")


def _csv(value: Any) -> str:
    # Not csv.writer: it leaves a lone CR unquoted when lines end in LF, and writes NULL and "" alike.
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):  # all its digits
        return f"{value:f}"
    if isinstance(value, float):  # also nan and inf, which only JSON does not know
        return str(value)
    plain = _plain(value)
    text = json.dumps(plain, ensure_ascii=False) if _nested(plain) else str(plain)
    if text and _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"' if isinstance(plain, str) or text else ""


def _nested(value: Any) -> bool:
    return isinstance(value, list | dict)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it: times in ISO 8601, bytes in base64, what is no number null."""
    if isinstance(value, datetime):  # the archive's times are UTC, and the session's zone is too
        digits = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return value.replace(tzinfo=None).isoformat(timespec=digits) + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):  # what sum() makes of whole numbers
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | None) else str(value)
