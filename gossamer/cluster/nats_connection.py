"""`Wire` is the only connection of a process to a nats-server: a thread keeps it up for ever; calls have time-outs.

A connection that breaks is thrown away whole, and with it whatever was going on in it: nothing is repeated
behind the back of the caller. What must go on over many connections (reading, watching) is a job, which is
started again with every new one.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

from gossamer.cluster.jetstream import MESSAGE_BYTES, Link, finish
from gossamer.cluster.keys import context

CALL_S = 3.0
_PAUSE_S = 0.1  # between attempts
_LOOK_S = 0.5  # how often we ask whether a connection has ended without saying so
_CONNECT_S = 2
_LINE_BYTES = 1 << 20  # of what is no message
_PING_S = 5  # a server that is stopped, not dead, is given up after three
_FAR_PING_S = 20  # between sites, where bytes cost

# asyncio warns of what nats-py's protocol returns when a TLS connection ends; it ends all the same.
logging.getLogger("asyncio").addFilter(lambda record: "eof_received" not in record.getMessage())

Job = Callable[[Link], Coroutine[Any, Any, None]]
T = TypeVar("T")
_BROKEN = (nats.errors.Error, OSError, asyncio.TimeoutError)


class Unreachable(ConnectionError):
    """The server did not answer: whether it did what was asked is not known."""


class Wire:
    """`address` has url, user and password, or url and certificates, as `Server.address`. `is_far`: the server is that
    of another site, and the connection says little while there is nothing to say."""

    def __init__(self, address: Mapping[str, str], is_far: bool = False) -> None:
        self._address, self._is_far = dict(address), is_far
        self._jobs: dict[Job, asyncio.Task[None] | None] = {}
        self._link: Link | None = None
        self._up = threading.Event()
        self._failure: BaseException | None = None
        self._count = 0
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._main: asyncio.Task[Any] | None = None
        self._own: set[asyncio.Task[Any]] = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="nats", daemon=True)
        self._thread.start()
        started.wait()

    @property
    def is_up(self) -> bool:
        return self._up.is_set()

    @property
    def connections(self) -> int:
        """Returns how many there have been: another number means that the server, or the way to it, was gone."""
        return self._count

    def wait_up(self, timeout_s: float) -> bool:
        return self._up.wait(timeout_s)

    def call(self, work: Callable[[Link], Awaitable[T]], timeout_s: float = CALL_S) -> T:
        """Returns the work's result. Raises Unreachable: at once if the server is down, else after the time-out."""
        called = self.begin(work, timeout_s)
        try:
            return called.result(2 * timeout_s)  # twice: only if the thread ended meanwhile
        except (concurrent.futures.CancelledError, concurrent.futures.TimeoutError) as error:
            raise Unreachable("the connection to nats-server was closed") from error

    def begin(self, work: Callable[[Link], Awaitable[T]], timeout_s: float = CALL_S) -> "concurrent.futures.Future[T]":
        """Does the same without waiting for the result."""
        self.check()
        if not self.is_up or self._loop.is_closed():
            raise Unreachable("the connection to nats-server is down")
        return asyncio.run_coroutine_threadsafe(self._called(work, timeout_s), self._loop)

    def keep(self, job: Job) -> Callable[[], None]:
        """Runs the job in this and every later connection, and again when it fails; the result ends that."""
        self.soon(lambda: self._add(job))

        def end() -> None:
            if not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(self._remove(job), self._loop).result()

        return end

    def soon(self, act: Callable[[], object]) -> None:
        """Runs a function in the connection's thread."""
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(act)

    def check(self) -> None:
        """Raises the error of a job that failed for another reason than the connection: a bug must not stay hidden."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Closes, again and again: the client may lose a cancellation while it connects to a server that goes away."""
        self._is_closing = True
        while self._thread.is_alive():
            if self._main is not None:
                self.soon(self._main.cancel)
            self._thread.join(2 * _CONNECT_S)

    def let_go(self) -> None:
        """Closes without waiting for the end."""
        self._is_closing = True
        if self._main is not None:
            self.soon(self._main.cancel)

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, contextlib.suppress(asyncio.CancelledError):
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._main = asyncio.current_task()
        # The client leaves tasks with errors that nobody asks for; ours are raised by `call` and `check`.
        self._loop.set_exception_handler(lambda *_: None)
        started.set()
        with self._undisturbed():
            while not self._is_closing:
                await self._connection()
                await asyncio.sleep(_PAUSE_S)

    async def _connection(self) -> None:
        """Runs one connection, from connecting to the break."""
        client, broken = _Client(), asyncio.Event()

        async def on_end() -> None:
            broken.set()

        try:
            await client.connect(
                self._address["url"],
                **self._access(),
                allow_reconnect=False,
                max_reconnect_attempts=-1,  # of the first connection
                reconnect_time_wait=_PAUSE_S,  # type: ignore[arg-type]
                connect_timeout=_CONNECT_S,
                ping_interval=_FAR_PING_S if self._is_far else _PING_S,
                error_cb=_ignore,
                disconnected_cb=on_end,
                closed_cb=on_end,
            )
            self._link = Link(client, broken)
            self._count += 1
            for job in self._jobs:
                self._start(job)
            self._up.set()
            # A connection that dies while something is being written ends without calling back.
            while not broken.is_set() and not client.is_closed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await broken.wait()
        except _BROKEN:
            pass  # the next one will do better
        finally:
            broken.set()
            self._up.clear()
            self._link = None
            await finish(*(task for task in self._jobs.values() if task is not None))
            with contextlib.suppress(*_BROKEN):
                async with asyncio.timeout(_CONNECT_S):
                    await client.close()
            client.abort()
            await finish(*(asyncio.all_tasks() - self._own))  # nor does it always end all that it has begun

    def _access(self) -> dict[str, Any]:
        """Returns our credentials: a password, or a certificate."""
        at = self._address
        if "cert" in at:
            return {"tls": context(at), "tls_hostname": at["name"], "tls_handshake_first": True}
        return {"user": at["user"], "password": at["password"]}

    async def _called(self, work: Callable[[Link], Awaitable[T]], timeout_s: float) -> T:
        link = self._link
        if link is None:
            raise Unreachable("the connection to nats-server is down")
        with self._undisturbed():
            task = asyncio.ensure_future(work(link))
            broken = asyncio.ensure_future(link.broken.wait())
            try:
                await asyncio.wait({task, broken}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if task.done() and not task.cancelled():
                    return task.result()
            except _BROKEN as error:
                raise Unreachable(str(error)) from error
            finally:
                await finish(task, broken)
            raise Unreachable("nats-server does not answer")

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Protects this task, which is not the connection's, and goes on after its end."""
        task = asyncio.current_task()
        assert task is not None
        self._own.add(task)
        try:
            yield
        finally:
            self._own.discard(task)

    def _add(self, job: Job) -> None:
        self._jobs.setdefault(job, None)
        if self._link is not None:
            self._start(job)

    def _start(self, job: Job) -> None:
        assert self._link is not None
        self._jobs[job] = asyncio.create_task(self._repeat(job, self._link))

    async def _repeat(self, job: Job, link: Link) -> None:
        while not link.broken.is_set():  # the client turns a cancellation into an error of its own
            try:
                await job(link)
            except _BROKEN:
                pass
            except Exception as error:
                self._failure = error
                return
            await asyncio.sleep(_PAUSE_S)

    async def _remove(self, job: Job) -> None:
        task = self._jobs.pop(job, None)
        if task is not None:
            with self._undisturbed():
                await finish(task)


class _Bounded(Parser):
    """`_Bounded` ends a connection whose server sends longer messages or lines than any of ours does: the client would
    keep all of it in memory until it is whole."""

    async def parse(self, data: bytes = b"") -> None:
        await super().parse(data)
        is_line = self.state == AWAITING_CONTROL_LINE
        if self.needed > 2 * MESSAGE_BYTES or (is_line and len(self.buf) > _LINE_BYTES):
            raise nats.errors.ProtocolError("nats: the server sends too much")


class _Client(Client):
    def __init__(self) -> None:
        super().__init__()
        self._ps = _Bounded(self)

    def abort(self) -> None:
        """Ends the socket, if it is still there: an error while the client closes makes it forget to."""
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


async def _ignore(_: Exception) -> None:
    """Ignores an error. The client logs errors by default; what matters reaches those who wait."""
