"""`Server` runs nats-server: on loopback, with a password, its data in the crawl's folder; or open to the other sites
of a federation, which authenticate by certificates.

One folder has one server at a time, whichever process starts it: the server itself holds the lock, as long as it lives.
It never outlives the thread that started it.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from gossamer.cluster.jetstream import MESSAGE_BYTES
from gossamer.cluster.keys import address, context, tls_name, write_private
from gossamer.cluster.processes import die_with_parent
from gossamer.errors import SiteError

ADDRESS = "nats.json"
RENEW = "`gossamer federation keys` makes a new one where authority.key is; bring it to its machine"
USER = "gossamer"
_START_S, _STOP_S, _LOCK_S = 30.0, 5.0, 5.0
_ATTEMPTS = 5
_POLL_S = 0.02

_CONFIG = """\
listen: "{host}:{port}"
server_name: "gossamer"
max_payload: {payload}
max_connections: 4096
{access}
jetstream {{ store_dir: {store}, max_memory_store: 256MB, max_file_store: 16GB }}
log_file: {log}
logfile_size_limit: 1MB
logfile_max_num: 3
"""


@dataclass(frozen=True)
class Open:
    """`Open` opens a server to other sites: only to those with certificates that the federation's authority signed.

    Each of them has an account of its own, in which there is nothing but the services that we offer to it. Permissions
    would not do: whoever may ask the server for anything can have the answer sent to any subject, and so delete a
    stream.
    A coordinator of a scan trusts its clients, and shares its own account with them, but for `others_may_not`."""

    site: str
    address: str  # HOST:PORT
    files: Mapping[str, str]  # as `keys.paths`
    sites: Sequence[str]
    services: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by site, or operator: subjects
    others_may_not: Sequence[str] = ()  # publish

    def access(self) -> str:
        names = {"cert_file": "cert", "key_file": "key", "ca_file": "authority"}
        files = ", ".join(f"{name}: {json.dumps(self.files[key])}" for name, key in names.items())
        tls = f"tls {{ {files}, verify_and_map: true, handshake_first: true }}"
        return f"{tls}\n{self._accounts() if self.services else self._users()}"

    def _accounts(self) -> str:
        offered: dict[str, list[str]] = {}
        for name, subjects in self.services.items():
            for subject in subjects:
                offered.setdefault(subject, []).append(name)
        # JetStream answers with many messages, and we with one.
        exports = [
            {"service": subject, "accounts": names, **({"response": "stream"} if subject.startswith("$JS.") else {})}
            for subject, names in offered.items()
        ]
        accounts = {self.site: {"jetstream": "enabled", "users": [{"user": tls_name(self.site)}], "exports": exports}}
        for name, subjects in self.services.items():
            imports = [{"service": {"account": self.site, "subject": subject}} for subject in subjects]
            accounts[name] = {"users": [{"user": tls_name(name)}], "imports": imports}
        return f"accounts: {json.dumps(accounts)}"

    def _users(self) -> str:
        denied = json.dumps({"publish": {"deny": [*self.others_may_not]}})
        limits = {site: "" if site == self.site else f", permissions: {denied}" for site in self.sites}
        users = [f"{{ user: {tls_name(site)}{limits[site]} }}" for site in self.sites]
        return f"authorization {{ users: [{', '.join(users)}] }}"


class Server:
    """`start` also restarts; call it in a thread that lives as long as the server shall."""

    def __init__(self, folder: Path, to_others: Open | None = None) -> None:
        self.folder = folder
        self._open = to_others
        self._host = to_others.address.rpartition(":")[0] if to_others else "127.0.0.1"
        self._process: subprocess.Popen[bytes] | None = None
        self._password = ""
        self._port = 0
        self._is_known = False  # others may already use the port
        self._certified_s = 0.0  # when the certificate was made that it shows

    @property
    def address(self) -> dict[str, str]:
        if self._open:
            host = "127.0.0.1" if self._host == "0.0.0.0" else self._host
            return address(self._open.files, self._open.site, f"{host}:{self._port}")
        return {"url": f"nats://127.0.0.1:{self._port}", "user": USER, "password": self._password}

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the server: up and answering when it returns, at the same port and with the same data as before."""
        if self._is_up():
            return
        self.stop()
        binary = find()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._port:
            self._remember()
        for attempt in range(_ATTEMPTS):
            if self._attempt(binary):
                self._is_known = True
                return
            if self._is_known:  # the port may be taken for a moment: processes that know it must find us there
                time.sleep(_POLL_S * 2**attempt)
            else:
                self._port = free_port()
        tail = self._log_tail()
        if "address already in use" in tail:
            raise SiteError(f"{self._host}:{self._port} is in use by another process: end that, or choose another port")
        raise SiteError(f"nats-server does not start; {self._log_file} ends with:\n{tail}")

    def look_at_certificate(self) -> None:
        """Lets a running server show a certificate that was renewed."""
        made_s = self._certificate_s()
        if self._process is not None and made_s != self._certified_s:
            self._process.send_signal(signal.SIGHUP)
        self._certified_s = made_s

    def _certificate_s(self) -> float:
        with contextlib.suppress(OSError):
            return Path(self._open.files["cert"]).stat().st_mtime if self._open else 0.0
        return self._certified_s

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _attempt(self, binary: str) -> bool:
        config = self.folder / "nats.conf"
        secret = json.dumps(self._password)
        access = self._open.access() if self._open else f"authorization {{ user: {USER}, password: {secret} }}"
        values = {"log": self._log_file, "store": self.folder / "nats"}
        quoted = {name: json.dumps(str(value)) for name, value in values.items()}
        where = {"host": self._host, "port": self._port, "payload": MESSAGE_BYTES, "access": access}
        write_private(config, _CONFIG.format(**where, **quoted).encode())
        write_private(self.folder / ADDRESS, json.dumps(self.address).encode())
        self._certified_s = self._certificate_s()
        with _lock(self.folder / "nats.lock") as lock:
            self._process = subprocess.Popen(
                [binary, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[lock.fileno()],  # it holds the lock from now on
                start_new_session=True,  # Ctrl-C is for us: agents still have messages to send then
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        if self._is_up():
            return True
        self.stop()
        return False

    def _is_up(self) -> bool:
        """Waits until it answers; one that is dying may still look alive, one that is loaded may need its time."""
        for _ in range(int(_START_S / _POLL_S)):
            if not self.is_alive():
                break
            if self._answers():
                return True
            time.sleep(_POLL_S)
        return False

    def _answers(self) -> bool:
        """Returns whether a server of ours is there: it knows our password or certificate, and its JetStream is up."""
        try:
            if self._open:
                with _greeted(self.address, 1.0) as secret:
                    return _is_welcome(secret, {"tls_required": True})
            with socket.create_connection(("127.0.0.1", self._port), 1.0) as plain:
                return _is_welcome(plain, {"user": USER, "pass": self._password})
        except (OSError, ValueError):
            return False

    def _remember(self) -> None:
        """Takes the port and password of before, if there was a before."""
        if self._open:
            self._port, self._is_known = int(self._open.address.rpartition(":")[2]), True
            return
        try:
            before = json.loads((self.folder / ADDRESS).read_text())
            self._port, self._password = int(str(before["url"]).rpartition(":")[2]), str(before["password"])
        except (OSError, ValueError, TypeError, KeyError):
            self._port, self._password = free_port(), secrets.token_urlsafe(32)

    @property
    def _log_file(self) -> Path:
        return self.folder / "nats.log"

    def _log_tail(self) -> str:
        try:
            return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-8:])
        except OSError:
            return "(there is none)"


def _greeted(at: Mapping[str, str], timeout_s: float) -> ssl.SSLSocket:
    where = urlsplit(at["url"])
    plain = socket.create_connection((where.hostname, where.port), timeout_s)
    try:
        return context(at).wrap_socket(plain, server_hostname=at["name"])
    except BaseException as error:
        plain.close()
        if isinstance(
            error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError
        ):  # nobody has seen our certificate
            raise ConnectionAbortedError from None
        raise


def why_refused(at: Mapping[str, str], timeout_s: float) -> str:
    """Returns why the server of another site does not let us in, in words; empty if it does."""
    try:
        with _greeted(at, timeout_s) as secret:
            if _is_welcome(secret, {"tls_required": True}):
                return ""
            return f"does not let {at['cert']} in: its file names no such site"
    except TimeoutError:
        return f"does not answer within {timeout_s:g} s"
    except ssl.SSLCertVerificationError as error:
        remedy = f"; {RENEW}" if "expired" in error.verify_message else ""
        return f"has no certificate of {at['name']} that {at['authority']} has signed: {error.verify_message}{remedy}"
    except ConnectionAbortedError:
        return "closes the connection at once: nobody is behind that address, or another program"
    except ssl.SSLError as error:
        if "WRONG_VERSION" in (error.reason or ""):
            return "does not begin with TLS: it is another program, or a Gossamer that is older than this one"
        if "EXPIRED" in (error.reason or ""):
            return f"refuses the certificate {at['cert']}, which has ended: {RENEW}"
        return f"refuses the certificate {at['cert']}: bring those of this federation here"
    except (ConnectionResetError, BrokenPipeError):
        return f"refuses the certificate {at['cert']}: bring those of this federation here"
    except OSError as error:
        return f"cannot be reached: {error.strerror or error}"


def shown(at: Mapping[str, str], timeout_s: float) -> str:
    """Returns the certificate that the server of another site shows us, as PEM; empty if it cannot be reached."""
    try:
        with _greeted(at, timeout_s) as secret:
            return ssl.DER_cert_to_PEM_cert(secret.getpeercert(binary_form=True) or b"")
    except OSError:
        return ""


def read_address(folder: Path) -> dict[str, str] | None:
    """Returns where the server of a folder is, or was; for other processes of the same user."""
    try:
        return dict(json.loads((folder / ADDRESS).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def find() -> str:
    """Finds nats-server: beside our interpreter, where pip puts it, or wherever the shell would find it."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise SiteError(
            "several agents need nats-server, and there is none: pip install 'gossamer-crawler[agents]', or let them "
            "share the archive alone (--set site.exchange=store)"
        )
    return found


def _is_welcome(connection: socket.socket, access: Mapping[str, object]) -> bool:
    """Returns whether a server lets us in, and has its JetStream. What it says first comes after the TLS greeting."""
    lines, hello = connection.makefile("rb"), {"verbose": False, "pedantic": False, **access}
    has_jetstream = bool(json.loads(lines.readline().partition(b" ")[2] or b"{}").get("jetstream"))
    connection.sendall(b"CONNECT %s\r\nPING\r\n" % json.dumps(hello).encode())
    return lines.readline().startswith(b"PONG") and has_jetstream


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _lock(path: Path) -> IO[bytes]:
    """Takes the lock: two servers on the same data would destroy it. One that is being killed may need a moment."""
    file = path.open("ab")
    for _ in range(int(_LOCK_S / _POLL_S)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            time.sleep(_POLL_S)
    file.close()
    raise SiteError(f"another nats-server is still running in {path.parent}; end it first")
