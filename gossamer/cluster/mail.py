"""`Mail` gives other sites what our server has for them, and `FromSite` fetches what theirs has for us.

The two do not trust each other. A site asks for what comes after the last message that it has, and is given its own
messages, and no others; with the question goes its receipt. What it is given counts as from the agent that speaks for
the site that it asked. Questions of our agent go over the connection that our supervisor has to that site (`Relay`).
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec
import nats.errors

from gossamer.cluster.jetstream import Link, bucket
from gossamer.cluster.nats_connection import Job, Unreachable, Wire
from gossamer.cluster.nats_exchange import BUFFER_BYTES, NatsExchange
from gossamer.cluster.site_service import MAIL
from gossamer.crawl.inbox import Aside
from gossamer.errors import Unreadable
from gossamer.sharing.envelope import HEADERS, PIECE_BYTES, Piece, opened

RELAY = "gossamer.relay"  # in our own server, for our agent alone
_WAIT_S = 50.0  # for a message to come
_SLACK_S = 10.0
_PAUSE_S = 1.0  # until the next question to a site that has not answered
_PIECES = 8  # of a message from another site, at most: each is a megabyte
_AT_ONCE = 1000  # messages of one answer
_RECEIPTS = bucket("receipts")


class Question(msgspec.Struct, array_like=True):
    """`Question` asks for what comes after a message, if it `reads`. `epoch` tells whether the server that is asked
    still counts as it did; all up to the number `confirmed` has been received."""

    confirmed: int
    reads: bool = False
    after: int = 0
    epoch: str = ""


class Given(msgspec.Struct, array_like=True):
    at: int  # in the stream of the server that is asked
    headers: Annotated[list[str], msgspec.Meta(max_length=len(HEADERS))]
    data: bytes


class Answer(msgspec.Struct, array_like=True):
    epoch: str
    given: Annotated[list[Given], msgspec.Meta(max_length=_AT_ONCE)]


_encode = msgspec.msgpack.encode
_question, _answer = msgspec.msgpack.Decoder(Question).decode, msgspec.msgpack.Decoder(Answer).decode


class Mail:
    """`Mail` answers. `home` is the agent that writes to other sites."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._reading: dict[str, asyncio.Task[bytes] | None] = {}  # by site: one question at a time

    async def serve(self, link: Link) -> None:
        self._epoch, self._confirmed = secrets.token_urlsafe(6), dict[str, int]()
        await link.answer(MAIL, partial(self._answered, link), at_once=True)

    async def _answered(self, link: Link, site: str, data: bytes) -> bytes:
        try:
            asked = _question(data)
        except msgspec.MsgspecError:
            return b""
        await self._confirm(link, site, asked.confirmed)
        if not asked.reads:
            return b""
        if before := self._reading.get(site):
            before.cancel()  # an agent's process and its successor may both ask; who is left asks again
        self._reading[site] = asyncio.current_task()
        after = asked.after if asked.epoch == self._epoch else 0
        try:
            found = await link.some("links", f"links.{site}.{self._home}", after, PIECE_BYTES, _WAIT_S)
        except (nats.errors.Error, TimeoutError):  # our agent has not begun
            await asyncio.sleep(_PAUSE_S)
            return b""
        given = []
        for each in found:
            headers = each.headers or {}
            given.append(Given(each.metadata.sequence.stream, [headers.get(name, "") for name in HEADERS], each.data))
        return _encode(Answer(self._epoch, given))

    async def _confirm(self, link: Link, site: str, number: int) -> None:
        before = self._confirmed.get(site, 0)
        if number > before:
            self._confirmed[site] = number
            try:
                await link.put(_RECEIPTS, f"{site}.{self._home}", b"%d" % number)
            except BaseException:
                self._confirmed[site] = before  # the next question says it again
                raise


class Relay:
    """`Relay` passes the questions of our agent on, so that two sites need one connection for each direction, and not
    another one for each process that has to do with it."""

    def __init__(self, site: str, wires: Mapping[str, Wire]) -> None:
        self._site, self._wires = site, wires

    async def serve(self, link: Link) -> None:
        await link.answer(RELAY, self._passed, at_once=True)

    async def _passed(self, other: str, data: bytes) -> bytes:
        subject, wait_s = f"{MAIL}.{self._site}", _WAIT_S + _SLACK_S

        async def ask(link: Link) -> bytes:
            if _question(data).reads:
                return await link.ask(subject, data, wait_s)
            await link.tell(subject, data)
            return b""

        try:
            return await asyncio.wrap_future(self._wires[other].begin(ask, wait_s + _SLACK_S))
        except Unreachable:
            await asyncio.sleep(_PAUSE_S)
            return b""


class FromSite(NatsExchange):
    """`FromSite` receives what one other site has for ours; `sender` is the agent that speaks for that site, and `path`
    the subject of questions to it."""

    def __init__(
        self,
        wire: Wire,
        site: str,
        sender: str,
        path: str,
        aside: Aside | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._sender, self._path, self._received = sender, path, 0
        super().__init__(wire, site, buffer_bytes, aside)

    def _jobs(self) -> Sequence[Job]:
        return (self._receive, self._answer)

    async def _prepare(self, link: Link) -> None:
        """The server is not ours: its site prepares it."""

    _prepare_receipts = _prepare

    async def _read(self, link: Link) -> None:
        """Reads from the start, until the other site's server begins to count anew."""
        asked = Question(0, reads=True)
        while True:
            await self._room()
            asked.confirmed = self._received
            data, before = await link.ask(self._path, _encode(asked), _WAIT_S + 3 * _SLACK_S), asked.after
            with contextlib.suppress(msgspec.MsgspecError):  # nothing, if it could not be asked
                answer = _answer(data)
                if before and answer.epoch != asked.epoch:
                    return await asyncio.sleep(_PAUSE_S)
                asked.epoch = answer.epoch
                for each in answer.given:
                    headers = {name: value for name, value in zip(HEADERS, each.headers, strict=False) if value}
                    self._come(each.at, f"links.{self._agent}.{self._sender}", headers, each.data)
                    asked.after = max(asked.after, each.at)
            if asked.after == before:
                await asyncio.sleep(_PAUSE_S)

    def _opened(self, subject: str, headers: Mapping[str, str], data: bytes) -> Piece:
        found = opened(subject, headers, data)
        if found.pieces > _PIECES:
            raise Unreadable(f"it has {found.pieces} pieces")
        return found

    async def _remove(self, link: Link, messages: Sequence[int]) -> None:
        """What is set aside is the sender's to remove."""

    async def _forget(self, link: Link, needless: Mapping[str, int]) -> None:
        """So is what we have received."""

    async def _confirm(self, link: Link, stream: str, number: int) -> None:  # noqa: ARG002  there is one
        """Confirms, and again with every further question: nobody says that it has come."""
        self._received = max(number, self._received)
        await link.tell(self._path, _encode(Question(self._received)))
