"""`gossamer scan join` runs clients on this machine that work for a coordinator elsewhere, as long as there is one.

Each client is the same process as at the coordinator's. What it sends through its pipes goes on to the coordinator,
with what it found; what the coordinator sends comes back the same way. If no report was confirmed for the length of the
lease, the process is killed: its websites may be with other clients by then.
"""

import argparse
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import msgspec
from rich.console import Console

from gossamer.api import stopped_by_signals
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.federation_file import Federation, load
from gossamer.cluster.keys import address, paths
from gossamer.cluster.members import Member, Members
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.processes import Processes
from gossamer.cluster.protocol import encode
from gossamer.cluster.registrar import Registrar
from gossamer.errors import ConfigError
from gossamer.scan.clients import job_of
from gossamer.scan.mailbox import Mailbox
from gossamer.scan.messages import ClientOrders, ClientReport, ClientTask, Done, Progress, Standing, Stop, read
from gossamer.scan.records import Facts, ScanFolder
from gossamer.scan.websites import Website

_STEP_S = 0.025
_REPORT_S = 0.5
_STOP_S = 30.0
_PAUSE_S = 1.0  # after a client died, before the next is begun
_LEASE_S = 10.0  # until the coordinator sends how long it is
_BEGIN_LEASES = 7  # a client may take its time to begin


class Session:
    """A session is the work of one client for one scan: from orders until they end, or the client does."""

    def __init__(self, wire: Wire, name: str, orders: ClientOrders, folder: Path, clock: Clock) -> None:
        assert orders.task is not None
        self.run, self.me = orders.run, f"{name}-{secrets.token_hex(8)}"
        self.lease_s = orders.task.config.site.lease_s
        self.at: dict[str, Progress] = {}
        self.is_ready = self.is_over = self.is_dismissed = False
        self._coordinator, self._clock = orders.coordinator, clock
        self._files = ScanFolder(folder / "".join(filter(str.isalnum, orders.task.scan)))
        self._files.prepare()
        self._exchange = NatsExchange(wire, self.me)
        self._mailbox = Mailbox(self._exchange, self.me)
        self._lines: Queue[bytes | None] = Queue()
        self._client = Member(name)
        self._members = Members(Processes(), clock, self.lease_s, begin_s=_BEGIN_LEASES * self.lease_s)
        task = msgspec.structs.replace(orders.task, scan=str(self._files.scan))
        self._process = self._members.start(self._client, job_of(task), self._lines.put)

    def step(self) -> None:
        for _, line, _ in self._mailbox.receive():
            self.is_dismissed |= isinstance(read(line), Stop)
            self._process.send(line)
        while not self._lines.empty():
            self._pass_on(self._lines.get())
        self._mailbox.flush()
        if self._members.silent([self._client]):
            self._process.kill()  # it hangs; its end is noticed as any other

    def _pass_on(self, line: bytes | None) -> None:
        self._client.reported(self._clock.monotonic())
        message = None if line is None else read(line)
        if line is None:
            self.is_over = True
        elif isinstance(message, Standing):
            self.at, self.is_ready = message.at, True
        elif isinstance(message, Done):
            website = Website(message.website, "")
            links = self._files.links(website)
            done = Done(message.website, Facts.read(self._files.facts(website)))
            self._mailbox.send(self._coordinator, encode(done), links.read_bytes() if links.exists() else b"")
        elif message is not None:
            self._mailbox.send(self._coordinator, line)

    def close(self, patience_s: float = 0.0) -> None:
        """Ends the session: at once, unless it may finish what it can."""
        if patience_s:
            self._process.send(encode(Stop()))
        self._process.close(patience_s)
        self._exchange.close()


class Joined:
    """`Joined` is one client: idle, or in a session."""

    def __init__(self, wire: Wire, name: str, folder: Path, clock: Clock, note: Callable[[str], None]) -> None:
        self._wire, self._name, self._folder, self._clock, self._note = wire, name, folder, clock, note
        self._registrar = Registrar(wire, ClientReport, ClientOrders)
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
            self._end_if_over(orders)
        elif orders and orders.task and self._is_wanted(orders.run):
            self._begin(orders, orders.task)

    def _is_wanted(self, run: str) -> bool:
        return run not in self._refused and self._not_before_s < self._clock.monotonic() < self._lease_until_s

    def _begin(self, orders: ClientOrders, task: ClientTask) -> None:
        for left in self._folder.glob("*"):
            if left.is_dir() and left.name != task.scan and not task.keep:
                shutil.rmtree(left, ignore_errors=True)  # of a scan that is over
        self._note(f"{self._name} works for a scan")
        self._session = Session(self._wire, self._name, orders, self._folder, self._clock)
        self._reported_s = -1e9

    def _end_if_over(self, orders: ClientOrders | None) -> None:
        session, now_s = self._session, self._clock.monotonic()
        assert session is not None
        if now_s > self._lease_until_s:
            session.close()
            self._note(f"{self._name} has not reached the coordinator for {session.lease_s:g} s, and stopped")
        elif session.is_over and not session.is_dismissed:
            self._died, self._not_before_s = session.me, now_s + _PAUSE_S
            session.close()
            self._note(f"{self._name} died; another one takes its place")
        elif session.is_over or orders is None or orders.run != session.run or orders.task is None:
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
        report = ClientReport(died=self._died)
        if session and session.is_ready:
            report = ClientReport(died=self._died, run=session.run, session=session.me, at=session.at)
        if self._registrar.report(self._name, report):
            self._lease_until_s = now_s + (session.lease_s if session else _LEASE_S)

    def close(self) -> None:
        if self._session is not None:
            self._session.close(_STOP_S)
        self._registrar.leave(self._name)


def join(arguments: argparse.Namespace) -> int:
    """Runs the clients until Ctrl-C."""
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
    """`Joining` runs all clients of a site, until `stop`."""

    def __init__(self, federation: Federation, site: str, coordinator: str, folder: Path, clock: Clock) -> None:
        for name in (site, coordinator):
            federation.check_site(name)
        if site == coordinator:
            raise ConfigError(f"{site} is where `gossamer scan` itself runs: join from another site, with --name")
        there = federation.sites[coordinator].address
        self._address = address(paths(federation.keys, site), coordinator, there)
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
