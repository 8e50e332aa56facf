"""`gossamer import` makes a crawl of WARC files that others wrote."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gossamer.config import Config, meaning, parse_value
from gossamer.repair.import_warc import import_warc


def parser() -> argparse.ArgumentParser:
    about = "Make a crawl of WARC files that others wrote: to query, extract, replay and export it."
    parser = argparse.ArgumentParser(prog="gossamer import", description=about)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.warc.gz", help="WARC files")
    parser.add_argument("--dir", required=True, type=Path, metavar="DIR", help="where the crawl is made")
    parser.add_argument("--simhash", default="0", metavar="SHARE", help=meaning("archive.simhash"))
    return parser


def main(words: Sequence[str]) -> int:
    arguments = parser().parse_args(words)
    config = Config().replace({"archive.simhash": parse_value("archive.simhash", arguments.simhash)})
    found = import_warc(arguments.dir, arguments.files, config)
    damaged = f"; {found.damaged:,} stretches are no records" if found.damaged else ""
    damaged += f"; {found.unusable:,} records lack a URL, a date or an answer" if found.unusable else ""
    print(
        f"gossamer: {arguments.dir} has {found.answers:,} answers of {len(found.pages):,} pages, "
        f"from {found.files:,} file{'s' * (found.files != 1)}{damaged}",
        file=sys.stderr,
    )
    return 0
