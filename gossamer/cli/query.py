"""`gossamer query` asks a crawl in SQL; `gossamer versions` and `gossamer show` read one page of it."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from gossamer.archive import versions as pages
from gossamer.archive.mark import holds_scans
from gossamer.archive.reading import Location
from gossamer.archive.views import describe
from gossamer.cli import options
from gossamer.cli.output import show as show_result
from gossamer.cluster.location import locate
from gossamer.watch.figures import count, printable, size
from gossamer.watch.rows import FORMATS, run

PARTIAL = 3  # the exit code of an answer that lacks sites of a federation


def query_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    options.add_crawl(parser, "a crawl; or a federation's file, for all its sites at once; or a directory of scans")
    add("sql", metavar="SQL", help="a query; - to read it from standard input; `tables` to list tables and columns")
    add("--format", choices=FORMATS, help="the default goes by the ending of --out, and is a table otherwise")
    add("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    add("--out", type=Path, metavar="FILE", help="write to this file instead of standard output")


def query(arguments: argparse.Namespace) -> int:
    of_scans = isinstance(arguments.dir, Path) and holds_scans(arguments.dir)
    if of_scans:
        from gossamer.scan import asking
    if arguments.sql.strip().lower() == "tables":
        print(asking.describe() if of_scans else describe())
        return 0
    question = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    ending = arguments.out.suffix[1:] if arguments.out else ""
    form = arguments.format or (ending if ending in FORMATS else "table")
    if of_scans:
        asking.run(arguments.dir, question, form, arguments.out)
        return 0
    where, code = located(arguments.dir)
    run(where, question, form, arguments.out)
    return code


def located(name: Path) -> tuple[Location, int]:
    """Returns where the crawl to read is, and the exit code: if some sites cannot be read, the user is informed."""
    location = locate(name)
    if words := location.left_out():
        print(f"gossamer: {words}", file=sys.stderr)
        return location, PARTIAL
    return location, 0


def versions_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    parser.add_argument("url", metavar="URL")
    options.add_json(parser)


def versions(arguments: argparse.Namespace) -> int:
    where, code = located(arguments.dir)
    found = pages.versions(where, arguments.url)
    if arguments.json:
        for row in found:
            print(json.dumps(row, default=_iso))
    else:
        show_result(found, False, versions_report)
    return code


def versions_report(found: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table of the versions of one page, oldest first."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for name, width in {"": 3, "found (UTC)": 19, "last seen": 19, "visits": 6, "status": 6, "bytes": 7}.items():
        table.add_column(name, justify="left" if width == 19 else "right", no_wrap=True, min_width=width)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    for row in found:
        times = [f"{row[name]:%Y-%m-%d %H:%M:%S}" for name in ("time", "last_visit")]
        figures = [count(row["visits"]), str(row["http_status"]), size(row["wire_bytes"])]
        table.add_row(str(row["version"]), *times, *figures, Text(printable(row["title"] or row["location"])))
    return table


def show_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    options.add_crawl(parser)
    add("url", metavar="URL")
    add("--at", metavar="TIME", help="the version of this time, such as 2026-11-16 or 2026-11-16T08:30 (UTC)")
    add("--text", action="store_true", help="print the text that a person reads, without markup")
    options.add_json(parser, "print JSON, with what is known of that visit")


def show(arguments: argparse.Namespace) -> int:
    where, code = located(arguments.dir)
    row = pages.version(where, arguments.url, pages.moment(arguments.at) if arguments.at else None)
    body = pages.content(where, row, arguments.text)
    if arguments.json:
        print(json.dumps({**row, "content": body.decode(errors="replace")}, default=_iso))
    else:
        sys.stdout.buffer.write(body)
        sys.stdout.flush()
    return code


def _iso(time: datetime) -> str:
    return f"{time.isoformat(timespec='milliseconds')}Z"
