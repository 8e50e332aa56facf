"""The command line: parses arguments, calls the package, turns errors into messages and exit codes."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gossamer import __version__, config
from gossamer.errors import ConfigError, GossamerError, SeedError

DEFAULT_DIR = "crawl"
DEMO_DIR = "demo-crawl"
FORMATS = ("table", "csv", "json", "parquet")

# NumPy's linear algebra is not used, but its threads would be started, and spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# flag, configuration key, metavar: the keys that have a flag of their own; all others go through --set.
CRAWL_FLAGS = (
    ("--pages", "crawl.pages", "N"),
    ("--rounds", "crawl.rounds", "N"),
    ("--minutes", "crawl.minutes", "M"),
    ("--agents", "site.agents", "N"),
    ("--width", "crawl.width", "N"),
    ("--scope", "crawl.scope", "host|domain|any"),
    ("--order", "crawl.order", "NAME"),
    ("--topic", "crawl.topic", "WORDS"),
    ("--delay", "polite.delay_s", "S"),
    ("--burst", "polite.burst", "C"),
    ("--connections", "polite.connections", "R"),
    ("--depth", "limits.depth", "N"),
    ("--contact", "fetch.contact", "WHO"),
)
# The same for lists: each time the flag is given adds an item.
CRAWL_LISTS = (
    ("--include", "crawl.include", "PATTERN"),
    ("--exclude", "crawl.exclude", "PATTERN"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    if rest and command not in (_testweb, _lab):  # which have parsers of their own
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gossamer", description="A fast, polite, crash-proof web crawler.")
    parser.add_argument("--version", action="version", version=f"gossamer {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str, **more: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", **more)
        sub.set_defaults(command=command)
        return sub

    sub = add("crawl", _crawl, "crawl from seeds into a directory; the same command again goes on where it was")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line")
    sub.add_argument("--dir", default=DEFAULT_DIR, help=f"holds everything (default: {DEFAULT_DIR})")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true", help="the summary as JSON")
    _add_configuration(sub)

    sub = add("add", _add, "add seeds to a crawl, running or not")
    sub.add_argument("dir", metavar="DIR")
    sub.add_argument("seeds", nargs="+", metavar="URL", help="URL, or a file with one URL per line")
    sub.add_argument("--json", action="store_true")

    sub = add("status", _status, "how a crawl stands")
    sub.add_argument("dir", metavar="DIR", nargs="?", default=DEFAULT_DIR)
    sub.add_argument("--json", action="store_true")

    sub = add("agents", _agents, "who crawls in a directory; one agent more, or one less")
    sub.add_argument("dir", metavar="DIR", nargs="?", default=DEFAULT_DIR)
    sub.add_argument("change", nargs="?", choices=("add", "retire"), help="begin another one, or let one leave")
    sub.add_argument("agent", nargs="?", metavar="AGENT", help="which one is to leave")
    sub.add_argument("--json", action="store_true")

    sub = add("federation", _federation, "several sites that crawl as one, described by a file")
    sub.add_argument("action", choices=("run", "status", "keys"), help="all sites here; how they stand; certificates")
    sub.add_argument("file", metavar="FILE", type=Path, help="TOML; docs/federation.md says what is in it")
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true")

    sub = add("site", _site, "one site of a federation, on its own machine")
    sub.add_argument("action", choices=("run",))
    sub.add_argument("file", metavar="FILE", type=Path)
    sub.add_argument("seeds", nargs="*", metavar="SEED", help="URL, or a file with one URL per line")
    sub.add_argument("--name", required=True, metavar="SITE", help="which one")
    sub.add_argument("--quiet", action="store_true", help="no progress display")
    sub.add_argument("--json", action="store_true")

    sub = add("query", _query, "ask a crawl's archive in SQL")
    sub.add_argument("dir", metavar="DIR", help="or the file of a federation: all its sites at once")
    sub.add_argument("sql", metavar="SQL", help="a query, - for standard input, or `tables` for what there is")
    sub.add_argument("--format", choices=FORMATS, help="default: by the ending of --out, else a table")
    sub.add_argument("--json", action="store_const", const="json", dest="format", help="as --format json")
    sub.add_argument("--out", type=Path, metavar="FILE", help="write there instead of standard output")

    sub = add("export", _export, "write a crawl out in one piece")
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
        "restore", _restore, "make a crawl's directory again of its copies (site.copies), after its disk was lost"
    )
    sub.add_argument("dir", metavar="DIR", help="absent or empty")
    sub.add_argument("disks", metavar="DISK", nargs="+", type=Path, help="directories that were in site.disks")

    sub = add("inspect", _inspect, "how the crawler sees one URL: normal form, robots verdict, answer, links")
    sub.add_argument("url", metavar="URL")
    sub.add_argument("--json", action="store_true")
    _add_configuration(sub)

    sub = add("config", _config, "print a configuration file with every key and its meaning")
    sub = add("orders", _orders, "list the strategies for --order")
    sub.add_argument("--json", action="store_true")

    add("testweb", _testweb, "serve a synthetic web on loopback", add_help=False)
    add("lab", _lab, "simulate crawls: which order, how many connections, what it brings and costs", add_help=False)

    sub = add("demo", _demo, "crawl a test web and answer questions about it")
    sub.add_argument("--dir", type=Path, help=f"must not exist (default: {DEMO_DIR}, made anew each time)")
    return parser


def _add_configuration(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--config", type=Path, metavar="FILE", help="TOML file; `gossamer config` prints one")
    for flag, name, metavar in CRAWL_FLAGS:
        sub.add_argument(flag, dest=name, metavar=metavar, help=config.meaning(name))
    for flag, name, metavar in CRAWL_LISTS:
        sub.add_argument(flag, dest=name, metavar=metavar, action="append", help=config.meaning(name))
    sub.add_argument("--testweb", metavar="ADDRESS:PORT", help="every name is served there (gossamer testweb)")
    sub.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="any other configuration key"
    )


def _configuration(arguments: argparse.Namespace) -> config.Config:
    loaded = config.load(arguments.config) if arguments.config else config.Config()
    return loaded.replace(_given(arguments))


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line says, by `section.key`."""
    values: dict[str, Any] = {}
    for flag, name, _ in CRAWL_FLAGS:
        text = getattr(arguments, name)
        if text is not None:
            try:
                values[name] = config.parse_value(name, text)
            except ConfigError as error:
                raise ConfigError(f"{flag}: {error}") from None
    values |= {name: items for _, name, _ in CRAWL_LISTS if (items := getattr(arguments, name))}
    if arguments.testweb:
        values["resolve.map"] = {"*": arguments.testweb}
    for item in arguments.set:
        name, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write --set section.key=value")
        values[name.strip()] = config.parse_value(name.strip(), text.strip())
    return values


def _going_on(arguments: argparse.Namespace) -> tuple[config.Config, str]:
    """The configuration of a crawl that may have run before, and a word about what it was told then."""
    from gossamer import remembered

    before = None if arguments.config else remembered.recall(Path(arguments.dir))
    if before is None:
        return _configuration(arguments), ""
    given = _given(arguments)
    kept = [f"{name} = {config.toml(value)}" for name, value in remembered.options(before).items() if name not in given]
    said = f"as in the last run ({Path(arguments.dir) / remembered.FILE}): {', '.join(kept)}" if kept else ""
    return before.replace(given), said


def _crawl(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from gossamer.api import Crawl
    from gossamer.crawl.runtime import tune
    from gossamer.watch.progress import Progress

    loaded, kept = _going_on(arguments)
    tune()
    crawl = Crawl(arguments.dir, arguments.seeds, loaded)
    progress = Progress(Console(stderr=arguments.json), loaded, quiet=arguments.quiet or arguments.json)
    for warning in [kept] * bool(kept) + loaded.warnings():
        progress.note(f"gossamer: {warning}")
    with progress:
        stats = crawl.run(progress.update, signals=True)
    progress.finish(stats, crawl.places())
    if arguments.json:
        print(json.dumps(stats.as_dict()))
    if not stats.wire_bytes and (why := crawl.unanswered()):
        is_private = any(f" is {kind}" in why for kind in ("loopback", "private", "link-local"))
        hint = "--set resolve.private=true allows that" if is_private else "check the address and the network"
        raise SeedError(f"no server answered: {why}; {hint}")
    return 0


def _add(arguments: argparse.Namespace) -> int:
    from gossamer.api import Crawl

    added = Crawl(arguments.dir).add(arguments.seeds)
    if arguments.json:
        print(json.dumps({"added": added}))
    else:
        print(f"{added} seeds wait in {arguments.dir}; a running crawl takes them up with its next round")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from gossamer.watch import status

    found = status.status(Path(arguments.dir))
    _show(found, arguments.json, status.render)
    return 0


def _agents(arguments: argparse.Namespace) -> int:
    from gossamer.watch import agents

    directory = Path(arguments.dir)
    if arguments.change is None:
        found = agents.agents(directory)
        _show(found, arguments.json, agents.render)
        return 0
    if (arguments.change == "retire") != (arguments.agent is not None):
        raise ConfigError("write `gossamer agents DIR add`, or `gossamer agents DIR retire AGENT`")
    wish = {"retire": arguments.agent} if arguments.agent else {"add": 1}
    agents.change(directory, wish)
    said = f"{arguments.agent} will hand its zones over and leave" if arguments.agent else "another agent will join"
    _show({"wish": wish}, arguments.json, lambda _: f"{said}; `gossamer agents {directory}` shows it")
    return 0


def _federation(arguments: argparse.Namespace) -> int:
    from gossamer.federation.file import load
    from gossamer.site import federated
    from gossamer.watch import sites

    federation = load(arguments.file)
    made = federated.prepare(federation)
    if arguments.action == "keys":
        said = f"made for {', '.join(made)}" if made else "every site has its own"
        _show({"made": made}, arguments.json, lambda _: f"certificates in {federation.keys}: {said}")
        return 0
    if arguments.action == "run":
        run = federated.FederationRun(federation, [*federation.config.crawl.seeds, *arguments.seeds])
        _watched(run, federation.config, arguments, {})
    if arguments.action == "status" or not (arguments.quiet or arguments.json):
        _show(federated.status(federation), arguments.json, sites.render)
    return 0


def _site(arguments: argparse.Namespace) -> int:
    from gossamer.crawl.runtime import tune
    from gossamer.federation.file import load
    from gossamer.site import federated

    federation = load(arguments.file)
    tune()
    with federated.opened(federation, arguments.name, arguments.seeds) as supervisor:
        _watched(supervisor, federation.config, arguments, {})
    return 0


def _watched(crawler: Any, loaded: config.Config, arguments: argparse.Namespace, places: dict[str, str]) -> Any:
    """Run something that crawls, with a display, until it ends or a signal ends it."""
    from rich.console import Console

    from gossamer.api import stopped_by_signals
    from gossamer.watch.progress import Progress

    progress = Progress(Console(stderr=arguments.json), loaded, quiet=arguments.quiet or arguments.json)
    with progress, stopped_by_signals(crawler):
        stats = crawler.run(progress.update)
    progress.finish(stats, places)
    if arguments.json:
        print(json.dumps(stats.as_dict()))
    return stats


def _query(arguments: argparse.Namespace) -> int:
    from gossamer.archive import query

    if arguments.sql.strip().lower() == "tables":
        print(query.describe())
        return 0
    sql = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    ending = arguments.out.suffix[1:] if arguments.out else ""
    query.run(Path(arguments.dir), sql, arguments.format or (ending if ending in FORMATS else "table"), arguments.out)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from gossamer.archive import export

    writers: dict[str, Callable[..., list[Path] | int]] = {
        "warc": export.export_warc,
        "cdxj": export.export_cdxj,
        "urls": export.export_urls,
        "text": export.export_text,
    }
    written = writers[arguments.kind](Path(arguments.dir), arguments.out, force=arguments.force)
    if arguments.json:
        found = {"kind": arguments.kind, "out": arguments.out}
        found |= {"files": [str(path) for path in written]} if isinstance(written, list) else {"rows": written}
        print(json.dumps(found), file=sys.stderr if arguments.out == "-" else sys.stdout)
    elif arguments.out != "-":
        print(f"gossamer: wrote {_written(arguments.kind, written)} to {arguments.out}", file=sys.stderr)
    return 0


def _written(kind: str, written: list[Path] | int) -> str:
    """What an export wrote, in words."""
    from gossamer.watch.figures import size

    if isinstance(written, list):
        of = size(sum(path.stat().st_size for path in written))
        return f"{of} of WARC" if len(written) == 1 else f"{len(written):,} WARC files, {of},"
    nouns = {"cdxj": "CDXJ lines", "urls": "URLs", "text": "pages' text"}
    return f"{written:,} {nouns[kind]}"


def _restore(arguments: argparse.Namespace) -> int:
    from gossamer.archive.copies import restore

    files = restore(Path(arguments.dir), arguments.disks)
    print(f"{files:,} files restored to {arguments.dir}; `gossamer crawl --dir {arguments.dir}` goes on")
    return 0


def _inspect(arguments: argparse.Namespace) -> int:
    from gossamer.crawl.inspect import inspect
    from gossamer.watch.show import inspect_report

    found = inspect(arguments.url, _configuration(arguments))
    _show(found, arguments.json, inspect_report)
    return 0


def _show(found: Any, as_json: bool, render: Callable[[Any], Any]) -> None:
    if as_json:
        print(json.dumps(found))
    else:
        from rich.console import Console

        shown = render(found)
        if isinstance(shown, str):
            print(shown)
        else:
            Console().print(shown)


def _config(_: argparse.Namespace) -> int:
    print(config.document(), end="")
    return 0


def _orders(arguments: argparse.Namespace) -> int:
    from gossamer.order.strategies import ORDERS

    if arguments.json:
        print(json.dumps([{"name": s.name, "meaning": s.meaning} for s in ORDERS.values()]))
    else:
        width = max(map(len, ORDERS))
        for strategy in ORDERS.values():
            only = " (only in the lab)" if strategy.score and strategy.score.needs_oracle else ""
            print(f"{strategy.name:{width}} {strategy.meaning}{only}")
    return 0


def _testweb(arguments: argparse.Namespace) -> int:
    from gossamer.testweb.command import main as testweb

    return testweb(arguments.rest)


def _lab(arguments: argparse.Namespace) -> int:
    from gossamer.lab.command import main as lab

    return lab(arguments.rest)


def _demo(arguments: argparse.Namespace) -> int:
    from gossamer.watch.demo import demo

    return demo(arguments.dir or Path(DEMO_DIR), replace=arguments.dir is None)
