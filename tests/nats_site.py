"""A real nats-server for tests, and the Exchange port over many NatsExchanges with names that nobody else has."""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from gossamer.archive.bundle import bundled, unbundled
from gossamer.archive.manifest import ANY, BUNDLE, Message
from gossamer.archive.state import replace
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server

_numbers = itertools.count()
T = TypeVar("T")


def running() -> Iterator[Server]:
    """To be made a fixture."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "site")
        server.start()
        try:
            yield server
        finally:
            server.stop()


def connected(server: Server) -> Wire:
    wire = Wire(server.address)
    assert wire.wait_up(20)
    return wire


def eventually(look: Callable[[], T], seconds: float = 20.0) -> T:
    """The first result that is true; slow machines have time."""
    for _ in range(int(seconds / 0.005)):
        if found := look():
            return found
        time.sleep(0.005)
    raise AssertionError("it did not happen in time")


class Network:
    """All agents of a test at once; `pending` waits until all that was published before has arrived."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._mine = f"_{next(_numbers)}"
        self._agents: dict[str, NatsExchange] = {}

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        for exchange in self._agents.values():
            exchange.close()
        self._wire.call(lambda link: link.purge("links", 1 << 60, "links.>"))

    def publish(self, message: Message) -> bool:
        own = [replace(each, sender=self._name(each.sender), to=self._name(each.to)) for each in unbundled(message)]
        travelling = bundled(own) if message.kind == BUNDLE else own
        return all(list(map(self.agent(message.sender).publish, travelling)))

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        exchange, me = self.agent(to), self._name(to)
        mine = {self._stream(stream): number for stream, number in marks.items()}
        last = Message(f"last-{next(_numbers)}", 1, 0, me, b"")
        assert exchange.publish(last)
        found = eventually(lambda: (found := exchange.pending(me, mine)) and last in found and found)
        exchange.acknowledge(last.stream, 1)
        return [
            replace(message, sender=message.sender.removesuffix(self._mine), to=message.to.removesuffix(self._mine))
            for message in found
            if message.sender.endswith(self._mine)
        ]

    def acknowledge(self, stream: str, number: int) -> None:
        self.agent(stream.partition(">")[2] or "a3").acknowledge(self._stream(stream), number)

    def confirmed(self, stream: str) -> int:
        return self.agent(stream.partition(">")[0]).confirmed(self._stream(stream))

    def agent(self, name: str) -> NatsExchange:
        if name not in self._agents:
            self._agents[name] = NatsExchange(self._wire, self._name(name))
        return self._agents[name]

    def _name(self, name: str) -> str:
        return name if name == ANY else name + self._mine

    def _stream(self, stream: str) -> str:
        return ">".join(self._name(name) for name in stream.split(">"))
