"""A panel that is drawn anew in place while something runs: on a terminal, unless nobody wants it."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from gossamer.terminal import shown


class Panel:
    """Use as a context manager. `_live` is there while there is a terminal to draw on."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            with shown():
                self._live.stop()
            self._live = None
