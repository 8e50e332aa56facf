"""Who is alive, what each shall do, what people wish: also when the server dies meanwhile."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats_site
import pytest
from nats_site import connected, eventually

from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_server import Server, read_address
from gossamer.cluster.protocol import Wish
from gossamer.cluster.registrar import Registrar

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


def test_reports_are_seen_by_others(wires: list[Wire]) -> None:
    agent, lead = (registrar(wire, 60.0) for wire in wires)
    assert lead.alive() == {}
    assert agent.report("a1", {"zones": [1, 2], "pages": 7})
    assert agent.report("a0", {})
    assert agent.report("a1", {"zones": [1], "pages": 8})
    assert lead.alive() == {"a0": {}, "a1": {"zones": [1], "pages": 8}}
    assert agent.leave("a1")
    assert agent.leave("a7"), "who was not there may leave, too"
    assert lead.alive() == {"a0": {}}
    assert registrar(wires[1]).alive() == {"a0": {}}, "who only asks changes no lease"


def test_many_agents(wires: list[Wire]) -> None:
    lead = registrar(wires[0], 60.0)
    names = {f"a{i}" for i in range(150)}
    for name in names:
        assert lead.report(name, {"name": name})
    assert lead.alive() == {name: {"name": name} for name in names}


def test_leases_expire(wires: list[Wire]) -> None:
    agent, lead = (registrar(wire, 1.0) for wire in wires)
    assert lead.alive() == {}
    assert agent.report("wedged", {})
    for _ in range(60):
        assert agent.report("busy", {})
        if "wedged" not in (lead.alive() or {}):
            break
        time.sleep(0.1)
    assert agent.report("busy", {})
    assert lead.alive() == {"busy": {}}
    eventually(lambda: lead.alive() == {})


def test_another_lease_on_the_same_data(wires: list[Wire]) -> None:
    assert registrar(wires[0], 3600.0).report("a0", {})
    short = registrar(wires[1], 0.5)
    eventually(lambda: short.alive() == {})


def test_orders(wires: list[Wire]) -> None:
    lead, agent = registrar(wires[0], 60.0), registrar(wires[1], 60.0)
    assert lead.order("a1", {"zones": [1]}), "before anybody listens"
    assert agent.orders("a1") is None or agent.orders("a1") == {"zones": [1]}
    eventually(lambda: agent.orders("a1") == {"zones": [1]})
    assert lead.order("a2", {"zones": [9]})
    assert lead.order("a1", {"zones": []})
    eventually(lambda: agent.orders("a1") == {"zones": []})
    assert agent.orders("a3") is None


def test_each_wish_is_taken_once(site: Server, wires: list[Wire], tmp_path: Path) -> None:
    lead, person = registrar(wires[0], 60.0), registrar(wires[1])
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
    with_successor = registrar(wires[0], 60.0)
    while len(taken) < 5:
        taken += with_successor.take_wishes()
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
