"""How an agent follows the manifests of others: what that costs, and what happens when it falls behind."""

from collections import Counter
from pathlib import Path

import pytest
from nats_site import eventually
from store_site import Mount, Network

from gossamer.archive.chain import FULL_EVERY, Chain
from gossamer.archive.manifest import LINKS, ZONES, Changes, Message
from gossamer.archive.store import Directory, Memory
from gossamer.clocks import VirtualClock
from gossamer.cluster.store_exchange import LIST_S, MOST_S, StoreExchange
from gossamer.crawl.inbox import Aside, high_water, refused
from gossamer.sharing.exchange import InProcess


class Counted(Memory):
    """A store that counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def get(self, name: str) -> bytes:
        self.asked["get"] += 1
        return super().get(name)

    def list(self, prefix: str) -> list[str]:
        self.asked["list"] += 1
        return super().list(prefix)

    def put(self, name: str, data: bytes | Path) -> None:
        self.asked["put"] += 1
        super().put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        self.asked["create"] += 1
        return super().create(name, data)


class Sender:
    """A real chain that sends a message with each commit."""

    def __init__(self, store: Memory | Directory, name: str = "a1") -> None:
        self.exchange = StoreExchange(store, name)
        self.chain = Chain.take_over(store, name, self.exchange, 1.0)

    def commit(self, *data: bytes, to: str = "a0", kind: str = LINKS) -> None:
        outbox = [Message(self.chain.agent, self.chain.round, part, to, one, kind) for part, one in enumerate(data)]
        self.chain.commit(Changes(), marks={}, outbox=outbox, exchange=self.exchange, applied=[], now_s=1.0)


def received(exchange: StoreExchange) -> list[bytes]:
    return [message.data for message in exchange.pending("a0", {})]


def test_publishing_and_acknowledging_write_nothing() -> None:
    store = Counted()
    exchange, sender = StoreExchange(store, "a0"), Sender(store)
    sender.commit(b"one", b"two")
    exchange.pending("a0", {})
    exchange.look()
    before = store.asked.copy()
    [first, second] = exchange.pending("a0", {})
    assert (first.data, second.data) == (b"one", b"two")
    for message in (first, second):
        exchange.acknowledge(message.stream, message.number)
    assert exchange.publish(Message("a0", 1, 0, "a1", b"x"))
    assert store.asked == before
    assert exchange.pending("a0", high_water([second])) == []


def test_one_request_for_each_look_at_a_silent_agent_and_fewer_and_fewer_looks() -> None:
    store, clock = Counted(), VirtualClock()
    exchange = StoreExchange(store, "a0", clock=clock)
    Sender(store)
    exchange.pending("a0", {})
    exchange.look(clock.monotonic())
    before, begun_s = store.asked.copy(), clock.monotonic()
    while clock.monotonic() < begun_s + LIST_S - 1:
        exchange.look(clock.monotonic())
        clock.advance(0.1)
    asked = store.asked - before
    assert asked.keys() == {"get"}
    assert asked["get"] < 2.5 * LIST_S / MOST_S
    before, begun_s = store.asked.copy(), clock.monotonic()
    for _ in range(36_000):
        exchange.look(clock.monotonic())
        clock.advance(0.1)
    asked = store.asked - before
    assert asked["get"] <= 3600 / MOST_S + 2, "an hour of silence"
    assert asked["list"] <= 3600 / LIST_S + 1


def test_an_agent_that_is_new_is_found_by_its_orders_or_by_what_we_send_it_without_a_listing() -> None:
    store, clock, others = Counted(), VirtualClock(), ["a2"]
    exchange = StoreExchange(store, "a0", lambda: others, clock)
    exchange.pending("a0", {})
    exchange.look(clock.monotonic())
    for name in ("a2", "a3"):
        Sender(store, name).commit(name.encode())
    listed = store.asked["list"]
    exchange.publish(Message("a0", 1, 0, "a3", b""))
    clock.advance(1.0)
    exchange.look(clock.monotonic())
    assert received(exchange) == [b"a2", b"a3"]
    assert store.asked["list"] == listed


def test_who_fell_far_behind_finds_the_end_of_the_chain() -> None:
    """Old manifests are deleted: the number that would be read next is not there any more."""
    store, clock = Memory(), VirtualClock()
    exchange, sender = StoreExchange(store, "a0", clock=clock), Sender(store)
    exchange.pending("a0", {})
    exchange.look(clock.monotonic())
    for number in range(3 * FULL_EVERY):
        sender.commit(b"%d" % number)
    clock.advance(LIST_S / 2)
    exchange.look(clock.monotonic())
    assert received(exchange) == [], "for it this looks like silence"
    clock.advance(LIST_S)
    exchange.look(clock.monotonic())
    assert received(exchange) == [b"%d" % number for number in range(3 * FULL_EVERY)]


def test_memory_is_bounded_but_the_first_of_each_stream_comes() -> None:
    store = Memory()
    exchange = StoreExchange(store, "a0", buffer_bytes=25)
    exchange.pending("a0", {})
    one, other = Sender(store), Sender(store, "a2")
    for number in range(5):
        one.commit(b"%010d" % number, kind=ZONES)
    exchange.look()
    assert len(received(exchange)) == 3
    other.commit(b"x" * 40, b"y" * 40, kind=ZONES)
    exchange.look()
    assert [len(data) for data in received(exchange)] == [10, 10, 10, 40, 40]
    marks = high_water(message for message in exchange.pending("a0", {}) if message.sender == "a2")
    marks["a1>a0"] = exchange.pending("a0", {})[1].number
    exchange.pending("a0", marks)
    exchange.look()
    assert [message.data for message in exchange.pending("a0", marks)] == [b"%010d" % number for number in (2, 3, 4)]


def test_what_is_damaged_is_refused_and_what_is_behind_it_waits() -> None:
    store = Memory()
    exchange, sender = StoreExchange(store, "a0", aside=Aside("a0", store)), Sender(store)
    exchange.pending("a0", {})
    for data in (b"one", b"two", b"three"):
        sender.commit(data)
    [name] = [entry.name for entry in sender.chain.snapshot.outbox if entry.message.number == 3]
    whole = store.get(name)
    store.put(name, whole[:-1] + b"p")
    for _ in range(3):
        exchange.look()
    assert received(exchange) == [b"one"]
    assert [fact["sender"] for fact in refused(store)] == ["a1"]
    store.put(name, whole)
    exchange.look()
    assert received(exchange) == [b"one", b"two", b"three"], "it was restored from a copy"


def test_what_is_sent_to_oneself_comes_and_is_confirmed() -> None:
    exchange = StoreExchange(Memory(), "a0")
    message = Message("a0", 4, 0, "a0", b"for a zone that is to come", LINKS)
    exchange.publish(message)
    assert exchange.pending("a0", {}) == [message]
    exchange.acknowledge(message.stream, 4)
    assert exchange.confirmed(message.stream) == 4
    assert exchange.pending("a0", {"a0>a0": 4}) == []


def test_the_thread_follows_through_an_outage(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    store = Directory.prepare(mount.path, 1.0)
    sender, exchange = Sender(store), StoreExchange(store, "a0").follow()
    try:
        sender.commit(b"before")
        eventually(lambda: received(exchange) == [b"before"])
        with mount.gone():
            exchange.acknowledge("a1>a0", 0)  # it looks at once
            assert received(exchange) == [b"before"]
        sender.commit(b"after")
        eventually(lambda: received(exchange) == [b"before", b"after"])
    finally:
        exchange.close()


def test_a_bug_does_not_stay_hidden() -> None:
    class Broken(Memory):
        def list(self, prefix: str) -> list[str]:
            raise ZeroDivisionError

    exchange = StoreExchange(Broken(), "a0").follow()
    try:
        with pytest.raises(ZeroDivisionError):
            eventually(lambda: exchange.pending("a0", {}))
    finally:
        exchange.close()


def test_a_commit_is_not_read_again_to_be_published() -> None:
    store = Counted()
    chain = Chain.open(store, "a0", InProcess())
    before = store.asked["get"]
    message = Message("a0", chain.round, 0, "a1", b"x")
    chain.commit(Changes(), marks={}, outbox=[message], exchange=InProcess(), applied=[], now_s=1.0)
    assert store.asked["get"] == before + 1, "its checksum"


def test_messages_come_in_whatever_order_manifests_name_them() -> None:
    with Network(Memory()) as network:
        for number in (3, 1, 2):
            network.publish(Message("a1", number, 0, "a3", b"%d" % number, previous=number - 1))
        assert [message.data for message in network.pending("a3", {})] == [b"1", b"2", b"3"]
