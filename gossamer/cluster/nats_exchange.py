"""`NatsExchange` is the Exchange of a site with several agents: JetStream carries the messages and their receipts.

A message has the subject `links.<to>.<from>`, and a bundle that of a group of receivers, who keep what is theirs. A job
reads all that is there for this agent into memory, from the start in every new connection, so that nothing depends on
what a connection before has seen; it stops while the memory is full. If what the receiver needs next is not in it,
later messages are dropped, and read again when they are needed. An acknowledgement is written as a receipt first
(key-value bucket `receipts`, key `<to>.<from>`), and then the messages are removed: whatever breaks in between, the
message comes again and is confirmed again. Bundles, and messages to other sites, are removed by their sender, when all
receipts have come.

A message that is none of ours is set aside and removed. One of a later version of the protocol stays, and whatever
comes behind it in its stream waits.
"""

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nats.aio.msg import Msg
from nats.js import api

from gossamer.archive.bundle import unbundled
from gossamer.archive.manifest import ANY, BUNDLE, Message
from gossamer.cluster.jetstream import NO_STREAM, Link, always, bucket, finish
from gossamer.cluster.nats_connection import Job, Unreachable, Wire
from gossamer.crawl.inbox import Aside, in_order
from gossamer.errors import TooNew, Unreadable
from gossamer.sharing.envelope import (
    ANYONE,
    Piece,
    ends,
    group,
    joined,
    opened,
    sealed,
    subject_of,
    token,
)
from gossamer.sharing.exchange import stale

BUFFER_BYTES = 64 << 20
_MESSAGE_BUFFERS, _LEAST_MESSAGE = 4, 16 << 20  # how many buffers all parts of one number may fill, or so many bytes
STREAM_BYTES = 8 << 30  # a full stream refuses: messages then wait in their senders' outboxes
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
_DIGITS = 18  # of a number
_STUCK = 20  # looks at a full memory without taking anything from it: some seconds


class _Held(NamedTuple):
    """`_Held` is a message in memory and its number in the stream of messages; 0: not seen there by this connection."""

    at: int
    piece: Piece


class _Sent(NamedTuple):
    """`_Sent` is where the messages of a number are in the stream of messages, and which streams they belong to."""

    first: int
    last: int
    streams: frozenset[str]


class NatsExchange:
    """This exchange is for one agent: it sends what is from it and receives what is for it. `sites` are receivers that
    may not remove messages here."""

    def __init__(
        self,
        wire: Wire,
        agent: str,
        buffer_bytes: int = BUFFER_BYTES,
        aside: Aside | None = None,
        sites: Collection[str] = (),
    ) -> None:
        self._agent = token(agent)
        self._wire = wire
        self._aside = aside or Aside(agent)
        self._guard = threading.Lock()
        self._held: dict[tuple[str, int, int, int], _Held] = {}
        self._unread: dict[str, int] = {}  # by stream, the first message that is to stay though we do not read it
        self._removable: list[int] = []  # messages that are set aside
        self._bytes, self._limit = 0, buffer_bytes
        self._is_starved = False
        self._has_dropped = False  # something that we will have to read again
        self._too_long: dict[str, int] = {}  # by stream: the number of a message that memory cannot hold
        self._reader: Link | None = None  # the connection that reads, and
        self._seen = 0  # the last message that it has read
        self._top = 0  # the highest number of a message that we know of
        self._made: object = None  # when the stream was created
        self._is_lost = False
        self._refusals = 0  # how often the receiver has looked at a full memory and taken nothing
        self._due: dict[str, int] = {}  # acknowledgements to be sent, by stream
        self._confirmed: dict[str, int] = {}
        self._sites = sites
        self._sent: dict[str, dict[int, _Sent]] = {}  # what we are to remove, by subject and number
        self._delivered: dict[str, int] = {}  # by subject: before which message of ours all are
        self._own_at, self._removed = 0, 0  # the last message that we are to remove, and before which all are
        self._has_room, self._has_due, self._is_to_reread = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ends = [wire.keep(job) for job in self._jobs()]

    def _jobs(self) -> Sequence[Job]:
        return (self._receive, self._answer, self._watch)

    def close(self) -> None:
        """Closes the exchange. Messages that are not acknowledged stay where they are."""
        for end in self._ends:
            end()

    def publish(self, message: Message) -> bool:
        subject = subject_of(message)
        for headers, data in sealed(message):
            try:
                at = self._wire.call(partial(self._send, subject, headers, data))
            except Unreachable:
                return False
            with self._guard:
                self._top = max(self._top, at)
                if message.to in self._sites or message.kind == BUNDLE:
                    sent = self._sent.setdefault(subject, {})
                    first, last, streams = sent.get(message.number, _Sent(at, at, frozenset()))
                    sent[message.number] = _Sent(min(first, at), max(last, at), streams.union(message.streams))
        return True

    async def _send(self, subject: str, headers: dict[str, str], data: bytes, link: Link) -> int:
        try:
            return await link.send(subject, data, headers)
        except NO_STREAM:  # no process was here before us, or the server has lost its data
            await self._prepare(link)
            return await link.send(subject, data, headers)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        self._wire.check()
        with self._guard:
            messages = joined(held.piece for held in self._held.values() if held.piece.message.to in (to, ANY))
        for stream, number in stale(messages, marks).items():
            self.acknowledge(stream, number)
        ready = in_order(messages, marks)
        with self._guard:
            is_full = self._bytes >= self._limit
            self._refusals = self._refusals + 1 if is_full else 0
            is_stuck = self._refusals % _STUCK == _STUCK - 1
        if not ready or is_stuck:
            # What is missing, or what the receiver waits for before it takes these, is not in memory. If that is full,
            # it would never come.
            self._is_starved = True
            if is_full:
                self._wire.soon(self._has_room.set)
        return ready

    def acknowledge(self, stream: str, number: int) -> None:
        with self._guard:
            self._refusals = 0
            for key in [key for key in self._held if key[0] == stream and key[1] <= number]:
                self._bytes -= len(self._held.pop(key).piece.message.data)
            self._due[stream] = max(number, self._due.get(stream, 0))
            if self._has_dropped:
                self._wire.soon(self._is_to_reread.set)
        self._wire.soon(self._has_room.set)
        self._wire.soon(self._has_due.set)

    def confirmed(self, stream: str) -> int:
        with self._guard:
            return self._confirmed.get(stream, 0)

    def lost(self) -> bool:
        """Returns whether the server has lost messages since the last call: unconfirmed ones must go out again."""
        with self._guard:
            was, self._is_lost = self._is_lost, False
        return was

    async def _prepare(self, link: Link) -> None:
        top = self._top  # before we ask: meanwhile others are stored
        info = await link.ensure(_LINKS)
        with self._guard:
            if self._made is not None and (info.created != self._made or info.state.last_seq < top):
                self._is_lost, self._sent, self._delivered = True, {}, {}
                self._top = info.state.last_seq
            self._made = info.created

    async def _receive(self, link: Link) -> None:
        await self._prepare(link)
        while True:
            self._is_to_reread.clear()
            with self._guard:
                self._reader, self._seen, self._has_dropped = link, 0, False
                self._held = {key: held._replace(at=0) for key, held in self._held.items()}
                self._unread, self._removable, self._too_long = {}, [], {}
                self._own_at = self._removed = 0
            tasks = [asyncio.ensure_future(self._read(link)), asyncio.ensure_future(self._is_to_reread.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if tasks[0].done():
                    tasks[0].result()
            finally:
                await finish(*tasks)

    async def _read(self, link: Link) -> None:
        subjects = [f"links.{to}.*" for to in (self._agent, ANYONE, group(self._agent))]
        await link.tail("links", subjects, self._take, newest=False, room=self._room)

    def _take(self, message: Msg) -> None:
        self._come(message.metadata.sequence.stream, message.subject, message.headers or {}, message.data)

    def _come(self, at: int, subject: str, headers: Mapping[str, str], data: bytes) -> None:
        try:
            piece = self._opened(subject, headers, data)
            pieces = [piece]
            if piece.message.kind == BUNDLE:
                pieces = [Piece(each) for each in unbundled(piece.message) if each.to == self._agent]
        except TooNew as error:
            self._refuse(subject, at, str(error))
        except Unreadable as error:
            self._aside.put(data, str(error), subject=subject, headers=headers)
            with self._guard:
                self._removable.append(at)
            self._has_due.set()
        else:
            for each in pieces:
                self._hold(at, each)
            if piece.message.kind != BUNDLE:
                self._own_at = at
        with self._guard:
            self._seen = at
            self._top = max(self._top, at)

    def _opened(self, subject: str, headers: Mapping[str, str], data: bytes) -> Piece:
        return opened(subject, headers, data)

    def _hold(self, at: int, piece: Piece) -> None:
        message = piece.message
        key = (message.stream, message.number, message.part, piece.piece)
        with self._guard:
            held = self._held.get(key)
            if message.number >= self._too_long.get(message.stream, message.number + 1):
                self._unread.setdefault(message.stream, at)
                return
            if held is None:
                self._bytes += len(message.data)
            if held is None or not held.at:  # of two copies the first: both go when it does
                self._held[key] = _Held(at, piece)

    def _refuse(self, subject: str, at: int, why: str) -> None:
        """Refuses a message. It stays where it is; what comes behind it in its stream waits for it."""
        sender, to = ends(subject)
        self._aside.refuse(why, sender=sender, to=to)
        with self._guard:
            self._unread.setdefault(sender if to == ANY else f"{sender}>{to}", at)

    async def _room(self) -> int:
        while True:
            self._has_room.clear()
            with self._guard:
                if self._bytes >= self._limit and self._is_starved:
                    self._make_room()
                free = self._limit - self._bytes
            if free > 0 or self._is_starved:
                self._is_starved = False
                return free
            await self._has_room.wait()

    def _make_room(self) -> None:
        """Drops what is not next in its stream, the last numbers first. One number that is more than memory may hold is
        refused, and what comes behind it waits. The caller holds the guard."""
        first: dict[str, int] = {}
        for stream, number, *_ in self._held:
            first[stream] = min(number, first.get(stream, number))
        for key in sorted((key for key in self._held if key[1] > first[key[0]]), key=lambda key: -key[1]):
            if self._bytes <= self._limit // 2:
                return
            self._drop(key)
        most = max(_MESSAGE_BUFFERS * self._limit, _LEAST_MESSAGE)
        if self._bytes < most:
            return
        sizes = dict.fromkeys(first, 0)
        for key, held in self._held.items():
            sizes[key[0]] += len(held.piece.message.data)
        stream = max(sizes, key=lambda stream: sizes[stream])
        self._too_long[stream] = first[stream]
        for key in [key for key in self._held if key[0] == stream]:
            self._drop(key)
        why = f"it has more than {most >> 20} MB: end its sender, and look what it is"
        self._aside.refuse(why, stream=stream, number=first[stream])

    def _drop(self, key: tuple[str, int, int, int]) -> None:
        """Drops a message from memory. It stays in the server. The caller holds the guard."""
        held = self._held.pop(key)
        self._bytes -= len(held.piece.message.data)
        self._has_dropped = True
        if held.at:  # else this connection has it before it
            self._unread[key[0]] = min(held.at, self._unread.get(key[0], held.at))

    async def _answer(self, link: Link) -> None:
        await self._prepare_receipts(link)
        while True:
            self._has_due.clear()
            with self._guard:
                due, self._due = self._due, {}
                removable, self._removable = (self._removable if self._reader is link else []), []
                delivered, self._delivered = self._delivered, {}
                needless = self._needless(due, link)
            await self._remove(link, removable)
            for subject, before in delivered.items():
                await link.purge("links", before, subject)
            try:
                for stream, number in sorted(due.items()):
                    await self._confirm(link, stream, number)
                    del due[stream]
            finally:  # what could not be sent now is sent later
                with self._guard:
                    for stream, number in due.items():
                        self._due[stream] = max(number, self._due.get(stream, 0))
            await self._forget(link, needless)
            await self._has_due.wait()

    async def _prepare_receipts(self, link: Link) -> None:
        await link.ensure(_RECEIPTS)

    async def _remove(self, link: Link, messages: Sequence[int]) -> None:
        """Removes what is set aside."""
        for at in messages:
            await link.remove("links", at)

    async def _confirm(self, link: Link, stream: str, number: int) -> None:
        sender, _, to = stream.partition(">")
        await link.send(f"$KV.receipts.{token(to)}.{sender}", b"%d" % number)

    async def _forget(self, link: Link, needless: Mapping[str, int]) -> None:
        """Removes messages that are confirmed: by subject, before which number."""
        for subject, before in needless.items():
            await link.purge("links", before, subject)

    def _needless(self, due: Mapping[str, int], link: Link) -> dict[str, int]:
        """Returns by subject before which number all messages are acknowledged, as far as this connection knows. Those
        for us alone go at once, however many agents have sent them. The caller holds the guard."""
        if self._reader is not link:
            return {}  # they will come again, and be acknowledged again
        found: dict[str, int] = {}
        for stream in due:
            sender, _, to = stream.partition(">")
            streams = {stream} if to == ANY else {*self._unread, *(key[0] for key in self._held)}
            needed = [held.at for key, held in self._held.items() if key[0] in streams and held.at]
            needed += [at for name, at in self._unread.items() if name in streams]
            if to == ANY or self._own_at >= self._removed:  # else all that came was in bundles
                before = min([*needed, self._seen + 1])
                found[f"links.{token(to)}.{sender if to == ANY else '*'}"] = before
                self._removed = self._removed if to == ANY else before
        return found

    async def _watch(self, link: Link) -> None:
        await link.ensure(_RECEIPTS)
        await link.tail("KV_receipts", [f"$KV.receipts.*.{self._agent}"], self._learn, newest=True, room=always)

    def _learn(self, receipt: Msg) -> None:
        to = receipt.subject.split(".")[2]
        stream = self._agent if to == ANYONE else f"{self._agent}>{to}"
        if not receipt.data.isdigit() or len(receipt.data) > _DIGITS:
            self._aside.put(receipt.data, "it is no receipt", subject=receipt.subject)
            return
        with self._guard:
            self._confirmed[stream] = max(int(receipt.data), self._confirmed.get(stream, 0))
            self._deliver()
        self._has_due.set()

    def _deliver(self) -> None:
        """Notes which messages that we are to remove are confirmed by all receivers. The caller holds the guard."""
        for subject, sent in self._sent.items():
            numbers = [n for n in sent if all(self._confirmed.get(stream, 0) >= n for stream in sent[n].streams)]
            done = [sent.pop(number) for number in numbers]
            if done:
                before = max(each.last for each in done) + 1
                self._delivered[subject] = min([each.first for each in sent.values()] or [before])
