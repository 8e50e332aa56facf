"""This module speaks HTTP/1.1 as the test web's server needs it: it reads heads and writes answers."""

from collections.abc import Mapping
from http.client import responses
from typing import NamedTuple

from gossamer.testweb.answer import Answer, text

HEAD_BYTES = 64 << 10  # longer request heads are refused
BAD_REQUEST = text(400, "This is not a request that the test web understands.\n")
BAD_METHOD = text(405, "The test web answers GET and HEAD.\n", more=b"Allow: GET, HEAD\r\n")

_STATUS_LINES = {code: f"HTTP/1.1 {code} {responses.get(code, 'Unknown')}\r\n".encode() for code in range(100, 600)}
_NO_BODY = {204, 304}
_ASKED = {b"if-none-match", b"if-modified-since", b"accept-encoding"}


class Fields(NamedTuple):
    """`Fields` has what matters of a request's header fields."""

    host: str
    agent: str
    asked: Mapping[str, str]
    keeps: bool | None  # keep-alive or close, where the client sends it
    has_body: bool


class Request(NamedTuple):
    method: bytes
    host: str
    path: str
    fields: Fields
    keeps: bool  # the connection may be used again


class Parser:
    """`Parser` takes requests apart. A client sends the same fields again and again, so they are looked up whole."""

    def __init__(self, remember: int = 4_096) -> None:
        self._remember = remember
        self._known: dict[bytes, Fields] = {}

    def request(self, head: bytes) -> Request | None:
        """Parses a request from its head (up to the empty line); None if it is none."""
        line, _, rest = head.partition(b"\r\n")
        words = line.split()
        if len(words) != 3 or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
            return None
        fields = self._known.get(rest)
        if fields is None:
            fields = _fields(rest)
            if len(self._known) >= self._remember:
                self._known.clear()
            self._known[rest] = fields
        method, target, version = words
        host, path = fields.host, target.decode("latin-1")
        if not path.startswith("/"):  # the absolute form, as proxies get it
            scheme, _, after = path.partition("://")
            if scheme.lower() != "http":
                return None
            host, slash, path = after.partition("/")
            host, path = _name(host), slash + path or "/"
        if not host:
            return None
        keeps = fields.keeps if fields.keeps is not None else version == b"HTTP/1.1"
        return Request(method, host, path, fields, keeps and not fields.has_body)


def _fields(block: bytes) -> Fields:
    host, agent, asked, keeps, has_body = "", "", {}, None, False
    for line in block.split(b"\r\n"):
        name, _, raw = line.partition(b":")
        name, value = name.strip().lower(), raw.strip().decode("latin-1")
        if name == b"host":
            host = _name(value)
        elif name == b"user-agent":
            agent = " ".join(value.split())
        elif name in _ASKED:
            asked[name.decode()] = value
        elif name == b"connection":
            keeps = {"close": False, "keep-alive": True}.get(value.lower())
        elif name == b"transfer-encoding" or (name == b"content-length" and value != "0"):
            has_body = True
    return Fields(host, agent, asked, keeps, has_body)


def _name(host: str) -> str:
    """Returns a host name without its port, in lower case."""
    host = "".join(host.split()).lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def framed(answer: Answer, request: Request | None, date: bytes) -> list[bytes]:
    """Returns the bytes to send. Bodies are not copied: the kernel gathers them."""
    status, head, body, chunked = answer
    parts = [_STATUS_LINES[status], head, date]
    if request is None or not request.keeps:
        parts.append(b"Connection: close\r\n")
    if status in _NO_BODY:
        return [b"".join([*parts, b"\r\n"])]
    if chunked and body:
        before, after = b"%x\r\n" % len(body), b"\r\n0\r\n\r\n"
        parts += [b"Transfer-Encoding: chunked\r\n\r\n"]
    else:
        before, after = b"", b""
        parts.append(b"Content-Length: %d\r\n\r\n" % len(body))
    if request is not None and request.method == b"HEAD":
        return [b"".join(parts)]
    return [b"".join([*parts, before]), body, after] if after else [b"".join(parts), body]
