"""A small proxy on loopback, HTTP and SOCKS5 on one port. It looks no name up: all of them lead to one server."""

import base64
import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import NamedTuple


class Asked(NamedTuple):
    """What somebody asked the proxy for."""

    kind: str  # GET, CONNECT or SOCKS
    host: str
    port: int
    login: str = ""
    target: str = ""
    agent: str = ""


@dataclass
class ProxyServer:
    port_behind: int
    login: str = ""  # user:password that it demands
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError):
            if client.recv(1, socket.MSG_PEEK) == b"\x05":
                self._serve_socks(client)
            else:
                self._serve_http(client)

    def _serve_http(self, client: socket.socket) -> None:
        head, rest = _head(client)
        kind, target, *_ = head.decode("latin-1").split(" ")
        authority = target if kind == "CONNECT" else target.split("/")[2]
        host, _, port = authority.partition(":")
        login = agent = ""
        for line in head.decode("latin-1").split("\r\n"):
            if line.lower().startswith("user-agent: "):
                agent = line.partition(" ")[2]
            if line.lower().startswith("proxy-authorization: basic "):
                login = base64.b64decode(line.split(" ")[2]).decode()
        self.asked.append(Asked(kind, host, int(port or 80), login, target, agent))
        if login != self.login:
            client.sendall(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.port_behind)) as server:
            if kind == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
                _relay(client, server)
                return
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            while True:  # requests without a body, one after the other
                server.sendall(_as_servers_want_it(head))
                head, rest = _head(client, rest)

    def _serve_socks(self, client: socket.socket) -> None:
        """RFC 1928, and RFC 1929 for the password; names only, as socks5h sends them."""
        _, count = _exactly(client, 2)
        _exactly(client, count)
        login = ""
        if self.login:
            client.sendall(b"\x05\x02")
            _, size = _exactly(client, 2)
            user = _exactly(client, size)
            login = f"{user.decode()}:{_exactly(client, _exactly(client, 1)[0]).decode()}"
            client.sendall(b"\x01\x00" if login == self.login else b"\x01\x01")
        else:
            client.sendall(b"\x05\x00")
        _, _, _, kind, size = _exactly(client, 5)
        host = _exactly(client, size).decode()
        port = int.from_bytes(_exactly(client, 2))
        self.asked.append(Asked("SOCKS" if kind == 3 else f"address type {kind}", host, port, login))
        with socket.create_connection(("127.0.0.1", self.port_behind)) as server:
            client.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
            _relay(client, server)


def _as_servers_want_it(head: bytes) -> bytes:
    first, *lines = head.split(b"\r\n")
    kind, target, version = first.split(b" ")
    path = b"/" + target.split(b"/", 3)[3]
    lines = [line for line in lines if not line.lower().startswith(b"proxy-")]
    return b"\r\n".join([b" ".join([kind, path, version]), *lines])


def _head(client: socket.socket, data: bytes = b"") -> tuple[bytes, bytes]:
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more:
            raise ValueError("the client left")
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise ValueError("the client left")
        data += more
    return data


def _relay(one: socket.socket, other: socket.socket) -> None:
    back = threading.Thread(target=_pump, args=(other, one), daemon=True)
    back.start()
    _pump(one, other)
    back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
