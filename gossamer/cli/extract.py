"""`gossamer extract` runs functions over the pages that a crawl has stored, without fetching them again."""

import argparse
import json
import sys
import time

from rich.console import Console

from gossamer.cli import options


def extract_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    add = parser.add_argument
    add("functions", nargs="+", metavar="MODULE:FUNCTION", help="what to run on each page, as for `crawl --extract`")
    add("--where", default="", metavar="SQL", help="only on these visits: a condition on the table `visits`")
    add("--workers", type=options.positive, default=0, metavar="N", help="processes (default: one for each core)")
    options.add_json(parser, "print as JSON what was done")


def extract(arguments: argparse.Namespace) -> int:
    from gossamer.cluster.federation_file import check_directory
    from gossamer.functions.again import extract as run

    with Console(stderr=True).status("running functions") as status:
        done = run(
            check_directory(arguments.dir),
            arguments.functions,
            arguments.where,
            time.time(),
            lambda seen, of: status.update(f"running functions: {seen:,} of {of:,} pages"),
            arguments.workers,
        )
    if arguments.json:
        print(json.dumps(done._asdict()))
    else:
        if done.first_failure:
            print(f"gossamer: {done.first_failure}", file=sys.stderr)
        errors = f", {done.errors:,} errors (see the table function_errors)" if done.errors else ""
        print(f"gossamer: {done.pages:,} pages, {done.items:,} items{errors}", file=sys.stderr)
    return 1 if done.failed == done.pages and not done.items else 0
