"""`Scheduler` keeps the workbench filled: it alone takes pages from the frontier, and decides when and how many."""

from collections.abc import Callable
from math import ceil, inf

import numpy as np

from gossamer.arrays import U64, Bools, Rows
from gossamer.clocks import Clock
from gossamer.columns import NO_TEXT, REQUISITE, Status
from gossamer.config import CROSS_OVER, Config
from gossamer.crawl.fetching import Fetching
from gossamer.crawl.opening import Books
from gossamer.crawl.pacing import TOP_UP_S, is_top_up_due
from gossamer.crawl.reader import FOLLOWED, Requisites, Visit
from gossamer.crawl.round import Round
from gossamer.crawl.states import longest_forbidden_s, longest_s
from gossamer.crawl.visit_history import stored_of, validators_of
from gossamer.fetch.client import Request
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.sorted_runs import union
from gossamer.frontier.strategies import Strategy
from gossamer.web.posts import split_name
from gossamer.web.url import host_of

_PATIENCE = 4.0  # so many times what a take costs must pass before the next

_SOON_S = 2.0  # what a host can serve in that time comes first, so that many hosts get their turn
_AFTER_ALL = -1e300  # lower than any strategy's rank
_BEFORE_ALL = 1e300
_LATER_S = 60.0  # more of it only where there are not enough hosts

_NO_KEYS: U64 = np.zeros(0, np.uint64)
_SPENT = "today's budget of carbon is spent (carbon.g_per_day, carbon.contracts): what is left waits until tomorrow"

IsNative = Callable[[U64], Bools]


class Scheduler:
    """`Scheduler` fills the workbench of one agent. `is_native` decides which pages are in our own zones; it matters in
    cross-over mode only."""

    def __init__(self, books: Books, fetching: Fetching, clock: Clock, is_native: IsNative) -> None:
        self._books, self._fetching, self._clock, self._is_native = books, fetching, clock, is_native
        self.outstanding = 0  # pages that were taken and have not come back
        self.needed = 0  # of these, requisites
        self.is_starving = False  # there was not enough to take
        self.cost_s = 0.0  # of all takes since the last commit
        self._taken = 0
        self._frozen_s = 0.0
        self._topped_s = clock.monotonic()
        self._take_cost_s = 0.0
        self._has_new = False  # since the last commit pages were taken that had never been visited
        self._begin_round()
        self._credit = 0.0  # revisits that were earned by first visits

    @property
    def is_lockstep(self) -> bool:
        """Returns whether rounds run in lockstep. With one connection the order of pages must not depend on timing: a
        round is generated, fetched whole, and committed before the next is generated."""
        return self._books.config.polite.connections == 1

    @property
    def _width(self) -> int:
        return self._books.config.crawl.width

    @property
    def is_patient(self) -> bool:
        """Returns whether only known pages are visited again, one now and then: nobody waits for their links."""
        return self._books.refresher is not None and not self.is_lockstep and not self._has_new

    @property
    def has_idle_connections(self) -> bool:
        return self._fetching.connections < self._books.config.polite.connections // 2

    @property
    def time_s(self) -> float:
        return min(self._frozen_s, self._clock.now()) if self.is_lockstep else self._clock.now()

    def committed(self) -> None:
        """Notes a commit: there may be new pages."""
        self.is_starving, self._topped_s, self.cost_s = False, -inf, 0.0
        self._has_new = False
        self._begin_round()
        if self._books.refresher is not None:
            self._books.refresher.committed()

    def _begin_round(self) -> None:
        """Forgets what `promises` has seen of a round: in how many visits, and which pages they found and were."""
        self._looked_at, self._least_due_s = 0, inf
        self.has_for_others = False  # pages of other agents; `promises` saw them
        self._unknown: U64 = _NO_KEYS
        self._back: U64 = _NO_KEYS

    def promises(self, round_: Round) -> bool:
        """Returns whether a commit would have something for our idle connections: new pages of hosts that have no
        request now, or pages that are due again."""
        now_s, visits = self._clock.now(), round_.visits[self._looked_at :]
        self._looked_at += len(visits)
        self._least_due_s = min(self._least_due_s, min((visit.next.due_s for visit in visits), default=inf))
        self._back = union(self._back, np.array([visit.response.request.key for visit in visits], np.uint64))
        found: list[Visit | Requisites] = [
            *visits,
            *(visit.requisites for visit in visits if visit.requisites is not None),
        ]
        targets = np.concatenate([_NO_KEYS, *(each.targets for each in found)])
        verdicts = np.concatenate([np.empty(0, np.uint8), *(each.verdicts for each in found)])
        keys = np.unique(targets[verdicts == FOLLOWED])
        is_native = self._is_native(keys)
        self.has_for_others |= not is_native.all()
        is_known = self._books.index.pages.look_up(keys)[0]
        self._unknown = union(self._unknown, keys[is_native & ~is_known])
        if self._least_due_s <= now_s or any(deferral.until_s <= now_s for deferral in round_.deferrals):
            return True
        back = np.array([deferral.request.key for deferral in round_.deferrals], np.uint64)
        waiting = np.setdiff1d(self._books.frontier.taken, union(self._back, back), assume_unique=True)
        return not np.isin(host_of_key(self._unknown), host_of_key(waiting)).all()

    def next_due_s(self) -> float | None:
        """Returns when something will be due that is not taken; None: never, as things stand."""
        frontier, refresher = self._books.frontier, self._books.refresher
        times_s: list[float | None] = [frontier.next_due_s()]
        if refresher is not None:
            times_s.append(refresher.next_due_s(self._clock.now(), frontier.taken))
        return min((due_s for due_s in times_s if due_s is not None), default=None)

    @property
    def is_left_with_refusals(self) -> bool:
        """Returns whether every page was visited, and none is visited twice: what is still due was forbidden."""
        return self._books.refresher is None and not self._books.frontier.pending

    def top_up(self, round_is_empty: bool) -> None:
        """Tops up the workbench, if it is time."""
        config, time_s = self._books.config, self._clock.now()
        far_s = time_s + longest_forbidden_s(config)
        self._books.frontier.wait_until(time_s + longest_s(config), far_s, config.fetch.retries)
        width, now_s = self._width, self._clock.monotonic()
        if self.is_lockstep:
            if not self.outstanding and round_is_empty:
                self._take(width, per_host(self._books.config)[1])
                self.is_starving = not self.outstanding
                if self.is_starving:
                    self._thaw()
            return
        is_time = now_s - self._topped_s >= max(TOP_UP_S, _PATIENCE * self._take_cost_s)
        if not is_top_up_due(self.outstanding, width, self.is_starving, self.has_idle_connections, is_time):
            return
        self._topped_s = now_s
        soon, later = per_host(self._books.config)
        self._take(width - self.outstanding, soon)
        half = width // 2 + 1 - self.outstanding
        if half > 0 and later > soon:
            self._take(half, later)
        self.is_starving = self.outstanding <= width // 2
        self._take_cost_s = self._clock.monotonic() - now_s

    def came_back(self, request: Request) -> None:
        """Notes that a page was visited, or given back."""
        self.outstanding -= 1
        self.needed -= request.is_requisite

    def take_requisites(self) -> int:
        """Takes what pages need, and no page. Returns how much that is."""
        rows = self._books.frontier.take(self._width, self.time_s, self._width)
        needed = rows["hops"] >= REQUISITE
        self._books.frontier.settle(rows["key"][~needed])
        self._add(rows[needed])
        return int(needed.sum())

    def _thaw(self) -> None:
        """Moves the time of lockstep. There time stands still, or what is due again would depend on how long things
        took. It moves on when nothing else is left, and when all that is due within our patience is due."""
        now_s, patience_s = self._clock.now(), self._books.config.crawl.patience_s
        frontier, refresher = self._books.frontier, self._books.refresher
        times_s: list[float | None] = [frontier.last_due_s(now_s + patience_s)]
        if refresher is not None:
            times_s.append(refresher.last_due_s(now_s, frontier.taken, patience_s))
        last_s = max((due_s for due_s in times_s if due_s is not None), default=None)
        if last_s is not None and last_s <= now_s:
            self._frozen_s = now_s

    def _take(self, room: int, per_host: int) -> None:
        books = self._books
        if room <= 0:
            return
        start_s = self._clock.monotonic()
        rows = self._mixed(room, per_host)
        if books.config.site.mode == CROSS_OVER and self._is_native(books.frontier.taken).any():
            # Own pages are due, or may be found by those under way: pages of others have to wait.
            foreign = ~self._is_native(rows["key"])
            books.frontier.settle(rows["key"][foreign])
            rows = rows[~foreign]
        self._add(rows)
        self.cost_s += self._clock.monotonic() - start_s

    def _add(self, rows: Rows) -> None:
        books = self._books
        if len(rows):
            seed, is_stored = books.config.crawl.seed, books.config.archive.warc
            found = requests(books.index, rows, books.strategy, seed, self._taken, is_stored)
            self._fetching.add(self._affordable(rows, found) if books.carbon else found)
            self.outstanding += len(rows)
            self.needed += int((rows["hops"] >= REQUISITE).sum())
            self._taken += len(rows)

    def _affordable(self, rows: Rows, found: list[Request]) -> list[Request]:
        """Returns the requests that today's budgets of carbon allow; the others are put off until tomorrow. What a
        green policy chose has been asked for already."""
        carbon, is_green = self._books.carbon, self._books.config.refresh.policy.startswith("green")
        assert carbon is not None
        asks = (rows["status"] != Status.FETCHED) | (not is_green)
        may, until_s = ~asks, 0.0
        may[asks], until_s = carbon.reserve(rows["key"][asks], self.time_s)
        self._fetching.put_off([found[i] for i in np.flatnonzero(~may).tolist()], until_s, _SPENT)
        return [found[i] for i in np.flatnonzero(may).tolist()]

    def _mixed(self, room: int, per_host: int) -> Rows:
        """Returns revisits and first visits; while there are first visits, at most `refresh.share` are revisits."""
        frontier, refresher, share = self._books.frontier, self._books.refresher, self._books.config.refresh.share
        if refresher is None:
            return frontier.take(room, self.time_s, per_host)
        again = self._again(int(min(ceil(room * share), self._credit)), per_host)
        self._credit -= len(again)
        rows = frontier.take(room - len(again), self.time_s, per_host)
        self._has_new |= len(rows) > 0
        # Revisits are earned by pages that were found, not by the room for them: few hosts may have little to offer.
        each = share / (1 - share) if share < 1 else inf
        self._credit = min(self._credit + len(rows) * each if len(rows) else self._credit, self._width * each)
        due_s = frontier.next_due_s()
        if due_s is None or due_s > self.time_s:  # nothing waits for its first visit
            again = np.concatenate((again, self._again(room - len(again) - len(rows), per_host)))
        if self.is_lockstep:  # the time that things took must not decide
            ranks = self._books.strategy.page_rank(again, self._books.config.crawl.seed)
            again = again[np.lexsort((again["key"], -ranks))]
        return np.concatenate((again, rows))

    def _again(self, count: int, per_host: int) -> Rows:
        books = self._books
        assert books.refresher is not None
        rows = books.refresher.take(count, self.time_s, books.frontier.taken, per_host)
        books.frontier.hold(np.sort(rows["key"]))
        return rows


def per_host(config: Config) -> tuple[int, int]:
    """Returns how many pages of one host the workbench may hold: while there are other hosts, and else."""
    polite = config.polite
    if config.index.queue_per_host:
        return config.index.queue_per_host, config.index.queue_per_host
    if not polite.delay_s:
        return config.crawl.width, config.crawl.width
    soon, later = (max(2, ceil(span_s / polite.delay_s)) * polite.burst for span_s in (_SOON_S, _LATER_S))
    return soon, later


def requests(
    index: PageIndex, rows: Rows, strategy: Strategy, seed: int, taken_before: int, must_be_stored: bool = False
) -> list[Request]:
    """Returns requests, best first. A rank is the strategy's, so that better pages found later overtake; where hosts
    are ranked, whose ranks change all the time, it is the order of taking."""
    if strategy.host_rank is None:
        ranks = strategy.page_rank(rows, seed).tolist()
    else:
        ranks = (-np.arange(taken_before, taken_before + len(rows), dtype=np.float64)).tolist()
    # Pages that failed before come after those never tried: a host's errors must not keep us from its good pages.
    ranks = [rank if not tries else _AFTER_ALL for rank, tries in zip(ranks, rows["tries"].tolist(), strict=True)]
    # Revisits were chosen by another measure, and their number was decided then.
    for place, position in enumerate(np.flatnonzero(rows["status"] == Status.FETCHED).tolist()):
        ranks[position] = _BEFORE_ALL / (1 + place)
    hosts = host_of_key(rows["key"])
    unique, inverse = np.unique(hosts, return_inverse=True)
    known = index.hosts.look_up(unique)[1]["known"][inverse].tolist()
    columns = [rows[name].tolist() for name in ("key", "depth", "hops", "tries")]
    found = [
        Request(key, url, host_of(url), depth, hops, tries, rank, known=pages)
        for url, key, depth, hops, tries, rank, pages in zip(index.urls(rows), *columns, ranks, known, strict=True)
    ]
    for request in found:
        if "#" in request.url:
            request.url, request.post = split_name(request.url)
    _add_history(index, rows, found, must_be_stored)
    return found


def _add_history(index: PageIndex, rows: Rows, found: list[Request], must_be_stored: bool) -> None:
    """Adds validators and digest of pages that were visited before, and which record has their content."""
    before = np.flatnonzero(rows["status"] != Status.NEW)
    if not len(before):
        return
    before = before[np.argsort(rows["key"][before])]
    there, visited = index.visited.look_up(np.ascontiguousarray(rows["key"][before]))
    before, visited = before[there], visited[there]
    texts = np.flatnonzero(visited["validators"] != np.uint64(NO_TEXT))
    validators = dict(zip(texts.tolist(), index.heap.read(visited["validators"][texts]), strict=True))
    for i, (position, digest) in enumerate(zip(before.tolist(), visited["digest"].tolist(), strict=True)):
        request = found[position]
        request.digest = digest
        if i in validators:
            request.etag, request.last_modified = validators_of(validators[i])
            request.stored = stored_of(validators[i])
            if must_be_stored and not request.stored:
                request.etag = request.last_modified = ""  # a 304 would refer to a record that nobody can name
