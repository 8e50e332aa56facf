"""The Exchange of a site with several agents: NATS JetStream carries the batches and the receipts for them.

A batch is a message with the subject `links.<to>.<from>`. A job reads all that is there for this agent into
memory, from the start in every new connection, so that nothing depends on what a connection before has seen;
it stops while the memory is full. An acknowledgement is written as a receipt first (key-value bucket
`receipts`, key `<to>.<from>`), and then the messages are removed: whatever breaks in between, the message
comes again and is confirmed again.
"""

import asyncio
import re
import threading
from collections.abc import Mapping
from typing import NamedTuple

from nats.aio.msg import Msg
from nats.js import api

from gossamer.archive.manifest import ANY, Batch
from gossamer.federation.exchange import in_order, stale
from gossamer.federation.link import MESSAGE_BYTES, NO_STREAM, Link, always, bucket
from gossamer.federation.wire import Unreachable, Wire

BUFFER_BYTES = 64 << 20
STREAM_BYTES = 8 << 30  # a full stream refuses: batches then wait in their senders' outboxes
_LINKS = api.StreamConfig(
    name="links",
    subjects=["links.>"],
    storage=api.StorageType.FILE,
    retention=api.RetentionPolicy.LIMITS,
    discard=api.DiscardPolicy.NEW,
    max_bytes=STREAM_BYTES,
    duplicate_window=120.0,
)
_RECEIPTS = bucket("receipts")
_ANYONE = "="  # the receiver's name of what is for anyone; no agent can have it
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HEADERS = ("number", "part", "parts", "previous", "kind")
_HEAD_BYTES = 1024
_STUCK = 20  # looks at a full memory without taking anything from it: some seconds


class _Held(NamedTuple):
    """A batch in memory and its number in the stream of messages; 0: not seen there by this connection."""

    at: int
    batch: Batch


class NatsExchange:
    """For one agent: it sends what is from it and receives what is for it."""

    def __init__(self, wire: Wire, agent: str, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._agent = _token(agent)
        self._wire = wire
        self._guard = threading.Lock()
        self._held: dict[tuple[str, int, int], _Held] = {}
        self._bytes, self._limit = 0, buffer_bytes
        self._is_starved = False
        self._reader: Link | None = None  # the connection that reads, and
        self._seen = 0  # the last message that it has read
        self._top = 0  # the highest number of a message that we have heard of
        self._made: object = None  # when the stream was created
        self._is_lost = False
        self._refusals = 0  # how often the receiver has looked at a full memory and taken nothing
        self._due: dict[str, int] = {}  # acknowledgements to be told, by stream
        self._confirmed: dict[str, int] = {}
        self._has_room, self._has_due = asyncio.Event(), asyncio.Event()
        self._ends = [wire.keep(job) for job in (self._receive, self._answer, self._watch)]

    def close(self) -> None:
        """Batches that are not acknowledged stay where they are."""
        for end in self._ends:
            end()

    def publish(self, batch: Batch) -> bool:
        if len(batch.data) > MESSAGE_BYTES - _HEAD_BYTES:
            raise ValueError(f"a part of {len(batch.data)} bytes is too long for a message")
        subject = f"links.{_token(batch.to)}.{_token(batch.sender)}"
        headers = {name: str(getattr(batch, name)) for name in _HEADERS}
        headers["Nats-Msg-Id"] = f"{batch.stream}/{batch.number}/{batch.part}"

        async def send(link: Link) -> int:
            try:
                return await link.send(subject, batch.data, headers)
            except NO_STREAM:  # nobody was here before us, or the server has lost its data
                await self._prepare(link)
                return await link.send(subject, batch.data, headers)

        try:
            at = self._wire.call(send)
        except Unreachable:
            return False
        with self._guard:
            self._top = max(self._top, at)
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Batch]:
        self._wire.check()
        with self._guard:
            batches = [held.batch for held in self._held.values() if held.batch.to in (to, ANY)]
        for stream, number in stale(batches, marks).items():
            self.acknowledge(stream, number)
        ready = in_order(batches, marks)
        with self._guard:
            self._refusals = self._refusals + 1 if self._bytes >= self._limit else 0
            is_stuck = self._refusals % _STUCK == _STUCK - 1
        if not ready or is_stuck:
            # What is missing, or what the receiver waits for before it takes these, is not in memory. If that is full,
            # it would never come.
            self._is_starved = True
            self._wire.soon(self._has_room.set)
        return ready

    def acknowledge(self, stream: str, number: int) -> None:
        with self._guard:
            self._refusals = 0
            for key in [key for key in self._held if key[0] == stream and key[1] <= number]:
                self._bytes -= len(self._held.pop(key).batch.data)
            self._due[stream] = max(number, self._due.get(stream, 0))
        self._wire.soon(self._has_room.set)
        self._wire.soon(self._has_due.set)

    def confirmed(self, stream: str) -> int:
        with self._guard:
            return self._confirmed.get(stream, 0)

    def lost(self) -> bool:
        """Whether the server has lost messages since the last call: what is not confirmed must be published again."""
        with self._guard:
            was, self._is_lost = self._is_lost, False
        return was

    async def _prepare(self, link: Link) -> None:
        top = self._top  # before we ask: meanwhile others are stored
        info = await link.ensure(_LINKS)
        with self._guard:
            if self._made is not None and (info.created != self._made or info.state.last_seq < top):
                self._is_lost = True
                self._top = info.state.last_seq
            self._made = info.created

    async def _receive(self, link: Link) -> None:
        await self._prepare(link)
        with self._guard:
            self._reader, self._seen = link, 0
            self._held = {key: held._replace(at=0) for key, held in self._held.items()}
        subjects = [f"links.{to}.*" for to in (self._agent, _ANYONE)]
        await link.tail("links", subjects, self._take, newest=False, room=self._room)

    def _take(self, message: Msg) -> None:
        at = message.metadata.sequence.stream
        batch = _batch(message)
        key = (batch.stream, batch.number, batch.part)
        with self._guard:
            self._seen = at
            self._top = max(self._top, at)
            held = self._held.get(key)
            if held is None:
                self._bytes += len(batch.data)
            if held is None or not held.at:  # of two copies the first: both go when it does
                self._held[key] = _Held(at, batch)

    async def _room(self) -> int:
        while True:
            self._has_room.clear()
            with self._guard:
                free = self._limit - self._bytes
            if free > 0 or self._is_starved:
                self._is_starved = False
                return free
            await self._has_room.wait()

    async def _answer(self, link: Link) -> None:
        await link.ensure(_RECEIPTS)
        while True:
            self._has_due.clear()
            with self._guard:
                due, self._due = self._due, {}
            try:
                for stream, number in sorted(due.items()):
                    to, sender = _ends(stream)
                    await link.send(f"$KV.receipts.{to}.{sender}", b"%d" % number)
                    await link.purge("links", self._needless(stream, link), f"links.{to}.{sender}")
                    del due[stream]
            finally:  # what could not be told now is told later
                with self._guard:
                    for stream, number in due.items():
                        self._due[stream] = max(number, self._due.get(stream, 0))
            await self._has_due.wait()

    def _needless(self, stream: str, link: Link) -> int:
        """Messages of the stream before this one are all read and acknowledged, as far as this connection knows."""
        with self._guard:
            if self._reader is not link:
                return 0  # they will come again, and be acknowledged again
            needed = [held.at for key, held in self._held.items() if key[0] == stream and held.at]
            return min(needed, default=self._seen + 1)

    async def _watch(self, link: Link) -> None:
        await link.ensure(_RECEIPTS)
        await link.tail("KV_receipts", [f"$KV.receipts.*.{self._agent}"], self._learn, newest=True, room=always)

    def _learn(self, receipt: Msg) -> None:
        to = receipt.subject.split(".")[2]
        stream = self._agent if to == _ANYONE else f"{self._agent}>{to}"
        with self._guard:
            self._confirmed[stream] = max(int(receipt.data), self._confirmed.get(stream, 0))


def _token(name: str) -> str:
    if name == ANY:
        return _ANYONE
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for an agent: letters, digits, - and _ only")
    return name


def _ends(stream: str) -> tuple[str, str]:
    sender, _, to = stream.partition(">")
    return _token(to), _token(sender)


def _batch(message: Msg) -> Batch:
    _, to, sender = message.subject.split(".")
    number, part, parts, previous, kind = ((message.headers or {})[name] for name in _HEADERS)
    receiver = ANY if to == _ANYONE else to
    return Batch(sender, int(number), int(part), receiver, message.data, kind, int(parts), int(previous))
