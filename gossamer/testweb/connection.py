"""A `Connection` is one client's TCP connection to the test web: bytes in, bytes out, and its current request."""

import socket
import struct

_READ = 64 << 10
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Connection:
    __slots__ = (
        "agent", "body_bytes", "busy", "fd", "host", "keeps", "number", "path", "pending", "received", "sock",
        "start_s", "status", "used_s", "writing",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, number: int, now_s: float) -> None:
        self.sock, self.fd, self.number = sock, sock.fileno(), number  # fd is -1 once closed
        self.received = b""
        self.pending: list[memoryview] = []  # what the kernel did not take yet
        self.writing = False  # epoll reports when it takes more
        self.busy = False  # between a request and the end of its answer
        self.keeps = True
        self.used_s = self.start_s = now_s
        self.host = self.path = self.agent = ""
        self.status = self.body_bytes = 0

    def receive(self) -> bool:
        """Takes what has arrived; returns False if the client is gone."""
        try:
            data = self.sock.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received = self.received + data if self.received else data
        return bool(data)

    def send(self, parts: list[bytes]) -> bool:
        """Hands parts to the kernel, keeps what it does not take; returns False if the client is gone."""
        try:
            sent = self.sock.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent != sum(map(len, parts)):
            self._keep([memoryview(part) for part in parts], sent)
        return True

    def send_pending(self, limit: int = 0) -> bool:
        """Does the same with what was left before, at most `limit` bytes of it (0: all)."""
        first = self.pending[0]
        try:
            sent = self.sock.send(first[:limit]) if limit else self.sock.sendmsg(self.pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        self._keep(self.pending, sent)
        return True

    def _keep(self, parts: list[memoryview], sent: int) -> None:
        rest = []
        for part in parts:
            if sent < len(part):
                rest.append(part[sent:])
            sent = max(0, sent - len(part))
        self.pending = rest

    def line(self, end_s: float) -> str:
        """Returns the request's line of the log (see log.py)."""
        return (
            f"{self.start_s:.6f}\t{end_s:.6f}\t{self.number}\t{self.host}\t{self.path}\t{self.status}"
            f"\t{self.body_bytes}\t{self.agent}\n"
        )

    def close(self, reset: bool = False) -> None:
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.sock.close()
        self.fd = -1
        self.pending = []
