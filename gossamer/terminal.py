"""This module lets a crawl outlive its terminal: output to one that was closed goes nowhere, instead of failing."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator


def let_go() -> None:
    """Sends output for a closed terminal nowhere from now on, instead of failing (EIO)."""
    for number in (1, 2):
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            # A closed terminal is no terminal any more, but still a device.
            if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
                os.dup2(nowhere.fileno(), number)


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Guards what only draws: whether somebody can see it must not decide about the crawl. A signal reports that the
    terminal was closed, too, but perhaps later, or to the shell alone."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        let_go()
