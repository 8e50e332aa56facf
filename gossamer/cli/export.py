"""`gossamer export` writes a crawl to one file, in a format that other programs read."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from gossamer.archive.export import export_cdxj, export_text, export_urls, export_warc
from gossamer.archive.export_items import export_items
from gossamer.cli import options
from gossamer.cli.query import located
from gossamer.errors import ConfigError
from gossamer.watch.figures import size

# Flag: what it does, who does it, and what the rows of the file are called.
_KINDS: dict[str, tuple[str, Callable[..., list[Path] | int], str]] = {
    "warc": ("write WARC to OUT.warc.gz, OUT.warc or a directory", export_warc, ""),
    "cdxj": ("write one sorted CDXJ index", export_cdxj, "CDXJ lines"),
    "items": ("write items as JSON lines, or by OUT's ending as CSV or Parquet", export_items, "items"),
    "urls": ("write one URL per line", export_urls, "URLs"),
    "text": (
        "write the text of pages, as JSON lines, or as Parquet if OUT ends in .parquet",
        export_text,
        "pages' text",
    ),
}


def export_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind, (text, _, _) in _KINDS.items():
        kinds.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind", help=text)
    parser.add_argument("out", metavar="OUT", help="the file to write; - for standard output")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--shard-mb", type=options.positive, default=0, metavar="N", help="items: into several files of about N MB"
    )
    options.add_json(parser, "print as JSON what was written")


def export(arguments: argparse.Namespace) -> int:
    _, write, rows = _KINDS[arguments.kind]
    if arguments.shard_mb and arguments.kind != "items":
        raise ConfigError("--shard-mb is for --items")
    more = {"shard_bytes": arguments.shard_mb << 20} if arguments.shard_mb else {}
    where, code = located(arguments.dir)
    written = write(where, arguments.out, force=arguments.force, **more)
    if arguments.json:
        found = {"files": [str(path) for path in written]} if isinstance(written, list) else {"rows": written}
        report = {"kind": arguments.kind, "out": arguments.out, **found}
        print(json.dumps(report), file=sys.stderr if arguments.out == "-" else sys.stdout)
    elif arguments.out != "-":
        words = _files(written) if isinstance(written, list) else f"{written:,} {rows}"
        print(f"gossamer: wrote {words} to {arguments.out}", file=sys.stderr)
    return code


def _files(paths: list[Path]) -> str:
    of = size(sum(path.stat().st_size for path in paths))
    return f"{of} of WARC" if len(paths) == 1 else f"{len(paths):,} WARC files, {of},"
