"""`gossamer scan` scans a list of websites; `gossamer plan` plans the next scan from what earlier ones took."""

import argparse
import difflib
from pathlib import Path

from gossamer.cli import options
from gossamer.errors import ConfigError
from gossamer.scan.defaults import MODES, defaults


def scan_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_websites(parser, "; or `join FILE`, to be a client of a federation's scan that runs on another machine")
    options.add_folder(parser, "--dir", "scan", "the directory that holds all scans of these websites")
    add(
        "--mode",
        choices=MODES,
        default="dynamic",
        help="how clients share websites (docs/scan.md; default: dynamic)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--clients", type=Path, metavar="FILE", help="a TOML file of clients, instead of --agents")
    where.add_argument("--federation", type=Path, metavar="FILE", help="a federation's file: its sites are the clients")
    add("--name", metavar="SITE", help="the site that this machine is (default: the first of the federation)")
    add("--coordinator", metavar="SITE", help="with join: the site where the scan runs (default: the first)")
    _add_at_once(parser, 4, " (default: 4)")
    add("--repeat", metavar="EVERY", help="begin the next scan this long after the last one began: 6h, 1d, 2w")
    add("--reference", metavar="URL", help="a website that every client scans first, to compare their speeds")
    add("--keep", action="store_true", help="keep the crawls, too: a directory with WARC files for each client")
    options.add_quiet(parser)
    options.add_json(parser, "print one JSON object per scan")
    options.add_configuration(parser, defaults())


def scan(arguments: argparse.Namespace) -> int:
    first = arguments.websites[0]
    if not Path(first).exists() and first != "join" and difflib.get_close_matches(first, ["join"]):
        raise ConfigError(f"there is no file {first}; did you mean `gossamer scan join FILE`?")
    if first == "join":
        from gossamer.scan.joining import join

        return join(arguments)
    from gossamer.scan.command import scan

    return scan(arguments, options.given(arguments))


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_websites(parser)
    options.add_folder(parser, "--from", "scan", "the directory of earlier scans", "--dir")
    add("--clients", type=Path, metavar="FILE", help="a TOML file of clients (default: those of the last scan)")
    _add_at_once(parser, 0)
    add("--planner", default="lpt", metavar="NAME", help="the planner to use (default: lpt)")
    add("--compare", action="store_true", help="compare all planners")
    add("--figure", type=Path, metavar="FILE", help="draw the plan to a .png or .svg file")
    options.add_json(parser, "print one JSON object per line")


def plan(arguments: argparse.Namespace) -> int:
    from gossamer.scan.planning import plan

    return plan(arguments)


def _add_websites(parser: argparse.ArgumentParser, more: str = "") -> None:
    text = f"a file with one host name or URL per line{more}"
    parser.add_argument("websites", nargs="+", metavar="SITES.txt", help=text)


def _add_at_once(parser: argparse.ArgumentParser, default: int, more: str = "") -> None:
    text = f"how many websites a client scans at a time{more}"
    parser.add_argument("--at-once", type=options.positive, default=default, metavar="N", help=text)
