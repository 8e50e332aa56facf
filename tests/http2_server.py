"""A server on loopback that speaks only HTTP/2, over TLS, and remembers what it was asked."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

REFUSED = "no_application_protocol"  # RFC 7301 section 3.2: what servers do that insist
CLOSED = "closed"  # what servers do that agree on nothing, and then find out
ALERT = bytes.fromhex("15 0303 0002 0278")


@dataclass(frozen=True)
class Asked:
    """One request: its pseudo fields and fields, and its body."""

    connection: int
    fields: list[tuple[str, str]]
    body: bytes = b""

    @property
    def path(self) -> str:
        return dict(self.fields)[":path"]


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b"hello"
    fields: dict[str, str] = field(default_factory=dict)
    early: dict[str, str] | None = None  # fields of a 103 that comes first
    error: h2.errors.ErrorCodes | None = None  # the stream is reset instead; with a body, after it


class Http2Server:
    """`Http2Server` answers each request as `answer` says. HTTP/1.1 is refused as `refusal` says."""

    def __init__(
        self,
        certificate: Path,
        answer: Callable[[Asked], Answer],
        refusal: str = REFUSED,
        also: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """`also`: the server knows HTTP/1.1, too, and answers a head so."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._context.set_alpn_protocols(["h2", "http/1.1"] if also else ["h2"])
        self._answer, self._refusal, self._also = answer, refusal, also
        self.asked: list[Asked] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def paths(self) -> list[str]:
        return [each.path for each in self.asked]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, h2.exceptions.ProtocolError), connection:
            if self._refusal == REFUSED and not self._also and b"\x02h2" not in connection.recv(4096, socket.MSG_PEEK):
                connection.sendall(ALERT)
                return
            with self._context.wrap_socket(connection, server_side=True) as stream:
                if stream.selected_alpn_protocol() == "h2":
                    self._speak(stream, number)
                elif self._also:
                    self._speak_http1(stream)

    def _speak_http1(self, stream: ssl.SSLSocket) -> None:
        assert self._also
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := stream.recv(4096)):
                return
            head += data
        stream.sendall(self._also(head))

    def _speak(self, stream: ssl.SSLSocket, number: int) -> None:
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        stream.sendall(http.data_to_send())
        bodies: dict[int, bytes] = {}
        fields: dict[int, list[tuple[str, str]]] = {}
        unsent: dict[int, tuple[Answer, bytes]] = {}
        while data := stream.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    assert event.stream_id
                    fields[event.stream_id], bodies[event.stream_id] = list(event.headers), b""  # type: ignore[arg-type]
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                    http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    asked = Asked(number, fields.pop(event.stream_id), bodies.pop(event.stream_id))
                    self.asked.append(asked)
                    answer = self._answer(asked)
                    self._begin(http, event.stream_id, answer)
                    if answer.body or answer.error is None:
                        unsent[event.stream_id] = (answer, answer.body)
                elif isinstance(event, h2.events.StreamReset):
                    unsent.pop(event.stream_id, None)
            for stream_id in list(unsent):
                self._go_on(http, stream_id, unsent)
            stream.sendall(http.data_to_send())

    def _begin(self, http: h2.connection.H2Connection, stream_id: int, answer: Answer) -> None:
        if answer.error is not None and not answer.body:
            http.reset_stream(stream_id, answer.error)
            return
        if answer.early is not None:
            http.send_headers(stream_id, [(":status", "103"), *answer.early.items()])
        http.send_headers(stream_id, [(":status", str(answer.status)), *answer.fields.items()])

    def _go_on(self, http: h2.connection.H2Connection, stream_id: int, unsent: dict[int, tuple[Answer, bytes]]) -> None:
        """Sends as much of a body as the other side has room for."""
        answer, rest = unsent[stream_id]
        while rest and (room := min(http.local_flow_control_window(stream_id), http.max_outbound_frame_size)) > 0:
            http.send_data(stream_id, rest[:room])
            rest = rest[room:]
        unsent[stream_id] = (answer, rest)
        if not rest:
            if answer.error is not None:
                http.reset_stream(stream_id, answer.error)
            else:
                http.end_stream(stream_id)
            del unsent[stream_id]


@contextlib.contextmanager
def http2_server(certificate: Path, answer: Callable[[Asked], Answer], **options: object) -> Iterator[Http2Server]:
    server = Http2Server(certificate, answer, **options)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()
