"""`HostQueues` are the queues of the workbench, one per host: each is ready, waiting for its time, or under way.

A queue holds the pages of a host by rank; or those of all hosts on an address, if they share one turn. It is in one of
four places: *ready*, competing with the others by its best page; *waiting* for its not-before; *under way* with its one
request; or gone, because it is empty. Of empty ones only the not-before is kept until it passes: a host whose pages run
out and come again is treated no less politely.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from gossamer.fetch.request import Request

Entry = tuple[float, int, int, Request]  # minus rank, key, a number that breaks all ties

_SPARE = 64  # invalid entries that the ready heap may hold at least


class HostQueue:
    """The pages of a host by rank, its not-before, and its one request under way."""

    __slots__ = (
        "address", "crawl_delay_s", "delay_s", "failures", "flying", "hosts", "is_ready", "not_before_s",
        "pages", "served", "stamp",
    )  # fmt: skip

    def __init__(self, host: str, not_before_s: float, failures: int, served: int) -> None:
        self.hosts = {host}
        self.address = ""
        self.pages: list[Entry] = []
        self.flying: Request | None = None
        self.not_before_s = not_before_s
        self.failures = failures  # in a row
        self.served = served  # requests on the connection that is still open
        self.delay_s = self.crawl_delay_s = 0.0  # after the request under way
        self.stamp = 0  # of its one valid entry in the ready or waiting heap; 0: it has none
        self.is_ready = False


class Rest(NamedTuple):
    """A rest is what is kept of an empty queue."""

    not_before_s: float
    failures: int
    served: int
    forget_s: float


class HostQueues:
    """All queues, in two heaps: those that are ready by their best page, those that wait by their time.

    A heap entry is valid only while its stamp is the queue's: a newer entry makes it invalid, nothing is removed.
    """

    def __init__(self, remember_failures_s: float, in_rank_order: bool = False) -> None:
        # In strict rank order the best page is waited for, even where others could be fetched meanwhile.
        self._in_rank_order = in_rank_order
        # Failures are remembered longer than the pause they caused: the next back-off goes on from there.
        self._remember_failures_s = remember_failures_s
        self._queues: dict[str, HostQueue] = {}  # by host name
        self._addresses: dict[str, HostQueue] = {}
        self._ready: list[tuple[float, int, int, HostQueue]] = []  # minus rank, key, stamp
        self._waiting: list[tuple[float, int, HostQueue]] = []  # not-before, stamp
        self._rests: dict[str, Rest] = {}
        self._forget: list[tuple[float, str]] = []
        self._numbers = count(1)
        self.now = self.floor_s = -inf  # before the floor nobody has a turn

    def __len__(self) -> int:
        return len(self._queues)

    def of(self, host: str) -> HostQueue:
        """Returns the queue of a host that has one."""
        return self._queues[host]

    def rest_of(self, host: str) -> HostQueue | Rest | None:
        """Returns the queue of a host, or what is kept of it."""
        return self._queues.get(host) or self._rests.get(host)

    def queues(self) -> Iterator[HostQueue]:
        """Yields each queue once, though hosts may share it."""
        return iter({id(queue): queue for queue in list(self._queues.values())}.values())

    def rests(self) -> dict[str, HostQueue | Rest]:
        """Returns queues and rests by host name. It copies in one go: another thread may ask."""
        rests: dict[str, HostQueue | Rest] = {**self._rests, **self._queues}
        return {name: rest for name, rest in rests.items() if not name.startswith("@")}

    def add(self, request: Request) -> None:
        self.put((-request.rank, request.key, next(self._numbers), request))

    def put(self, entry: Entry) -> None:
        """Queues a page. A host that comes again goes on with the rest that was kept of it."""
        host = entry[3].host
        queue = self._queues.get(host)
        if queue is None:
            rest = self._rests.pop(host, None) or Rest(self.floor_s, 0, 0, 0.0)
            not_before_s = max(rest.not_before_s, self.floor_s)
            queue = self._queues[host] = HostQueue(host, not_before_s, rest.failures, rest.served)
        heappush(queue.pages, entry)
        if queue.flying is None and (not queue.stamp or (queue.is_ready and queue.pages[0] is entry)):
            self._place(queue)

    def take(self) -> HostQueue | None:
        """Returns the ready queue with the best page. `resume` puts it back, unless it gets a request under way."""
        while self._ready:
            _, _, stamp, queue = self._ready[0]
            if queue.stamp == stamp and queue.not_before_s > self.now:
                return None  # strict rank order: its time has not come
            heappop(self._ready)
            if queue.stamp == stamp:  # else its best page changed meanwhile, and there is a newer entry
                queue.stamp, queue.is_ready = 0, False
                return queue
        return None

    def resume(self, queue: HostQueue) -> None:
        """Puts a queue back after its turn."""
        if queue.pages:
            self._place(queue)
            return
        names = [*queue.hosts]
        for name in names:
            del self._queues[name]
        if queue.address:
            del self._addresses[queue.address]
            names.append("@" + queue.address)
        if queue.failures or queue.not_before_s > self.now:
            for name in names:
                self.remember(name, queue.not_before_s, queue.failures, queue.served)
        queue.stamp = 0

    def remember(self, name: str, not_before_s: float, failures: int, served: int = 0) -> None:
        forget_s = not_before_s + (self._remember_failures_s if failures else 0.0)
        self._rests[name] = Rest(not_before_s, failures, served, forget_s)
        heappush(self._forget, (forget_s, name))

    def wake(self, now: float) -> None:
        """Makes queues ready whose time has come."""
        if now == self.now:
            return  # they are
        self.now = now
        waiting, forget = self._waiting, self._forget
        while waiting and (waiting[0][0] <= now or waiting[0][2].stamp != waiting[0][1]):
            _, stamp, queue = heappop(waiting)
            if queue.stamp == stamp:
                self._place(queue)
        while forget and forget[0][0] <= now:
            name = heappop(forget)[1]
            rest = self._rests.get(name)
            if rest is not None and rest.forget_s <= now:
                del self._rests[name]

    def wait_s(self) -> float | None:
        """Returns the seconds until the next queue is ready, as of the last `wake`."""
        if self._ready:
            return max(0.0, self._ready[0][3].not_before_s - self.now)
        return self._waiting[0][0] - self.now if self._waiting else None

    def share(self, request: Request, address: str) -> bool:
        """Joins the queue of a request under way with the others on its address. False: it was not its turn,
        and it is queued again."""
        queue = self._queues[request.host]
        if queue.address:
            return True  # an address once known holds, even if the name has several
        known = self._addresses.get(address)
        if known is None:
            self._addresses[address], queue.address = queue, address
            rest = self._rests.pop("@" + address, None)
            if rest is None or rest.not_before_s <= self.now:
                return True
            queue.not_before_s, queue.failures = rest.not_before_s, max(queue.failures, rest.failures)
            queue.flying = None
        else:
            self._join(queue, known)
            if known.flying is None and known.not_before_s <= self.now:
                known.flying, known.delay_s, known.crawl_delay_s = request, queue.delay_s, queue.crawl_delay_s
                known.stamp, known.is_ready = 0, False
                return True
        self.add(request)
        return False

    def _join(self, queue: HostQueue, known: HostQueue) -> None:
        known.pages += queue.pages
        heapify(known.pages)
        known.hosts |= queue.hosts
        for name in queue.hosts:
            self._queues[name] = known
        queue.pages, queue.flying = [], None
        if known.flying is None:
            self._place(known)

    def _place(self, queue: HostQueue) -> None:
        """Enters a queue among the ready or the waiting ones. An older entry becomes invalid with its stamp."""
        queue.stamp = stamp = next(self._numbers)
        queue.is_ready = self._in_rank_order or queue.not_before_s <= self.now
        if queue.is_ready:
            rank, key, _, _ = queue.pages[0]
            heappush(self._ready, (rank, key, stamp, queue))
            # Where better pages keep coming, the invalid entries of worse ones never rise to the top.
            if len(self._ready) > 2 * len(self._queues) + _SPARE:
                self._ready = [entry for entry in self._ready if entry[3].stamp == entry[2]]
                heapify(self._ready)
        else:
            heappush(self._waiting, (queue.not_before_s, stamp, queue))
