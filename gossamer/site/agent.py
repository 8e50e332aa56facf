"""One agent as a process of its site: told what to do on standard input, and by orders that come through the wire.

Its supervisor's death closes standard input: then it ends, cleanly.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gossamer.archive.chain import Chain, chains
from gossamer.archive.store import Directory
from gossamer.clocks import Clock, RealClock
from gossamer.config import Config
from gossamer.crawl.agent import ZONES_MOVE, Agent
from gossamer.crawl.post import Orders
from gossamer.crawl.runtime import tune
from gossamer.errors import Deposed, GossamerError
from gossamer.federation.exchange import Exchange, Inbox, Joined
from gossamer.federation.nats import NatsExchange
from gossamer.federation.wire import Wire
from gossamer.site.registrar import Registrar
from gossamer.watch.log import EventLog

REPLACED, MISTAKE = 3, 1  # exit codes: another process has our place; nothing that starting again would mend
_FIRST_ORDERS_S = 30.0
_REPORT_S = 1.0


class Desk:
    """The Post of an agent in a site: reports go out and orders come in while the agent works."""

    is_site = True

    def __init__(self, registrar: Registrar, clock: Clock, name: str, incarnation: str, lease_s: float) -> None:
        self._registrar, self._clock = registrar, clock
        self._name, self._incarnation, self._lease_s = name, incarnation, lease_s
        self._sender = ThreadPoolExecutor(1, "report")
        self._sent: Future[bool] | None = None
        self._sent_s = -1e9
        self._lives = 0
        self._said: Mapping[str, Any] | None = None
        self._orders = Orders(())
        self.lease_until_s = clock.monotonic() + lease_s

    def begin(self) -> None:
        """A new Agent works for this process: its figures begin anew."""
        self._lives += 1
        self.report({})
        end_s = self._clock.monotonic() + _FIRST_ORDERS_S
        while not self._heard() and self._clock.monotonic() < end_s:
            time.sleep(0.02)
        self.orders()

    def report(self, facts: Mapping[str, Any]) -> None:
        now_s = self._clock.monotonic()
        if self._sent is not None:
            if not self._sent.done():
                return
            if self._sent.result():
                self.lease_until_s = self._sent_s + self._lease_s
            self._sent = None
        if now_s - self._sent_s >= _REPORT_S or not facts:
            self._sent_s = now_s
            said = {**facts, "pid": os.getpid(), "incarnation": self._incarnation, "life": self._lives}
            self._sent = self._sender.submit(self._registrar.report, self._name, said)

    def orders(self) -> Orders:
        said = self._heard()
        if said is not None and said is not self._said:
            self._said = said
            self._orders = Orders(tuple(said["owners"]), said["pages"], said["stop"], said["others"])
        return self._orders

    def leave(self) -> None:
        self._sender.shutdown()
        self._registrar.leave(self._name)  # if nobody hears it, the lease ends by itself

    def _heard(self) -> Mapping[str, Any] | None:
        said = self._registrar.orders(self._name)
        if said is None or said["incarnation"] == self._incarnation:
            return said
        if said["incarnation"] > self._incarnation:
            raise Deposed(f"another process has the place of {self._name}")
        return None  # orders for the one before us


def run(job: Mapping[str, Any], stopping: threading.Event) -> None:
    """Crawl until told to stop."""
    clock, name = RealClock(), job["name"]
    config = Config().replace({**job["config"], "crawl.agent": name})
    store = Directory(job["directory"])
    wire = Wire(job["address"])
    desk = Desk(Registrar(wire, config.site.lease_s), clock, name, job["incarnation"], config.site.lease_s)
    exchange: Exchange = NatsExchange(wire, name)
    if job["is_home"]:
        exchange = Joined(exchange, Inbox(store))
    files = [Path(path) for path in job["files"]]
    try:
        with EventLog(Path(job["directory"]) / "log" / f"{name}.jsonl") as log:
            chain = _open(store, name, exchange, job, clock.now())
            while True:
                desk.begin()
                agent = Agent(store, config, clock, exchange, log, job["urls"], files, post=desk, chain=chain)
                stopper = threading.Thread(target=_forward, args=(stopping, agent), daemon=True)
                stopper.start()
                if agent.run(lambda _: None).ended != ZONES_MOVE:
                    return
                files = []
    finally:
        desk.leave()
        wire.close()


def _open(store: Directory, name: str, exchange: Exchange, job: Mapping[str, Any], now_s: float) -> Chain:
    if name not in chains(store):
        return Chain.open(store, name, exchange, None if job["is_home"] else ())
    quiet_s = job["quiet_until_s"]
    return Chain.take_over(store, name, exchange, now_s, {"quiet_until_s": quiet_s} if quiet_s else {})


def _forward(stopping: threading.Event, agent: Agent) -> None:
    stopping.wait()
    agent.stop()


def main() -> int:
    job = json.loads(sys.stdin.readline())
    stopping = threading.Event()

    def watch() -> None:
        sys.stdin.read()  # ends when whoever started us does
        stopping.set()

    threading.Thread(target=watch, name="parent", daemon=True).start()
    tune()
    try:
        run(job, stopping)
    except Deposed:
        return REPLACED
    except GossamerError as error:
        print(error, file=sys.stderr)
        return MISTAKE
    return 0


if __name__ == "__main__":
    os._exit(main())  # threads that wait for a dead network must not hold us up
