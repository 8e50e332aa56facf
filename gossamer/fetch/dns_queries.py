"""`DnsQueries` asks name servers through c-ares; no other module does.

All names share one channel and its sockets. When a reply cannot be parsed, c-ares closes the socket it came on and asks
again for every name that waited there; after the second such reply it fails them all. So whatever ends together with
a failure of that kind is asked for once more, on a channel where it is alone: there it answers for itself only.
"""

import contextlib
import select
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import pycares

from gossamer.errors import ConfigError

_MOST_ALONE = 32  # names that have a channel to themselves at a time; the others wait
_TRIES = 2  # of a question, by c-ares


def _codes(*names: str) -> frozenset[int]:
    return frozenset(getattr(pycares.errno, f"ARES_{name}") for name in names)


_MISSING = _codes("ENOTFOUND", "ENODATA", "ENONAME", "EBADNAME", "EBADQUERY")
# A name server's own answer about the name, or its silence; any other failure may be another name's fault.
_OWN = _MISSING | _codes("ESERVFAIL", "EREFUSED", "ENOTIMP", "EFORMERR", "ETIMEOUT")


class Reply(NamedTuple):
    """A reply has addresses, in order of preference, or an error of c-ares."""

    name: str
    addresses: tuple[str, ...] = ()
    ttl_s: int = 0
    error: int | None = None

    @property
    def is_missing(self) -> bool:
        """Returns whether there is no such name, or it has no address."""
        return self.error in _MISSING

    @property
    def reason(self) -> str:
        return _text(pycares.errno.strerror(self.error)) if self.error is not None else ""


class DnsQueries:
    """The queries never block. `fileno` becomes readable when there is something to process."""

    def __init__(self, servers: Sequence[str], timeout_s: float) -> None:
        self._servers, self._timeout_s = servers, timeout_s
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[pycares.Channel, int]] = {}  # by descriptor: whose it is, and its events
        # Callbacks run inside c-ares, which must not be called again from there: they only take note.
        self._shared_ended: list[Reply] = []
        self._ended: list[Reply] = []
        self._again: deque[str] = deque()
        self._alone: set[pycares.Channel] = set()
        self._idle: list[pycares.Channel] = []
        self._shared = self._open()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def next_s(self) -> float:
        """Returns when `process` wants to be called at the latest, though nothing became readable."""
        if self._shared_ended or self._ended:  # known at once: from the hosts file, or because nobody can be asked
            return 0.0
        return min(_next_s(channel) for channel in (self._shared, *self._alone))

    def ask(self, name: str) -> None:
        self._send(self._shared, name, self._shared_ended.append)

    def process(self) -> list[Reply]:
        """Reads what name servers sent, and gives up on those that are silent. Returns what has ended."""
        bad = pycares.ARES_SOCKET_BAD
        for fd, events in self._epoll.poll(0, 64):
            channel = self._watched[fd][0] if fd in self._watched else None
            if channel is not None:
                channel.process_fd(fd if events & ~select.EPOLLOUT else bad, fd if events & select.EPOLLOUT else bad)
                self._judge()
        for channel in (self._shared, *self._alone):
            channel.process_fd(bad, bad)
        self._judge()
        self._ask_alone()
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        for channel in (self._shared, *self._alone, *self._idle):
            channel.close()
        if not self._epoll.closed:
            self._epoll.close()

    def _judge(self) -> None:
        """Sorts out what ended in one go on the shared channel. Where a connection was lost, even an answer may be half
        of one: the IPv6 addresses of a host without those of IPv4."""
        ended = self._shared_ended
        if any(reply.error is not None and reply.error not in _OWN for reply in ended):
            self._again.extend(reply.name for reply in ended)
        else:
            self._ended += ended
        ended.clear()

    def _ask_alone(self) -> None:
        while self._again and len(self._alone) < _MOST_ALONE:
            channel = self._idle.pop() if self._idle else self._open()
            self._alone.add(channel)
            self._send(channel, self._again.popleft(), lambda reply, channel=channel: self._end_alone(reply, channel))

    def _end_alone(self, reply: Reply, channel: pycares.Channel) -> None:
        self._alone.discard(channel)
        self._idle.append(channel)
        self._ended.append(reply)

    def _open(self) -> pycares.Channel:
        opened: list[pycares.Channel] = []

        def watch(fd: int, readable: bool, writable: bool) -> None:
            self._watch(opened[0], fd, readable, writable)

        try:
            channel = pycares.Channel(
                sock_state_cb=watch,
                servers=self._servers or None,
                timeout=max(0.1, self._timeout_s / 4),
                tries=_TRIES,
                flags=pycares.ARES_FLAG_NOSEARCH,  # host names of URLs are never completed
            )
        except pycares.AresError as error:
            raise ConfigError(f"resolve.nameservers: {error}; write addresses like 192.0.2.1") from None
        opened.append(channel)
        return channel

    def _send(self, channel: pycares.Channel, name: str, done: Any) -> None:
        channel.getaddrinfo(
            name,
            None,
            type=socket.SOCK_STREAM,
            callback=lambda result, error: done(_reply(name, result, error)),
        )

    def _watch(self, channel: pycares.Channel, fd: int, readable: bool, writable: bool) -> None:
        events = (select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0)
        before = self._watched.pop(fd, (None, 0))[1]
        if not events:
            with contextlib.suppress(OSError, ValueError):  # already closed, and gone from the epoll with it
                self._epoll.unregister(fd)
            return
        self._watched[fd] = (channel, events)
        if not before:
            self._epoll.register(fd, events)
        elif before != events:
            self._epoll.modify(fd, events)


def _next_s(channel: Any) -> float:
    return float(channel.timeout(1.0))


def _reply(name: str, result: Any, error: int | None) -> Reply:
    if error is not None:
        return Reply(name, error=error)
    addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in result.nodes))
    return Reply(name, addresses, min((node.ttl for node in result.nodes), default=0))


def _text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address
