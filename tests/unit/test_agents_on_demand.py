"""What a supervisor does about agents on demand, and what the one after it knows of that."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import cast

import pytest

from gossamer.archive.manifest import Snapshot
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges
from gossamer.clocks import VirtualClock
from gossamer.cluster.engine import Handle, Job, Received
from gossamer.cluster.on_demand import OnDemand, last_change, limits
from gossamer.cluster.roster import Roster
from gossamer.cluster.scaling import NONE
from gossamer.config import UNLIMITED, Config
from gossamer.crawl.stats import Report, Stats


@dataclass
class Machines:
    """An Engine that only says what it has."""

    free: float = inf
    processors: float = inf

    def start(self, job: Job, received: Received | None = None) -> Handle:
        raise NotImplementedError

    def room(self) -> float:
        return self.free

    def cores(self) -> float:
        return self.processors


def on_demand(**site: int | float) -> Config:
    keys = {"max_agents": 4, "scale_s": 10.0, **site}
    return Config().replace({"polite.connections": 10, **{f"site.{name}": value for name, value in keys.items()}})


def report(zones: Iterable[int], busy: int, due: int) -> Report:
    stats = Stats(0.0, 1.0, 5, 5, 100, connections=busy, known=9, frontier=4)
    return Report(
        number=1, epoch=1, zones=as_ranges(zones), sent={}, marks={}, pages=None, rounds=1, idle="", next_due_s=None,
        backlog_bytes=0, committed_s=0.0, cpu_s=0.1, stats=stats, due_hosts=due,
    )  # fmt: skip


@dataclass
class World:
    config: Config = field(default_factory=on_demand)
    store: Memory = field(default_factory=Memory)
    clock: VirtualClock = field(default_factory=VirtualClock)
    engine: Machines = field(default_factory=Machines)

    def begin(self) -> None:
        """A supervisor begins."""
        self.roster = Roster(self.store, "a0")
        self.on_demand = OnDemand(self.store, self.config, self.clock, self.engine, self.roster)
        self.on_demand.begin()

    def settle(self, busy: int, due: int) -> None:
        """All run, and have the zones that they shall have; those that left have none."""
        for agent in list(self.roster.agents.values()):
            zones = [zone for zone, owner in enumerate(self.roster.owners) if owner == agent.name]
            agent.report, agent.handle = report(zones, busy, due), cast("Handle", Running())
            if agent.is_retiring:
                agent.handle, agent.report, agent.is_resting = None, None, True
                agent.at = Snapshot(agent.name)
        self.roster.let_go()

    def look(self, seconds: int = 30, pages_left: float = inf) -> list[str]:
        """Looks each second until something changes. Returns who stays."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            if self.on_demand.look(True, pages_left) is not NONE:
                break
        return self.names()

    def names(self) -> list[str]:
        return [agent.name for agent in self.roster.staying]


class Running:
    """The Handle of a process that is not there."""

    pid = 1


@pytest.fixture
def world() -> World:
    found = World()
    found.begin()
    return found


def test_they_come_and_leave(world: World) -> None:
    assert world.names() == ["a0"]
    world.settle(10, 100)
    assert world.look() == ["a0", "a1"]
    world.settle(10, 100)
    assert world.look() == ["a0", "a1", "a2", "a3"]
    world.settle(10, 100)
    assert world.look() == ["a0", "a1", "a2", "a3"], "no more are allowed"
    world.settle(0, 0)
    assert world.look() == ["a0", "a1"]
    world.settle(0, 0)
    assert world.look() == ["a0"]
    world.settle(0, 0)
    assert world.look() == ["a0"]
    world.settle(10, 100)
    assert world.look() == ["a0", "a1"], "whoever left comes back, so that chains do not become more and more"
    world.settle(10, 100)
    assert world.look() == ["a0", "a1", "a2", "a3"]


def test_no_change_before_the_last_one_is_carried_out(world: World) -> None:
    world.settle(10, 100)
    assert world.look() == ["a0", "a1"]
    assert world.look() == ["a0", "a1"], "a1 has not reported, and zones are on their way"
    world.settle(0, 0)
    assert world.look() == ["a0"]
    assert [agent.name for agent in world.roster.agents.values() if agent.is_retiring] == ["a1"]
    for agent in world.roster.agents.values():
        agent.report = report(agent.zones, 10, 100)
    assert world.look() == ["a0"], "a1 has not left"


def test_whoever_takes_over_knows_the_agents_and_the_time_of_the_last_change(world: World) -> None:
    world.settle(10, 100)
    world.look()
    world.settle(10, 100)
    assert world.look() == ["a0", "a1", "a2", "a3"]
    changed_s = world.clock.now()
    found = last_change(world.store)
    assert found is not None
    assert (found.time_s, found.agents) == (changed_s, ("a0", "a1", "a2", "a3"))
    world.begin()
    assert world.names() == ["a0", "a1", "a2", "a3"], "though only a0 has ever committed"
    world.settle(0, 0)
    world.look(9)
    assert len(world.names()) == 4, "one change in ten seconds"
    assert len(world.look(3)) == 2


def test_a_change_in_the_midst_of_which_the_supervisor_ends_is_gone_on_with(world: World) -> None:
    world.settle(10, 100)
    world.look()
    world.settle(0, 0)
    assert world.look() == ["a0"]
    world.begin()
    assert world.names() == ["a0"], "a1 shall leave, whatever zones it has"
    assert set(world.roster.owners) == {"a0"}


def test_a_persons_wish_counts_as_a_change(world: World) -> None:
    world.settle(10, 100)
    world.roster.add()
    world.on_demand.note()
    world.settle(0, 0)
    world.look(9)
    assert world.names() == ["a0", "a1"]
    assert world.look(3) == ["a0"]


def test_what_is_allowed_now_bounds_what_was(world: World) -> None:
    world.settle(10, 100)
    world.look()
    world.settle(10, 100)
    world.look()
    for site, names in (({"max_agents": 2}, 2), ({"max_agents": 8, "min_agents": 6}, 6)):
        world.config = on_demand(**site)
        world.begin()
        assert len(world.names()) == names
        assert len(world.roster.owners) == ZONES_IN_ALL


def test_the_engine_bounds_them() -> None:
    assert limits(on_demand(max_agents=UNLIMITED), 3).most == 3
    assert limits(on_demand(max_agents=UNLIMITED), inf).most == UNLIMITED
    assert limits(on_demand(max_agents=8), 3).most == 8, "a number is meant"
    assert limits(on_demand(max_agents=UNLIMITED, min_agents=4), 2).most == 4
    world = World(engine=Machines(free=0))
    world.begin()
    world.settle(10, 100)
    assert world.look() == ["a0"], "there is no machine for another one"


def test_a_limit_of_pages_that_is_reached_brings_nobody(world: World) -> None:
    world.settle(10, 100)
    assert world.look(pages_left=0) == ["a0"]
