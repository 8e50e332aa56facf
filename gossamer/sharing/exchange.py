"""`Exchange` is the port that carries messages: links reach the zones of others only by it, in order and each exactly
once.

A *stream* is all that one agent sends to another. Its messages are numbered upwards. Each names the number before it,
so that one that overtakes another waits; each number has one or more parts, which are delivered together. The receiver
commits the last number that it applied of every stream (its mark): what comes again is ignored. The sender keeps what
the receiver has not confirmed. An agent that receives links for a zone that has moved on sends them on.
"""

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from gossamer.archive.bundle import unbundled
from gossamer.archive.manifest import ANY, Message
from gossamer.crawl.inbox import PART_BYTES, Inbox, in_order


class Exchange(Protocol):
    """This port carries messages. All methods may be called from any thread, and again after a crash."""

    def publish(self, message: Message) -> bool:
        """Sends a message of any length, or a bundle; False: not now. The same again changes nothing."""

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        """Returns what this agent has not applied: per stream in order, all parts, without a gap."""

    def acknowledge(self, stream: str, number: int) -> None:
        """Forgets this number and all before it: the receiver's commit names it as applied."""

    def confirmed(self, stream: str) -> int:
        """Returns the last number of the stream that is acknowledged: the sender need keep nothing up to it."""

    def lost(self) -> bool:
        """Returns whether messages were lost on their way since the last call: unconfirmed ones must be sent again."""


class InProcess:
    """`InProcess` is shared by the agents of one process; it is also the public test double."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._batches: dict[tuple[str, int, int], Message] = {}
        self._done: dict[str, int] = {}

    def publish(self, message: Message) -> bool:
        with self._guard:
            for each in unbundled(message):
                if each.number > self._done.get(each.stream, 0):
                    self._batches.setdefault((each.stream, each.number, each.part), each)
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        with self._guard:
            messages = [message for message in self._batches.values() if message.to in (to, ANY)]
        for stream, number in stale(messages, marks).items():
            self.acknowledge(stream, number)
        return in_order(messages, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        with self._guard:
            self._done[stream] = max(number, self._done.get(stream, 0))
            for key in [key for key in self._batches if key[0] == stream and key[1] <= number]:
                del self._batches[key]

    def confirmed(self, stream: str) -> int:
        with self._guard:
            return self._done.get(stream, 0)

    def lost(self) -> bool:
        return False


class Joined:
    """`Joined` joins an Exchange and the Inbox, for the agent that also reads the seeds."""

    def __init__(self, exchange: Exchange, inbox: Inbox) -> None:
        self._exchange = exchange
        self._inbox = inbox

    def publish(self, message: Message) -> bool:
        return self._exchange.publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        return self._exchange.pending(to, marks) + self._inbox.pending(to, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        (self._exchange if ">" in stream else self._inbox).acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return self._exchange.confirmed(stream)

    def lost(self) -> bool:
        return self._exchange.lost()


def stale(messages: Iterable[Message], marks: Mapping[str, int]) -> dict[str, int]:
    """Returns the marks of streams of which something came again: their senders do not know of our commit."""
    return {b.stream: marks[b.stream] for b in messages if b.number <= marks.get(b.stream, 0)}


def news_parts(news: Mapping[str, Any], limit: int = PART_BYTES) -> list[bytes]:
    """Returns JSON. A long message becomes several, by halves of its longest list or table, so that nobody must hold
    much at a time. What cannot be halved stays one, however long: an Exchange carries it all the same."""
    data = json.dumps(news).encode()
    if len(data) < limit:
        return [data]
    name = max(news, key=lambda name: len(json.dumps(news[name])))
    value = news[name]
    if not isinstance(value, list | dict) or len(value) < 2:
        return [data]
    items = list(value.items()) if isinstance(value, dict) else value
    halves = [items[: len(items) // 2], items[len(items) // 2 :]]
    first, second = (dict(half) if isinstance(value, dict) else half for half in halves)
    return news_parts({**news, name: first}, limit) + news_parts({name: second}, limit)
