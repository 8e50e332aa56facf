"""This module times a link for another agent: published, seen by its owner, in the owner's index, committed.

These are Figures 4 and 5 of Bahrami et al., with the real nats-server, exchange, index and commit. Nobody fetches
anything: agents only write to each other, at random moments. Started as a process, this module is some of these agents
(see `serve`). `cloud_latency` does the same with other queues and tables.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import LINKS, Message
from gossamer.archive.state import AgentState
from gossamer.archive.store import Directory, Store
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server
from gossamer.columns import Contributions
from gossamer.config import Config
from gossamer.crawl.inbox import decode, encode, high_water
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import mentioned
from gossamer.crawl.update import RoundColumns, update
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import strategy
from gossamer.sharing.exchange import Exchange

PROCESSES = 2
_POLL_S = 0.002
_DRAIN_S = 1.0  # how long nothing must come before a measurement is over
_WAIT_S = 60.0
Key = tuple[str, int]  # of a message: stream and number
_KINDS = ("publish", "arrive", "commit", "known", "look_up")


@dataclass(frozen=True)
class Shape:
    seconds: float = 5.0  # of each measurement
    known: int = 50_000  # pages that each agent knows before
    seed: int = 0


@dataclass(frozen=True)
class Point:
    """One measurement. Times in milliseconds."""

    agents: int
    asked_per_s: float  # links published, of all agents
    per_s: float  # as it was
    links: int
    lost: int  # not committed in time
    times: Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]  # publish, arrive, commit, known, look_up

    def mean(self, kind: str) -> float:
        return float(self.times[kind].mean())

    def worst(self, kind: str) -> float:
        """Nineteen of twenty were faster."""
        return float(np.percentile(self.times[kind], 95))


def measure(shape: Shape, counts: Sequence[int], rates: Sequence[float]) -> Iterator[Point]:
    for agents in counts:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            server = Server(Path(scratch) / "site")
            server.start()
            stack.callback(server.stop)
            job = {"address": dict(server.address), "directory": scratch}
            yield from points(stack, shape, job, agents, rates, "experiments.agents_latency")


def points(
    stack: ExitStack, shape: Shape, job: Mapping[str, Any], agents: int, rates: Sequence[float], module: str
) -> Iterator[Point]:
    """Starts the agents, in processes of this module, and yields what they time at each rate."""
    names = [f"a{number}" for number in range(agents)]
    groups = [group for number in range(PROCESSES) if (group := names[number::PROCESSES])]
    jobs = [{**job, "names": names, "mine": group, **asdict(shape)} for group in groups]
    workers = [stack.enter_context(Worker(each, module)) for each in jobs]
    for rate in rates:
        for worker in workers:
            worker.tell(rate / agents)
        yield joined(agents, rate, shape.seconds, [worker.answer() for worker in workers])


def joined(agents: int, rate: float, seconds: float, answers: Sequence[dict[str, Any]]) -> Point:
    """Who published says when, who received says the rest: the clock is the machine's, the same for all. Links that
    travel in one message have its key."""
    sent = [(tuple(key), start_s, end_s) for one in answers for key, start_s, end_s in one["sent"]]
    got = {tuple(key): moments for one in answers for key, *moments in one["got"]}
    times: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for key, start_s, end_s in sent:
        times["publish"].append(end_s - start_s)
        if key in got:
            seen_s, begun_s, done_s = got[key]
            times["arrive"].append(seen_s - start_s)
            times["commit"].append(done_s - begun_s)
            times["known"].append(done_s - start_s)
    times["look_up"] = [taken_s for one in answers for taken_s in one["look_up"]]
    columns = {kind: 1000 * np.array(values or [np.nan]) for kind, values in times.items()}
    lost = sum(key not in got for key, _, _ in sent)
    return Point(agents, rate, len(sent) / seconds, len(sent), lost, columns)


class Worker:
    """A process of a module, with some of the agents: it is given a job, and then rates, or whatever else it serves."""

    def __init__(self, job: Mapping[str, Any], module: str) -> None:
        self._job, self._module = job, module

    def __enter__(self) -> "Worker":
        command = [sys.executable, "-m", self._module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell(self._job)
        self.answer()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(_WAIT_S)

    def tell(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@dataclass
class Notes:
    """What an agent has timed: by stream and number."""

    sent: list[tuple[Key, float, float]] = field(default_factory=list)  # begun, stored
    got: list[tuple[Key, float, float, float]] = field(default_factory=list)  # seen, commit begun, done
    look_up: list[float] = field(default_factory=list)


class Peer:
    """An agent that fetches nothing: it writes links to others, and takes in those that come."""

    drain_s = _DRAIN_S

    def __init__(self, job: Mapping[str, Any], name: str) -> None:
        self._news, self._closing = threading.Event(), ExitStack()
        self._name, self._others = name, [other for other in job["names"] if other != name] or [name]
        self._random = random.Random(f"{job['seed']} {name}")
        self._store, self._exchange = self._connect(job)
        # Whoever has all zones is alone, and sweeps what others of the same archive are writing.
        number, agents = job["names"].index(name), len(job["names"])
        zones = range(ZONES_IN_ALL * number // agents, ZONES_IN_ALL * (number + 1) // agents)
        self._chain = Chain.open(self._store, name, self._exchange, zones)
        self._index = PageIndex.open(self._store, self._chain.files, Config().index)
        self._ledger, self._order = Ledger(), strategy("opic")
        self._limits = Config().replace({"limits.hosts_per_domain": 0}).limits
        self._numbers: dict[str, int] = {}
        self._keys = np.zeros(0, np.uint64)
        urls = job.get("urls") or [f"http://h{page % 997}.{name}.test/{page}" for page in range(job["known"])]
        self._take([], mentioned(urls))
        self._keys = np.concatenate([rows["key"] for rows in self._index.pages.scan()])

    def _connect(self, job: Mapping[str, Any]) -> tuple[Store, Exchange]:
        wire = Wire(job["address"])
        wire.wait_up(_WAIT_S)
        self._closing.callback(wire.close)
        exchange = NatsExchange(wire, self._name)
        self._closing.callback(exchange.close)
        return Directory.prepare(Path(job["directory"]) / self._name, time.time()), exchange

    def run(self, rate: float, until_s: float) -> Notes:
        """Writes at random moments, so many a second, and takes in what comes; also afterwards, while it comes."""
        notes, seen, over = Notes(), dict[Key, float](), threading.Event()
        end_s = until_s + self.drain_s
        others = [
            threading.Thread(target=self._write, args=(rate, until_s, notes)),
            threading.Thread(target=self._watch, args=(seen, over)),
        ]
        for thread in others:
            thread.start()
        while time.monotonic() < min(end_s, until_s + _WAIT_S):
            self._news.wait(_DRAIN_S / 4)
            self._news.clear()
            if self._settle(notes, seen):
                end_s = max(end_s, time.monotonic() + self.drain_s)
        over.set()
        for thread in others:
            thread.join()
        return notes

    def _settle(self, notes: Notes, seen: Mapping[Key, float], outbox: Sequence[Message] = ()) -> bool:
        """Takes in what has come, with one commit; returns whether there was anything."""
        messages = self._exchange.pending(self._name, self._chain.marks)
        if not messages and not outbox:
            return False
        begun_s = time.monotonic()
        self._take(messages, *(decode(message.data) for message in messages), outbox=outbox)
        done_s = time.monotonic()
        keys = [(message.stream, message.number) for message in messages]
        notes.got += [(key, seen.get(key, begun_s), begun_s, done_s) for key in keys]
        notes.look_up.append(self._look_up())
        return True

    def _watch(self, seen: dict[Key, float], over: threading.Event) -> None:
        """Notes what comes while a commit is under way, too."""
        while not over.wait(_POLL_S):
            for message in self._exchange.pending(self._name, self._chain.marks):
                if (message.stream, message.number) not in seen:
                    seen[message.stream, message.number] = time.monotonic()
                    self._news.set()

    def close(self) -> None:
        self._closing.close()

    def _write(self, rate: float, until_s: float, notes: Notes) -> None:
        next_s = time.monotonic() + self._random.expovariate(rate)
        while next_s < until_s:
            time.sleep(max(0.0, next_s - time.monotonic()))
            self._publish(notes)
            next_s += self._random.expovariate(rate)

    def _publish(self, notes: Notes) -> None:
        to = self._random.choice(self._others)
        number = self._numbers.get(to, 0) + 1
        (data,) = encode(mentioned([f"http://h{number % 997}.{to}.test/from/{self._name}/{number}"]))
        message = Message(self._name, number, 0, to, data, LINKS, previous=number - 1)
        start_s = time.monotonic()
        if self._exchange.publish(message):
            self._numbers[to] = number
            notes.sent.append(((message.stream, number), start_s, time.monotonic()))

    def _take(self, messages: Sequence[Message], *columns: Contributions, outbox: Sequence[Message] = ()) -> None:
        """As a round without pages would be closed."""
        inbox = Contributions.joined(list(columns))
        update(
            self._index, None, self._ledger, RoundColumns(inbox=inbox), limits=self._limits, strategy=self._order,
            now_s=time.time(),
        )  # fmt: skip
        changes = self._index.flush(self._store, self._chain.label)
        marks = high_water(messages)
        self._chain.commit(
            changes, state=AgentState(ledger=self._ledger.state()), marks=marks, outbox=outbox, exchange=self._exchange,
            applied=list(marks.items()), now_s=time.time(),
        )  # fmt: skip
        self._index.release(changes)

    def _look_up(self) -> float:
        """One page that is known."""
        key = self._keys[self._chain.number * 7_919 % len(self._keys)]
        start_s = time.monotonic()
        found, _ = self._index.pages.look_up(np.array([key]))
        taken_s = time.monotonic() - start_s
        assert found[0]
        return taken_s


class Timed(Protocol):
    """An agent that can be told to write and to receive for a while."""

    def run(self, rate: float, until_s: float) -> Notes: ...

    def close(self) -> None: ...


def serve(peer: Callable[[Mapping[str, Any], str], Timed]) -> None:
    """A job on standard input, then rates, one per line; for each, what was timed goes to standard output."""
    job = json.loads(sys.stdin.readline())
    with ThreadPoolExecutor(len(job["mine"])) as threads:
        peers = list(threads.map(peer, repeat(job), job["mine"]))
        print("{}", flush=True)
        for line in sys.stdin:
            until = repeat(time.monotonic() + job["seconds"])
            notes = list(threads.map(lambda one, *more: one.run(*more), peers, repeat(json.loads(line)), until))
            kinds = ("sent", "got", "look_up")
            found = {kind: [entry for one in notes for entry in getattr(one, kind)] for kind in kinds}
            print(json.dumps(found), flush=True)
    for each in peers:
        each.close()


if __name__ == "__main__":
    serve(Peer)
