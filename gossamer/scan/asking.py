"""This module lets SQL read the tables of all scans of a directory."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from gossamer.archive import query
from gossamer.archive.views import quoted
from gossamer.errors import ArchiveError
from gossamer.scan.records import Scans
from gossamer.scan.results import KEPT, SITES, UNREAD
from gossamer.watch.rows import answer

Files = Mapping[str, list[Path]]

_NUMBER = "regexp_extract(filename, '([0-9]+)/[a-z]+[.]parquet$', 1)::INTEGER AS scan"


class Asked(NamedTuple):
    """`Asked` describes a table that can be queried."""

    name: str
    meaning: str
    names: list[str]  # of its columns


TABLES = (
    Asked("links", "links to other websites, as of the last scan", KEPT.names),
    Asked(
        "changes", "links that appeared, are gone, or are unknown since, scan by scan", ["scan", "change", *KEPT.names]
    ),
    Asked("sites", "websites, scan by scan", ["scan", *SITES.names]),
    Asked("unread", "pages that were not read, and why, scan by scan", ["scan", *UNREAD.names]),
)


def run(directory: Path, sql: str, out: str, file: Path | None) -> None:
    """Runs a query on scans, as `watch.rows.run` does on crawls."""
    files = _files(directory)
    paths = [str(path) for each in files.values() for path in each]
    answer(lambda work: work(query.confined(lambda _: _statements(files), paths)), TABLES, sql, out, file)


def describe() -> str:
    return "\n".join(f"{table.name}: {table.meaning}\n  {', '.join(table.names)}" for table in TABLES)


def _files(directory: Path) -> Files:
    """Returns the files of each table, of the scans that are finished."""
    scans = Scans(directory)
    numbers = [record.number for record in scans.ended()]
    if not numbers:
        raise ArchiveError(f"{directory} holds no finished scan yet; `gossamer scan` goes on with the one under way")
    found = {}
    for table in TABLES:
        some = numbers[-1:] if table.name == "links" else numbers
        paths = (scans.folder(number) / f"{table.name}.parquet" for number in some)
        found[table.name] = [path for path in paths if path.exists()]
    return found


def _statements(files: Files) -> Iterator[str]:
    """Yields the views. Columns and tables that earlier versions did not write are empty."""
    for table in TABLES:
        paths = files[table.name]
        there = {"scan"}.union(*(pq.read_schema(path).names for path in paths)) if paths else set()
        names = ", ".join(name if name in there else f"NULL AS {name}" for name in table.names)
        listed = ", ".join(quoted(str(path)) for path in paths)
        rows = f"(SELECT *, {_NUMBER} FROM read_parquet([{listed}], filename = true, union_by_name = true))"
        yield f"CREATE VIEW {table.name} AS SELECT {names} " + (f"FROM {rows}" if paths else "WHERE false")
