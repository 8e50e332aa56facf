"""`Members` is the one way to start, watch, replace and stop processes: agents of a site, clients of a scan, sites of a
federation. Their owners decide who runs, and what an end means."""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import ClassVar, NamedTuple, TypeVar

from gossamer.clocks import Clock
from gossamer.cluster.engine import Engine, Handle, Job, Received, how, last_words
from gossamer.errors import SiteError

_BEGIN_S = 20.0  # a process that begins has nothing to lose: it may take its time
_SILENCES = 6  # doublings of our patience
_CRASHES = 5  # in a row, without anything done in between


@dataclass
class Member:
    """`Member` has a process that is supervised here, running or not."""

    kind: ClassVar[str] = "process"
    name: str
    _: KW_ONLY
    handle: Handle | None = None
    reported_s: float = 0.0  # when it last reported, or was started; by the monotonic clock
    has_reported: bool = False  # since it was started
    crashes: int = 0  # in a row, without anything done in between
    silences: int = 0  # how often it was replaced for being silent, without anything done in between

    @property
    def is_running(self) -> bool:
        return self.handle is not None

    def reported(self, now_s: float) -> None:
        self.reported_s, self.has_reported = now_s, True

    def crashed(self, ended: "Ended", was_of_use: bool) -> None:
        """Counts a crash: one that crashes again and again, and does nothing in between, is not started for ever."""
        self.crashes = 0 if was_of_use else self.crashes + 1
        if self.crashes >= _CRASHES:
            words = f"{how(ended.code)}; {last_words(ended.errors)}"
            raise SiteError(f"{self.kind} {self.name} died {self.crashes} times in a row: {words}")


class Ended(NamedTuple):
    """`Ended` describes how a process ended."""

    code: int  # or minus the number of the signal
    errors: str  # the end of what it has written to standard error


M = TypeVar("M", bound=Member)


class Members:
    """A member that does not report for `lease_s` is silent: it may be dead, or hang; `begin_s` is the time to begin
    in, and `slack_s` what a report may take to be seen."""

    def __init__(
        self, engine: Engine, clock: Clock, lease_s: float = inf, begin_s: float = _BEGIN_S, slack_s: float = 0.0
    ) -> None:
        self._engine, self._clock = engine, clock
        self._lease_s, self._begin_s, self._slack_s = lease_s, max(lease_s, begin_s), slack_s
        self._running: list[Handle] = []

    def start(self, member: Member, job: Job, received: Received | None = None) -> Handle:
        """Starts a process. One that it has, and that hangs, is left to itself: it ends when it can, or with us."""
        member.reported_s, member.has_reported = self._clock.monotonic(), False
        member.handle = self._engine.start(job, received)
        self._running.append(member.handle)
        return member.handle

    def ended(self, members: Iterable[M]) -> Iterator[tuple[M, Ended]]:
        """Yields those whose processes have ended since the last call: they have none now."""
        for handle in [handle for handle in self._running if handle.poll() is not None]:
            self._running.remove(handle)
            handle.close()
            for member in members:
                if member.handle is handle:
                    member.handle = None
                    yield member, Ended(handle.wait() or 0, handle.errors())

    def silent(self, members: Iterable[M]) -> list[M]:
        """Returns those without a report for a lease. One that is merely slow must not be replaced for ever: each time
        that its owner does so, we are twice as patient."""
        now_s, found = self._clock.monotonic(), []
        for member in members:
            patience_s = (self._lease_s if member.has_reported else self._begin_s) + self._slack_s
            if member.handle and now_s - member.reported_s > patience_s * 2**member.silences:
                member.silences = min(member.silences + 1, _SILENCES)
                found.append(member)
        return found

    def close(self) -> None:
        """Kills all that are left, also those that were replaced."""
        for handle in self._running:
            handle.close()
        self._running.clear()
