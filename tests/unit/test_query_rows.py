import csv
import io
import json
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gossamer.watch.figures import printable
from gossamer.watch.rows import write_csv, write_json, write_lines, write_table


def reader(table: pa.Table) -> pa.RecordBatchReader:
    return table.to_reader(max_chunksize=2)


def shown(table: pa.Table, width: int = 80, total: int | None = None) -> str:
    """On a terminal."""
    console = Console(file=io.StringIO(), width=width)
    write_table(reader(table), console, lambda: total)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@given(st.text())
def test_nothing_that_moves_the_cursor_is_printed(text: str) -> None:
    safe = printable(text)
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in safe)
    assert printable(safe) == safe


def test_a_hostile_title_is_harmless() -> None:
    text = shown(pa.table({"title": ["\x1b[2J\x1b]0;owned\x07", "[bold]not markup[/bold]"]}))
    assert "\x1b" not in text
    assert "[bold]not markup[/bold]" in text


def test_wide_results_are_shown_row_by_row() -> None:
    table = pa.table({f"column{i}": ["x" * 30, "y" * 30] for i in range(6)})
    assert "row 2" in shown(table)
    assert "row 2" not in shown(table, width=200)
    assert "2 rows" in shown(table)


def test_long_results_are_cut_and_say_so() -> None:
    table = pa.table({"n": list(range(500))})
    assert "200 rows; 300 more are left out: add | less -S or --format csv to see all" in shown(table, total=500)
    assert "200 rows; there are more: add | less -S" in shown(table)
    assert "1 row\n" in shown(pa.table({"n": [1]}))


def piped(table: pa.Table) -> list[str]:
    out = io.StringIO()
    assert write_lines(reader(table), out) == table.num_rows
    return out.getvalue().splitlines()


def test_in_a_pipe_all_rows_come_whole_one_line_each() -> None:
    lines = piped(pa.table({"n": list(range(5_000)), "text": ["x" * 3_000] * 5_000}))
    assert len(lines) == 5_003  # names, a line, and the count
    assert lines[-2].split() == ["4999", "x" * 3_000]
    assert lines[-1] == "5,000 rows"


def test_in_a_pipe_columns_are_aligned() -> None:
    table = pa.table({"url": ["a", "ü" * 10, None], "n": [1, 200, None], "note": ["one\ntwo", "\x1b[2J", ""]})
    assert piped(table) == [
        "url           n  note",
        "──────────  ───  ────────",
        "a             1  one\\ntwo",
        "üüüüüüüüüü  200  \\x1b[2J",
        "",
        "3 rows",
    ]
    assert piped(pa.table({"n": pa.array([], pa.int64())})) == ["n", "─", "0 rows"]


def test_cells() -> None:
    text = shown(pa.table({"a": [b"abc"], "b": [0.1 + 0.2], "c": [None], "d": [True], "e": ["z" * 3000]}))
    assert "3 bytes" in text
    assert "0.3" in text
    assert "true" in text
    assert "…" in text


_ROW = st.tuples(
    st.none() | st.text(st.characters(codec="utf-8")),
    st.none() | st.integers(0, 2**64 - 1),
    st.none() | st.floats(),
    st.none() | st.binary(),
)


@given(st.lists(_ROW))
def test_json_and_csv_lose_nothing(values: list[tuple[str | None, int | None, float | None, bytes | None]]) -> None:
    columns = list(zip(*values, strict=True)) or [(), (), (), ()]
    kinds = [pa.string(), pa.uint64(), pa.float64(), pa.binary()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    table = pa.table(arrays, names=["text", "number", "real", "bytes"])
    out = io.StringIO()
    assert write_json(reader(table), out) == len(values)
    found = json.loads(out.getvalue())
    assert [(row["text"], row["number"]) for row in found] == [(text, number) for text, number, *_ in values]
    out = io.StringIO(newline="")
    assert write_csv(reader(table), out) == len(values)
    out.seek(0)
    lines = list(csv.reader(out))
    assert [line[0] for line in lines[1:]] == [text or "" for text, *_ in values]


def test_json_values() -> None:
    table = pa.table(
        {
            "sum": pa.array([Decimal(12)], pa.decimal128(38, 0)),
            "part": pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
            "list": [[1, 2]],
            "struct": [{"a": b"x", "b": float("nan")}],
        }
    )
    out = io.StringIO()
    write_json(reader(table), out)
    assert json.loads(out.getvalue()) == [{"sum": 12, "part": 1.5, "list": [1, 2], "struct": {"a": "eA==", "b": None}}]


def test_csv_tells_null_from_nothing() -> None:
    out = io.StringIO()
    write_csv(reader(pa.table({"a": ["", None, 'x"y', "l\rm"], "b": [True, None, False, True]})), out)
    assert out.getvalue() == 'a,b\n"",true\n,\n"x""y",false\n"l\rm",true\n'
