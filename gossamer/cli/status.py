"""`gossamer status` shows the state of a crawl; `gossamer agents` shows its agents, and changes how many there are."""

import argparse
from pathlib import Path

import msgspec

from gossamer.archive.mark import is_federation
from gossamer.cli import options
from gossamer.cli.output import show
from gossamer.errors import ConfigError


def status_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_default_crawl(parser)
    parser.add_argument("--check", action="store_true", help="print only what is wrong, and end with 1 if anything is")
    options.add_json(parser)


def status(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return _check(arguments)
    from gossamer.watch import status

    if isinstance(arguments.dir, Path) and is_federation(arguments.dir):
        raise ConfigError(f"that is the file of a federation: `gossamer federation status {arguments.dir}`")
    show(status.status(arguments.dir), arguments.json, status.render)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Judges health as /healthz of `gossamer watch` does."""
    from contextlib import closing

    from gossamer.clocks import RealClock
    from gossamer.watch.monitor import Monitor

    with closing(Monitor(arguments.dir)) as monitor:
        monitor.check()
        monitor.look(RealClock().now())
        monitor.wait()
        found = monitor.health()
    lines = [f"{problem['what']} {problem['do']}" for problem in found["problems"]]
    show(found, arguments.json, lambda _: "\n".join(lines) or f"healthy: {found['state']}")
    return 0 if found["healthy"] else 1


def agents_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_default_crawl(parser)
    parser.add_argument("change", nargs="?", choices=("add", "retire"), help="start another agent, or let one leave")
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="the agent that is to leave")
    options.add_json(parser)


def agents(arguments: argparse.Namespace) -> int:
    from gossamer.cluster.federation_file import check_directory
    from gossamer.watch import agents

    directory = check_directory(arguments.dir)
    if arguments.change is None:
        found = agents.overview(directory)
        show(msgspec.to_builtins(found) if arguments.json else found, arguments.json, agents.render)
        return 0
    if (arguments.change == "retire") != (arguments.agent is not None):
        raise ConfigError("write `gossamer agents DIR add`, or `gossamer agents DIR retire AGENT`")
    wish = {"retire": arguments.agent} if arguments.agent else {"add": 1}
    agents.change(directory, arguments.agent or "")
    word = f"{arguments.agent} will hand its zones over and leave" if arguments.agent else "another agent will join"
    show({"wish": wish}, arguments.json, lambda _: f"{word}; `gossamer agents {directory}` shows it")
    return 0
