"""These compiled functions are connections in virtual time: latency, transfers that share our link, bursts, rests."""

from typing import Any

import numpy as np
from numba import njit

from gossamer.arrays import F64, I32, I64
from gossamer.sim.learning import place, take_out
from gossamer.sim.queues import Queues, best_rank, inlined, place_host, pop
from gossamer.sim.world import (
    ACTIVE,
    AT_REST,
    BATCHES,
    CHANGES,
    DRAINING,
    HELD,
    KEPT_LATENCY,
    RECEIVING,
    SPEEDS,
    TIME,
    VIRTUAL_TIME,
    VISITS,
    WAITING,
    Hosts,
    Rules,
    World,
)

# --- a heap of hosts by time


@njit(inline="always")
def _sooner(due: F64, a: int, b: int) -> bool:
    return due[a] < due[b] or (due[a] == due[b] and a < b)


@njit
def _push(heap: I32, sizes: I64, which: int, due: F64, host: int) -> None:
    at = sizes[which]
    sizes[which] += 1
    while at > 0:
        up = (at - 1) >> 1
        if not _sooner(due, host, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = host


@njit
def _pull(heap: I32, sizes: I64, which: int, due: F64) -> int:
    first = heap[0]
    sizes[which] -= 1
    size = sizes[which]
    if size:
        host = heap[size]
        at = 0
        while True:
            down = 2 * at + 1
            if down >= size:
                break
            if down + 1 < size and _sooner(due, heap[down + 1], heap[down]):
                down += 1
            if not _sooner(due, heap[down], host):
                break
            heap[at] = heap[down]
            at = down
        heap[at] = host
    return first


# --- connections


@inlined
def _request(world: World, hosts: Hosts, host: int, page: int, wait_s: float) -> None:
    hosts.page[host] = page
    hosts.phase[host] = WAITING
    hosts.due[host] = world.real[TIME] + wait_s
    _push(hosts.waiting, hosts.sizes, 0, hosts.due, host)


@inlined
def _count_active(world: World, change: int) -> None:
    number = world.number
    number[ACTIVE] += change
    if number[CHANGES] < len(world.active):
        world.active_s[number[CHANGES]] = world.real[TIME]
        world.active[number[CHANGES]] = number[ACTIVE]
        number[CHANGES] += 1


@inlined
def _next_page(world: World, bench: Queues, rules: Rules, host_rank: Any, host: int) -> int:
    return pop(bench, host) if rules.width else take_out(world, bench, rules, host_rank, host)


@inlined
def _latency_s(world: World, host: int, is_prompt: bool) -> float:
    at = world.pace_first[host] + world.asked[host]
    world.asked[host] += 1
    if at >= world.pace_first[host + 1]:
        return world.latency_s[host]
    return world.pace_s[at] + (world.lag_s[at] if is_prompt else 0.0)


@inlined
def connect(world: World, hosts: Hosts, bench: Queues, rules: Rules, host_rank: Any) -> None:
    """Start as many connections as there may be, to the best hosts."""
    while world.number[ACTIVE] < rules.connections and bench.counts[0]:
        host = bench.hosts[0]
        bench.open[host] = False
        page = _next_page(world, bench, rules, host_rank, host)
        place_host(bench, host, 0.0)
        hosts.served[host] = 1
        _count_active(world, 1)
        _request(world, hosts, host, page, _latency_s(world, host, world.real[TIME] <= hosts.due[host]))


@inlined
def _scale(world: World, rules: Rules) -> float:
    """How much slower than it could everybody receives because our link is full."""
    speeds = world.real[SPEEDS]
    return rules.bandwidth / speeds if 0 < rules.bandwidth < speeds else 1.0


@inlined
def next_event(world: World, hosts: Hosts, rules: Rules) -> int:
    """Let time pass until something happens. Returns the host, -1 if nothing is ahead."""
    real, sizes = world.real, hosts.sizes
    waits_until = hosts.due[hosts.waiting[0]] if sizes[0] else np.inf
    scale = _scale(world, rules)
    received_at = np.inf
    if sizes[1]:
        received_at = real[TIME] + max(hosts.due[hosts.receiving[0]] - real[VIRTUAL_TIME], 0.0) / scale
    if waits_until == np.inf and received_at == np.inf:
        return -1
    now_s = max(min(waits_until, received_at), real[TIME])
    real[VIRTUAL_TIME] += (now_s - real[TIME]) * scale
    real[TIME] = now_s
    if waits_until <= received_at:
        return _pull(hosts.waiting, sizes, 0, hosts.due)
    return _pull(hosts.receiving, sizes, 1, hosts.due)


@inlined
def _rest_s(world: World, rules: Rules, host: int) -> float:
    if rules.small_delay_s > 0 and world.hosts[host]["known"] < rules.small_pages:
        return rules.small_delay_s
    return rules.delay_s


@inlined
def finish(world: World, hosts: Hosts, host: int) -> None:
    """A page has come."""
    page = hosts.page[host]
    number = world.number
    number[HELD] += 1
    world.held[number[HELD] - 1] = page
    world.order[number[VISITS]] = page
    world.time_s[number[VISITS]] = world.real[TIME]
    world.batch_of[number[VISITS]] = number[BATCHES]
    number[VISITS] += 1


@inlined
def move_on(world: World, hosts: Hosts, bench: Queues, rules: Rules, host_rank: Any, host: int) -> bool:
    """After a page: go on with this connection, or close it. True if the host is open again at once."""
    if hosts.served[host] < rules.burst and bench.size[host] and not world.number[DRAINING]:
        hosts.served[host] += 1
        wait_s = rules.burst_delay_s + KEPT_LATENCY * world.latency_s[host]
        _request(world, hosts, host, _next_page(world, bench, rules, host_rank, host), wait_s)
        return False
    _count_active(world, -1)
    rest_s = _rest_s(world, rules, host)
    hosts.phase[host] = AT_REST
    hosts.due[host] = world.real[TIME] + rest_s
    if rest_s <= 0:
        return True
    _push(hosts.waiting, hosts.sizes, 0, hosts.due, host)
    return False


@njit
def open_host(world: World, bench: Queues, rules: Rules, host_rank: Any, host: int) -> None:
    bench.open[host] = True
    if rules.width:
        place_host(bench, host, best_rank(bench, host) if bench.size[host] else 0.0)
    else:
        place(world, bench, rules, host_rank, host)


@inlined
def answer(world: World, hosts: Hosts, host: int) -> None:
    """Its latency has passed: the host begins to send."""
    hosts.phase[host] = RECEIVING
    hosts.due[host] = world.real[VIRTUAL_TIME] + world.page_bytes[hosts.page[host]] / world.speed[host]
    world.real[SPEEDS] += world.speed[host]
    _push(hosts.receiving, hosts.sizes, 1, hosts.due, host)
