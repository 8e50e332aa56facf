"""The command line: parses arguments, calls the package, turns errors into messages and exit codes."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gossamer import __version__, config
from gossamer.cli import commands, migrate, options
from gossamer.config.folders import check_folder
from gossamer.errors import ConfigError, GossamerError
from gossamer.scan.defaults import defaults as scan_defaults

DEFAULT_DIR = "crawl"
_DIR = f"the directory of the crawl (default: {DEFAULT_DIR})"

# NumPy's linear algebra is not used, but its threads would be started, and spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Parser(argparse.ArgumentParser):
    """Says what may have been meant by a word that it does not know. The parsers of its commands are such, too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = [str(choice) for choice in action.choices or ()]
        if value not in (action.choices or ()) and (near := difflib.get_close_matches(str(value), known, 1)):
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}; did you mean {near[0]}?")
        super()._check_value(action, value)


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    if rest and command not in (commands.testweb, commands.lab):  # which have parsers of their own
        _complain(arguments.parser, rest)
    arguments.rest = rest
    try:
        return command(arguments)
    except GossamerError as error:
        print(f"gossamer: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a file or directory that the user named, and we may not touch
        if error.filename is None:
            raise
        print(f"gossamer: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _complain(parser: argparse.ArgumentParser, rest: list[str]) -> None:
    """About what the command does not know, with its own usage, and what may have been meant."""
    known = [option for action in parser._actions for option in action.option_strings]
    meant = difflib.get_close_matches(rest[0].partition("=")[0], known, 1)
    parser.error(f"unrecognized arguments: {' '.join(rest)}" + (f"; did you mean {meant[0]}?" if meant else ""))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="gossamer", description="A fast, polite, crash-proof web crawler.")
    parser.add_argument("--version", action="version", version=f"gossamer {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        sub.set_defaults(command=command, parser=sub)
        return sub

    sub = add("crawl", commands.crawl, "crawl from seeds into a directory; run the same command again to go on")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="a URL, or a file with one URL per line")
    sub.add_argument(
        "--dir", default=DEFAULT_DIR, type=_folder, help=f"the directory that holds the crawl (default: {DEFAULT_DIR})"
    )
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    sub.add_argument("--json", action="store_true", help="print the summary as JSON")
    _add_configuration(sub)

    sub = add("add", commands.add, "add seeds to a crawl, whether it is running or not")
    sub.add_argument("dir", metavar="DIR", type=_folder, help="the directory of the crawl")
    sub.add_argument("seeds", nargs="+", metavar="URL", help="a URL, or a file with one URL per line")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("status", commands.status, "show how a crawl stands")
    sub.add_argument("dir", metavar="DIR", type=_folder, nargs="?", default=DEFAULT_DIR, help=_DIR)
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("agents", commands.agents, "show the agents of a crawl, start another one, or let one leave")
    sub.add_argument("dir", metavar="DIR", type=_folder, nargs="?", default=DEFAULT_DIR, help=_DIR)
    sub.add_argument("change", nargs="?", choices=("add", "retire"), help="start another agent, or let one leave")
    sub.add_argument("agent", nargs="?", metavar="AGENT", help="the agent that is to leave")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("federation", commands.federation, "run several sites that crawl as one, as a file describes them")
    sub.add_argument(
        "action",
        choices=("run", "status", "keys", "rebalance", "adopt"),
        help="run all sites on this machine; show how they stand; make their certificates; show which hosts should "
        "change sites; bring a lost site back from its replica",
    )
    sub.add_argument("file", metavar="FILE", type=Path, help="a TOML file; docs/federation.md says what it holds")
    sub.add_argument(
        "seeds",
        nargs="*",
        metavar="SEED",
        help="a URL, or a file with one URL per line; after adopt, the name of the lost site",
    )
    sub.add_argument("--apply", action="store_true", help="with rebalance: do it, instead of only showing it")
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("site", commands.site, "run one site of a federation on its own machine")
    sub.add_argument("action", choices=("run",))
    sub.add_argument("file", metavar="FILE", type=Path, help="the file of the federation")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="a URL, or a file with one URL per line")
    sub.add_argument("--name", required=True, metavar="SITE", help="the site to run")
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("query", commands.query, "ask a crawl's archive in SQL")
    sub.add_argument(
        "dir",
        metavar="DIR",
        type=_folder,
        help="a crawl; or the file of a federation, for all its sites at once; or a directory of scans",
    )
    sub.add_argument(
        "sql", metavar="SQL", help="a query; - to read it from standard input; `tables` to list tables and columns"
    )
    sub.add_argument(
        "--format", choices=commands.FORMATS, help="the default goes by the ending of --out, and is a table otherwise"
    )
    sub.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    sub.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead of standard output")

    sub = add("versions", commands.versions, "list the versions of one page, as it changed from visit to visit")
    sub.add_argument("dir", metavar="DIR", type=_folder, help="the directory of the crawl")
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("show", commands.show, "print a page as it was stored, in its last version or in that of an earlier time")
    sub.add_argument("dir", metavar="DIR", type=_folder, help="the directory of the crawl")
    sub.add_argument("url", metavar="URL")
    sub.add_argument(
        "--at", metavar="TIME", help="the version of this time, such as 2026-11-16 or 2026-11-16T08:30 (UTC)"
    )
    sub.add_argument("--text", action="store_true", help="print the text that a person reads, without markup")
    sub.add_argument("--json", action="store_true", help="print JSON, with what is known of that visit")

    sub = add("export", commands.export, "write a crawl to one file, in a format that other programs read")
    sub.add_argument("dir", metavar="DIR", type=_folder, help="the directory of the crawl")
    kind = sub.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--warc",
        action="store_const",
        const="warc",
        dest="kind",
        help="write WARC to OUT.warc.gz, OUT.warc or a directory",
    )
    kind.add_argument("--cdxj", action="store_const", const="cdxj", dest="kind", help="write one sorted CDXJ index")
    kind.add_argument("--urls", action="store_const", const="urls", dest="kind", help="write one URL per line")
    kind.add_argument(
        "--text",
        action="store_const",
        const="text",
        dest="kind",
        help="write the text of pages, as JSON lines, or as Parquet if OUT ends in .parquet",
    )
    sub.add_argument("out", metavar="OUT", help="the file to write; - for standard output")
    sub.add_argument("--force", action="store_true", help="replace OUT if it exists")
    sub.add_argument("--json", action="store_true", help="say as JSON what was written")

    sub = add(
        "restore",
        commands.restore,
        "rebuild the directory of a crawl from its copies (site.copies), after its disk was lost",
    )
    sub.add_argument("dir", metavar="DIR", type=_folder, help="the directory to rebuild; it must be absent or empty")
    sub.add_argument("disks", metavar="DISK", nargs="+", type=_disk, help="a directory that was listed in site.disks")

    sub = add("verify", commands.verify, "check every file of a crawl: is it there, and is it as it was written")
    sub.add_argument("dir", metavar="DIR", type=_folder)
    sub.add_argument("--json", action="store_true", help="print JSON")

    sub = add("repair", commands.repair, "mend the directory of a crawl from what is left of it; nothing is deleted")
    sub.add_argument("dir", metavar="DIR", type=_folder)
    what = sub.add_mutually_exclusive_group(required=True)
    what.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    what.add_argument("--apply", action="store_true", help="do it")

    sub = add("migrate", migrate.migrate, "bring the directory of a crawl that an earlier version made up to date")
    migrate.add_to(sub)

    sub = add(
        "inspect",
        commands.inspect,
        "show how the crawler sees one URL: its normal form, what robots.txt says, the answer, the links",
    )
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--json", action="store_true", help="print JSON")
    _add_configuration(sub)

    _add_scan(add)

    sub = add("config", commands.print_config, "print a configuration file with every key and its meaning")
    sub = add("orders", commands.orders, "list the strategies for --order")
    sub.add_argument("--json", action="store_true", help="print JSON")

    add("testweb", commands.testweb, "serve a synthetic web on loopback", add_help=False)
    add(
        "lab",
        commands.lab,
        "simulate crawls, to see which order and how many connections bring and cost how much",
        add_help=False,
    )

    sub = add("demo", commands.demo, "crawl a test web and answer questions about it")
    sub.add_argument(
        "--dir",
        type=_disk,
        help=f"a directory that does not exist yet (default: {commands.DEMO_DIR}, made anew each time)",
    )
    return parser


def _add_scan(add: Callable[..., argparse.ArgumentParser]) -> None:
    sub = add(
        "scan",
        commands.scan,
        "scan a list of websites to a depth, once or regularly, for links that lead away from them",
    )
    sub.add_argument(
        "websites", nargs="+", metavar="SITES.txt",
        help="a file with one host name or URL per line; or `join FILE`, to be a client of a federation's scan that "
        "runs on another machine",
    )  # fmt: skip
    sub.add_argument(
        "--dir",
        default="scan",
        type=_folder,
        help="the directory that holds all scans of these websites (default: scan)",
    )
    sub.add_argument(
        "--mode",
        choices=("batch", "round-robin", "dynamic"),
        default="dynamic",
        help="how websites are shared among clients: see docs/scan.md (default: dynamic)",
    )
    where = sub.add_mutually_exclusive_group()
    where.add_argument(
        "--clients", type=Path, metavar="FILE", help="a TOML file that names the clients, instead of --agents"
    )
    where.add_argument(
        "--federation",
        type=Path,
        metavar="FILE",
        help="the file of a federation, whose sites are the clients (see `scan join`)",
    )
    sub.add_argument(
        "--name", metavar="SITE", help="the site that this machine is (default: the first of the federation)"
    )
    sub.add_argument(
        "--coordinator", metavar="SITE", help="with join: the site where the scan runs (default: the first)"
    )
    sub.add_argument(
        "--at-once",
        type=_positive,
        default=4,
        metavar="N",
        help="how many websites a client scans at a time (default: 4)",
    )
    sub.add_argument(
        "--repeat", metavar="EVERY", help="begin the next scan this long after the last one began: 6h, 1d, 2w"
    )
    sub.add_argument(
        "--reference",
        metavar="URL",
        help="a website that every client scans first, so that their speeds can be compared",
    )
    sub.add_argument(
        "--keep", action="store_true", help="keep the crawls, too: a directory with WARC files for each website"
    )
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    sub.add_argument("--json", action="store_true", help="print one JSON object per scan")
    _add_configuration(sub, scan_defaults())

    sub = add(
        "plan", commands.plan, "plan which client should scan which websites next, and say how long that will take"
    )
    sub.add_argument("websites", nargs="+", metavar="SITES.txt", help="a file with one host name or URL per line")
    sub.add_argument(
        "--from",
        "--dir",
        dest="dir",
        default="scan",
        type=_folder,
        metavar="DIR",
        help="the directory of earlier scans (default: scan)",
    )
    sub.add_argument(
        "--clients",
        type=Path,
        metavar="FILE",
        help="a TOML file that names the clients (default: those of the last scan)",
    )
    sub.add_argument(
        "--at-once", type=_positive, default=0, metavar="N", help="how many websites a client scans at a time"
    )
    sub.add_argument("--planner", default="lpt", metavar="NAME", help="the planner to use (default: lpt)")
    sub.add_argument("--compare", action="store_true", help="compare all planners")
    sub.add_argument("--figure", type=Path, metavar="FILE", help="draw the plan to a .png or .svg file")
    sub.add_argument("--json", action="store_true", help="print one JSON object per line")


def _folder(name: str) -> str:
    try:
        return check_folder(name)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _disk(name: str) -> Path:
    return Path(_folder(name))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _add_configuration(sub: argparse.ArgumentParser, base: config.Config | None = None) -> None:
    sub.add_argument(
        "--config", type=Path, metavar="FILE", help="a TOML file with the configuration; `gossamer config` prints one"
    )
    for flag, name, metavar in options.FLAGS:
        sub.add_argument(flag, dest=name, metavar=metavar, help=config.meaning(name, base))
    for flag, name, metavar in options.LISTS:
        sub.add_argument(flag, dest=name, metavar=metavar, action="append", help=config.meaning(name))
    sub.add_argument(
        "--testweb",
        metavar="ADDRESS:PORT",
        help="crawl the test web at this address of this machine (see `gossamer testweb`)",
    )
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="set any other key of the configuration"
    )
