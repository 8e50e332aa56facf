"""`Agent` is one crawling process: it opens the crawl, keeps the fetching thread busy, and gathers and commits rounds
until nothing is left."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import ceil, inf
from queue import Empty

from gossamer.archive.digests import DigestCache
from gossamer.archive.manifest import SEED_RULES, SEEDS, Changes, Message
from gossamer.archive.merge import merge, room_beside
from gossamer.archive.warc import WarcWriter
from gossamer.clocks import Clock
from gossamer.columns import NEVER, Outcome
from gossamer.crawl import commit
from gossamer.crawl.fetching import Broken, Fetching, Result
from gossamer.crawl.inbox import high_water
from gossamer.crawl.opening import Books, Known, robots_rows
from gossamer.crawl.pacing import STARVING_S, ends_early
from gossamer.crawl.peers import Peers
from gossamer.crawl.reader import Reader, Visit
from gossamer.crawl.refusals import Judge, settings
from gossamer.crawl.report import Accounts, Tally, cpu_s
from gossamer.crawl.round import Round
from gossamer.crawl.scheduler import Scheduler
from gossamer.crawl.seeds import NO_SEEDS
from gossamer.crawl.stats import Stats
from gossamer.errors import FunctionError, SeedError
from gossamer.event_log import EventLog, moment
from gossamer.fetch.robots_cache import RobotsCache

_LOOK_S = 0.25  # how often the inbox, the seed files and the display are looked after
_REST_S = 0.5  # the same, with nothing to do
_JUDGE_S = 0.1  # how often we ask whether a round should end early: the answer takes a pass over all of it
_SHOWN = 20  # hosts of one event in the log
_FINE = (Outcome.OK, Outcome.UNCHANGED, Outcome.MOVED)
_DRAIN_S = 10.0  # how long a clean stop waits for requests under way


class Agent:
    """`Agent` crawls the zones of one chain. `run` may be called once, `stop` from any thread or signal handler. The
    constructor opens sockets and reads the archive; nothing is committed before `run`."""

    def __init__(self, books: Books, clock: Clock, peers: Peers, log: EventLog) -> None:
        config, chain = books.config, books.chain
        self._books, self._config, self._clock, self._peers, self._log = books, config, clock, peers, log
        self._intake = peers.intake
        headers = books.carbon.headers if books.carbon else ()
        self._reader = Reader(config, self._intake.scope, self._intake.named, headers)
        self._digests = DigestCache(config.archive.digests)
        self._known = Known(books.index)
        robots = RobotsCache(config.polite, config.fetch.agent_name)
        robots.load(robots_rows(books.store, chain, clock.now()))
        folder = books.store.scratch("body").parent
        self._fetching = Fetching(config, clock, robots, self._reader, books.cookies(), folder, books.rendering)
        self._restore_politeness()
        self._tally = Tally(books.store, chain, peers.is_site)
        self._scheduler = Scheduler(books, self._fetching, clock, peers.is_native)
        self._arrived: list[Message] = []  # messages found at the last look
        self._stopping = False
        self._ended = ""
        self._phase = ""
        self._accounts = Accounts(config, clock, books, self._tally, self._fetching, self._scheduler, peers)
        self._looked_s = self._committed_s = clock.monotonic()
        self._commit_cost_s = 0.0
        self._judge_s = STARVING_S  # so long after the last commit we ask whether the next one would help
        self._round = self._new_round()

    def stop(self) -> None:
        """Ends the run cleanly: requests under way may finish, then the round is committed."""
        self._stopping = True

    def wake(self) -> None:
        """Makes the agent look at once for what others have for it; called from any thread."""
        self._looked_s = -inf
        self._fetching.results.put(None)

    def run(self, show: Callable[[Stats], None]) -> Stats:
        self._begin()
        try:
            while not self._is_over():
                self._allow()
                if not self._is_held_back():
                    self._scheduler.top_up(self._round.empty)
                    if self._has_nothing_left() and self._is_over():
                        break  # do not wait for what will not come
                self._gather(_LOOK_S if self._scheduler.outstanding or self._arrived else _REST_S)
                self._look(show)
                if self._is_round_over():
                    self._await_functions(show)
                    self._commit()
            if self._has_reached_pages():
                self._fetch_requisites(show)
            self._drain(show)
            self._await_functions(show)
            self._commit(clean=True)
            self._books.store.settle()  # copies in a bucket have the last manifest, too
        finally:
            self._fetching.close()
            if self._books.functions:
                self._books.functions.close()
        if why := self._why_functions():
            raise FunctionError(why)
        self._log.event("end", round=self._books.chain.number, visits=self._tally.visits, cpu_s=cpu_s())
        return self.stats()

    # Beginning

    def _begin(self) -> None:
        chain = self._books.chain
        known, order = self._books.index.count, self._books.strategy.name
        self._log.event("begin", round=chain.number, known=known, order=order, cpu_s=cpu_s())
        messages = self._peers.pending()
        self._intake.read(messages, self._clock.now())
        is_urgent = self._peers.begin()
        if not (self._peers.is_site or chain.number or self._intake.has_seeds or messages):
            raise SeedError(NO_SEEDS)
        # The archive must record a running crawl before any host is contacted, or the next one would not wait. An agent
        # that has just been added commits what it gets, and that is enough. One that was here before has something to
        # tell, whatever it knows: that it has given all its hosts away, say.
        is_news = (known or chain.number) and chain.state.clean is not False
        if is_urgent or self._intake.seeds or messages or self._must_judge_anew or is_news:
            self._commit()
        self._allow()
        self._fetching.start()

    def _restore_politeness(self) -> None:
        """Lets resting hosts go on resting. After a crash all hosts wait: nobody knows which were contacted last."""
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
        """Returns why the run ends, in words; empty while it goes on."""
        crawl = self._config.crawl
        if self._stopping:
            return "stopped"
        if why := self._why_functions():
            return why
        if self._peers.is_site:
            return self._peers.why_over()
        if self._has_pages_enough:
            return f"limit of {crawl.pages:,} pages"
        if crawl.rounds and self._tally.run_rounds >= crawl.rounds:
            return f"limit of {crawl.rounds:,} rounds"
        if crawl.minutes and self._accounts.elapsed_s >= crawl.minutes * 60:
            return f"limit of {crawl.minutes:g} minutes"
        return self._why_idle()

    def _why_functions(self) -> str:
        return self._books.functions.why_over() if self._books.functions else ""

    def _why_idle(self) -> str:
        """Returns why there is nothing to do, in words; empty while there is something."""
        intake, now_s = self._intake, self._clock.now()
        if self._scheduler.outstanding or not self._round.empty or intake.seeds or not self._scheduler.is_starving:
            return ""
        if intake.files.unread() or self._arrived or self._peers.is_holding or not self._accounts.is_judged:
            return ""
        due_s = self._scheduler.next_due_s()
        if due_s is None:
            return "nothing left to visit"
        if due_s > now_s + self._config.crawl.patience_s:
            if self._scheduler.is_left_with_refusals:
                again = datetime.fromtimestamp(due_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
                return f"nothing left to visit; forbidden pages are due on {again}"
            minutes = ceil((due_s - now_s) / 60)
            return (
                f"nothing is due for another {minutes:,} minute{'s' * (minutes > 1)}: what failed is tried again then, "
                "hosts rest, or pages are fresh; the same command goes on"
            )
        return ""

    def _has_reached_pages(self) -> bool:
        """Returns whether the run ends because pages enough were visited, and what they need may be missing."""
        is_ours = self._config.crawl.requisites and not (self._stopping or self._peers.is_site)
        return is_ours and self._has_pages_enough

    @property
    def _has_pages_enough(self) -> bool:
        most = self._config.crawl.pages
        return bool(most) and self._tally.visits + self._round.pages >= most

    def _has_nothing_left(self) -> bool:
        scheduler = self._scheduler
        is_idle = scheduler.is_starving and not scheduler.outstanding
        return is_idle and not self._peers.is_site and scheduler.next_due_s() is None

    def _allow(self) -> None:
        """Tells the fetching thread how many pages it may visit, and until when nobody else can visit ours."""
        pages = self._peers.allowed()
        self._fetching.allow(None if pages is None else pages - self._tally.visits_before, self._peers.lease_until_s)

    def _is_round_over(self) -> bool:
        crawl, since_s = self._config.crawl, self._clock.monotonic() - self._committed_s
        if self._peers.is_due or self._intake.seeds or not self._accounts.is_judged:
            return True
        if any(SEEDS in (message.kind, message.sender) or message.sender == SEED_RULES for message in self._arrived):
            return True
        if self._round.empty and not self._arrived:
            is_waited_for = self._peers.is_holding and not self._scheduler.outstanding
            return is_waited_for and since_s >= self._peers.may_wait([])
        if self._scheduler.is_patient and crawl.round_s and not (self._round.is_full(crawl.width) or self._arrived):
            # Pages are not due again until they are committed.
            return since_s >= min(crawl.round_s, self._config.refresh.least_s)
        if self._round.is_full(crawl.width):
            return True
        if not self._scheduler.outstanding:
            return not self._round.empty or since_s >= self._peers.may_wait(self._arrived)
        if self._scheduler.is_lockstep:
            return False
        if crawl.round_s and since_s >= crawl.round_s:
            return True
        is_starving, is_idle = self._scheduler.is_starving, self._scheduler.has_idle_connections
        cost_s = self._commit_cost_s
        if since_s < self._judge_s or not ends_early(is_starving, is_idle, True, since_s, cost_s):
            return False  # whatever the round promises
        self._judge_s = since_s + _JUDGE_S
        if self._scheduler.promises(self._round):
            return ends_early(is_starving, is_idle, True, since_s, cost_s)
        return ends_early(False, is_starving or is_idle, self._scheduler.has_for_others, since_s, cost_s)

    def _is_held_back(self) -> bool:
        """Returns whether other agents are too far behind with the links that we sent: then we find no more for now."""
        most = self._config.site.backlog_mb << 20
        return self._peers.is_site and self._books.chain.backlog(self._peers.exchange) > most

    # Gathering

    def _gather(self, patience_s: float) -> None:
        """Takes the visits that have finished. It waits for the first one, but not long."""
        results, width, functions = self._fetching.results, self._config.crawl.width, self._books.functions
        if functions and functions.is_behind:
            functions.wait(patience_s)
            return
        try:
            self._take(self._fetching.first(patience_s))
            while not (self._round.is_full(width) or (functions and functions.is_behind)):
                self._take(results.get_nowait())
        except Empty:
            return

    def _take(self, result: Result) -> None:
        if isinstance(result, Visit):
            self._fetching.consumed(result)
            if self._log.logs_debug and result.outcome not in _FINE:
                self._log_failure(result)
            self._tally.run_bytes += result.response.size
            self._intake.notes.saw(result)
            is_part = result.response.request.is_part
            if self._books.functions and not result.is_for_nobody:
                self._books.functions.give(result, self._round)
            self._round.add(result)
            if not (result.response.request.is_robots or is_part):
                self._scheduler.came_back(result.response.request)
        elif isinstance(result, Broken):
            raise result.error
        elif result is not None:
            self._scheduler.came_back(result.request)
            self._round.deferrals.append(result)
            self._intake.notes.put_off(result)
            if result.outcome is not None:
                self._round.outcomes[result.outcome.name.lower()] += 1

    def _await_functions(self, show: Callable[[Stats], None]) -> None:
        """Waits for what functions make of the round's pages. Fetching goes on meanwhile."""
        self._phase = "running functions"
        while self._books.functions and not self._books.functions.wait(_LOOK_S):
            self._look(show)
        self._phase = ""

    def _fetch_requisites(self, show: Callable[[Stats], None]) -> None:
        """Fetches what the last pages need; the fetching thread begins no more pages. What fails is not waited for."""
        while not self._stopping:
            if not self._scheduler.needed:
                self._await_functions(show)
                self._commit()
                if not self._scheduler.take_requisites():
                    return
            self._phase = "fetching requisites"
            self._gather(_LOOK_S)
            self._look(show)

    def _drain(self, show: Callable[[Stats], None]) -> None:
        """Lets requests under way finish."""
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
            self._arrived = self._peers.pending()
            self._intake.read(self._arrived, self._clock.now())
            self._books.chain.publish(self._peers.exchange)
            self._peers.look()
            stats = self.stats()
            if self._peers.is_site:
                self._peers.report(self._accounts.report(stats, self._granted(), self._why_idle()))
            show(stats)

    def _granted(self) -> int | None:
        """Returns how many pages we were granted, or have begun if the grant was lowered meanwhile."""
        pages = self._peers.allowed()
        begun = self._tally.visits + self._round.pages + self._fetching.connections
        return None if pages is None else max(pages, begun)

    # Committing

    def _commit(self, clean: bool = False) -> None:
        start_s = self._clock.monotonic()
        self._phase = "committing"
        books, round_, peers = self._books, self._round, self._peers
        made = books.functions.finish(round_, self._new_judge) if books.functions else Changes()
        messages = peers.pending()
        arrived = peers.take(messages, round_)
        if arrived.widened:
            self._reader.forget()
        closed = commit.close(
            books,
            round_,
            arrived.rows,
            peers,
            peers.known_elsewhere,
            self._scheduler.time_s,
            self._intake.has_other_rules,
            self._new_judge() if self._must_judge_anew else None,
        )
        self._accounts.is_judged = closed.is_judged
        # At a site, whoever adds its agents up says what they found.
        for note in books.functions.notes(clean and not peers.is_site) if books.functions else ():
            self._intake.notes.say(note)
        if closed.revived:
            self._intake.notes.say(f"{closed.revived:,} links that were refused before are followed now")
        sent = peers.send(closed, clean)
        hosts = self._fetching.hosts()
        self._log_hosts(hosts.resting)
        changes = closed.changes | made | sent.changes | books.resting.write(hosts.resting)
        if self._config.fetch.cookies:
            changes |= books.kept_cookies.write(hosts.cookies)
        changes |= arrived.changes
        room = room_beside(changes, len(sent.outbox))
        changes |= merge(books.store, books.chain.files, self._config, round_.number, room)
        self._tally.add(round_)
        books.chain.commit(
            changes,
            state=self._accounts.state(clean),
            marks=high_water(messages),
            outbox=sent.outbox,
            exchange=peers.exchange,
            applied=list(dict.fromkeys((message.stream, message.number) for message in messages)),
            now_s=self._clock.now(),
        )
        books.index.release(changes)
        going = [entry for entry in books.chain.snapshot.outbox if entry.message.number == round_.number]
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
            new=closed.new,
            known=books.index.count,
            sent_links=sent.links,
            sent_messages=len(going),
            sent_bytes=sum(entry.size for entry in going),
            remote=sent.remote,
            generate_s=self._scheduler.cost_s,
            seconds=self._commit_cost_s,
        )
        if self._commit_cost_s > self._config.log.slow_commit_s:
            self._log.event("slow commit", "warning", round=round_.number, seconds=self._commit_cost_s)
        self._scheduler.committed()
        peers.committed()

    # Logging

    def _log_failure(self, visit: Visit) -> None:
        """Logs a visit that failed: `tries` in a row, and when the page is due again, if it is."""
        request, due_s = visit.response.request, visit.next.due_s
        again = {} if due_s >= NEVER else {"again": moment(due_s)}
        facts = {"url": request.url, "outcome": visit.outcome.name.lower(), "reason": visit.reason}
        self._log.event("visit failed", "debug", **facts, tries=visit.next.tries, **again)

    def _log_hosts(self, resting: Mapping[str, tuple[float, int]]) -> None:
        """Logs hosts that have begun to fail since the last commit, all in one event."""
        before = self._books.resting.hosts
        failing = sorted(host for host, (_, failures) in resting.items() if failures and host not in before)
        if failing:
            first = [(host, *resting[host]) for host in failing[:_SHOWN]]
            shown = [{"host": host, "until": moment(until_s), "failures": times} for host, until_s, times in first]
            self._log.event("hosts fail", "warning", count=len(failing), hosts=shown)

    @property
    def _must_judge_anew(self) -> bool:
        """Returns whether scope, patterns or the rules of a website are other than they were."""
        return self._intake.has_replaced_rules or self._books.chain.state.judged_by not in ("", settings(self._config))

    def _new_judge(self) -> Judge:
        return Reader(self._config, self._intake.scope, self._intake.named).verdict

    def _new_round(self) -> Round:
        books = self._books
        number = books.chain.round
        warc = WarcWriter(books.store, number, self._config) if self._config.archive.warc else None
        return Round(number, warc, self._digests, self._known, books.others)

    def stats(self) -> Stats:
        """Returns the figures of the crawl as they are now, for the display."""
        may_wait = self._round.empty and not self._arrived
        return self._accounts.stats(self._round, may_wait, self._phase, self._ended)
