"""This module exports the text of pages as JSON lines or Parquet: all of it, the main text, or Markdown."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.contents import Contents
from gossamer.archive.outputs import check_free, is_stdout, json_line
from gossamer.archive.query import open_reading, permitted, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.archive.shards import Sink, check_options, new_shards, shards, write_shards
from gossamer.errors import ConfigError
from gossamer.web.answer import TEXT_BYTES, Answer

Row = dict[str, Any]
Exported = tuple[str, datetime]  # URL and time of a page that an earlier shard has

GROUP_CHARACTERS = 16 << 20
_TEXTS = 64  # pages whose text is in memory at a time
# Large media have no text, and would be read whole to find out.
WITH_TEXT = """status = 'fetched' AND kind = 'page' AND warc <> ''
    AND NOT regexp_matches(coalesce(content_type, ''), '^(audio|font|image|video)/')"""
# In the order of the files.
TEXT_SQL = f"""SELECT url, last_visit AS time, title, language, noindex, not_for, digest, warc, warc_offset FROM pages
    WHERE {WITH_TEXT} AND {{permitted}} ORDER BY warc, warc_offset"""
_FIELDS: dict[str, pa.DataType] = {
    "url": pa.string(),
    "time": pa.timestamp("ms", tz="UTC"),
    "title": pa.string(),
    "language": pa.string(),
    "noindex": pa.bool_(),
    "not_for": pa.string(),
    "digest": pa.string(),
    "licences": pa.list_(pa.string()),
    "text": pa.string(),
}
_DETECTED: dict[str, pa.DataType] = {"detected_language": pa.string()}


class Form(NamedTuple):
    """`Form` is which text of a page is exported."""

    name: str = "text"  # text, main_text or markdown
    extractor: str = "resiliparse"

    @property
    def is_main(self) -> bool:
        return self.name != "text"

    @property
    def fields(self) -> dict[str, pa.DataType]:
        return _FIELDS | _DETECTED if self.is_main else _FIELDS

    def of(self, answer: Answer) -> str | None:
        if not self.is_main:
            return answer.text()
        return answer.markdown(self.extractor) if self.name == "markdown" else answer.main_text(self.extractor)


WHOLE = Form()


def export_text(
    where: Where,
    out: str | Path,
    force: bool = False,
    group_characters: int = GROUP_CHARACTERS,
    purpose: str = "",
    form: Form = WHOLE,
    shard_bytes: int = 0,
    resume: bool = False,
    is_distinct: bool = False,
    is_quick: bool = False,
) -> int:
    """Exports the text of all fetched pages as JSON lines, or Parquet if OUT ends so; returns their number. A row group
    of Parquet has `group_characters` of text. With a `purpose` without the pages whose publishers refuse it. With
    `shard_bytes` OUT.jsonl becomes OUT-00001.jsonl and so on, each about as large; `resume` keeps those that are there,
    and adds the pages that they do not have. `is_distinct` leaves out pages that nearly repeat an older one; `is_quick`
    is how `gossamer duplicates --quick` finds them."""
    if shard_bytes and is_stdout(out):
        raise ConfigError("--shard-mb needs a file to write to, not -")
    if resume and not shard_bytes:
        raise ConfigError("--resume goes on after the last whole shard: give --shard-mb, too")
    if str(out).endswith(".parquet") and not shard_bytes:
        check_free(Path(out), force)
    sql = TEXT_SQL.format(permitted=permitted(purpose))
    kept = shards(out) if resume else []
    done = _exported(kept)

    def work(at: Reading) -> int:
        options = _options(at, form, purpose, "quick" if is_distinct and is_quick else is_distinct)
        if resume:
            check_options(out, options)
        repeated = _repeated(at, form, is_quick) if is_distinct else frozenset[str]()
        with (
            closing(open_reading(at)) as database,
            closing(Contents(at)) as contents,
            streamed(database, sql) as rows,
        ):
            found = ([row] for row in texts(started(rows), contents, form, done) if row["url"] not in repeated)
            first = list(islice(found, 1))
            if kept and not first:
                return 0
            names = new_shards(out, options, resume, force) if shard_bytes else iter([out])
            return write_shards(chain(first, found), _sink(out, form, group_characters), names, force, shard_bytes)

    return reading(where, work)


def _repeated(at: Reading, form: Form, is_quick: bool) -> frozenset[str]:
    from gossamer.archive.near_duplicates import quick_repeats, repeats

    form = form._replace(name="main_text") if form.is_main else form
    return frozenset(repeat.url for repeat in (quick_repeats(at) if is_quick else repeats(at, form)))


def _options(at: Reading, form: Form, purpose: str, distinct: bool | str) -> dict[str, str | bool]:
    """Returns what decides which pages shards have, and which text of them."""
    crawl = str(at.directory.resolve() if isinstance(at.directory, Path) else at.directory)
    extractor = form.extractor if form.is_main else ""
    return {"crawl": crawl, "form": form.name, "extractor": extractor, "for": purpose, "distinct": distinct}


def _exported(kept: list[Path]) -> set[Exported]:
    """Returns what the shards of an earlier export contain: a shard appears when it is whole."""
    done = set[Exported]()
    for path in kept:
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=["url", "time"])
            done |= set(zip(table["url"].to_pylist(), table["time"].to_pylist(), strict=True))
        else:
            with path.open("rb") as file:
                done |= {(row["url"], datetime.fromisoformat(row["time"])) for row in map(json.loads, file)}
    return done


def texts(
    batches: pa.RecordBatchReader, contents: Contents, form: Form, done: Collection[Exported], is_described: bool = True
) -> Iterator[Row]:
    """Yields rows with the text that their records have; with licences and language, too, if it is to be described.
    Those that are done are left out."""
    for batch in batches:
        for start in range(0, batch.num_rows, _TEXTS):
            rows = [{**row, "time": row["time"].replace(tzinfo=UTC)} for row in batch.slice(start, _TEXTS).to_pylist()]
            rows = [row for row in rows if (row["url"], row["time"]) not in done]
            places = [(row.pop("warc"), row.pop("warc_offset")) for row in rows]
            text_of = _describing(rows, form) if is_described else lambda _, answer: form.of(answer)
            for row, text in zip(rows, contents.each(places, text_of, TEXT_BYTES), strict=True):
                if text is not None:
                    yield {**row, "text": text}


def _describing(rows: list[Row], form: Form) -> Callable[[int, Answer], str | None]:
    def text_of(i: int, answer: Answer) -> str | None:
        text = form.of(answer)
        rows[i]["licences"] = answer.licences()
        if form.is_main:
            from gossamer.web.main_text import language_of

            rows[i]["detected_language"] = language_of(text or "")
        return text

    return text_of


class _Lines:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, rows: list[Row]) -> int:
        self._file.writelines(map(json_line, rows))
        return _characters(rows)

    def close(self) -> None:
        return


class _Parquet:
    def __init__(self, file: BinaryIO, form: Form, group_characters: int) -> None:
        self._schema, self._most = pa.schema(form.fields), group_characters
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[Row] = []
        self._characters = 0

    def write(self, rows: list[Row]) -> int:
        self._waiting += rows
        self._characters += _characters(rows)
        if self._characters >= self._most:
            self._flush()
        return _characters(rows)

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._waiting, self._schema))
        self._waiting, self._characters = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _characters(rows: list[Row]) -> int:
    """Returns how long texts are before they are compressed: so shards have about as many words each."""
    return sum(len(row["text"]) for row in rows)


def _sink(out: str | Path, form: Form, group_characters: int) -> Callable[[BinaryIO], Sink[list[Row]]]:
    if str(out).endswith(".parquet"):
        return lambda file: _Parquet(file, form, group_characters)
    return _Lines
