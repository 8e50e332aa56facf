"""The command line: parses arguments, calls the package, turns errors into messages and exit codes."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gossamer import __version__, commands, config
from gossamer.errors import ConfigError, GossamerError
from gossamer.scan.defaults import defaults as scan_defaults

DEFAULT_DIR = "crawl"

# NumPy's linear algebra is not used, but its threads would be started, and spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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
    parser = argparse.ArgumentParser(prog="gossamer", description="A fast, polite, crash-proof web crawler.")
    parser.add_argument("--version", action="version", version=f"gossamer {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        sub.set_defaults(command=command, parser=sub)
        return sub

    sub = add("crawl", commands.crawl, "crawl from seeds into a directory; the same command again goes on where it was")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line")
    sub.add_argument("--dir", default=DEFAULT_DIR, help=f"holds everything (default: {DEFAULT_DIR})")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true", help="the summary as JSON")
    _add_configuration(sub)

    sub = add("add", commands.add, "add seeds to a crawl, running or not")
    sub.add_argument("dir", metavar="DIR")
    sub.add_argument("seeds", nargs="+", metavar="URL", help="URL, or a file with one URL per line")
    sub.add_argument("--json", action="store_true")

    sub = add("status", commands.status, "how a crawl stands")
    sub.add_argument("dir", metavar="DIR", nargs="?", default=DEFAULT_DIR)
    sub.add_argument("--json", action="store_true")

    sub = add("agents", commands.agents, "who crawls in a directory; one agent more, or one less")
    sub.add_argument("dir", metavar="DIR", nargs="?", default=DEFAULT_DIR)
    sub.add_argument("change", nargs="?", choices=("add", "retire"), help="begin another one, or let one leave")
    sub.add_argument("agent", nargs="?", metavar="AGENT", help="which one is to leave")
    sub.add_argument("--json", action="store_true")

    sub = add("federation", commands.federation, "several sites that crawl as one, described by a file")
    sub.add_argument(
        "action",
        choices=("run", "status", "keys", "rebalance", "adopt"),
        help="all sites here; how they stand; certificates; which hosts should change sites; a lost site's replica",
    )
    sub.add_argument("file", metavar="FILE", type=Path, help="TOML; docs/federation.md says what is in it")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line; adopt: the site")
    sub.add_argument("--apply", action="store_true", help="rebalance: not only show it, do it")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true")

    sub = add("site", commands.site, "one site of a federation, on its own machine")
    sub.add_argument("action", choices=("run",))
    sub.add_argument("file", metavar="FILE", type=Path)
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line")
    sub.add_argument("--name", required=True, metavar="SITE", help="which one")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true")

    sub = add("query", commands.query, "ask a crawl's archive in SQL")
    sub.add_argument(
        "dir", metavar="DIR", help="or the file of a federation: all its sites at once; or a directory of scans"
    )
    sub.add_argument("sql", metavar="SQL", help="a query, - for standard input, or `tables` for what there is")
    sub.add_argument("--format", choices=commands.FORMATS, help="default: by the ending of --out, else a table")
    sub.add_argument("--json", action="store_const", const="json", dest="format", help="as --format json")
    sub.add_argument("--out", type=Path, metavar="FILE", help="write there instead of standard output")

    sub = add("versions", commands.versions, "what was found at one URL, visit by visit, as it changed")
    sub.add_argument("dir", metavar="DIR")
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--json", action="store_true")

    sub = add("show", commands.show, "print a page as it was stored: its last version, or the one of a time")
    sub.add_argument("dir", metavar="DIR")
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--at", metavar="TIME", help="like 2026-11-16 or 2026-11-16T08:30 (UTC)")
    sub.add_argument("--text", action="store_true", help="what a person reads, without markup")
    sub.add_argument("--json", action="store_true", help="with what is known of that visit")

    sub = add("export", commands.export, "write a crawl out in one piece")
    sub.add_argument("dir", metavar="DIR")
    kind = sub.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--warc", action="store_const", const="warc", dest="kind", help="OUT.warc.gz, OUT.warc or a directory"
    )
    kind.add_argument("--cdxj", action="store_const", const="cdxj", dest="kind", help="one sorted index")
    kind.add_argument("--urls", action="store_const", const="urls", dest="kind", help="one URL per line")
    kind.add_argument("--text", action="store_const", const="text", dest="kind", help="JSON lines, or .parquet")
    sub.add_argument("out", metavar="OUT", help="file; - for standard output")
    sub.add_argument("--force", action="store_true", help="replace OUT")
    sub.add_argument("--json", action="store_true", help="what was written, as JSON")

    sub = add(
        "restore",
        commands.restore,
        "make a crawl's directory again of its copies (site.copies), after its disk was lost",
    )
    sub.add_argument("dir", metavar="DIR", help="absent or empty")
    sub.add_argument("disks", metavar="DISK", nargs="+", type=Path, help="directories that were in site.disks")

    sub = add("inspect", commands.inspect, "how the crawler sees one URL: normal form, robots verdict, answer, links")
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--json", action="store_true")
    _add_configuration(sub)

    _add_scan(add)

    sub = add("config", commands.print_config, "print a configuration file with every key and its meaning")
    sub = add("orders", commands.orders, "list the strategies for --order")
    sub.add_argument("--json", action="store_true")

    add("testweb", commands.testweb, "serve a synthetic web on loopback", add_help=False)
    add(
        "lab",
        commands.lab,
        "simulate crawls: which order, how many connections, what it brings and costs",
        add_help=False,
    )

    sub = add("demo", commands.demo, "crawl a test web and answer questions about it")
    sub.add_argument("--dir", type=Path, help=f"must not exist (default: {commands.DEMO_DIR}, made anew each time)")
    return parser


def _add_scan(add: Callable[..., argparse.ArgumentParser]) -> None:
    sub = add("scan", commands.scan, "scan a list of websites to a depth, again and again, for links that lead away")
    sub.add_argument(
        "websites", nargs="+", metavar="SITES.txt",
        help="one host name or URL per line; or `join FILE`: be a client of a federation's scan on another machine",
    )  # fmt: skip
    sub.add_argument("--dir", default="scan", help="holds all scans of these websites (default: scan)")
    sub.add_argument(
        "--mode", choices=("batch", "round-robin", "dynamic"), default="dynamic", help="(default: dynamic)"
    )
    where = sub.add_mutually_exclusive_group()
    where.add_argument("--clients", type=Path, metavar="FILE", help="TOML: clients by name, instead of --agents")
    where.add_argument("--federation", type=Path, metavar="FILE", help="its sites are the clients: see `scan join`")
    sub.add_argument("--name", metavar="SITE", help="of the federation: which this machine is (default: the first)")
    sub.add_argument("--coordinator", metavar="SITE", help="join: where the scan runs (default: the first)")
    sub.add_argument(
        "--at-once", type=_positive, default=4, metavar="N", help="websites that a client scans at a time (4)"
    )
    sub.add_argument("--repeat", metavar="EVERY", help="such as 6h, 1d or 2w: scan again so long after each beginning")
    sub.add_argument("--reference", metavar="URL", help="a site that every client scans first, to compare their speeds")
    sub.add_argument("--keep", action="store_true", help="keep the crawls too: a directory for each website, with WARC")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true", help="one object per scan")
    _add_configuration(sub, scan_defaults())

    sub = add("plan", commands.plan, "which client should scan which websites next, and how long that will take")
    sub.add_argument("websites", nargs="+", metavar="SITES.txt", help="one host name or URL per line")
    sub.add_argument(
        "--from", "--dir", dest="dir", default="scan", metavar="DIR", help="of earlier scans (default: scan)"
    )
    sub.add_argument(
        "--clients", type=Path, metavar="FILE", help="TOML: clients by name (default: those of the last scan)"
    )
    sub.add_argument("--at-once", type=_positive, default=0, metavar="N", help="websites that a client scans at a time")
    sub.add_argument("--planner", default="lpt", metavar="NAME", help="(default: lpt)")
    sub.add_argument("--compare", action="store_true", help="all planners")
    sub.add_argument("--figure", type=Path, metavar="FILE", help="draw the plan: .png or .svg")
    sub.add_argument("--json", action="store_true", help="one object per line")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _add_configuration(sub: argparse.ArgumentParser, base: config.Config | None = None) -> None:
    sub.add_argument("--config", type=Path, metavar="FILE", help="TOML file; `gossamer config` prints one")
    for flag, name, metavar in commands.FLAGS:
        sub.add_argument(flag, dest=name, metavar=metavar, help=config.meaning(name, base))
    for flag, name, metavar in commands.LISTS:
        sub.add_argument(flag, dest=name, metavar=metavar, action="append", help=config.meaning(name))
    sub.add_argument("--testweb", metavar="ADDRESS:PORT", help="every name is served there (gossamer testweb)")
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any other configuration key"
    )
