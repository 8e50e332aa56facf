"""A server on loopback that sends exactly the bytes a test wants, and remembers what it was sent."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gossamer.clocks import RealClock
from gossamer.config import Config
from gossamer.fetch.client import Client, Request, Response
from gossamer.fetch.resolver import Resolver
from gossamer.web.url import host_of, page_key

Answer = Callable[["Exchange"], bool]  # True: the connection stays open for the next request


@dataclass
class Exchange:
    """One request as it arrived, and the way to answer it."""

    connection: int
    socket: Any
    head: bytes
    began_s: float
    body: bytes = b""
    ended_s: float = 0.0  # just before the last bytes went out: the other side cannot have had them earlier

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode("ascii")

    @property
    def host(self) -> str:
        line = next(line for line in self.head.split(b"\r\n") if line.lower().startswith(b"host:"))
        return line[5:].strip().decode("ascii")

    def send(self, data: bytes) -> bool:
        """False once nobody listens."""
        self.ended_s = time.monotonic()
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def send_page(self, body: bytes = b"hello", status: str = "200 OK", fields: bytes = b"") -> bool:
        length = b"Content-Length: %d\r\n" % len(body)
        return self.send(b"HTTP/1.1 " + status.encode() + b"\r\n" + fields + length + b"\r\n" + body)


@dataclass
class RawServer:
    answer: Answer
    exchanges: list[Exchange] = field(default_factory=list)
    wrap: Callable[[socket.socket], Any] = lambda connection: connection
    connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [exchange.path for exchange in self.exchanges]

    def pause(self, seconds: float) -> None:
        """Sleeps, unless the server is closed."""
        self._closing.wait(seconds)

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        self._closing.set()
        # shutdown() ends the accept that waits in the other thread; close() alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(connection)
            arguments = (connection, self.connections)
            threading.Thread(target=self._serve, args=arguments, daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection, self.wrap(connection) as stream:
                rest = b""
                while True:
                    head, rest = _read_head(stream, rest)
                    if not head:
                        return
                    body, rest = _read_body(stream, head, rest)
                    exchange = Exchange(number, stream, head, time.monotonic(), body=body)
                    self.exchanges.append(exchange)
                    if not self.answer(exchange):
                        return
        except (OSError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(connection)


def _read_head(stream: Any, data: bytes) -> tuple[bytes, bytes]:
    while b"\r\n\r\n" not in data:
        more = stream.recv(65536)
        if not more:
            return b"", b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _read_body(stream: Any, head: bytes, data: bytes) -> tuple[bytes, bytes]:
    lines = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lines[0].partition(b":")[2]) if lines else 0
    while len(data) < length:
        more = stream.recv(65536)
        if not more:
            break
        data += more
    return data[:length], data[length:]


class Visitor:
    """A client whose every name leads to one server."""

    def __init__(self, server: RawServer | None = None, **changes: Any) -> None:
        options = {name.replace("__", "."): value for name, value in changes.items()}
        if server is not None:
            options.setdefault("resolve.map", {"*": f"127.0.0.1:{server.port}"})
        self.config = Config().replace({"fetch.timeout_s": 20.0, "fetch.connect_timeout_s": 10.0, **options})
        self.resolver = Resolver(self.config.resolve, RealClock())
        self.client = Client(self.config, RealClock(), self.resolver)

    def fetch(self, url: str = "http://a.test/", reuse: bool = False, **fields: Any) -> Response:
        self.client.start(Request(page_key(url), url, host_of(url), **fields), reuse)
        return self.finish()

    def finish(self) -> Response:
        """The next response; fails rather than wait for ever."""
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            for response in self.client.poll(1.0):
                return response
        raise AssertionError("the client hangs")

    def close(self) -> None:
        self.client.close()


class Loopback:
    """Servers and visitors of one test, closed at its end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def serve(self, answer: Answer, **options: Any) -> RawServer:
        server = RawServer(answer, **options)
        self._stack.callback(server.close)
        return server

    def serve_bytes(self, data: bytes, stays: bool = False) -> RawServer:
        return self.serve(lambda exchange: exchange.send(data) and stays)

    def visitor(self, server: RawServer | None = None, **changes: Any) -> Visitor:
        visitor = Visitor(server, **changes)
        self._stack.callback(visitor.close)
        return visitor

    def fetch_bytes(self, data: bytes, **changes: Any) -> Response:
        """What becomes of a page when the server sends these bytes and closes."""
        return self.visitor(self.serve_bytes(data), **changes).fetch()

    def close(self) -> None:
        self._stack.close()


def loopback() -> Iterator[Loopback]:
    place = Loopback()
    yield place
    place.close()
