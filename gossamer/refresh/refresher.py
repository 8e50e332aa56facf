"""`Refresher` chooses which fetched pages are visited again, and when: it alone runs the refresh policies on the index.

Now and then all visited pages are looked at, in pieces, so that memory does not grow with their number, and the best
of those that are due become a list. Nothing of it is stored: the index knows when each page was visited and how often
it had changed, and the rest follows. A page whose row has a due time waits for the frontier, not for us.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gossamer.arrays import F64, AnyKeys, Bools, Indices, Rows
from gossamer.clocks import Clock
from gossamer.columns import NEVER, REQUISITE, Status
from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.frontier.candidates import place_in_group
from gossamer.frontier.pages import host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.frontier.table import Table
from gossamer.refresh.change_rates import none_counted, rates
from gossamer.refresh.importance import Importance
from gossamer.refresh.policies import POLICIES, Caps, Pages, best, doubted, probes_s
from gossamer.refresh.visit_history import RATE, learn, restless_s, usual_s

if TYPE_CHECKING:
    from gossamer.carbon.account import Carbon

DAY_S = 86_400.0
_PATIENCE = 20.0  # so many times what a look costs must pass before the next
_TOO_DEAR_S = 60.0  # so long a page waits that no budget allows now: prices change no more often
_SAVED_S = DAY_S  # a budget that was not used is lost after so long
_CHUNK_ROWS = 1 << 18
_LISTED_PER_MB = 256  # of index.memory_mb: 16 bytes each


class KnownTables(Protocol):
    """`KnownTables` is the part of the index that is asked; `frontier.pages.PageIndex` is one."""

    @property
    def pages(self) -> Table: ...

    @property
    def visited(self) -> Table: ...


class _Seen(NamedTuple):
    """`_Seen` has visited pages, as a look finds them."""

    key: AnyKeys
    value: F64
    due_s: F64
    worth: F64  # of green policies: the value before carbon was paid for
    carbon_g: F64

    def where(self, which: Bools | Indices) -> "_Seen":
        columns: list[Any] = [column[which] for column in self]
        return _Seen(*columns)

    def joined(self, other: "_Seen") -> "_Seen":
        columns: list[Any] = [np.concatenate(pair) for pair in zip(self, other, strict=True)]
        return _Seen(*columns)

    @classmethod
    def none(cls) -> "_Seen":
        return cls(np.zeros(0, np.uint64), *np.zeros((4, 0)))


def check_refresh(config: Config) -> None:
    """Checks the settings before anything is created."""
    refresh = config.refresh
    if refresh.policy in ("azar", "harmonic") and not refresh.visits_per_day:
        raise ConfigError(f'refresh.policy = "{refresh.policy}" divides a budget: set refresh.visits_per_day')
    carbon = config.carbon
    if refresh.policy.startswith("green") and not (carbon.g_per_day or carbon.price or carbon.contracts):
        raise ConfigError(
            f'refresh.policy = "{refresh.policy}" weighs carbon: set carbon.g_per_day, carbon.price or carbon.contracts'
        )
    if refresh.least_s > refresh.most_s:
        raise ConfigError("refresh.least_s is more than refresh.most_s")


class Refresher:
    """`Refresher` works for one agent. `part` is its share of the crawl's budget: an agent has some of the zones."""

    def __init__(
        self,
        index: KnownTables,
        config: Config,
        clock: Clock,
        part: Callable[[], float] = lambda: 1.0,
        carbon: "Carbon | None" = None,  # what green policies ask
        importance: Importance | None = None,
    ) -> None:
        check_refresh(config)
        self._importance = importance or Importance()
        self._index, self._config, self._clock, self._part, self._carbon = index, config, clock, part, carbon
        self._policy = POLICIES[config.refresh.policy]
        self._list = _Seen.none()  # due, the best first
        self._next_s = inf  # when something becomes due that is not listed
        self._last_s: float | None = None  # when all has become due that does so within our patience
        self._rested_s = -inf  # by the monotonic clock: when the next look may be
        self._is_old = True  # since the last look something was visited, or not taken after all
        self._spare = 0.0  # visits that the budget still allows
        self._counted_s: float | None = None

    def learn(self, rows: Rows, times: F64, changed: Bools, modified_s: F64) -> None:
        """Updates the rows of pages that were visited again."""
        learn(rows, times, changed, modified_s, self._config.refresh)

    def committed(self) -> None:
        """Notes that pages were visited: other pages may be due now."""
        self._is_old = True

    def take(self, count: int, now_s: float, taken: AnyKeys, per_host: int) -> Rows:
        """Returns at most `count` pages that are due, best first; at most `per_host` of a host, with those taken."""
        self._save(now_s)
        count = int(min(count, self._spare))
        if count <= 0:
            return self._rows(self._list.key[:0])
        self._look_if_due(now_s, taken)
        hosts = host_of_key(self._list.key)
        # The list may be younger than the caller's time, which stands still in lockstep.
        is_due = self._list.due_s <= now_s
        listed = np.flatnonzero(is_due & (place_in_group(hosts) < per_host - _count_of(taken, hosts)))[:count]
        chosen = self._list.where(listed)
        self._list = self._list.where(np.delete(np.arange(len(hosts)), listed))
        rows = self._rows(chosen.key)
        waits = (rows["due_s"] == NEVER) & _is_fetched(rows) & ~search(taken, chosen.key)[0]
        chosen = chosen.where(waits)
        if self._policy.is_green and self._carbon is not None:
            chosen = chosen.where(self._carbon.choose(chosen.key, chosen.worth, chosen.carbon_g, now_s))
        self._is_old |= len(chosen.key) < len(listed)  # the others are no longer listed, and will be due again
        self._spare -= len(chosen.key)
        return self._rows(chosen.key)

    def next_due_s(self, now_s: float, taken: AnyKeys) -> float | None:
        """Returns when something will be due that is not taken; None: never, as things stand."""
        self._save(now_s)
        self._look_if_due(now_s, taken)
        due_s = now_s if len(self._list.key) else self._next_s
        if self._is_old:  # nobody knows before the next look
            due_s = min(due_s, now_s + max(0.0, self._rested_s - self._clock.monotonic()))
        if due_s < inf and self._spare < 1:
            due_s = max(due_s, now_s + (1 - self._spare) / self._budget_per_s)
        return due_s if due_s < inf else None

    def last_due_s(self, now_s: float, taken: AnyKeys, patience_s: float) -> float | None:
        """Returns when all pages are due that become due within our patience; None: there are none."""
        self._look(now_s, taken, patience_s)
        return self._last_s

    def all_due(self, now_s: float) -> tuple[AnyKeys, F64, F64]:
        """Returns the keys of all pages that will be visited again, sorted, with their values now, and when."""
        found = _Seen.none()
        self._measure()
        for rows in self._index.visited.scan(_CHUNK_ROWS):
            found = found.joined(self._seen(rows, now_s, found.key[:0]))
        ever = found.where(found.due_s < inf)
        return ever.key, ever.value, ever.due_s

    @property
    def _budget_per_s(self) -> float:
        per_day = self._config.refresh.visits_per_day
        return per_day * self._part() / DAY_S if per_day else inf

    def _save(self, now_s: float) -> None:
        if self._budget_per_s == inf:
            self._spare = inf
            return
        passed_s = 0.0 if self._counted_s is None else max(now_s - self._counted_s, 0.0)
        most = max(1.0, self._budget_per_s * _SAVED_S)
        self._spare = min(self._spare + passed_s * self._budget_per_s, most)
        self._counted_s = now_s if self._counted_s is None else max(now_s, self._counted_s)

    def _look_if_due(self, now_s: float, taken: AnyKeys) -> None:
        is_worth = self._due_at == -inf  # what a visit is worth changes all the time
        if self._clock.monotonic() >= self._rested_s and (self._is_old or is_worth or now_s >= self._next_s):
            self._look(now_s, taken)

    def _look(self, now_s: float, taken: AnyKeys, patience_s: float = 0.0) -> None:
        start_s, most = self._clock.monotonic(), self._config.index.memory_mb * _LISTED_PER_MB
        found = _Seen.none()
        self._next_s, self._last_s = inf, None
        if self._is_old:  # weights change with commits only
            self._measure()
        for rows in self._index.visited.scan(_CHUNK_ROWS):
            seen = self._seen(rows, now_s, taken)
            due = seen.due_s <= now_s
            self._next_s = min(self._next_s, float(seen.due_s[~due].min(initial=inf)))  # reports have no NumPy numbers
            soon = seen.due_s[seen.due_s <= now_s + patience_s]
            if len(soon):
                self._last_s = max(self._last_s or 0.0, float(soon.max()))
            found = found.joined(seen.where(due))
            found = found.where(best(found.value, found.key, most))
        self._list, self._is_old = found, False
        end_s = self._clock.monotonic()
        self._rested_s = end_s + _PATIENCE * (end_s - start_s)

    def _measure(self) -> None:
        """Learns what pages weigh on average, if the policy asks for it."""
        if self._config.refresh.weight == "importance" and self._policy.weighs:
            self._importance.measure(self._fetched(rows) for rows in self._index.visited.scan(_CHUNK_ROWS))

    def _fetched(self, visited: Rows) -> tuple[Rows, Rows]:
        pages = self._index.pages.look_up(np.ascontiguousarray(visited["key"]))[1]
        fetched = _is_fetched(pages)
        return visited[fetched], pages[fetched]

    def _weights(self, visited: Rows, pages: Rows) -> F64:
        kind = self._config.refresh.weight if self._policy.weighs else "alike"
        if kind == "importance":
            return self._importance.of(visited, pages)
        return pages["hits"] + 1.0 if kind == "hits" else np.ones(len(pages))

    def _seen(self, visited: Rows, now_s: float, taken: AnyKeys) -> _Seen:
        """Returns the pages that may be visited again, what that is worth, and when."""
        refresh = self._config.refresh
        keys = np.ascontiguousarray(visited["key"])
        pages = self._index.pages.look_up(keys)[1]
        waits = _is_fetched(pages) & (pages["due_s"] == NEVER) & ~search(taken, keys)[0]
        visited, keys = visited[waits], keys[waits]
        last_s = np.minimum(visited["last_s"].astype(np.float64), self._clock.now())  # it may have been set back
        age_s = np.maximum(now_s - last_s, 0.0)
        hosts = host_of_key(keys)
        weight = self._weights(visited, pages[waits])
        interval_s = np.full(len(keys), refresh.interval_s)
        if refresh.policy == "adaptive":
            interval_s = np.where(visited["interval_s"] > 0, visited["interval_s"], interval_s)
        change_per_s = self._rates(visited, hosts) if self._policy.learns else np.zeros(len(keys))
        carbon_g, toll, affords = self._toll(visited, hosts, now_s)
        budget_per_s = self._budget_per_s * len(keys) / max(self._index.visited.count, 1)
        probe_s: F64 | float = 0.0
        if self._policy.explores:
            change_per_s = doubted(change_per_s, visited["changes"])
            probe_s = self._probes_s(visited, age_s)
        look = Pages(change_per_s, weight, age_s, interval_s, toll, self._caps(hosts), probe_s)
        if self._policy.due_at == -inf:
            value = self._policy.value(look, budget_per_s)
            due_s = last_s + refresh.least_s
            if self._config.carbon.idle == "negative":
                affords &= value >= 0
            due_s = np.where(affords, due_s, np.maximum(due_s, now_s + _TOO_DEAR_S))
            return _Seen(keys, value, due_s, value + toll, carbon_g)
        # The value of a page's age is proportional to it: at 1 it is due. A budget is spent on the most overdue.
        per_s = self._policy.value(replace(look, age_s=np.ones(len(keys))), budget_per_s)
        with np.errstate(divide="ignore"):
            pause_s = np.clip(1 / per_s, refresh.least_s, refresh.most_s)
        due_s = last_s + (refresh.least_s if self._due_at == -inf else pause_s)
        return _Seen(keys, age_s / pause_s, due_s, carbon_g, carbon_g)

    @property
    def _due_at(self) -> float:
        return self._policy.due_from(self._budget_per_s)

    def _probes_s(self, visited: Rows, age_s: F64) -> F64:
        spans_s = visited["last_s"].astype(np.float64) - visited["first_s"]
        return probes_s(
            restless_s(visited, self._config.refresh), age_s, spans_s / np.maximum(visited["visits"] - 1.0, 1)
        )

    def _toll(self, visited: Rows, hosts: AnyKeys, now_s: float) -> tuple[F64, F64, Bools]:
        """Returns grams that visits would cost, what these are worth, and whether we may spend them."""
        if not self._policy.is_green or self._carbon is None:
            return np.zeros(len(hosts)), np.zeros(len(hosts)), np.ones(len(hosts), np.bool_)
        carbon_g, price, affords = self._carbon.of(visited, hosts, now_s)
        return carbon_g, carbon_g * price, affords

    def _rates(self, visited: Rows, hosts: AnyKeys) -> F64:
        """Returns changes per second. Pages that were visited once get what is likely by the intervals that are usual
        at their hosts, or everywhere."""
        refresh, known = self._config.refresh, visited["change_rate"] * RATE
        once = np.flatnonzero(known == 0)
        if not len(once):
            return known
        spans_s = visited["last_s"].astype(np.float64) - visited["first_s"]
        prior_s = usual_s(hosts, spans_s, visited["visits"] - 1.0)
        all_s = prior_s[prior_s > 0].mean() if prior_s.any() else refresh.interval_s
        prior_s = np.maximum(np.where(prior_s > 0, prior_s, all_s), refresh.least_s)[once]
        usual, which = np.unique(prior_s, return_inverse=True)
        known[once] = rates(none_counted(len(usual)), usual, refresh.least_s)[which]
        return known

    def _caps(self, hosts: AnyKeys) -> Caps | None:
        delay_s = self._config.polite.delay_s
        if self._config.refresh.policy not in ("azar", "harmonic") or not delay_s:
            return None
        number = np.cumsum(np.diff(hosts, prepend=hosts[:1]) != 0)
        return Caps(number, np.full(int(number[-1]) + 1 if len(number) else 0, 1 / delay_s))

    def _rows(self, keys: AnyKeys) -> Rows:
        order = np.argsort(keys)
        rows = np.empty(len(keys), self._index.pages.dtype)
        rows[order] = self._index.pages.look_up(keys[order])[1]
        return rows


def _count_of(taken: AnyKeys, hosts: AnyKeys) -> Indices:
    busy, counts = np.unique(host_of_key(taken), return_counts=True)
    found, at = search(busy, hosts)
    count = np.zeros(len(hosts), np.intp)
    count[found] = counts[at[found]]
    return count


def _is_fetched(pages: Rows) -> Bools:
    """Returns which pages have content that may change. What pages need is fetched once."""
    fetched: Bools = (pages["status"] == Status.FETCHED) & (pages["hops"] < REQUISITE)
    return fetched
