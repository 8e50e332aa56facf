"""Names become addresses here and nowhere else, and every address passes the guard before it is used."""

import contextlib
import ipaddress
import select
import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pycares

from gossamer.clocks import Clock
from gossamer.columns import Outcome
from gossamer.config import Resolve
from gossamer.errors import ConfigError
from gossamer.web.guard import port_refusal, refusal

_MOST_ADDRESSES = 8  # tried for one request: a name must not make us knock at thousands of doors
_LEAST_TTL_S = 60.0  # a shorter life would ask the same question for every page of a host
_MISSING = frozenset(
    getattr(pycares.errno, name)
    for name in ("ARES_ENOTFOUND", "ARES_ENODATA", "ARES_ENONAME", "ARES_EBADNAME", "ARES_EBADQUERY")
)


@dataclass(slots=True)
class Answer:
    """Where to connect, or why not."""

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
    """Never blocks: answers come at once where they are known, else while `process` runs.

    `fileno` becomes readable when there is something to process, so that one epoll can wait for this and
    for everything else.
    """

    def __init__(self, config: Resolve, clock: Clock, timeout_s: float = 10.0) -> None:
        self._config = config
        self._clock = clock
        self._timeout_s = timeout_s
        self._map = checked_map(config)
        self._fixed: dict[tuple[str, int], Answer] = {}  # what the map said
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._waiting: dict[str, list[tuple[int, Done]]] = {}
        self._asked: dict[str, float] = {}  # name -> when to give up on it
        self._deadlines: deque[tuple[float, str]] = deque()
        self._answers: deque[tuple[str, Any, int | None]] = deque()
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}
        self._channel: pycares.Channel | None = None if self._map else self._open()

    def look_up(self, name: str, port: int, done: Done) -> None:
        """Calls `done` with the answer: at once if it is known, else from within `process`."""
        if self._map:
            done(self._mapped(name, port))
            return
        if why := port_refusal(port):
            done(Answer("", port, Outcome.REFUSED_ADDRESS, f"port {port}: {why}"))
            return
        known = self._recall(name) or self._literal(name)
        if known is not None:
            done(known.answer(port))
        elif name in self._waiting:
            self._waiting[name].append((port, done))
        else:
            self._waiting[name] = [(port, done)]
            self._ask(name)

    def forget(self, name: str) -> None:
        """The address did not answer; it may have changed."""
        self._known.pop(name, None)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def timeout_s(self) -> float | None:
        """How long `process` may be put off when nothing becomes readable; None: for ever."""
        if not self._waiting or self._channel is None:
            return None
        deadline_s = self._deadlines[0][0] - self._clock.monotonic()
        return max(0.0, min(_next_s(self._channel), deadline_s))

    def process(self) -> None:
        """Reads what name servers sent, and gives up on those that are silent."""
        if self._channel is None:
            return
        bad = pycares.ARES_SOCKET_BAD
        for fd, events in self._epoll.poll(0, 64):
            readable = fd if events & ~select.EPOLLOUT else bad
            self._channel.process_fd(readable, fd if events & select.EPOLLOUT else bad)
        self._channel.process_fd(bad, bad)
        self._settle()
        now = self._clock.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline_s, name = self._deadlines.popleft()
            if self._asked.get(name) == deadline_s:
                self._finish(name, self._failed(Outcome.DNS_FAILED, "name look-up timed out"))

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if not self._epoll.closed:
            self._epoll.close()

    def _mapped(self, name: str, port: int) -> Answer:
        answer = self._fixed.get((name, port))
        if answer is None:
            if len(self._fixed) >= self._config.cache:
                self._fixed.clear()
            answer = self._fixed[name, port] = self._from_map(name, port)
        return answer

    def _from_map(self, name: str, port: int) -> Answer:
        found = self._map.get(name)
        rest = name
        while found is None and rest:
            rest = rest.partition(".")[2]
            found = self._map.get(f"*.{rest}" if rest else "*")
        if found is None:
            return Answer("", port, Outcome.REFUSED_ADDRESS, f"{name} is not in resolve.map")
        return Answer(found[0], found[1] or port)

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
        """An address written as a host, or a name that no name server needs to see."""
        if name.startswith("[") or name[-1:].isdigit():
            # The URL standard turns every spelling of an IPv4 address into four decimal numbers.
            return self._judge((name.strip("[]"),), self._config.ttl_s)
        labels = name.removesuffix(".").split(".")
        if len(name) > 254 or any(not 0 < len(label) < 64 for label in labels):
            return self._failed(Outcome.NO_NAME, "not a possible host name")
        return None

    def _open(self) -> pycares.Channel:
        try:
            return pycares.Channel(
                sock_state_cb=self._watch,
                servers=self._config.nameservers or None,
                timeout=max(0.1, self._timeout_s / 4),
                tries=2,
                flags=pycares.ARES_FLAG_NOSEARCH,  # host names of URLs are never completed
            )
        except pycares.AresError as error:
            raise ConfigError(f"resolve.nameservers: {error}; write addresses like 192.0.2.1") from None

    def _ask(self, name: str) -> None:
        assert self._channel is not None
        deadline_s = self._asked[name] = self._clock.monotonic() + self._timeout_s
        self._deadlines.append((deadline_s, name))
        # The callback runs inside c-ares, which must not be called again from there: it only takes note.
        self._channel.getaddrinfo(
            name,
            None,
            type=socket.SOCK_STREAM,
            callback=lambda result, error: self._answers.append((name, result, error)),
        )
        self._settle()

    def _watch(self, fd: int, readable: bool, writable: bool) -> None:
        events = (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
        before = self._watched.get(fd, 0)
        if not events:
            self._watched.pop(fd, None)
            with contextlib.suppress(OSError, ValueError):  # already closed, and gone from the epoll with it
                self._epoll.unregister(fd)
        elif not before:
            self._watched[fd] = events
            self._epoll.register(fd, events)
        elif before != events:
            self._watched[fd] = events
            self._epoll.modify(fd, events)

    def _settle(self) -> None:
        while self._answers:
            name, result, error = self._answers.popleft()
            if error is not None:
                missing = error in _MISSING
                reason = _text(pycares.errno.strerror(error))
                self._finish(name, self._failed(Outcome.NO_NAME if missing else Outcome.DNS_FAILED, reason))
                continue
            addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in result.nodes))
            ttl_s = min((node.ttl for node in result.nodes), default=0)
            self._finish(name, self._judge(addresses, min(self._config.ttl_s, max(ttl_s, _LEAST_TTL_S))))

    def _judge(self, addresses: Sequence[str], ttl_s: float) -> _Known:
        """Only the addresses that the guard lets pass remain."""
        if not addresses:
            return self._failed(Outcome.NO_NAME, "the name has no address")
        refused = {} if self._config.private else {a: why for a in addresses if (why := refusal(a))}
        usable = tuple(address for address in addresses if address not in refused)[:_MOST_ADDRESSES]
        if not usable:
            reason = ", ".join(f"{address} is {why}" for address, why in list(refused.items())[:3])
            return self._failed(Outcome.REFUSED_ADDRESS, reason)
        return _Known(self._clock.monotonic() + ttl_s, usable)

    def _failed(self, outcome: Outcome, reason: str) -> _Known:
        return _Known(self._clock.monotonic() + self._config.failed_ttl_s, (), outcome, reason)

    def _finish(self, name: str, known: _Known) -> None:
        waiting = self._waiting.pop(name, ())
        self._asked.pop(name, None)
        self._known[name] = known  # an answer that comes too late for its asker serves the next one
        if len(self._known) > self._config.cache:
            self._known.popitem(last=False)
        for port, done in waiting:
            done(known.answer(port))


def _next_s(channel: Any) -> float:
    """When c-ares wants to be called at the latest."""
    return float(channel.timeout(1.0))


def _text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address


def checked_map(config: Resolve) -> dict[str, tuple[str, int]]:
    """`resolve.map` as addresses and ports; a mistake in it is an error that says so."""
    return {name: _target(name, target) for name, target in config.map.items()}


def _target(name: str, target: str) -> tuple[str, int]:
    """One entry of `resolve.map`."""
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
