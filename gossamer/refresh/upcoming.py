"""This module says which pages a crawl visits next, in which order and why, as far as its committed files tell.

It serves SQL: the columns of `pages` that the index knows, and the table `frontier`. The order is that of the scheduler
(`crawl/scheduler.py`): among pages that may be visited now the best first, of each host only so many before other hosts
have had their turn, and first visits mixed with revisits by `refresh.share`; then the others by the time at which they
may be visited. Requests that are under way are not known from files; nor is what is found meanwhile.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gossamer.archive.reading import Reading
from gossamer.archive.views import FROM_INDEX
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.arrays import F64, Bools, Generic, Indices, Keys, Rows
from gossamer.clocks import Clock, RealClock
from gossamer.columns import NEVER, PAGE, Column, Status
from gossamer.config import NEVER as NO_POLICY
from gossamer.config import Config
from gossamer.config.folders import folder_of
from gossamer.config.last_run import recall
from gossamer.crawl.scheduler import per_host
from gossamer.frontier.candidates import place_in_group
from gossamer.frontier.known_pages import KnownPages, rows_of
from gossamer.frontier.pages import host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.refresh.importance import Importance
from gossamer.refresh.refresher import DAY_S, Refresher
from gossamer.refresh.visit_history import RATE
from gossamer.web.url import host_key

_WAITING = (Status.NEW, Status.FAILED, Status.FORBIDDEN)
# Words are looked up in these: a page has one of them, not a copy.
_WHY = np.full(len(Status), "", object)
_WHY[[Status.NEW, Status.FETCHED, Status.FAILED, Status.FORBIDDEN]] = (
    "new",
    "due again",
    "failed before",
    "forbidden before",
)
_WAITS_FOR = np.array(["", "its host's delay", "its host's rest", "its time"], object)


class Waiting(NamedTuple):
    """`Waiting` has the pages that will be visited, sorted by key, as columns."""

    key: Keys
    status: Rows
    rank: F64  # by the crawl's order; of revisits, by the refresh policy
    may_s: F64  # when it may be visited
    tried: Bools  # the last visit failed


class Order(NamedTuple):
    """`Order` has what `frontier` tells of pages that are waiting."""

    place: Indices
    ahead: Indices
    why: NDArray[np.object_]
    waits_for: NDArray[np.object_]


def ordered(pages: Waiting, rests: Bools, now_s: float, share: float, at_once: int, host_rank: F64 | None) -> Order:
    """Returns the order of pages. `rests` says whose hosts rest, `at_once` how many pages of a host are taken before
    others have had their turn; `host_rank`, if the crawl's order has one, is that of their hosts."""
    now, again = pages.may_s <= now_s, pages.status == Status.FETCHED
    hosts = host_of_key(pages.key)
    # A host's own queue: revisits, pages that never failed, others; those that may not be visited yet come last.
    queue = np.lexsort((pages.key, -pages.rank, pages.tried, ~again, np.where(now, 0.0, pages.may_s), hosts))
    ahead = np.empty(len(queue), np.intp)
    ahead[queue] = place_in_group(hosts[queue])
    rank = pages.rank if host_rank is None else np.where(again, pages.rank, host_rank - ahead)
    by_rank = np.lexsort((pages.key, -rank, ahead // at_once))
    turn = np.empty(len(queue))
    for kind, part in ((again, share), (~again, 1 - share)):
        of_kind = by_rank[kind[by_rank]]
        turn[of_kind] = (np.arange(len(of_kind)) + 0.5) / max(part, 1e-9)
    order = np.lexsort((pages.key, turn, np.where(now, 0.0, pages.may_s)))
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(1, len(order) + 1)
    waits_for = np.select([now & (ahead > 0), ~now & rests, ~now], [1, 2, 3], 0)
    return Order(place, ahead, _WHY[pages.status], _WAITS_FOR[waits_for])


def _waits(rows: Rows) -> Bools:
    """Returns which pages wait for a visit that the refresh policy has nothing to do with."""
    waits: Bools = np.isin(rows["status"], _WAITING) & (rows["due_s"] != NEVER)
    return waits


class _Agent:
    """`_Agent` is one agent of the crawl."""

    def __init__(self, at: Reading, agent: str, clock: Clock) -> None:
        # Of a crawl in a bucket that ran on another machine the options are not known here.
        self.config = recall(folder_of(at.root(agent))) or Config()
        self.index = KnownPages(at, agent, self.config.crawl.seed)
        self._clock, self._now_s = clock, clock.now()

    @cached_property
    def _again(self) -> tuple[Keys, F64, F64]:
        """Pages that are visited again: keys, values and when. There are none if the crawl has no policy."""
        if self.config.refresh.policy == NO_POLICY:
            return np.zeros(0, np.uint64), np.zeros(0), np.zeros(0)
        part = len(self.index.snapshot.zones) / ZONES_IN_ALL
        importance = Importance(lambda: self.index.snapshot.state.ledger.v)  # PageRank is not stored
        it = Refresher(self.index, self.config, self._clock, lambda: part, importance=importance)
        keys, values, due_s = it.all_due(self._now_s)
        return keys.astype(np.uint64, copy=False), values, due_s

    def due_s(self, rows: Rows) -> F64:
        """Returns when pages are due; NaN: never. What may be visited at once was due at the last commit."""
        at_once_s = self.index.snapshot.time_s
        due_s = np.where(rows["due_s"] == 0, at_once_s, rows["due_s"].astype(np.float64))
        due_s[~_waits(rows)] = np.nan
        keys, _, again_s = self._again
        found, at = search(keys, np.ascontiguousarray(rows["key"]))
        due_s[found] = again_s[at[found]]
        return due_s

    @cached_property
    def waiting(self) -> tuple[Keys, Order, F64]:
        """The pages that are waiting, sorted by key, their order, and when they may be visited."""
        first = np.concatenate([np.zeros(0, PAGE.numpy), *(rows[_waits(rows)] for rows in self.index.pages.scan())])
        again, values, _ = self._again
        rows = np.concatenate((first, rows_of(self.index.pages, again)[1]))
        ranks = np.concatenate((self._ranks(first), values))
        by_key = np.argsort(rows["key"])
        rows, ranks = rows[by_key], ranks[by_key]
        keys = np.ascontiguousarray(rows["key"])
        rest_s = self._rest_s(keys)
        may_s = np.maximum(self.due_s(rows), rest_s)
        pages = Waiting(keys, rows["status"], ranks, may_s, rows["tries"] > 0)
        soon, later = per_host(self.config)
        at_once = later if self.config.polite.connections == 1 else soon
        share = self.config.refresh.share
        return keys, ordered(pages, rest_s > self._now_s, self._now_s, share, at_once, self._host_ranks(keys)), may_s

    def _ranks(self, rows: Rows) -> F64:
        """Returns ranks; where they are not known, pages go in order of discovery."""
        return self.index.scores(rows) if self.index.strategy else -rows["text"].astype(np.float64)

    def _host_ranks(self, keys: Keys) -> F64 | None:
        strategy = self.index.strategy
        if strategy is None or strategy.host_rank is None:
            return None
        hosts, which = np.unique(host_of_key(keys), return_inverse=True)
        return np.asarray(strategy.host_rank(self.index.hosts.look_up(hosts)[1]), np.float64)[which]

    def _rest_s(self, keys: Keys) -> F64:
        """Returns until when the pages' hosts rest."""
        rests = {host_key(name): until_s for name, (until_s, _) in self.index.rests.items()}
        hosts = np.array(sorted(rests), np.uint32)
        until_s = np.array([rests[host] for host in hosts.tolist()])
        found, at = search(hosts, host_of_key(keys))
        rest_s = np.zeros(len(keys))
        rest_s[found] = until_s[at[found]]
        return rest_s


class Upcoming:
    """`Upcoming` answers, for keys of pages, what `views.FROM_INDEX` lists: it is a `query.Index`."""

    def __init__(self, at: Reading, clock: Clock | None = None) -> None:
        self._agents = [_Agent(at, agent, clock or RealClock()) for agent in at.snapshots]
        self._looks: dict[str, _Look] = {"ranked": _ranked, "due": _due, "changing": _changing, "waiting": _waiting}

    def columns(self, name: str, keys: pa.Array) -> pa.StructArray:
        """Returns these columns of pages; a page that is not known has NULLs."""
        wanted = keys.to_numpy(zero_copy_only=False).astype(np.uint64)
        fields = FROM_INDEX[name]
        values = [np.zeros(len(wanted), _NUMPY.get(field.dtype, object)) for field in fields]
        missing = [np.ones(len(wanted), np.bool_) for _ in fields]
        left = np.arange(len(wanted))
        for agent in self._agents:
            if not len(left):
                break
            found, columns = self._looks[name](agent, wanted[left])
            for value, lacks, column in zip(values, missing, columns, strict=True):
                value[left[found]] = column
                lacks[left[found]] = column != column  # NaN: not known
            left = left[~found]
        arrays = [_array(field, *column) for field, *column in zip(fields, values, missing, strict=True)]
        return pa.StructArray.from_arrays(arrays, [field.name for field in fields])


_Found = tuple[Bools, list[Generic]]  # which keys are known, and columns of these; NaN is NULL
_Look = Callable[[_Agent, Keys], _Found]
_NUMPY = {"time": "f8", "u4": "u4", "u8": "u8", "f8": "f8"}


def _array(field: Column, values: Generic, missing: Bools) -> pa.Array:
    if field.dtype == "time":
        values = (np.where(missing, 0, values) * 1e6).astype(np.int64)
        return pa.array(values, pa.timestamp("us"), mask=missing)
    return pa.array(values, pa.string() if values.dtype == object else None, mask=missing)


def _ranked(agent: _Agent, keys: Keys) -> _Found:
    found, rows = rows_of(agent.index.pages, keys)
    return found, [agent.index.scores(rows[found]), rows["hits"][found]]


def _due(agent: _Agent, keys: Keys) -> _Found:
    found, rows = rows_of(agent.index.pages, keys)
    return found, [agent.due_s(rows[found])]


def _changing(agent: _Agent, keys: Keys) -> _Found:
    found, rows = rows_of(agent.index.visited, keys)
    per_day = rows["change_rate"][found] * (RATE * DAY_S)
    return found, [np.where(per_day > 0, per_day, np.nan)]


def _waiting(agent: _Agent, keys: Keys) -> _Found:
    waiting, order, may_s = agent.waiting
    found, at = search(waiting, keys)
    at = at[found]
    names = np.full(len(at), agent.index.agent, object)
    return found, [order.place[at], order.ahead[at], may_s[at], order.why[at], order.waits_for[at], names]
