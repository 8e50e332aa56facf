"""`gossamer federation` runs sites that crawl as one, and looks after them; `gossamer site` runs a single one."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from gossamer.api import stopped_by_signals
from gossamer.cli import options
from gossamer.cli.output import show, watched
from gossamer.cli.watch import add_watch, watching
from gossamer.cluster import federation as federated
from gossamer.cluster import rebalance
from gossamer.cluster.adoption import adopt
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.serving import Serving
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.runtime import tune
from gossamer.watch import sites
from gossamer.watch.progress import brief


def federation_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=_ACTIONS,
        help="run all sites on this machine; show the state of all sites; make their certificates; show which hosts "
        "should change sites; bring a lost site back from its replica; give the edited file to all sites as the next "
        "version of their list; add a site, let one give its hosts away, or declare it lost",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a TOML file; docs/federation.md says what it holds")
    options.add_seeds(
        parser,
        more="; after adopt, retire-site and lose-site, the name of the site; after add-site, its name and HOST:PORT",
    )
    add_watch(parser)
    parser.add_argument("--apply", action="store_true", help="with rebalance: do it, instead of only showing it")
    options.add_quiet(parser)
    options.add_json(parser)


def federation(arguments: argparse.Namespace) -> int:
    federation = load(arguments.file)
    if arguments.action in ("run", "adopt"):
        federated.prepare(federation)
    elif arguments.action != "keys":
        with suppress(ConfigError):  # whoever only asks need not have the authority's key
            federated.prepare(federation)
    _ACTIONS[arguments.action](federation, arguments)
    return 0


def _keys(federation: Federation, arguments: argparse.Namespace) -> None:
    made = federated.prepare(federation)
    word = f"made for {', '.join(made)}" if made else "every site has its own"
    show({"made": made}, arguments.json, lambda _: f"certificates in {federation.keys}: {word}")


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
    proposal = rebalance.propose(federation)
    given = rebalance.carry_out(federation, proposal) if arguments.apply else {}
    plan = {"moves": proposal.rows(), **proposal.summary(), "applied": arguments.apply}
    show(plan, arguments.json, lambda _: sites.moves(plan, given, arguments.file))


def _adopt(federation: Federation, arguments: argparse.Namespace) -> None:
    if len(arguments.seeds) != 1:
        raise ConfigError(f"write `gossamer federation adopt {arguments.file} SITE`")
    (lost,) = arguments.seeds
    print(adopt(federation, lost).in_words(arguments.file.parent), file=sys.stderr)
    _crawl(federated.SiteRun(arguments.file, lost, []), federation.config, arguments)


def _change(federation: Federation, arguments: argparse.Namespace) -> None:
    from gossamer.cluster.changing import change, changed_text

    text = changed_text(federation, arguments.action, arguments.seeds)
    done = change(arguments.file, text)
    with suppress(ConfigError):  # a site that is new needs one
        federated.prepare(load(arguments.file))
    show(
        {"version": done.version, "taken": done.taken, "missing": done.missing},
        arguments.json,
        lambda _: done.in_words(),
    )


_CHANGES = ("set", "add-site", "retire-site", "lose-site")
_ACTIONS = {"run": _run_all, "status": _status, "keys": _keys, "rebalance": _rebalance, "adopt": _adopt}
_ACTIONS |= dict.fromkeys(_CHANGES, _change)


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
            served.run(lambda words: print(f"gossamer: {words}", file=sys.stderr, flush=True))
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
