"""This module decides how many agents a site needs, from what they report and the time. It does no I/O.

An agent serves as many hosts at a time as it has connections. More agents help while hosts are due that none of them
can serve. CPU alone brings nobody: a polite crawl waits. It only says whether an agent that has connections left could
use them, and whether the machine has a core left for another one.
"""

from collections import deque
from collections.abc import Collection, Mapping
from math import ceil, inf
from typing import NamedTuple

import msgspec

from gossamer.config import UNLIMITED

_TOLERANCE = 1.1  # hosts that are due, per connection: below it the wait is short
_FULL = 0.5  # of their connections, and of a core, may be in use after agents have left: so nobody has to come back
_BUSY_CORE = 0.8  # an agent that uses so much of a core has no time for more connections
_BUSY_MACHINE = 0.9  # likewise all cores together
_STEADY = 0.2  # of the time between two changes must show the need for one


class Load(NamedTuple):
    """`Load` is what one agent has to do: figures of a moment, or their mean."""

    busy: float = 0.0  # connections
    due: float = 0.0  # hosts whose turn it is, and that have no connection
    cpu: float = 0.0  # share of a core


class Limits(NamedTuple):
    """`Limits` hold for the agents of a site."""

    connections: int  # of each agent
    least: int = 1
    most: int = UNLIMITED
    cores: float = inf  # of all machines; infinity: not known


class Advice(msgspec.Struct, frozen=True):
    """`Advice` says how many agents there should be now, and why. None: nobody knows."""

    agents: int | None
    why: str
    enough: int | None = None  # so many would be, were there no bounds to their number


class Situation(NamedTuple):
    """`Situation` is what there is to decide on. None is the load of an agent that begins, or is replaced."""

    loads: Mapping[str, Load | None]  # of the agents that shall stay
    is_settled: bool = True  # no zone and no host is changing hands
    room: float = inf  # agents that could begin at once
    pages_left: float = inf  # that the crawl may visit
    fixed: Collection[str] = ()  # agents that cannot leave


class Change(NamedTuple):
    """`Change` is what to do: so many agents come, or these leave."""

    add: int = 0
    retire: tuple[str, ...] = ()
    why: str = ""


NONE = Change()


def enough(loads: Collection[Load], limits: Limits) -> Advice:
    """Returns how many agents would be enough for these loads."""
    now, served = len(loads), limits.connections
    busy, due, cpu = (sum(column) for column in zip(*loads, strict=True)) if loads else (0.0, 0.0, 0.0)
    hosts, what = busy + due, _what(busy, due)
    each = f"one can serve {_count(served, 'host')} at a time"
    wanted, why = now, f"{what}, and {each}"
    if hosts > _TOLERANCE * now * served:
        wanted = ceil(hosts / served)
    elif due > (_TOLERANCE - 1) * max(busy, 1.0) and cpu >= _BUSY_CORE * now > 0:
        wanted = ceil(now * hosts / max(busy, 1.0))
        why = f"{what}, though connections are free: agents use {cpu / now:.0%} of a core each"
    elif (fewer := max(ceil(hosts / (_FULL * served)), ceil(cpu / _FULL))) < now:
        wanted = fewer
    if wanted > now and cpu >= _BUSY_MACHINE * limits.cores:
        return _bounded(
            now, f"{what}, but the {limits.cores:g} cores are busy: more agents would only share them", limits
        )
    return _bounded(wanted, why, limits)


def _bounded(wanted: int, why: str, limits: Limits) -> Advice:
    wanted = max(wanted, 1)
    return Advice(min(max(wanted, limits.least), limits.most), why, wanted)


def advice(situation: Situation, limits: Limits) -> Advice:
    """Returns the same, unless somebody has not reported."""
    if absent := sorted(name for name, load in situation.loads.items() if load is None):
        return Advice(None, f"nothing is known of {', '.join(absent)} yet")
    if not situation.loads:
        return Advice(None, "no agent is running")
    return enough([load for load in situation.loads.values() if load is not None], limits)


class Scaler:
    """`Scaler` decides about changes. It looks at means over a while, and makes at most one change in `every_s`; one
    change at most doubles or halves the number of agents. `changed_s` is when the last one was, also of a supervisor
    before us."""

    def __init__(self, every_s: float, changed_s: float = -inf) -> None:
        self._every_s, self.changed_s = every_s, changed_s
        self._seen: deque[tuple[float, Mapping[str, Load]]] = deque()

    def decide(self, now_s: float, situation: Situation, limits: Limits) -> Change:
        loads = {name: load for name, load in situation.loads.items() if load is not None}
        if not situation.is_settled or len(loads) < len(situation.loads) or not loads:
            self._seen.clear()  # what was before says nothing about what comes after
            return NONE
        if self._seen and self._seen[-1][1].keys() != loads.keys():
            self._seen.clear()
        self._seen.append((now_s, loads))
        steady_s = _STEADY * self._every_s
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - steady_s:
            self._seen.popleft()
        if now_s - self._seen[0][0] < steady_s or now_s - min(self.changed_s, now_s) < self._every_s:
            return NONE
        means = {name: _mean([seen[name] for _, seen in self._seen]) for name in loads}
        return _change(means, enough(means.values(), limits), situation)


def _change(means: Mapping[str, Load], advised: Advice, situation: Situation) -> Change:
    now, wanted = len(means), advised.agents or len(means)
    if wanted > now:
        add = int(min(wanted - now, now, situation.room))
        is_worth_it = situation.pages_left > sum(load.busy + load.due for load in means.values())
        return Change(add, (), advised.why) if add > 0 and is_worth_it else NONE
    # Those with least to do leave, the newest first.
    order = sorted(means, key=lambda name: (means[name].busy + means[name].due, -len(name), _reverse(name)))
    leaving = [name for name in order if name not in situation.fixed][: min(now - wanted, ceil(now / 2))]
    return Change(0, tuple(leaving), advised.why) if leaving else NONE


def _mean(loads: Collection[Load]) -> Load:
    return Load(*(sum(column) / len(loads) for column in zip(*loads, strict=True)))


def _reverse(name: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in name)


def _what(busy: float, due: float) -> str:
    if due < 1:
        return f"{_count(busy, 'host')} {'is' if round(busy) == 1 else 'are'} being served and none waits"
    wait = "waits" if round(due) == 1 else "wait"
    return f"{_count(due, 'host')} {wait} for a connection beside {busy:,.0f} being served"


def _count(number: float, what: str) -> str:
    return f"{number:,.0f} {what}{'' if round(number) == 1 else 's'}"
