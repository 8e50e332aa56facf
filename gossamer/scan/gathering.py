"""`Gathering` manages the clients on other machines for the coordinator: its own nats-server, and who is there.

The registrar knows who is alive, as for the agents of a site: a client reports, and counts its lease from when it sent
the report, while we count from when it came. So it has stopped scanning when we give its websites to others. Their
messages go through the exchange. A client that lost its lease, or was begun anew, comes back under another name
(`session`): no earlier message is read.
"""

import secrets
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gossamer.cluster.engine import Received
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.keys import paths
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Open, Server
from gossamer.cluster.protocol import encode
from gossamer.cluster.registrar import Registrar
from gossamer.scan.mailbox import Mailbox
from gossamer.scan.messages import SILENT, ClientOrders, ClientReport, ClientTask, Done, Standing, read
from gossamer.scan.records import ScanFolder
from gossamer.scan.websites import Website

_STEP_S = 0.025
_LOOK_S = 0.25  # how often the registrar is asked
_OTHERS_MAY_NOT = ("$KV.orders.>", "$KV.wishes.>", "$KV.standing.>")


@dataclass
class Remote:
    """`Remote` is a Channel to a client on another machine, there or not."""

    gathering: "Gathering"
    name: str
    orders: ClientOrders
    files: ScanFolder
    received: Received
    session: str = ""  # which life of the client is there; none: it is not there
    cause: str = SILENT  # why the one before is not

    def send(self, line: bytes) -> None:
        self.gathering.send(self, line)

    def kill(self) -> str:
        return self.cause

    def close(self, patience_s: float = 0.0) -> None:  # noqa: ARG002  it has all the time it wants: nobody waits
        self.gathering.dismiss(self)


class Gathering:
    """Use it as a context manager; `open` makes the channels of one scan after the other."""

    def __init__(self, folder: Path, federation: Federation, here: str, lease_s: float) -> None:
        prepare(federation)
        shutil.rmtree(folder / "nats", ignore_errors=True)  # what was sent to those before us
        site = federation.sites[here]
        files = {name: str(Path(path).resolve()) for name, path in paths(federation.keys, here).items()}
        way = Open(here, site.listen or site.address, files, list(federation.sites), others_may_not=_OTHERS_MAY_NOT)
        self._server = Server(folder.resolve(), way)
        self._lease_s = lease_s
        self._me = f"scan-{secrets.token_hex(8)}"
        self._remotes: dict[str, Remote] = {}
        self._here: frozenset[str] = frozenset()
        self._guard = threading.RLock()
        self._started, self._ending = threading.Event(), threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="gathering", daemon=True)

    def __enter__(self) -> "Gathering":
        self._thread.start()
        self._started.wait()
        self._check()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if kind is None:
            self._check()

    def open(self, task: ClientTask, received: Received) -> Remote:
        """Opens a channel. `received` gets the client's messages, and None whenever it is gone: it may come again."""
        files = ScanFolder(Path(task.scan))
        task = msgspec.structs.replace(task, scan=files.token())
        orders = ClientOrders(run=secrets.token_hex(8), coordinator=self._me, task=task)
        with self._guard:
            remote = self._remotes[task.client] = Remote(self, task.client, orders, files, received)
            return remote

    def is_there(self, name: str) -> bool:
        """Returns whether a client is connected, at work or not."""
        self._check()
        return name in self._here

    def send(self, remote: Remote, line: bytes) -> None:
        with self._guard:
            if remote.session:
                self._mailbox.send(remote.session, line)

    def dismiss(self, remote: Remote) -> None:
        """Ends the scan for a client."""
        with self._guard:
            if self._remotes.get(remote.name) is remote:
                del self._remotes[remote.name]
        self._registrar.order(remote.name, ClientOrders(run=remote.orders.run))

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        """Runs the server, which ends with the thread that started it: so one thread does all of it."""
        try:
            self._server.start()
            wire = Wire(self._server.address)
            try:
                wire.wait_up(10.0)
                self._registrar = Registrar(wire, ClientReport, ClientOrders, self._lease_s)
                self._registrar.alive()  # makes the bucket, with our lease
                self._mailbox = Mailbox(NatsExchange(wire, self._me), self._me)
                self._started.set()
                looks = 0
                while not self._ending.wait(_STEP_S):
                    if looks % int(_LOOK_S / _STEP_S) == 0:
                        if not self._server.is_alive():
                            self._server.start()  # again
                        self._look()
                    looks += 1
                    self._receive()
            finally:
                wire.close()
                self._server.stop()
        except Exception as error:
            self._failure = error
            for remote in self._remotes.values():
                remote.received(None)
        finally:
            self._started.set()

    def _look(self) -> None:
        alive = self._registrar.alive()
        if alive is None:
            return
        self._here = frozenset(alive)
        with self._guard:
            remotes = list(self._remotes.values())
        for remote in remotes:
            with self._guard:
                self._see(remote, alive.get(remote.name, ClientReport()))
            if remote.name in alive and not remote.session:
                self._registrar.order(remote.name, remote.orders)

    def _see(self, remote: Remote, report: ClientReport) -> None:
        """Handles a client's last report; an empty one stands for none."""
        session = report.session if report.run == remote.orders.run else ""
        if remote.session and session != remote.session:
            remote.cause = "its process ended" if report.died == remote.session else SILENT
            self._mailbox.forget(remote.session)
            remote.received(None)
        remote.session = session
        if session:
            remote.received(encode(Standing(report.at)))

    def _receive(self) -> None:
        with self._guard:
            self._mailbox.flush()
            by_session = {remote.session: remote for remote in self._remotes.values() if remote.session}
            for sender, line, data in self._mailbox.receive():
                remote, message = by_session.get(sender), read(line)
                if remote is None:  # it is from before, and others have its websites
                    continue
                if isinstance(message, Done) and message.facts is not None:
                    remote.files.keep(Website(message.website, ""), message.facts, data)
                remote.received(line)
