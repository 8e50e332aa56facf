"""The figures of all agents of a site as those of one crawl."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import total
from gossamer.archive.views import word
from gossamer.clocks import Clock
from gossamer.cluster.members import Member
from gossamer.columns import Outcome
from gossamer.crawl.stats import Stats, refused_links, waited_for_s

_NOW = ("connections", "active_hosts", "backed_off_hosts", "memory_bytes")  # only of those that run


class Totals:
    """`now` adds up what agents report; `final`, what they have committed."""

    def __init__(self, before: Iterable[Snapshot], clock: Clock) -> None:
        self._clock = clock
        self._start_s = clock.monotonic()
        self._before = total(at.state.counters for at in before)
        self._seen: dict[tuple[str, int], Mapping[str, Any]] = {}  # by incarnation and life: the last figures

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._start_s

    def now(self, members: Iterable[Member], phase: str) -> Stats:
        members = list(members)
        for member in members:
            if "stats" in member.report:
                self._seen[member.report["incarnation"], member.report["life"]] = member.report["stats"]
        run: Counter[str] = Counter()
        outcomes: Counter[str] = Counter()
        for stats in self._seen.values():
            run.update({name: stats[name] for name in ("wire_bytes", "refused_seeds")})
            outcomes.update(stats["outcomes"])
        known: Counter[str] = Counter()
        for member in members:
            seen = member.report.get("stats") or structs.asdict(member.at.state.counters)
            known.update({name: seen.get(name) or 0 for name in ("hosts", "known", "frontier", *_NOW)})
        figures: dict[str, Any] = {name: known[name] for name in ("hosts", "known", "frontier", *_NOW)}
        added = Stats(
            now_s=self._clock.now(),
            elapsed_s=self.elapsed_s,
            visits=sum(member.visits for member in members),
            run_visits=sum(member.visits for member in members) - self._before.visits,
            wire_bytes=run["wire_bytes"],
            refused_seeds=run["refused_seeds"],
            outcomes=dict(outcomes),
            waits_until_s=waited_for_s([m.report["stats"] for m in members if m.is_running and "stats" in m.report]),
            phase=phase,
        )
        return replace(added, **figures)

    def final(self, after: Iterable[Snapshot], ended: str) -> Stats:
        all_ = total(at.state.counters for at in after)
        run = all_ - self._before
        refused = sum(stats["refused_seeds"] for stats in self._seen.values())
        return Stats(
            now_s=self._clock.now(),
            elapsed_s=self.elapsed_s,
            visits=all_.visits,
            run_visits=run.visits,
            wire_bytes=run.wire_bytes,
            refused_seeds=refused,
            refused=refused_links(all_.refused),
            outcomes={name: run.outcomes[name] for name in map(word, Outcome) if name in run.outcomes},
            hosts=all_.hosts,
            known=all_.known,
            frontier=all_.frontier,
            ended=ended,
        )
