"""`Accounts` reports the progress of an agent: to the display, to its site, and to its manifest. It changes nothing."""

import resource
from dataclasses import dataclass, field
from typing import Any

from gossamer.archive.state import AgentState, replace
from gossamer.clocks import Clock
from gossamer.config import CROSS_OVER, Config
from gossamer.crawl.commit import depth_limits
from gossamer.crawl.control import Report
from gossamer.crawl.counters import Tally
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.opening import Books
from gossamer.crawl.peers import Peers
from gossamer.crawl.revive import settings
from gossamer.crawl.round import Round
from gossamer.crawl.scheduler import Scheduler
from gossamer.crawl.stats import Stats

_NOT_YET = "?"  # as settings: none are equal to it


@dataclass
class Accounts:
    """`Accounts` begins when the run does."""

    config: Config
    clock: Clock
    books: Books
    tally: Tally
    fetching: Fetching
    scheduler: Scheduler
    peers: Peers
    start_s: float = field(init=False)
    busy_before_s: float = field(init=False)  # in earlier runs
    is_judged: bool = True  # all links that were refused, by the settings that hold now

    def __post_init__(self) -> None:
        self.start_s = self.clock.monotonic()
        self.busy_before_s = self.books.chain.state.busy_s or 0.0

    @property
    def elapsed_s(self) -> float:
        return self.clock.monotonic() - self.start_s

    def stats(self, round_: Round, may_wait: bool, phase: str, ended: str) -> Stats:
        """Returns the figures of the crawl as they are now, for the display."""
        work = self.fetching.stats
        return Stats(
            now_s=self.clock.now(),
            elapsed_s=self.elapsed_s,
            round=round_.number,
            **self.tally.figures(round_),
            connections=self.fetching.connections,
            **self._known(),
            active_hosts=work.hosts,
            backed_off_hosts=work.backed_off,
            memory_bytes=_resident_bytes(),
            waits_until_s=self._waits_until_s() if may_wait else None,
            phase=phase,
            ended=ended,
            refused_seeds=self.peers.intake.files.refused,
            notes=tuple(self.peers.intake.notes.said),
        )

    def report(self, stats: Stats, granted: int | None, idle: str) -> Report:
        chain, used = self.books.chain, resource.getrusage(resource.RUSAGE_SELF)
        return Report(
            number=chain.number,
            epoch=chain.epoch,
            zones=list(chain.zones),
            sent=chain.snapshot.sent,
            marks=chain.marks,
            pages=granted,
            rounds=self.tally.run_rounds,
            idle=idle,
            next_due_s=self.scheduler.next_due_s() if self.scheduler.is_starving else None,
            backlog_bytes=chain.backlog(self.peers.exchange),
            committed_s=chain.snapshot.time_s,
            cpu_s=used.ru_utime + used.ru_stime,
            stats=stats,
            **self.peers.facts(),
        )

    def state(self, clean: bool) -> AgentState:
        """Returns what the next run must know, and `gossamer status`."""
        now_s = self.clock.now()
        books, before = self.books, self.books.chain.state
        state = replace(
            before,
            ledger=books.ledger.state(),
            counters=replace(self.tally.counters, **self._known()),
            costs=self.tally.costs,
            seed_files=self.peers.intake.files.state(),
            resting={},
            started_s=now_s if before.started_s is None else before.started_s,
            committed_s=now_s,
            busy_s=self.busy_before_s + self.elapsed_s,
            waits_until_s=self._waits_until_s(),
            order=books.strategy.name,
            depth_limits=depth_limits(self.config),
            judged_by=settings(self.config) if self.is_judged else _NOT_YET,
            prices=books.carbon.state() if books.carbon else before.prices,
            overlap=before.overlap or self.config.site.mode == CROSS_OVER,
            clean=clean,
        )
        return self.peers.noted(state)

    def _known(self) -> dict[str, Any]:
        index, frontier = self.books.index, self.books.frontier
        waiting = frontier.pending + len(frontier.taken)  # for a visit, in the frontier or in the workbench
        return {"known": index.count, "hosts": len(index.hosts), "frontier": waiting}

    def _waits_until_s(self) -> float | None:
        """Returns when the next page is due; None while one is due now, or under way at a host that does not rest."""
        due_s = self.fetching.stats.rest_until_s if self.scheduler.outstanding else self.scheduler.next_due_s()
        return due_s if due_s is not None and due_s > self.clock.now() else None


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
