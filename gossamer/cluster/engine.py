"""`Engine` is the port through which processes are started: agents of a site, clients of a scan, sites of a federation.

An engine starts a job and returns a handle. It decides nothing: its owner decides who runs, and who is replaced
(`members`). The contract is in `tests/contract/test_engine.py`, which every engine passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Received = Callable[[bytes | None], object]
LOST = -256  # the code of a job whose machine says nothing any more: it may run, but nobody hears of it


@dataclass(frozen=True)
class Job:
    """`Job` is a Python module that runs on its own. It never outlives its starter, not even while it is stopped."""

    name: str  # for people
    module: str  # runs as `python -m` does
    arguments: tuple[str, ...] = ()
    task: bytes = b""  # the first line of its standard input, which then stays open: its end is that of the supervisor
    errors: Path | None = None  # the file that takes what it writes to standard error; None: it is not kept
    is_foreground: bool = False  # signals of the terminal, such as Ctrl-Z, are for it too


class Channel(Protocol):
    """Port: one end of a conversation in lines with a job, wherever that is."""

    def send(self, line: bytes) -> None:
        """Sends a line. Lines arrive in order; those to a job that has ended are lost."""

    def kill(self) -> str:
        """Kills the job: whatever it was about, it does nothing more when this returns. Returns how it ended, in
        words."""

    def close(self, patience_s: float = 0.0) -> None:
        """Waits so long for its end, then kills it; afterwards nothing of it is left. A second call does nothing."""


class Handle(Channel, Protocol):
    """Port: a job that was started."""

    @property
    def pid(self) -> int:
        """Returns the process id, for logs and for people who look for it."""

    def poll(self) -> int | None:
        """Returns its exit code, or minus the number of the signal that ended it; None while it runs."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Returns the same, after at most so long."""

    def stop(self) -> None:
        """Asks it to end, as Ctrl-C does; it may take its time, or ignore it."""

    def errors(self) -> str:
        """Returns the end of what it has written to standard error; also after `close`."""


class Engine(Protocol):
    def start(self, job: Job, received: Received | None = None) -> Handle:
        """Starts a job, and returns at once. `received` gets each line that the job writes to standard output, in
        order, in a thread of the engine; then None, once. Raises SiteError if the job cannot be started."""

    def room(self) -> float:
        """Returns how many more jobs can begin at once, as far as it is known now; infinity if any number can."""

    def cores(self) -> float:
        """Returns how many jobs the engine's machines can compute for at a time; infinity if nobody knows."""

    def close(self) -> None:
        """Ends what the engine itself runs; its jobs have been closed before. Another job may begin it again."""


def how(code: int) -> str:
    """Returns an exit code in words."""
    if code == LOST:
        return "lost with its machine"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def last_words(text: str) -> str:
    """Returns what an error message quotes: the last line, where Python names the error."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it wrote no message"
