"""`gossamer scan` scans a list of websites; `gossamer plan` plans the next scan from what earlier ones took."""

import argparse
import difflib
from pathlib import Path

from gossamer.cli import options
from gossamer.errors import ConfigError
from gossamer.scan.defaults import defaults


def scan_arguments(parser: argparse.ArgumentParser) -> None:
    _add_websites(parser, "; or `join FILE`, to be a client of a federation's scan that runs on another machine")
    parser.add_argument(
        "--dir",
        default=Path("scan"),
        type=options.folder,
        help="the directory that holds all scans of these websites (default: scan)",
    )
    parser.add_argument(
        "--mode",
        choices=("batch", "round-robin", "dynamic"),
        default="dynamic",
        help="how websites are shared among clients: see docs/scan.md (default: dynamic)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--clients", type=Path, metavar="FILE", help="a TOML file that names the clients, instead of --agents"
    )
    where.add_argument(
        "--federation",
        type=Path,
        metavar="FILE",
        help="the file of a federation, whose sites are the clients (see `scan join`)",
    )
    parser.add_argument(
        "--name", metavar="SITE", help="the site that this machine is (default: the first of the federation)"
    )
    parser.add_argument(
        "--coordinator", metavar="SITE", help="with join: the site where the scan runs (default: the first)"
    )
    _add_at_once(parser, 4, " (default: 4)")
    parser.add_argument(
        "--repeat", metavar="EVERY", help="begin the next scan this long after the last one began: 6h, 1d, 2w"
    )
    parser.add_argument(
        "--reference",
        metavar="URL",
        help="a website that every client scans first, so that their speeds can be compared",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the crawls, too: a directory with WARC files for each website"
    )
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
    _add_websites(parser)
    parser.add_argument(
        "--from",
        "--dir",
        dest="dir",
        default=Path("scan"),
        type=options.folder,
        metavar="DIR",
        help="the directory of earlier scans (default: scan)",
    )
    parser.add_argument(
        "--clients",
        type=Path,
        metavar="FILE",
        help="a TOML file that names the clients (default: those of the last scan)",
    )
    _add_at_once(parser, 0)
    parser.add_argument("--planner", default="lpt", metavar="NAME", help="the planner to use (default: lpt)")
    parser.add_argument("--compare", action="store_true", help="compare all planners")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the plan to a .png or .svg file")
    options.add_json(parser, "print one JSON object per line")


def plan(arguments: argparse.Namespace) -> int:
    from gossamer.scan.planning import plan

    return plan(arguments)


def _add_websites(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "websites", nargs="+", metavar="SITES.txt", help=f"a file with one host name or URL per line{more}"
    )


def _add_at_once(parser: argparse.ArgumentParser, default: int, more: str = "") -> None:
    text = f"how many websites a client scans at a time{more}"
    parser.add_argument("--at-once", type=options.positive, default=default, metavar="N", help=text)
