"""`Reports` reads what agents report of themselves, and what the system knows of their processes."""

import contextlib
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.config.folders import Place
from gossamer.errors import GossamerError

if TYPE_CHECKING:
    from gossamer.cluster.hub import AgentRegistrar
    from gossamer.cluster.protocol import Heartbeat

_AGAIN_S, _SELDOM_S = 10.0, 60.0  # a registrar that is not there is looked for so often; if nobody seems to run
MEETINGS = ("site", "registrar")  # folders where agents report, by either kind of hub; one alone has neither
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Reports:
    """`Reports` keeps its connection to the registrar of one site, as long as that answers."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open = ExitStack()
        self._registrar: AgentRegistrar | None = None
        self._tried_s = float("-inf")

    def read(self, now_s: float, is_likely: bool) -> "dict[str, Heartbeat]":
        """Returns the last report of each agent that is alive; none if nobody answers.

        `is_likely`: some agent seems to run. Else there may be the address of a server that has ended, and it takes
        seconds to learn that.
        """
        if self._tried_s < 0:
            self._tried_s = float("-inf") if is_likely else now_s
        if self._registrar is None and now_s - self._tried_s >= (_AGAIN_S if is_likely else _SELDOM_S):
            self._tried_s = now_s
            if isinstance(self._place, Path) and not any((self._place / name).exists() for name in MEETINGS):
                return {}
            from gossamer.watch.agents import registrar_of  # here: who watches an agent alone need not wait for it

            with contextlib.suppress(GossamerError, OSError):
                self._registrar = self._open.enter_context(registrar_of(self._place))
        if self._registrar is None:
            return {}
        found = None
        with contextlib.suppress(GossamerError, OSError):
            found = self._registrar.alive()
        if found is None:
            self.close()
        return found or {}

    def close(self) -> None:
        self._registrar = None
        self._open.close()
        self._open = ExitStack()


class Process(NamedTuple):
    """`Process` is what a process has used."""

    cpu_s: float
    memory_bytes: int


def process(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """Returns what a process of this machine has used; None if there is none."""
    try:
        # The name of the program, in brackets, may have spaces.
        fields = (proc / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return Process((int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE)


def figures(beat: "Heartbeat | None", pid: int) -> Mapping[str, Any]:
    """Returns the figures of an agent that runs: by its report if there is one, else those of its process."""
    if beat is not None and beat.report is not None:
        report, stats = beat.report, beat.report.stats
        return {
            "state": "idle" if report.idle else stats.phase or "crawling",
            "at_s": stats.now_s,
            "visits": stats.visits,
            "wire_bytes": report.received_bytes or stats.wire_bytes,
            "cpu_s": report.cpu_s,
            "memory_bytes": stats.memory_bytes,
            "connections": stats.connections,
            "active_hosts": stats.active_hosts,
            "backed_off_hosts": stats.backed_off_hosts,
            "due_hosts": report.due_hosts,
            "backlog_bytes": report.backlog_bytes,
        }
    used = process(pid) if pid else None
    state = "crawling" if used else "starting" if beat else ""
    return {"state": state} | ({"cpu_s": used.cpu_s, "memory_bytes": used.memory_bytes} if used else {})
