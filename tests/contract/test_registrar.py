"""Who is alive, what each shall do, what people wish: also when the server dies meanwhile, or the store is gone."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats_site
import pytest
from nats_site import connected, eventually
from store_site import Mount

from gossamer.archive.store import Directory, Memory, Store
from gossamer.clocks import VirtualClock
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server, read_address
from gossamer.cluster.protocol import Wish
from gossamer.cluster.registrar import Registrar
from gossamer.cluster.store_registrar import StoreRegistrar

site = pytest.fixture(nats_site.running, name="site")


Said = dict[str, Any]  # messages of any kind; those of agents and clients are structs


def registrar(wire: Wire, lease_s: float | None = None) -> Registrar[Said, Said]:
    return Registrar(wire, Said, Said, lease_s)


@pytest.fixture
def wires(site: Server) -> Iterator[list[Wire]]:
    found = [connected(site), connected(site)]
    yield found
    for wire in found:
        wire.close()


Some = Registrar[Said, Said] | StoreRegistrar[Said, Said]
Make = Callable[..., Some]  # by which of two processes, and its lease


def at_store(store: Store, lease_s: float | None = None) -> StoreRegistrar[Said, Said]:
    return StoreRegistrar(store, Said, Said, lease_s)


@pytest.fixture(params=["nats", "store in memory", "store"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    if request.param == "nats":
        wires = request.getfixturevalue("wires")
        yield lambda who, lease_s=None: registrar(wires[who], lease_s)
        return
    store = Memory() if "memory" in request.param else Directory.prepare(tmp_path / "crawl", 1.0)
    made: list[StoreRegistrar[Said, Said]] = []

    def with_store(_: int, lease_s: float | None = None) -> Some:
        made.append(at_store(store, lease_s))
        return made[-1]

    yield with_store
    for one in made:
        one.close()


def test_reports_are_seen_by_others(make: Make) -> None:
    agent, lead = make(0, 60.0), make(1, 60.0)
    assert lead.alive() == {}
    assert agent.report("a1", {"zones": [1, 2], "pages": 7})
    assert agent.report("a0", {})
    assert agent.report("a1", {"zones": [1], "pages": 8})
    assert lead.alive() == {"a0": {}, "a1": {"zones": [1], "pages": 8}}
    assert agent.leave("a1")
    assert agent.leave("a7"), "who was not there may leave, too"
    assert lead.alive() == {"a0": {}}
    assert make(1).alive() == {"a0": {}}, "who only asks changes no lease"


def test_many_agents(make: Make) -> None:
    lead = make(0, 60.0)
    names = {f"a{i}" for i in range(150)}
    for name in names:
        assert lead.report(name, {"name": name})
    assert lead.alive() == {name: {"name": name} for name in names}


def test_leases_expire(make: Make) -> None:
    agent, lead = make(0, 1.0), make(1, 1.0)
    assert lead.alive() == {}
    assert agent.report("wedged", {})
    for beat in range(60):
        assert agent.report("busy", {"beat": beat})
        if "wedged" not in (lead.alive() or {}):
            break
        time.sleep(0.1)
    assert agent.report("busy", {})
    assert lead.alive() == {"busy": {}}
    eventually(lambda: lead.alive() == {})


def test_another_lease_on_the_same_data(make: Make) -> None:
    assert make(0, 3600.0).report("a0", {})
    short = make(1, 0.5)
    eventually(lambda: short.alive() == {})


def test_orders(make: Make) -> None:
    lead, agent = make(0, 60.0), make(1, 60.0)
    assert lead.order("a1", {"zones": [1]}), "before anybody listens"
    assert agent.orders("a1") is None or agent.orders("a1") == {"zones": [1]}
    eventually(lambda: agent.orders("a1") == {"zones": [1]})
    assert lead.order("a2", {"zones": [9]})
    assert lead.order("a1", {"zones": []})
    eventually(lambda: agent.orders("a1") == {"zones": []})
    assert agent.orders("a3") is None


def taken_by_two(make: Make) -> tuple[Some, list[Wish]]:
    """Five wishes, of which a leader takes the first three and its successor the others."""
    lead, person = make(0, 60.0), make(1)
    wishes = [Wish(retire=f"a{i}") for i in range(5)]
    assert person.wish(wishes[0])
    taken = eventually(lead.take_wishes)
    for wish in wishes[1:3]:
        assert person.wish(wish)
    while len(taken) < 3:
        taken += lead.take_wishes()
    lead.close()
    for wish in wishes[3:]:
        assert person.wish(wish), "nobody listens"
    with_successor = make(0, 60.0)
    while len(taken) < 5:
        taken += with_successor.take_wishes()
    assert taken == wishes
    return with_successor, taken


def test_each_wish_is_taken_once(make: Make) -> None:
    successor, _ = taken_by_two(make)
    assert successor.take_wishes() == []
    assert make(1).wish(Wish(retire="a7"))
    assert eventually(successor.take_wishes) == [Wish(retire="a7")]
    assert make(0, 60.0).take_wishes() == [], "not after a crash of the leader, either"


def test_each_wish_is_taken_once_though_the_server_dies(site: Server, wires: list[Wire]) -> None:
    with_successor, taken = taken_by_two(lambda who, lease_s=None: registrar(wires[who], lease_s))
    wishes, person = list(taken), registrar(wires[1])
    os.kill(site.pid or 0, signal.SIGKILL)
    eventually(lambda: not wires[0].is_up and not wires[1].is_up)
    assert with_successor.take_wishes() == []
    assert not person.wish(Wish(retire="a6")), "the person must know that nobody heard it"
    site.start()
    eventually(lambda: person.wish(Wish(retire="a7")))
    eventually(lambda: taken.extend(with_successor.take_wishes()) or len(taken) == 6)
    assert taken == [*wishes, Wish(retire="a7")]
    assert with_successor.take_wishes() == []


def test_the_server_dies_and_comes_back(site: Server, wires: list[Wire]) -> None:
    lead, agent = registrar(wires[0], 60.0), registrar(wires[1], 60.0)
    assert lead.order("a1", {"n": 0})
    assert agent.report("a1", {"n": 0})
    eventually(lambda: agent.orders("a1") == {"n": 0})
    for n in range(1, 3):
        os.kill(site.pid or 0, signal.SIGKILL)
        eventually(lambda: not wires[0].is_up and not wires[1].is_up)
        assert lead.alive() is None, "nobody knows"
        assert not agent.report("a1", {})
        assert not lead.order("a1", {})
        assert agent.orders("a1") == {"n": n - 1}, "the last that we heard"
        site.start()
        eventually(lambda n=n: lead.alive() == {"a1": {"n": n - 1}})
        eventually(lambda n=n: agent.report("a1", {"n": n}))
        assert lead.alive() == {"a1": {"n": n}}
        assert lead.order("a1", {"n": n})
        eventually(lambda n=n: agent.orders("a1") == {"n": n})


def test_the_server_loses_its_data(site: Server, wires: list[Wire], tmp_path: Path) -> None:
    lead, agent = registrar(wires[0], 60.0), registrar(wires[1], 60.0)
    assert agent.report("a1", {})
    assert lead.order("a1", {"n": 0})
    eventually(lambda: agent.orders("a1") == {"n": 0})
    site.stop()
    shutil.rmtree(site.folder / "nats")
    site.start()
    assert read_address(site.folder) == site.address
    eventually(lambda: lead.alive() == {})
    eventually(lambda: agent.report("a1", {"again": True}))
    assert lead.alive() == {"a1": {"again": True}}
    assert lead.order("a1", {"n": 1})
    eventually(lambda: agent.orders("a1") == {"n": 1})


def test_the_store_is_gone_for_a_while(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    store = Directory.prepare(mount.path, 1.0)
    lead, agent = at_store(store, 4.0), at_store(store, 4.0)
    assert lead.order("a1", {"n": 0})
    assert agent.orders("a1") in (None, {"n": 0})
    assert agent.report("a1", {"n": 0})
    assert agent.orders("a1") == {"n": 0}, "whoever renews its lease knows its orders"
    with mount.gone():
        assert lead.alive() is None, "nobody knows"
        assert not agent.report("a1", {})
        assert not lead.order("a1", {})
        assert not lead.wish(Wish())
        assert lead.take_wishes() == []
        assert agent.orders("a1") == {"n": 0}, "the last that we heard"
    assert lead.alive() == {"a1": {"n": 0}}
    assert lead.order("a1", {"n": 1})
    assert agent.report("a1", {"n": 1})
    assert (lead.alive(), agent.orders("a1")) == ({"a1": {"n": 1}}, {"n": 1})
    for one in (lead, agent):
        one.close()


def test_a_lease_counts_from_when_its_reader_saw_a_change() -> None:
    """The clocks of machines differ: an agent that is alive must not look dead, nor a dead one alive, by that."""
    store, clock = Memory(), VirtualClock()
    lead = StoreRegistrar(store, dict[str, Any], dict[str, Any], 10.0, clock)
    agent = at_store(store, 10.0)
    for beat in range(5):
        agent.report("a1", {"time_s": -1e9, "beat": beat})
        assert lead.alive() == {"a1": {"time_s": -1e9, "beat": beat}}
        clock.advance(9.0)
    assert lead.alive()
    clock.advance(1.5)
    assert lead.alive() == {}
    assert store.list("registrar/agents/") == [], "so that those who only ask do not see it, either"
