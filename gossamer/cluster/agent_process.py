"""One agent as a process of its site: told what to do on standard input, and by orders that come through the wire.

It does not outlive its supervisor, not even while it is stopped: whoever crawls here next must not find it at work.
Where the kernel does not see to that, it ends cleanly when standard input does.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gossamer.archive.chain import Chain, chains
from gossamer.archive.copies import open_store
from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.gateway import Gateway
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import die_with_parent
from gossamer.cluster.neighbours import place
from gossamer.cluster.registrar import Registrar
from gossamer.cluster.replicated_exchange import Gate
from gossamer.config import Config
from gossamer.crawl.agent import ZONES_MOVE, Agent
from gossamer.crawl.control import Orders
from gossamer.crawl.event_log import EventLog
from gossamer.crawl.runtime import tune
from gossamer.errors import Deposed, GossamerError, OutOfSpace, disk_full_guard
from gossamer.placement.locating import Locator
from gossamer.sharing.aside import Aside
from gossamer.sharing.exchange import Exchange, Inbox, Joined
from gossamer.sharing.handover import unowned

# Exit codes: another process has our place; starting again would mend nothing; no space. (1 is Python's: a bug.)
REPLACED, MISTAKE, FULL = 3, 4, 5
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
        self._begun_s = clock.monotonic()
        self._lives = 0
        self._said: Mapping[str, Any] | None = None
        self._orders = Orders(())
        self.lease_until_s = clock.monotonic()  # until the first report is heard

    def begin(self) -> None:
        """A new Agent works for this process: its figures begin anew."""
        self._lives += 1
        self.report({})
        end_s = self._clock.monotonic() + _FIRST_ORDERS_S
        while not self._heard():
            if self._clock.monotonic() > end_s:
                raise TimeoutError(f"no orders for {self._name} within {_FIRST_ORDERS_S:g} seconds")
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
        if now_s - self._sent_s >= min(_REPORT_S, self._lease_s / 4) or not facts:
            self._sent_s = now_s
            said = {
                **facts,
                "alive_s": now_s - self._begun_s,
                "pid": os.getpid(),
                "incarnation": self._incarnation,
                "life": self._lives,
            }
            self._sent = self._sender.submit(self._registrar.report, self._name, said)

    def orders(self) -> Orders:
        said = self._heard()
        if said is not None and said is not self._said:
            self._said = said
            orders = {key: value for key, value in said.items() if key != "incarnation"}
            self._orders = Orders(**{**orders, "owners": tuple(said["owners"])})
        return self._orders

    @property
    def replicated(self) -> int:
        return self._orders.replicated

    def leave(self) -> None:
        self._sender.shutdown()
        self._registrar.leave(self._name)  # if nobody hears it, the lease ends by itself

    def _heard(self) -> Mapping[str, Any] | None:
        said = self._registrar.orders(self._name)
        if said is None or "incarnation" not in said:
            return None
        if said["incarnation"] == self._incarnation:
            return said
        if said["incarnation"] > self._incarnation:
            raise Deposed(f"another process has the place of {self._name}")
        return None  # orders for the one before us


Opener = Callable[[Mapping[str, Any], Config, float], Store]


def opened(job: Mapping[str, Any], config: Config, now_s: float) -> Store:
    return open_store(Path(job["directory"]), config, job["name"], now_s)


def run(job: Mapping[str, Any], stopping: threading.Event, opener: Opener) -> None:
    """Crawl until told to stop."""
    clock, name = RealClock(), job["name"]
    config = Config().replace({**job["config"], "crawl.agent": name})
    store = opener(job, config, clock.now())
    wire = Wire(job["address"])
    desk = Desk(Registrar(wire, config.site.lease_s), clock, name, job["incarnation"], config.site.lease_s)
    log = EventLog(Path(job["directory"]) / "log" / f"{name}.jsonl")
    aside = Aside(name, store, log)
    exchange: Exchange = NatsExchange(wire, name, aside=aside)
    others = {}
    if job["is_home"]:
        exchange = Joined(exchange, Inbox(store))
        if job["federation"]:
            others = {site: Wire(address) for site, address in job["federation"]["others"].items()}
            exchange = Gateway(exchange, job["federation"]["site"], others, job["federation"]["gone"], aside)
    there = (
        place(job["federation"], name, Locator(config.resolve, clock, config.carbon.places))
        if job["federation"]
        else None
    )
    gate = None
    if job["federation"] and job["federation"]["is_replicated"]:
        begun = Chain.read(store, name).number + 1  # that of the take-over
        exchange = gate = Gate(exchange, begun, lambda: desk.replicated)
    try:
        with log:
            chain = _open(store, name, exchange, job, clock.now())
            if gate:
                gate.committed = lambda: chain.number
            while True:
                desk.begin()
                agent = Agent(store, config, clock, exchange, log, desk, chain, there, aside)
                stopper = threading.Thread(target=_forward, args=(stopping, agent), daemon=True)
                stopper.start()
                if agent.run(lambda _: None).ended != ZONES_MOVE:
                    break
        desk.leave()
    finally:
        for each in (wire, *others.values()):
            each.close()


def _open(store: Store, name: str, exchange: Exchange, job: Mapping[str, Any], now_s: float) -> Chain:
    """Also a chain that is new is taken over: somebody may have been about to begin it, and hang."""
    quiet_s = job["quiet_until_s"]
    zones = unowned(store) if job["is_home"] and name not in chains(store) else ()
    return Chain.take_over(store, name, exchange, now_s, quiet_s, zones)


def _forward(stopping: threading.Event, agent: Agent) -> None:
    stopping.wait()
    agent.stop()


def main(opener: Opener = opened) -> int:
    """Another way to open the archive is the lab's: its own process of an agent is this one."""
    job = json.loads(sys.stdin.readline())
    die_with_parent(job["supervisor"])
    stopping = threading.Event()

    def watch() -> None:
        sys.stdin.read()  # ends when whoever started us does
        stopping.set()

    threading.Thread(target=watch, name="parent", daemon=True).start()
    tune()
    try:
        with disk_full_guard(Path(job["directory"])):
            run(job, stopping, opener)
    except Deposed:
        return REPLACED
    except OutOfSpace:  # so that nothing could be said in a file either
        return FULL
    except GossamerError as error:
        print(error, file=sys.stderr)
        return MISTAKE
    return 0


if __name__ == "__main__":
    os._exit(main())  # threads that wait for a dead network must not hold us up
