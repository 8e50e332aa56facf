"""`SiteAgent` is an agent as its supervisor sees it: as of its last report, or of its manifest if it does not run."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gossamer.archive.manifest import Snapshot
from gossamer.archive.zones import in_ranges
from gossamer.cluster.members import Ended, Member
from gossamer.cluster.protocol import Heartbeat
from gossamer.crawl.stats import Report


@dataclass
class SiteAgent(Member):
    kind: ClassVar[str] = "agent"
    at: Snapshot  # its last manifest, as of when it last ended
    is_retiring: bool = False  # it gives its zones away, for good
    incarnation: str = ""
    life: int = 0
    report: Report | None = None  # the last one of this incarnation
    next_due_s: float | None = None  # as it last reported, also of the one before
    idle_since_s: float | None = None
    is_resting: bool = False  # it had nothing to do, and ended
    quiet_s: float = 0.0  # its next process contacts no host for so long: the one before it may be at work

    @property
    def zones(self) -> tuple[int, ...]:
        return in_ranges(self.report.zones) if self.report else self.at.zones

    @property
    def sent(self) -> Mapping[str, int]:
        return (self.report or self.at).sent

    @property
    def marks(self) -> Mapping[str, int]:
        return (self.report or self.at).marks

    @property
    def is_idle(self) -> bool:
        return bool(self.report and self.report.idle) if self.is_running else self.is_resting

    @property
    def visits(self) -> int:
        return self.figure("visits")

    def figure(self, name: str) -> int:
        """Returns a figure that `Stats` and the counters of a manifest have in common."""
        return int(getattr(self.report.stats if self.report else self.at.state.counters, name) or 0)

    def begin(self, now_s: float, term: int = 0) -> None:
        """Begins a new incarnation, with a name that is later in the alphabet than all before it. A later term of a
        site's lease makes it later, whatever the clocks of its machines say."""
        self.incarnation = f"{f'{term:020d}-' if term else ''}{int(now_s * 1e9):020d}-{secrets.token_hex(4)}"
        self.is_resting, self.idle_since_s, self.report, self.next_due_s = False, None, None, None

    def receive(self, beat: Heartbeat, now_s: float) -> None:
        if beat.incarnation != self.incarnation:
            return  # of one before, or of one that was replaced and does not know it yet
        if beat.report is None or beat.report != self.report:
            self.reported(now_s)
        if beat.report is not None:
            self.report, self.life, self.next_due_s = beat.report, beat.life, beat.report.next_due_s
            if _done(self.visits, self.marks, self.zones) != _done_at(self.at):
                self.silences = 0
            self.idle_since_s = (self.idle_since_s or now_s) if beat.report.idle else None

    def ended(self, ended: Ended, at: Snapshot) -> None:
        """Records the end: from here on the manifest has everything, but for when something is due."""
        was_of_use = not ended.code or _done_at(at) != _done_at(self.at)
        self.at, self.report, self.is_resting = at, None, ended.code == 0
        self.crashed(ended, was_of_use)


def _done(visits: int, marks: Mapping[str, int], zones: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns what grows while an agent is of use. The number of its commits does not: starting takes some."""
    return visits, dict(marks), zones


def _done_at(at: Snapshot) -> tuple[Any, ...]:
    return _done(at.state.counters.visits, at.marks, at.zones)
