"""What each command does with its arguments. Modules are imported where they are needed, so that it starts quickly."""

import argparse
import difflib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gossamer import config
from gossamer.cli import options
from gossamer.errors import ConfigError, SeedError

DEMO_DIR = "demo-crawl"
FORMATS = ("table", "csv", "json", "parquet")


def crawl(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from gossamer.api import Crawl
    from gossamer.runtime import tune
    from gossamer.watch.progress import Progress

    loaded, kept = options.going_on(arguments)
    tune()
    crawl = Crawl(arguments.dir, arguments.seeds, loaded)
    progress = Progress(Console(stderr=arguments.json), loaded, quiet=arguments.quiet or arguments.json)
    for warning in [kept] * bool(kept) + loaded.warnings() + _slower():
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


def _slower() -> list[str]:
    """A word to those whose machine had no compiler when Gossamer was installed."""
    from gossamer.web import tree
    from gossamer.web.html import tokenise

    if tokenise is not tree.tokenise:
        return []
    return [
        "links are found by the slower parser, as no compiled one was built here: install a C compiler and Python's "
        "headers (gcc, python3-dev), then Gossamer again with `pip install --force-reinstall --no-deps`"
    ]


def add(arguments: argparse.Namespace) -> int:
    from gossamer.api import Crawl
    from gossamer.cluster.federation_file import check_directory

    added = Crawl(check_directory(Path(arguments.dir))).add(arguments.seeds)
    if arguments.json:
        print(json.dumps({"added": added}))
    else:
        print(f"{added} seeds wait in {arguments.dir}; a running crawl takes them up with its next round")
    return 0


def status(arguments: argparse.Namespace) -> int:
    from gossamer.archive.mark import is_federation
    from gossamer.watch import status

    if is_federation(Path(arguments.dir)):
        raise ConfigError(f"that is the file of a federation: `gossamer federation status {arguments.dir}`")
    found = status.status(Path(arguments.dir))
    _show(found, arguments.json, status.render)
    return 0


def agents(arguments: argparse.Namespace) -> int:
    from gossamer.cluster.federation_file import check_directory
    from gossamer.watch import agents

    directory = check_directory(Path(arguments.dir))
    if arguments.change is None:
        found = agents.agents(directory)
        _show(found, arguments.json, agents.render)
        return 0
    if (arguments.change == "retire") != (arguments.agent is not None):
        raise ConfigError("write `gossamer agents DIR add`, or `gossamer agents DIR retire AGENT`")
    wish = {"retire": arguments.agent} if arguments.agent else {"add": 1}
    agents.change(directory, arguments.agent or "")
    said = f"{arguments.agent} will hand its zones over and leave" if arguments.agent else "another agent will join"
    _show({"wish": wish}, arguments.json, lambda _: f"{said}; `gossamer agents {directory}` shows it")
    return 0


def federation(arguments: argparse.Namespace) -> int:
    from gossamer.cluster import federation as federated
    from gossamer.cluster.federation_file import load
    from gossamer.watch import sites

    federation = load(arguments.file)
    made = federated.prepare(federation)
    if arguments.action == "keys":
        said = f"made for {', '.join(made)}" if made else "every site has its own"
        _show({"made": made}, arguments.json, lambda _: f"certificates in {federation.keys}: {said}")
        return 0
    if arguments.action == "rebalance":
        from gossamer.cluster import rebalance

        proposal = rebalance.propose(federation)
        given = rebalance.carry_out(federation, proposal) if arguments.apply else {}
        plan = {"moves": proposal.rows(), **proposal.summary(), "applied": arguments.apply}
        _show(plan, arguments.json, lambda _: sites.moves(plan, given, arguments.file))
        return 0
    if arguments.action == "adopt":
        if len(arguments.seeds) != 1:
            raise ConfigError(f"write `gossamer federation adopt {arguments.file} SITE`")
        from gossamer.cluster.adoption import adopt

        (lost,) = arguments.seeds
        print(adopt(federation, lost).in_words(arguments.file.parent), file=sys.stderr)
        _watched(federated.SiteRun(arguments.file, lost, []), federation.config, arguments, {})
        return 0
    if arguments.action == "run":
        federated.check_seeds(federation, [*federation.config.crawl.seeds, *arguments.seeds])
        run = federated.FederationRun(federation, [*federation.config.crawl.seeds, *arguments.seeds])
        _watched(run, federation.config, arguments, {})
    if arguments.action == "status" or not (arguments.quiet or arguments.json):
        _show(federated.status(federation), arguments.json, sites.render)
    return 0


def site(arguments: argparse.Namespace) -> int:
    from gossamer.cluster import federation as federated
    from gossamer.cluster.federation_file import load
    from gossamer.runtime import tune

    federation = load(arguments.file)
    tune()
    _watched(federated.SiteRun(arguments.file, arguments.name, arguments.seeds), federation.config, arguments, {})
    return 0


def _watched(crawler: Any, loaded: config.Config, arguments: argparse.Namespace, places: dict[str, str]) -> Any:
    """Run something that crawls, with a display, until it ends or a signal ends it."""
    from rich.console import Console

    from gossamer.api import stopped_by_signals
    from gossamer.watch.progress import Progress, brief

    progress = Progress(Console(stderr=arguments.json), loaded, quiet=arguments.quiet or arguments.json)
    with progress, stopped_by_signals(crawler):
        stats = crawler.run(progress.update)
    progress.finish(stats, places)
    if arguments.json:
        print(json.dumps(stats.as_dict()))
    elif arguments.quiet:
        print(brief(stats))
    return stats


def _archive(arguments: argparse.Namespace) -> Path:
    """What is to be read. Whoever reads a federation is told which of its sites are not on this machine."""
    from gossamer.archive.reading import left_out

    directory = Path(arguments.dir)
    if words := left_out(directory):
        print(f"gossamer: {words}", file=sys.stderr)
    return directory


def query(arguments: argparse.Namespace) -> int:
    from gossamer.archive import query
    from gossamer.archive.mark import holds_scans
    from gossamer.scan import asking

    asked = asking if holds_scans(Path(arguments.dir)) else query
    if arguments.sql.strip().lower() == "tables":
        print(asked.describe())
        return 0
    sql = sys.stdin.read() if arguments.sql == "-" else arguments.sql
    ending = arguments.out.suffix[1:] if arguments.out else ""
    asked.run(_archive(arguments), sql, arguments.format or (ending if ending in FORMATS else "table"), arguments.out)
    return 0


def versions(arguments: argparse.Namespace) -> int:
    from gossamer.archive.versions import versions
    from gossamer.watch.show import versions_report

    found = versions(_archive(arguments), arguments.url)
    if arguments.json:
        for row in found:
            print(json.dumps(row, default=lambda time: f"{time.isoformat(timespec='milliseconds')}Z"))
    else:
        _show(found, False, versions_report)
    return 0


def show(arguments: argparse.Namespace) -> int:
    from gossamer.archive.versions import content, moment, version

    directory = _archive(arguments)
    row = version(directory, arguments.url, moment(arguments.at) if arguments.at else None)
    body = content(directory, row, arguments.text)
    if arguments.json:
        times = {name: f"{row[name].isoformat(timespec='milliseconds')}Z" for name in ("time", "last_visit")}
        print(json.dumps({**row, **times, "content": body.decode(errors="replace")}))
    else:
        sys.stdout.buffer.write(body)
        sys.stdout.flush()
    return 0


def export(arguments: argparse.Namespace) -> int:
    from gossamer.archive import export

    writers: dict[str, Callable[..., list[Path] | int]] = {
        "warc": export.export_warc,
        "cdxj": export.export_cdxj,
        "urls": export.export_urls,
        "text": export.export_text,
    }
    written = writers[arguments.kind](_archive(arguments), arguments.out, force=arguments.force)
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


def restore(arguments: argparse.Namespace) -> int:
    from gossamer.archive.copies import restore

    files = restore(Path(arguments.dir), arguments.disks)
    print(f"{files:,} files restored to {arguments.dir}; `gossamer crawl --dir {arguments.dir}` goes on")
    return 0


def verify(arguments: argparse.Namespace) -> int:
    from gossamer.repair.verify import verify
    from gossamer.watch.show import counting, verify_report

    with counting("verifying") as progress:
        found = verify(Path(arguments.dir), progress)
    _show(found.as_dict(), arguments.json, lambda _: verify_report(found, arguments.dir))
    return 1 if found.faults else 0


def repair(arguments: argparse.Namespace) -> int:
    from gossamer.clocks import RealClock
    from gossamer.repair.repair import Repair, check_idle
    from gossamer.watch.show import counting

    directory = Path(arguments.dir)
    check_idle(directory)
    with counting("verifying") as progress:
        work = Repair(directory, RealClock().now(), progress)
        if arguments.apply:
            plan = work.apply(print)
        else:
            plan = work.plan()
            print("".join(f"{line}\n" for line in plan.words()), end="")
    if not plan:
        print("nothing is damaged")
    elif arguments.dry_run:
        print(f"`gossamer repair {directory} --apply` does that; nothing is deleted")
    return 0


def inspect(arguments: argparse.Namespace) -> int:
    from gossamer.cli.inspect import inspect
    from gossamer.watch.show import inspect_report

    found = inspect(arguments.url, options.configuration(arguments))
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


def print_config(_: argparse.Namespace) -> int:
    print(config.document(), end="")
    return 0


def orders(arguments: argparse.Namespace) -> int:
    from gossamer.frontier.strategies import ORDERS

    if arguments.json:
        print(json.dumps([{"name": s.name, "meaning": s.meaning} for s in ORDERS.values()]))
    else:
        width = max(map(len, ORDERS))
        for strategy in ORDERS.values():
            only = " (only in simulations)" if strategy.score and strategy.score.needs_oracle else ""
            print(f"{strategy.name:{width}} {strategy.meaning}{only}")
    return 0


def scan(arguments: argparse.Namespace) -> int:
    first = arguments.websites[0]
    if not Path(first).exists() and first != "join" and difflib.get_close_matches(first, ["join"]):
        raise ConfigError(f"there is no file {first}; did you mean `gossamer scan join FILE`?")
    if first == "join":
        from gossamer.scan.joining import join

        return join(arguments)
    from gossamer.scan.command import scan

    return scan(arguments, options.given(arguments))


def plan(arguments: argparse.Namespace) -> int:
    from gossamer.scan.planning import plan

    return plan(arguments)


def testweb(arguments: argparse.Namespace) -> int:
    from gossamer.testweb.command import main as testweb

    return testweb(arguments.rest)


def demo(arguments: argparse.Namespace) -> int:
    from gossamer.cli.demo import demo

    return demo(arguments.dir or Path(DEMO_DIR), replace=arguments.dir is None)
