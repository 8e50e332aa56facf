"""`Totals` adds up the figures of a site's agents to those of one crawl; a federation adds its sites up likewise."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from gossamer.archive.chain import snapshots
from gossamer.archive.state import Counters, total
from gossamer.archive.store import Store
from gossamer.archive.views import word
from gossamer.clocks import Clock
from gossamer.cluster.site_agent import SiteAgent
from gossamer.columns import Outcome
from gossamer.crawl.stats import Stats, found_by_functions, refused_links, waited_for_s

_COMMITTED = ("visits", "requisites", "truncated", "hosts", "known", "frontier")  # a manifest has them too
_RUN = ("run_visits", "wire_bytes", "refused_seeds")
_NOW = ("connections", "active_hosts", "backed_off_hosts", "memory_bytes")


class Totals:
    """`now` adds up what agents report; `final`, what is committed. A run began with the counters `before`."""

    def __init__(self, before: Counters, clock: Clock) -> None:
        self._clock = clock
        self._start_s = clock.monotonic()
        self._before = before
        self._seen: dict[tuple[str, int], Stats] = {}  # by incarnation and life: the last figures

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._start_s

    def now(self, agents: Collection[SiteAgent], phase: str) -> Stats:
        self._seen |= {(agent.incarnation, agent.life): agent.report.stats for agent in agents if agent.report}
        running = self.added([agent.report.stats for agent in agents if agent.report], phase)
        run = self.added(self._seen.values(), phase)  # also of those that have ended since it began
        figures: dict[str, Any] = {name: sum(agent.figure(name) for agent in agents) for name in _COMMITTED}
        figures["run_visits"] = figures["visits"] - self._before.visits
        grown = {name: getattr(run, name) for name in ("outcomes", "wire_bytes", "refused_seeds", "notes")}
        return replace(running, **figures, **grown)

    def added(self, several: Collection[Stats], phase: str) -> Stats:
        """Adds the figures of several agents or sites up to those of one crawl."""
        outcomes: Counter[str] = Counter()
        for stats in several:
            outcomes.update(stats.outcomes)
        names = (*_COMMITTED, *_RUN, *_NOW)
        figures: dict[str, Any] = {name: sum(getattr(stats, name) or 0 for stats in several) for name in names}
        figures["waits_until_s"] = waited_for_s([stats.as_dict() for stats in several])
        figures["notes"] = _notes(several)
        return Stats(self._clock.now(), self.elapsed_s, outcomes=dict(outcomes), phase=phase, **figures)

    def final(self, after: Counters, ended: str, last: Collection[Stats] | None = None) -> Stats:
        """Returns what is committed, at the end. `last` has the last figures of each agent or site of this run."""
        run, last = after - self._before, self._seen.values() if last is None else last
        figures: dict[str, Any] = {name: getattr(after, name) for name in _COMMITTED}
        return Stats(
            now_s=self._clock.now(),
            elapsed_s=self.elapsed_s,
            run_visits=run.visits,
            wire_bytes=run.wire_bytes,
            refused_seeds=sum(stats.refused_seeds for stats in last),
            refused=refused_links(after.refused),
            outcomes={name: run.outcomes[name] for name in map(word, Outcome) if name in run.outcomes},
            ended=ended,
            notes=(*_notes(last), *found_by_functions(run.functions)),
            **figures,
        )


def committed(store: Store) -> Counters:
    """Returns what the manifests of a site's agents count."""
    return total(at.state.counters for at in snapshots(store).values())


def _notes(several: Iterable[Stats]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for stats in several for note in stats.notes))
