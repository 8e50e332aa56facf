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

_RUN = ("wire_bytes", "refused_seeds")  # grow during a run
_KNOWN = ("hosts", "known", "frontier")
_NOW = ("connections", "active_hosts", "backed_off_hosts", "memory_bytes")  # only of those that run


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
        reports = [agent.report for agent in agents if agent.report]
        self._seen |= {(agent.incarnation, agent.life): agent.report.stats for agent in agents if agent.report}
        known: Counter[str] = Counter()
        for agent in agents:
            known.update({name: agent.figure(name) for name in ("visits", *_KNOWN)})
        figures = _added([report.stats for report in reports], _NOW) | {name: known[name] for name in _KNOWN}
        run = _sum(self._seen.values(), phase, self._clock.now(), self.elapsed_s)
        return replace(
            run,
            visits=known["visits"],
            run_visits=known["visits"] - int(self._before["visits"]),
            waits_until_s=waited_for_s([report.stats.as_dict() for report in reports]),
            **figures,
        )

    def final(self, after: Iterable[Snapshot], ended: str) -> Stats:
        refused = sum(stats.refused_seeds for stats in self._seen.values())
        return final(self._before, counters(after), refused, self._clock.now(), self.elapsed_s, ended)


def added(sites: Collection[Stats], phase: str, now_s: float, elapsed_s: float) -> Stats:
    """The figures of several sites as those of one crawl."""
    figures = _added(sites, ("visits", "run_visits", *_KNOWN, *_NOW))
    waits_until_s = waited_for_s([stats.as_dict() for stats in sites])
    return replace(_sum(sites, phase, now_s, elapsed_s), waits_until_s=waits_until_s, **figures)


def final(
    before: Mapping[str, float], after: Counter[str], refused_seeds: int, now_s: float, elapsed_s: float, ended: str
) -> Stats:
    """What is committed, at the end."""
    run = Counter(after)
    run.subtract(before)
    return Stats(
        now_s=now_s,
        elapsed_s=elapsed_s,
        visits=after["visits"],
        run_visits=run["visits"],
        wire_bytes=run["wire_bytes"],
        refused_seeds=refused_seeds,
        refused=refused_links(after),
        outcomes={name: run[name] for name in map(word, Outcome) if run[name]},
        hosts=after["hosts"],
        known=after["known"],
        frontier=after["frontier"],
        ended=ended,
    )


def _sum(runs: Iterable[Stats], phase: str, now_s: float, elapsed_s: float) -> Stats:
    """What grows during a run, added up."""
    outcomes: Counter[str] = Counter()
    runs = list(runs)
    for stats in runs:
        outcomes.update(stats.outcomes)
    grown: dict[str, Any] = _added(runs, _RUN)
    return Stats(now_s, elapsed_s, visits=0, run_visits=0, outcomes=dict(outcomes), phase=phase, **grown)


def _added(stats: Iterable[Stats], names: Iterable[str]) -> dict[str, Any]:
    stats = list(stats)
    return {name: sum(getattr(one, name) or 0 for one in stats) for name in names}
