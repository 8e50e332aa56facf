"""`Totals` adds up the figures of a site's agents to those of one crawl; a federation adds its sites up likewise."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import Counters, total
from gossamer.archive.views import word
from gossamer.clocks import Clock
from gossamer.cluster.site_agent import SiteAgent
from gossamer.columns import Outcome
from gossamer.crawl.stats import Stats, refused_links, waited_for_s

_COMMITTED = ("visits", "hosts", "known", "frontier")  # a manifest has them too
_RUN = ("run_visits", "wire_bytes", "refused_seeds")
_NOW = ("connections", "active_hosts", "backed_off_hosts", "memory_bytes")


class Totals:
    """`now` adds up what agents report; `final`, what they have committed."""

    def __init__(self, before: Iterable[Snapshot], clock: Clock) -> None:
        self._clock = clock
        self._start_s = clock.monotonic()
        self._before = total(at.state.counters for at in before)
        self._seen: dict[tuple[str, int], Stats] = {}  # by incarnation and life: the last figures

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._start_s

    def now(self, agents: Collection[SiteAgent], phase: str) -> Stats:
        self._seen |= {(agent.incarnation, agent.life): agent.report.stats for agent in agents if agent.report}
        times = self._clock.now(), self.elapsed_s
        running = added([agent.report.stats for agent in agents if agent.report], phase, *times)
        run = added(self._seen.values(), phase, *times)  # also of those that have ended since it began
        figures: dict[str, Any] = {name: sum(agent.figure(name) for agent in agents) for name in _COMMITTED}
        figures["run_visits"] = figures["visits"] - self._before.visits
        grown = {name: getattr(run, name) for name in ("outcomes", "wire_bytes", "refused_seeds", "notes")}
        return replace(running, **figures, **grown)

    def final(self, after: Iterable[Snapshot], ended: str) -> Stats:
        refused = sum(stats.refused_seeds for stats in self._seen.values())
        found = final(
            self._before, total(at.state.counters for at in after), refused, self._clock.now(), self.elapsed_s, ended
        )
        return replace(found, notes=_notes(self._seen.values()))


def added(several: Collection[Stats], phase: str, now_s: float, elapsed_s: float) -> Stats:
    """Adds the figures of several agents or sites up to those of one crawl."""
    outcomes: Counter[str] = Counter()
    for stats in several:
        outcomes.update(stats.outcomes)
    names = (*_COMMITTED, *_RUN, *_NOW)
    figures: dict[str, Any] = {name: sum(getattr(stats, name) or 0 for stats in several) for name in names}
    figures["waits_until_s"] = waited_for_s([stats.as_dict() for stats in several])
    return Stats(now_s, elapsed_s, outcomes=dict(outcomes), phase=phase, notes=_notes(several), **figures)


def _notes(several: Collection[Stats]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for stats in several for note in stats.notes))


def final(before: Counters, after: Counters, refused_seeds: int, now_s: float, elapsed_s: float, ended: str) -> Stats:
    """Returns what is committed, at the end."""
    run = after - before
    figures: dict[str, Any] = {name: getattr(after, name) for name in _COMMITTED}
    return Stats(
        now_s=now_s,
        elapsed_s=elapsed_s,
        run_visits=run.visits,
        wire_bytes=run.wire_bytes,
        refused_seeds=refused_seeds,
        refused=refused_links(after.refused),
        outcomes={name: run.outcomes[name] for name in map(word, Outcome) if name in run.outcomes},
        ended=ended,
        **figures,
    )
