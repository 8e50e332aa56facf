"""This module is the process of an agent: it gets its task on standard input, and orders through the registrar.

It does not outlive its supervisor: the next process that crawls here must not find it at work. Where the kernel does
not ensure that (`processes`), it ends cleanly when standard input does.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

# An agent needs these in its first round. Here they are imported before agents are forked, and once for all of them.
import numpy.ma  # noqa: F401
import pyarrow.compute  # noqa: F401

from gossamer.archive.chain import Chain, chains
from gossamer.archive.copies import open_store
from gossamer.archive.manifest import MOVES, SEED_FILES, SEEDS
from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.gateway import Gateway
from gossamer.cluster.hub import AgentRegistrar, joint
from gossamer.cluster.neighbours import place
from gossamer.cluster.protocol import AgentTask, Heartbeat, decode
from gossamer.cluster.replicated_exchange import Gate
from gossamer.config.folders import Address, as_place, folder_of
from gossamer.crawl.agent import Agent
from gossamer.crawl.inbox import Aside, FarInbox, Inbox
from gossamer.crawl.stats import Report
from gossamer.errors import Deposed, GossamerError, OutOfSpace, disk_full_guard
from gossamer.event_log import log_of
from gossamer.geography import countries
from gossamer.placement.locator import Locator
from gossamer.runtime import tune
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import Exchange, Joined
from gossamer.sharing.peers import ZONES_MOVE, Sharing
from gossamer.sharing.transfer import unowned
from gossamer.web.url import domain_of
from gossamer.wiring import open_books

# Exit codes: a bug, as Python's own; another process has our place; starting again would mend nothing; no space.
BUG, REPLACED, MISTAKE, FULL = 1, 3, 4, 5
_FIRST_ORDERS_S = 30.0
countries([""])  # so are the tables of these two
domain_of("gossamer.test")


class Desk:
    """`Desk` connects an agent with its supervisor: reports go out and orders come in while the agent works."""

    is_site = True

    def __init__(self, clock: Clock, task: AgentTask) -> None:
        self._clock = clock
        self._name, self._incarnation, self._lease_s = task.name, task.incarnation, task.config.site.lease_s
        self._sender = ThreadPoolExecutor(1, "report")
        self._sent: Future[bool] | None = None
        self._sent_s = -1e9
        self._begun_s = clock.monotonic()
        self._lives = 0
        self._said: tuple[object, ...] = ()  # of the last report, what decides something
        self._orders = Orders({})
        self.lease_until_s = clock.monotonic()  # until the first report is received

    def open(self, registrar: AgentRegistrar) -> None:
        self._registrar = registrar

    def begin(self) -> None:
        """Begins the figures anew: a new Agent works for this process."""
        self._lives += 1
        self._send(None)
        end_s = self._clock.monotonic() + _FIRST_ORDERS_S
        while not self._received():
            if self._clock.monotonic() > end_s:
                raise TimeoutError(f"no orders for {self._name} within {_FIRST_ORDERS_S:g} seconds")
            time.sleep(0.02)

    def report(self, report: Report) -> None:
        news = report.number, report.idle, report.pages, report.is_working, report.stats.connections
        longest_s = self._lease_s / 4  # also for one that has nothing to say but that it is alive
        wait_s = longest_s if news == self._said and report.idle else min(self._registrar.report_s, longest_s)
        if self._clock.monotonic() - self._sent_s >= wait_s:
            self._said = news
            self._send(report)
        else:
            self._is_sending()

    def _send(self, report: Report | None) -> None:
        if self._is_sending():
            return
        now_s = self._sent_s = self._clock.monotonic()
        beat = Heartbeat(
            incarnation=self._incarnation,
            life=self._lives,
            pid=os.getpid(),
            alive_s=now_s - self._begun_s,
            report=report,
        )
        self._sent = self._sender.submit(self._registrar.report, self._name, beat)

    def _is_sending(self) -> bool:
        """Returns whether a report is being sent. Once one is received, the lease counts from when it was sent."""
        if self._sent is not None and self._sent.done():
            if self._sent.result():
                self.lease_until_s = self._sent_s + self._lease_s
            self._sent = None
        return self._sent is not None

    def orders(self) -> Orders:
        self._received()
        return self._orders

    @property
    def replicated(self) -> int:
        return self._orders.replicated

    def others(self) -> Iterable[str]:
        return self._orders.others

    def leave(self) -> None:
        self._sender.shutdown()
        self._registrar.leave(self._name)  # if it is not received, the lease ends by itself

    def _received(self) -> bool:
        """Returns whether there are orders for us, and not for the one before us."""
        found = self._registrar.orders(self._name)
        if found is None or found.incarnation < self._incarnation:
            return False
        if found.incarnation > self._incarnation:
            raise Deposed(f"another process has the place of {self._name}")
        self._orders = found.orders
        return True


def run(task: AgentTask, store: Store, stopping: threading.Event) -> None:
    """Crawls into the store until ordered to stop, or until `stopping` is set."""
    clock, name, federation = RealClock(), task.name, task.federation
    config = task.config.replace({"crawl.agent": name})
    desk = Desk(clock, task)
    log = log_of(folder_of(as_place(task.directory)), config.log, name)
    aside = Aside(name, store, log)
    site = joint(task, store, aside, desk.others)
    desk.open(site.registrar)
    exchange: Exchange = site.exchange
    if task.is_home:
        is_far = isinstance(as_place(task.directory), Address)
        streams = (SEEDS, SEED_FILES, MOVES) if federation else (SEEDS, SEED_FILES)
        exchange = Joined(exchange, FarInbox(store, clock, streams) if is_far else Inbox(store))
    if task.is_home and federation and site.wire:
        exchange = Gateway(exchange, federation.site, site.wire, federation.others, federation.gone, aside)
    locator = Locator(config.resolve, clock, config.carbon.places) if federation else None
    there = place(federation, name, locator, locator.blocks) if federation and locator else None
    gate = None
    if federation and federation.is_replicated:
        begun = Chain.read(store, name).number + 1  # that of the take-over
        exchange = gate = Gate(exchange, begun, lambda: desk.replicated)
    try:
        with log:
            # Also a chain that is new is taken over: another process may have been about to begin it, and hang.
            zones = unowned(store) if task.is_home and name not in chains(store) else ()
            quiet_until_s = clock.now() + task.quiet_s if task.quiet_s else 0.0
            chain = Chain.take_over(store, name, exchange, clock.now(), quiet_until_s, zones)
            if gate:
                gate.committed = lambda: chain.number
            while True:
                desk.begin()
                books = open_books(store, config, clock, chain, federation.share if federation else 1.0)
                peers = Sharing(books, exchange, desk, log, there, aside)
                peers.settle(clock.now())
                agent = Agent(books, clock, peers, log)
                threading.Thread(target=_forward, args=(stopping, agent), daemon=True).start()
                if agent.run(lambda _: None).ended != ZONES_MOVE:
                    break
        desk.leave()
    finally:
        site.close()


def _forward(stopping: threading.Event, agent: Agent) -> None:
    stopping.wait()
    agent.stop()


def given() -> tuple[AgentTask, threading.Event]:
    """Returns the task of this process; the event is set when the process that started us is gone."""
    task, stopping = decode(AgentTask, sys.stdin.buffer.readline()), threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        stopping.set()

    threading.Thread(target=watch, name="parent", daemon=True).start()
    tune()
    return task, stopping


def exit_code(directory: str, work: Callable[[], None]) -> int:
    """Does the work; returns how it ended, for the supervisor."""
    try:
        with disk_full_guard(Path(directory)):
            work()
    except Deposed:
        return REPLACED
    except OutOfSpace:  # so that nothing could be written to a file either
        return FULL
    except GossamerError as error:
        print(error, file=sys.stderr)
        return MISTAKE
    except Exception:  # not on the way out of the interpreter, which aborts while a thread waits for standard input
        traceback.print_exc()
        return BUG
    return 0


def main() -> int:
    task, stopping = given()

    def work() -> None:
        run(task, open_store(as_place(task.directory), task.config, task.name, RealClock().now()), stopping)

    return exit_code(task.directory, work)


if __name__ == "__main__":
    os._exit(main())  # threads that wait for a dead network must not hold us up
