"""These compiled functions apply what visits teach: links become known, cash is passed on, ranks change.

They do what `crawl/update.py` does, page for page: the parity experiment holds the two to the same order. Ranks come
from the strategy's own functions, compiled as they are.
"""

from typing import Any

import numpy as np
from numba import njit

from gossamer.arrays import I32, I64
from gossamer.columns import Status
from gossamer.sim.queues import Queues, best_rank, inlined, place_host, pop, put
from gossamer.sim.world import LINK_ROW, PAGE_ROW, PARENT, QUEUED, SUM, TAKEN_OUT, UNKNOWN, Calls, Rules, World


@inlined
def _links_of(world: World, page: int, rules: Rules, link_weight: Any, shares: I64, passed: int) -> int:
    """What each link of a page carries. Returns how many there are."""
    first, last = world.indptr[page], world.indptr[page + 1]
    count = last - first
    if count == 0:
        return 0
    damped = passed // rules.damping_den * rules.damping_num
    if not rules.weighted:
        shares[:count] = damped // (count + 1 if rules.virtual else count)
        return count
    links = np.zeros(count, LINK_ROW)
    host = world.pages[page]["key"] >> np.uint64(40)
    for i in range(count):
        target = world.indices[first + i]
        links[i]["foreign"] = world.pages[target]["key"] >> np.uint64(40) != host
        if len(world.relevance):
            links[i]["relevance"] = world.relevance[first + i]
    weights = link_weight(links)
    total = weights.sum()
    shares[:count] = damped // max(total, 1) * weights
    return count


@njit
def learn(world: World, frontier: Queues, rules: Rules, calls: Calls) -> None:
    """Apply the visits that are held: links become known, cash is passed on, ranks change."""
    pages, hosts, number, state = world.pages, world.hosts, world.number, world.state
    touched, mark = world.touched, world.mark
    held = number["held"]
    passed = np.empty(held, np.int64)
    depths = np.empty(held, np.uint8)
    scores = np.empty(held, np.float64)
    widest = 1
    for i in range(held):  # as they were before the round, all of them
        page = world.held[i]
        passed[i] = pages[page]["cash"] + number["given"]
        depths[i] = min(pages[page]["depth"] + 1, 255)
        scores[i] = pages[page]["score"]
        pages[page]["cash"] = -number["given"]
        pages[page]["status"] = Status.FETCHED
        hosts[frontier.host[page]]["visited"] += 1
        world.taken[frontier.host[page]] -= 1
        number["pool"] += passed[i]
        widest = max(widest, world.indptr[page + 1] - world.indptr[page])
    shares = np.empty(widest, np.int64)
    count = 0
    number["lessons"] += 1
    stamp = np.int32(number["lessons"])
    for i in range(held):
        page = world.held[i]
        degree = _links_of(world, page, rules, calls.link_weight, shares, passed[i])
        gift = scores[i] / max(degree, 1)
        for j in range(degree):
            target = world.indices[world.indptr[page] + j]
            row = pages[target]
            row["cash"] += shares[j]
            number["pool"] -= shares[j]
            is_new = state[target] == UNKNOWN
            if is_new:
                state[target] = QUEUED
                row["text"] = number["known"]
                row["cash"] -= number["given"]
                row["depth"] = depths[i]
                number["known"] += 1
                hosts[frontier.host[target]]["known"] += 1
            row["hits"] += 1
            row["depth"] = min(row["depth"], depths[i])
            if not world.scored[target] and (rules.gift == SUM or (rules.gift == PARENT and is_new)):
                row["score"] += gift
            if mark[target] != stamp:
                mark[target] = stamp
                touched[count] = target
                count += 1
    if rules.virtual and number["known"]:
        each = number["pool"] // number["known"]
        number["given"] += each
        number["pool"] -= each * number["known"]
    number["held"] = 0
    rank_pages(world, frontier, rules, calls.page_rank, touched[:count])
    last = -1
    for i in range(held + count):
        host = frontier.host[world.held[i] if i < held else touched[i - held]]
        if host != last:  # most links of a page lead to one host
            place(world, frontier, rules, calls.host_rank, host)
        last = host


@inlined
def rank_pages(world: World, frontier: Queues, rules: Rules, page_rank: Any, touched: I32) -> None:
    """Queue those pages that wait for a visit, by what the strategy says of their rows."""
    rows = np.empty(len(touched), PAGE_ROW)
    count = 0
    for page in touched:
        if world.state[page] == QUEUED:
            rows[count] = world.pages[page]
            touched[count] = page
            count += 1
    if count:
        ranks = page_rank(rows[:count], rules.seed)
        for i in range(count):
            put(frontier, touched[i], ranks[i])


@inlined
def place(world: World, frontier: Queues, rules: Rules, host_rank: Any, host: int) -> None:
    if frontier.size[host] == 0:
        place_host(frontier, host, 0.0)
    elif rules.host_first:
        place_host(frontier, host, host_rank(world.hosts[host : host + 1])[0] - world.taken[host])
    else:
        place_host(frontier, host, best_rank(frontier, host))


@inlined
def take_out(world: World, frontier: Queues, rules: Rules, host_rank: Any, host: int) -> int:
    """The best page of a host leaves the frontier."""
    page = pop(frontier, host)
    world.state[page] = TAKEN_OUT
    world.taken[host] += 1
    world.number["taken"] += 1
    place(world, frontier, rules, host_rank, host)
    return page
