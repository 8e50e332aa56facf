"""The connection to nats-server: calls end in time, jobs go on over many connections, bugs do not stay hidden."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import nats_site
import pytest
from nats.aio.transport import TcpTransport
from nats_site import connected, eventually

from gossamer.cluster.jetstream import Link
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.nats_server import Server

site = pytest.fixture(nats_site.running, name="site")


@pytest.fixture
def wire(site: Server) -> Iterator[Wire]:
    found = connected(site)
    yield found
    found.close()


async def forever(_: Link) -> None:
    await asyncio.Event().wait()


def test_a_call_that_hangs_ends(wire: Wire) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        wire.call(forever, 0.1)
    assert wire.call(lambda link: asyncio.sleep(0, "the next one works")) == "the next one works"


def test_a_call_ends_when_the_connection_does(site: Server, wire: Wire) -> None:
    ends: list[BaseException] = []

    def call() -> None:
        try:
            wire.call(forever, 600.0)
        except Unreachable as error:
            ends.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    os.kill(site.pid or 0, signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    assert len(ends) == 3
    with pytest.raises(Unreachable, match="down"):
        wire.call(forever, 600.0)
    site.start()
    assert wire.wait_up(60)
    assert wire.connections == 2
    call_again = threading.Thread(target=call)
    call_again.start()
    eventually(lambda: wire.is_up)
    wire.close()
    call_again.join(60)
    assert len(ends) == 4


def test_a_stopped_server_is_not_waited_for(site: Server, wire: Wire) -> None:
    """SIGSTOP: the kernel still takes our bytes, nobody answers."""
    os.kill(site.pid or 0, signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable):
            wire.call(lambda link: link.newest("KV_none", ">"), 0.2)
    finally:
        os.kill(site.pid or 0, signal.SIGCONT)
    eventually(lambda: wire.is_up)


def test_jobs_start_again_with_every_connection_and_after_errors(site: Server, wire: Wire) -> None:
    runs: list[Link] = []

    async def job(link: Link) -> None:
        runs.append(link)
        if len(runs) == 1:
            raise OSError("the network, say")
        await asyncio.Event().wait()

    end = wire.keep(job)
    eventually(lambda: len(runs) == 2)
    assert runs[0] is runs[1]
    os.kill(site.pid or 0, signal.SIGKILL)
    eventually(lambda: not wire.is_up)
    site.start()
    eventually(lambda: len(runs) == 3)
    assert runs[2] is not runs[0]
    end()
    end()
    os.kill(site.pid or 0, signal.SIGKILL)
    eventually(lambda: not wire.is_up)
    site.start()
    assert wire.wait_up(60)
    assert len(runs) == 3


def test_a_bug_in_a_job_or_a_call_is_told(wire: Wire) -> None:
    async def wrong(_: Link) -> None:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        wire.call(wrong)
    wire.check()
    wire.keep(wrong)
    eventually(lambda: wire._failure is not None)
    with pytest.raises(LookupError):
        wire.call(forever)


def test_close_before_there_is_a_server() -> None:
    wire = Wire({"url": "nats://127.0.0.1:1", "user": "x", "password": "x"})
    assert not wire.wait_up(0.3)
    wire.keep(forever)
    wire.close()
    wire.close()
    assert not wire.is_up


def test_closing_ends_though_the_client_loses_cancellations(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does while it connects to a server that is going away: then it tries again, for ever."""
    lost = threading.Event()

    async def connect(*_: object, **__: object) -> None:
        if not lost.is_set():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost.set()
        await asyncio.Event().wait()

    async def close(_: object) -> None:
        """There is nothing to close."""

    monkeypatch.setattr("gossamer.cluster.nats_connection.Client.connect", connect)
    monkeypatch.setattr("gossamer.cluster.nats_connection.Client.close", close)
    monkeypatch.setattr("gossamer.cluster.nats_connection._CONNECT_S", 0.05)
    wire = Wire({"url": "nats://127.0.0.1:1", "user": "", "password": ""})
    closing = threading.Thread(target=wire.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert lost.is_set()


def test_no_socket_stays_open_when_closing_fails(site: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = connected(site)
    writers: list[asyncio.StreamWriter] = []

    async def reset(transport: TcpTransport) -> None:
        assert transport._io_writer is not None
        writers.append(transport._io_writer)
        raise ConnectionResetError("while the client flushes")

    async def write_and_fail(link: Link) -> None:
        monkeypatch.setattr(TcpTransport, "drain", reset)
        link._client._pending_data_size = 1
        await link._client.close()

    with pytest.raises(Unreachable):
        wire.call(write_and_fail)
    wire.close()
    assert writers
    assert all(writer.is_closing() for writer in writers)
