"""A name server on loopback that answers as a test wants."""

import socket
import struct
import threading
from collections.abc import Callable

A, AAAA, CNAME = 1, 28, 5
Records = list[tuple[int, str]]  # type and value
Reply = tuple[int, Records] | bytes | None  # response code and records; or all but the number; None: silence


class NameServer:
    """`reply(name, kind)` says what a question gets. Questions are remembered."""

    def __init__(self, reply: Callable[[str, int], Reply], ttl_s: int = 0) -> None:
        self._reply = reply
        self._ttl_s = ttl_s
        self.questions: list[tuple[str, int]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def asked(self, name: str) -> int:
        """How often for its IPv4 address."""
        return self.questions.count((name, A))

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self._socket.getsockname())
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            if not query:
                return
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii"))
                at += 1 + query[at]
            name, kind = ".".join(labels).lower(), struct.unpack(">H", query[at + 1 : at + 3])[0]
            self.questions.append((name, kind))
            reply = self._reply(name, kind)
            if isinstance(reply, bytes):
                self._socket.sendto(query[:2] + reply, sender)
            elif reply is not None:
                self._socket.sendto(self._message(query[:2], query[12 : at + 5], *reply), sender)

    def _message(self, number: bytes, question: bytes, code: int, records: Records) -> bytes:
        header = number + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return header + question + b"".join(self._record(*record) for record in records)

    def _record(self, kind: int, value: str) -> bytes:
        if kind == CNAME:
            data = b"".join(bytes([len(label)]) + label.encode() for label in value.split(".")) + b"\0"
        else:
            data = socket.inet_pton(socket.AF_INET if kind == A else socket.AF_INET6, value)
        return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, self._ttl_s, len(data)) + data
