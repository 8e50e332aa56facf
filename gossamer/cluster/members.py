"""The agents of a site as the supervisor sees them: a process or none, the last report or the last manifest."""

import dataclasses
import json
import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.archive.manifest import Snapshot
from gossamer.config import Config


@dataclass
class Member:
    """One agent of the site, running or not."""

    name: str
    at: Snapshot  # its last manifest, as of when it last ended
    process: subprocess.Popen[bytes] | None = None
    incarnation: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)  # the last one of this incarnation
    heard_s: float = 0.0  # when that came, or when it was started
    is_heard: bool = False  # since then
    idle_since_s: float | None = None
    is_resting: bool = False  # it had nothing to do, and ended
    is_retiring: bool = False  # it gives its zones away, for good
    crashes: int = 0  # in a row, without anything done in between
    silences: int = 0  # how often it was replaced for being silent, without anything done in between

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def zones(self) -> list[int]:
        return list(self.report.get("zones", self.at.zones))

    @property
    def sent(self) -> Mapping[str, int]:
        return dict(self.report.get("sent", self.at.sent))

    @property
    def marks(self) -> Mapping[str, int]:
        return dict(self.report.get("marks", self.at.marks))

    @property
    def is_idle(self) -> bool:
        return bool(self.report.get("idle")) if self.is_running else self.is_resting

    @property
    def visits(self) -> int:
        return self._figure("visits")

    @property
    def frontier(self) -> int:
        return self._figure("frontier")

    @property
    def known(self) -> int:
        return self._figure("known")

    def _figure(self, name: str) -> int:
        """As last reported, else as committed."""
        counters = self.at.state.counters
        return int(self.report["stats"][name] or 0) if "stats" in self.report else int(getattr(counters, name))

    @property
    def next_due_s(self) -> float | None:
        due_s = self.report.get("next_due_s")
        return None if due_s is None else float(due_s)

    def start(self, job: Mapping[str, Any], words: Path, now_s: float) -> None:
        """Begin a new incarnation; what it says on standard error goes to the file `words`."""
        self.is_resting, self.idle_since_s, self.report, self.heard_s = False, None, {}, now_s
        self.is_heard = False
        words.parent.mkdir(parents=True, exist_ok=True)
        with words.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", job["module"]],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,  # Ctrl-C is for the supervisor
            )
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()  # and stays open: its end is the supervisor's
        except BrokenPipeError:
            pass  # it died at once; whoever reaps it will see

    def hear(self, report: Mapping[str, Any], now_s: float) -> None:
        if report.get("incarnation") != self.incarnation:
            return  # of one before, or of one that was replaced and does not know it yet
        if report != self.report:
            self.heard_s, self.is_heard = now_s, True
        if "stats" in report:
            self.report = report
            if _done(self.visits, self.marks, self.zones) != _done_at(self.at):
                self.silences = 0
            self.idle_since_s = (self.idle_since_s or now_s) if report["idle"] else None

    def ended(self, at: Snapshot) -> int:
        """The process is over: its exit code."""
        assert self.process is not None
        code = self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.process = None
        is_of_use = not code or _done_at(at) != _done_at(self.at)
        self.crashes = 0 if is_of_use else self.crashes + 1
        self.at = at
        self.report = {"next_due_s": self.next_due_s}  # from here on the manifest says everything else
        return code


def _done(visits: int, marks: Mapping[str, int], zones: Iterable[int]) -> tuple[Any, ...]:
    """What grows while an agent is of use. The number of its commits does not tell: starting takes some."""
    return visits, dict(marks), tuple(zones)


def _done_at(at: Snapshot) -> tuple[Any, ...]:
    return _done(at.state.counters.visits, at.marks, at.zones)


def incarnation(now_s: float) -> str:
    """A name that is later in the alphabet than all before it."""
    return f"{int(now_s * 1e9):020d}-{secrets.token_hex(4)}"


def flat(config: Config) -> dict[str, Any]:
    """A configuration as `Config.replace` takes it."""
    found: dict[str, Any] = {f"host.{host}": rules for host, rules in config.host.items()}
    for part in dataclasses.fields(Config):
        if part.name != "host":
            section = getattr(config, part.name)
            found |= {f"{part.name}.{leaf.name}": getattr(section, leaf.name) for leaf in dataclasses.fields(section)}
    return found
