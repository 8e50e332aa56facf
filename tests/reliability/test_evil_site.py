"""A site that wants to harm the others, with a good certificate: it can lie about its own pages, and that is all."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import nats.errors
import pytest
from nats_site import eventually

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from federations import write

from gossamer.archive.manifest import Message
from gossamer.archive.store import Memory
from gossamer.clocks import RealClock
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import Federation, home_of, load
from gossamer.cluster.gateway import Gateway
from gossamer.cluster.jetstream import Link
from gossamer.cluster.keys import OPERATOR, address, paths
from gossamer.cluster.mail import RELAY, Answer, FromSite, Given, Question
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server, free_port
from gossamer.cluster.neighbours import Neighbours
from gossamer.cluster.protocol import Summary, encode
from gossamer.cluster.registrar import of_agents
from gossamer.cluster.site_service import FILES, MAIL, ORDERS, HandOver, Request
from gossamer.cluster.standing import publish, read_summary
from gossamer.crawl.inbox import Aside, set_aside

NAMES = ("north", "evil", "south")


class Place:
    """A site of which only the server, its services and its exchange are real."""

    def __init__(self, made: Federation, name: str) -> None:
        self.made, self.name, self.wires = made, name, list[Wire]()
        self.neighbours = Neighbours(made, name, RealClock())
        self.server = Server(made.directory(name) / "site", self.neighbours.open)
        self.server.start()
        self.wire = self.let_in(name)
        self.neighbours.begin(self.wire)
        others = [other for other in NAMES if other != name]
        self.exchange = NatsExchange(self.wire, home_of(name), sites=others)

    def let_in(self, name: str) -> Wire:
        """A connection to our server with the certificate of that name."""
        wire = Wire(address(paths(self.made.keys, name), self.name, self.made.sites[self.name].address))
        self.wires.append(wire)
        assert wire.wait_up(30)
        return wire

    def close(self) -> None:
        self.neighbours.close()
        for wire in self.wires:
            wire.close()
        self.server.stop()


@pytest.fixture
def made(tmp_path: Path) -> Federation:
    made = load(write(tmp_path, {name: free_port() for name in NAMES}, {}, 1))
    prepare(made)
    return made


@pytest.fixture
def north(made: Federation) -> Iterator[Place]:
    place = Place(made, "north")
    yield place
    place.close()


def letter(number: int, to: str, data: bytes = b"good", sender: str = "north_a0") -> Message:
    return Message(sender, number, 0, to, data, previous=number - 1)


def act(wire: Wire, work: Callable[[Link], Any]) -> bool:
    """Whether the server did not refuse."""
    try:
        wire.call(work, 1.0)
        return True
    except Unreachable:
        return False


def mail_of(exchange: FromSite, name: str) -> list[Message]:
    """All three of its letters, or nothing yet."""
    found = exchange.pending(name, {})
    return found if len(found) == 3 else []


def count(wire: Wire, stream: str = "links") -> int:
    return int(wire.call(lambda link: link._js.stream_info(stream)).state.messages)


def test_each_site_gets_its_own_mail_and_confirms_it(north: Place) -> None:
    found = {name: FromSite(north.let_in(name), name, "north_a0", f"{MAIL}.{name}") for name in ("evil", "south")}
    for number in range(1, 4):
        for name in found:
            assert north.exchange.publish(letter(number, name, name.encode()))
    for name, exchange in found.items():
        mail = eventually(partial(mail_of, exchange, name))
        assert {each.data for each in mail} == {name.encode()}
    found["south"].acknowledge("north_a0>south", 2)
    eventually(lambda: north.exchange.confirmed("north_a0>south") == 2 and count(north.wire) == 4)
    assert north.exchange.confirmed("north_a0>evil") == 0
    again = FromSite(north.let_in("south"), "south", "north_a0", f"{MAIL}.south")  # an agent's process that takes over
    eventually(lambda: [each.number for each in again.pending("south", {"north_a0>south": 2})] == [3])
    again.acknowledge("north_a0>south", 3)
    eventually(lambda: count(north.wire) == 3)


def test_what_a_member_cannot_do_in_the_server_of_another(north: Place) -> None:
    evil, heard = north.let_in("evil"), list[Any]()
    south = FromSite(north.let_in("south"), "south", "north_a0", f"{MAIL}.south")
    registrar = of_agents(north.wire, 9.0)
    assert registrar.alive() is not None
    for number in range(1, 4):
        assert north.exchange.publish(letter(number, "south"))

    async def listen(link: Link) -> None:
        async def take(message: Any) -> None:
            heard.append(message.data)

        for subject in (">", "links.>", "_INBOX.>", "$KV.>", "gossamer.>"):
            await link._client.subscribe(subject, cb=take)

    act(evil, listen)
    refused: list[Callable[[Link], Any]] = [
        lambda link: link.send("links.south.north_a0", b"forged", {"number": "9"}),
        lambda link: link.send("links.north_a0.moves", b'{"h0.test": "evil"}'),
        lambda link: link.send("$KV.receipts.south.north_a0", b"9"),
        lambda link: link.send("$KV.orders.north_a0", b"{}"),
        lambda link: link.send("$KV.standing.south", encode(Summary(finished=True, left=True))),
        lambda link: link.reader("links", ["links.>"], newest=False),
        lambda link: link._js.delete_stream("links"),
        lambda link: link._js.purge_stream("links"),
        lambda link: link._js.delete_msg("links", 1),
        lambda link: link._js.streams_info(),
        lambda link: link.ask(f"{ORDERS}.evil", encode(HandOver(hosts={"h0.test": "evil"})), 1.0),
        lambda link: link.ask(f"{ORDERS}.{OPERATOR}", encode(HandOver(hosts={"h0.test": "evil"})), 1.0),
        lambda link: link.ask(f"{FILES}.south", encode(Request(have={"north_a0": 99})), 1.0),
        lambda link: link.ask(f"{MAIL}.south", msgspec.msgpack.encode(Question(9)), 1.0),
        lambda link: link.ask(f"{RELAY}.south", msgspec.msgpack.encode(Question(9)), 1.0),
        lambda link: link._client.request("$JS.API.CONSUMER.MSG.NEXT.links.any", b"", 1.0),
    ]
    assert north.exchange.publish(letter(4, "south"))
    assert [number for number, work in enumerate(refused) if act(evil, work)] == []

    async def by_answers(link: Link) -> None:
        """The server is asked for good things, and told to send the answers where they do harm."""
        question = msgspec.msgpack.encode(Question(9, reads=True))
        for harm in ("$JS.API.STREAM.DELETE.links", "$JS.API.STREAM.PURGE.links", "$KV.orders.north_a0"):
            await link._client.publish(f"{MAIL}.evil", question, harm)
            await link._client.publish(f"{MAIL}.evil", b"nonsense", harm)
            await link._client.publish(f"{FILES}.evil", b"nonsense", harm)
        await link._client.flush()
        await asyncio.sleep(0.3)

    assert act(evil, by_answers)
    orders = "KV_orders"
    with pytest.raises((Unreachable, nats.errors.Error)):  # nobody has made it
        count(north.wire, orders)
    assert count(north.wire) == 4
    assert [each.number for each in eventually(lambda: south.pending("south", {}))] == [1, 2, 3, 4]
    assert north.exchange.confirmed("north_a0>south") == 0
    assert heard, "it hears itself"
    assert b"good" not in heard
    assert north.neighbours.replicated("north_a0") == 0


def test_what_members_and_the_operator_can_do(north: Place, made: Federation) -> None:
    wires = {name: north.let_in(name) for name in ("evil", "south", OPERATOR)}
    publish(north.wire, "north", Summary(finished=False, agents=3))
    for name, wire in wires.items():
        found = eventually(lambda wire=wire: read_summary(wire, "north"))
        assert found.agents == 3
        manifests = wire.call(lambda link, name=name: link.ask(f"{FILES}.{name}", encode(Request()), 2.0))
        assert json.loads(manifests) == {}
    publish(wires["south"], "south", Summary(finished=True, left=True))
    assert eventually(lambda: read_summary(north.wire, "south")).left


def test_what_a_site_answers_is_from_it_and_is_bounded(made: Federation) -> None:
    """The evil site answers what it wants. It cannot even name another sender; what cannot be read is set aside."""
    evil, store = Place(made, "evil"), Memory()
    good = Given(9, ["1", "0", "1", "0", "links"], b"own")
    answers = [
        b"nonsense",
        msgspec.msgpack.encode(Answer("epoch", [good] * 1001)),
        msgspec.msgpack.encode(Answer("epoch", [Given(1, ["1"] * 40, b"")])),
        msgspec.msgpack.encode(["epoch", [[1, ["1", "0", "1", "0", "links"], "no bytes"]]]),
        msgspec.msgpack.encode(Answer("epoch", [Given(1, ["1", "0", "1", "0", "links", "4", "", "0", "9"], b"piece")])),
        msgspec.msgpack.encode(Answer("other", [good])),
        msgspec.msgpack.encode(Answer("other", [Given(2, [], b"nothing"), good])),  # as another epoch begins
    ]
    asked = list[Question]()

    async def work(_: str, data: bytes) -> bytes:
        question = msgspec.msgpack.decode(data, type=Question)
        if question.reads:
            asked.append(question)
        return answers[min(len(asked), len(answers)) - 1] if question.reads else b""

    try:
        evil.wire.keep(lambda link: link.answer("answers", work))
        mail = FromSite(evil.wire, "south", "evil_a0", "answers.evil", Aside("south_a0", store))
        assert [(each.stream, each.data) for each in eventually(lambda: mail.pending("south", {}))] == [
            ("evil_a0>south", b"own")
        ]
        assert set_aside(store) == 2
        eventually(lambda: len(asked) >= len(answers))
        assert [one.after for one in asked[: len(answers)]] == [0, 0, 0, 0, 0, 1, 0]
    finally:
        mail.close()
        evil.close()


def test_mail_comes_by_way_of_the_supervisor_whatever_breaks(made: Federation) -> None:
    north, south = Place(made, "north"), Place(made, "south")
    try:
        mail = Gateway(south.exchange, "south", south.wire, ["north"])
        for number in (1, 2):
            assert north.exchange.publish(letter(number, "south", b"x" * 900_000))
        assert [
            each.number for each in eventually(lambda: mail.pending("south", {})[1:] and mail.pending("south", {}))
        ] == [1, 2]
        north.server.stop()
        mail.acknowledge("north_a0>south", 1)  # nobody is there to receive it
        eventually(lambda: not north.wire.is_up)
        north.server.start()
        eventually(lambda: north.exchange.confirmed("north_a0>south") == 1, 60)
        assert north.exchange.publish(letter(3, "south", b"after"))
        found = eventually(lambda: mail.pending("south", {"north_a0>south": 2}))
        assert [(each.number, each.data) for each in found] == [(3, b"after")]
        south.server.stop()
        eventually(lambda: not south.wire.is_up)
        south.server.start()
        mail.acknowledge("north_a0>south", 3)
        eventually(lambda: north.exchange.confirmed("north_a0>south") == 3, 60)
        eventually(lambda: count(north.wire) == 0)
    finally:
        north.close()
        south.close()
