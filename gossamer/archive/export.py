"""This module copies what a crawl has gathered to formats that other tools read: WARC, CDXJ, URL lists."""

import gzip
import heapq
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from gossamer.archive import cdxj
from gossamer.archive.outputs import check_free, is_stdout, opened
from gossamer.archive.query import open_reading, permitted, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.errors import ConfigError

_COPY_BYTES = 1 << 20
OPEN_FILES = 200
_URLS_SQL = {
    "all": "SELECT url FROM pages WHERE kind = 'page' AND {permitted} ORDER BY url",
    "fetched": "SELECT url FROM pages WHERE status = 'fetched' AND kind = 'page' AND {permitted} ORDER BY url",
}


def export_warc(where: Where, out: str | Path, force: bool = False, index: str | Path = "") -> list[Path]:
    """Exports all WARC files, and returns where they are now ("-": nowhere).

    OUT.warc.gz gets all records, OUT.warc the same uncompressed; "-" is standard output, compressed. Anything else
    is a directory and gets the files as they are, with the same names and offsets as in CDXJ and the tables. `index` is
    a file for the CDXJ of what was exported.
    """
    if index and str(out).endswith(".warc"):
        raise ConfigError(f"--index is for compressed files: export to {out}.gz")
    if index and is_stdout(out):
        raise ConfigError("--index must name the file that has the records: export to OUT.warc.gz")

    def work(at: Reading) -> list[Path]:
        if index:
            check_free(Path(index), force)
        if is_stdout(out) or str(out).endswith((".warc.gz", ".warc")):
            return _indexed(at, _concatenate(at, out, force), index, force)
        return _indexed(at, _copy_files(at, Path(out), force), index, force)

    return reading(where, work)


def _indexed(at: Reading, files: list[Path], index: str | Path, force: bool) -> list[Path]:
    """Writes the CDXJ of exported files, if it is asked for: all in one, or each as it was."""
    if index:
        sources = at.paths("warc")
        places: dict[str, tuple[str, int]] = {}
        if len(files) == 1 and files[0].name not in [source.name for source in sources]:
            ends = accumulate((source.stat().st_size for source in sources), initial=0)
            places = {source.name: (files[0].name, end) for source, end in zip(sources, ends, strict=False)}
        _write_cdxj(at, index, force, OPEN_FILES, places)
    return files


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
    return reading(where, lambda at: _write_cdxj(at, out, force, open_files, {}))


def _write_cdxj(at: Reading, out: str | Path, force: bool, open_files: int, places: dict[str, tuple[str, int]]) -> int:
    # Scratch files and all sources are opened before the first line is written.
    lines = 0
    with ExitStack() as stack:
        merged = merged_lines(at.paths("cdxj"), stack, open_files)
        with opened(out, force) as file:
            # Neither a file's name nor an offset decides the order: URL and time come first in a line.
            for line in cdxj.moved((line.decode("ascii") for line in merged), places) if places else merged:
                file.write(line if isinstance(line, bytes) else line.encode("ascii"))
                lines += 1
    return lines


def merged_lines(paths: list[Path], stack: ExitStack, most: int) -> Iterator[bytes]:
    """Yields the lines of sorted files, sorted, with a bounded number of files open."""
    files: list[BinaryIO] = []
    if len(paths) > most:
        for start in range(0, len(paths), most):
            scratch = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            with ExitStack() as some:
                scratch.writelines(merged_lines(paths[start : start + most], some, most))
            scratch.seek(0)
            files.append(scratch)
    else:
        files = [stack.enter_context(path.open("rb", buffering=1 << 16)) for path in paths]
    return heapq.merge(*files)


def export_urls(where: Where, out: str | Path, which: str = "all", force: bool = False, purpose: str = "") -> int:
    """Exports the URLs of known pages, or of fetched ones, sorted, one per line; returns their number. With a `purpose`
    without those whose publishers refuse it."""
    if which not in _URLS_SQL:
        raise ConfigError(f"urls to export must be one of {', '.join(_URLS_SQL)}, not {which!r}")

    sql = _URLS_SQL[which].format(permitted=permitted(purpose))

    def work(at: Reading) -> int:
        with closing(open_reading(at)) as database, streamed(database, sql) as rows:
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
