"""Object stores on loopback, for tests: SeaweedFS, moto, Azurite, and a server of ours that speaks as Google's;
and a proxy that counts, drops and refuses."""

import contextlib
import http.client
import os
import secrets
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import google_storage
import pytest

from experiments import servers
from experiments.servers import AZURE_ACCOUNT, AZURE_KEY
from gossamer.config.folders import Address

BUCKET = "gossamer-tests"


@dataclass(frozen=True)
class Server:
    """A running store: its address without http://, and what a client must have in its environment."""

    kind: str
    port: int
    scheme: str
    settings: dict[str, str] = field(default_factory=dict)

    def address(self) -> Address:
        """A place in its bucket where nothing is yet."""
        return Address(f"{self.scheme}://{BUCKET}/tests/{secrets.token_hex(6)}")

    def through(self, port: int) -> "Server":
        """The same by way of a proxy."""
        settings = {name: text.replace(f":{self.port}", f":{port}") for name, text in self.settings.items()}
        return Server(self.kind, self.port, self.scheme, settings)


@contextlib.contextmanager
def _or_skip() -> Iterator[None]:
    """Skips a test whose server is not installed."""
    try:
        yield
    except servers.Missing as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[Server]:
    with contextlib.ExitStack() as stack:
        with _or_skip():
            port = stack.enter_context(servers.seaweedfs(folder, BUCKET))
        yield Server("seaweedfs", port, "s3", servers.s3_settings(port))


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Server]:
    (port,) = servers.free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with servers.running(command, folder, lambda: servers.answers(port, "/moto-api/")):
        server = Server("moto", port, "s3", servers.s3_settings(port))
        make_bucket(server, BUCKET)
        yield server


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[Server]:
    with contextlib.ExitStack() as stack:
        with _or_skip():
            port = stack.enter_context(servers.azurite(folder, "blob"))["blob"]
        settings = {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
        }
        server = Server("azurite", port, "az", settings)
        make_bucket(server, BUCKET)
        yield server


@contextlib.contextmanager
def google(_: Path) -> Iterator[Server]:
    with google_storage.serving(BUCKET) as port:
        settings = {"GOOGLE_BASE_URL": f"http://127.0.0.1:{port}", "GOOGLE_BEARER_TOKEN": "token"}
        yield Server("google", port, "gs", settings)


STORES = {"seaweedfs": seaweedfs, "moto": moto, "azurite": azurite, "google": google}


def make_bucket(server: Server, name: str) -> None:
    if server.scheme == "s3":
        servers.make_bucket(server.port, name)
    else:
        _make_container(server, name)


def _make_container(server: Server, name: str) -> None:
    """Makes a container by Azure's REST interface, signed with the shared key."""
    import base64
    import hashlib
    import hmac
    from email.utils import formatdate

    date = formatdate(usegmt=True)
    resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}\nrestype:container"
    text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
    signature = base64.b64encode(hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    connection.request("PUT", f"/{AZURE_ACCOUNT}/{name}?restype=container", headers=headers)
    answer = connection.getresponse()
    connection.close()
    if answer.status != 201:
        raise RuntimeError(f"no container: {answer.status} {answer.reason}")


@contextlib.contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Sets variables of this process, and nothing of the user's own."""
    gone = [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "AZURITE_", "GOOGLE_"))]
    before = {name: os.environ.get(name) for name in {*gone, *settings}}
    for name in gone:
        del os.environ[name]
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class Asked:
    """One request that went through the proxy."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and ("list-type=" in self.query or "comp=list" in self.query)

    @property
    def is_put(self) -> bool:
        return self.method == "PUT" or (self.method == "POST" and "delete" not in self.query)

    @property
    def is_create(self) -> bool:
        return self.method == "PUT" and (
            self.headers.get("if-none-match") == "*" or self.headers.get(google_storage.CONDITION) == "0"
        )


CONDITIONS = ("if-none-match", google_storage.CONDITION)
PASS, DROP_BEFORE, DROP_AFTER, STRIP = "pass", "drop before", "drop after", "without its condition"
Answer = tuple[int, str, bytes]  # status, reason, body


class Proxy:
    """An HTTP proxy on loopback before one server. `judge` says of each request what becomes of it: it passes, the
    connection is cut before or after the server got it, its condition is taken out, or it gets an answer of ours. All
    that came is in `asked`."""

    def __init__(self, port: int, judge: "Callable[[Asked], str | Answer] | None" = None) -> None:
        self._to, self.judge = port, judge or (lambda _: PASS)
        self.asked: list[Asked] = []
        self.delay_s = 0.0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="proxy", daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def count(self) -> Counter[str]:
        kinds = Counter(each.method for each in self.asked)
        kinds["LIST"] = sum(each.is_list for each in self.asked)
        return kinds

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException), client, client.makefile("rb") as file:
            server = http.client.HTTPConnection("127.0.0.1", self._to, timeout=60)
            try:
                while self._request(client, file, server):
                    pass
            finally:
                server.close()

    def _request(self, client: socket.socket, file: "object", server: http.client.HTTPConnection) -> bool:
        line = file.readline()  # type: ignore[attr-defined]
        if not line:
            return False
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers: list[tuple[str, str]] = []
        while text := file.readline().decode("latin-1").rstrip("\r\n"):  # type: ignore[attr-defined]
            name, _, value = text.partition(":")
            headers.append((name, value.strip()))
        known = {name.lower(): value for name, value in headers}
        if known.get("expect", "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = file.read(int(known.get("content-length", 0)))  # type: ignore[attr-defined]
        parts = urlsplit(target)
        asked = Asked(method, parts.path, parts.query, known)
        verdict = self.judge(asked)
        self.asked.append(asked)
        if self.delay_s:
            time.sleep(self.delay_s)
        if verdict == DROP_BEFORE:
            return False
        if isinstance(verdict, tuple):
            status, reason, content = verdict
            head = (
                f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/xml\r\nContent-Length: {len(content)}\r\n\r\n"
            )
            client.sendall(head.encode() + (content if method != "HEAD" else b""))
            return True
        server.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            if name.lower() not in ("expect", "connection", *(CONDITIONS if verdict == STRIP else ())):
                server.putheader(name, value)
        server.endheaders(body)
        answer = server.getresponse()
        content = answer.read()
        if verdict == DROP_AFTER:
            return False
        head = f"HTTP/1.1 {answer.status} {answer.reason}\r\n"
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                head += f"{name}: {value}\r\n"
        length = answer.getheader("Content-Length") if method == "HEAD" else None
        head += f"Content-Length: {length or len(content)}\r\n\r\n"
        client.sendall(head.encode("latin-1") + content)
        return True


@contextlib.contextmanager
def at(server: Server, cache: Path, proxy: Proxy | None = None, **more: str) -> Iterator[None]:
    """The environment of a client of the store, by way of a proxy or not."""
    through = server.through(proxy.port) if proxy else server
    with environment({**through.settings, "GOSSAMER_CACHE": str(cache), **more}):
        yield
