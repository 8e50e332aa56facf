"""This module has the parts of all displays: tables without lines, and `Panel`, which is drawn in place."""

from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from gossamer.terminal import shown


def table(first: str, *numbers: str) -> Table:
    """Returns a table of figures: a column of names, and columns of numbers."""
    made = Table(header_style="bold", show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    made.add_column(first, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def grid() -> Table:
    """Returns a table with rows of a name, a number, and a remark."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(justify="right", no_wrap=True)
    made.add_column(style="dim")
    return made


class Panel:
    """`Panel` is a display that is drawn again and again while something runs: on a terminal, unless it is not wanted.

    Use it as a context manager. `_live` is there while there is a terminal to draw on.
    """

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with shown():
                self._live.stop()
            self._live = None
