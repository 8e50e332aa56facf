"""The simulation of the large: it is made of the real parts, so what holds of a crawl holds here."""

from typing import Any

import numpy as np
import pytest

from experiments import scale
from experiments.scale_world import Shape, World
from gossamer.frontier.pages import zone_of_host

SMALL: dict[str, Any] = {"hosts": 600, "links": 60_000, "visits": 20, "onward": 3}


@pytest.mark.parametrize(
    "shape",
    [Shape(agents=3, **SMALL), Shape(2, 2, **SMALL), Shape(2, 2, partitioner="fennel", **SMALL)],
    ids=["one site", "two sites", "host map"],
)
def test_no_cash_is_lost(shape: Shape) -> None:
    world = World(shape)
    world.rounds(3)
    assert world.missing() == 0
    assert sum(agent.books.ledger.pool for agent in world.agents) > 0
    assert world.wires.sent["within_links"] > 0
    assert bool(world.wires.sent["between_links"]) == (shape.sites > 1)


@pytest.mark.parametrize("partitioner", ["ring", "fennel"])
def test_a_site_joins_and_every_host_has_one_owner(partitioner: str) -> None:
    world = World(Shape(2, 2, partitioner=partitioner, **SMALL))
    world.rounds(2)
    pages = sum(agent.known for agent in world.agents)
    new = world.join()
    turns = 0
    while not world.is_settled:
        world.turn()
        turns += 1
        assert turns < 200
    hosts = np.sort(np.concatenate([agent.books.index.hosts.rows["host"] for agent in world.agents]))
    assert np.array_equal(hosts, world.hosts)
    assert sum(agent.known for agent in world.agents) == pages
    assert world.missing() == 0
    for site in world.sites:
        for name, agent in site.agents.items():
            zones = zone_of_host(agent.books.index.hosts.rows["host"])
            assert {site.owners[zone] for zone in zones.tolist()} <= {name}
    moved = sum(len(agent.books.index.hosts) for agent in new.agents.values())
    assert (moved > len(hosts) // 10) == (partitioner == "ring"), "hosts that a map has given to a site stay there"


def test_an_agent_that_has_missed_decisions_is_told_again() -> None:
    """As one that begins while they are on their way to all others."""
    world = World(Shape(2, 2, partitioner="fennel", **SMALL))
    world.rounds(1)
    agent = world.sites[0].agents["s00_a1"]
    assert agent.place
    hosts, known = agent.books.index.hosts.rows["host"], agent.place.sites
    known._site[hosts] = 0  # type: ignore[attr-defined]
    world.rounds(4)
    assert known.is_settled(hosts).sum() > 10
    assert world.missing() == 0


def test_a_row_is_of_one_agents_round() -> None:
    row = scale.at_work(Shape(agents=3, **SMALL))
    assert (row["agents"], row["far_bytes"]) == (3, None)
    assert row["messages"] == 1  # links and cash, to all others
    of_a_thousand = scale.computed(row, 1_000)
    assert of_a_thousand["messages"] == pytest.approx(1_000 / 2_400 / 1e6)
