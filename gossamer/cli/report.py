"""`gossamer report` writes a page about a crawl, for people who want to know how good it is."""

import argparse
import json
import sys

from gossamer.archive.outputs import opened
from gossamer.cli import options
from gossamer.cli.query import located
from gossamer.errors import ConfigError
from gossamer.watch.quality import examined
from gossamer.watch.quality_page import page


def report_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser, "a crawl, running or not; or a federation's file, for all its sites at once")
    parser.add_argument("--html", metavar="OUT", help="the page to write; - for standard output")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    options.add_json(parser, "print the figures of the page as JSON")


def report(arguments: argparse.Namespace) -> int:
    if arguments.html is None and not arguments.json:
        raise ConfigError("name the page to write, such as --html report.html; or print its figures with --json")
    where, code = located(arguments.dir)
    totals, answers = examined(where)
    if arguments.html is not None:
        with opened(arguments.html, arguments.force) as file:
            file.write(page(str(arguments.dir), totals, answers).encode())
    if arguments.json:
        parts = {each.part.title: [dict(zip(each.names, row, strict=True)) for row in each.rows] for each in answers}
        found = {"totals": totals, "parts": parts}
        print(json.dumps(found, default=str), file=sys.stderr if arguments.html == "-" else sys.stdout)
    elif arguments.html != "-":
        print(f"gossamer: wrote {arguments.html}: open it in a browser", file=sys.stderr)
    return code
