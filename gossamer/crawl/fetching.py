"""`Fetching` is the thread for sockets, politeness and parsing; it queues finished visits for the agent's thread."""

import threading
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from gossamer.clocks import Clock
from gossamer.config import Config
from gossamer.config.host_overrides import polite_by_host
from gossamer.crawl.reader import Reader, Visit
from gossamer.crawl.round import text_bytes
from gossamer.fetch.client import Client, Request, Response
from gossamer.fetch.fetcher import Fetcher
from gossamer.fetch.politeness import Deferred
from gossamer.fetch.purpose import Purpose
from gossamer.fetch.resolver import Resolver
from gossamer.fetch.robots_cache import RobotsCache
from gossamer.fetch.workbench import Workbench

if TYPE_CHECKING:  # http.cookiejar: whoever needs no cookies need not wait for it
    from gossamer.fetch.cookies import Cookies

_HELD_BYTES = 128 << 20  # of visits waiting for the agent's thread; beyond that no new fetch starts
_STEP_S = 0.25
_LOOK_S = 0.5
_LINGER_S = 0.05  # in which visits gather: a thread that wakes for each of them makes the two fight for the interpreter


class Broken(Struct):
    """`Broken` carries the error that ended the thread; the agent raises it."""

    error: BaseException


Result = Visit | Deferred | Broken | None  # None: nothing, but somebody waits for the agent


class Rendered(NamedTuple):
    """`Rendered` is what a browser made of a page."""

    visit: Visit  # as it was read without its scripts
    html: bytes  # in UTF-8; empty: the page is as it was
    leads_to: str = ""  # where its scripts wanted to go
    why: str = ""  # what went wrong, in words


class Rendering(Protocol):
    """This port runs the scripts of pages, beside the crawl; `render.renderer.Renderer` is one. The fetching thread
    calls all of it but `close`."""

    def start(self, ask: Callable[[Request], None], done: Callable[[Rendered], None]) -> None:
        """Begins. `ask` fetches something for a page, politely, and `done` takes a page back; from any thread."""

    def wants(self, visit: Visit) -> bool:
        """Returns whether the scripts of a page are to be run."""

    def give(self, visit: Visit) -> None:
        """Takes a page. It comes back by `done`, once, whatever its scripts do."""

    def answer(self, request: Request, response: Response | None) -> None:
        """Takes the answer to what was asked for; None: it cannot be had now."""

    def close(self) -> None:
        """Ends all that runs; pages that did not come back never will."""


class HostStates(NamedTuple):
    """`HostStates` is what a commit must have of hosts, as of a moment."""

    resting: dict[str, tuple[float, int]]  # longer than usual: until when, and failures in a row
    cookies: dict[str, tuple[str]]  # by registrable domain, as a row of the COOKIES table


class Fetching:
    """`Fetching` owns client and workbench: once started, only its thread touches them."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        book: RobotsCache,
        reader: Reader,
        cookies: "Cookies | None" = None,
        folder: Path | None = None,
        rendering: Rendering | None = None,
    ) -> None:
        self.results: SimpleQueue[Result] = SimpleQueue()
        self.workbench = Workbench(config.polite, book, polite_by_host(config), Purpose.of(config.crawl))
        resolver = Resolver(config.resolve, clock)
        self._cookies = cookies
        self._client = Client(config, clock, resolver, cookies, folder)
        self._fetcher = Fetcher(config, clock, self._client, self.workbench, self._finished, self._give_back)
        self._clock = clock
        self._lingers = config.polite.connections > 1  # else the next request waits for this answer
        self._next_look_s = 0.0
        self._reader = reader
        self._rendering = rendering
        self._orders: SimpleQueue[list[Request] | Rendered | None] = SimpleQueue()
        self._answers: SimpleQueue[HostStates] = SimpleQueue()
        self.stats = self.workbench.stats()
        self._thread = threading.Thread(target=self._run, name="fetch", daemon=True)
        self._stopping = self._closing = False
        self._until_s = inf
        self._produced_bytes = 0  # written by the fetching thread only
        self._consumed_bytes = 0  # written by the agent's thread only
        self.received_bytes = self.sent_bytes = 0  # heads and bodies of HTTP, as they were on the wire

    def start(self) -> None:
        if self._rendering is not None:
            self._rendering.start(lambda request: self.add([request]), self._rendered)
        self._thread.start()

    def allow(self, pages: int | None, until_s: float) -> None:
        """Allows at most so many visits in all, and none that begins after `until_s` by the monotonic clock."""
        self._fetcher.allowed = pages
        self._until_s = until_s

    def add(self, requests: list[Request]) -> None:
        self._orders.put(requests)
        self._client.wake()

    def put_off(self, requests: list[Request], until_s: float, reason: str) -> None:
        """Gives pages back that may not be fetched before then."""
        for request in requests:
            self.results.put(Deferred(request, until_s, reason=reason))

    def _rendered(self, page: Rendered) -> None:
        self._orders.put(page)
        self._client.wake()

    def first(self, patience_s: float) -> Result:
        """Waits for a result, and a moment for others to come with it. Raises `Empty` if none comes in time."""
        result = self.results.get(timeout=patience_s)
        if self._lingers:
            time.sleep(_LINGER_S)
        return result

    def consumed(self, visit: Visit) -> None:
        """Takes a visit off the count of held bytes: the agent's thread has it now."""
        self._consumed_bytes += visit.held_bytes

    def hosts(self) -> HostStates:
        """Returns which hosts rest longer than usual, and which cookies they have set."""
        if self._thread.is_alive():
            self._orders.put(None)
            self._client.wake()
        while self._thread.is_alive():
            try:
                return self._answers.get(timeout=_STEP_S)
            except Empty:
                continue
        return self._host_states()

    def _host_states(self) -> HostStates:
        return HostStates(self.workbench.snapshot(), self._cookies.kept() if self._cookies else {})

    @property
    def connections(self) -> int:
        return self._client.active

    def stop(self) -> None:
        """Starts nothing more. Requests under way may still finish."""
        self._stopping = True
        self._client.wake()

    def close(self) -> None:
        """Drops requests under way and ends the thread."""
        if self._closing:
            return
        self.stop()
        self._closing = True
        if self._rendering is not None:
            self._rendering.close()
        if self._thread.is_alive():
            self._client.wake()
            self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._take_orders()
                self._look()
                held = self._produced_bytes - self._consumed_bytes > _HELD_BYTES
                late = self._clock.monotonic() >= self._until_s
                self._fetcher.step(_STEP_S, start=not (held or late or self._stopping))
        except BaseException as error:
            self.results.put(Broken(error))

    def _look(self) -> None:
        """Updates the figures for the display, now and then: they cost a pass over the hosts."""
        now_s = self._clock.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self.stats = self.workbench.stats()

    def _take_orders(self) -> None:
        while not self._orders.empty():
            order = self._orders.get_nowait()
            if order is None:
                self._answers.put(self._host_states())
            elif isinstance(order, Rendered):
                self._hand_over(self._reader.read_again(order.visit, order.html, order.leads_to, order.why))
            else:
                self.workbench.add(order)

    def _finished(self, response: Response) -> None:
        self.received_bytes += len(response.head) + response.size
        self.sent_bytes += len(response.request_head)
        visit = self._reader.read(response)
        if self._rendering is not None and response.request.is_part:
            self._rendering.answer(response.request, response)
        if self._rendering is not None and self._rendering.wants(visit):
            self._rendering.give(visit)
        else:
            self._hand_over(visit)

    def _hand_over(self, visit: Visit) -> None:
        visit.held_bytes = _held_bytes(visit)
        self._produced_bytes += visit.held_bytes
        self.results.put(visit)

    def _give_back(self, deferred: Deferred) -> None:
        if self._rendering is not None and deferred.request.is_part:
            self._rendering.answer(deferred.request, None)  # the page goes on without it
        else:
            self.results.put(deferred)


def _held_bytes(visit: Visit) -> int:
    """Returns the memory that a visit takes while it waits: a small body may have large contents, or many long URLs."""
    return len(visit.response.body) + len(visit.rendered) + visit.urls.chars + text_bytes(visit)
