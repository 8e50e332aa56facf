"""`Engine` is the port through which processes are started: agents of a site, clients of a scan, sites of a federation.

An engine starts a job and returns a handle. It decides nothing: who shall run, and who is replaced, its owner says
(`members`). The contract is in `tests/contract/test_engine.py`, which every engine passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Received = Callable[[bytes | None], object]


@dataclass(frozen=True)
class Job:
    """A Python module that runs on its own. It never outlives whoever started it, not even while it is stopped."""

    name: str  # for people
    module: str  # runs as `python -m` does
    arguments: tuple[str, ...] = ()
    task: bytes = b""  # the first line of its standard input, which then stays open: its end is that of the supervisor
    errors: Path | None = None  # the file that takes what it writes to standard error; None: nobody keeps it
    is_foreground: bool = False  # signals of the terminal, such as Ctrl-Z, are for it too


class Channel(Protocol):
    """One end of a conversation in lines with a job, wherever that is."""

    def send(self, line: bytes) -> None:
        """Lines arrive in order; those to a job that has ended are lost."""

    def kill(self) -> str:
        """It does nothing more when this returns, whatever it was about. Returns how it ended, in words."""

    def close(self, patience_s: float = 0.0) -> None:
        """Wait so long for its end, then kill it; afterwards nothing of it is left. A second call does nothing."""


class Handle(Channel, Protocol):
    """A job that was started."""

    @property
    def pid(self) -> int:
        """For logs, and for people who look for it."""

    def poll(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The same, after at most so long."""

    def stop(self) -> None:
        """Ask it to end, as Ctrl-C does; it may take its time, or not listen."""

    def errors(self) -> str:
        """The end of what it has written to standard error; also after `close`."""


class Engine(Protocol):
    def start(self, job: Job, received: Received | None = None) -> Handle:
        """Returns at once. `received` gets each line that the job writes to standard output, in order, in a thread of
        the engine; then None, once. SiteError, if the job cannot be started."""


def how(code: int) -> str:
    """An exit code in words."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def last_words(text: str) -> str:
    """What an error message quotes: the last line, where Python says what went wrong."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
