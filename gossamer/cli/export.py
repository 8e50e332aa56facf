"""`gossamer export` writes a crawl to one file, in a format that other programs read."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gossamer.archive.export import export_cdxj, export_urls, export_warc
from gossamer.archive.export_items import export_items
from gossamer.archive.export_text import Form, export_text
from gossamer.archive.shards import shards
from gossamer.archive.wacz import export_wacz
from gossamer.cli import options
from gossamer.cli.query import located
from gossamer.config import PURPOSES
from gossamer.config.folders import as_place, folder_of
from gossamer.config.last_run import recall
from gossamer.errors import ConfigError
from gossamer.watch.figures import size
from gossamer.web.main_text import EXTRACTORS

# Flag: what it does, who does it, and what the rows of the file are called.
_KINDS: dict[str, tuple[str, Callable[..., list[Path] | int], str]] = {
    "warc": ("write WARC to OUT.warc.gz, OUT.warc or a directory", export_warc, ""),
    "wacz": ("write WARC, index, pages and their text as one WACZ file (docs/archives.md)", export_wacz, ""),
    "cdxj": ("write one sorted CDXJ index", export_cdxj, "CDXJ lines"),
    "items": ("write items as JSON lines, or by OUT's ending as CSV or Parquet", export_items, "items"),
    "urls": ("write one URL per line", export_urls, "URLs"),
    "text": (
        "write the text of pages, as JSON lines, or as Parquet if OUT ends in .parquet",
        export_text,
        "pages' text",
    ),
    "main-text": ("write the same without what surrounds a page's own text (docs/text.md)", export_text, "pages' text"),
    "markdown": ("write that as Markdown", export_text, "pages' text"),
}

_TEXTS = ("text", "main-text", "markdown")
_BY_PAGE = (*_TEXTS, "urls", "items")  # what can be chosen page by page
_SHARDED = (*_TEXTS, "items")


def export_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    kinds = parser.add_mutually_exclusive_group(required=True)
    for kind, (text, _, _) in _KINDS.items():
        kinds.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind", help=text)
    parser.add_argument("out", metavar="OUT", help="the file to write; - for standard output")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--shard-mb", type=options.positive, default=0, metavar="N", help="text, items: several files of about N MB"
    )
    parser.add_argument("--resume", action="store_true", help="text: keep the shards that are there, and add the rest")
    parser.add_argument("--distinct", action="store_true", help="text: leave out pages that nearly repeat an older one")
    parser.add_argument(
        "--quick", action="store_true", help="with --distinct: compare as `gossamer duplicates --quick`"
    )
    parser.add_argument("--extractor", choices=EXTRACTORS, default=EXTRACTORS[0], help="what finds the main text")
    parser.add_argument(
        "--with-page", action="store_true", help="items: add the page's URL (_url) and the time of its visit (_time)"
    )
    parser.add_argument(
        "--for",
        dest="purpose",
        choices=PURPOSES,
        default="",
        metavar="PURPOSE",
        help=f"text, urls, items: leave out pages whose publishers refuse this use; one of {', '.join(PURPOSES)}",
    )
    parser.add_argument("--index", metavar="FILE", help="warc: write the CDXJ of the exported records, too")
    options.add_json(parser, "print as JSON what was written")


def export(arguments: argparse.Namespace) -> int:
    _, write, rows = _KINDS[arguments.kind]
    if arguments.shard_mb and arguments.kind not in _SHARDED:
        raise ConfigError(f"--shard-mb is for {', '.join(f'--{kind}' for kind in _SHARDED)}")
    if arguments.resume and arguments.kind not in _TEXTS:
        raise ConfigError(f"--resume is for {', '.join(f'--{kind}' for kind in _TEXTS)}")
    if arguments.with_page and arguments.kind != "items":
        raise ConfigError("--with-page is for --items")
    if arguments.purpose and arguments.kind not in _BY_PAGE:
        raise ConfigError(f"--for is for {', '.join(f'--{kind}' for kind in _BY_PAGE)}: WARC files are copied whole")
    more: dict[str, Any] = {"shard_bytes": arguments.shard_mb << 20} if arguments.shard_mb else {}
    if arguments.distinct and arguments.kind not in _TEXTS:
        raise ConfigError(f"--distinct is for {', '.join(f'--{kind}' for kind in _TEXTS)}")
    if arguments.quick and not arguments.distinct:
        raise ConfigError("--quick is for --distinct")
    if arguments.kind in _TEXTS:
        more |= {"form": Form(arguments.kind.replace("-", "_"), arguments.extractor), "resume": arguments.resume}
        more |= {"is_distinct": arguments.distinct, "is_quick": arguments.quick}
    if arguments.purpose:
        more["purpose"] = arguments.purpose
    if arguments.with_page:
        more["with_page"] = True
    if arguments.index and arguments.kind != "warc":
        raise ConfigError("--index is for --warc; --cdxj alone writes the index of the crawl's own files")
    if arguments.index:
        more["index"] = arguments.index
    where, code = located(arguments.dir)
    if arguments.kind == "wacz" and (before := recall(folder_of(as_place(arguments.dir)))):
        more["title"] = before.archive.description
    written = write(where, arguments.out, force=arguments.force, **more)
    if arguments.json:
        found = {"files": [str(path) for path in written]} if isinstance(written, list) else {"rows": written}
        report: dict[str, Any] = {"kind": arguments.kind, "out": arguments.out, **found}
        if arguments.shard_mb:
            report["shards"] = [str(path) for path in shards(arguments.out)]
        print(json.dumps(report), file=sys.stderr if arguments.out == "-" else sys.stdout)
    elif arguments.out != "-":
        words = _files(written, arguments.kind) if isinstance(written, list) else f"{written:,} {rows}"
        place = f"; shards: {_shards(arguments.out)}" if arguments.shard_mb else f" to {arguments.out}"
        print(f"gossamer: wrote {words}{place}", file=sys.stderr)
    return code


def _shards(out: str) -> str:
    there = shards(out)
    return f"{there[0]} to {there[-1].name}" if len(there) > 1 else f"{there[0]}"


def _files(paths: list[Path], kind: str) -> str:
    of = size(sum(path.stat().st_size for path in paths))
    if kind == "wacz":
        return f"{of} of WACZ"
    return f"{of} of WARC" if len(paths) == 1 else f"{len(paths):,} WARC files, {of},"
