"""`gossamer scan join`: clients of this machine that work for a coordinator elsewhere, for as long as there is one.

Each client is the same process as at the coordinator's. What it says through its pipes goes on to the coordinator, with
what it found; what the coordinator says comes back the same way. If nobody has confirmed a report for the length of the
lease, the process is killed: its websites may be with others by then.
"""

import argparse
import json
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from rich.console import Console

from gossamer.api import stopped_by_signals
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import paths, tls_name
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.registrar import Registrar
from gossamer.errors import ConfigError
from gossamer.scan.channel import Message, Said, Worker
from gossamer.scan.facts import Places
from gossamer.scan.letters import Letters
from gossamer.scan.process import Process
from gossamer.scan.websites import Website

_STEP_S = 0.025
_REPORT_S = 0.5
_STOP_S = 30.0
_PAUSE_S = 1.0  # after a client died, before the next is begun
_LEASE_S = 10.0  # until somebody says how long it is


class Session:
    """One client at work for one scan: from orders until they end, or the client does."""

    def __init__(self, wire: Wire, name: str, orders: Message, folder: Path, clock: Clock) -> None:
        self.orders, self._clock = orders, clock
        self.run = str(orders["run"])
        self.me = f"{name}-{secrets.token_hex(8)}"
        self.lease_s = float(orders["config"]["site"]["lease_s"])
        self.at: Message = {}
        self.is_ready = self.is_over = self.is_dismissed = False
        self._coordinator = str(orders["coordinator"])
        self._places = Places(folder / "".join(filter(str.isalnum, str(orders["scan"]))))
        self._places.prepare()
        self._exchange = NatsExchange(wire, self.me)
        self._letters = Letters(self._exchange, self.me)
        self._said: Said = Queue()
        self._process = Process(0, Worker(name), self._said)
        self._heard_s = clock.monotonic() + 6 * self.lease_s  # it may take its time to begin
        told = {key: orders[key] for key in ("client", "config", "keep")}
        self._process.tell({**told, "scan": str(self._places.scan)})

    def step(self) -> None:
        for _, message, _ in self._letters.receive():
            self.is_dismissed |= "stop" in message
            self._process.tell(message)
        try:
            while True:
                self._pass_on(self._said.get_nowait()[1])
        except Empty:
            self._letters.flush()
        if self._clock.monotonic() - self._heard_s > self.lease_s:
            self._process.kill()  # it hangs; its end is heard of as any other

    def _pass_on(self, message: Message | None) -> None:
        self._heard_s = max(self._heard_s, self._clock.monotonic())
        if message is None:
            self.is_over = True
        elif "at" in message:
            self.at, self.is_ready = message["at"], True
        elif "done" in message:
            website = Website(message["done"], "")
            facts = json.loads(self._places.facts(website).read_text("utf-8"))
            links = self._places.links(website)
            self._letters.send(
                self._coordinator, {**message, "facts": facts}, links.read_bytes() if links.exists() else b""
            )
        else:
            self._letters.send(self._coordinator, message)

    def close(self, patience_s: float = 0.0) -> None:
        """At once, unless it may finish what it can."""
        if patience_s:
            self._process.tell({"stop": True})
        else:
            self._process.kill()
        self._process.close(patience_s)
        self._exchange.close()


class Joined:
    """One client: idle, or in a session."""

    def __init__(self, wire: Wire, name: str, folder: Path, clock: Clock, note: Callable[[str], None]) -> None:
        self._wire, self._name, self._folder, self._clock, self._note = wire, name, folder, clock, note
        self._registrar = Registrar(wire)
        self._session: Session | None = None
        self._reported_s = -1e9
        self._lease_until_s = self._not_before_s = 0.0
        self._refused: set[str] = set()  # runs that are over for us
        self._died = ""  # the last session that ended because its process did

    def step(self) -> None:
        orders = self._registrar.orders(self._name)
        self._report()
        if self._session is not None:
            self._session.step()
            self._end_if_over(orders or {})
        elif self._is_wanted(orders or {}):
            assert orders is not None
            self._begin(orders)

    def _is_wanted(self, orders: Message) -> bool:
        is_new = "config" in orders and orders["run"] not in self._refused
        return is_new and self._not_before_s < self._clock.monotonic() < self._lease_until_s

    def _begin(self, orders: Message) -> None:
        for left in self._folder.glob("*"):
            if left.is_dir() and left.name != orders["scan"] and not orders["keep"]:
                shutil.rmtree(left, ignore_errors=True)  # of a scan that is over
        self._note(f"{self._name} works for a scan")
        self._session = Session(self._wire, self._name, orders, self._folder, self._clock)
        self._reported_s = -1e9

    def _end_if_over(self, orders: Message) -> None:
        session, now_s = self._session, self._clock.monotonic()
        assert session is not None
        if now_s > self._lease_until_s:
            session.close()
            self._note(f"{self._name} has not reached the coordinator for {session.lease_s:g} s, and stopped")
        elif session.is_over and not session.is_dismissed:
            self._died, self._not_before_s = session.me, now_s + _PAUSE_S
            session.close()
            self._note(f"{self._name} died; another one takes its place")
        elif session.is_over or orders.get("run") != session.run or orders.get("over"):
            self._refused.add(session.run)
            session.close(_STOP_S)
            self._note(f"{self._name} is done with this scan")
        else:
            return
        self._session = None
        self._reported_s = -1e9

    def _report(self) -> None:
        now_s, session = self._clock.monotonic(), self._session
        if now_s - self._reported_s < _REPORT_S:
            return
        self._reported_s = now_s
        facts: dict[str, Any] = {"died": self._died}
        if session and session.is_ready:
            facts |= {"run": session.run, "session": session.me, "at": session.at}
        if self._registrar.report(self._name, facts):
            self._lease_until_s = now_s + (session.lease_s if session else _LEASE_S)

    def close(self) -> None:
        if self._session is not None:
            self._session.close(_STOP_S)
        self._registrar.leave(self._name)


def join(arguments: argparse.Namespace) -> int:
    """Until Ctrl-C."""
    if len(arguments.websites) != 2 or not arguments.name:
        raise ConfigError("write `gossamer scan join FILE --name SITE`, with the file of the federation")
    federation = load(Path(arguments.websites[1]))
    folder = Path(f"{arguments.dir}-{arguments.name}")
    joining = Joining(federation, arguments.name, arguments.coordinator or federation.first, folder, RealClock())
    console = Console(stderr=True)
    with stopped_by_signals(joining):
        joining.run(lambda text: console.print(f"gossamer: {text}", highlight=False, markup=False, soft_wrap=True))
    return 0


class Joining:
    """All clients of a site, until `stop`."""

    def __init__(self, federation: Federation, site: str, coordinator: str, folder: Path, clock: Clock) -> None:
        for name in (site, coordinator):
            if name not in federation.sites:
                raise ConfigError(f"{federation.path} has no site {name}; there are {', '.join(federation.sites)}")
        if site == coordinator:
            raise ConfigError(f"{site} is where `gossamer scan` itself runs: join from another site, with --name")
        self._address = {
            "url": f"tls://{federation.sites[coordinator].address}",
            "name": tls_name(coordinator),
            **paths(federation.keys, site),
        }
        self._names = [f"{site}_a{number}" for number in range(federation.sites[site].agents)]
        self._folder, self._clock = folder, clock
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def run(self, note: Callable[[str], None]) -> None:
        wire = Wire(self._address)
        joined = [Joined(wire, name, self._folder / name, self._clock, note) for name in self._names]
        was_up = False
        try:
            while not self._stopping:
                if wire.is_up != was_up:
                    was_up = wire.is_up
                    note("connected; waiting for a scan" if was_up else "the coordinator is not there; trying again")
                for one in joined:
                    one.step()
                time.sleep(_STEP_S)
        finally:
            for one in joined:
                one.close()
            wire.close()
