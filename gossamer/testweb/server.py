"""`Server` is the test web's HTTP/1.1 server: one thread, one epoll, any host name, on loopback.

    server = Server(web, RealClock(), ServerOptions(log_path=Path("requests.tsv")))
    server.port                               chosen by the system unless asked for
    server.faults["h1.test"] = Fault("hang")  see faults.py
    server.run()                              until stop(), also from a signal handler or another thread

GET and HEAD are answered on kept-alive connections, pipelining included; the Host field names the host. Answers of slow
hosts wait in a heap of timers and block no other. The name testweb.control is the server itself:
/fault?host=NAME&kind=KIND switches a fault on (without a kind: off), /advance?s=SECONDS moves the web's time on.
"""

import heapq
import os
import select
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gossamer.clocks import Clock
from gossamer.errors import ConfigError
from gossamer.testweb.answer import Answer, Web, http_date, text
from gossamer.testweb.connection import Connection
from gossamer.testweb.faults import Fault
from gossamer.testweb.log import FLUSH_S, LogWriter
from gossamer.testweb.wire import BAD_METHOD, BAD_REQUEST, HEAD_BYTES, Parser, Request, framed

CONTROL = "testweb.control"
_SEND_BUFFER = 512 << 10  # a whole page goes to the kernel at once
_ACCEPTS = 8  # at a time, so that open connections are not kept waiting
_BATCH = 8  # requests a turn: few enough that their answers are still in the processor's cache when they are sent
_SWEEP_S = 5.0
_SLOW_TICK_S = 0.1


@dataclass(frozen=True)
class ServerOptions:
    address: str = "127.0.0.1"
    port: int = 0  # 0: one that is free
    log_path: Path | None = None
    at_s: float = 0.0  # the web's time when the server starts
    speed: float = 1.0  # how fast it goes; 0: it stands still
    idle_s: float = 60.0  # connections unused so long are closed
    faults: Mapping[str, Fault] = field(default_factory=dict)


class Server:
    def __init__(self, web: Web, clock: Clock, options: ServerOptions) -> None:
        self._web, self._options = web, options
        self._monotonic = clock.monotonic
        self.faults: dict[str, Fault] = dict(options.faults)
        self._offset_s = clock.now() - clock.monotonic()
        self.epoch_s = self._now()  # wall clock when the web's time was at_s
        self._at_s = options.at_s
        self._log = LogWriter(options.log_path) if options.log_path else None
        self._parser = Parser()
        self._latency: dict[str, float] = {}
        self._connections: dict[int, Connection] = {}
        self._opened = 0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_count = 0
        self._ready: list[tuple[Connection, list[bytes]]] = []
        self._date, self._date_s = b"", 0
        self._sweep_s = min(_SWEEP_S, max(0.1, options.idle_s))
        self._swept_s = self.epoch_s
        self._stopped = False
        self._listener = _listen(options.address, options.port)
        self.address, self.port = self._listener.getsockname()[:2]
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._epoll.register(self._wake, select.EPOLLIN)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            os.eventfd_write(self._wake, 1)

    def stop_on_eof(self, fd: int) -> None:
        """Stops when the other end of this pipe is closed: the process that started us is gone."""
        try:
            self._epoll.register(fd, select.EPOLLIN)
        except PermissionError:  # a file, or /dev/null
            raise ConfigError("--stop-on-eof wants standard input to be a pipe or a terminal") from None

    def web_time_s(self, now_s: float) -> float:
        return self._at_s + (now_s - self.epoch_s) * self._options.speed

    def _now(self) -> float:
        return self._offset_s + self._monotonic()

    # --- the loop

    def run(self) -> None:
        try:
            while not self._stopped:
                for fd, event in self._epoll.poll(self._timeout_s(), _BATCH):
                    connection = self._connections.get(fd)
                    if connection is None:
                        self._other(fd)
                    elif event & select.EPOLLOUT:
                        self._continue(connection)
                    else:
                        self._read(connection)
                self._tick(self._now())
                self._send_all()
        finally:
            self._end()

    def _timeout_s(self) -> float:
        timeout_s = FLUSH_S if self._log and self._log.waiting else self._sweep_s
        if self._timers:
            timeout_s = min(timeout_s, max(0.0, self._timers[0][0] - self._now()))
        return timeout_s

    def _tick(self, now_s: float) -> None:
        while self._timers and self._timers[0][0] <= now_s:
            heapq.heappop(self._timers)[2]()
        if self._log:
            self._log.flush_if_due(now_s)
        if now_s - self._swept_s > self._sweep_s:
            self._swept_s = now_s
            limit = now_s - self._options.idle_s
            for connection in [c for c in self._connections.values() if not c.busy and c.used_s < limit]:
                self._close(connection)

    def _other(self, fd: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
        elif fd == self._wake or os.read(fd, 4096) == b"":
            self._stopped = True

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _ = self._listener.accept()
            except OSError:  # none left, or the peer is gone already
                return
            sock.setblocking(False)
            self._opened += 1
            connection = Connection(sock, self._opened, self._now())
            self._connections[connection.fd] = connection
            self._epoll.register(connection.fd, select.EPOLLIN)
            self._read(connection)  # its request has come already (see _listen)

    def _later(self, at_s: float, action: Callable[[], None]) -> None:
        self._timer_count += 1  # ties in order of arrival
        heapq.heappush(self._timers, (at_s, self._timer_count, action))

    def _end(self) -> None:
        for connection in list(self._connections.values()):
            self._close(connection)
        if self._log:
            self._log.close()
        self._listener.close()
        self._epoll.close()
        os.close(self._wake)

    # --- requests

    def _read(self, connection: Connection) -> None:
        if not connection.receive() or len(connection.received) > HEAD_BYTES:
            self._close(connection)
        elif not connection.busy:
            self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        """Answers what has been received, one request after the other."""
        while connection.received and not connection.busy:
            head, end, rest = connection.received.partition(b"\r\n\r\n")
            if not end:
                return
            connection.received = rest
            self._begin(connection, self._parser.request(head))

    def _begin(self, connection: Connection, request: Request | None) -> None:
        now_s = self._now()
        connection.busy, connection.start_s, connection.status = True, now_s, 0
        if request is None:
            connection.host = connection.path = connection.agent = "-"
            connection.keeps = False
            self._answer(connection, None, BAD_REQUEST)
            return
        host = connection.host = request.host
        connection.path, connection.agent, connection.keeps = request.path, request.fields.agent, request.keeps
        fault = self.faults.get(host)
        if fault and fault.kind == "refuse":
            self._close(connection)
        elif fault and fault.kind == "hang":
            return
        elif request.method not in (b"GET", b"HEAD"):
            self._answer(connection, request, BAD_METHOD)
        elif host == CONTROL:
            self._answer(connection, request, self._control(request.path))
        else:
            answer = self._web.response(host, request.path, self.web_time_s(now_s), request.fields.asked)
            latency_s = self._latency.get(host)
            if latency_s is None:
                latency_s = self._latency[host] = self._web.latency_s(host)
            if latency_s:
                self._later(now_s + latency_s, lambda: self._answer(connection, request, answer))
            else:
                self._answer(connection, request, answer)

    def _control(self, path: str) -> Answer:
        parts = urlsplit(path)
        values = {name: value[-1] for name, value in parse_qs(parts.query).items()}
        try:
            if parts.path == "/fault":
                self.faults.pop(values["host"], None)
                if "kind" in values:
                    self.faults[values["host"]] = Fault.parse(values["kind"])
            elif parts.path == "/advance":
                self._at_s += float(values["s"])
            else:
                return text(404, "The test web's controls are /fault and /advance.\n")
        except (KeyError, ValueError, ConfigError) as error:
            return text(400, f"{error}\n")
        return text(200, "done\n")

    # --- answers

    def _answer(self, connection: Connection, request: Request | None, answer: Answer) -> None:
        if connection.fd < 0:  # left while the answer waited for its time
            return
        parts = framed(answer, request, self._date_field(int(connection.start_s)))
        connection.status, connection.body_bytes = answer.status, sum(map(len, parts)) - len(parts[0])
        fault = self.faults.get(connection.host)
        if fault:
            self._misbehave(connection, fault, parts)
            return
        self._ready.append((connection, parts))

    def _send_all(self) -> None:
        """Sends the answers of this turn together: the client is woken once for all of them, which is most of the cost
        of sending."""
        while self._ready:
            ready, self._ready = self._ready, []
            for connection, parts in ready:
                if connection.fd >= 0:
                    end_s = self._now()
                    self._sent(connection, connection.send(parts), end_s)
                    if connection.received and not connection.busy:
                        self._serve(connection)

    def _continue(self, connection: Connection) -> None:
        end_s = self._now()
        self._sent(connection, connection.send_pending(), end_s)
        if not connection.busy and connection.fd >= 0:
            self._serve(connection)

    def _sent(self, connection: Connection, here: bool, end_s: float) -> None:
        """Acts after every send. `end_s` is the time before it, for the log."""
        if not here:
            connection.status = 0
            self._close(connection)
            return
        waiting = bool(connection.pending)
        if waiting != connection.writing:
            connection.writing = waiting
            self._epoll.modify(connection.fd, select.EPOLLIN | (select.EPOLLOUT if waiting else 0))
        if not waiting:
            self._finish(connection, end_s)

    def _finish(self, connection: Connection, end_s: float) -> None:
        connection.busy = False
        connection.used_s = end_s
        if self._log and connection.host != CONTROL:
            self._log.write(connection.line(end_s), end_s)
        if not connection.keeps:
            self._close(connection)

    def _misbehave(self, connection: Connection, fault: Fault, parts: list[bytes]) -> None:
        whole = b"".join(parts)
        if fault.kind == "slow":
            connection.pending = [memoryview(whole)]
            self._drip(connection, max(1, int(fault.bytes_per_s * _SLOW_TICK_S)))
            return
        connection.status = 0
        connection.send([b"\x00\xff garbage \x00\r\n\r\n" if fault.kind == "garbage" else whole[: len(whole) // 2]])
        self._close(connection, reset=fault.kind == "reset")

    def _drip(self, connection: Connection, size: int) -> None:
        if connection.fd < 0:
            return
        end_s = self._now()
        here = connection.send_pending(size)
        if here and connection.pending:
            self._later(end_s + _SLOW_TICK_S, lambda: self._drip(connection, size))
        else:
            self._sent(connection, here, end_s)
            if not connection.busy and connection.fd >= 0:
                self._serve(connection)

    def _close(self, connection: Connection, reset: bool = False) -> None:
        if connection.fd < 0:
            return
        if connection.busy:  # no full answer
            connection.busy, connection.status, connection.body_bytes = False, 0, 0
            if self._log and connection.host != CONTROL:
                end_s = self._now()
                self._log.write(connection.line(end_s), end_s)
        connection.received = b""
        del self._connections[connection.fd]
        connection.close(reset)  # which also takes it out of the epoll

    def _date_field(self, second: int) -> bytes:
        if second != self._date_s:
            self._date, self._date_s = f"Date: {http_date(second)}\r\nServer: testweb\r\n".encode(), second
        return self._date


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted sockets inherit these.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Connections are accepted when their first request is there, or after so many seconds.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {address}:{port}: {error.strerror}; --port 0 takes a free one") from None
    listener.listen(4_096)
    listener.setblocking(False)
    return listener
