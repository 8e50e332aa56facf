"""The processes of a site's agents: started, missed when they die or fall silent, and killed in the end."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gossamer.archive.chain import Chain
from gossamer.archive.store import Store
from gossamer.clocks import Clock
from gossamer.cluster.agent_process import FULL, MISTAKE
from gossamer.cluster.members import Member
from gossamer.config import Config
from gossamer.crawl.event_log import EventLog
from gossamer.errors import OutOfSpace, SiteError

ASK_S = 0.5  # how often agents' reports are looked at
_BEGIN_S = 20.0  # a process that begins has nothing to lose: it may take its time
_SILENCES = 6  # doublings of our patience
_CRASHES = 5  # in a row, without anything done in between


class Processes:
    def __init__(self, directory: Path, config: Config, clock: Clock, log: EventLog, store: Store) -> None:
        self._directory, self._config, self._clock, self._log, self._store = directory, config, clock, log, store
        self._replaced: list[Any] = []  # they hang, perhaps

    def start(self, member: Member, job: dict[str, Any]) -> None:
        member.start(job, self._words(member.name), self._clock.monotonic())
        self._log.event("agent started", agent=member.name, process=member.process and member.process.pid)

    def reap(self, members: Iterable[Member]) -> None:
        """Processes that ended: who was told to, or had nothing to do, rests; any other will be started again."""
        self._replaced = [process for process in self._replaced if process.poll() is None]
        for member in members:
            if member.process is None or member.process.poll() is None:
                continue
            code = member.ended(Chain.read(self._store, member.name))
            self._log.event("agent ended", agent=member.name, code=code)
            if code == FULL:
                raise OutOfSpace(
                    f"no space left for agent {member.name} in {self._directory}: free some, then run the same command "
                    "again; everything committed so far is safe"
                )
            if code == MISTAKE:
                raise SiteError(f"{member.name}: {self._last_words(member.name)}")
            if member.crashes >= _CRASHES:
                how = f"exit code {code}" if code > 0 else f"signal {-code}"
                words = f"{how}; {self._last_words(member.name)}"
                raise SiteError(f"agent {member.name} died {member.crashes} times in a row: {words}")
            member.is_resting = code == 0

    def silent(self, members: Iterable[Member], now_s: float) -> list[Member]:
        """Those not heard of for a lease: dead, perhaps, or they hang. They fetch nothing more, and what they are about
        to commit will be refused. Each needs a successor.

        One that is merely slow must not be replaced for ever: each time we are twice as patient."""
        found = []
        lease_s = self._config.site.lease_s
        for member in members:
            patience_s = ((lease_s if member.is_heard else max(lease_s, _BEGIN_S)) + 2 * ASK_S) * 2**member.silences
            if member.process and now_s - member.heard_s > patience_s:
                self._log.event("agent silent", agent=member.name, process=member.process.pid)
                self._replaced.append(member.process)
                member.silences = min(member.silences + 1, _SILENCES)
                member.at = Chain.read(self._store, member.name)
                found.append(member)
        return found

    def kill(self, members: Iterable[Member]) -> None:
        """Whoever is left: nothing that is committed can be lost."""
        running = [member.process for member in members if member.process]
        for process in [*running, *self._replaced]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def _words(self, name: str) -> Path:
        return self._directory / "log" / f"{name}.err"

    def _last_words(self, name: str) -> str:
        lines = self._words(name).read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
