"""This module decides when a simulated crawl learns and chooses: in batches (Castillo 2004) or in rounds."""

from typing import Any

import numpy as np
from numba import njit

from gossamer.crawl import pacing
from gossamer.sim.learning import learn, place, rank_pages, take_out
from gossamer.sim.queues import Queues, best_rank, place_host, pop, put
from gossamer.sim.world import QUEUED, UNKNOWN, Calls, Rules, World

_is_top_up_due, _ends_early = njit(pacing.is_top_up_due), njit(pacing.ends_early)


@njit
def _batch(world: World, frontier: Queues, bench: Queues, rules: Rules, host_rank: Any, room: int, cap: int) -> None:
    """Move the best pages to the workbench, no more than `cap` of a host (0: no limit). There better ones that come
    later overtake; where hosts are ranked, whose ranks change all the time, the order of taking stays."""
    shut = False
    while room > 0 and frontier.counts[0]:
        host = frontier.hosts[0]
        if 0 < cap <= world.taken[host]:
            frontier.open[host] = False
            place_host(frontier, host, 0.0)
            shut = True
            continue
        rank = -float(world.number["taken"]) if rules.host_first else best_rank(frontier, host)
        put(bench, take_out(world, frontier, rules, host_rank, host), rank)
        place_host(bench, host, best_rank(bench, host))
        room -= 1
    if shut:
        for host in range(len(frontier.open)):
            if not frontier.open[host]:
                frontier.open[host] = True
                place(world, frontier, rules, host_rank, host)


@njit
def _give_back(world: World, frontier: Queues, bench: Queues, rules: Rules, calls: Calls) -> None:
    """What was not visited returns to the frontier."""
    for host in range(len(bench.size)):
        back = np.empty(bench.size[host], np.int32)
        for i in range(len(back)):
            back[i] = pop(bench, host)
            world.state[back[i]] = QUEUED
        if len(back):
            world.taken[host] -= len(back)
            place_host(bench, host, 0.0)
            rank_pages(world, frontier, rules, calls.page_rank, back)
            place(world, frontier, rules, calls.host_rank, host)


@njit
def prepare(
    world: World,
    frontier: Queues,
    bench: Queues,
    rules: Rules,
    calls: Calls,
    limit: int,
) -> bool:
    """Batches: learn and choose when it is time. False: the limit is reached, or nothing is left."""
    number = world.number
    if rules.rounds:
        return _make_rounds(world, frontier, bench, rules, calls, limit)
    left = bench.counts[1] + number["active"]
    if rules.advance > 0:
        due = left <= rules.advance * rules.width
    else:
        # A page on its way may still leave its host to others, so a batch is over when all connections are closed.
        due = left == 0
        is_idle = number["active"] < rules.early * rules.connections and bench.counts[0] == 0
        # Not before a tenth of it has been visited: choosing costs too.
        if is_idle and bench.counts[1] and 10 * (number["visits"] - number["batch_start"]) >= rules.width:
            number["draining"] = 1
        if number["draining"] and number["active"] == 0:
            _give_back(world, frontier, bench, rules, calls)
            due = True
    if not due:
        return True
    if number["held"]:
        learn(world, frontier, rules, calls)
    number["draining"] = 0
    if number["visits"] >= limit:
        return False
    number["batch_start"] = number["visits"]
    room = rules.width - (bench.counts[1] + number["active"])
    number["batches"] += room > 0 and frontier.counts[0] > 0
    _batch(world, frontier, bench, rules, calls.host_rank, room, rules.later)
    return bench.counts[1] + number["active"] > 0


@njit
def _make_rounds(
    world: World,
    frontier: Queues,
    bench: Queues,
    rules: Rules,
    calls: Calls,
    limit: int,
) -> bool:
    """As `crawl/agent.py` does it, with its own habits: what was visited is learnt when a round is over, while the
    workbench is topped up. False: the limit is reached, or nothing is left."""
    number, real = world.number, world.real
    left = bench.counts[1] + number["active"]
    if not (number["committing"] or number["learnt_anew"]) and _is_round_over(world, bench, rules, left):
        number["committing"] = min(number["held"], rules.width)
        number["batches"] += 1
        is_measured = number["batches"] < len(world.commits_s)
        real["cost_s"] = world.commits_s[number["batches"]] if is_measured else rules.commit_s
        real["committed_s"] = real["time_s"] + real["cost_s"]
    if number["committing"]:
        if left == 0:
            real["time_s"] = max(real["time_s"], real["committed_s"])  # nothing else happens meanwhile
        if real["time_s"] < real["committed_s"]:
            return True
        _learn_first(world, frontier, rules, calls)
        if number["visits"] - number["held"] >= limit:
            return False
    outstanding = left + number["learnt_anew"] * number["held"]  # come meanwhile, and nobody has looked at them
    number["learnt_anew"] = 0
    is_idle, is_time = number["active"] < rules.connections // 2, real["time_s"] - real["topped_s"] >= pacing.TOP_UP_S
    if _is_top_up_due(outstanding, rules.width, number["starving"] > 0, is_idle, is_time):
        real["topped_s"] = real["time_s"]
        before = bench.counts[1]
        _batch(world, frontier, bench, rules, calls.host_rank, rules.width - outstanding, rules.soon)
        half = rules.width // 2 + 1 - (outstanding + bench.counts[1] - before)
        if rules.later > rules.soon:
            _batch(world, frontier, bench, rules, calls.host_rank, half, rules.later)
        number["starving"] = outstanding + bench.counts[1] - before <= rules.width // 2
    return bench.counts[1] + number["active"] + number["held"] > 0


@njit
def _is_round_over(world: World, bench: Queues, rules: Rules, left: int) -> bool:
    number, real = world.number, world.real
    if number["held"] == 0:
        return False
    if number["held"] >= rules.width or left == 0:
        return True
    is_idle = number["active"] < rules.connections // 2
    since_s = real["time_s"] - real["learnt_s"]
    if since_s < pacing.STARVING_S or not (number["starving"] or is_idle):
        return False
    return _ends_early(number["starving"] > 0, is_idle, _promises(world, bench), since_s, real["cost_s"])


@njit
def _promises(world: World, bench: Queues) -> bool:
    """As `crawl/scheduler.py` sees it: the round has found pages of hosts that nothing is asked of now."""
    held = world.held[: world.number["held"]]
    waiting = world.taken.copy()  # of hosts: pages taken out that have not come back
    for page in held:
        waiting[bench.host[page]] -= 1
    for page in held:
        for target in world.indices[world.indptr[page] : world.indptr[page + 1]]:
            if world.state[target] == UNKNOWN and waiting[bench.host[target]] <= 0:
                return True
    return False


@njit
def _learn_first(world: World, frontier: Queues, rules: Rules, calls: Calls) -> None:
    """Apply the round that was being committed; what has come since belongs to the next."""
    number = world.number
    later = world.held[number["committing"] : number["held"]].copy()
    number["held"] = number["committing"]
    learn(world, frontier, rules, calls)
    world.held[: len(later)] = later
    number["held"] = len(later)
    number["committing"] = number["starving"] = 0  # there may be new pages
    world.real["learnt_s"] = world.real["committed_s"]
    world.real["topped_s"] = -np.inf
    number["learnt_anew"] = 1  # scores may be computed now; then the workbench is looked at, before what has come
