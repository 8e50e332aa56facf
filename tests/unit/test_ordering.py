"""What a site tells its agents, as far as it follows from what they report."""

import dataclasses

import msgspec
import pytest

from gossamer.archive.store import Memory
from gossamer.clocks import RealClock, VirtualClock
from gossamer.cluster.hub import StoreHub
from gossamer.cluster.ordering import Ordering
from gossamer.cluster.roster import Roster
from gossamer.cluster.store_registrar import of_agents
from gossamer.config import Config
from gossamer.crawl.stats import Report, Stats
from gossamer.sharing.control import Orders

REPORT = Report(
    number=1, epoch=1, zones=[], sent={}, marks={}, pages=None, rounds=1, idle="", next_due_s=None, backlog_bytes=0,
    committed_s=1.0, cpu_s=1.0, stats=Stats(1.0, 1.0, 1, 1, 1),
)  # fmt: skip


def ordered(store: Memory, name: str) -> Orders:
    found = of_agents(store, 10.0).orders(name)
    assert found is not None
    return found.orders


@pytest.mark.parametrize("working", [[], ["a0"], ["a2"], ["a0", "a1"]])
def test_agents_know_whether_others_work(working: list[str]) -> None:
    store = Memory()
    hub = StoreHub(store, 10.0, is_alone=True)
    assert hub.open(lambda _: False)
    roster = Roster(store, "a0")
    roster.read(3)
    ordering = Ordering(roster, Config(), hub, RealClock())
    for name, agent in roster.agents.items():
        agent.begin(1.0, hub.term)
        agent.report = msgspec.structs.replace(REPORT, is_working=name in working)
    for agent in roster.agents.values():
        ordering.order(agent)
        others = {*working} - {agent.name}
        assert ordered(store, agent.name).others_work is bool(others)
    for agent in roster.agents.values():
        agent.report = None  # its process has ended
    ordering.order(roster.agents["a1"])
    assert not ordered(store, "a1").others_work
    hub.close(is_over=True)


def test_how_many_pages_others_know_is_told_every_few_seconds() -> None:
    """It changes with each commit of each agent; what else changes is told at once."""
    store, clock = Memory(), VirtualClock()
    hub = StoreHub(store, 10.0, is_alone=True)
    assert hub.open(lambda _: False)
    hub.calm_s = 0.0  # as where orders cost nothing
    roster = Roster(store, "a0")
    roster.read(2)
    ordering = Ordering(roster, Config(), hub, clock)
    own, other = roster.agents["a0"], roster.agents["a1"]
    for agent in (own, other):
        agent.begin(1.0, hub.term)
        agent.report = REPORT

    def told(known: int, is_working: bool = False) -> tuple[int, bool]:
        stats = dataclasses.replace(REPORT.stats, known=known)
        other.report = msgspec.structs.replace(REPORT, stats=stats, is_working=is_working)
        ordering.order(own)
        found = ordered(store, "a0")
        return found.others["a1"], found.others_work

    assert told(10) == (10, False)
    clock.advance(0.5)
    assert told(20) == (10, False)
    assert told(30, is_working=True) == (30, True)
    clock.advance(2.5)
    assert told(40, is_working=True) == (40, True)
    hub.close(is_over=True)
