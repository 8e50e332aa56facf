"""`Inviting` is the operator's side when machines join: it makes their tokens, connects to them, and lets the authority
sign what they ask for."""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gossamer.clocks import Clock
from gossamer.cluster.certificates import fingerprint
from gossamer.cluster.changing import change, with_site
from gossamer.cluster.federation_file import Federation, load, parsed
from gossamer.cluster.invitation import Admitted, Forged, Joined, Request, Token, framed, received
from gossamer.cluster.keys import OPERATOR, authority, authority_file, make_keys, tls_name, write_private
from gossamer.errors import ConfigError, GossamerError

_TRY_S = 0.5  # between attempts to reach a machine
_CONNECT_S = 3.0
_ANSWER_S = 10.0
_WRITE_S = 60.0  # the new machine writes what it got, and says so


@dataclass
class Invited:
    """`Invited` is one machine that may join."""

    token: Token
    csr: str = ""  # of whom the authority has signed: a token serves one key
    certificate: bytes = b""
    is_new: bool = False  # the site is not in the list yet
    trouble: str = ""


@dataclass
class Inviting:
    """`run` returns when all have joined, their tokens have ended, or `stop` was called."""

    path: Path
    machines: Sequence[Invited]
    clock: Clock
    report: Callable[[str], None]
    _stopping: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # the list and the authority change one at a time

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> list[str]:
        """Returns the sites that have joined."""
        with ThreadPoolExecutor(len(self.machines)) as pool:
            done = [pool.submit(self._wait_for, machine) for machine in self.machines]
            return [one.token.site for one, joined in zip(self.machines, done, strict=True) if joined.result()]

    def _wait_for(self, machine: Invited) -> bool:
        """Returns whether a machine has joined, before its token ended."""
        site, where = machine.token.site, machine.token.address
        host, _, port = where.rpartition(":")
        while not self._stopping.is_set() and self.clock.now() < machine.token.ends_s:
            trouble = ""
            with contextlib.suppress(OSError):  # it is not there yet, or not any more
                try:
                    with socket.create_connection((host, int(port)), _CONNECT_S) as connection:
                        self._admit(machine, connection)
                    self.report(f"{site} has joined")
                    return True
                except Forged as error:
                    trouble = f"what answers at {where} is not the machine that has the token of {site}: {error}"
                except GossamerError as error:
                    trouble = f"{site} cannot join: {error}"
            if trouble and trouble != machine.trouble:
                self.report(trouble)
            machine.trouble = trouble or machine.trouble
            self._stopping.wait(_TRY_S)
        if machine.certificate:
            self.report(f"{site} has its certificate, and has not said that it came: ask `gossamer federation status`")
        return False

    def _admit(self, machine: Invited, connection: socket.socket) -> None:
        token = machine.token
        request = received(connection, _ANSWER_S)
        asked = token.opened(Request, request)
        try:
            answer = self._answer(machine, asked)
        except (GossamerError, ValueError) as error:
            connection.sendall(framed(token.seal(Admitted(refused=str(error)), request)))
            raise ConfigError(str(error)) from None
        connection.sendall(framed(token.seal(answer, request)))
        joined = token.opened(Joined, received(connection, _WRITE_S), request)
        if joined.refused:  # it has thrown its key away: another attempt has another one
            (load(self.path).keys / f"{token.site}.pem").unlink(missing_ok=True)
            machine.csr, machine.certificate = "", b""
            raise ConfigError(joined.refused)

    def _answer(self, machine: Invited, asked: Request) -> Admitted:
        """Signs, and puts the site on the list if it is new. A machine that asks again, because the answer was lost on
        its way, gets the same."""
        if machine.csr not in ("", asked.csr):
            raise ConfigError("the token has been used, by another machine or an earlier attempt: invite it again")
        site, now = machine.token.site, datetime.fromtimestamp(self.clock.now(), UTC)
        with self._lock:
            keys = load(self.path).keys
            if not machine.certificate:
                made = authority(keys, now, [site]).sign(tls_name(site), asked.csr.encode(), now)
                if machine.is_new:
                    change(self.path, with_site(self.path.read_text("utf-8"), site, machine.token.address))
                    machine.is_new = False
                machine.certificate, machine.csr = made, asked.csr
                write_private(keys / f"{site}.pem", made)
            return Admitted(
                certificate=machine.certificate.decode(),
                authority=authority_file(keys).read_text(),
                text=self.path.read_text("utf-8"),
            )


def invitations(federation: Federation, words: Sequence[str], minutes: float, clock: Clock) -> list[Invited]:
    """Returns the machines that a command invites: the site that is named, which may be new, or all sites of the file
    that have no certificate yet."""
    name, now = federation.path.name, datetime.fromtimestamp(clock.now(), UTC)
    if len(words) > 2:
        raise ConfigError(f"write `gossamer federation invite {name} [SITE [HOST:PORT]]`")
    addresses = _addresses(federation, words)
    authority(federation.keys, now, list(addresses))  # says now what would fail later
    make_keys(federation.keys, [OPERATOR], now)
    known = fingerprint(authority_file(federation.keys).read_bytes())
    ends_s = clock.now() + minutes * 60
    return [
        Invited(Token.new(site, address, listen, name, ends_s, known), is_new=site not in federation.sites)
        for site, (address, listen) in addresses.items()
    ]


def _addresses(federation: Federation, words: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Returns where each site that is invited can be reached, and where it listens."""
    path = federation.path
    known = {name: (one.address, one.listen or one.address) for name, one in federation.sites.items() if not one.gone}
    has = {name: (federation.keys / f"{name}.pem").exists() for name in known}
    if not words:
        found = {name: where for name, where in known.items() if not has[name]}
        if not found:
            raise ConfigError(
                f"all sites of {path.name} have certificates in {federation.keys}; to add a site, write "
                f"`gossamer federation invite {path.name} SITE HOST:PORT`"
            )
        return found
    site, *address = words
    if address:
        new = parsed(path, with_site(path.read_text("utf-8"), site, address[0]))
        return {site: (new.sites[site].address, new.sites[site].address)}
    federation.check_site(site)
    if site not in known:
        raise ConfigError(f"{path.name} says that site {site} is gone: invite the machine under another name")
    if has[site]:
        raise ConfigError(
            f"{site} has a certificate already, {federation.keys / site}.pem. If its machine is lost, move that file "
            "away and invite it again; the certificate stays valid until its site is lost (`lose-site`)"
        )
    return {site: known[site]}
