"""`Frontier` returns the best pages that are due now, at a cost that does not grow with the number of known pages."""

from pathlib import Path

import numpy as np

from gossamer import config
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.arrays import F64, AnyKeys, Indices, Rows
from gossamer.columns import NEVER, Status
from gossamer.frontier.candidates import NOTHING_YET, Candidates, Cuts, Position, better, place_in_group, top
from gossamer.frontier.due_queue import BUCKET_S, NO_HORIZON_S, DueQueue
from gossamer.frontier.frontier_file import KIND, Facts, read_frontier, write_frontier
from gossamer.frontier.index_files import Named, put, remove
from gossamer.frontier.pages import HOST_SHIFT, PageIndex, host_of_key
from gossamer.frontier.sorted_runs import raw, search, spans, union
from gossamer.frontier.strategies import Strategy

CANDIDATE_BYTES = 64  # 16, and copies of them while candidates come and go
REFILL_ROWS = 1 << 20
KEEP_SHARE = 8  # a frontier is kept if the index has so many times its pages; else a scan is cheap
CHECKED = 1024  # kept ranks that are compared with the strategy's


class Frontier:
    """Pages are *taken*, then *settled*: visited, their rows written, or given back.

    A commit keeps it (`flush`) when a scan or a fold of the index has made what was kept before useless. Rows that
    changed since are those that the index has not folded yet: a restart (`restore`) offers them again.
    """

    def __init__(self, index: PageIndex, strategy: Strategy, settings: config.Index, seed: int = 0) -> None:
        self._index = index
        self._strategy = strategy
        self._seed = seed
        self._memory_mb = settings.memory_mb
        share = (settings.memory_mb << 20) // 6
        self._capacity = share * 3 // 4 // CANDIDATE_BYTES
        self._candidates = Candidates()
        self._later = DueQueue(share // 4 // 24)
        self.taken: AnyKeys = np.zeros(0, np.uint64)  # keys of pages, until they are settled; sorted
        self._now_s = 0
        self.latest_s = NEVER  # no page that waits for a visit waits longer, but for
        self.latest_far_s = NEVER  # those that are forbidden
        self._retries = -1  # of those, by which we found what is due
        self._far_s = NO_HORIZON_S  # when the first of these is due; they are not in `_later`, a scan finds them
        self._per_host = 1
        self._width = 1
        self.held: AnyKeys = np.zeros(0, np.uint32)  # hosts of which no page is taken for now, sorted
        self._files: list[str] = []
        self._kept_at: str | None = None  # the fold that our file belongs to; None: there is no good file
        self._restored = False  # and not used yet
        self.scans = 0

    @property
    def pending(self) -> int:
        """About how many pages are due: those not visited yet, or at least the candidates."""
        rows = self._index.hosts.rows
        unvisited = int(rows["known"].sum(dtype=np.int64)) - int(rows["visited"].sum(dtype=np.int64))
        return max(len(self._candidates), unvisited - len(self.taken))

    @property
    def memory_bytes(self) -> int:
        return self._candidates.memory_bytes + self._later.memory_bytes + self.taken.nbytes

    def offer(self, rows: Rows, now_s: float, settled: AnyKeys | None = None) -> None:
        """Takes PAGE rows (sorted by key) as they were just written to the index; those of `settled` are among them."""
        self._turn_to(now_s)
        if settled is not None:
            self.taken = self.taken[~search(np.sort(settled), self.taken)[0]]
        self._admit(rows)
        if len(self._candidates) > self._capacity:
            self._trim()

    def wait_until(self, latest_s: float, latest_far_s: float, retries: int = -1) -> None:
        """Limits the wait: no page waits longer for a visit (if it is forbidden: than the second). A row with a later
        time was written while the clock was wrong. A forbidden page that was given up after fewer `retries` is due."""
        retries = min(retries, 254)  # a row counts no more than 255
        if retries > self._retries and self._candidates.floor != NOTHING_YET:
            self.rank_anew()
        self._retries = retries
        is_set_back = latest_s + BUCKET_S < self.latest_s < NEVER
        self.latest_s, self.latest_far_s = int(latest_s), min(int(latest_far_s), NEVER)
        if is_set_back or self._later.reaches(self.latest_s):
            self.rank_anew()
            self._now_s = 0
        if self._later.horizon_s < NO_HORIZON_S:  # there is more to come, which only the index knows
            self._later.horizon_s = min(self._later.horizon_s, max(self.latest_s, self._now_s + BUCKET_S))

    def take(self, count: int, now_s: float, per_host: int) -> Rows:
        """Returns at most `count` due pages, best first; at most `per_host` of a host, those still taken included."""
        self._turn_to(now_s)
        self._per_host, self._width = max(per_host, 1), max(count, len(self.taken), self._width)
        scanned = self._now_s >= min(self._later.horizon_s, self._far_s)
        if scanned:
            self._scan()
        elif len(keys := self._later.take(self._now_s)):
            self._admit(self._index.pages.look_up(keys)[1])
        while True:
            chosen, last = self._select(count)
            if self._refill(len(chosen) < count, last):
                continue
            if len(chosen) == count or scanned or self._candidates.floor is None:
                break
            scanned = True  # there is more below the floor
            self._scan()
        keys = self._candidates.keys[chosen]
        self._candidates.drop(np.sort(chosen))
        if len(self._candidates) > self._capacity:
            self._trim()
        self.hold(keys)
        order = np.argsort(keys)
        rows = np.empty(len(keys), self._index.pages.dtype)
        raw(rows)[order] = raw(self._index.pages.look_up(keys[order])[1])
        return rows

    def next_due_s(self) -> int | None:
        """Returns when something will be due that is not taken; None: never, as things stand."""
        if len(self._candidates) or self._candidates.floor or len(self._candidates.cuts.hosts):
            return self._now_s
        while (bucket := self._later.first()) is not None:
            keys, due_s = bucket
            order = np.argsort(keys)
            found, rows = self._index.pages.look_up(keys[order])
            valid = found & (rows["due_s"] == due_s[order])
            if valid.any():
                return min(int(rows["due_s"][valid].min()), self._far_s)
            self._later.forget_first()  # all of them changed since, and came again elsewhere
        next_s = min(self._later.horizon_s, self._far_s)
        return next_s if next_s < NO_HORIZON_S else None

    def last_due_s(self, limit_s: float) -> int | None:
        """Returns when all that becomes due up to the limit is due; None: nothing does."""
        return self._later.last_s(limit_s)

    def hold(self, keys: AnyKeys) -> None:
        """Counts these pages as taken."""
        self.taken = union(self.taken, keys)
        here, positions = search(self._candidates.keys, self.taken)
        self._candidates.drop(positions[here])

    def settle(self, keys: AnyKeys) -> None:
        """Takes pages back, visited or not; their rows have when they are due."""
        returned = search(np.sort(keys), self.taken)[0]
        found, rows = self._index.pages.look_up(self.taken[returned])
        self.taken = self.taken[~returned]
        self._admit(rows[found])

    def rank_anew(self) -> None:
        """Drops all candidates, because the strategy now ranks pages differently: the next `take` scans."""
        self._candidates = Candidates()
        self._later.clear()
        self._later.horizon_s = 0
        self._kept_at = None

    def flush(self, store: Store, label: str) -> Changes:
        """Stores the frontier after the index was flushed, unless what is stored still leads to it."""
        changes, folded = Changes(), self._index.pages.folded
        if self._kept_at == folded:
            return changes
        remove(changes, KIND, self._files)
        self._files, self._kept_at = [], None
        entries = len(self._candidates) + len(self._later) + len(self._candidates.cuts.hosts)
        is_scanned = self._candidates.floor != NOTHING_YET
        if folded and is_scanned and KEEP_SHARE * entries <= self._index.count:
            self._files, self._kept_at = [put(store, changes, KIND, label, self._write)[0]], folded
        return changes

    def restore(self, store: Store, files: Named) -> None:
        """Goes on with what was stored, if it is ours; else the first `take` scans."""
        self._files = list(files.get(KIND, []))
        kept = read_frontier(store.local(self._files[-1]), self._whose()) if self._files else None
        if kept is None:
            return
        facts, (keys, ranks, hosts, cut_ranks, cut_keys, later, due_s, taken) = kept
        if not self._are_ranks(keys, ranks):
            return
        self._now_s, self._per_host, self._width = facts["now_s"], facts["per_host"], facts["width"]
        self._candidates.keys, self._candidates.ranks = keys, ranks
        self._candidates.floor = Position(*facts["floor"]) if facts["floor"] else None
        self._candidates.cuts = Cuts(hosts, cut_ranks, cut_keys)
        self._later.horizon_s, self._far_s = facts["horizon_s"], facts.get("far_s", NO_HORIZON_S)
        self._retries = facts.get("retries", -1)
        self._later.add(later, due_s)
        self._admit(self._index.pages.look_up(taken)[1])  # nobody visited them, or else their rows come now
        for rows in self._index.pages.since_fold():
            self._admit(rows)
            if len(self._candidates) > self._capacity:
                self._trim()
        self._kept_at, self._restored = self._index.pages.folded, True

    def _write(self, path: Path) -> None:
        candidates = self._candidates
        facts = {
            "now_s": self._now_s,
            "per_host": self._per_host,
            "width": self._width,
            "floor": candidates.floor,
            "horizon_s": self._later.horizon_s,
            "far_s": self._far_s,
            "retries": self._retries,
        }
        arrays = [candidates.keys, candidates.ranks, *candidates.cuts, *self._later.all(), self.taken]
        write_frontier(path, self._whose(), facts, arrays)

    def _whose(self) -> Facts:
        """Returns who may use what we store: the same order, on an index that was not folded since."""
        return {
            "order": self._strategy.name,
            "seed": self._seed,
            "by_host": self._strategy.host_rank is not None,
            "memory_mb": self._memory_mb,
            "folded": self._index.pages.folded,
        }

    def _are_ranks(self, keys: AnyKeys, ranks: F64) -> bool:
        """Returns whether the strategy still ranks so: the code or data behind its name may have changed."""
        step = max(1, len(keys) // CHECKED)
        keys, ranks = keys[::step], ranks[::step]
        rows = self._index.pages.look_up(keys)[1]
        return bool(((self._ranks(rows) == ranks) | self._index.pages.is_since_fold(keys)).all())

    def _turn_to(self, now_s: float) -> None:
        if self._restored and now_s < self._now_s:  # the clock was set back: less is due than we have
            self.rank_anew()
            self._now_s = 0
        self._restored = False
        self._now_s = max(self._now_s, int(now_s))

    def _admit(self, rows: Rows) -> None:
        keys = np.ascontiguousarray(rows["key"])
        waits = (rows["status"] == Status.NEW) | (rows["status"] == Status.FAILED)
        latest_s = np.where(waits, self.latest_s, self.latest_far_s)
        due = (rows["due_s"] <= self._now_s) | ((rows["due_s"] > latest_s) & (rows["due_s"] != NEVER))
        due |= (rows["due_s"] == NEVER) & (rows["status"] == Status.FORBIDDEN) & (rows["tries"] <= self._retries)
        wanted = due & ~search(self.taken, keys)[0]
        self._candidates.put(keys, self._ranks(rows), wanted)
        if not due.all():
            waits = ~due & (rows["due_s"] != NEVER)
            far = waits & (rows["due_s"] > self.latest_s)
            if far.any():
                self._far_s = min(self._far_s, int(rows["due_s"][far].min()))
            waits &= ~far
            self._later.add(keys[waits], rows["due_s"][waits])

    def _ranks(self, rows: Rows) -> F64:
        ranks = np.asarray(self._strategy.page_rank(rows, self._seed), np.float64)
        return np.where(np.isnan(ranks), -np.inf, ranks)

    def _scan(self) -> None:
        """Reads the whole index once: the best of what is due, and what becomes due before the horizon."""
        self.scans += 1
        self._kept_at = None
        self._candidates.clear()
        self._later.clear()
        self._far_s = NO_HORIZON_S
        for rows in self._index.pages.scan():
            self._admit(rows)
            if len(self._candidates) > self._capacity:
                self._trim()
        # A crowd that is due within a minute must not make every take a scan.
        self._later.horizon_s = max(self._later.horizon_s, self._now_s + BUCKET_S)

    def _trim(self) -> None:
        """Leaves out candidates: first fewer per host, which is cheap to undo, then all but the best."""
        # Half of the capacity must feed two widths, one of them for hosts whose pages are taken already, however few
        # hosts it is spread over.
        capacity = max(self._capacity, 4 * self._width)
        self._candidates.cap(max(self._per_host, capacity * self._per_host // (4 * self._width)))
        if len(self._candidates) <= capacity * 3 // 4:
            return
        if self._strategy.host_rank is None:
            self._candidates.raise_floor(capacity // 2)
        else:
            hosts, _, _ = self._candidates.hosts()
            self._candidates.leave_hosts(self._host_ranks(hosts), capacity // 2)

    def _host_ranks(self, hosts: AnyKeys) -> F64:
        """Returns ranks of hosts; pages on their way to a visit are no longer counted."""
        assert self._strategy.host_rank is not None
        ranks = np.asarray(self._strategy.host_rank(self._index.hosts.look_up(hosts)[1]), np.float64)
        return np.where(np.isnan(ranks), -np.inf, ranks) - self._taken_of(hosts)

    def _taken_of(self, hosts: AnyKeys) -> Indices:
        busy, counts = np.unique(host_of_key(self.taken), return_counts=True)
        found, positions = search(busy, hosts)
        taken = np.zeros(len(hosts), np.intp)
        taken[found] = counts[positions[found]]
        return taken

    def _room(self, hosts: AnyKeys) -> Indices:
        room = np.maximum(self._per_host - self._taken_of(hosts), 0)
        room[search(self.held, hosts)[0]] = 0
        return room

    def _select(self, count: int) -> tuple[Indices, Position]:
        """Returns indices of the best candidates, best first, and the place of the last in the total order."""
        chosen, ranks = self._by_host(count) if self._strategy.host_rank else self._by_page(count)
        if not len(chosen):
            return chosen, Position(float("-inf"), 0)
        return chosen, Position(float(ranks[-1]), int(self._candidates.keys[chosen[-1]]))

    def _by_page(self, count: int) -> tuple[Indices, F64]:
        keys, ranks = self._candidates.keys, self._candidates.ranks
        look_at = 2 * count
        while True:
            best = top(ranks, look_at)
            hosts = host_of_key(keys[best])
            chosen = best[place_in_group(hosts) < self._room(hosts)][:count]
            if len(chosen) == count or look_at >= len(keys):
                return chosen, ranks[chosen]
            look_at *= 4

    def _by_host(self, count: int) -> tuple[Indices, F64]:
        """Ranks a host's n-th page as its host minus n: the same as always choosing from the best host."""
        hosts, starts, sizes = self._candidates.hosts()
        host_ranks = self._host_ranks(hosts)
        slots = np.minimum(sizes, self._room(hosts))
        order = np.argsort(-host_ranks, kind="stable")
        enough = np.searchsorted(np.cumsum(slots[order]), count)
        # The last page of the hosts that would be enough: a host that ranks below it has no chance.
        least = (host_ranks - slots)[order[: enough + 1]].min(initial=np.inf)
        used = np.flatnonzero((slots > 0) & (host_ranks >= least))
        where = spans(starts[used], sizes[used])
        groups = np.repeat(used, sizes[used]).astype(np.uint64)
        order = np.lexsort((where, -self._candidates.ranks[where], groups))
        where, groups = where[order], groups[order]
        turns = place_in_group(groups)
        mine = turns < slots[groups]
        where, page_ranks = where[mine], (host_ranks[groups] - turns)[mine]
        best = np.lexsort((self._candidates.keys[where], -page_ranks))[:count]
        return where[best], page_ranks[best]

    def _refill(self, is_short: bool, last: Position) -> bool:
        """Reads those hosts again of which a page that was left out could have been chosen; false if none."""
        cuts = self._candidates.cuts
        ranks, keys = cuts.ranks, cuts.keys
        if self._strategy.host_rank is not None:
            ranks, keys = self._host_ranks(cuts.hosts), cuts.hosts.astype(np.uint64) << HOST_SHIFT
        matters = self._room(cuts.hosts) > self._candidates.count_of(cuts.hosts)
        if not is_short:
            matters &= better(ranks, keys, *last)
        if not matters.any():
            return False
        best = np.flatnonzero(matters)[np.lexsort((keys[matters], -ranks[matters]))]
        known = self._index.hosts.look_up(cuts.hosts[best])[1]["known"]
        hosts = np.sort(cuts.hosts[best[: 1 + np.searchsorted(np.cumsum(known), REFILL_ROWS)]])
        self._candidates.cuts = cuts.without(hosts)
        first = hosts.astype(np.uint64) << HOST_SHIFT
        rows = self._index.pages.ranges(first, first | np.uint64(2 ** int(HOST_SHIFT) - 1))
        self._put_capped(rows[rows["due_s"] <= self._now_s])
        return True

    def _put_capped(self, rows: Rows) -> None:
        """Takes rows of whole hosts: the best of each become candidates, a cut remembers the others."""
        keys = np.ascontiguousarray(rows["key"])
        apart = Candidates()
        apart.clear()
        apart.floor = self._candidates.floor
        apart.put(keys, self._ranks(rows), ~search(self.taken, keys)[0])
        apart.cap(4 * self._per_host)
        self._candidates.put(apart.keys, apart.ranks, np.ones(len(apart), np.bool_))
        self._candidates.cuts = self._candidates.cuts.joined(apart.cuts)
