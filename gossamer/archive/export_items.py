"""This module exports the items of page functions as JSON lines, CSV or Parquet, in one file or several."""

import csv
import io
import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.outputs import check_free, is_stdout, opened
from gossamer.archive.query import open_reading, started, streamed
from gossamer.archive.reading import Reading, Where, reading
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
    """Each line is an item, as it was yielded."""

    def begin(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, rows: pa.RecordBatch) -> None:
        self._file.write("".join(f"{item}\n" for item in rows.column("item").to_pylist()).encode())

    def end(self) -> None:
        return


class _Csv:
    """A column for each key of any item; nested values are JSON."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys

    def begin(self, file: BinaryIO) -> None:
        self._file = file
        self._lines([["_url", *self._keys]])

    def write(self, rows: pa.RecordBatch) -> None:
        pairs = zip(rows.column("url").to_pylist(), rows.column("item").to_pylist(), strict=True)
        items = ((url, json.loads(item)) for url, item in pairs)
        self._lines([url, *(_cell(item.get(key)) for key in self._keys)] for url, item in items)

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


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "true" if value is True else "false" if value is False else value


def export_items(where: Where, out: str | Path, force: bool = False, shard_bytes: int = 0) -> int:
    """Exports all items; returns how many. The ending of OUT decides: .csv, .parquet, or JSON lines. With `shard_bytes`
    OUT.jsonl becomes OUT-00001.jsonl, OUT-00002.jsonl and so on, each about as large."""
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
            form: _Format = _Lines()
            if str(out).endswith(".csv"):
                form = _Csv([key for (key,) in database.execute(_KEYS_SQL).fetchall()])
            elif str(out).endswith(".parquet"):
                form = _Parquet()
            with streamed(database, "SELECT * FROM items") as rows:
                return _written(started(rows), form, out, force, shard_bytes)

    return reading(where, work)


def _written(rows: pa.RecordBatchReader, form: _Format, out: str | Path, force: bool, shard_bytes: int) -> int:
    names, written, batches = _names(out, shard_bytes), 0, iter(rows)
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
            return written + _remove_others(names, force and bool(shard_bytes))


def _names(out: str | Path, shard_bytes: int) -> Iterator[str | Path]:
    if not shard_bytes:
        return iter([out])
    path = Path(out)
    return (path.with_name(f"{path.stem}-{number:05d}{path.suffix}") for number in itertools.count(1))


def _remove_others(names: Iterator[str | Path], are_ours: bool) -> int:
    """Removes what a larger export left behind under the names that would follow."""
    for name in names if are_ours else ():
        if not Path(name).exists():
            break
        Path(name).unlink()
    return 0
