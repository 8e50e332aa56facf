"""`gossamer crawl` starts a crawl or resumes it; `add` gives it more seeds, and `reload` other options.

What crawls is imported when its arguments are understood: nobody waits for it who mistypes, or asks for help.
"""

import argparse
import json
import sys

from gossamer.cli import options
from gossamer.cli.output import hint, watched
from gossamer.cli.watch import add_watch, watching
from gossamer.config import load
from gossamer.errors import ConfigError, SeedError


def crawl_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_seeds(parser)
    options.add_place(parser)
    options.add_quiet(parser)
    options.add_json(parser, "print the summary as JSON")
    add_watch(parser)
    options.add_configuration(parser)


def crawl(arguments: argparse.Namespace) -> int:
    config, kept = options.resumed(arguments)
    if dropped := options.dropped_functions(arguments):
        print(f"gossamer: {dropped}", file=sys.stderr)
    from gossamer.runtime import tune

    tune()  # first: what follows makes many objects, of which none is garbage
    from gossamer.api import Crawl
    from gossamer.crawl.stats import CALM

    crawl = Crawl(arguments.dir, arguments.seeds, config)
    notes = [kept] * bool(kept) + config.warnings() + _slower()
    with watching(arguments.watch, arguments.dir):
        stats = watched(lambda show: crawl.run(show, signals=True), config, arguments, notes, crawl.places())
    if not stats.wire_bytes and (why := crawl.unanswered()):
        raise SeedError(f"no server answered: {why}; {hint(why)}")
    if stats.errors and not any(stats.outcomes.get(word) for word in CALM) and (why := crawl.failed()):
        raise SeedError(f"no page could be fetched: {why}; `gossamer status {arguments.dir}` says more")
    return 0


def _slower() -> list[str]:
    """Returns a note for users whose machine had no compiler when Gossamer was installed."""
    from gossamer.web.html import scan

    if scan is not None:
        return []
    return [
        "links are found by the slower parser, as no compiled one was built here: install a C compiler and Python's "
        "headers (gcc, python3-dev), then Gossamer again with `pip install --force-reinstall --no-deps`"
    ]


def reload_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    options.add_configuration(parser)


def reload(arguments: argparse.Namespace) -> int:
    changes = (load(arguments.config).changes() if arguments.config else {}) | options.given(arguments)
    if not changes:
        raise ConfigError("nothing to change: give options, such as --delay 10, or --config FILE")
    from gossamer.api import Crawl
    from gossamer.cluster.federation_file import check_directory

    Crawl(check_directory(arguments.dir)).reload(changes)
    print(f"the crawl in {arguments.dir} commits its round and goes on with other {', '.join(sorted(changes))}")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    options.add_seeds(parser, "+")
    options.add_json(parser)


def add(arguments: argparse.Namespace) -> int:
    from gossamer.api import Crawl
    from gossamer.cluster.federation_file import check_directory

    added = Crawl(check_directory(arguments.dir)).add(arguments.seeds)
    if arguments.json:
        print(json.dumps({"added": added}))
    else:
        seeds = "1 seed waits" if added == 1 else f"{added} seeds wait"
        print(f"{seeds} in {arguments.dir}; a running crawl takes such up with its next round")
    return 0
