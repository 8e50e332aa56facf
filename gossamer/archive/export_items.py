"""This module exports the items of page functions as JSON lines, CSV or Parquet, in one file or several."""

import csv
import io
import json
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.outputs import check_free, is_stdout, moment
from gossamer.archive.query import open_reading, permitted, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.archive.shards import Sink, remove_others, shard_names, write_shards
from gossamer.errors import ConfigError

_KEYS_SQL = """SELECT key FROM (SELECT unnest(json_keys(item)) AS key, time, number FROM items)
    GROUP BY key ORDER BY min(time), min(number), key"""

_ENDINGS = ("", ".jsonl", ".ndjson", ".csv", ".parquet")


class _Lines:
    """Each line is an item, as it was yielded; or with its page's URL and time before it."""

    def __init__(self, file: BinaryIO, with_page: bool) -> None:
        self._file, self._with_page = file, with_page

    def write(self, rows: pa.RecordBatch) -> int:
        items = rows.column("item").to_pylist()
        if self._with_page:
            pages = zip(rows.column("url").to_pylist(), rows.column("time").to_pylist(), items, strict=True)
            items = [_with_page(*each) for each in pages]
        return self._file.write("".join(f"{item}\n" for item in items).encode())

    def close(self) -> None:
        return


class _Csv:
    """A column for each key of any item; nested values are JSON."""

    def __init__(self, file: BinaryIO, keys: list[str], with_page: bool) -> None:
        self._file, self._keys, self._with_page = file, keys, with_page
        self._lines([["_url", *["_time"] * with_page, *keys]])

    def write(self, rows: pa.RecordBatch) -> int:
        urls, items = rows.column("url").to_pylist(), map(json.loads, rows.column("item").to_pylist())
        times = [[moment(time)] for time in rows.column("time").to_pylist()] if self._with_page else [[]] * len(urls)
        found = zip(urls, times, items, strict=True)
        return self._lines([url, *time, *(_cell(item.get(key)) for key in self._keys)] for url, time, item in found)

    def _lines(self, rows: Any) -> int:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return self._file.write(text.getvalue().encode("utf-8", "replace"))

    def close(self) -> None:
        return


class _Parquet:
    """The table as it is, with its typed columns."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file, self._writer = file, pq.ParquetWriter(file, schema, compression="zstd")

    def write(self, rows: pa.RecordBatch) -> int:
        before = self._file.tell()
        self._writer.write_batch(rows)
        return self._file.tell() - before

    def close(self) -> None:
        self._writer.close()


def _with_page(url: str, time: datetime, item: str) -> str:
    """Returns an item with _url and _time, unless it has those itself."""
    page = {"_url": url, "_time": moment(time)}
    if '"_url"' in item or '"_time"' in item:
        return json.dumps(page | json.loads(item), ensure_ascii=False)
    return f"{json.dumps(page, ensure_ascii=False)[:-1]}{', ' if item != '{}' else ''}{item[1:]}"


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "true" if value is True else "false" if value is False else value


def export_items(
    where: Where,
    out: str | Path,
    force: bool = False,
    shard_bytes: int = 0,
    purpose: str = "",
    with_page: bool = False,
) -> int:
    """Exports all items; returns how many. The ending of OUT decides: .csv, .parquet, or JSON lines. With `shard_bytes`
    OUT.jsonl becomes OUT-00001.jsonl, OUT-00002.jsonl and so on, each about as large. With a `purpose` without those of
    pages whose publishers refuse it. `with_page` adds the page's URL and time as _url and _time; Parquet has them
    anyway."""
    pages = f" WHERE key IN (SELECT key FROM pages WHERE {permitted(purpose)})" if purpose else ""
    if not is_stdout(out) and Path(out).suffix not in _ENDINGS:
        raise ConfigError(
            f"{out}: items are written as JSON lines, CSV or Parquet: end it in {', '.join(filter(None, _ENDINGS))}"
        )
    if shard_bytes and is_stdout(out):
        raise ConfigError("--shard-mb needs a file to write to, not -")
    if str(out).endswith(".parquet") and not shard_bytes:
        check_free(Path(out), force)

    def work(at: Reading) -> int:
        with closing(open_reading(at)) as database:
            keys = [key for (key,) in database.execute(_KEYS_SQL).fetchall()] if str(out).endswith(".csv") else []
            with streamed(database, f"SELECT * FROM items{pages}") as rows:
                names, sink = shard_names(out, shard_bytes), _sink(out, keys, with_page, rows.schema)
                written = write_shards(iter(started(rows)), sink, names, force, shard_bytes)
            if force:
                remove_others(names)
            return written

    return reading(where, work)


def _sink(
    out: str | Path, keys: list[str], with_page: bool, schema: pa.Schema
) -> Callable[[BinaryIO], Sink[pa.RecordBatch]]:
    if str(out).endswith(".csv"):
        return lambda file: _Csv(file, keys, with_page)
    if str(out).endswith(".parquet"):
        return lambda file: _Parquet(file, schema)
    return lambda file: _Lines(file, with_page)
