"""This module decides whether a crawl is healthy: it judges facts, and says what to do about each problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gossamer.watch.advice import advice
from gossamer.watch.figures import count, size, span

_SILENT_S = 900.0  # an agent that has work commits more often
_DISK_BYTES = 1_000_000_000
_FULL_BYTES = 100_000_000
_ENOUGH = 200  # visits, before their outcomes are judged
_MOSTLY = 0.5


@dataclass(frozen=True)
class Problem:
    """`Problem` is one thing to look after. A failure makes the crawl unhealthy; others deserve attention."""

    what: str
    do: str
    is_failure: bool = False


@dataclass(frozen=True)
class Facts:
    """`Facts` is what health is judged by."""

    now_s: float
    failure: str = ""  # why the archive cannot be read
    is_near: bool = True  # all archives are on this machine, so that their processes can be seen
    agents: Sequence[Mapping[str, Any]] = ()
    waits_until_s: float | None = None
    free_bytes: int | None = None
    messages: int = 0  # that could not be read, or were refused
    visits: int = 0
    trouble: Mapping[str, int] = field(default_factory=dict)
    lost_sites: Sequence[str] = ()


def problems(facts: Facts) -> list[Problem]:
    """Returns what is wrong, failures first."""
    found = [*_unreadable(facts), *_stopped(facts), *_silent(facts), *_disk(facts), *_sites(facts)]
    found += [*_messages(facts), *_troubled(facts)]
    return sorted(found, key=lambda problem: not problem.is_failure)


def _unreadable(facts: Facts) -> list[Problem]:
    return [Problem("The archive cannot be read.", facts.failure, is_failure=True)] if facts.failure else []


def _stopped(facts: Facts) -> list[Problem]:
    names = [row["agent"] for row in facts.agents if row["state"] == "stopped"]
    if not names:
        return []
    if facts.is_near:
        what, do = (
            "ended without a last commit",
            "Run the same command again: it goes on, and fetches that round again.",
        )
    else:
        what, do = (
            "may have been killed: no process of this machine runs it",
            "If no other machine does, start it again.",
        )
    return [Problem(f"{', '.join(names)} {what}.", do, is_failure=facts.is_near)]


def _silent(facts: Facts) -> list[Problem]:
    working = [row for row in facts.agents if row["process"] and row["state"] != "idle" and row["frontier"]]
    last_s = max((row["committed_s"] for row in facts.agents if row["committed_s"]), default=None)
    if not working or facts.waits_until_s or last_s is None or facts.now_s - last_s < _SILENT_S:
        return []
    do = "Look at log/ in the crawl's directory, and at this machine's disk and network."
    return [Problem(f"Nothing was committed for {span(facts.now_s - last_s)}.", do, is_failure=True)]


def _disk(facts: Facts) -> list[Problem]:
    if facts.free_bytes is None or facts.free_bytes >= _DISK_BYTES:
        return []
    do = "Make room, or stop the crawl: it goes on later where it was."
    return [Problem(f"The disk has {size(facts.free_bytes)} left.", do, is_failure=facts.free_bytes < _FULL_BYTES)]


def _sites(facts: Facts) -> list[Problem]:
    if not facts.lost_sites:
        return []
    do = "See whether their machines run; links for them wait until they answer."
    return [Problem(f"No answer from {', '.join(facts.lost_sites)}.", do)]


def _messages(facts: Facts) -> list[Problem]:
    if not facts.messages:
        return []
    return [Problem(f"{count(facts.messages)} messages could not be read.", "`gossamer status` says which, and why.")]


def _troubled(facts: Facts) -> list[Problem]:
    bad = sum(facts.trouble.values())
    if facts.visits < _ENOUGH or bad < _MOSTLY * facts.visits:
        return []
    worst = max(facts.trouble, key=lambda name: facts.trouble[name])
    what = f"{bad / facts.visits:.0%} of the visits are trouble, mostly {worst.replace('_', ' ')}."
    return [Problem(what, advice(worst))]
