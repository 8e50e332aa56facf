"""This module exports the items of page functions as JSON lines, CSV or Parquet, in one file or several."""

import csv
import io
import json
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.outputs import check_free, is_stdout, opened
from gossamer.archive.permitted import permitted
from gossamer.archive.query import open_reading, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.archive.shards import remove_others, shard_names
from gossamer.errors import ConfigError

_KEYS_SQL = """SELECT key FROM (SELECT unnest(json_keys(item)) AS key, time, number FROM items)
    GROUP BY key ORDER BY min(time), min(number), key"""

_ENDINGS = ("", ".jsonl", ".ndjson", ".csv", ".parquet")


class _Format(Protocol):
    """`_Format` writes rows of `items` to one file after the other."""

    def begin(self, file: BinaryIO) -> None: ...

    def write(self, rows: pa.RecordBatch) -> None: ...

    def end(self) -> None: ...


class _Lines:
    """Each line is an item, as it was yielded; or with its page's URL and time before it."""

    def __init__(self, with_page: bool) -> None:
        self._with_page = with_page

    def begin(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, rows: pa.RecordBatch) -> None:
        items = rows.column("item").to_pylist()
        if self._with_page:
            pages = zip(rows.column("url").to_pylist(), rows.column("time").to_pylist(), items, strict=True)
            items = [_with_page(*each) for each in pages]
        self._file.write("".join(f"{item}\n" for item in items).encode())

    def end(self) -> None:
        return


class _Csv:
    """A column for each key of any item; nested values are JSON."""

    def __init__(self, keys: list[str], with_page: bool) -> None:
        self._keys, self._with_page = keys, with_page

    def begin(self, file: BinaryIO) -> None:
        self._file = file
        self._lines([["_url", *["_time"] * self._with_page, *self._keys]])

    def write(self, rows: pa.RecordBatch) -> None:
        urls, items = rows.column("url").to_pylist(), map(json.loads, rows.column("item").to_pylist())
        times = [[_moment(time)] for time in rows.column("time").to_pylist()] if self._with_page else [[]] * len(urls)
        found = zip(urls, times, items, strict=True)
        self._lines([url, *time, *(_cell(item.get(key)) for key in self._keys)] for url, time, item in found)

    def _lines(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode("utf-8", "replace"))

    def end(self) -> None:
        return


class _Parquet:
    """The table as it is, with its typed columns."""

    def begin(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer = self._writer or pq.ParquetWriter(self._file, rows.schema, compression="zstd")
        self._writer.write_batch(rows)

    def end(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _with_page(url: str, time: datetime, item: str) -> str:
    """Returns an item with _url and _time, unless it has those itself."""
    page = {"_url": url, "_time": _moment(time)}
    if '"_url"' in item or '"_time"' in item:
        return json.dumps(page | json.loads(item), ensure_ascii=False)
    return f"{json.dumps(page, ensure_ascii=False)[:-1]}{', ' if item != '{}' else ''}{item[1:]}"


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


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
            form: _Format = _Lines(with_page)
            if str(out).endswith(".csv"):
                form = _Csv([key for (key,) in database.execute(_KEYS_SQL).fetchall()], with_page)
            elif str(out).endswith(".parquet"):
                form = _Parquet()
            with streamed(database, f"SELECT * FROM items{pages}") as rows:
                return _written(started(rows), form, out, force, shard_bytes)

    return reading(where, work)


def _written(rows: pa.RecordBatchReader, form: _Format, out: str | Path, force: bool, shard_bytes: int) -> int:
    names, written, batches = shard_names(out, shard_bytes), 0, iter(rows)
    following: pa.RecordBatch | None = next(batches, None)
    while True:
        with ExitStack() as stack:
            file = stack.enter_context(opened(next(names), force))
            form.begin(file)
            while following is not None:
                form.write(following)
                written += following.num_rows
                following = next(batches, None)
                if shard_bytes and file.tell() >= shard_bytes:
                    break
            form.end()
        if following is None:
            if force:
                remove_others(names)
            return written
