"""`Link` is our use of JetStream over one connection: streams, acknowledged messages, reading on as they come."""

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import api
from nats.js.errors import BadRequestError, NoStreamResponseError

MESSAGE_BYTES = 2 << 20  # what the server takes at most
NO_STREAM = NoStreamResponseError
_API_S = 5.0
_WAIT_S, _HEARTBEAT_S = 20.0, 5.0
_FORGET_S = 120.0  # a reader that asks for nothing so long is taken for dead
_AT_ONCE = 1000  # messages of one request
_ENDS = ("204", "404", "408")  # no more; there is none; none has come
_IN_USE = 10058  # a stream has the name, and another configuration

Take = Callable[[Msg], object]
Room = Callable[[], Awaitable[int]]


class Link:
    """`Link` is one connection, until it is broken."""

    def __init__(self, client: Client, broken: asyncio.Event) -> None:
        self.broken = broken
        self._client = client
        self._js = client.jetstream(timeout=_API_S)
        self._inbox = f"_.{secrets.token_urlsafe(6)}"  # shorter than the client's own: it crosses twice
        self._asked: dict[str, asyncio.Future[Msg]] = {}
        self._questions = itertools.count()

    async def ensure(self, config: api.StreamConfig) -> api.StreamInfo:
        """Ensures that the stream is there, with this configuration; what is in it stays."""
        try:
            return await self._js.add_stream(config)
        except BadRequestError as error:
            if error.err_code != _IN_USE:
                raise
            return await self._js.update_stream(config)

    async def send(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Sends a message; returns its number in the stream, once it is stored."""
        ack = await self._js.publish(subject, data, timeout=_API_S, headers=dict(headers or {}) or None)
        return ack.seq

    async def put(self, where: api.StreamConfig, key: str, value: bytes | None) -> int:
        """Puts a value into a bucket, which is made if there is none; None deletes it."""
        subject = f"$KV.{str(where.name).removeprefix('KV_')}.{key}"
        data, headers = (b"", {"KV-Operation": "DEL"}) if value is None else (value, None)
        try:
            return await self.send(subject, data, headers)
        except NO_STREAM:
            await self.ensure(where)
            return await self.send(subject, data, headers)

    async def purge(self, stream: str, before: int, subject: str | None = None) -> None:
        if before > 1:  # 0 would mean all
            await self._js.purge_stream(stream, seq=before, subject=subject)

    async def remove(self, stream: str, at: int) -> None:
        """Removes one message; if that cannot be, it stays."""
        with contextlib.suppress(nats.errors.Error, asyncio.TimeoutError):
            await self._js.delete_msg(stream, at)

    async def tail(self, stream: str, subjects: Sequence[str], take: Take, *, newest: bool, room: Room) -> None:
        """Gives all messages, or the newest of each subject, then what comes, to `take`, in order, for ever.

        `room` returns, when there is some, how many bytes may come next.
        """
        name = await self.reader(stream, subjects, newest=newest)
        try:
            await self.follow(stream, name, take, room)
        finally:
            await self.forget(stream, name)

    async def reader(self, stream: str, subjects: Sequence[str], *, newest: bool, after: int = 0) -> str:
        """Makes a reader of a stream, for `follow`: of what comes after a message, if one is given."""
        name = self._client.new_inbox().rpartition(".")[2]
        policy = api.DeliverPolicy.LAST_PER_SUBJECT if newest else api.DeliverPolicy.ALL
        config = api.ConsumerConfig(
            name=name,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE if after else policy,
            opt_start_seq=after + 1 if after else None,
            ack_policy=api.AckPolicy.NONE,
            filter_subjects=list(subjects),
            inactive_threshold=_FORGET_S,
            mem_storage=True,
        )
        await self._js.add_consumer(stream, config)
        return name

    async def forget(self, stream: str, reader: str) -> None:
        with contextlib.suppress(nats.errors.Error, asyncio.TimeoutError):
            await self._js.delete_consumer(stream, reader)

    async def follow(self, stream: str, reader: str, take: Take, room: Room) -> None:
        """Gives what a reader finds to `take`, for ever."""
        async with self._answers() as answers:
            while True:
                most = max(await room(), MESSAGE_BYTES)
                ask = {
                    "batch": _AT_ONCE,
                    "max_bytes": most,
                    "expires": int(_WAIT_S * 1e9),
                    "idle_heartbeat": int(_HEARTBEAT_S * 1e9),
                }
                await answers.ask(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{reader}", ask, most)
                await answers.take(take)

    async def some(self, stream: str, subject: str, after: int, most: int, wait_s: float) -> list[Msg]:
        """Returns what there is after a message, up to so many bytes; if there is nothing, it waits for one."""
        found: list[Msg] = []
        name = await self.reader(stream, [subject], newest=False, after=after)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        try:
            async with self._answers() as answers:
                await answers.ask(subject, {"batch": 1, "expires": int(wait_s * 1e9)}, MESSAGE_BYTES)
                await answers.take(found.append, 1, wait_s)
                more = min(found[0].metadata.num_pending, _AT_ONCE - 1) if found else 0
                if more and (left := most - len(found[0].data)) > 0:
                    await answers.ask(subject, {"batch": more, "max_bytes": left, "no_wait": True}, left)
                    await answers.take(found.append, more)
        finally:
            await self.forget(stream, name)
        return found

    async def newest(self, stream: str, subject: str) -> list[Msg]:
        """Returns the newest message of each subject that matches."""
        found: list[Msg] = []
        async with self._answers() as answers:
            ask = {"multi_last": [subject], "batch": _AT_ONCE}
            await answers.ask(f"$JS.API.DIRECT.GET.{stream}", ask, await always())
            await answers.take(found.append)
        return found

    async def ask(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """Sends one request, and returns the answer; if nobody is there, that is an error."""
        number = next(self._questions)
        if not number:
            await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)
        to = f"{self._inbox}.{number}"
        answer = self._asked[to] = asyncio.get_running_loop().create_future()
        try:
            await self._client.publish(subject, data, to)
            async with asyncio.timeout(timeout_s):
                message = await answer
        finally:
            del self._asked[to]
        if (message.headers or {}).get("Status") == "503":
            raise nats.errors.NoRespondersError
        return bytes(message.data)

    async def _answered(self, message: Msg) -> None:
        answer = self._asked.get(message.subject)
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def tell(self, subject: str, data: bytes) -> None:
        """Sends a message that nobody answers: whether it comes is not known."""
        await self._client.publish(subject, data)

    async def answer(
        self, subject: str, work: Callable[[str, bytes], Awaitable[bytes]], *, at_once: bool = False
    ) -> None:
        """Answers such requests, for ever, one at a time, or all at once. `work` gets to know who asks: the last word
        of the subject, which the server grants to nobody else."""
        tasks: set[asyncio.Task[None]] = set()

        async def take(message: Msg) -> None:
            with contextlib.suppress(nats.errors.Error, asyncio.TimeoutError):
                found = await work(message.subject.rpartition(".")[2], message.data)
                if message.reply:
                    await message.respond(found)

        async def begin(message: Msg) -> None:
            task = asyncio.create_task(take(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        await self._client.subscribe(f"{subject}.*", cb=begin if at_once else take)
        await self.broken.wait()

    @contextlib.asynccontextmanager
    async def _answers(self) -> AsyncIterator["_Answers"]:
        answers = _Answers(self._client)
        subscription = await self._client.subscribe(answers.inbox, cb=answers.put)
        try:
            yield answers
        finally:
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()


class _Answers:
    """Receives many messages that answer one request. (The client's own way to wait loses cancellations.)"""

    def __init__(self, client: Client) -> None:
        self.inbox = client.new_inbox()
        self._client = client
        self._queue: asyncio.Queue[Msg] = asyncio.Queue()
        self._left = 0  # bytes that we have asked for

    async def put(self, message: Msg) -> None:
        """Takes a message. The server of another site may send what nobody asked for: it is not kept."""
        self._left -= len(message.data)
        if self._left >= 0 and self._queue.qsize() <= 2 * _AT_ONCE:
            self._queue.put_nowait(message)

    async def ask(self, subject: str, request: Any, most: int) -> None:
        self._left = most + MESSAGE_BYTES
        await self._client.publish(subject, json.dumps(request).encode(), self.inbox)

    async def take(self, take: Take, left: int = _AT_ONCE, wait_s: float = 0.0) -> None:
        """Takes all that one request brings. A stream that is gone, or a silent server, is an error."""
        while left:
            if self._left < 0:
                raise nats.errors.Error("nats: the server sends more than it was asked for")
            async with asyncio.timeout(3 * _HEARTBEAT_S + wait_s):
                message = await self._queue.get()
            headers = message.headers or {}
            status = headers.get("Status")
            if status is None:
                take(message)
                left -= 1
            elif status in _ENDS or "MaxBytes" in headers.get("Description", ""):
                return
            elif status != "100":  # a heartbeat
                raise nats.errors.Error(f"nats: {status} {headers.get('Description')}")


def bucket(name: str, lease_s: float | None = None, in_memory: bool = False) -> api.StreamConfig:
    """Configures a key-value bucket, as every NATS tool knows it; with a lease, what is not put again in time vanishes;
    in memory, it vanishes with the server."""
    return api.StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        storage=api.StorageType.MEMORY if in_memory else api.StorageType.FILE,
        max_msgs_per_subject=1,
        max_age=lease_s,
        duplicate_window=min(lease_s or 120.0, 120.0),
        discard=api.DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
    )


async def always() -> int:
    """Returns enough room for readers of little things."""
    return 8 * MESSAGE_BYTES


async def finish(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels, again and again: a task may lose a cancellation that meets the end of what it waits for."""
    while any(not task.done() for task in tasks):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1.0)
    for task in tasks:
        task.cancelled() or task.exception()  # looked at, lest asyncio complains
