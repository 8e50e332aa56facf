"""Clients on other machines, as the coordinator has them: its site's nats-server, who is there, and what they say.

Who is alive says the registrar, as for the agents of a site: a client reports, and counts its lease from when it sent
the report, while we count from when it came. So it has stopped scanning when we give its websites to others. What they
say to each other goes through the exchange. A client that lost its lease, or was begun anew, comes back under another
name (`session`): nothing of before is heard.
"""

import secrets
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.keys import paths
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Open, Server
from gossamer.cluster.registrar import Registrar
from gossamer.errors import ConfigError
from gossamer.scan.channel import UNHEARD, Channel, Message, Said, Worker
from gossamer.scan.facts import Places
from gossamer.scan.letters import Letters
from gossamer.scan.process import Process
from gossamer.scan.websites import Website

_STEP_S = 0.025
_LOOK_S = 0.25  # how often the registrar is asked
_OTHERS_MAY_NOT = ("$KV.orders.>", "$KV.wishes.>", "$KV.standing.>")


def workers(federation: Federation, here: str, slots: int) -> list[Worker]:
    """One for each agent of each site; those of this site are processes of this machine."""
    if here not in federation.sites:
        raise ConfigError(f"{federation.path} has no site {here}; there are {', '.join(federation.sites)}")
    return [
        Worker(f"{site}_a{number}", slots, is_remote=site != here)
        for site, one in federation.sites.items()
        for number in range(one.agents)
        if not one.gone
    ]


@dataclass
class Remote:
    """A Channel to a client elsewhere, there or not."""

    gathering: "Gathering"
    number: int
    name: str
    said: Said
    run: str  # under which it is told what to do
    orders: dict[str, Any] = field(default_factory=dict)
    places: Places = field(default_factory=lambda: Places(Path()))
    session: str = ""  # which life of the client is there; none: nobody is
    cause: str = UNHEARD  # why the one before is not

    def tell(self, message: Mapping[str, Any]) -> None:
        if "client" in message:
            self.places = Places(Path(message["scan"]))
            self.orders = {"run": self.run, **message, "scan": self.places.token()}
        else:
            self.gathering.send(self, message)

    def kill(self) -> str:
        return self.cause

    def close(self, patience_s: float) -> None:  # noqa: ARG002  it has all the time it wants: nobody waits for it
        self.gathering.dismiss(self)


class Gathering:
    """Use as a context manager; `open` makes the channels of one scan after the other."""

    def __init__(self, folder: Path, federation: Federation, here: str, lease_s: float) -> None:
        prepare(federation)
        shutil.rmtree(folder / "nats", ignore_errors=True)  # what was said to those before us
        site = federation.sites[here]
        files = {name: str(Path(path).resolve()) for name, path in paths(federation.keys, here).items()}
        way = Open(here, site.listen or site.address, files, list(federation.sites), _OTHERS_MAY_NOT)
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

    def open(self, number: int, worker: Worker, said: Said) -> Channel:
        if not worker.is_remote:
            return Process(number, worker, said)
        with self._guard:
            remote = self._remotes[worker.name] = Remote(self, number, worker.name, said, secrets.token_hex(8))
            return remote

    def is_there(self, name: str) -> bool:
        """Whether a client is connected, at work or not."""
        self._check()
        return name in self._here

    def send(self, remote: Remote, message: Mapping[str, Any]) -> None:
        with self._guard:
            if remote.session:
                self._letters.send(remote.session, message)

    def dismiss(self, remote: Remote) -> None:
        """The scan is over for it."""
        with self._guard:
            if self._remotes.get(remote.name) is remote:
                del self._remotes[remote.name]
        self._registrar.order(remote.name, {"run": remote.run, "over": True})

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        """The server ends with the thread that started it: all of it is in one."""
        try:
            self._server.start()
            wire = Wire(self._server.address)
            try:
                wire.wait_up(10.0)
                self._registrar = Registrar(wire, self._lease_s)
                self._registrar.alive()  # makes the bucket, with our lease
                self._letters = Letters(NatsExchange(wire, self._me), self._me)
                self._started.set()
                looks = 0
                while not self._ending.wait(_STEP_S):
                    if looks % int(_LOOK_S / _STEP_S) == 0:
                        if not self._server.is_alive():
                            self._server.start()  # again
                        self._look()
                    looks += 1
                    self._hear()
            finally:
                wire.close()
                self._server.stop()
        except Exception as error:
            self._failure = error
            for remote in self._remotes.values():
                remote.said.put((remote.number, None))
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
            facts = alive.get(remote.name, {})
            with self._guard:
                self._see(remote, facts)
            if remote.orders and remote.name in alive and not remote.session:
                self._registrar.order(remote.name, {**remote.orders, "coordinator": self._me})

    def _see(self, remote: Remote, facts: Message) -> None:
        """What a client's last report says; nothing, if there is none."""
        session = str(facts.get("session", "")) if facts.get("run") == remote.run else ""
        if remote.session and session != remote.session:
            remote.cause = "its process ended" if facts.get("died") == remote.session else UNHEARD
            self._letters.forget(remote.session)
            remote.said.put((remote.number, None))
        remote.session = session
        if session:
            remote.said.put((remote.number, {"at": facts.get("at", {})}))

    def _hear(self) -> None:
        with self._guard:
            self._letters.flush()
            by_session = {remote.session: remote for remote in self._remotes.values() if remote.session}
            for sender, message, data in self._letters.receive():
                remote = by_session.get(sender)
                if remote is None:  # it is from before, and others have its websites
                    continue
                if "done" in message:
                    website = Website(message["done"], "")
                    remote.places.keep(website, message.pop("facts"), data)
                remote.said.put((remote.number, message))
