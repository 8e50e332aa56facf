"""This module has the parts of all displays: tables without lines, and `Panel`, which is drawn in place."""

from collections.abc import Callable, Collection
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

from gossamer.terminal import shown

_LINE_S = 10.0  # between two lines where no terminal is


def table(first: str, *others: str, texts: Collection[str] = ()) -> Table:
    """Returns a table of figures: a column of names, and columns of numbers, or of `texts`."""
    made = Table(header_style="bold", show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    made.add_column(first, overflow="fold")
    for name in others:
        made.add_column(name, justify="left" if name in texts else "right", no_wrap=True)
    return made


def grid() -> Table:
    """Returns a table with rows of a name, a number, and a remark."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(justify="right", no_wrap=True)
    made.add_column(style="dim")
    return made


class Panel:
    """`Panel` is drawn again and again while something runs: in place on a terminal, elsewhere as a line now and then.
    Use it as a context manager."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._live: Live | None = None
        self._next_line_s = 0.0

    def draw(self, elapsed_s: float, display: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        """Draws one look, `elapsed_s` after the beginning."""
        with shown():
            if self._live is not None:
                self._live.update(display(), refresh=True)
            elif not self._quiet and elapsed_s >= self._next_line_s:
                self._next_line_s = elapsed_s + _LINE_S
                self._console.print(line(), highlight=False, markup=False, soft_wrap=True)

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
