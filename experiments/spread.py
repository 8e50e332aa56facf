"""`Spread` is an archive whose files are spread over two places by the hash of their names.

Half of what an agent writes is sent to the other place's server, over TCP, and read back from there when it is needed:
what a crawler pays that is stretched over both (UniCrawl, section V-B2).
"""

import contextlib
import json
import socket
import socketserver
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from xxhash import xxh3_64_intdigest

from gossamer.archive.checksums import Checksum
from gossamer.archive.store import Directory, checked

_LOCAL = "tmp/"  # files that are being made are nowhere yet


def place_of(name: str) -> int:
    """0 or 1."""
    return xxh3_64_intdigest(name.encode()) & 1


class Spread:
    """A Store, as whoever is at the place `here` sees it; `far` is the port of the other place's `Shelf`.

    What was read from there is kept, as files never change; what was written there is not: it is read back.
    """

    def __init__(self, near: Directory, here: int, far: int) -> None:
        self._near, self._here = near, here
        self._socket = socket.create_connection(("127.0.0.1", far))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rwb")
        self._lock = threading.Lock()
        self._kept = Path(tempfile.mkdtemp(prefix="far-", dir=near.path.parent))

    def put(self, name: str, data: bytes | Path) -> None:
        if self._is_near(name):
            self._near.put(name, data)
        else:
            self._forget(name)
            self._ask("put", name, data.read_bytes() if isinstance(data, Path) else data)
            if isinstance(data, Path):
                data.unlink()

    def create(self, name: str, data: bytes) -> bool:
        return self._near.create(name, data) if self._is_near(name) else self._ask("create", name, data) == b"true"

    def get(self, name: str) -> bytes:
        return self._near.get(name) if self._is_near(name) else self._ask("get", name)

    def local(self, name: str) -> Path:
        if self._is_near(name):
            return self._near.local(name)
        path = self._copy_of(name)
        if not path.exists():
            path.write_bytes(self._ask("get", name))
        return path

    def checksum(self, name: str) -> Checksum:
        """Made where the file is: it is not sent for that."""
        return self._near.checksum(name) if self._is_near(name) else Checksum(*json.loads(self._ask("checksum", name)))

    def size(self, name: str) -> int:
        return self._near.size(name) if self._is_near(name) else int(self._ask("size", name))

    def list(self, prefix: str) -> list[str]:
        near = self._near.list(prefix)
        if prefix.startswith(_LOCAL):
            return near
        far = json.loads(self._ask("list", prefix))
        return sorted(name for name in {*near, *far} if not name.startswith(_LOCAL))

    def delete(self, *names: str) -> None:
        for name in names:
            if self._is_near(name):
                self._near.delete(name)
            else:
                self._forget(name)
                self._ask("delete", name)

    def settle(self) -> None:
        """Has nothing to wait for."""

    def fetch(self, names: Iterable[str]) -> None:
        """Fetches one by one, when it is asked for them."""

    def scratch(self, name: str) -> Path:
        return self._near.scratch(name)

    def lock(self, agent: str) -> AbstractContextManager[None]:
        return self._near.lock(agent)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _is_near(self, name: str) -> bool:
        return checked(name).startswith(_LOCAL) or place_of(name) == self._here

    def _copy_of(self, name: str) -> Path:
        return self._kept / name.replace("/", "+")

    def _forget(self, name: str) -> None:
        self._copy_of(name).unlink(missing_ok=True)  # whoever has mapped it keeps it

    def _ask(self, what: str, name: str, data: bytes = b"") -> bytes:
        with self._lock:
            _send(self._file, {"what": what, "name": name}, data)
            answer, found = _receive(self._file)
        if answer.get("is_missing"):
            raise FileNotFoundError(f"{name} is not in the archive")
        return found


class Shelf(socketserver.ThreadingTCPServer):
    """What is kept at one place, for those at the other. `bytes_by_kind` counts what went in and out."""

    daemon_threads = True

    def __init__(self, directory: Directory) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.directory, self.bytes_by_kind = directory, Counter[str]()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="shelf", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def answer(self, what: str, name: str, data: bytes) -> bytes:
        if what == "put":
            self.directory.put(name, data)
        elif what == "create":
            return json.dumps(self.directory.create(name, data)).encode()
        elif what == "get":
            return self.directory.get(name)
        elif what == "checksum":
            return json.dumps(self.directory.checksum(name)).encode()
        elif what == "size":
            return str(self.directory.size(name)).encode()
        elif what == "list":
            return json.dumps(self.directory.list(name)).encode()
        elif what == "delete":
            self.directory.delete(name)
        return b""


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Shelf

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                head, data = _receive(self.rfile)
                found, missing = b"", False
                try:
                    found = self.server.answer(head["what"], head["name"], data)
                except FileNotFoundError:
                    missing = True
                self.server.bytes_by_kind[head["name"].partition("/")[0]] += len(data) + len(found)
                _send(self.wfile, {"is_missing": missing}, found)


class _Writer(Protocol):
    def write(self, data: bytes, /) -> Any: ...

    def flush(self) -> None: ...


class _Reader(Protocol):
    def readline(self) -> bytes: ...

    def read(self, size: int, /) -> bytes: ...


def _send(file: _Writer, head: dict[str, Any], data: bytes) -> None:
    file.write(json.dumps({**head, "size": len(data)}).encode() + b"\n")
    file.write(data)
    file.flush()


def _receive(file: _Reader) -> tuple[dict[str, Any], bytes]:
    line = file.readline()
    if not line:
        raise ConnectionError("the other place has closed the connection")
    head = json.loads(line)
    return head, file.read(head["size"])
