"""`Tally` counts what an agent has done; `Accounts` reports it to the display, to its site, and to its manifest."""

import resource
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.archive.chain import Chain, chains
from gossamer.archive.state import AgentState, Counters, replace
from gossamer.archive.store import Store
from gossamer.clocks import Clock
from gossamer.config import CROSS_OVER, Config
from gossamer.crawl.commit import depth_limits
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.opening import Books
from gossamer.crawl.peers import Peers
from gossamer.crawl.refusals import settings
from gossamer.crawl.round import Round
from gossamer.crawl.scheduler import Scheduler
from gossamer.crawl.stats import Report, Stats, refused_links
from gossamer.runtime import cores

_CPU_S = 10.0  # the time over which the use of the CPU is averaged


class Tally:
    """`Tally` counts rounds as they are committed."""

    def __init__(self, store: Store, chain: Chain, is_site: bool) -> None:
        self.counters = chain.state.counters
        self.costs: dict[str, float] = dict(chain.state.costs)  # joules and grams
        # A limit holds for the whole crawl: agents that have left have visited pages too.
        left = set() if is_site else chains(store) - {chain.agent}
        self._elsewhere = sum(Chain.read(store, name).state.counters.visits for name in left)
        self.visits_before = self.visits
        self.outcomes: Counter[str] = Counter()  # of this run, like all that follows
        self.run_visits = self.run_bytes = self.run_rounds = 0

    @property
    def visits(self) -> int:
        """Returns the visits committed by the whole crawl; at a site, by this agent."""
        return self._elsewhere + self.counters.visits

    def add(self, round_: Round) -> None:
        self.counters += Counters(
            visits=round_.pages,
            rounds=1,
            deferred=len(round_.deferrals),
            wire_bytes=round_.wire_bytes,
            outcomes=round_.outcomes,
            requisites=round_.requisites,
            truncated=round_.truncated,
            refused=round_.refused,
            functions=round_.functions,
        )
        for name, amount in round_.cost.items():
            self.costs[name] = self.costs.get(name, 0.0) + amount
        self.outcomes.update(round_.outcomes)
        self.run_visits += round_.pages
        self.run_rounds += bool(round_.visits)

    def figures(self, round_: Round) -> dict[str, Any]:
        """Returns the counters with the round that is being gathered, for the display."""
        return {
            "visits": self.visits + round_.pages,
            "run_visits": self.run_visits + round_.pages,
            "wire_bytes": self.run_bytes,
            "outcomes": dict(self.outcomes + round_.outcomes),
            "requisites": self.counters.requisites + round_.requisites,
            "truncated": self.counters.truncated + round_.truncated,
            "refused": refused_links(self.counters.refused),
        }


class CpuMeter:
    """`CpuMeter` measures which share of a core this process has used, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # when, and CPU seconds until then

    def share(self, now_s: float, used_s: float) -> float:
        seen = self._seen
        seen.append((now_s, used_s))
        while len(seen) > 2 and seen[1][0] <= now_s - _CPU_S:
            seen.popleft()
        return (used_s - seen[0][1]) / (now_s - seen[0][0]) if now_s > seen[0][0] else 0.0


def cpu_s() -> float:
    """Returns how many seconds of CPU this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


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
    cpu: CpuMeter = field(default_factory=CpuMeter)
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
            memory_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
            waits_until_s=self._waits_until_s() if may_wait else None,
            phase=phase,
            ended=ended,
            refused_seeds=self.peers.intake.files.refused,
            notes=tuple(self.peers.intake.notes.said),
        )

    def report(self, stats: Stats, granted: int | None, idle: str) -> Report:
        chain, used_s = self.books.chain, cpu_s()
        return Report(
            number=chain.number,
            epoch=chain.epoch,
            zones=chain.snapshot.ranges,
            sent=chain.snapshot.sent,
            marks=chain.marks,
            pages=granted,
            rounds=self.tally.run_rounds,
            idle=idle,
            next_due_s=self.scheduler.next_due_s() if self.scheduler.is_starving else None,
            backlog_bytes=chain.backlog(self.peers.exchange),
            committed_s=chain.snapshot.time_s,
            cpu_s=used_s,
            stats=stats,
            cpu_share=self.cpu.share(self.clock.monotonic(), used_s),
            received_bytes=self.fetching.received_bytes,
            sent_bytes=self.fetching.sent_bytes,
            due_hosts=self.fetching.stats.due,
            is_working=self.scheduler.outstanding > 0,
            cores=cores(),
            **self.peers.progress()._asdict(),
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
        return {"known": self.books.ledger.known, "hosts": len(index.hosts), "frontier": waiting}

    def _waits_until_s(self) -> float | None:
        """Returns when the next page is due; None while one is due now, or under way at a host that does not rest."""
        due_s = self.fetching.stats.rest_until_s if self.scheduler.outstanding else self.scheduler.next_due_s()
        return due_s if due_s is not None and due_s > self.clock.now() else None
