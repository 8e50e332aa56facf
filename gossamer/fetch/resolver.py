"""`Resolver` looks host names up, caches the answers, and lets every address pass the guard before it is used."""

import ipaddress
import select
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.clocks import Clock
from gossamer.columns import Outcome
from gossamer.config import Resolve
from gossamer.errors import ConfigError
from gossamer.web.guard import port_refusal, refusal

if TYPE_CHECKING:  # c-ares: whoever has a map need not wait for it
    from gossamer.fetch.dns_queries import DnsQueries

_MOST_ADDRESSES = 8  # tried for one request: a name must not make us try thousands
_LEAST_TTL_S = 60.0  # a shorter life would ask the same question for every page of a host
_PASSING_TTL_S = 5.0  # a name server that failed may be well again: as long as a page waits, not as long as a crawl


@dataclass(slots=True)
class Answer:
    """The answer is where to connect, or why not."""

    address: str = ""
    port: int = 0
    outcome: Outcome | None = None  # None: connect
    reason: str = ""
    others: tuple[str, ...] = ()  # more addresses of the same name, in order of preference


Done = Callable[[Answer], None]


@dataclass(slots=True)
class _Known:
    expires_s: float
    addresses: tuple[str, ...]
    outcome: Outcome | None = None
    reason: str = ""

    def answer(self, port: int) -> Answer:
        if self.outcome is not None:
            return Answer("", port, self.outcome, self.reason)
        return Answer(self.addresses[0], port, others=self.addresses[1:])


class Resolver:
    """The resolver never blocks: answers come at once where they are known, else while `process` runs.

    `fileno` becomes readable when there is something to process, so that one epoll can wait for this and
    for everything else.
    """

    def __init__(self, config: Resolve, clock: Clock, timeout_s: float = 10.0) -> None:
        self._config = config
        self._clock = clock
        self._timeout_s = timeout_s
        self._map = checked_map(config)
        self._fixed: dict[tuple[str, int], Answer] = {}  # what the map has
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self.waiting: dict[str, list[tuple[int, Done]]] = {}  # who asked for the names that are looked up
        self._asked: dict[str, float] = {}  # name -> when to give up on it
        self._deadlines: deque[tuple[float, str]] = deque()
        self._queries = None if self._map else _queries(config.nameservers, timeout_s)
        self._nothing = select.epoll()  # what somebody may wait for who has a map

    def look_up(self, name: str, port: int, done: Done) -> None:
        """Calls `done` with the answer: at once if it is known, else from within `process`."""
        answer = self.known(name, port)
        if answer is not None:
            done(answer)
        elif name in self.waiting:
            self.waiting[name].append((port, done))
        else:
            self.waiting[name] = [(port, done)]
            self._ask(name)

    def known(self, name: str, port: int) -> Answer | None:
        """Returns the answer; None: it must be looked up."""
        if self._map:
            return self._fixed.get((name, port)) or self._from_map(name, port)
        if why := port_refusal(port):
            return Answer("", port, Outcome.REFUSED_ADDRESS, f"port {port}: {why}")
        known = self._recall(name) or self._literal(name)
        return None if known is None else known.answer(port)

    def by_proxy(self, name: str, port: int) -> Answer:
        """Returns whether a proxy may be asked for a host. It looks the name up itself, but what the URL says can be
        judged here: a port, or an address in the place of a name."""
        if why := port_refusal(port):
            return Answer("", port, Outcome.REFUSED_ADDRESS, f"port {port}: {why}")
        known = self._literal(name)
        return Answer("", port) if known is None or known.outcome is None else known.answer(port)

    def forget(self, name: str) -> None:
        """Forgets an address that did not answer: it may have changed."""
        self._known.pop(name, None)

    def fileno(self) -> int:
        return (self._queries or self._nothing).fileno()

    def timeout_s(self) -> float | None:
        """Returns how long `process` may be put off when nothing becomes readable; None: for ever."""
        if not self.waiting or self._queries is None:
            return None
        deadline_s = self._deadlines[0][0] - self._clock.monotonic()
        return max(0.0, min(self._queries.next_s(), deadline_s))

    def process(self) -> None:
        """Reads what name servers sent, and gives up on those that are silent."""
        if self._queries is None:
            return
        for reply in self._queries.process():
            if reply.error is not None:
                outcome = Outcome.NO_NAME if reply.is_missing else Outcome.DNS_FAILED
                self._finish(reply.name, self._failed(outcome, reply.reason))
            else:
                ttl_s = min(self._config.ttl_s, max(reply.ttl_s, _LEAST_TTL_S))
                self._finish(reply.name, self._judge(reply.addresses, ttl_s))
        now = self._clock.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline_s, name = self._deadlines.popleft()
            if self._asked.get(name) == deadline_s:
                self._finish(name, self._failed(Outcome.DNS_FAILED, "name look-up timed out"))

    def close(self) -> None:
        if self._queries is not None:
            self._queries.close()
            self._queries = None
        if not self._nothing.closed:
            self._nothing.close()

    def _from_map(self, name: str, port: int) -> Answer:
        found = self._map.get(name)
        rest = name
        while found is None and rest:
            rest = rest.partition(".")[2]
            found = self._map.get(f"*.{rest}" if rest else "*")
        if found is None:
            answer = Answer("", port, Outcome.REFUSED_ADDRESS, f"{name} is not in resolve.map")
        else:
            answer = Answer(found[0], found[1] or port)
        if len(self._fixed) >= self._config.cache:
            self._fixed.clear()
        self._fixed[name, port] = answer
        return answer

    def _recall(self, name: str) -> _Known | None:
        known = self._known.get(name)
        if known is None:
            return None
        if known.expires_s <= self._clock.monotonic():
            del self._known[name]
            return None
        self._known.move_to_end(name)
        return known

    def _literal(self, name: str) -> _Known | None:
        """Answers for an address written as a host, or a name that no name server needs to see."""
        if name.startswith("[") or name[-1:].isdigit():
            # The URL standard turns every spelling of an IPv4 address into four decimal numbers.
            return self._judge((name.strip("[]"),), self._config.ttl_s)
        labels = name.removesuffix(".").split(".")
        if len(name) > 254 or any(not 0 < len(label) < 64 for label in labels):
            return self._failed(Outcome.NO_NAME, "not a possible host name")
        return None

    def _ask(self, name: str) -> None:
        assert self._queries is not None
        deadline_s = self._asked[name] = self._clock.monotonic() + self._timeout_s
        self._deadlines.append((deadline_s, name))
        self._queries.ask(name)

    def _judge(self, addresses: Sequence[str], ttl_s: float) -> _Known:
        """Keeps only the addresses that the guard lets pass."""
        if not addresses:
            return self._failed(Outcome.NO_NAME, "the name has no address")
        refused = {} if self._config.private else {a: why for a in addresses if (why := refusal(a))}
        usable = tuple(address for address in addresses if address not in refused)[:_MOST_ADDRESSES]
        if not usable:
            reason = ", ".join(f"{address} is {why}" for address, why in list(refused.items())[:3])
            return self._failed(Outcome.REFUSED_ADDRESS, reason)
        return _Known(self._clock.monotonic() + ttl_s, usable)

    def _failed(self, outcome: Outcome, reason: str) -> _Known:
        ttl_s = self._config.failed_ttl_s
        if outcome is Outcome.DNS_FAILED:  # no name server answered
            ttl_s = min(ttl_s, _PASSING_TTL_S)
        return _Known(self._clock.monotonic() + ttl_s, (), outcome, reason)

    def _finish(self, name: str, known: _Known) -> None:
        waiting = self.waiting.pop(name, ())
        self._asked.pop(name, None)
        self._known[name] = known  # an answer that comes too late for its asker serves the next one
        if len(self._known) > self._config.cache:
            self._known.popitem(last=False)
        for port, done in waiting:
            done(known.answer(port))


def _queries(servers: Sequence[str], timeout_s: float) -> "DnsQueries":
    from gossamer.fetch.dns_queries import DnsQueries

    return DnsQueries(servers, timeout_s)


def checked_map(config: Resolve) -> dict[str, tuple[str, int]]:
    """Returns `resolve.map` as addresses and ports; a mistake in it is a ConfigError."""
    return {name: _target(name, target) for name, target in config.map.items()}


def _target(name: str, target: str) -> tuple[str, int]:
    address, colon, port = target.rpartition(":")
    if not colon or target.endswith("]") or (target.count(":") > 1 and not target.startswith("[")):
        address, port = target, "0"
    try:
        parsed = ipaddress.ip_address(address.strip("[]"))
        if not 0 <= int(port) <= 65535:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f'resolve.map: {name!r} = {target!r} is not an address; write it like "127.0.0.1:8080"'
        ) from None
    return str(parsed), int(port)
