"""This module shows a command's result: as JSON for programs, drawn for people, and live while something crawls."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.config import Config
    from gossamer.crawl.stats import Stats


def show(found: Any, as_json: bool, render: Callable[[Any], Any]) -> None:
    """Shows a result, as JSON or as `render` draws it."""
    shown = json.dumps(found) if as_json else render(found)
    if isinstance(shown, str):
        print(shown)
    else:
        from rich.console import Console  # only for those who look: JSON needs none

        console = Console()
        if not console.is_terminal:  # a pipe has no margin: nothing is cut there
            console.width = max(console.width, 200)
        console.print(shown)


def hint(why: str) -> str:
    """Returns what a person may do where no server answered."""
    is_private = any(f" is {kind}" in why for kind in ("loopback", "private", "link-local"))
    return "--set resolve.private=true allows that" if is_private else "check the address and the network"


def watched(
    run: "Callable[[Callable[[Stats], None]], Stats]",
    config: "Config",
    arguments: argparse.Namespace,
    notes: Sequence[str] = (),
    places: Mapping[str, str] | None = None,
) -> "Stats":
    """Runs something that crawls, with notes before it, a display of its progress, and a summary at its end."""
    if arguments.json or arguments.quiet:  # nobody looks, and what draws takes as long to load as a hundred pages
        for note in notes:
            print(f"gossamer: {note}", file=sys.stderr if arguments.json else sys.stdout, flush=True)
        stats = run(lambda _: None)
        if arguments.json:
            print(json.dumps(stats.as_dict()))
        return stats
    from rich.console import Console

    from gossamer.watch.progress import Progress

    progress = Progress(Console(), config)
    for note in notes:
        progress.note(f"gossamer: {note}")
    with progress:
        stats = run(progress.update)
    progress.finish(stats, places)
    return stats


@contextlib.contextmanager
def counting(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Counts files on a terminal, and shows nothing elsewhere."""
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield lambda done, total, name: status.update(f"{what}: {done:,} of {total:,} files  {name}")
