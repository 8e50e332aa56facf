"""What it costs to share nothing but a store: requests per hour and agent, and how long a message takes, beside NATS.

Two agents crawl a test web with `site.exchange = "store"`: first as fast as its hosts allow, then with nothing due.
Each process counts what it asks of its store, but for what any crawl does to commit. Then messages are sent with real
commits at random moments, through stores that answer each request after some milliseconds, and through nats-server.

Started as a process, this module is one of the agents.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes, Message
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.agent_process import exit_code, given, run
from gossamer.cluster.engine import Handle, Job, Received
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Server
from gossamer.cluster.processes import Processes
from gossamer.cluster.store_exchange import StoreExchange
from gossamer.cluster.supervisor import Supervisor
from gossamer.config import Config
from gossamer.crawl.inbox import Inbox, high_water
from gossamer.crawl.seeds import hand_in
from gossamer.crawl.stats import Stats
from gossamer.event_log import EventLog
from gossamer.sharing.exchange import Exchange
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=5, hosts=200, pages=20_000, page_bytes=3_000.0, links=20.0, errors=0.0, robots_broken=0.0)
WARM_S, WATCHED_S = 15.0, 60.0
OF_SHARING = ("registrar/", "manifest/", "outbox/")


class Counted(Directory):
    """A directory that counts requests, and answers each after a while, as a store does that is elsewhere."""

    delay_s = 0.0

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self.asked: Counter[str] = Counter()
        self.own = ""  # the agent whose chain we write: its commits do not count

    def _ask(self, what: str, name: str) -> None:
        is_commit = name.startswith((f"manifest/{self.own}/", "outbox/")) and what != "get"
        if name.startswith(OF_SHARING) and not (self.own and is_commit):
            self.asked[f"{what} {name.split('/')[0]}"] += 1
        time.sleep(self.delay_s)

    def get(self, name: str) -> bytes:
        self._ask("get", name)
        return super().get(name)

    def put(self, name: str, data: bytes | Path) -> None:
        self._ask("put", name)
        super().put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        self._ask("put", name)
        return super().create(name, data)

    def list(self, prefix: str) -> list[str]:
        self._ask("list", prefix)
        return super().list(prefix)

    def delete(self, *names: str) -> None:
        for name in names:
            self._ask("delete", name)
            self.path.joinpath(name).unlink(missing_ok=True)


# Requests


class _Counting:
    """An Engine: each agent is a process of this module."""

    def start(self, job: Job, received: Received | None = None) -> Handle:
        return Processes().start(replace(job, module="benchmarks.bench_exchange", arguments=("agent",)), received)


def requests(folder: Path, delay_s: float) -> dict[str, Counter[str]]:
    """Returns what each process asked in the time that it was watched."""
    with RunningWeb(SPEC) as web:
        values = {
            "site.agents": 2, "site.exchange": "store", "resolve.map": {"*": web.address}, "polite.delay_s": delay_s,
            "crawl.scope": "any", "crawl.patience_s": 36_000.0, "site.idle_s": 36_000.0,
        }  # fmt: skip
        Directory.prepare(folder, 1.0)
        store, clock, begun_s = Counted(folder), RealClock(), time.monotonic()
        hand_in(Inbox(store), web.start_urls, [])
        before: list[Counter[str]] = []
        supervisor = Supervisor(
            folder, Config().replace(values), clock, EventLog(folder / "log" / "crawl.jsonl"), store=store,
            engine=_Counting(),
        )  # fmt: skip

        def look(_: Stats) -> None:
            elapsed_s = time.monotonic() - begun_s
            if elapsed_s > WARM_S and not before:
                before.append(store.asked.copy())
            if elapsed_s > WARM_S + WATCHED_S:
                before.append(store.asked.copy())
                supervisor.stop()

        stats = supervisor.run(look)
        print(f"{stats.visits:,} pages", file=sys.stderr)
    found = {path.stem: Counter(json.loads(path.read_text())) for path in folder.glob("*.asked")}
    return {"supervisor": before[1] - before[0], **found}


def agent() -> int:
    task, stopping = given()
    store = Counted(task.directory)
    store.own = task.name

    def watch() -> None:
        time.sleep(WARM_S)
        before = store.asked.copy()
        time.sleep(WATCHED_S - 5)  # it began a little later than its supervisor
        asked = {what: count * WATCHED_S / (WATCHED_S - 5) for what, count in (store.asked - before).items()}
        Path(task.directory, f"{task.name}.asked").write_text(json.dumps(asked))

    threading.Thread(target=watch, daemon=True).start()
    return exit_code(task.directory, lambda: run(task, store, stopping))


# Latency


@contextmanager
def by_store(folder: Path, delay_s: float) -> Iterator[tuple[Directory, Exchange, Exchange]]:
    store = Counted(folder)
    store.delay_s = delay_s
    sender, receiver = (StoreExchange(store, name, lambda: ["a0", "a1"]).follow() for name in ("a1", "a0"))
    yield store, sender, receiver
    sender.close()
    receiver.close()


@contextmanager
def by_nats(folder: Path) -> Iterator[tuple[Directory, Exchange, Exchange]]:
    server = Server(folder / "site")
    server.start()
    wires = [Wire(server.address) for _ in range(2)]
    for wire in wires:
        wire.wait_up(30)
    yield Directory(folder), NatsExchange(wires[0], "a1"), NatsExchange(wires[1], "a0")
    for wire in wires:
        wire.close()
    server.stop()


def latencies(made: Callable[[Path], object], every_s: float, seconds: float) -> list[float]:
    """Returns how long each message took from its commit to its receiver's memory."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "crawl"
        Directory.prepare(folder, 1.0)
        with made(folder) as (store, sending, receiving):  # type: ignore[attr-defined]
            chain, chance, found = Chain.take_over(store, "a1", sending, 1.0), random.Random(every_s), []
            marks: dict[str, int] = {}
            receiving.pending("a0", marks)
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                time.sleep(chance.expovariate(1 / every_s))
                outbox = [Message("a1", chain.round, 0, "a0", os.urandom(2_000))]
                chain.commit(Changes(), marks={}, outbox=outbox, exchange=sending, applied=[], now_s=1.0)
                start_s = time.monotonic()
                while not (got := receiving.pending("a0", marks)):
                    time.sleep(0.001)
                found.append(time.monotonic() - start_s)
                marks |= high_water(got)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=90.0, help="of each measurement of latency")
    parser.add_argument("--latency", action="store_true", help="measure nothing else")
    arguments = parser.parse_args()
    if not arguments.latency:
        print_requests()
    print_latencies(arguments.seconds)


def print_requests() -> None:
    print("| per hour | get | put | list | delete |\n|---|---|---|---|---|")
    for name, delay_s in (("busy", 1.0), ("idle", 36_000.0)):
        with tempfile.TemporaryDirectory() as scratch:
            for who, asked in sorted(requests(Path(scratch) / "crawl", delay_s).items()):
                row = [
                    sum(n for what, n in asked.items() if what.startswith(kind))
                    for kind in ("get", "put", "list", "delete")
                ]
                print(
                    f"| {who}, {name} | {' | '.join(f'{count * 3600 / WATCHED_S:,.0f}' for count in row)} |", flush=True
                )


def print_latencies(seconds: float) -> None:
    ways: list[tuple[str, Callable[[Path], object]]] = [("nats", by_nats)]
    ways += [(f"store, {ms} ms", lambda folder, ms=ms: by_store(folder, ms / 1000)) for ms in (0, 30, 100)]
    print("\n| a message every | exchange | messages | median s | 95 % s | most s |\n|---|---|---|---|---|---|")
    for every_s in (0.5, 2.0, 10.0, 40.0):
        watched_s = max(seconds, 6 * every_s)
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(latencies, made, every_s, watched_s) for _, made in ways]
            for (name, _), run_ in zip(ways, runs, strict=True):
                found = run_.result()
                figures = " | ".join(f"{np.percentile(found, at):.3f}" for at in (50, 95, 100))
                print(f"| {every_s:g} s | {name} | {len(found)} | {figures} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["agent"]:
        os._exit(agent())
    main()
