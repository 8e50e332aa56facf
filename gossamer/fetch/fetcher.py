"""`Fetcher` is the fetch loop: the workbench decides, the client acts, the sink receives the responses."""

from collections.abc import Callable

from gossamer.clocks import Clock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.client import Client
from gossamer.fetch.politeness import Deferred, Denied, Failed, Fetch, Wait
from gossamer.fetch.request import Response, port_of
from gossamer.fetch.resolver import Answer, Resolver
from gossamer.fetch.workbench import Workbench

_STARTS = 256  # decisions per step, so that answers do not wait for a long row of them


class Fetcher:
    """Everything but `wake` belongs to one thread.

    Each page of the workbench reaches `sink` (it was fetched, robots.txt denies it, or its host does not
    exist) or `give_back` (it may come again later), once. Answers to robots.txt reach `sink` too.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        client: Client,
        workbench: Workbench,
        resolver: Resolver,
        sink: Callable[[Response], None],
        give_back: Callable[[Deferred], None],
    ) -> None:
        self._connections = config.polite.connections
        self._per_address = config.polite.per_address
        self._clock = clock
        self._client = client
        self._workbench = workbench
        self._resolver = resolver
        self._sink = sink
        self._give_back = give_back
        self._looking = 0
        # Delays must not shrink or stretch when the clock is set: wall time once, monotonic from then on.
        self._offset_s = clock.now() - clock.monotonic()
        self.allowed: int | None = None  # pages that may be visited in all; None: any number
        self._visited = 0
        self._requisites = config.crawl.requisites or bool(config.crawl.render)
        self._needed = 0  # requisites under way: they do not count as pages

    def now(self) -> float:
        """Returns seconds since 1970, as the workbench counts them."""
        return self._clock.monotonic() + self._offset_s

    def step(self, timeout_s: float, start: bool = True) -> int:
        """Starts what may start (if `start`), then waits at most so long for something to happen. Returns how many
        pages and robots.txt files are done with."""
        handled, wait_s = self._start(timeout_s) if start else (0, timeout_s)
        responses = self._client.poll(wait_s)
        now = self.now()
        for response in responses:
            self._workbench.done(response, now)
        for response in responses:
            self._needed -= response.request.is_requisite
            self._hand_over(response)
        return handled + len(responses)

    def _hand_over(self, response: Response) -> None:
        self._visited += not (response.request.is_robots or response.request.is_requisite)
        self._sink(response)

    def wake(self) -> None:
        """Ends the waiting of a step; from any thread."""
        self._client.wake()

    def stop(self) -> None:
        """Drops what is under way. The workbench still knows those pages."""
        self._client.close()

    @property
    def active(self) -> int:
        """The number of requests under way."""
        return self._client.active + self._looking

    def _start(self, timeout_s: float) -> tuple[int, float]:
        handled = 0
        for _ in range(_STARTS):
            is_used_up = self._is_used_up()
            if self.active >= self._connections or (is_used_up and not self._requisites):
                return handled, timeout_s
            now = self.now()
            step = self._workbench.next(now, is_used_up)
            if isinstance(step, Fetch):
                self._begin(step)
            elif isinstance(step, Wait):
                wait_s = timeout_s if step.seconds is None else min(timeout_s, step.seconds)
                return handled, 0.0 if handled else wait_s
            else:
                handled += 1
                self._pass_on(step, now)
        return handled, 0.0

    def _is_used_up(self) -> bool:
        return self.allowed is not None and self.active - self._needed + self._visited >= self.allowed

    def _begin(self, fetch: Fetch) -> None:
        self._needed += fetch.request.is_requisite
        if not self._per_address or self._client.is_proxied(fetch.request.host):
            self._client.start(fetch.request, fetch.reuse_connection)
            return
        self._looking += 1
        start_s = self._clock.monotonic()

        def found(answer: Answer) -> None:
            self._looking -= 1
            request = fetch.request
            if answer.outcome is None and not self._workbench.learn(request, answer.address, self.now()):
                self._needed -= fetch.request.is_requisite
                return  # another host at this address has the turn
            self._client.connect(request, fetch.reuse_connection, answer, start_s)

        self._resolver.look_up(fetch.request.host, port_of(fetch.request), found)

    def _pass_on(self, step: Denied | Deferred | Failed, now: float) -> None:
        if isinstance(step, Deferred):
            self._give_back(step)
        elif isinstance(step, Denied):
            self._hand_over(Response(step.request, Outcome.DENIED, f"robots.txt: {step.line}", started_s=now))
        else:
            self._hand_over(Response(step.request, step.outcome, step.reason, started_s=now))
