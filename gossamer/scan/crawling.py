"""`ScanCrawl` is the one crawl of a client: websites are handed to it while it runs, and each of them ends by itself.

A website is a seed with rules of its own, so its pages are reached from its own pages only (crawl/scope.py): what is
crawled of it does not depend on which other websites are in the same crawl. It is done when none of its pages is under
way, or due within `crawl.patience_s`. From then on its hosts are held: what would be due later is left alone. So is
what an earlier run has begun, until the coordinator assigns it again.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np

from gossamer.archive.copies import open_store
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import Changes, Message
from gossamer.archive.places import prepare, remember
from gossamer.arrays import AnyKeys
from gossamer.clocks import Clock
from gossamer.columns import Status
from gossamer.config import Config
from gossamer.crawl.commit import Closed
from gossamer.crawl.inbox import Aside, Inbox
from gossamer.crawl.opening import Books
from gossamer.crawl.peers import Alone, Arrived, Sent
from gossamer.crawl.reader import FOLLOWED, Visit
from gossamer.crawl.round import Round
from gossamer.crawl.seeds import Notes
from gossamer.event_log import EventLog
from gossamer.fetch.politeness import Deferred
from gossamer.frontier.caps import domain_key
from gossamer.frontier.pages import HOST_SHIFT, host_of_key
from gossamer.scan.messages import Progress
from gossamer.scan.waiting import in_words
from gossamer.scan.websites import Website, crawl_config, rules_of
from gossamer.web.url import host_key, host_of, page_key
from gossamer.wiring import lone_agent

# What is written of a round, and nobody needs any more when all websites are done that had visits in it.
_OF_ROUNDS = ("warc", "cdxj", "visits", "pages", "links", "depths")
_FEW = 64  # URLs read at a time
_REST = 3.0  # times what a commit took pass before the next one that a website asks for
_LOW = np.uint64(2 ** int(HOST_SHIFT) - 1)


@dataclass
class Open:
    """`Open` is a website that is being scanned. The agent's thread changes it."""

    website: Website
    begun_s: float  # since 1970
    since_s: float  # the same moment by the monotonic clock
    first_round: int  # that can have visits of it; 0: an earlier run began it
    hosts: set[int]  # keys of its hosts, as far as they are known
    is_seeded: bool = False
    pages: int = 0
    wire_bytes: int = 0
    returned: int = 0  # pages that the next commit takes in
    outcomes: Counter[str] = field(default_factory=Counter)
    waits_until_s: float | None = None
    took_s: float = 0.0  # in this run, once it is done

    @property
    def progress(self) -> Progress:
        return Progress(self.pages, self.wire_bytes, in_words(dict(self.outcomes), self.waits_until_s))


class Assigned(Alone):
    """`Assigned` gives the agent of a client its websites, and finds out when each is done. Its agent never ends by
    itself. Other threads call `assign`, `forget` and `standing`."""

    def __init__(
        self,
        books: Books,
        inbox: Inbox,
        aside: Aside,
        config: Config,
        keep: bool,
        clock: Clock,
        done: Callable[[Open], None],
    ) -> None:
        super().__init__(books, inbox, aside)
        self._config, self._keep, self._clock, self._done = config, keep, clock, done
        self._frontier, self._index = books.frontier, books.index
        self._intake.notes = _Seen(self)
        self._begun: SimpleQueue[Website] = SimpleQueue()
        self._open: dict[str, Open] = {}  # by what `Website.site` says of its hosts
        self._unread: dict[str, Open] = {}  # done, and their findings are not read yet
        self._held: set[int] = set(books.index.hosts.rows["host"].tolist())
        self._session = books.chain.round
        self._removed = self._session  # rounds of this session before it are out of the archive
        self._is_new = False  # something has come back since we last asked whether that is all
        self._took_s = self._rest_until_s = 0.0
        self._hold()

    # From other threads

    def assign(self, website: Website) -> None:
        self._begun.put(website)

    def forget(self, one: Open) -> None:
        """Lets the archive forget a website: its findings are read."""
        self._unread.pop(one.website.name, None)

    def standing(self) -> dict[str, Progress]:
        return {one.website.name: one.progress for one in list(self._open.values())}

    # For the agent

    @property
    def is_site(self) -> bool:
        return True

    def allowed(self) -> int | None:
        return None

    def pending(self) -> list[Message]:
        return []

    def look(self) -> None:
        while True:
            try:
                self._enter(self._begun.get_nowait())
            except Empty:
                break
        self._finish()

    @property
    def is_due(self) -> bool:
        """Returns whether a website has nothing under way but what the next commit takes in: it waits for that."""
        if not self._is_new or self._clock.monotonic() < self._rest_until_s:
            return False
        self._is_new = False
        taken = host_of_key(self._frontier.taken)
        return any(one.returned and one.returned >= _count(taken, one) for one in self._open.values())

    def take(self, messages: list[Message], round_: Round) -> Arrived:
        self._took_s = self._clock.monotonic()
        for one in self._open.values():
            one.is_seeded, one.returned = True, 0
        return super().take(messages, round_)

    def send(self, _closed: Closed, _is_last: bool = False, /) -> Sent:
        return Sent(changes=self._outdated())

    def committed(self) -> None:
        now_s = self._clock.monotonic()
        self._rest_until_s = now_s + _REST * (now_s - self._took_s)
        self._finish()

    def came_back(self, host: str) -> Open | None:
        """Returns the website of a host, if it is open: something of it has come back."""
        one = self._open.get(self._site(host))
        self._is_new |= one is not None
        return one

    def learn(self, one: Open, hosts: set[int]) -> None:
        """Adds hosts that a website's links lead to."""
        one.hosts |= hosts
        if hosts & self._held:
            self._hold()

    def _site(self, host: str) -> str:
        return Website.site(host, self._config.crawl.scope)

    def _enter(self, website: Website) -> None:
        config, books = self._config, self._books
        rules, start = rules_of(website, config, self._clock.now()), website.start
        site = self._site(host_of(start))
        hosts = {host_key(rules.host), host_key(f"www.{rules.host}")}
        is_known = bool(self._index.pages.look_up(np.array([page_key(start)], np.uint64))[0][0])
        if is_known and config.crawl.scope == "domain":
            rows = self._index.hosts.rows
            hosts |= set(rows["host"][rows["domain"] == domain_key(site)].tolist())
        if not is_known:
            self._intake.give(start, rules)
        first = 0 if is_known else books.chain.round
        clock = self._clock
        self._open[site] = Open(website, clock.now(), clock.monotonic(), first, hosts, is_seeded=is_known)
        self._hold()

    def _hold(self) -> None:
        """Holds the hosts of all websites but those that are open. Two names may have the same key."""
        wanted = set[int]().union(*(one.hosts for one in self._open.values()))
        self._frontier.held = np.array(sorted(self._held - wanted), np.uint32)

    def _finish(self) -> None:
        for site, one in list(self._open.items()):
            if one.is_seeded and (self._is_done(site, one) or self._is_late(one)):
                one.took_s = self._clock.monotonic() - one.since_s
                self._unread[one.website.name] = one
                del self._open[site]
                self._held |= one.hosts
                self._hold()
                self._done(one)

    def _is_late(self, one: Open) -> bool:
        minutes = self._config.crawl.minutes
        return bool(minutes) and self._clock.monotonic() - one.since_s >= 60 * minutes

    def _is_done(self, site: str, one: Open) -> bool:
        one.waits_until_s = None
        if _count(host_of_key(self._frontier.taken), one):
            one.waits_until_s = self._rests_until_s(one)
            return False
        first = np.array(sorted(one.hosts), np.uint64) << HOST_SHIFT
        rows = self._index.pages.ranges(first, first | _LOW)
        latest_s = self._clock.now() + self._config.crawl.patience_s
        rows = rows[(rows["due_s"] <= latest_s) & (rows["status"] != Status.FETCHED)]
        rows = rows[np.argsort(rows["due_s"], kind="stable")]
        for at in range(0, len(rows), _FEW):
            some = rows[at : at + _FEW]
            for url, due_s in zip(self._index.urls(some), some["due_s"].tolist(), strict=True):
                if self._site(host_of(url)) == site:
                    one.waits_until_s = due_s if due_s > self._clock.now() else None
                    return False
        return True

    def _rests_until_s(self, one: Open) -> float | None:
        """Returns until when a host of a website rests, as of the last commit."""
        now_s, hosts = self._clock.now(), self._books.resting.hosts.items()
        times_s = [until_s for host, (until_s, _) in hosts if until_s > now_s and host_key(host) in one.hosts]
        return min(times_s, default=None)

    def _outdated(self) -> Changes:
        """Removes rounds that have nothing of a website whose findings are still to be read, or are from an earlier
        run: nobody knows yet which of its websites come back."""
        if self._keep:
            return Changes()
        waiting = [one.first_round for one in (*self._open.values(), *list(self._unread.values()))]
        oldest = min((first for first in waiting if first), default=self._books.chain.round)
        if oldest <= self._removed or 0 in waiting:
            return Changes()
        self._removed = oldest
        found: dict[str, list[str]] = {}
        for kind in _OF_ROUNDS:
            for name in self._books.chain.files.get(kind, ()):
                label = label_of(name)
                if label and self._session <= label.first and label.last < oldest:
                    found.setdefault(kind, []).append(name)
        return Changes({}, found)


def _count(taken: AnyKeys, one: Open) -> int:
    return int(np.isin(taken, np.fromiter(one.hosts, np.uint32, len(one.hosts))).sum()) if len(taken) else 0


class _Seen(Notes):
    """`_Seen` passes on what comes back from the fetching thread."""

    def __init__(self, assigned: Assigned) -> None:
        super().__init__()
        self._assigned = assigned

    def saw(self, visit: Visit) -> None:
        request = visit.response.request
        one = self._assigned.came_back(request.host)
        if one is None:
            return
        one.wire_bytes += visit.response.size
        if not request.is_robots:
            one.pages += 1
            one.returned += 1
            one.outcomes[visit.outcome.name.lower()] += 1
            hosts = np.unique(host_of_key(visit.targets[visit.verdicts == FOLLOWED]))
            self._assigned.learn(one, set(hosts.tolist()) - one.hosts)

    def put_off(self, deferred: Deferred) -> None:
        one = self._assigned.came_back(deferred.request.host)
        if one is not None:
            one.returned += 1
            if deferred.outcome is not None:
                one.outcomes[deferred.outcome.name.lower()] += 1


class ScanCrawl:
    """`ScanCrawl` opens the crawl in a folder, or goes on with it. `run` returns after `stop`."""

    def __init__(self, folder: Path, config: Config, clock: Clock, keep: bool, done: Callable[[Open], None]) -> None:
        self.folder, own = folder, crawl_config(config, keep)
        self._config, self._stack = config, ExitStack()
        store = prepare(folder, own, clock.now())
        copied = open_store(folder, own, own.crawl.agent, clock.now())
        self._stack.enter_context(store.lock(own.crawl.agent))
        log = self._stack.enter_context(EventLog(folder / "log" / "crawl.jsonl"))
        remember(store, own)

        def peers(books: Books, inbox: Inbox, aside: Aside) -> Assigned:
            self._assigned = Assigned(books, inbox, aside, config, keep, clock, done)
            return self._assigned

        self._agent = lone_agent(copied, own, clock, Inbox(store), log, peers)
        self._rules = {rules.host: rules.words for rules in self._assigned.intake.scope.websites.all()}
        self.standing, self.forget = self._assigned.standing, self._assigned.forget

    def has_room_for(self, website: Website) -> bool:
        """Returns whether no other website of this crawl is on the same host, at another port."""
        rules = rules_of(website, self._config, 0.0)
        return self._rules.get(rules.host, rules.words) == rules.words

    def begin(self, website: Website) -> None:
        rules = rules_of(website, self._config, 0.0)
        self._rules[rules.host] = rules.words
        self._assigned.assign(website)
        self._agent.wake()

    def stop(self) -> None:
        self._agent.stop()
        self._agent.wake()

    def run(self) -> None:
        with self._stack:
            self._agent.run(lambda _: None)
