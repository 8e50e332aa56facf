"""`Fetcher` is the fetch loop: the workbench decides, the client acts, the sink receives the responses."""

from collections.abc import Callable

from gossamer.clocks import Clock
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.client import Client
from gossamer.fetch.politeness import Deferred, Denied, Failed, Fetch, Wait
from gossamer.fetch.request import Request, Response
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
        sink: Callable[[Response], None],
        give_back: Callable[[Deferred], None],
    ) -> None:
        self._connections = config.polite.connections
        self._admits = self._has_turn if config.polite.per_address else None
        self._clock = clock
        self._client = client
        self._workbench = workbench
        self._sink = sink
        self._give_back = give_back
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
        done = self._workbench.done
        for response in responses:
            done(response, now)
        for response in responses:
            if response.request.is_requisite:
                self._needed -= 1
            elif not response.request.is_robots:
                self._visited += 1
            self._sink(response)
        return handled + len(responses)

    def wake(self) -> None:
        """Ends the waiting of a step; from any thread."""
        self._client.wake()

    def stop(self) -> None:
        """Drops what is under way. The workbench still knows those pages."""
        self._client.close()

    def _start(self, timeout_s: float) -> tuple[int, float]:
        handled, client, now = 0, self._client, self.now()  # later by less than a decision takes: nobody is asked early
        for _ in range(_STARTS):
            active = client.active
            is_used_up = self.allowed is not None and active - self._needed + self._visited >= self.allowed
            if active >= self._connections or (is_used_up and not self._requisites):
                return handled, timeout_s
            step = self._workbench.next(now, is_used_up)
            if isinstance(step, Fetch):
                if step.request.is_requisite:
                    self._needed += 1
                client.start(step.request, step.reuse_connection, self._admits)
            elif isinstance(step, Wait):
                wait_s = timeout_s if step.seconds is None else min(timeout_s, step.seconds)
                return handled, 0.0 if handled else wait_s
            else:
                handled += 1
                self._pass_on(step, now)
        return handled, 0.0

    def _has_turn(self, request: Request, address: str) -> bool:
        """Returns whether a request may go to its address; not if another host there has the turn."""
        has_turn = self._workbench.learn(request, address, self.now())
        self._needed -= not has_turn and request.is_requisite
        return has_turn

    def _pass_on(self, step: Denied | Deferred | Failed, now: float) -> None:
        if isinstance(step, Deferred):
            self._give_back(step)
            return
        if isinstance(step, Denied):
            response = Response(step.request, Outcome.DENIED, f"robots.txt: {step.line}", started_s=now)
        else:
            response = Response(step.request, step.outcome, step.reason, started_s=now)
        self._visited += not (step.request.is_robots or step.request.is_requisite)
        self._sink(response)
