"""The compiled kernel runs a crawl in virtual time: the loop over events, and what happens when all scores change."""

import numpy as np
from numba import njit

from gossamer.sim.batches import prepare
from gossamer.sim.connections import answer, connect, finish, move_on, next_event, open_host
from gossamer.sim.learning import learn, place, rank_pages
from gossamer.sim.queues import Queues
from gossamer.sim.world import AT_REST, QUEUED, WAITING, Calls, Hosts, Rules, World


@njit
def run(world: World, hosts: Hosts, frontier: Queues, bench: Queues, rules: Rules, calls: Calls, limit: int) -> bool:
    """Crawl until so many pages have been visited and learnt from. False: nothing is left.

    Without batches the workbench is the frontier itself.
    """
    number = world.number
    while True:
        if rules.width:
            if not prepare(world, frontier, bench, rules, calls, limit):
                left = frontier.counts[1] + bench.counts[1] + number["active"] + number["held"]
                return number["visits"] - number["held"] >= limit and left > 0
        elif number["visits"] >= limit:
            return frontier.counts[1] > 0 or number["active"] > 0
        if not number["draining"]:
            connect(world, hosts, bench, rules, calls.host_rank)
        host = next_event(world, hosts, rules)
        if host < 0:
            if rules.width and (bench.counts[1] or frontier.counts[1] or number["held"]):
                continue
            return False
        if hosts.phase[host] == AT_REST:
            open_host(world, bench, rules, calls.host_rank, host)
        elif hosts.phase[host] == WAITING:
            answer(world, hosts, host)
        else:
            world.real["speeds"] = max(world.real["speeds"] - world.speed[host], 0.0) if hosts.sizes[1] else 0.0
            finish(world, hosts, host)
            if not rules.width:
                learn(world, frontier, rules, calls)
            if move_on(world, hosts, bench, rules, calls.host_rank, host):
                open_host(world, bench, rules, calls.host_rank, host)


@njit
def rank_anew(world: World, frontier: Queues, rules: Rules, calls: Calls) -> None:
    """In the beginning, and when scores changed: every page that waits for a visit, and every host, gets its rank."""
    queued = np.flatnonzero(world.state == QUEUED).astype(np.int32)
    rank_pages(world, frontier, rules, calls.page_rank, queued)
    for host in range(len(frontier.size)):
        place(world, frontier, rules, calls.host_rank, host)
