"""Columns become Parquet files that say what columns.py says."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from gossamer import columns
from gossamer.archive.store import Directory, Memory
from gossamer.archive.tables import arrow_table, write_table
from gossamer.errors import OutOfSpace

TABLES = [columns.VISITS, columns.PAGES, columns.LINKS, columns.ROBOTS]
VALUES: dict[str, list[Any]] = {
    "string": ["", "é\u4e2d"],
    "dict": ["x", "x"],
    "bool": [True, False],
    "u1": [0, 255],
    "u2": [0, 65535],
    "u4": [0, 2**32 - 1],
    "u8": [0, 2**64 - 1],
    "i8": [-(2**63), 2**63 - 1],
    "f4": [0.5, 2.0],
    "f8": [0.1, 1e300],
    "time": [0.0, 1_700_000_000.9999],
    "binary": [b"", b"\xff\x00"],
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_comes_back(table: columns.Table) -> None:
    store = Memory()
    changes = write_table(store, table, "a0", 7, {c.name: VALUES[c.dtype] for c in table.columns})
    name = f"tables/{table.name}-a0-00000007.parquet"
    assert changes.added == {table.name: [name]}
    read = pq.read_table(store.local(name))
    assert read.schema.equals(table.arrow, check_metadata=False)
    assert read.schema.field(0).metadata[b"meaning"] == table.columns[0].meaning.encode()
    for column in table.columns:
        expected = VALUES[column.dtype]
        if column.dtype == "time":
            cut = datetime(2023, 11, 14, 22, 13, 20, 999_000, tzinfo=UTC)
            expected = [datetime.fromtimestamp(0, UTC), cut]
        assert read.column(column.name).to_pylist() == expected


def test_links_without_a_string_per_link() -> None:
    store = Memory()
    values = {
        "source": np.array([1, 1, 2], np.uint64),
        "target": np.array([5, 6, 5], np.uint64),
        "target_url": (np.array([0, 1, 0]), ["http://a.test/", "http://b.test/"]),
        "verdict": (np.array([0, 1, 0], np.int8), ["followed", "scope"]),
        "kind": "link",
        "round": 3,
    }
    (name,) = write_table(store, columns.LINKS, "a0", 3, values).added["links"]
    path = store.local(name)
    rows = duckdb.sql(f"SELECT source, target_url, verdict, round FROM '{path}' ORDER BY ALL").fetchall()
    assert rows == [
        (1, "http://a.test/", "followed", 3),
        (1, "http://b.test/", "scope", 3),
        (2, "http://a.test/", "followed", 3),
    ]


def test_one_value_for_all_rows() -> None:
    values: dict[str, Any] = {"origin": ["a", "b"], "time": 1.5, "expires": 2.5, "http_status": 200}
    table = arrow_table(columns.ROBOTS, values | {"verdict": "rules", "body": b"x"})
    assert table.column("verdict").to_pylist() == ["rules", "rules"]
    assert table.column("body").to_pylist() == [b"x", b"x"]
    assert table.column("http_status").to_pylist() == [200, 200]
    assert [when.timestamp() for when in table.column("time").to_pylist()] == [1.5, 1.5]


@pytest.mark.parametrize(
    "kinds", [["page"] * 3, ["", "", ""], ["page", "part", "page"], [None] * 3, ["page", None, ""]]
)
def test_a_column_of_few_values_is_a_dictionary_of_these(kinds: list[str | None]) -> None:
    values = {column.name: [0] * 3 for column in columns.LINKS.columns}
    values |= {"target_url": kinds, "verdict": ["followed"] * 3, "kind": kinds}
    found = arrow_table(columns.LINKS, values)
    assert found["kind"].to_pylist() == found["target_url"].to_pylist() == kinds
    assert sorted(found["kind"].chunk(0).dictionary.to_pylist()) == sorted(set(kinds) - {None})


def test_no_rows_no_file() -> None:
    store = Memory()
    assert not write_table(store, columns.PAGES, "a0", 1, {name: [] for name in columns.PAGES.names})
    assert store.list("") == []


def test_columns_must_be_those_of_the_table() -> None:
    with pytest.raises(ValueError, match="colour, kind, round"):
        arrow_table(columns.LINKS, {name: [] for name in ("source", "target", "target_url", "verdict", "colour")})


@pytest.mark.parametrize("wrong", [-1, 2**32, np.array([-1]), np.array([2**32])])
def test_values_out_of_range_are_refused(wrong: Any) -> None:
    values = dict.fromkeys(columns.LINKS.names, 0) | {"target_url": ["u"], "verdict": "followed", "round": wrong}
    with pytest.raises((ValueError, OverflowError)):
        arrow_table(columns.LINKS, values)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", 1.0)
    store.scratch("tables/pages-a0-00000001.parquet").symlink_to("/dev/full")
    with pytest.raises(OutOfSpace):
        write_table(store, columns.PAGES, "a0", 1, {c.name: VALUES[c.dtype] for c in columns.PAGES.columns})
