"""Replicas of sites: what a holder has is an archive at any time, and what it does not have has not been said."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import LINKS, Changes, Message
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.protocol import encode
from gossamer.cluster.replicas import Replica, Source, holders
from gossamer.cluster.replicated_exchange import Gate
from gossamer.cluster.site_service import Request
from gossamer.errors import ArchiveError, SiteError
from gossamer.sharing.exchange import InProcess


@given(st.sets(st.text("abcdef", min_size=1, max_size=6), min_size=2, max_size=8), st.integers(1, 9))
def test_everybody_holds_as_much_as_is_held_for_them(names: set[str], replicas: int) -> None:
    kept = {name: holders(sorted(names), name, replicas) for name in names}
    for name, others in kept.items():
        assert name not in others
        assert len(set(others)) == len(others) == min(replicas, len(names)) - 1
        assert sum(name in each for each in kept.values()) == len(others)


class Quiet(Replica):
    """Without its thread."""

    def __init__(self, folder: Path, holder: str = "east", site: str = "north") -> None:
        self._open(folder, 0.0)
        self._site, self._holder = site, holder


def commit(chain: Chain, names: list[str], removed: list[str], store: Directory) -> None:
    for name in names:
        store.put(name, name.encode() * 1000)
    changes = Changes({"warc": names}, {"warc": removed})
    chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=0.0)


def test_a_holder_catches_up_and_lets_go_of_what_is_gone(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "north", 0.0)
    source, replica = Source(store, ["east"]), Quiet(tmp_path / "east")
    ask = lambda request: source.answer("east", encode(request))  # noqa: E731
    chain = Chain.open(store, "north_a0", InProcess())
    replica.catch_up(ask)
    for number in range(1, 70):
        name = f"warc/north_a0-{number:08d}.warc.gz"
        commit(chain, [name], [f"warc/north_a0-{number - 1:08d}.warc.gz"] if number % 2 == 0 else [], store)
        if number % 3:
            replica.catch_up(ask)
            there = Directory(tmp_path / "east")
            assert snapshots(there) == snapshots(store)
            assert all(there.get(name) == store.get(name) for name in snapshots(there)["north_a0"].names())
            assert set(there.list("warc/")) == set(snapshots(there)["north_a0"].names())
    assert source.replicated["north_a0"] < chain.number, "it says what it has when it asks for more"
    assert replica.catch_up(ask)
    assert not replica.catch_up(ask)
    assert source.is_complete()


def test_files_that_vanish_meanwhile_leave_the_replica_as_it_was(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "north", 0.0)
    source, replica = Source(store, ["east"]), Quiet(tmp_path / "east")
    ask = lambda request: source.answer("east", encode(request))  # noqa: E731
    chain = Chain.open(store, "north_a0", InProcess())
    commit(chain, ["warc/north_a0-00000001.warc.gz"], [], store)
    replica.catch_up(ask)
    commit(chain, ["warc/north_a0-00000002.warc.gz"], [], store)
    store.delete("warc/north_a0-00000002.warc.gz")
    with pytest.raises(FileNotFoundError):
        replica.catch_up(ask)
    assert snapshots(Directory(tmp_path / "east"))["north_a0"].number == 1


def test_a_second_life_in_an_epoch_of_the_same_number_is_another(tmp_path: Path) -> None:
    """Both lives have had one restart since the replica that the second one came from, but not at the same commit."""
    first, second = (Directory.prepare(tmp_path / name, 0.0) for name in ("first", "second"))
    replica = Quiet(tmp_path / "east")
    for store, before, after in ((first, 3, 2), (second, 2, 6)):
        chain = Chain.open(store, "north_a0", InProcess())
        for _ in range(before):
            commit(chain, [f"warc/{chain.label}.warc.gz"], [], store)
        chain = Chain.take_over(store, "north_a0", InProcess(), 0.0)
        for _ in range(after):
            name = f"warc/{chain.label}.warc.gz"
            store.put(name, f"in the {store.path.name} life".encode())
            changes = Changes({"warc": [name]}, {})
            chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=0.0)
        source = Source(store, ["east"])
        replica.catch_up(lambda request, source=source: source.answer("east", encode(request)))
    there = Directory(tmp_path / "east")
    assert snapshots(there) == snapshots(second)
    assert there.get("warc/north_a0-00000005.warc.gz") == b"in the second life"


def test_a_holder_that_was_ahead_of_a_second_life_begins_anew(tmp_path: Path) -> None:
    """The site was lost, and came back from another holder's replica, which was behind."""
    first, second = (Directory.prepare(tmp_path / name, 0.0) for name in ("first", "second"))
    replica = Quiet(tmp_path / "east")

    def ask_of(source: Source) -> Any:
        return lambda request: source.answer("east", encode(request))

    for store, rounds in ((first, 6), (second, 3)):
        chain = Chain.open(store, "north_a0", InProcess())
        for number in range(1, rounds + 1):
            commit(chain, [f"warc/north_a0-{number:08d}.warc.gz"], [], store)
    replica.catch_up(ask_of(Source(first, ["east"])))
    chain = Chain.take_over(second, "north_a0", InProcess(), 0.0)
    for number in range(chain.round, 9):  # it is past our number when we see it again
        store_name = f"warc/north_a0-{number:08d}.warc.gz"
        second.put(store_name, b"another life")
        changes = Changes({"warc": [store_name]}, {})
        chain.commit(changes, marks={}, outbox=[], exchange=InProcess(), applied=[], now_s=0.0)
    replica.catch_up(ask_of(Source(second, ["east"])))
    there = Directory(tmp_path / "east")
    assert snapshots(there) == snapshots(second)
    assert there.get("warc/north_a0-00000006.warc.gz") == b"another life"


def test_files_are_fetched_several_at_a_time(tmp_path: Path) -> None:
    """The first four wait for each other: one after the other, none would ever come."""
    store = Directory.prepare(tmp_path / "north", 0.0)
    source, together = Source(store, ["east"]), threading.Barrier(4)
    names = [f"warc/north_a0-{number:08d}.warc.gz" for number in range(1, 13)]
    commit(Chain.open(store, "north_a0", InProcess()), names, [], store)

    def ask(request: Request) -> bytes:
        if request.name in names[:4]:
            together.wait(20.0)
        return source.answer("east", encode(request))

    Quiet(tmp_path / "east").catch_up(ask)
    assert snapshots(Directory(tmp_path / "east")) == snapshots(store)


@pytest.mark.parametrize("name", ["warc/../../secret", "warc/south_a0-00000001.warc.gz", "keys/a.key"])
def test_a_site_names_files_that_are_not_its_own(tmp_path: Path, name: str) -> None:
    """Nothing of it is written, and nobody is killed by it."""
    store = Directory.prepare(tmp_path / "north", 0.0)
    chain = Chain.open(store, "north_a0", InProcess())
    commit(chain, ["warc/north_a0-00000001.warc.gz"], [], store)
    source, replica = Source(store, ["east"]), Quiet(tmp_path / "deep" / "east")

    def tampered(request: Request) -> bytes:
        data = source.answer("east", encode(request))
        if not request.name.startswith("manifest/"):
            return data
        text = data[8:].replace(b"warc/north_a0-00000001.warc.gz", name.encode())
        return len(text).to_bytes(8, "big") + text

    with pytest.raises((ArchiveError, SiteError)):
        replica.catch_up(tampered)
    assert not list(tmp_path.rglob("secret")) + list((tmp_path / "deep").rglob("*.gz")) + list(tmp_path.rglob("*.key"))


@pytest.mark.parametrize(
    "request_", [b"", b"[]", b'{"name": "../secret", "offset": 0}', b'{"name": "keys/a.key", "offset": 0}',
                 b'{"name": "warc/none", "offset": 0}', b'{"name": "warc/../keys/a.key", "offset": 0}'],
)  # fmt: skip
def test_other_requests_get_nothing(tmp_path: Path, request_: bytes) -> None:
    store = Directory.prepare(tmp_path / "north", 0.0)
    commit(Chain.open(store, "north_a0", InProcess()), ["warc/north_a0-00000001.warc.gz"], [], store)
    store.put("keys/a.key", b"secret")
    (tmp_path / "secret").write_bytes(b"secret")
    source = Source(store, ["east"])
    assert source.answer("evil", request_) == b""
    assert source.replicated == {}


def test_strangers_do_not_count(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path, 0.0)
    commit(Chain.open(store, "north_a0", InProcess()), ["warc/north_a0-00000001.warc.gz"], [], store)
    source = Source(store, ["east"])
    source.answer("stranger", json.dumps({"site": "east", "have": {"north_a0": 1}}).encode())
    assert not source.is_complete()


def message(number: int) -> Message:
    return Message("a", number, 0, "b", b"x", LINKS, previous=number - 1)


def test_nothing_leaves_before_it_is_replicated() -> None:
    inner, safe = InProcess(), 0
    gate = Gate(inner, 1, lambda: safe)
    assert not gate.publish(message(1))
    assert inner.pending("b", {}) == []
    safe = 1
    assert gate.publish(message(1))
    assert [message.number for message in inner.pending("b", {})] == [1]


def test_nothing_is_acknowledged_before_it_is_replicated() -> None:
    """Neither at once, nor when it comes again."""
    inner, safe, committed = InProcess(), 3, 3
    gate = Gate(inner, 3, lambda: safe)
    gate.committed = lambda: committed
    inner.publish(message(1))
    inner.publish(message(2))
    assert [message.number for message in gate.pending("b", {})] == [1, 2]
    committed = 4
    gate.acknowledge("a>b", 1)
    committed = 5
    gate.acknowledge("a>b", 2)
    assert gate.pending("b", {"a>b": 2}) == []
    assert inner.confirmed("a>b") == 0
    safe = 4
    assert gate.pending("b", {"a>b": 2}) == []
    assert inner.confirmed("a>b") == 1
    safe = 5
    assert gate.pending("b", {"a>b": 2}) == []
    assert inner.confirmed("a>b") == 2


def test_what_was_acknowledged_before_a_restart_is_not_known() -> None:
    inner, safe = InProcess(), 3
    gate = Gate(inner, 5, lambda: safe)
    inner.publish(message(1))
    assert gate.pending("b", {"a>b": 1}) == []
    assert inner.confirmed("a>b") == 0, "the commit that applied it may not be at the replicas"
    safe = 5
    assert gate.pending("b", {"a>b": 1}) == []
    assert inner.confirmed("a>b") == 1


def test_the_thread_tells_of_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire({"url": "nats://127.0.0.1:1", "user": "", "password": ""})
    try:
        monkeypatch.setattr(Replica, "catch_up", lambda self, ask: (_ for _ in ()).throw(OSError(28, "full")))
        replica = Replica(tmp_path / "east", "north", "east", wire, RealClock())
        replica._thread.join()
        with pytest.raises(OSError, match="full"):
            replica.check()
    finally:
        wire.close()
