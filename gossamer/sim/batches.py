"""This module decides when a simulated crawl learns and chooses: in batches (Castillo 2004) or in rounds."""

from typing import Any

import numpy as np
from numba import njit

from gossamer.crawl import pacing
from gossamer.sim.learning import learn, place, rank_pages, take_out
from gossamer.sim.queues import Queues, best_rank, place_host, pop, put
from gossamer.sim.world import (
    ACTIVE,
    BATCH_START,
    BATCHES,
    COMMITTED,
    COMMITTING,
    COST,
    DRAINING,
    HELD,
    LEARNT,
    LEARNT_ANEW,
    QUEUED,
    STARVING,
    TAKEN,
    TIME,
    TOPPED,
    UNKNOWN,
    VISITS,
    Calls,
    Rules,
    World,
)

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
        rank = -float(world.number[TAKEN]) if rules.host_first else best_rank(frontier, host)
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
    left = bench.counts[1] + number[ACTIVE]
    if rules.advance > 0:
        due = left <= rules.advance * rules.width
    else:
        # A page on its way may still leave its host to others, so a batch is over when all connections are closed.
        due = left == 0
        is_idle = number[ACTIVE] < rules.early * rules.connections and bench.counts[0] == 0
        # Not before a tenth of it has been visited: choosing costs too.
        if is_idle and bench.counts[1] and 10 * (number[VISITS] - number[BATCH_START]) >= rules.width:
            number[DRAINING] = 1
        if number[DRAINING] and number[ACTIVE] == 0:
            _give_back(world, frontier, bench, rules, calls)
            due = True
    if not due:
        return True
    if number[HELD]:
        learn(world, frontier, rules, calls)
    number[DRAINING] = 0
    if number[VISITS] >= limit:
        return False
    number[BATCH_START] = number[VISITS]
    room = rules.width - (bench.counts[1] + number[ACTIVE])
    number[BATCHES] += room > 0 and frontier.counts[0] > 0
    _batch(world, frontier, bench, rules, calls.host_rank, room, rules.later)
    return bench.counts[1] + number[ACTIVE] > 0


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
    left = bench.counts[1] + number[ACTIVE]
    if not (number[COMMITTING] or number[LEARNT_ANEW]) and _is_round_over(world, bench, rules, left):
        number[COMMITTING] = min(number[HELD], rules.width)
        number[BATCHES] += 1
        is_measured = number[BATCHES] < len(world.commits_s)
        real[COST] = world.commits_s[number[BATCHES]] if is_measured else rules.commit_s
        real[COMMITTED] = real[TIME] + real[COST]
    if number[COMMITTING]:
        if left == 0:
            real[TIME] = max(real[TIME], real[COMMITTED])  # nothing else happens meanwhile
        if real[TIME] < real[COMMITTED]:
            return True
        _learn_first(world, frontier, rules, calls)
        if number[VISITS] - number[HELD] >= limit:
            return False
    outstanding = left + number[LEARNT_ANEW] * number[HELD]  # come meanwhile, and nobody has looked at them
    number[LEARNT_ANEW] = 0
    is_idle, is_time = number[ACTIVE] < rules.connections // 2, real[TIME] - real[TOPPED] >= pacing.TOP_UP_S
    if _is_top_up_due(outstanding, rules.width, number[STARVING] > 0, is_idle, is_time):
        real[TOPPED] = real[TIME]
        before = bench.counts[1]
        _batch(world, frontier, bench, rules, calls.host_rank, rules.width - outstanding, rules.soon)
        half = rules.width // 2 + 1 - (outstanding + bench.counts[1] - before)
        if rules.later > rules.soon:
            _batch(world, frontier, bench, rules, calls.host_rank, half, rules.later)
        number[STARVING] = outstanding + bench.counts[1] - before <= rules.width // 2
    return bench.counts[1] + number[ACTIVE] + number[HELD] > 0


@njit
def _is_round_over(world: World, bench: Queues, rules: Rules, left: int) -> bool:
    number, real = world.number, world.real
    if number[HELD] == 0:
        return False
    if number[HELD] >= rules.width or left == 0:
        return True
    is_idle = number[ACTIVE] < rules.connections // 2
    since_s = real[TIME] - real[LEARNT]
    if since_s < pacing.STARVING_S or not (number[STARVING] or is_idle):
        return False
    return _ends_early(number[STARVING] > 0, is_idle, _promises(world, bench), since_s, real[COST])


@njit
def _promises(world: World, bench: Queues) -> bool:
    """As `crawl/supply.py` sees it: the round has found pages of hosts that nothing is asked of now."""
    held = world.held[: world.number[HELD]]
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
    later = world.held[number[COMMITTING] : number[HELD]].copy()
    number[HELD] = number[COMMITTING]
    learn(world, frontier, rules, calls)
    world.held[: len(later)] = later
    number[HELD] = len(later)
    number[COMMITTING] = number[STARVING] = 0  # there may be new pages
    world.real[LEARNT] = world.real[COMMITTED]
    world.real[TOPPED] = -np.inf
    number[LEARNT_ANEW] = 1  # scores may be computed now; then the workbench is looked at, before what has come
