"""What a site tells its agents, as far as it follows from what they report."""

import msgspec
import pytest

from gossamer.archive.store import Memory
from gossamer.clocks import RealClock
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
