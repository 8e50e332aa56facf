"""`Workbench` decides which requests may start now: politely, and robots.txt first.

It does no I/O, and time is an argument.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop
from math import inf

from gossamer.columns import Outcome
from gossamer.config import Polite
from gossamer.config.host_overrides import of_host
from gossamer.fetch.host_queues import Entry, HostQueue, HostQueues
from gossamer.fetch.politeness import (
    TROUBLE,
    UNCONTACTED,
    Deferred,
    Denied,
    Failed,
    Fetch,
    Step,
    Wait,
    backoff_s,
    capped_s,
    delay_s,
    longest_s,
)
from gossamer.fetch.purpose import Purpose
from gossamer.fetch.request import Request, Response
from gossamer.fetch.robots_answer import next_hop, read_robots
from gossamer.fetch.robots_cache import UNREACHABLE, RobotsCache, is_file
from gossamer.web.robots import Rules
from gossamer.web.url import host_of, origin_of, page_key

_PATIENCE_S = 60.0  # a host that is backed off longer gives its pages back
_NOT_THERE = 404
_FAILURES = 5  # and so does one that failed so often in a row


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a moment, for metrics and for a crawl that waits."""

    pages: int  # queued or under way
    hosts: int  # with pages
    busy: int  # with a request under way
    backed_off: int  # hosts that rest because of failures
    due: int = 0  # whose turn it is, and whose request has not begun
    rest_until_s: float | None = None  # when the first of them may be asked again, if all that have pages rest


class Workbench:
    """The workbench never has two requests at a time to a host, and always its delay between them.

    Each page that is added comes out once: as a fetch that is `done`, or as Denied, Deferred or Failed.
    """

    def __init__(
        self,
        config: Polite,
        robots: RobotsCache,
        by_host: Mapping[str, Polite] | None = None,
        purpose: Purpose | None = None,
    ) -> None:
        self._polite = config
        self._purpose = purpose or Purpose()
        self._by_host = by_host or {}  # delays and bursts of hosts with rules of their own
        self._robots = robots
        self._queues = HostQueues(config.backoff_max_s, in_rank_order=config.connections == 1)
        self._contact_s = -inf  # before the restart anybody may have been contacted until then
        self._awaited: set[str] = set()  # origins whose robots.txt is requested
        self._parked: dict[str, list[Entry]] = {}  # their pages, as far as they came to their turn meanwhile
        self._back: deque[Deferred] = deque()
        self._size = self._busy = 0

    @property
    def size(self) -> int:
        """The number of pages queued or under way."""
        return self._size

    def room(self, width: int) -> int:
        """Returns how many pages may be added until there are `width`."""
        return max(0, width - self._size)

    def stats(self) -> Stats:
        """Returns figures; another thread may ask too."""
        now = self._queues.now
        backed_off = sum(rest.failures > 0 and rest.not_before_s > now for rest in self._queues.rests().values())
        queues = list(self._queues.queues())
        is_resting = bool(queues) and all(queue.failures and queue.not_before_s > now for queue in queues)
        until_s = min(queue.not_before_s for queue in queues) if is_resting and not self._busy else None
        due = sum(queue.flying is None and queue.not_before_s <= now for queue in queues)
        return Stats(self._size, len(self._queues), self._busy, backed_off, due, until_s)

    def pages(self) -> list[int]:
        """Returns the keys of all pages queued or under way."""
        requests = [step.request for step in self._back]
        requests += [entry[3] for parked in self._parked.values() for entry in parked]
        for queue in self._queues.queues():
            requests += [entry[3] for entry in queue.pages]
            if queue.flying is not None:
                requests.append(queue.flying)
        return [request.key for request in requests if not request.is_robots]

    def add(self, requests: list[Request]) -> None:
        """Queues pages. Those of a host that is backed off for long come back at once, as Deferred."""
        self._size += len(requests)
        for request in requests:
            until_s = self._away_until(request.host)
            if until_s:
                self._back.append(Deferred(request, until_s))
            else:
                self._queues.add(request)

    def next(self, now: float, only_requisites: bool = False) -> Step:
        """Returns what to do now. Ask again until it is to wait; a fetch occupies its host until `done`. With
        `only_requisites` pages stay where they are; a host's requisites are before its pages."""
        queues = self._queues
        queues.wake(now)
        if self._back:
            self._size -= 1
            return self._back.popleft()
        left = []
        step: Step | None = None
        while (queue := queues.take()) is not None:
            if only_requisites and not (queue.pages[0][3].is_requisite or queue.pages[0][3].is_robots):
                left.append(queue)
                continue
            step = self._turn(queue, now)
            if queue.flying is None:
                queues.resume(queue)
            if step is not None:
                break
        for queue in left:
            queues.resume(queue)
        return step or Wait(queues.wait_s())

    def learn(self, request: Request, address: str, now: float) -> bool:
        """Takes the address of a request under way, before anybody connects to it. False: it shares its turn with a
        host that is busy or rests, and is queued again."""
        if not self._polite.per_address:
            return True
        self._queues.wake(now)
        its_turn = self._queues.share(request, address)
        self._busy -= not its_turn
        return its_turn

    def done(self, response: Response, now: float) -> None:
        """Ends an exchange: its host rests as long as the delay, the answer and robots.txt ask for."""
        request = response.request
        self._queues.wake(now)
        queue = self._queues.of(request.host)
        queue.flying = None
        self._busy -= 1
        if request.is_robots:
            self._robots_done(queue, response, now)
        else:
            self._size -= 1
        before = queue.failures
        rest_s, queue.failures = 0.0, 0
        if response.outcome in TROUBLE:
            rest_s, queue.failures = backoff_s(self._polite, response, before, now)
        if response.kept and not rest_s:
            queue.served += 1
            queue.not_before_s = now
            if queue.delay_s:
                queue.not_before_s += max(self._polite_to(request.host).burst_delay_s, queue.crawl_delay_s)
        elif response.outcome in UNCONTACTED:
            queue.not_before_s = now
        else:
            queue.served = 0
            queue.not_before_s = now + max(queue.delay_s, rest_s)
        if queue.failures > before and (queue.failures >= _FAILURES or rest_s > _PATIENCE_S):
            self._give_back(queue, response)
        self._queues.resume(queue)
        # Rules reach the archive with the answer that they follow from, never with another's: a commit between the two
        # would remember rules whose sitemaps nobody will read.
        if self._robots.rows:
            response.robots = self._robots.drain()

    def snapshot(self) -> dict[str, tuple[float, int]]:
        """Returns not-before and failures in a row of the hosts that rest longer than the usual delay. Another thread
        may ask too."""
        usual_s = self._queues.now + max(self._polite.delay_s, self._polite.small_delay_s)
        return {
            name: (rest.not_before_s, rest.failures)
            for name, rest in self._queues.rests().items()
            if rest.failures or rest.not_before_s > usual_s
        }

    def restore(self, hosts: dict[str, tuple[float, int]], now: float, contact_s: float) -> None:
        """Takes a `snapshot` after a restart. Any host may have been contacted until `contact_s`, so all rest."""
        self._queues.wake(now)
        self._contact_s = contact_s
        self._queues.floor_s = contact_s + max(self._polite.delay_s, self._polite.small_delay_s)
        for name, (not_before_s, failures) in hosts.items():
            until_s = min(not_before_s, now + longest_s(self._polite))  # the clock may have been set back
            self._queues.remember(name, max(until_s, self._queues.floor_s), failures)

    def _turn(self, queue: HostQueue, now: float) -> Step | None:
        """Decides about the best page of a ready queue; None if it had to make way for the next one."""
        pages = queue.pages
        request = pages[0][3]
        polite = self._polite_to(request.host) if self._by_host else self._polite
        if self._contact_s + polite.delay_s > now:  # contacted before a restart, perhaps, and it has a delay of its own
            queue.not_before_s = max(queue.not_before_s, self._contact_s + polite.delay_s)
            return None
        if request.is_robots:
            heappop(pages)
            if self._is_known(request, now):
                self._end_robots(request.origin)
                return None
            return self._send(queue, request, polite, None)
        crawl_delay_s = None
        if self._polite.robots:
            origin = origin_of(request.url)
            if origin in self._awaited:
                self._parked.setdefault(origin, []).append(heappop(pages))
                return None
            rules = self._robots.rules(origin, now)
            if rules is None:
                self._awaited.add(origin)
                return self._send(queue, _robots_request(origin, origin + "/robots.txt", request), polite, None)
            if rules is UNREACHABLE:
                heappop(pages)
                self._size -= 1
                return self._unreachable(request, origin, self._robots.deferred_until(origin, now))
            path = request.url[len(origin) :]
            if not rules.allows(path):
                heappop(pages)
                self._size -= 1
                return Denied(request, rules.decide(path)[1])
            if rules.usage or self._purpose.file:
                step = self._asked(queue, polite, rules, origin, path, now)
                if step is not None:
                    return step
            crawl_delay_s = rules.crawl_delay_s
            if crawl_delay_s and (rested_s := self._contact_s + capped_s(self._polite, crawl_delay_s)) > now:
                # Contacted before a restart, perhaps, and it asks for more than the usual delay.
                queue.not_before_s = max(queue.not_before_s, rested_s)
                return None
        heappop(pages)
        return self._send(queue, request, polite, crawl_delay_s)

    def _asked(self, queue: HostQueue, polite: Polite, rules: Rules, origin: str, path: str, now: float) -> Step | None:
        """Notes what is asked about the use of the best page, and decides whether that refuses it. None: it may be
        fetched."""
        request = queue.pages[0][3]
        purpose, asks = self._purpose, rules.asks(path) if rules.usage else ""
        if purpose.file and rules.allows(purpose.file) and not purpose.refusal(asks):
            decision = self._robots.decision(origin + purpose.file, path, now)
            if decision is None:
                self._awaited.add(origin)
                file = _robots_request(origin + purpose.file, origin + purpose.file, request)
                return self._send(queue, file, polite, rules.crawl_delay_s)
            asks = purpose.with_line(asks, decision[1])
        request.asks = asks
        why = purpose.refusal(asks)
        if not why:
            return None
        heappop(queue.pages)
        self._size -= 1
        return Failed(request, Outcome.REFUSED_USE, why)

    def _send(self, queue: HostQueue, request: Request, polite: Polite, crawl_delay_s: float | None) -> Fetch:
        self._busy += 1
        queue.flying = request
        queue.crawl_delay_s = capped_s(self._polite, crawl_delay_s) if crawl_delay_s else 0.0
        queue.delay_s = delay = max(delay_s(polite, request.known), queue.crawl_delay_s)
        # Without a delay one connection for all pages is the least trouble for everybody. A delay separates
        # connections: each ends after a burst, or when nothing is left to ask for.
        return Fetch(request, not delay or (queue.served + 1 < polite.burst and bool(queue.pages)))

    def _polite_to(self, host: str) -> Polite:
        return (of_host(self._by_host, host) if self._by_host else None) or self._polite

    def _away_until(self, host: str) -> float:
        """Returns until when a host is backed off for so long that nothing waits for it here; 0 if it is not."""
        rest = self._queues.rest_of(host)
        if rest is None or not rest.failures or rest.not_before_s - self._queues.now <= _PATIENCE_S:
            return 0.0
        return rest.not_before_s

    def _give_back(self, queue: HostQueue, response: Response) -> None:
        pages, queue.pages = sorted(queue.pages), []
        for entry in pages:
            request = entry[3]
            if request.is_robots:
                self._lose_robots(request, response.outcome, response.reason)
            else:
                self._back.append(Deferred(request, queue.not_before_s))

    # The robots.txt of an origin may redirect, also to other hosts, and obeys the delays of each.

    def _robots_done(self, queue: HostQueue, response: Response, now: float) -> None:
        request, origin = response.request, response.request.origin
        if location := next_hop(response):
            self._follow(_robots_request(origin, location, request))
            return
        status, body, failure = read_robots(response)
        if failure is not None:
            self._lose_robots(request, *failure)
            return
        if is_file(origin):
            self._robots.put(origin, status if 200 <= status < 300 else _NOT_THERE, body, now)
            self._end_robots(origin)
            return
        self._robots.put(origin, status, body, now)
        source = origin_of(request.url)
        if source not in self._awaited and request.url == source + "/robots.txt":
            self._robots.put(source, status, body, now)
        rules = self._robots.rules(origin, now)
        if rules is not None and request.host == _host(origin):
            queue.crawl_delay_s = capped_s(self._polite, rules.crawl_delay_s)
            queue.delay_s = max(queue.delay_s, queue.crawl_delay_s)
        self._end_robots(origin)

    def _follow(self, request: Request) -> None:
        if self._away_until(request.host):
            self._lose_robots(request, Outcome.OTHER, "its host is backed off")
        else:
            self._queues.add(request)

    def _is_known(self, request: Request, now: float) -> bool:
        """Returns whether a redirect leads to a robots.txt that we have."""
        source = origin_of(request.url)
        is_robots = request.url == source + "/robots.txt" and not is_file(request.origin)
        return is_robots and self._robots.copy(request.origin, source, now)

    def _lose_robots(self, request: Request, outcome: Outcome, reason: str) -> None:
        if request.host != _host(request.origin):
            # Only what robots.txt redirects to is out of reach: that says nothing about the page's own host.
            outcome, reason = Outcome.OTHER, f"robots.txt leads to {request.url}: {reason}"
        # Who has no other file to show has no rules there (TDMRep section 4.2).
        status = _NOT_THERE if is_file(request.origin) else 0
        self._robots.put(request.origin, status, b"", self._queues.now, (outcome, reason))
        self._end_robots(request.origin)

    def _end_robots(self, origin: str) -> None:
        origin = origin_of(origin + "/")  # which may have the path of another file
        self._awaited.discard(origin)
        for entry in self._parked.pop(origin, ()):
            self._queues.put(entry)

    def _unreachable(self, request: Request, origin: str, until_s: float) -> Deferred | Failed:
        outcome, reason = self._robots.failure(origin)
        if outcome in UNCONTACTED:
            return Failed(request, outcome, reason)
        return Deferred(request, until_s, Outcome.ROBOTS_UNREACHABLE, reason)


def _host(origin: str) -> str:
    return host_of(origin + "/")


def _robots_request(origin: str, url: str, before: Request) -> Request:
    """Returns the request for an origin whose page has its turn, or on from where its robots.txt redirected us."""
    hops = before.hops + 1 if before.is_robots else 0
    return Request(page_key(url), url, host_of(url), 0, hops, 0, inf, is_robots=True, known=before.known, origin=origin)
