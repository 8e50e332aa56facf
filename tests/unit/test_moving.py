"""Hosts change hands between sites: everything arrives, everybody hears of it, and a crash forgets nothing of that."""

import json
from typing import Any

import numpy as np
import test_handover as zones

from gossamer.archive.bundle import messages_of
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import HOSTS, NEWS, Changes, Message
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, shares
from gossamer.cluster.site_list import Members
from gossamer.frontier.pages import HOST_SHIFT
from gossamer.placement.hostmap import ENTRY, HostMap
from gossamer.placement.ring import Ring
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.owners import Owners, SiteView
from gossamer.sharing.placing import Placing, unpacked
from gossamer.sharing.transfer import Transfer, is_settled

BEFORE = {"paris": 1.0, "lima": 1.0, "oslo": 1.0}
AFTER = {"paris": 0.0, "lima": 1.0, "oslo": 0.0}
ORDERS = {
    name: Orders(shares(zones.LEFT), others={other: 0 for other in zones.NAMES if other != name})
    for name in zones.NAMES
}


def place(site: str, hosts: np.ndarray, home: str = "a0") -> SiteView:
    """All hosts were paris's, which leaves; only lima takes some."""
    known = HostMap(Ring(AFTER))
    entries = np.zeros(len(hosts), ENTRY)
    entries["host"] = hosts
    known.record(entries)
    return SiteView(
        site, home, known, Placing(known, site, None), Members(2, AFTER, "fennel", [BEFORE]), (), [Ring(BEFORE)]
    )


def left_paris() -> tuple[np.ndarray, list[list[Message]], int]:
    """All that paris knew, as messages of its agents to lima; and how much cash that was."""
    store, exchange = zones.world()
    found = [zones.books(store, exchange, name).index.hosts.rows["host"] for name in zones.NAMES]
    hosts = np.sort(np.concatenate(found))
    messages, cash = [], 0
    for name in zones.NAMES:
        books = zones.books(store, exchange, name)
        Transfer(books, exchange, ORDERS[name], place("paris", hosts, home=name), 2.0).give_hosts()
        assert books.index.count == 0
        outbox = [message for message in books.chain.snapshot.outbox if message.message.kind == HOSTS]
        messages.append([replace(message.message, data=store.get(message.name)) for message in outbox])
        cash += json.loads(messages[-1][0].data)["cash"]
        assert books.chain.state.members.version == 2, "by which list they went is on record with them"
    return hosts, messages, cash


def empty_lima() -> tuple[Memory, InProcess]:
    store, exchange = Memory(), InProcess()
    for name in zones.NAMES:
        books = zones.books(store, exchange, name, is_new=True)
        state = replace(books.chain.state, ledger=books.ledger.state(), committed_s=1.0)
        books.chain.commit(Changes(), state=state, marks={}, outbox=[], exchange=exchange, applied=[], now_s=1.0)
    return store, exchange


def told(store: Memory, agent: str) -> dict[str, set[int]]:
    """By receiver: the hosts that an agent's messages say are at lima now."""
    found: dict[str, set[int]] = {}
    for message in messages_of(store, Chain.read(store, agent).outbox):
        if message.kind == NEWS:
            said: dict[str, Any] = json.loads(message.data)
            entries = unpacked(said["hosts"])
            assert set(entries["site"].tolist()) == {1}
            assert set(entries["turn"].tolist()) == {1}
            found.setdefault(message.to, set()).update(entries["host"].tolist())
    return found


def test_all_of_it_arrives_and_everybody_hears_of_it() -> None:
    hosts, messages, cash = left_paris()
    store, exchange = empty_lima()
    speaker = zones.books(store, exchange, "a0")
    for message in reversed(messages):  # first those of the other agent's zones
        Transfer(speaker, exchange, ORDERS["a0"], place("lima", hosts), 3.0).take(message)
    # Nothing but what is committed counts: the processes may die here.
    assert told(store, "a0")["oslo"] == told(store, "a0")["paris"] == set(hosts.tolist())
    assert not is_settled(store, 2)
    other = zones.books(store, exchange, "a1")
    Transfer(other, exchange, ORDERS["a1"], place("lima", hosts), 3.0).settle()
    own, others = (set(books.index.hosts.rows["host"].tolist()) for books in (speaker, other))
    assert own | others == set(hosts.tolist())
    assert not own & others
    assert told(store, "a1") == {"a0": others}, "the other agents hear it from whoever has them"
    assert told(store, "a0")["a1"] == own
    pages = [rows for books in (speaker, other) for rows in books.index.pages.scan()]
    assert sum(map(len, pages)) == 200
    assert sum(int(rows["cash"].sum()) for rows in pages) == cash


def test_hosts_of_two_agents_come_in_one_letter() -> None:
    """The one who speaks for the site takes its own and passes the others on; and the other agent hears of both."""
    store, exchange = zones.world()
    zones.settle(store, exchange, ("a0",) * ZONES_IN_ALL)
    books = zones.books(store, exchange, "a0")
    hosts = np.sort(books.index.hosts.rows["host"])
    rests = books.resting.hosts
    Transfer(books, exchange, ORDERS["a0"], place("paris", hosts), 2.0).give_hosts()
    message = [replace(each.message, data=store.get(each.name)) for each in books.chain.snapshot.outbox]
    assert {part.kind for part in message} == {HOSTS}
    store, exchange = empty_lima()
    speaker = zones.books(store, exchange, "a0")
    Transfer(speaker, exchange, ORDERS["a0"], place("lima", hosts), 3.0).take(message)
    other, there = zones.books(store, exchange, "a1"), place("lima", hosts)
    Transfer(other, exchange, ORDERS["a1"], there, 3.0).settle()
    own, others = (set(books.index.hosts.rows["host"].tolist()) for books in (speaker, other))
    assert own
    assert others
    assert own | others == set(hosts.tolist())
    assert set(there.sites.of_keys(hosts).tolist()) == {1}, "all of them are at lima, for all that it knows"
    assert {**speaker.resting.hosts, **other.resting.hosts} == rests


def test_an_agent_that_passes_hosts_on_is_not_taken_for_their_owner() -> None:
    """What it has on record says where they will be; who shall have them has them when they have come."""
    hosts, messages, _ = left_paris()
    store, exchange = empty_lima()
    speaker = zones.books(store, exchange, "a0")
    for message in reversed(messages):  # first those of the other agent's zones
        Transfer(speaker, exchange, ORDERS["a0"], place("lima", hosts), 3.0).take(message)
    files = list(Chain.read(store, "a0").files["hostmap"])
    other = zones.books(store, exchange, "a1")
    there = place("lima", hosts)
    assert there.placing is not None
    there.placing.open(store, files, AgentState())
    coming = np.array(sorted(set(hosts.tolist()) - set(speaker.index.hosts.rows["host"].tolist())))
    assert len(coming)
    pages = coming.astype(np.uint64) << HOST_SHIFT
    owners = Owners("a1", other.chain.zones, zones.LEFT, there)
    assert not owners.is_native(pages).any()
    assert [name for name, _ in owners.by_name(pages)] == ["a1"], "what is found of them meanwhile waits here"
    Transfer(other, exchange, ORDERS["a1"], there, 3.0).settle()
    assert owners.is_native(pages).all()
