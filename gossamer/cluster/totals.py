"""`Totals` has the figures of all agents of a site as those of one crawl; a federation adds its sites up likewise."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gossamer.archive.manifest import Snapshot
from gossamer.archive.views import word
from gossamer.clocks import Clock
from gossamer.cluster.site_agent import SiteAgent, counters
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
        self._before = counters(before)
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
        figures["run_visits"] = figures["visits"] - int(self._before["visits"])
        grown = {name: getattr(run, name) for name in ("outcomes", "wire_bytes", "refused_seeds")}
        return replace(running, **figures, **grown)

    def final(self, after: Iterable[Snapshot], ended: str) -> Stats:
        refused = sum(stats.refused_seeds for stats in self._seen.values())
        return final(self._before, counters(after), refused, self._clock.now(), self.elapsed_s, ended)


def added(several: Collection[Stats], phase: str, now_s: float, elapsed_s: float) -> Stats:
    """The figures of several agents or sites as those of one crawl."""
    outcomes: Counter[str] = Counter()
    for stats in several:
        outcomes.update(stats.outcomes)
    names = (*_COMMITTED, *_RUN, *_NOW)
    figures: dict[str, Any] = {name: sum(getattr(stats, name) or 0 for stats in several) for name in names}
    figures["waits_until_s"] = waited_for_s([stats.as_dict() for stats in several])
    return Stats(now_s, elapsed_s, outcomes=dict(outcomes), phase=phase, **figures)


def final(
    before: Mapping[str, float], after: Counter[str], refused_seeds: int, now_s: float, elapsed_s: float, ended: str
) -> Stats:
    """What is committed, at the end."""
    run = Counter(after)
    run.subtract(before)
    figures: dict[str, Any] = {name: after[name] for name in _COMMITTED}
    return Stats(
        now_s=now_s,
        elapsed_s=elapsed_s,
        run_visits=run["visits"],
        wire_bytes=run["wire_bytes"],
        refused_seeds=refused_seeds,
        refused=refused_links(after),
        outcomes={name: run[name] for name in map(word, Outcome) if run[name]},
        ended=ended,
        **figures,
    )
