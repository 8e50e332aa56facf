"""`Dispatch` decides which client scans which website next: a state machine without I/O, from events to what to begin.

The same machine runs live scans and simulated ones. Modes differ only in where websites wait:

    round-robin   all in one queue, in the order of the list: the next one to the next free client
    batch         each in the queue of the client that the plan gives it to
    dynamic       large ones as in batch; small ones in one queue, for whoever finishes first
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gossamer.arrays import F64, I64
from gossamer.scan.planners import plan
from gossamer.scan.task import task

SMALL = 0.01  # of the planned makespan: so long may a website of the reserve take at most
RESERVE = 0.25  # of all work: so much is kept back at most
SLOW = 2.0  # a client that takes so many times longer than forecast has its plan made again


@dataclass
class Dispatch:
    """Websites and clients are numbers. `times_s` are forecasts, one column per client; `slots` says how many websites
    each client scans at a time. `known` are websites with a forecast of their own: the others wait in the common queue,
    since a plan for them would be a guess."""

    times_s: F64
    slots: Sequence[int]
    mode: str = "batch"
    planner: str = "lpt"
    known: I64 | None = None
    pages: F64 | None = None  # for a planner that goes by them
    done: Iterable[int] = ()
    absent: Iterable[int] = ()  # clients that may come later
    queues: list[deque[int]] = field(init=False)
    common: deque[int] = field(init=False)
    running: dict[int, tuple[int, float]] = field(init=False, default_factory=dict)  # website: client, since when
    finished: set[int] = field(init=False)
    alive: set[int] = field(init=False)
    busy: list[int] = field(init=False)  # of each client: how many slots
    pace: F64 = field(init=False)  # of each client: seconds it takes per second of forecast

    def __post_init__(self) -> None:
        clients = self.times_s.shape[1]
        self.queues = [deque() for _ in range(clients)]
        self.common = deque()
        self.finished = set(self.done)
        self.alive = set(range(clients)) - set(self.absent)
        self.busy = [0] * clients
        self.pace = np.ones(clients)
        left = [i for i in range(len(self.times_s)) if i not in self.finished]
        sure = set(left if self.known is None else self.known.tolist()) if self.mode != "round-robin" else set()
        self.common.extend(i for i in left if i not in sure)
        self._give([i for i in left if i in sure], 0.0)
        if self.mode == "dynamic":
            self._keep_back()

    # What happens

    def next(self, client: int, now_s: float) -> int | None:
        """Returns what a client with a free slot begins; None: nothing is left for it."""
        if client not in self.alive or self.busy[client] >= self.slots[client]:
            return None
        found = self._take(client, now_s)
        if found is not None:
            self.running[found] = (client, now_s)
            self.busy[client] += 1
        return found

    def end(self, website: int) -> None:
        """Records that a website has been scanned: no client will scan it again."""
        if website in self.running:
            self.busy[self.running.pop(website)[0]] -= 1
        self.finished.add(website)

    def joined(self, client: int, now_s: float) -> None:
        """Adds a client, for the first time or again: what no client has begun is planned again."""
        self.alive.add(client)
        self.busy[client] = 0
        waiting = sorted(i for queue in self.queues for i in queue)
        for queue in self.queues:
            queue.clear()
        self._give(waiting, now_s)

    def died(self, client: int, now_s: float) -> list[int]:
        """Gives the unfinished websites of a client to the others; returns them."""
        self.alive.discard(client)
        begun = sorted(i for i, (on, _) in self.running.items() if on == client)
        for i in begun:
            del self.running[i]
        lost = [*begun, *self.queues[client]]
        self.queues[client].clear()
        if self.mode == "round-robin":
            self.common.extendleft(reversed(lost))
        else:
            self._give(lost, now_s)
        return lost

    def observe(self, client: int, pace: float, now_s: float) -> bool:
        """Records that a client takes `pace` seconds per second of forecast. Where that is far from what was expected,
        what it has not begun is planned again; returns whether it was."""
        before = float(self.pace[client])
        if max(pace, 1e-9) / before < SLOW and before / max(pace, 1e-9) < SLOW:
            return False
        self.pace[client] = max(pace, 1e-9)
        waiting = list(self.queues[client])
        if not waiting or self.mode == "round-robin":
            return False
        self.queues[client].clear()
        self._give(waiting, now_s)
        return True

    @property
    def is_over(self) -> bool:
        return len(self.finished) == len(self.times_s)

    def left_s(self, client: int, now_s: float) -> float:
        """Returns how long a client will be busy with what it has and will get for sure, all its slots together."""
        own = [self._left(i, client, since, now_s) for i, (on, since) in self.running.items() if on == client]
        own += [float(self.times_s[i, client]) for i in self.queues[client]]
        return float(self.pace[client]) * sum(own) / self.slots[client]

    # What is decided

    def _left(self, website: int, client: int, since_s: float, now_s: float) -> float:
        return max(0.0, float(self.times_s[website, client]) - (now_s - since_s) / float(self.pace[client]))

    def _take(self, client: int, now_s: float) -> int | None:
        if self.queues[client]:
            return self.queues[client].popleft()
        if self.common:
            return self.common.popleft()
        return self._steal(client, now_s) if self.mode == "dynamic" else None

    def _steal(self, client: int, now_s: float) -> int | None:
        """Takes from the queue that would end last its last website, if that ends earlier here."""
        others = [j for j in sorted(self.alive) if j != client and self.queues[j]]
        if not others:
            return None
        victim = max(others, key=lambda j: (self.left_s(j, now_s), -j))
        website = self.queues[victim][-1]
        if self.times_s[website, client] * self.pace[client] >= self.left_s(victim, now_s):
            return None
        return self.queues[victim].pop()

    def _give(self, websites: list[int], now_s: float) -> None:
        """Plans these over the clients that live, each busy with what it has; long ones begin first."""
        if not self.alive:  # whoever comes first
            self.common.extend(websites)
        if not websites or not self.alive:
            return
        column = np.array([j for j in sorted(self.alive) for _ in range(self.slots[j])])
        busy_s = np.array([self.left_s(j, now_s) for j in column.tolist()])
        part = np.array(websites, np.int64)
        times_s = (self.times_s * self.pace)[part][:, column]
        pages = None if self.pages is None else self.pages[part]
        owner = column[plan(task(times_s, busy_s=busy_s, pages=pages), self.planner).owner]
        for j in set(owner.tolist()):
            queue = [*self.queues[j], *part[owner == j].tolist()]
            self.queues[j] = deque(sorted(queue, key=lambda i: (-self.times_s[i, j], i)))

    def _keep_back(self) -> None:
        """Moves small websites of all queues to the reserve, from the smallest up; it is used from the largest down."""
        if not any(self.queues):
            return
        loads = [self.left_s(j, 0.0) for j in sorted(self.alive)]
        small_s = SMALL * max(loads)
        mean_s = self.times_s.mean(axis=1)
        waiting = sorted((float(mean_s[i]), i) for queue in self.queues for i in queue)
        room_s = RESERVE * sum(each for each, _ in waiting)
        reserve = []
        for each_s, i in waiting:
            room_s -= each_s
            if each_s > small_s or room_s < 0:
                break
            reserve.append(i)
        kept = set(reserve)
        self.queues = [deque(i for i in queue if i not in kept) for queue in self.queues]
        self.common.extend(reversed(reserve))
