"""`gossamer federation` runs sites that crawl as one, and looks after them; `gossamer site` runs a single one."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from gossamer.api import stopped_by_signals
from gossamer.cli import options
from gossamer.cli.output import show, watched
from gossamer.cli.watch import add_watch, watching
from gossamer.clocks import RealClock
from gossamer.cluster import federation as federated
from gossamer.cluster import rebalance
from gossamer.cluster.adoption import adopt
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import MISSING
from gossamer.cluster.serving import Serving
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.runtime import tune
from gossamer.watch import sites
from gossamer.watch.progress import brief


def federation_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=(*_ACTIONS, "join"),
        help="run all sites on this machine; show the state of all sites; make their certificates; show which hosts "
        "should change sites; bring a lost site back from its replica; give the edited file to all sites as the next "
        "version of their list; add a site, let one give its hosts away, or declare it lost; invite new machines, and "
        "join from one",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a TOML file; docs/federation.md says what it holds; after join, a token",
    )
    options.add_seeds(
        parser,
        more="; after adopt, retire-site and lose-site, the name of the site; after add-site and invite, its name and "
        "HOST:PORT; after adopt from another machine, its name and a free port of the machine that has its replica",
    )
    parser.add_argument(
        "--minutes", type=float, default=60.0, metavar="M", help="with invite: how long a token serves (60)"
    )
    add_watch(parser)
    parser.add_argument("--apply", action="store_true", help="with rebalance: do it, instead of only showing it")
    parser.add_argument(
        "--repeat", action="store_true", help="do it again whenever federation.rebalance_hours have passed"
    )
    options.add_quiet(parser)
    options.add_json(parser)


def federation(arguments: argparse.Namespace) -> int:
    if arguments.action == "join":
        return _join(arguments)
    federation = load(arguments.file)
    if arguments.action == "run":
        federated.prepare(federation)
    elif arguments.action != "keys":
        federated.prepare_to_ask(federation)
    return _ACTIONS[arguments.action](federation, arguments) or 0


def _keys(federation: Federation, arguments: argparse.Namespace) -> None:
    from gossamer.cluster.renewal import bring

    made, brought = federated.prepare(federation), bring(federation)
    word = f"made for {', '.join(made)}" if made else "every site has its own"
    words = [f"certificates in {federation.keys}: {word}"]
    words += [
        f"  {site} {f'has not got its own: {why}' if why else 'has got its own'}" for site, why in brought.items()
    ]
    show({"made": made, "brought": brought}, arguments.json, lambda _: "\n".join(words))


def _invite(federation: Federation, arguments: argparse.Namespace) -> int:
    """Prints tokens, and waits until the machines have joined. Some may be missing in the end: exit code 1."""
    from gossamer.cluster.inviting import Inviting, invitations

    clock = RealClock()
    machines = invitations(federation, arguments.seeds, arguments.minutes, clock)
    for one in machines:
        site, token = one.token.site, one.token.as_text()
        words = f"on the machine of {site}, within {arguments.minutes:g} minutes:\n  gossamer federation join {token}"
        print(json.dumps({"site": site, "token": token}) if arguments.json else words, flush=True)
    waiting = Inviting(arguments.file, machines, clock, _say)
    with stopped_by_signals(waiting):
        joined = waiting.run()
    missing = [one.token.site for one in machines if one.token.site not in joined]
    if missing:
        _say(f"{', '.join(missing)} did not join; the token is worth nothing any more: invite again")
    return 1 if missing else 0


def _join(arguments: argparse.Namespace) -> int:
    """Joins, and runs the site."""
    try:
        from gossamer.cluster.invitation import Token
        from gossamer.cluster.newcomer import Newcomer
    except ModuleNotFoundError:
        raise ConfigError(MISSING) from None

    token = Token.of_text(str(arguments.file))
    path = Newcomer(token, Path.cwd(), RealClock(), _say).join()
    _say(f"{token.site} has joined; from now on: gossamer site run --name {token.site} {path.name}")
    tune()
    _crawl(federated.SiteRun(path, token.site, arguments.seeds), load(path).config, arguments)
    return 0


def _say(words: str) -> None:
    print(f"gossamer: {words}", file=sys.stderr, flush=True)


def _run_all(federation: Federation, arguments: argparse.Namespace) -> None:
    seeds = [*federation.config.crawl.seeds, *arguments.seeds]
    federated.check_seeds(federation, seeds)
    with watching(arguments.watch, arguments.file):
        _crawl(federated.FederationRun(federation, seeds), federation.config, arguments)
    if not (arguments.quiet or arguments.json):
        _status(federation, arguments)


def _status(federation: Federation, arguments: argparse.Namespace) -> None:
    show(federated.status(federation), arguments.json, sites.render)


def _rebalance(federation: Federation, arguments: argparse.Namespace) -> None:
    if arguments.repeat:
        from gossamer.cluster.rebalancing import Rebalancing

        again = Rebalancing(arguments.file, RealClock(), _say)
        with stopped_by_signals(again):
            again.run()
        return
    proposal = rebalance.propose(federation)
    given = rebalance.carry_out(federation, proposal) if arguments.apply else {}
    plan = {"moves": proposal.rows(), **proposal.summary(), "applied": arguments.apply}
    show(plan, arguments.json, lambda _: sites.moves(plan, given, arguments.file))


def _adopt(federation: Federation, arguments: argparse.Namespace) -> None:
    if len(arguments.seeds) not in (1, 2) or not all(map(str.isdigit, arguments.seeds[1:])):
        raise ConfigError(f"write `gossamer federation adopt {arguments.file} SITE [PORT]`")
    lost, *port = arguments.seeds
    if port:
        from gossamer.cluster.adopting import adopt_elsewhere

        holder = adopt_elsewhere(federation, lost, int(port[0]), datetime.now(UTC))
        _say(f"{lost} runs on the machine of {holder}, from its replica, and gives its hosts away")
        return
    federation.check_site(lost)
    federated.prepare(federation, [lost])
    print(adopt(federation, lost).in_words(arguments.file.parent), file=sys.stderr)
    _crawl(federated.SiteRun(arguments.file, lost, []), federation.config, arguments)


def _change(federation: Federation, arguments: argparse.Namespace) -> None:
    from gossamer.cluster.changing import change, changed_text

    text = changed_text(federation, arguments.action, arguments.seeds)
    done = change(arguments.file, text)
    if arguments.action == "add-site":
        with suppress(ConfigError):
            federated.prepare(load(arguments.file), arguments.seeds[:1])
    show(
        {"version": done.version, "taken": done.taken, "missing": done.missing},
        arguments.json,
        lambda _: done.in_words(),
    )


_CHANGES = ("set", "add-site", "retire-site", "lose-site")
_ACTIONS: dict[str, Callable[[Federation, argparse.Namespace], int | None]] = {
    "run": _run_all, "status": _status, "keys": _keys, "rebalance": _rebalance, "adopt": _adopt, "invite": _invite,
    **dict.fromkeys(_CHANGES, _change),
}  # fmt: skip


def site_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("run", "serve"),
        help="crawl; or, while nobody crawls, let other machines read its archive through its server",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the file of the federation")
    options.add_seeds(parser)
    parser.add_argument("--name", required=True, metavar="SITE", help="the site to run")
    options.add_quiet(parser)
    options.add_json(parser)


def site(arguments: argparse.Namespace) -> int:
    federation = load(arguments.file)
    if arguments.action == "serve":
        served = Serving(federation, arguments.name)
        with stopped_by_signals(served):
            served.run(_say)
        return 0
    tune()
    _crawl(federated.SiteRun(arguments.file, arguments.name, arguments.seeds), federation.config, arguments)
    return 0


def _crawl(crawler: federated.FederationRun | federated.SiteRun, config: Config, arguments: argparse.Namespace) -> None:
    """Crawls, until it ends or a signal ends it."""
    with stopped_by_signals(crawler):
        stats = watched(crawler.run, config, arguments)
    if arguments.quiet and not arguments.json:
        print(brief(stats))
