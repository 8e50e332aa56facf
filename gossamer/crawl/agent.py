"""One agent: opens the crawl, keeps the fetching thread busy, gathers rounds and commits them until nothing is left."""

from collections.abc import Callable
from math import ceil
from queue import Empty
from typing import Any, Protocol

from gossamer.archive.chain import Chain
from gossamer.archive.copies import mend
from gossamer.archive.digests import DigestCache
from gossamer.archive.manifest import Batch
from gossamer.archive.merge import merge
from gossamer.archive.store import Store
from gossamer.archive.warc import WarcWriter
from gossamer.clocks import Clock
from gossamer.config import CROSS_OVER, FIREWALL, NEVER, Config
from gossamer.crawl import commit
from gossamer.crawl.control import Alone, Post
from gossamer.crawl.counters import Tally
from gossamer.crawl.fetching import Broken, Fetching, Result
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Known, hostmap_files, robots_rows
from gossamer.crawl.pacing import STARVING_S, ends_early
from gossamer.crawl.reader import Reader, Visit
from gossamer.crawl.report import Accounts
from gossamer.crawl.round import Round
from gossamer.crawl.scoring import open_scores
from gossamer.crawl.seeds import NO_SEEDS
from gossamer.crawl.stats import Stats
from gossamer.crawl.supply import Supply
from gossamer.errors import SeedError
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.scores import scored
from gossamer.frontier.strategies import own_first, strategy
from gossamer.refresh.refresher import Refresher
from gossamer.sharing import placing
from gossamer.sharing.aside import Aside
from gossamer.sharing.checking import Checked
from gossamer.sharing.exchange import SEEDS, Exchange, high_water
from gossamer.sharing.handover import leaving
from gossamer.sharing.incoming import Incoming, numbered_parts
from gossamer.sharing.membership import Membership
from gossamer.sharing.outgoing import Outgoing
from gossamer.sharing.owners import Owners, Place
from gossamer.sharing.settling import arrivals, settle

_LOOK_S = 0.25  # how often the inbox, seed files and the display are looked after
_JUDGE_S = 0.1  # how often it is asked whether a round should end early: that takes a look at all of it
_DRAIN_S = 10.0  # how long a clean stop waits for requests under way
ZONES_MOVE = "zones change hands"  # why a run ends that is to be followed by another at once


class Events(Protocol):
    """Where an agent says what it does; `watch.log.EventLog` is one."""

    def event(self, name: str, **fields: Any) -> None: ...


class Agent:
    """The crawl of the zones of one chain. `run` may be called once; `stop` from any thread or signal handler."""

    def __init__(
        self,
        store: Store,
        config: Config,
        clock: Clock,
        exchange: Exchange,
        log: Events,
        post: Post | None = None,
        chain: Chain | None = None,
        place: Place | None = None,
        aside: Aside | None = None,
    ) -> None:
        aside = aside or Aside(config.crawl.agent, store, log)
        exchange = Checked(exchange, aside, store, place.sites.sites if place else ())
        self._config, self._clock, self._exchange, self._log = config, clock, exchange, log
        self._post, self._place = post or Alone.of(config.crawl.agent), place
        self._orders = self._post.orders()
        chain = chain or Chain.open(store, config.crawl.agent, exchange)
        mend(store, chain)
        index = PageIndex.open(store, chain.files, config.index)
        order = strategy(config.crawl.order)
        scores = open_scores(order, config, store, chain)
        order = scored(order, scores) if scores else order
        if config.site.mode == CROSS_OVER:
            order = own_first(order, lambda: chain.zones)  # they change, also in a moment
        frontier = Frontier(index, order, config.index, config.crawl.seed)
        frontier.restore(store, chain.files)
        ledger = Ledger.of(chain.state.ledger)
        self._books = books = commit.Books(store, config, chain, index, frontier, ledger, order, scores)
        if config.refresh.policy != NEVER:
            books.refresher = Refresher(index, config, clock, books.part, books.carbon)
        if place and place.placing:
            place.placing.open(store, hostmap_files(store), chain.state)
        settle(self._books, exchange, self._orders, place, clock.now())
        self._membership = Membership(store, chain, place)
        self._incoming = Incoming(store, chain, exchange, config.crawl.scope)
        self._outgoing = Outgoing(config, chain, ledger)
        self._reader = Reader(config, self._incoming.scope, self._incoming.named)
        self._digests = DigestCache(config.archive.digests)
        book = RobotsCache(config.polite, config.fetch.agent_name)
        book.load(robots_rows(store, chain, clock.now()))
        self._fetching = Fetching(config, clock, book, self._reader)
        self._restore_politeness()
        self._tally = Tally(store, chain, self._post.is_site)
        self._supply = Supply(self._books, self._fetching, clock, lambda: self._owners().is_native)
        self._arrived: list[Batch] = []  # when last looked
        self._stopping = False
        self._ended = ""
        self._phase = ""
        self._accounts = Accounts(
            config, clock, books, exchange, self._tally, self._fetching, self._supply,
            self._incoming, self._outgoing, self._membership, place,
        )  # fmt: skip
        self._looked_s = self._committed_s = clock.monotonic()
        self._commit_cost_s = 0.0
        self._judge_s = STARVING_S  # so long after the last commit it is asked whether the next one would help
        self._round = self._new_round()

    def stop(self) -> None:
        """End cleanly: what is under way may finish, then the round is committed."""
        self._stopping = True

    def run(self, show: Callable[[Stats], None]) -> Stats:
        self._begin()
        try:
            while not self._is_over():
                self._allow()
                if not self._is_held_back():
                    self._supply.top_up(self._round.empty)
                    if self._has_nothing_left() and self._is_over():
                        break  # without waiting for what will not come
                self._gather(_LOOK_S)
                if self._is_round_over():
                    self._commit()
                self._look(show)
            self._drain(show)
        finally:
            self._fetching.close()
        self._commit(clean=True)
        self._log.event("end", round=self._books.chain.number, visits=self._tally.visits)
        return self.stats()

    # Beginning

    def _begin(self) -> None:
        chain = self._books.chain
        self._log.event("begin", round=chain.number, known=self._books.index.count, order=self._books.strategy.name)
        incoming = self._incoming
        incoming.read_seeds(self._clock.now())
        if self._place and self._membership.has_lost:
            from gossamer.sharing.rediscover import links_to_lost  # DuckDB, for once

            incoming.again = links_to_lost(self._books.store, self._place)
            self._log.event("said again", links=len(incoming.again.key), gone=list(self._place.gone))
        if not (self._post.is_site or chain.number or incoming.has_seeds or incoming.batches()):
            raise SeedError(NO_SEEDS)
        # Before anybody is contacted it must be on record that a crawl is under way, or the next one would not wait.
        if incoming.seeds or incoming.batches() or chain.state.clean is not False or self._membership.has_lost:
            self._commit()
        self._allow()
        self._fetching.start()

    def _restore_politeness(self) -> None:
        """Hosts that rest go on resting. After a crash nobody knows who was contacted last: everybody waits."""
        chain, now_s = self._books.chain, self._clock.now()
        if not chain.number:
            return
        contact_s = min(chain.state.committed_s, now_s) if chain.state.clean else now_s
        # A successor waits until the last requests of the one before it are over, but not longer: clocks may be wrong.
        quiet_s = min(chain.state.quiet_until_s, now_s + self._config.fetch.timeout_s)
        self._fetching.workbench.restore(self._books.resting.hosts, now_s, max(contact_s, quiet_s))

    # Deciding

    def _is_over(self) -> bool:
        self._ended = self._why_over()
        return bool(self._ended)

    def _why_over(self) -> str:
        """Why the run ends, in words; nothing while it goes on."""
        crawl = self._config.crawl
        if self._stopping or self._orders.stop:
            return "stopped"
        if self._post.is_site:
            return ZONES_MOVE if self._zones_move() else ""
        if crawl.pages and self._tally.visits + self._round.pages >= crawl.pages:
            return f"limit of {crawl.pages:,} pages"
        if crawl.rounds and self._tally.run_rounds >= crawl.rounds:
            return f"limit of {crawl.rounds:,} rounds"
        if crawl.minutes and self._accounts.elapsed_s >= crawl.minutes * 60:
            return f"limit of {crawl.minutes:g} minutes"
        return self._why_idle()

    def _why_idle(self) -> str:
        """Why there is nothing to do, in words; nothing while there is."""
        incoming, now_s = self._incoming, self._clock.now()
        if self._supply.outstanding or not self._round.empty or incoming.seeds or not self._supply.is_starving:
            return ""
        if incoming.files.unread() or self._arrived:
            return ""
        due_s = self._supply.next_due_s()
        if due_s is None:
            return "nothing left to visit"
        if due_s > now_s + self._config.crawl.patience_s:
            if self._supply.is_left_with_refusals:
                return "nothing left to visit"
            minutes = ceil((due_s - now_s) / 60)
            return (
                f"nothing is due for another {minutes:,} minute{'s' * (minutes > 1)}: what failed is tried again then, "
                "hosts rest, or pages are fresh; the same command goes on"
            )
        return ""

    def _has_nothing_left(self) -> bool:
        supply = self._supply
        return not (supply.outstanding or self._post.is_site) and supply.is_starving and supply.next_due_s() is None

    def _zones_move(self) -> bool:
        chain, owners = self._books.chain, self._orders.owners
        arrived = arrivals(self._exchange, chain, owners, self._place)
        return bool(arrived or self._membership.moves or leaving(chain.zones, owners, chain.agent))

    def _allow(self) -> None:
        """How many pages may be visited, and until when we may be sure that nobody else visits ours."""
        pages = self._orders.pages if self._post.is_site else self._config.crawl.pages or None
        self._fetching.allow(None if pages is None else pages - self._tally.visits_before, self._post.lease_until_s)

    def _is_round_over(self) -> bool:
        crawl, since_s = self._config.crawl, self._clock.monotonic() - self._committed_s
        if self._membership.is_due or self._incoming.seeds:
            return True
        if any(SEEDS in (batch.kind, batch.sender) for batch in self._arrived):
            return True
        if self._round.empty and not self._arrived:
            return False
        if self._supply.is_patient and crawl.round_s and not (self._round.is_full(crawl.width) or self._arrived):
            # Until they are committed, pages are not due again.
            return since_s >= min(crawl.round_s, self._config.refresh.least_s)
        if self._round.is_full(crawl.width) or not self._supply.outstanding:
            return True
        if self._supply.is_lockstep:
            return False
        if crawl.round_s and since_s >= crawl.round_s:
            return True
        is_starving, is_idle = self._supply.is_starving, self._supply.has_idle_connections
        if since_s < self._judge_s or not (is_starving or is_idle):
            return False
        self._judge_s = since_s + _JUDGE_S
        return ends_early(is_starving, is_idle, self._supply.promises(self._round), since_s, self._commit_cost_s)

    def _is_held_back(self) -> bool:
        """Others are too far behind with what we found: find no more for now."""
        most = self._config.site.backlog_mb << 20
        return self._post.is_site and self._books.chain.backlog(self._exchange) > most

    # Gathering

    def _gather(self, patience_s: float) -> None:
        """Take what has finished; wait for the first, but not long."""
        results, width = self._fetching.results, self._config.crawl.width
        try:
            self._take(results.get(timeout=patience_s))
            while not self._round.is_full(width):
                self._take(results.get_nowait())
        except Empty:
            return

    def _take(self, result: Result) -> None:
        if isinstance(result, Visit):
            self._fetching.consumed(result)
            self._tally.run_bytes += len(result.response.body)
            self._round.add(result)
            if not result.response.request.is_robots:
                self._supply.outstanding -= 1
        elif isinstance(result, Broken):
            raise result.error
        else:
            self._supply.outstanding -= 1
            self._round.deferrals.append(result)
            if result.outcome is not None:
                self._round.outcomes[result.outcome.name.lower()] += 1

    def _drain(self, show: Callable[[Stats], None]) -> None:
        """Let requests under way finish."""
        self._phase = "stopping"
        self._fetching.stop()
        end_s = self._clock.monotonic() + _DRAIN_S
        while self._fetching.connections and self._clock.monotonic() < end_s:
            self._gather(_LOOK_S)
            self._look(show)
        self._fetching.close()
        while not self._fetching.results.empty():
            self._take(self._fetching.results.get())

    def _look(self, show: Callable[[Stats], None]) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._arrived = self._incoming.read_seeds(self._clock.now())
            self._books.chain.publish(self._exchange)
            self._membership.look()
            stats = self.stats()
            self._post.report(self._accounts.facts(stats, self._granted(), self._why_idle()))
            orders, before = self._post.orders(), self._orders
            self._orders = orders
            if (orders.owners, orders.holding) != (before.owners, before.holding):
                self._incoming.owners_changed()
            show(stats)

    def _granted(self) -> int | None:
        """What we were granted; or what we have begun, if the grant was lowered meanwhile."""
        begun = self._tally.visits + self._round.pages + self._fetching.connections
        return None if self._orders.pages is None else max(self._orders.pages, begun)

    # Committing

    def _commit(self, clean: bool = False) -> None:
        start_s = self._clock.monotonic()
        self._phase = "committing"
        books, round_, batches = self._books, self._round, self._incoming.batches()
        orders = self._orders
        owners = self._owners()
        arrived = self._incoming.take(
            batches, round_.sitemaps, round_.named, books.index, books.ledger, orders, owners, round_.followed
        )
        for site, said in arrived.heard:
            self._membership.hear(site, said)
        if arrived.widened:
            self._reader.forget()
        others = orders.others if books.strategy.virtual else {}
        self._outgoing.forget(arrived.unknown_there)
        changes, links, new, textless = commit.close(
            books, round_, arrived.rows, owners, sum(others.values()), self._supply.time_s
        )
        letters = (
            arrived.outbox + self._outgoing.letters(links, owners, arrived.from_abroad) + self._outgoing.shares(others)
        )
        if self._place and self._place.placing and (news := self._place.placing.take_news()):
            changes |= placing.write(books.store, books.chain.label, [each["hosts"] for each in news])
            letters += self._outgoing.news(news, [*sorted(orders.others), *owners.abroad])
        letters += self._membership.letters(self._incoming.scope.hosts)
        letters += self._outgoing.questions([*arrived.unknown_here, *textless.tolist()], owners)
        changes |= books.resting.write(self._fetching.resting())
        changes |= arrived.changes | merge(books.store, books.chain.files, self._config, round_.number)
        self._tally.add(round_)
        books.chain.commit(
            changes,
            state=self._accounts.state(clean),
            marks=high_water(batches),
            outbox=numbered_parts(letters),
            exchange=self._exchange,
            applied=[(batch.stream, batch.number) for batch in batches],
            now_s=self._clock.now(),
        )
        books.index.release(changes)
        self._arrived = []
        self._round = self._new_round()
        self._phase = ""
        self._committed_s = self._clock.monotonic()
        self._commit_cost_s = self._committed_s - start_s
        self._judge_s = STARVING_S
        self._log.event(
            "commit",
            round=round_.number,
            visits=round_.pages,
            arrived=len(arrived.rows.key),
            new=new,
            known=books.index.count,
            sent_links=len(links.key) if self._config.site.mode != FIREWALL else 0,
            sent_bytes=sum(len(batch.data) for batch in letters),
            abroad=self._outgoing.abroad,
            generate_s=self._supply.cost_s,
            seconds=self._commit_cost_s,
        )
        self._supply.committed()

    def _owners(self) -> Owners:
        chain, everything = self._books.chain, self._config.site.mode == CROSS_OVER
        return Owners(chain.agent, chain.zones, self._orders.owners, self._place, everything, self._orders.holding)

    def _new_round(self) -> Round:
        books = self._books
        number = books.chain.round
        warc = WarcWriter(books.store, number, self._config) if self._config.archive.warc else None
        return Round(number, warc, self._digests, Known(books.index))

    def stats(self) -> Stats:
        """One look at the crawl, for the display."""
        may_wait = self._round.empty and not self._arrived
        return self._accounts.stats(self._round, may_wait, self._phase, self._ended)
