"""A frontier beside plain dicts that say what it should do, on an index that is committed and opened again."""

import numpy as np
from hypothesis import strategies as st

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.columns import NEVER, PAGE, Status
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import ORDERS

INDEX = config.Index(memory_mb=16)
HOSTS = 12
PLAIN = sorted(name for name, order in ORDERS.items() if order.score is None)  # the row alone says how they rank


def key_of(host, page):
    return (host + 1) << 40 | (page * 0x9E3779B1 + 7) % 2**40


class World:
    """`scale` stretches all times: with 100 nothing is due within a minute, where a frontier that knows only a few
    pages to come (`later`) may be late by design."""

    def __init__(self, order, capacity, later=0, scale=1):
        self.store, self.files, self.number = Memory(), {}, 0
        self.index = PageIndex.open(self.store, self.files, INDEX)
        self.strategy = ORDERS[order]
        self.capacity = capacity
        self.later = later or 10**6
        self.rows, self.committed = {}, {}
        self.scale = scale
        self.now = 1000 * scale
        self.restart()

    def restart(self):
        """A new frontier that knows nothing."""
        self.frontier = self.new_frontier(INDEX, seed=7)
        self.taken = set()

    def new_frontier(self, settings, seed):
        frontier = Frontier(self.index, self.strategy, settings, seed)
        frontier._capacity = self.capacity
        frontier._later._capacity = self.later
        return frontier

    def commit(self):
        self.number += 1
        changes = self.index.flush(self.store, f"a0-{self.number:08d}")
        changes |= self.frontier.flush(self.store, f"a0-{self.number:08d}")
        for kind in {**self.files, **changes.added}:
            names = [*self.files.get(kind, []), *changes.added.get(kind, [])]
            self.files[kind] = [name for name in names if name not in changes.removed.get(kind, [])]
        self.index.release(changes)
        self.committed = dict(self.rows)

    def reopen(self, settings=INDEX, seed=7):
        """What was not committed is lost; the frontier goes on with what was kept."""
        self.rows, self.taken = dict(self.committed), set()
        self.index = PageIndex.open(self.store, self.files, INDEX)
        self.frontier = self.new_frontier(settings, seed)
        self.frontier.restore(self.store, self.files)

    def do(self, step):
        if step[0] == "write":
            self.write(step[1])
        elif step[0] == "take":
            self.take(step[1], step[2])
        elif step[0] == "wait":
            self.now += step[1] * self.scale
        elif step[0] == "reopen":
            self.now += step[1] * self.scale
            self.reopen()
        elif step[0] == "round":
            for part in step[1:]:
                self.do(part)
            self.commit()
        elif step[0] in ("restart", "commit"):
            getattr(self, step[0])()
        elif step[0] == "rank_anew":
            self.frontier.rank_anew()
        else:
            keys = sorted(self.taken)[: step[-1]]
            if step[0] == "settle" and keys:
                self.write(dict.fromkeys(keys, step[1]), settled=keys)
            else:
                self.frontier.settle(np.array(keys, np.uint64))
                self.taken -= set(keys)

    def write(self, content, settled=()):
        """{key: (cash, due, status)}"""
        rows = np.zeros(len(content), PAGE.numpy)
        hosts = {}
        for place, key in enumerate(sorted(content)):
            cash, due_s, status = content[key]
            due_s = due_s if due_s == NEVER else due_s * self.scale
            old = self.rows.get(key)
            text = old["text"] if old is not None else len(self.rows) + 1
            rows[place] = (key, cash, text, abs(cash) % 5, due_s, status, cash % 3, 0, 0)
            was = old is not None and old["status"] not in (Status.NEW, Status.FAILED)
            known, visited = hosts.get(key >> 40, (0, 0))
            is_now = status not in (Status.NEW, Status.FAILED)
            hosts[key >> 40] = (known + (old is None), visited + is_now - was)
            self.rows[key] = rows[place]
        names = np.array(sorted(hosts), np.uint32)
        counts = np.array([hosts[name] for name in sorted(hosts)], np.int64).reshape(-1, 2)
        self.index.hosts.grow(names, names, counts[:, 0], counts[:, 1])
        self.index.pages.write(rows)
        self.taken -= set(settled)
        self.frontier.offer(rows, self.now, settled=np.array(sorted(settled), np.uint64))

    def expected(self, count, per_host):
        due = [k for k, row in self.rows.items() if row["due_s"] <= self.now and k not in self.taken]
        rows = np.array([self.rows[key] for key in due], PAGE.numpy)
        ranks = dict(zip(due, self.strategy.page_rank(rows, 7).tolist(), strict=True))
        room = dict.fromkeys({key >> 40 for key in due}, per_host)
        for key in self.taken:
            if key >> 40 in room:
                room[key >> 40] -= 1
        queues = {}
        for key in sorted(due, key=lambda k: (-ranks[k], k)):
            queues.setdefault(key >> 40, []).append(key)
        for host, queue in queues.items():
            del queue[max(room[host], 0) :]
        if self.strategy.host_rank is None:
            return sorted((k for q in queues.values() for k in q), key=lambda k: (-ranks[k], k))[:count]
        return self.greedy(queues, count)

    def greedy(self, queues, count):
        """One page after the other from the host with most pages that are neither visited nor taken."""
        pending = {}
        for key, row in self.rows.items():
            is_final = row["status"] not in (Status.NEW, Status.FAILED)
            pending[key >> 40] = pending.get(key >> 40, 0) + (not is_final) - (key in self.taken)
        chosen = []
        while len(chosen) < count and any(queues.values()):
            host = min((h for h in queues if queues[h]), key=lambda h: (-pending[h], queues[h][0]))
            chosen.append(queues[host].pop(0))
            pending[host] -= 1
        return chosen

    def take(self, count, per_host):
        expected = self.expected(count, per_host)
        rows = self.frontier.take(count, self.now, per_host)
        assert rows["key"].tolist() == expected
        assert all(rows[i] == self.rows[key] for i, key in enumerate(expected))
        self.taken |= set(expected)
        assert self.frontier.taken.tolist() == sorted(self.taken)


PAGES = st.builds(key_of, st.integers(0, HOSTS), st.integers(0, 12))
VALUE = st.tuples(
    st.integers(-4, 40),
    st.sampled_from([0, 0, 0, 900, 1010, 1200, 9000, NEVER]),
    st.sampled_from([Status.NEW, Status.NEW, Status.FAILED, Status.FETCHED]),
)
WRITE = st.tuples(st.just("write"), st.dictionaries(PAGES, VALUE, min_size=1, max_size=40))
TAKE = st.tuples(st.just("take"), st.integers(1, 30), st.integers(1, 6))
SETTLE = st.tuples(st.just("settle"), VALUE, st.integers(1, 9))
STEPS = (
    WRITE,
    TAKE,
    SETTLE,
    st.tuples(st.just("give_back"), st.integers(1, 9)),
    st.tuples(st.just("wait"), st.sampled_from([1, 15, 300, 9000])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("rank_anew")),
)
