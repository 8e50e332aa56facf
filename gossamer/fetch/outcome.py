"""This module classifies answers: what a status, a header block or a libcurl error means for a visit."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pycurl

from gossamer.columns import Outcome
from gossamer.fetch.request import Response
from gossamer.web.http import content_type, headers_of, location
from gossamer.web.url import host_of, resolve

_TLS_ERRORS = frozenset(
    getattr(pycurl, name)
    for name in (
        "E_SSL_CONNECT_ERROR", "E_PEER_FAILED_VERIFICATION", "E_SSL_CERTPROBLEM", "E_SSL_CIPHER",
        "E_SSL_CACERT_BADFILE", "E_SSL_ISSUER_ERROR", "E_SSL_INVALIDCERTSTATUS", "E_USE_SSL_FAILED",
    )
)  # fmt: skip
_PROXY_ERROR = 97  # of a SOCKS proxy; pycurl has no name for it
_UNREACHED = (pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_PROXY, _PROXY_ERROR)
# Refusals (RFC 9110 section 15.5, RFC 7725): they are about who asks, and do not say that the page is gone.
_FORBIDDEN = (401, 402, 403, 407, 451)
_PROXIED = (305, 306)  # Use Proxy and its heir: following them would let a server choose our proxy
_SAME_METHOD = (307, 308)  # the others turn a POST into a GET (RFC 9110 section 15.4)
_MOST_BYTES = (1 << 63) - 1
UNWANTED = "unspecified"  # why a body is missing that was not read: WARC has no better word
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[^\n]*\n")
_MOST_CHUNKS = 1 << 18  # as many as `web.http.dechunk` reads; a body in chunks of one byte would cost seconds
# SETTINGS or GOAWAY on stream 0: what a server of HTTP/2 sends first (RFC 9113 section 3.4).
_FIRST_FRAME = re.compile(rb"\0..[\x04\x07]\0\0\0\0\0", re.DOTALL).match
_BLANK = re.compile(rb"\r?\n")
_AFTER_LINE = re.compile(rb"\n\r?\n")


def final_head(lines: list[bytes]) -> bytes:
    """Returns the header block of the final answer, or b"" if it never came to its end. 1xx answers go before it."""
    if lines and lines[-1] == b"\r\n" and lines[0][9:10] != b"1" and lines.index(b"\r\n") == len(lines) - 1:
        return b"".join(lines)  # the only block, and nothing after it
    start = 0
    while True:
        end = _blank(lines, start)
        if end < 0:
            return b""
        first = lines[start]
        if first[9:10] != b"1" or first[9:12] == b"101":
            return b"".join(lines[start : end + 1])  # what follows are trailers, which are in the body too
        start = end + 1


def _blank(lines: list[bytes], start: int) -> int:
    for blank in (b"\r\n", b"\n"):
        try:
            return lines.index(blank, start)
        except ValueError:
            continue
    return -1


def without_excess(body: bytes) -> bytes:
    """Returns a chunked body without what a server sent after its end: that belongs to no answer of ours."""
    if body.endswith(b"\r\n0\r\n\r\n") or body == b"0\r\n\r\n":
        return body
    at = 0
    for _ in range(_MOST_CHUNKS):
        chunk = _CHUNK.match(body, at)
        if chunk is None:
            break
        size = int(chunk[1], 16)
        at = min(chunk.end() + size, len(body))  # a size may be any number
        if size == 0:
            return body[: _trailer_end(body, at)]
        at += 2 if body.startswith(b"\r\n", at) else 1
    return body


def _trailer_end(body: bytes, at: int) -> int:
    blank = _BLANK.match(body, at) or _AFTER_LINE.search(body, at)
    return blank.end() if blank else len(body)


class Framing(NamedTuple):
    """The framing of an answer: where its body ends, and whether the connection stays open."""

    is_chunked: bool
    is_endless: bool  # a declared length beyond all numbers, which libcurl passes over
    stays_open: bool  # another request may follow on this connection


def framing(head: bytes) -> Framing:
    lowered = head.lower()
    length = _value(lowered, b"\ncontent-length:")
    # Most heads have neither word anywhere.
    is_chunked = b"chunked" in lowered and b"chunked" in _value(lowered, b"\ntransfer-encoding:")
    closes = b"close" in lowered and b"close" in _value(lowered, b"\nconnection:")
    is_endless = len(length) > 18 and length.isdigit() and int(length) > _MOST_BYTES
    return Framing(is_chunked, is_endless, not (closes or lowered.startswith(b"http/1.0")))


def _value(lowered: bytes, name: bytes) -> bytes:
    start = lowered.find(name)
    return lowered[start + len(name) : lowered.find(b"\n", start + 1)].strip() if start >= 0 else b""


def is_wanted(head: bytes, types: Sequence[str]) -> bool:
    """Returns whether a body is to be read: one that declares none of the types is not, unless it is no success
    anyway."""
    if head[9:10] != b"2":
        return True
    mime = content_type(headers_of(head))[0]
    return not mime or mime in types or f"{mime.partition('/')[0]}/*" in types or "*/*" in types


def of_type(head: bytes, by_type: Mapping[str, int]) -> int | None:
    """Returns what holds for bodies of the declared type; None: nothing of their own."""
    mime = content_type(headers_of(head))[0]
    return next((by_type[kind] for kind in (mime, f"{mime.partition('/')[0]}/*", "*/*") if kind in by_type), None)


def is_media(head: bytes) -> bool:
    """Returns whether nobody looks for links in a body of the declared type."""
    mime = content_type(headers_of(head))[0]
    return mime.startswith(("image/", "video/", "audio/", "font/")) or mime == "application/pdf"


def classify(response: Response) -> None:
    """Sets the outcome of an answer by its status, and where it leads."""
    request, status = response.request, response.http_status
    if response.truncated == UNWANTED:
        response.outcome = Outcome.REFUSED_TYPE
        response.reason = f"{content_type(headers_of(response.head))[0]} is not among fetch.accept_types"
    elif 200 <= status < 300:
        response.outcome = Outcome.OTHER if status == 206 else Outcome.OK
        if status == 206:
            response.reason = "a part that nobody asked for"
    elif status == 304:
        asked = request.is_conditional
        response.outcome = Outcome.UNCHANGED if asked else Outcome.OTHER
        response.reason = "" if asked else "304 to an unconditional request"
    elif 300 <= status < 400:
        _classify_redirect(response)
    else:
        response.outcome = outcome_of_status(status)


def outcome_of_status(status: int) -> Outcome:
    if status in (404, 410):
        return Outcome.GONE
    if status in (429, 503):
        return Outcome.THROTTLED
    if status in _FORBIDDEN:
        return Outcome.FORBIDDEN
    if 400 <= status < 500:
        return Outcome.REJECTED
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR
    return Outcome.OTHER


def _classify_redirect(response: Response) -> None:
    response.outcome = Outcome.BAD_REDIRECT
    if response.http_status in _PROXIED:
        response.reason = f"{response.http_status} asks for a proxy"
        return
    target = location(headers_of(response.head))
    if not target:
        response.reason = "redirect without a target"
        return
    url = resolve(target, response.request.url)
    if url is None:
        response.reason = f"redirect to something that is no web address: {target[:200]}"
        return
    request = response.request
    if request.post and response.http_status in _SAME_METHOD:
        if host_of(url) != request.host:
            response.reason = "redirect of a POST to another host"
            return
        url += request.post
    if url == request.name:
        response.reason = "redirect to itself"
    else:
        response.outcome, response.location = Outcome.MOVED, url


def reason_of_error(message: str, start: bytes) -> str:
    """Returns why there is no answer, in words. `start`: what came instead of a status line."""
    if is_http2(message, start):
        return "the server speaks only HTTP/2, and we speak HTTP/1.1"
    return f"the answer is not HTTP: it begins with {start[:20]!r}" if start else message


def is_http2(message: str, start: bytes) -> bool:
    """Returns whether a server wants HTTP/2: it says so in the handshake, or with its first bytes."""
    return "no application protocol" in message or bool(_FIRST_FRAME(start))


def outcome_of_error(code: int, connected: bool, secured: bool, https: bool) -> Outcome:
    """Returns what a libcurl error before the end of the header block means."""
    if code in _TLS_ERRORS:
        return Outcome.TLS_FAILED
    if code in _UNREACHED:
        return Outcome.CONNECT_FAILED
    if code == pycurl.E_URL_MALFORMAT:
        return Outcome.REFUSED_ADDRESS  # libcurl's idea of a host name is narrower than the URL standard's
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if not connected:
            return Outcome.CONNECT_FAILED
        if https and not secured:
            return Outcome.TLS_FAILED
        return Outcome.TIMEOUT
    return Outcome.BROKEN
