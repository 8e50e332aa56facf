"""`gossamer simulate` predicts what a crawl would bring; `gossamer lab` runs the experiments of a clone."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.sim.numbers import natural, part, positive, span

if TYPE_CHECKING:  # numba takes seconds to import: only who simulates waits for it
    from gossamer.arrays import F64
    from gossamer.sim.comparison import Forecast
    from gossamer.sim.graphs import Graph
    from gossamer.sim.simulator import Knowledge

MISSING = "simulations need numba, scipy and matplotlib: pip install 'gossamer-crawler[lab]'"
NO_CLONE = (
    "experiments are run from a clone of the repository (`python -m experiments NAME` there); "
    "the simulator is `gossamer simulate`"
)
ORDERS = ("breadth-first", "opic", "opic-foreign", "larger-sites-first")
_COLUMNS = {
    "order": "order",
    "connections": "connections",
    "pages": "pages",
    "hours": "hours",
    "average": "average PageRank",
    "at_10_percent": "after a tenth",
    "half_hours": "hours to half of it",
    "busy": "busy connections",
}


def simulate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        type=Path,
        help="the directory of a crawl; or a list of links, two columns per line; or an .npz file (see docs/lab.md)",
    )
    several = f"an order to try, several times for several (default: {', '.join(ORDERS)}); `gossamer orders` lists them"
    parser.add_argument("--order", action="append", metavar="NAME", help=several)
    several = f"connections at a time, several times to compare (default: {_POLITE.connections})"
    parser.add_argument("--connections", action="append", type=positive, metavar="N", help=several)
    for flag, kind, default, metavar, text in _OPTIONS:
        parser.add_argument(flag, type=kind, default=default, metavar=metavar, help=text)
    whole = "of a crawl's directory: pages, bytes and hours of the crawl that goes on to the end"
    parser.add_argument("--forecast", action="store_true", help=whole)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


_POLITE = Config().polite
_OPTIONS: tuple[tuple[str, Callable[[str], Any], Any, str, str], ...] = (
    ("--delay", span, None, "S", f"seconds between two connections to a host ({_POLITE.delay_s:g}; of a forecast:"
     " that of the crawl)"),
    ("--small-delay", span, 0.0, "S", "the same for hosts with few pages; 0: no difference"),
    ("--small-pages", natural, _POLITE.small_pages, "N", f"below so many pages a host has few ({_POLITE.small_pages})"),
    ("--burst", positive, 1, "N", "pages per connection (default: 1)"),
    ("--burst-delay", span, 0.0, "S", "seconds between the pages of a connection (default: 0)"),
    ("--bandwidth", span, 0.0, "B", "of your own link, in bytes per second (default: no limit)"),
    ("--width", natural, 0, "N", "choose so many pages at a time, in rounds as a crawl does (default: one)"),
    ("--early", part, 0.0, "PART", "with --width: plain batches; one ends when less than this part is busy"),
    ("--advance", part, 0.0, "PART", "with --width: plain batches; more is chosen when this part of one is left"),
    ("--pages", natural, 0, "N", "stop after so many pages (default: all)"),
    ("--starts", natural, 0, "N", "begin with so many random pages (default: where the crawl began, or else 50)"),
    ("--hosts", str, "", "RULE", "put the pages on other hosts: even:N, power:N or cuts:N"),
    ("--topic", str, "", "WORDS", "for the order `relevance`; GRAPH must be a crawl's directory"),
    ("--history", Path, None, "DIR", "an earlier crawl, for orders that remember one"),
    ("--rescore", natural, 0, "N", "pages between two computations of PageRank orders (default: a 35th of all)"),
    ("--seed", natural, 0, "N", "of everything random (default: 0)"),
    ("--figure", Path, None, "FILE", "draw the curves to a .png or .svg file"),
)  # fmt: skip


def simulate(arguments: argparse.Namespace) -> int:
    if arguments.forecast:
        return _forecast(arguments)
    if arguments.delay is None:
        arguments.delay = _POLITE.delay_s
    _check_installed()
    from gossamer.frontier.strategies import strategy
    from gossamer.sim.comparison import Way, compare, start_pages
    from gossamer.sim.graphs import load

    if arguments.figure and arguments.figure.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure {arguments.figure}: name a .png or an .svg file")
    if (arguments.early or arguments.advance) and not arguments.width:
        raise ConfigError("--early and --advance are for batches: give --width, the pages of a batch")
    orders = [strategy(name) for name in arguments.order or ORDERS]
    graph = load(arguments.graph, arguments.hosts)
    starts = start_pages(graph, arguments.starts, arguments.seed)
    knowledge = _knowledge(graph, arguments)
    connections = arguments.connections or [Config().polite.connections]
    ways = [Way(order, _conditions(arguments, count)) for order in orders for count in connections]
    found = compare(graph, ways, starts, knowledge, arguments.pages)
    rows = [_row(each) for each in found]
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print(f"{graph.name}: {graph.pages:,} pages, {graph.links:,} links, {graph.rule}; start pages: {len(starts):,}")
        if not graph.has_hosts:
            print("its hosts come from a rule (--hosts), and hours and orders that rank hosts depend on it")
        _print(rows)
    if arguments.figure:
        assert knowledge.oracle is not None
        _draw(arguments.figure, graph, found, knowledge.oracle)
    return 0


def _forecast(arguments: argparse.Namespace) -> int:
    from gossamer.sim.outlook import outlook
    from gossamer.watch.figures import size
    from gossamer.watch.figures import span as in_words

    if not arguments.graph.is_dir():
        raise ConfigError(f"--forecast needs the directory of a crawl; {arguments.graph} is none")
    counts = arguments.connections or [None]
    for count in counts:
        found = outlook(arguments.graph, arguments.delay, count)
        if arguments.json:
            print(json.dumps({"connections": count, **asdict(found)}))
            continue
        if count is counts[0]:
            whole = "nothing is left, the crawl is complete" if found.is_complete else "the whole crawl, 90 % sure"
            print(f"{found.visited:,} pages are visited and {found.known:,} known; {whole}:")
        at = f" with {count:,} connections" if count else ""
        for name, say in (("pages", lambda n: f"{n:,.0f}"), ("wire_bytes", size), ("seconds", in_words)):
            low, value, high = (say(each) for each in getattr(found, name))
            between = f" ({low} to {high})" * (len({*getattr(found, name)}) > 1)
            print(f"  {name.replace('wire_', '').replace('seconds', 'time')}{at}: {value}{between}")
        if found.seconds.low < found.seconds.high:
            print(
                f"  what decides how long it takes: {found.limit}; retries of failed pages are not counted in the time"
            )
        else:
            print("  the time is from the first request to the last, whatever was waited for")
    return 0


def lab(words: Sequence[str]) -> int:
    """Runs experiments, in a clone only: they are not part of the installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "experiments" / "harness.py").is_file():
        raise ConfigError(NO_CLONE)
    _check_installed()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    run: Callable[[Sequence[str]], int] = import_module("experiments.harness").main
    return run(words)


def _check_installed() -> None:
    try:
        for name in ("matplotlib", "numba", "scipy"):
            import_module(name)
    except ImportError:
        raise ConfigError(MISSING) from None


def _conditions(arguments: argparse.Namespace, connections: int) -> Any:
    """Returns the conditions that the configuration sets; rounds are as a crawl with this configuration makes them."""
    from gossamer.crawl.scheduler import per_host
    from gossamer.sim.simulator import Conditions, Rounds

    rounds = None
    if arguments.width and not (arguments.early or arguments.advance):
        same = {"polite.delay_s": arguments.delay, "polite.burst": arguments.burst, "crawl.width": arguments.width}
        rounds = Rounds(*per_host(Config().replace(same)))
    names = {field.name for field in fields(Conditions)} - {"connections", "rounds"}
    given = {name: getattr(arguments, name.removesuffix("_s")) for name in names}  # options are called as these are
    return Conditions(connections, rounds=rounds, **given)


def _knowledge(graph: "Graph", arguments: argparse.Namespace) -> "Knowledge":
    from gossamer.sim.comparison import importance
    from gossamer.sim.simulator import Knowledge

    history = near = None
    if arguments.history:
        from gossamer.sim.crawled import remembered

        history = remembered(graph, arguments.history)
    if arguments.topic:
        from gossamer.frontier.relevance import Topic
        from gossamer.sim.crawled import relevance

        if not arguments.graph.is_dir():
            raise ConfigError("--topic needs the texts of pages: give the directory of a crawl instead of a graph")
        near = relevance(arguments.graph, graph, Topic(arguments.topic))
    return Knowledge(importance(graph), history, near, arguments.rescore)


def _row(found: "Forecast") -> dict[str, Any]:
    return {
        "order": found.way.order.name,
        "connections": found.way.conditions.connections,
        "pages": found.pages,
        "hours": found.seconds / 3600,
        "average": found.average,
        "at_10_percent": found.at_10_percent,
        "half_hours": found.half_s / 3600 if found.half_s < float("inf") else None,
        "busy": found.busy,
    }


def _print(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console

    from gossamer.watch.panel import table

    drawn = table(*_COLUMNS.values())
    for row in rows:
        drawn.add_row(*(_cell(row[key]) for key in _COLUMNS))
    console = Console()
    console.width = max(console.width, 120)
    console.print(drawn)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _draw(path: Path, graph: "Graph", found: Sequence["Forecast"], rank: "F64") -> None:
    import numpy as np

    from gossamer.sim import measures
    from gossamer.sim.figures import Curve, Figure, draw

    curves = [Curve(each.way.name, np.arange(1, each.pages + 1) / graph.pages, each.curve) for each in found]
    best = measures.ideal(rank)
    curves.append(Curve("the ideal order", np.arange(1, len(best) + 1) / len(best), best, dashed=True, color="black"))
    title = f"What a crawl of {graph.name} brings"
    draw(
        Figure(path.stem, title, "part of the pages", "part of their PageRank", curves), path.parent, (path.suffix[1:],)
    )
