"""`Transfer` is one libcurl handle: the options set before an exchange, and what it gathers during it."""

import ssl
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, cast

import pycurl

from gossamer.config import Config
from gossamer.errors import OutOfSpace
from gossamer.fetch.fields import Head
from gossamer.fetch.http_versions import as_http1
from gossamer.fetch.outcome import UNWANTED, final_head, is_media, is_wanted, of_type
from gossamer.fetch.request import Request, Response
from gossamer.fetch.resolver import Answer
from gossamer.fetch.spool import Spool
from gossamer.web.posts import body_of

_HELD_BYTES = 1 << 20  # of an image, film or sound, or the like: more of it goes to disk
_MOST_HELD_BYTES = 16 << 20  # of anything else
_ROBOTS_BYTES = 1 << 20  # on the wire; RFC 9309 asks for 500 KiB of text
_BUFFER_BYTES = 64 << 10
_SUPPRESS_CONNECT_HEADERS = 265  # pycurl has no name for it
_NO_HEAD = Head([], b"", b"")
_LATE_S = 0.1  # a shorter look-up does not count: the same time-outs then serve every request


class Way(NamedTuple):
    """`Way` is what handles differ in that are ready for another request."""

    proxy: str = ""
    is_http2: bool = False  # the server may choose HTTP/2


PLAIN = Way()


class Transfer:
    """A handle is used again, because libcurl's set-up is not free: only what differs from last time is set."""

    __slots__ = (
        "_by_type", "_config", "_folder", "_head", "_hold", "_is_literal", "_now", "_pinned", "_pinned_port",
        "_reuse", "_spent", "_types", "_until_s", "address", "answer", "attempt", "body", "chunks", "failure",
        "handle", "is_http2", "is_lenient", "lines", "lookup_s", "proxy", "request", "reuse", "room", "spool",
        "start_s", "started_s", "truncated", "way",
    )  # fmt: skip

    def __init__(
        self,
        config: Config,
        now: Callable[[], float],
        folder: Path | None = None,
        is_lenient: bool = False,
        way: Way = PLAIN,
    ) -> None:
        """`now` is the monotonic clock, `folder` where large bodies may be. `is_lenient`: libcurl only connects, and
        `LenientExchange` does the rest."""
        self._now, self._folder, self._config = now, folder, config.fetch
        self._by_type = cast("dict[str, int]", config.fetch.type_bytes)
        self._hold, self._until_s = 0, inf
        self.spool: Spool | None = None  # what of a large body is on disk
        self.failure: Exception | None = None  # why it cannot be there
        self.is_lenient, self.way = is_lenient, way
        self.proxy, self.is_http2 = way
        self.handle = handle = _handle(config, way.proxy)
        self.lines: list[bytes] = []  # of all header blocks, 1xx included
        self.chunks: list[bytes] = []
        self.room = 0
        self.truncated = ""
        self.attempt = 0
        self.start_s = self.started_s = 0.0  # monotonic, and since 1970
        self.lookup_s = 0.0
        self._head = _NO_HEAD
        self.body = b""  # of the request
        self._reuse = True
        self._is_literal = False
        self._pinned, self._pinned_port = "", 0
        self._spent = (-1.0, False)
        self._types = [kind.lower() for kind in config.fetch.accept_types]
        handle.setopt(pycurl.HEADERFUNCTION, self._take_line if way.is_http2 else self.lines.append)
        if way.is_http2:
            handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        if self._by_type:  # bodies may take long then, but not silence
            handle.setopt(pycurl.LOW_SPEED_LIMIT, 1)
            handle.setopt(pycurl.LOW_SPEED_TIME, max(1, round(config.fetch.timeout_s)))
        handle.setopt(pycurl.WRITEFUNCTION, self.take)
        handle.setopt(pycurl.CONNECT_ONLY, int(is_lenient))

    def prepare(self, request: Request, reuse: bool, head: Head, answer: Answer) -> None:
        """Sets what holds for all attempts of a request."""
        self.request, self.reuse, self.answer, self.attempt = request, reuse, answer, 0
        handle = self.handle
        handle.setopt(pycurl.URL, request.url)
        # libcurl writes escapes in capitals, and would ask for another URL than ours. The option stays set.
        if self._is_literal or "%" in request.url:
            self._is_literal = True
            handle.setopt(pycurl.REQUEST_TARGET, request.url if self.asks_proxy else _target(request.url))
        if self._head is not head:
            self._head = head
            handle.setopt(pycurl.HTTPHEADER, head.lines)
        if request.post or self.body:
            self._set_body(request)
        if self._reuse is not reuse and not self.is_lenient:  # or libcurl would close what it has just connected
            self._reuse = reuse
            handle.setopt(pycurl.FORBID_REUSE, not reuse)

    def _set_body(self, request: Request) -> None:
        self.body = body_of(request.post)[1] if request.post else b""
        if request.post:
            self.handle.setopt(pycurl.POST, 1)
            self.handle.setopt(pycurl.POSTFIELDSIZE, len(self.body))
            self.handle.setopt(pycurl.COPYPOSTFIELDS, self.body)
        else:
            self.handle.setopt(pycurl.HTTPGET, 1)

    def aim(self, now_s: float) -> None:
        """Pins the next attempt to its address, within what is left of the time."""
        answer, spent_s = self.answer, now_s - self.start_s
        spent = (spent_s if spent_s > _LATE_S else 0.0, self.attempt < len(answer.others))
        if self._spent != spent:
            self._spent = spent
            self._limit(*spent)
        if self._by_type:
            self._until_s = self.start_s + self._config.timeout_s
        self.address = address = answer.others[self.attempt - 1] if self.attempt else answer.address
        if (self._pinned != address or self._pinned_port != answer.port) and not self.proxy:
            self._pinned, self._pinned_port = address, answer.port
            name = f"[{address}]" if ":" in address else address
            self.handle.setopt(pycurl.CONNECT_TO, [f"::{name}:{answer.port}"])
        self.truncated = ""
        self.spool = None
        self._hold = _HELD_BYTES
        most = self._config.body_bytes
        self.room = min(most, _ROBOTS_BYTES) if self.request.is_robots else most

    def _limit(self, spent_s: float, has_more: bool) -> None:
        """Sets how long an attempt may take, when so much of the time is spent."""
        fetch = self._config
        connect_s = max(0.01, fetch.connect_timeout_s - spent_s)
        if has_more:
            connect_s /= 2  # leave time for the next address
        longest_s = max(fetch.timeout_s, fetch.type_timeout_s) if self._by_type else fetch.timeout_s
        self.handle.setopt(pycurl.TIMEOUT_MS, int(1000 * max(0.01, longest_s - spent_s)))
        self.handle.setopt(pycurl.CONNECTTIMEOUT_MS, int(1000 * connect_s) or 1)

    def sent_head(self) -> bytes:
        """Returns the request as libcurl sent it, with its secrets."""
        return self._start(self._head.sent)

    def stored_head(self) -> bytes:
        """Returns the request as it may be stored."""
        return self._start(self._head.stored)

    def _start(self, fields: bytes) -> bytes:
        url = self.request.url
        host = url.index("//") + 2
        path = url.index("/", host)
        line = f"{'POST' if self.request.post else 'GET'} {url[path:]} HTTP/1.1\r\nHost: {url[host:path]}\r\n"
        return line.encode("ascii", "replace") + fields + b"\r\n"

    @property
    def asks_proxy(self) -> bool:
        """Whether the request itself goes to a proxy, with the whole URL: there is no tunnel to the website."""
        return self.proxy.startswith("http:") and self.request.url.startswith("http:")

    def has_more_addresses(self) -> bool:
        return self.attempt < len(self.answer.others)

    def is_connected(self) -> bool:
        return bool(self.handle.getinfo(pycurl.CONNECT_TIME) > 0)

    def is_secured(self) -> bool:
        return bool(self.handle.getinfo(pycurl.APPCONNECT_TIME) > 0)

    def tell_times(self, response: Response) -> None:
        """Sets times of the last attempt: until the address was known, then until connected, from request to
        answer."""
        info = self.handle.getinfo
        response.lookup_s, response.connect_s = self.lookup_s, info(pycurl.CONNECT_TIME)
        if first_s := info(pycurl.STARTTRANSFER_TIME):
            response.response_s = max(first_s - info(pycurl.PRETRANSFER_TIME), 0.0)

    def _take_line(self, line: bytes) -> None:
        self.lines.append(as_http1(line))

    def _is_unwanted(self) -> bool:
        """Decides when the first bytes of a body arrive: its headers are complete then."""
        request = self.request
        return not (request.is_robots or "sitemap" in request.url or is_wanted(final_head(self.lines), self._types))

    def take(self, data: bytes) -> int | None:
        """Takes a piece of the body; not None: no more of it."""
        if not self.lines:  # a body without a status line
            self.chunks.append(data)
            return 0
        if self._types and not self.chunks and self._is_unwanted():
            self.truncated = UNWANTED
            return 0
        if self._by_type and not self.request.is_robots and self._is_late():
            return 0
        self.room -= len(data)
        if self.room < 0:
            self.chunks.append(data[: self.room])
            self.truncated = "length"
            return 0  # fewer than offered: libcurl ends the transfer
        self.chunks.append(data)
        self._hold -= len(data)
        return None if self._hold >= 0 else self._spill()

    def _is_late(self) -> bool:
        """Returns whether a body takes too long; with its first piece, sets how large and how late it may be."""
        if not self.chunks and self.spool is None:
            most = of_type(final_head(self.lines), self._by_type)
            if most is not None:
                self.room, self._until_s = most, inf
        if self._now() <= self._until_s:
            return False
        self.truncated = "time"
        return True

    def _spill(self) -> int | None:
        """Moves the body to disk, unless it is a page that may still have room in memory."""
        if self.spool is None and self._hold >= _HELD_BYTES - _MOST_HELD_BYTES and not is_media(final_head(self.lines)):
            return None
        try:
            self.spill()
        except (OSError, OutOfSpace) as error:  # not here: libcurl is between us and whoever can end the crawl
            self.failure = error
            return 0
        return None

    def spill(self) -> None:
        self.spool = self.spool or Spool(self._folder)
        for data in self.chunks:
            self.spool.write(data)
        self.chunks.clear()


def _target(url: str) -> str:
    """Returns the target in the request line."""
    return url[url.index("/", 8) :]


def _handle(config: Config, proxy: str) -> Any:
    handle = pycurl.Curl()
    for option, value in (
        (pycurl.NOSIGNAL, 1),
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
        (pycurl.HTTP_CONTENT_DECODING, 0),
        (pycurl.HTTP_TRANSFER_DECODING, 0),
        (pycurl.HTTP09_ALLOWED, 1),  # only to see what it is: such an answer ends with its first bytes
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.PATH_AS_IS, 1),
        (pycurl.PROXY, proxy),  # or none, whatever the environment says
        (pycurl.NOPROXY, ""),
        (_SUPPRESS_CONNECT_HEADERS, 1),  # what a proxy answers is not the server's answer
        (pycurl.NETRC, pycurl.NETRC_IGNORED),
        (pycurl.DNS_CACHE_TIMEOUT, 0),
        (pycurl.BUFFERSIZE, _BUFFER_BYTES),
        (pycurl.SSL_VERIFYPEER, int(config.fetch.verify_tls)),
        (pycurl.SSL_VERIFYHOST, 2 if config.fetch.verify_tls else 0),
    ):
        handle.setopt(option, value)
    if proxy:
        handle.setopt(pycurl.USERAGENT, config.user_agent)  # for CONNECT, which our fields are not for
    # libcurl in a wheel knows the certificates of the machine it was built on; Python knows ours. One file only:
    # with a directory beside it libcurl would read them anew for every connection.
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        handle.setopt(pycurl.CAINFO, paths.cafile)
        handle.unsetopt(pycurl.CAPATH)
    elif paths.capath:
        handle.setopt(pycurl.CAPATH, paths.capath)
    return handle
