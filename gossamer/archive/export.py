"""This module copies what a crawl has gathered to formats that other tools read: WARC, CDXJ, URL lists, text."""

import gzip
import heapq
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.contents import Contents
from gossamer.archive.outputs import check_free, is_stdout, opened, replaced
from gossamer.archive.query import open_reading, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.errors import ConfigError
from gossamer.web.answer import Answer

_COPY_BYTES = 1 << 20
OPEN_FILES = 200
_TEXTS = 64  # pages whose text is in memory at a time
GROUP_CHARACTERS = 16 << 20
_TEXT_SQL = """SELECT url, last_visit AS time, title, language, warc, warc_offset FROM pages
    WHERE status = 'fetched' AND warc <> '' ORDER BY warc, warc_offset"""  # in the order of the files
_URLS_SQL = {
    "all": "SELECT url FROM pages ORDER BY url",
    "fetched": "SELECT url FROM pages WHERE status = 'fetched' ORDER BY url",
}
_TEXT_FIELDS: dict[str, pa.DataType] = {
    "url": pa.string(),
    "time": pa.timestamp("ms", tz="UTC"),
    "title": pa.string(),
    "language": pa.string(),
    "text": pa.string(),
}


def export_warc(where: Where, out: str | Path, force: bool = False) -> list[Path]:
    """Exports all WARC files, and returns where they are now ("-": nowhere).

    OUT.warc.gz gets all records, OUT.warc the same uncompressed; "-" is standard output, compressed. Anything else
    is a directory and gets the files as they are, with the same names and offsets as in CDXJ and the tables.
    """
    if not is_stdout(out) and not str(out).endswith((".warc.gz", ".warc")):
        return reading(where, lambda at: _copy_files(at, Path(out), force))
    return reading(where, lambda at: _concatenate(at, out, force))


def _copy_files(at: Reading, folder: Path, force: bool) -> list[Path]:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; end its name in .warc.gz, or name a directory")
    folder.mkdir(parents=True, exist_ok=True)
    targets = [folder / path.name for path in at.paths("warc")]
    for target in targets:
        check_free(target, force)
    for source, target in zip(at.paths("warc"), targets, strict=True):
        with opened(target, force) as file:
            _append(source, file)
    return targets


def _concatenate(at: Reading, out: str | Path, force: bool) -> list[Path]:
    """Concatenates: gzip members one after the other are a WARC file, and so are their contents."""
    with opened(out, force) as file:
        for source in at.paths("warc"):
            _append(source, file, inflated=str(out).endswith(".warc"))
    return [] if is_stdout(out) else [Path(out)]


def _append(source: Path, file: BinaryIO, inflated: bool = False) -> None:
    with gzip.open(source, "rb") if inflated else source.open("rb") as data:
        shutil.copyfileobj(data, file, _COPY_BYTES)


def export_cdxj(where: Where, out: str | Path, force: bool = False, open_files: int = OPEN_FILES) -> int:
    """Exports one sorted CDXJ of all records; returns its lines. Files and offsets are those of the archive. More than
    `open_files` files are merged in steps."""

    def work(at: Reading) -> int:
        # Scratch files and all sources are opened before the first line is written.
        lines = 0
        with ExitStack() as stack:
            merged = _merged(at.paths("cdxj"), stack, open_files)
            with opened(out, force) as file:
                for line in merged:
                    file.write(line)
                    lines += 1
        return lines

    return reading(where, work)


def _merged(paths: list[Path], stack: ExitStack, most: int) -> Iterator[bytes]:
    """Yields the lines of sorted files, sorted, with a bounded number of files open."""
    files: list[BinaryIO] = []
    if len(paths) > most:
        for start in range(0, len(paths), most):
            scratch = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            with ExitStack() as some:
                scratch.writelines(_merged(paths[start : start + most], some, most))
            scratch.seek(0)
            files.append(scratch)
    else:
        files = [stack.enter_context(path.open("rb", buffering=1 << 16)) for path in paths]
    return heapq.merge(*files)


def export_urls(where: Where, out: str | Path, which: str = "all", force: bool = False) -> int:
    """Exports the URLs of known pages, or of fetched ones, sorted, one per line; returns their number."""
    if which not in _URLS_SQL:
        raise ConfigError(f"urls to export must be one of {', '.join(_URLS_SQL)}, not {which!r}")

    def work(at: Reading) -> int:
        with closing(open_reading(at)) as database, streamed(database, _URLS_SQL[which]) as rows:
            rows = started(rows)
            with opened(out, force) as file:
                return _write_urls(rows, file)

    return reading(where, work)


def _write_urls(rows: pa.RecordBatchReader, file: BinaryIO) -> int:
    written = 0
    for batch in rows:
        urls = batch.column(0).to_pylist()
        file.write("".join(f"{url}\n" for url in urls).encode())
        written += len(urls)
    return written


def export_text(where: Where, out: str | Path, force: bool = False, group_characters: int = GROUP_CHARACTERS) -> int:
    """Exports the text of all fetched pages as JSON lines, or Parquet if OUT ends so; returns their number. A row group
    of Parquet has `group_characters` of text."""

    def work(at: Reading) -> int:
        with (
            closing(open_reading(at)) as database,
            closing(Contents(at)) as contents,
            streamed(database, _TEXT_SQL) as rows,
        ):
            texts = _texts(started(rows), contents)
            if str(out).endswith(".parquet"):
                with replaced(Path(out), force) as part:
                    return _write_parquet(texts, part, group_characters)
            with opened(out, force) as file:
                return _write_lines(texts, file)

    return reading(where, work)


def _texts(batches: pa.RecordBatchReader, contents: Contents) -> Iterator[list[dict[str, Any]]]:
    for batch in batches:
        for start in range(0, batch.num_rows, _TEXTS):
            rows = batch.slice(start, _TEXTS).to_pylist()
            places = [(row.pop("warc"), row.pop("warc_offset")) for row in rows]
            texts = contents.each(places, lambda _, answer: Answer.text(answer))
            yield [row | {"text": text} for row, text in zip(rows, texts, strict=True) if text is not None]


def _write_lines(texts: Iterator[list[dict[str, Any]]], file: BinaryIO) -> int:
    written = 0
    for rows in texts:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_iso)
            file.write(line.encode("utf-8", "replace") + b"\n")
        written += len(rows)
    return written


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds") + "Z"


def _write_parquet(texts: Iterator[list[dict[str, Any]]], path: Path, group_characters: int) -> int:
    schema = pa.schema(_TEXT_FIELDS)
    written = 0
    waiting: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in texts:
            waiting += ({**row, "time": row["time"].replace(tzinfo=UTC)} for row in rows)
            written += len(rows)
            if sum(len(row["text"]) for row in waiting) >= group_characters:
                writer.write_table(pa.Table.from_pylist(waiting, schema))
                waiting = []
        writer.write_table(pa.Table.from_pylist(waiting, schema))
    return written
