"""A crawl in virtual time, compiled: connections, delays, bandwidth, batches, and what each visit teaches.

What a visit does to the columns is what `crawl/update.py` does, page for page: the parity experiment holds the two
to the same order. Ranks come from the strategy's own functions, compiled as they are.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from gossamer.columns import HOST, LINK, PAGE, Status
from gossamer.lab.queues import F8, I4, Queues, best_rank, place_host, pop, put

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Aligned, unlike the index's own: compiled code wants it so.
PAGE_ROW = np.dtype([*PAGE.numpy.descr, ("score", "f8")], align=True)
HOST_ROW = np.dtype(HOST.numpy.descr, align=True)
LINK_ROW = np.dtype(LINK.numpy.descr, align=True)

# As in crawl/agent.py
TOP_UP_S = 0.5  # how often a workbench that is more than half full is topped up
STARVING_S, STARVING_COSTS = 0.25, 4.0  # when a round with too few pages to fetch ends: so long after the last commit,
IDLE_S, IDLE_COSTS = 2.0, 10.0  # or so many times what that took; and one with idle connections

KEPT_LATENCY = 0.5  # of a page on a connection that is open already: one round trip instead of two
UNKNOWN, QUEUED, TAKEN_OUT = 0, 1, 2  # taken out of the frontier: to the workbench, on its way, or visited
AT_REST, WAITING, RECEIVING = 0, 1, 2
NOTHING, SUM, PARENT = 0, 1, 2  # what a page without a score of its own gets from the pages that link to it

# Places in World.number
VISITS, KNOWN, V, POOL, ACTIVE, HELD, CHANGES, DRAINING, BATCHES, BATCH_START, TAKEN, STARVING = range(12)
COMMITTING, LESSONS = 12, 13
NUMBERS = 14
# Places in World.real
TIME, VIRTUAL_TIME, SPEEDS, LEARNT, TOPPED, COMMITTED, COST = range(7)
REALS = 7


class World(NamedTuple):
    """The graph, and how far the crawl has come."""

    indptr: I8
    indices: I4
    relevance: F8  # of links, to the topic; empty if there is none
    pages: npt.NDArray[np.void]  # PAGE_ROW
    hosts: npt.NDArray[np.void]  # HOST_ROW
    state: npt.NDArray[np.uint8]  # of pages
    taken: I4  # of hosts: pages taken out and not yet learnt from
    scored: Mask  # pages with a score that links do not change
    page_bytes: F8
    latency_s: F8  # of hosts
    pace_s: F8  # or of the first, second, ... request to each host, as they were measured
    pace_first: I8  # where a host's begin
    asked: I4  # of hosts: requests so far
    commits_s: F8  # what the commit of the seeds took, of the first round, the second, ...
    speed: F8  # of hosts, bytes per second
    number: I8
    real: F8
    held: I4  # visited, and not yet learnt from
    order: I4  # pages as they were visited
    time_s: F8  # when
    active_s: F8  # when the number of connections changed ...
    active: I4  # ... and what it became
    batch_of: I4  # for each visit


class Hosts(NamedTuple):
    """What each host's connection is doing. A host has at most one event ahead."""

    phase: npt.NDArray[np.uint8]
    page: I4  # on its way
    served: I4  # pages on this connection
    due: F8  # end of the phase: real time, or virtual time for what is being received
    waiting: I4  # heap of hosts by due
    receiving: I4  # heap of hosts by due in virtual time
    sizes: I8  # of the two


class Rules(NamedTuple):
    connections: int
    delay_s: float
    small_delay_s: float
    small_pages: int
    burst: int
    burst_delay_s: float
    bandwidth: float  # bytes per second, 0: no limit
    width: int  # pages of a batch, 0: none, what a page teaches is known at once
    early: float  # end a batch when less than this part of the connections is busy
    advance: float  # prepare the next when no more than this part of a batch is left
    host_first: bool
    virtual: bool
    damping_num: int
    damping_den: int
    gift: int
    weighted: bool
    seed: int
    soon: int  # pages of a host that are taken out while there are others; 0: as many as there are
    later: int  # and where there are not
    rounds: bool  # as production makes them (see `_make_rounds`), instead of batches
    commit_s: float  # what a commit takes that was not measured


# --- a heap of hosts by time


@njit(cache=True, inline="always")
def _sooner(due: F8, a: int, b: int) -> bool:
    return due[a] < due[b] or (due[a] == due[b] and a < b)


@njit(cache=True)
def _push(heap: I4, sizes: I8, which: int, due: F8, host: int) -> None:
    at = sizes[which]
    sizes[which] += 1
    while at > 0:
        up = (at - 1) >> 1
        if not _sooner(due, host, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = host


@njit(cache=True)
def _pull(heap: I4, sizes: I8, which: int, due: F8) -> int:
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


# --- what visits teach


@njit(cache=True)
def _links_of(world: World, page: int, rules: Rules, link_weight: Any, shares: I8, passed: int) -> int:
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


@njit(cache=True)
def learn(
    world: World,
    frontier: Queues,
    rules: Rules,
    page_rank: Any,
    host_rank: Any,
    link_weight: Any,
    touched: I4,
    mark: I4,
) -> None:
    """Apply the visits that are held: links become known, cash is passed on, ranks change."""
    pages, hosts, number, state = world.pages, world.hosts, world.number, world.state
    held = number[HELD]
    passed = np.empty(held, np.int64)
    depths = np.empty(held, np.uint8)
    widest = 1
    for i in range(held):  # as they were before the round, all of them
        page = world.held[i]
        passed[i] = pages[page]["cash"] + number[V]
        depths[i] = min(pages[page]["depth"] + 1, 255)
        pages[page]["cash"] = -number[V]
        pages[page]["status"] = Status.FETCHED
        hosts[frontier.host[page]]["visited"] += 1
        world.taken[frontier.host[page]] -= 1
        number[POOL] += passed[i]
        widest = max(widest, world.indptr[page + 1] - world.indptr[page])
    shares = np.empty(widest, np.int64)
    count = 0
    number[LESSONS] += 1
    stamp = np.int32(number[LESSONS])
    for i in range(held):
        page = world.held[i]
        degree = _links_of(world, page, rules, link_weight, shares, passed[i])
        gift = pages[page]["score"] / max(degree, 1)
        for j in range(degree):
            target = world.indices[world.indptr[page] + j]
            row = pages[target]
            row["cash"] += shares[j]
            number[POOL] -= shares[j]
            is_new = state[target] == UNKNOWN
            if is_new:
                state[target] = QUEUED
                row["text"] = number[KNOWN]
                row["cash"] -= number[V]
                row["depth"] = depths[i]
                number[KNOWN] += 1
                hosts[frontier.host[target]]["known"] += 1
            row["hits"] += 1
            row["depth"] = min(row["depth"], depths[i])
            if not world.scored[target] and (rules.gift == SUM or (rules.gift == PARENT and is_new)):
                row["score"] += gift
            if mark[target] != stamp:
                mark[target] = stamp
                touched[count] = target
                count += 1
    if rules.virtual and number[KNOWN]:
        each = number[POOL] // number[KNOWN]
        number[V] += each
        number[POOL] -= each * number[KNOWN]
    number[HELD] = 0
    _rank(world, frontier, rules, page_rank, touched[:count])
    last = -1
    for i in range(held + count):
        host = frontier.host[world.held[i] if i < held else touched[i - held]]
        if host != last:  # most links of a page lead to one host
            place(world, frontier, rules, host_rank, host)
        last = host


@njit(cache=True)
def _rank(world: World, frontier: Queues, rules: Rules, page_rank: Any, touched: I4) -> None:
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


@njit(cache=True)
def place(world: World, frontier: Queues, rules: Rules, host_rank: Any, host: int) -> None:
    if frontier.size[host] == 0:
        place_host(frontier, host, 0.0)
    elif rules.host_first:
        place_host(frontier, host, host_rank(world.hosts[host : host + 1])[0] - world.taken[host])
    else:
        place_host(frontier, host, best_rank(frontier, host))


def rank_anew(world: World, frontier: Queues, rules: Rules, page_rank: Any, host_rank: Any) -> None:
    """Scores changed: every queued page and host gets its rank again."""
    queued = np.flatnonzero(frontier.place >= 0).astype(np.int32)
    _rank(world, frontier, rules, page_rank, queued)
    for host in range(len(frontier.size)):
        place(world, frontier, rules, host_rank, host)


# --- batches


@njit(cache=True)
def _take(world: World, frontier: Queues, rules: Rules, host_rank: Any, host: int) -> int:
    """The best page of a host leaves the frontier."""
    page = pop(frontier, host)
    world.state[page] = TAKEN_OUT
    world.taken[host] += 1
    world.number[TAKEN] += 1
    place(world, frontier, rules, host_rank, host)
    return page


@njit(cache=True)
def _batch(world: World, frontier: Queues, bench: Queues, rules: Rules, host_rank: Any, room: int, cap: int) -> None:
    """Move the best pages to the workbench, no more than `cap` of a host (0: no limit). There better ones that come
    later overtake; where hosts are ranked, whose ranks change all the time, the order of taking stays."""
    shut = False
    while room > 0 and frontier.count[0]:
        host = frontier.hosts[0]
        if 0 < cap <= world.taken[host]:
            frontier.open[host] = False
            place_host(frontier, host, 0.0)
            shut = True
            continue
        rank = -float(world.number[TAKEN]) if rules.host_first else best_rank(frontier, host)
        put(bench, _take(world, frontier, rules, host_rank, host), rank)
        place_host(bench, host, best_rank(bench, host))
        room -= 1
    if shut:
        for host in range(len(frontier.open)):
            if not frontier.open[host]:
                frontier.open[host] = True
                place(world, frontier, rules, host_rank, host)


@njit(cache=True)
def _give_back(world: World, frontier: Queues, bench: Queues, rules: Rules, page_rank: Any, host_rank: Any) -> None:
    """What was not visited returns to the frontier."""
    for host in range(len(bench.size)):
        back = np.empty(bench.size[host], np.int32)
        for i in range(len(back)):
            back[i] = pop(bench, host)
            world.state[back[i]] = QUEUED
        if len(back):
            world.taken[host] -= len(back)
            place_host(bench, host, 0.0)
            _rank(world, frontier, rules, page_rank, back)
            place(world, frontier, rules, host_rank, host)


# --- connections


@njit(cache=True)
def _request(world: World, hosts: Hosts, host: int, page: int, wait_s: float) -> None:
    hosts.page[host] = page
    hosts.phase[host] = WAITING
    hosts.due[host] = world.real[TIME] + wait_s
    _push(hosts.waiting, hosts.sizes, 0, hosts.due, host)


@njit(cache=True)
def _count_active(world: World, change: int) -> None:
    number = world.number
    number[ACTIVE] += change
    if number[CHANGES] < len(world.active):
        world.active_s[number[CHANGES]] = world.real[TIME]
        world.active[number[CHANGES]] = number[ACTIVE]
        number[CHANGES] += 1


@njit(cache=True)
def _next_page(world: World, bench: Queues, rules: Rules, host_rank: Any, host: int) -> int:
    return pop(bench, host) if rules.width else _take(world, bench, rules, host_rank, host)


@njit(cache=True)
def _latency_s(world: World, host: int) -> float:
    at = world.pace_first[host] + world.asked[host]
    world.asked[host] += 1
    return world.pace_s[at] if at < world.pace_first[host + 1] else world.latency_s[host]


@njit(cache=True)
def _connect(world: World, hosts: Hosts, bench: Queues, rules: Rules, host_rank: Any) -> None:
    """Start as many connections as there may be, to the best hosts."""
    while world.number[ACTIVE] < rules.connections and bench.count[0]:
        host = bench.hosts[0]
        bench.open[host] = False
        page = _next_page(world, bench, rules, host_rank, host)
        place_host(bench, host, 0.0)
        hosts.served[host] = 1
        _count_active(world, 1)
        _request(world, hosts, host, page, _latency_s(world, host))


@njit(cache=True)
def _scale(world: World, rules: Rules) -> float:
    """How much slower than it could everybody receives because our link is full."""
    speeds = world.real[SPEEDS]
    return rules.bandwidth / speeds if 0 < rules.bandwidth < speeds else 1.0


@njit(cache=True)
def _next_event(world: World, hosts: Hosts, rules: Rules) -> int:
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


@njit(cache=True)
def _rest_s(world: World, rules: Rules, host: int) -> float:
    if rules.small_delay_s > 0 and world.hosts[host]["known"] < rules.small_pages:
        return rules.small_delay_s
    return rules.delay_s


@njit(cache=True)
def _finish(world: World, hosts: Hosts, host: int) -> None:
    """A page has come."""
    page = hosts.page[host]
    number = world.number
    number[HELD] += 1
    world.held[number[HELD] - 1] = page
    world.order[number[VISITS]] = page
    world.time_s[number[VISITS]] = world.real[TIME]
    world.batch_of[number[VISITS]] = number[BATCHES]
    number[VISITS] += 1


@njit(cache=True)
def _move_on(world: World, hosts: Hosts, bench: Queues, rules: Rules, host_rank: Any, host: int) -> bool:
    """After a page: go on with this connection, or close it. True if the host is open again at once."""
    if hosts.served[host] < rules.burst and bench.size[host] and not world.number[DRAINING]:
        hosts.served[host] += 1
        wait_s = rules.burst_delay_s + KEPT_LATENCY * world.latency_s[host]
        _request(world, hosts, host, _next_page(world, bench, rules, host_rank, host), wait_s)
        return False
    _count_active(world, -1)
    rest_s = _rest_s(world, rules, host)
    hosts.phase[host] = AT_REST
    if rest_s <= 0:
        return True
    hosts.due[host] = world.real[TIME] + rest_s
    _push(hosts.waiting, hosts.sizes, 0, hosts.due, host)
    return False


@njit(cache=True)
def _open(world: World, bench: Queues, rules: Rules, host_rank: Any, host: int) -> None:
    bench.open[host] = True
    if rules.width:
        place_host(bench, host, best_rank(bench, host) if bench.size[host] else 0.0)
    else:
        place(world, bench, rules, host_rank, host)


def run(
    world: World,
    hosts: Hosts,
    frontier: Queues,
    bench: Queues,
    rules: Rules,
    page_rank: Any,
    host_rank: Any,
    link_weight: Any,
    limit: int,
) -> bool:
    """Crawl until so many pages have been visited and learnt from. False: nothing is left.

    Without batches the workbench is the frontier itself.
    """
    number = world.number
    touched = np.empty(len(world.pages), np.int32)
    mark = np.full(len(world.pages), -1, np.int32)
    while True:
        if rules.width:
            if not _prepare(world, frontier, bench, rules, page_rank, host_rank, link_weight, touched, mark, limit):
                left = frontier.count[1] + bench.count[1] + number[ACTIVE] + number[HELD]
                return number[VISITS] - number[HELD] >= limit and left > 0
        elif number[VISITS] >= limit:
            return frontier.count[1] > 0 or number[ACTIVE] > 0
        if not number[DRAINING]:
            _connect(world, hosts, bench, rules, host_rank)
        host = _next_event(world, hosts, rules)
        if host < 0:
            if rules.width and (bench.count[1] or frontier.count[1] or number[HELD]):
                continue
            return False
        if hosts.phase[host] == AT_REST:
            _open(world, bench, rules, host_rank, host)
        elif hosts.phase[host] == WAITING:
            hosts.phase[host] = RECEIVING
            hosts.due[host] = world.real[VIRTUAL_TIME] + world.page_bytes[hosts.page[host]] / world.speed[host]
            world.real[SPEEDS] += world.speed[host]
            _push(hosts.receiving, hosts.sizes, 1, hosts.due, host)
        else:
            world.real[SPEEDS] = max(world.real[SPEEDS] - world.speed[host], 0.0) if hosts.sizes[1] else 0.0
            _finish(world, hosts, host)
            if not rules.width:
                learn(world, frontier, rules, page_rank, host_rank, link_weight, touched, mark)
            if _move_on(world, hosts, bench, rules, host_rank, host):
                _open(world, bench, rules, host_rank, host)


@njit(cache=True)
def _prepare(
    world: World,
    frontier: Queues,
    bench: Queues,
    rules: Rules,
    page_rank: Any,
    host_rank: Any,
    link_weight: Any,
    touched: I4,
    mark: I4,
    limit: int,
) -> bool:
    """Batches: learn and choose when it is time. False: the limit is reached, or nothing is left."""
    number = world.number
    if rules.rounds:
        return _make_rounds(world, frontier, bench, rules, page_rank, host_rank, link_weight, touched, mark, limit)
    left = bench.count[1] + number[ACTIVE]
    if rules.advance > 0:
        due = left <= rules.advance * rules.width
    else:
        # A page on its way may still leave its host to others, so a batch is over when all connections are closed.
        due = left == 0
        is_idle = number[ACTIVE] < rules.early * rules.connections and bench.count[0] == 0
        # Not before a tenth of it has been visited: choosing costs too.
        if is_idle and bench.count[1] and 10 * (number[VISITS] - number[BATCH_START]) >= rules.width:
            number[DRAINING] = 1
        if number[DRAINING] and number[ACTIVE] == 0:
            _give_back(world, frontier, bench, rules, page_rank, host_rank)
            due = True
    if not due:
        return True
    if number[HELD]:
        learn(world, frontier, rules, page_rank, host_rank, link_weight, touched, mark)
    number[DRAINING] = 0
    if number[VISITS] >= limit:
        return False
    number[BATCH_START] = number[VISITS]
    room = rules.width - (bench.count[1] + number[ACTIVE])
    number[BATCHES] += room > 0 and frontier.count[0] > 0
    _batch(world, frontier, bench, rules, host_rank, room, rules.later)
    return bench.count[1] + number[ACTIVE] > 0


@njit(cache=True)
def _make_rounds(
    world: World,
    frontier: Queues,
    bench: Queues,
    rules: Rules,
    page_rank: Any,
    host_rank: Any,
    link_weight: Any,
    touched: I4,
    mark: I4,
    limit: int,
) -> bool:
    """As `crawl/agent.py` does it: what was visited is learnt when a round is over, while the workbench is topped up
    whenever it is half empty. False: the limit is reached, or nothing is left."""
    number, real = world.number, world.real
    left, waiting = bench.count[1] + number[ACTIVE], 0
    if not number[COMMITTING] and _is_round_over(number, real, rules, left):
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
        _learn_first(world, frontier, rules, page_rank, host_rank, link_weight, touched, mark)
        waiting = number[HELD]  # come meanwhile, and nobody has looked at them
        if number[VISITS] - number[HELD] >= limit:
            return False
    is_idle = number[ACTIVE] < rules.connections // 2
    is_low = left + waiting <= rules.width // 2 and not number[STARVING]
    if is_low or ((number[STARVING] or is_idle) and real[TIME] - real[TOPPED] >= TOP_UP_S):
        real[TOPPED] = real[TIME]
        _batch(world, frontier, bench, rules, host_rank, rules.width - left - waiting, rules.soon)
        half = rules.width // 2 + 1 - (bench.count[1] + number[ACTIVE] + waiting)
        if rules.later > rules.soon:
            _batch(world, frontier, bench, rules, host_rank, half, rules.later)
        number[STARVING] = bench.count[1] + number[ACTIVE] + waiting <= rules.width // 2
    return bench.count[1] + number[ACTIVE] + number[HELD] > 0


@njit(cache=True)
def _is_round_over(number: I8, real: F8, rules: Rules, left: int) -> bool:
    if number[HELD] == 0:
        return False
    if number[HELD] >= rules.width or left == 0:
        return True
    since_s = real[TIME] - real[LEARNT]
    if number[STARVING]:
        return since_s >= max(STARVING_S, STARVING_COSTS * real[COST])
    return number[ACTIVE] < rules.connections // 2 and since_s >= max(IDLE_S, IDLE_COSTS * real[COST])


@njit(cache=True)
def _learn_first(
    world: World,
    frontier: Queues,
    rules: Rules,
    page_rank: Any,
    host_rank: Any,
    link_weight: Any,
    touched: I4,
    mark: I4,
) -> None:
    """Apply the round that was being committed; what has come since belongs to the next."""
    number = world.number
    later = world.held[number[COMMITTING] : number[HELD]].copy()
    number[HELD] = number[COMMITTING]
    learn(world, frontier, rules, page_rank, host_rank, link_weight, touched, mark)
    world.held[: len(later)] = later
    number[HELD] = len(later)
    number[COMMITTING] = number[STARVING] = 0  # there may be new pages
    world.real[LEARNT] = world.real[COMMITTED]
