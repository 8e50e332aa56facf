"""This module writes a crawl as WACZ: one zip file with WARC files, their index, a list of pages and their digests.

Everything is written as it is read, so that memory does not grow with the crawl. WARC files and the index are stored as
they are: replay reads single records out of the zip file. https://specs.webrecorder.net/wacz/1.1.1/
"""

import gzip
import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from gossamer.archive.contents import Contents
from gossamer.archive.export import OPEN_FILES, merged_lines
from gossamer.archive.export_text import TEXT_SQL, WHOLE, texts
from gossamer.archive.outputs import is_stdout, json_line, moment, opened
from gossamer.archive.query import open_reading, permitted, started, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.errors import ConfigError
from gossamer.version import __version__

_PIECE = 1 << 20
BLOCK_LINES = 3_000  # of the index that are compressed together
_INDEX = "index.cdx.gz"


def export_wacz(
    where: Where, out: str | Path, force: bool = False, title: str = "", block_lines: int = BLOCK_LINES
) -> list[Path]:
    """Exports a crawl as WACZ; returns where it is now. So many lines of the index are compressed together."""
    if is_stdout(out):
        raise ConfigError("a WACZ file is written in several places: name a file, not -")

    def work(at: Reading) -> list[Path]:
        with opened(out, force) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            package = _Package(archive)
            for source in at.paths("warc"):
                package.add(f"archive/{source.name}", _pieces(source))
            _add_index(package, at, block_lines)
            _add_pages(package, at)
            package.close(title or f"Crawl {Path(str(at.directory)).name}")
        return [Path(out)]

    return reading(where, work)


class _Package:
    """`_Package` writes files into the zip file, and notes their sizes and digests."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._resources: list[dict[str, Any]] = []

    def add(self, name: str, pieces: Iterable[bytes], is_compressed: bool = True) -> None:
        """Writes a file. What is compressed already is stored as it is."""
        digest, size = hashlib.sha256(), 0
        with self._open(name, is_compressed) as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                size += len(piece)
        short = name.rpartition("/")[2].lower()
        resource = {"name": short, "path": name, "hash": f"sha256:{digest.hexdigest()}", "bytes": size}
        self._resources.append(resource)

    def close(self, title: str) -> None:
        """Writes what is in the package, and the digest of that."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        description = {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "title": title,
            "created": now,
            "software": f"Gossamer {__version__}",
            "resources": self._resources,
        }
        data = json.dumps(description, indent=2).encode()
        digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        for name, content in (("datapackage.json", data), ("datapackage-digest.json", json.dumps(digest).encode())):
            with self._open(name, is_compressed=False) as file:
                file.write(content)

    def _open(self, name: str, is_compressed: bool) -> Any:
        entry = zipfile.ZipInfo(name, datetime.now(UTC).timetuple()[:6])
        entry.compress_type = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
        return self._archive.open(entry, "w", force_zip64=True)


def _pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _add_index(package: _Package, at: Reading, block_lines: int) -> None:
    """Writes the index as ZipNum: blocks of compressed lines, and a second index of where each block begins."""
    summary = [f"!meta 0 {json.dumps({'format': 'cdxj-gzip-1.0', 'filename': _INDEX})}\n"]
    with ExitStack() as stack:
        lines = merged_lines(at.paths("cdxj"), stack, OPEN_FILES)
        package.add(f"indexes/{_INDEX}", _blocks(lines, summary, block_lines))
    package.add("indexes/index.idx", [line.encode("ascii") for line in summary], is_compressed=False)


def _blocks(lines: Iterator[bytes], summary: list[str], count: int) -> Iterator[bytes]:
    offset = 0
    while block := list(islice(lines, count)):
        member = gzip.compress(b"".join(block), mtime=0)
        first = block[0].split(b" {", 1)[0].decode("ascii")
        place = {"offset": offset, "length": len(member), "digest": f"sha256:{hashlib.sha256(member).hexdigest()}"}
        summary.append(f"{first} {json.dumps({**place, 'filename': _INDEX})}\n")
        offset += len(member)
        yield member


def _add_pages(package: _Package, at: Reading) -> None:
    with (
        closing(open_reading(at)) as database,
        closing(Contents(at)) as contents,
        streamed(database, TEXT_SQL.format(permitted=permitted(""))) as rows,
    ):
        package.add("pages/pages.jsonl", _page_lines(started(rows), contents), is_compressed=False)


def _page_lines(rows: Any, contents: Contents) -> Iterator[bytes]:
    yield json_line({"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": True})
    for number, row in enumerate(texts(rows, contents, WHOLE, set())):
        of_page = {"url": row["url"], "ts": moment(row["time"]), "title": row["title"], "text": row["text"]}
        yield json_line({"id": f"{number}", **of_page})
