"""These compiled functions are connections in virtual time: latency, transfers that share our link, bursts, rests."""

from typing import Any

import numpy as np
from numba import njit

from gossamer.arrays import F64, I32
from gossamer.sim.learning import place, take_out
from gossamer.sim.queues import Queues, best_rank, inlined, place_host, pop, settling
from gossamer.sim.world import AT_REST, KEPT_LATENCY, RECEIVING, WAITING, Hosts, Rules, World

# --- a heap of hosts by time


@njit(inline="always")
def _sooner(due: F64, a: int, b: int) -> bool:
    return due[a] < due[b] or (due[a] == due[b] and a < b)


_settle = settling(_sooner)


@inlined
def _push(heap: I32, hosts: Hosts, which: int, host: int) -> None:
    at = hosts.sizes[which]
    heap[at] = host
    hosts.sizes[which] += 1
    _settle(hosts.due, heap, hosts.place, 0, at, at + 1)


@inlined
def _pull(heap: I32, hosts: Hosts, which: int) -> int:
    first = heap[0]
    hosts.sizes[which] -= 1
    size = hosts.sizes[which]
    if size:
        heap[0] = heap[size]
        _settle(hosts.due, heap, hosts.place, 0, 0, size)
    return first


# --- connections


@inlined
def _request(world: World, hosts: Hosts, host: int, page: int, wait_s: float) -> None:
    hosts.page[host] = page
    hosts.phase[host] = WAITING
    hosts.due[host] = world.real["time_s"] + wait_s
    _push(hosts.waiting, hosts, 0, host)


@inlined
def _count_active(world: World, change: int) -> None:
    number = world.number
    number["active"] += change
    if number["changes"] < len(world.active):
        world.active_s[number["changes"]] = world.real["time_s"]
        world.active[number["changes"]] = number["active"]
        number["changes"] += 1


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
    while world.number["active"] < rules.connections and bench.counts[0]:
        host = bench.hosts[0]
        bench.open[host] = False
        page = _next_page(world, bench, rules, host_rank, host)
        place_host(bench, host, 0.0)
        hosts.served[host] = 1
        _count_active(world, 1)
        _request(world, hosts, host, page, _latency_s(world, host, world.real["time_s"] <= hosts.due[host]))


@inlined
def _scale(world: World, rules: Rules) -> float:
    """How much slower than it could everybody receives because our link is full."""
    speeds = world.real["speeds"]
    return rules.bandwidth / speeds if 0 < rules.bandwidth < speeds else 1.0


@inlined
def next_event(world: World, hosts: Hosts, rules: Rules) -> int:
    """Let time pass until something happens. Returns the host, -1 if nothing is ahead."""
    real, sizes = world.real, hosts.sizes
    waits_until = hosts.due[hosts.waiting[0]] if sizes[0] else np.inf
    scale = _scale(world, rules)
    received_at = np.inf
    if sizes[1]:
        received_at = real["time_s"] + max(hosts.due[hosts.receiving[0]] - real["virtual_s"], 0.0) / scale
    if waits_until == np.inf and received_at == np.inf:
        return -1
    now_s = max(min(waits_until, received_at), real["time_s"])
    real["virtual_s"] += (now_s - real["time_s"]) * scale
    real["time_s"] = now_s
    if waits_until <= received_at:
        return _pull(hosts.waiting, hosts, 0)
    return _pull(hosts.receiving, hosts, 1)


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
    number["held"] += 1
    world.held[number["held"] - 1] = page
    world.order[number["visits"]] = page
    world.time_s[number["visits"]] = world.real["time_s"]
    world.batch_of[number["visits"]] = number["batches"]
    number["visits"] += 1


@inlined
def move_on(world: World, hosts: Hosts, bench: Queues, rules: Rules, host_rank: Any, host: int) -> bool:
    """After a page: go on with this connection, or close it. True if the host is open again at once."""
    if hosts.served[host] < rules.burst and bench.size[host] and not world.number["draining"]:
        hosts.served[host] += 1
        wait_s = rules.burst_delay_s + KEPT_LATENCY * world.latency_s[host]
        _request(world, hosts, host, _next_page(world, bench, rules, host_rank, host), wait_s)
        return False
    _count_active(world, -1)
    rest_s = _rest_s(world, rules, host)
    hosts.phase[host] = AT_REST
    hosts.due[host] = world.real["time_s"] + rest_s
    if rest_s <= 0:
        return True
    _push(hosts.waiting, hosts, 0, host)
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
    hosts.due[host] = world.real["virtual_s"] + world.page_bytes[hosts.page[host]] / world.speed[host]
    world.real["speeds"] += world.speed[host]
    _push(hosts.receiving, hosts, 1, host)
