"""This module reads answers that libcurl refuses: those with a header line that is no field.

libcurl ends an exchange at a header line without a colon, and nothing tells it not to; browsers pass over such a line,
and so does `web.http.Headers`. At hosts that send them libcurl only connects and encrypts, and the exchange is here:
one request, `Connection: close`, and its answer, of which every byte is kept.
"""

import re

import pycurl

from gossamer.fetch.outcome import framing
from gossamer.fetch.transfer import Transfer
from gossamer.web.http import Headers, content_length, status_code

IS_POSSIBLE = hasattr(pycurl.Curl, "recv")  # older pycurl has no way to read from a connection
_WEIRD_SERVER_REPLY = 8  # pycurl calls it by an older name
_BUFFER_BYTES = 64 << 10
_BLANK = re.compile(rb"\n\r?\n").search
_LINES = re.compile(rb"[^\n]*\n").findall
_END = b"0\r\n\r\n"  # of a body in chunks
_BODILESS = (204, 304)


def is_refusal(code: int, message: str) -> bool:
    """Returns whether libcurl ended an exchange because of a line that is no header field."""
    return IS_POSSIBLE and code == _WEIRD_SERVER_REPLY and "without colon" in message


class LenientExchange:
    """The exchange uses a connection that libcurl has made; it fills the transfer's lines and chunks as libcurl
    would."""

    def __init__(self, transfer: Transfer, header_bytes: int, until_s: float) -> None:
        self.transfer, self.until_s = transfer, until_s
        self.fd: int = transfer.handle.getinfo(pycurl.ACTIVESOCKET)
        self._header_bytes = header_bytes
        self._unsent = transfer.sent_head() + transfer.body
        self._start = b""  # what has come of a header block
        self._has_head = self._is_chunked = False
        self._left: int | None = None  # bytes of the body that are still to come; None: until the connection ends
        self._tail = b""

    def go_on(self) -> int | None:
        """Sends and reads what can be. Returns libcurl's code for how it ended, None while it has not."""
        handle = self.transfer.handle
        try:
            while self._unsent:
                self._unsent = self._unsent[handle.send(self._unsent) :]
            while data := handle.recv(_BUFFER_BYTES):
                if (code := self._take(data)) is not None:
                    return code
        except BlockingIOError:
            return None
        except pycurl.error as error:
            return int(error.args[0])
        if not self._has_head:
            return int(pycurl.E_GOT_NOTHING)
        return int(pycurl.E_PARTIAL_FILE) if self._left else 0

    def _take(self, data: bytes) -> int | None:
        if self._has_head:
            return self._take_body(data)
        self._start += data
        while blank := _BLANK(self._start):
            head, self._start = self._start[: blank.end()], self._start[blank.end() :]
            status = status_code(head)
            if status is None:
                self._start = head + self._start
                break
            self.transfer.lines += _LINES(head)
            if not 100 <= status < 200 or status == 101:
                return self._begin_body(head, status)
        if not b"HTTP/".startswith(self._start[:5]):  # what it is will be seen from its first bytes
            self.transfer.chunks.append(self._start)
            return int(pycurl.E_WRITE_ERROR)
        if len(self._start) > self._header_bytes:
            self.transfer.lines.append(self._start)
            return 0
        return None

    def _begin_body(self, head: bytes, status: int) -> int | None:
        self._has_head = True
        self._is_chunked = framing(head).is_chunked
        if status in _BODILESS:
            return 0
        if not self._is_chunked:
            self._left = content_length(Headers(head))[0]
        return self._take_body(self._start) if self._start or self._left == 0 else None

    def _take_body(self, data: bytes) -> int | None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data and self.transfer.take(data) is not None:
            return int(pycurl.E_WRITE_ERROR)  # too long, or unwanted
        self._tail = (self._tail + data[-len(_END) :])[-len(_END) :]
        return 0 if self._left == 0 or (self._is_chunked and self._tail == _END) else None
