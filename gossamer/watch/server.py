"""`Server` is the HTTP server of `gossamer watch`: the page, its figures, events, metrics and health.

One thread serves all. Another looks at the crawl now and then; what changed is encoded once and sent to all who listen.
Each connection carries one request: that keeps the server small, and nobody can hold more than the limits below.
"""

import asyncio
import gzip
import hmac
import ipaddress
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import responses
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from gossamer.clocks import Clock
from gossamer.watch import asking, metrics
from gossamer.watch.observer import Observer

_HEAD_BYTES = 16_384
_BODY_BYTES = 65_536
_REQUEST_S = 10.0
_CONNECTIONS = 512
_LISTENERS = 256
_UNSENT_BYTES = 4 << 20  # a listener that does not read is left
_PING_S = 15.0
_LOOK_S, _CALM_S, _FAR_S = 1.0, 3.0, 15.0  # between looks: if somebody listens; else; at a bucket
_PATIENCE, _MOST_S = 100.0, 5.0  # so many times what a look costs must pass before the next, but no more than that
_TAIL = 40  # points of a series that an event has
_COOKIE = "gossamer_token"
_IMAGES = "/images/"

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_NOTHING = "default-src 'none'; sandbox; frame-ancestors 'none'"


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]  # by name, in small letters
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        lines = {"Content-Type": self.kind, "Content-Length": str(len(self.body)), "Connection": "close"}
        lines |= {"Cache-Control": "no-store", **_SAFE, **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"HTTP/1.1 {self.status} {responses[self.status]}\r\n{head}\r\n".encode("latin-1") + self.body


class Refused(Exception):
    """A request is refused, with this answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.response = Response(status, f"{words}\n".encode())


class Asset(NamedTuple):
    """`Asset` is a file of the page, compressed once."""

    kind: str
    compressed: bytes
    tag: str


class Server:
    """`Server` shows one crawl. `token` is what everybody must know; empty: whoever is on this machine may look."""

    def __init__(self, observer: Observer, clock: Clock, token: str = "") -> None:
        self._observer, self._clock, self._token = observer, clock, token
        self._assets = _assets()
        self._parts: dict[str, bytes] = {}
        self._listeners: set[asyncio.StreamWriter] = set()
        self._connections = 0
        self._asking, self._reading = asyncio.Semaphore(1), asyncio.Semaphore(4)
        self._widths: tuple[int, int] = (0, 0)
        self._cost_s = 0.0  # of the last look

    async def serve(self, host: str, port: int, announce: Callable[[str, int, bool], None]) -> None:
        """Serves until it is cancelled. `announce` learns where, and whether a token is needed."""
        await asyncio.to_thread(self._look)
        server = await asyncio.start_server(self._connected, host, port, limit=_HEAD_BYTES, backlog=256)
        host, port = server.sockets[0].getsockname()[:2]
        announce(host, port, bool(self._token))
        async with server:
            await self._watch()

    async def _watch(self) -> None:
        """Looks at the crawl again and again, and sends what changed."""
        pinged_s = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._pause_s())
            changed = await asyncio.to_thread(self._look)
            now_s = self._clock.monotonic()
            if changed:
                self._send(b"event: change\ndata: %s\n\n" % _object(changed))
            elif now_s - pinged_s > _PING_S:
                self._send(b": nothing new\n\n")
            else:
                continue
            pinged_s = now_s

    def _pause_s(self) -> float:
        if not self._observer.is_near:
            return _FAR_S
        is_lively = bool(self._listeners) and self._observer.state() in ("running", "starting")
        # A crawl that is bound by CPU commits several rounds a second, and must not pay for being looked at.
        return min(max(_LOOK_S, _PATIENCE * self._cost_s), _MOST_S) if is_lively else _CALM_S

    def _look(self) -> dict[str, bytes]:
        """Returns the parts that have changed, encoded."""
        observer, begun_s = self._observer, self._clock.monotonic()
        observer.look(self._clock.now())
        found = {name: msgspec.json.encode(part) for name, part in observer.parts().items()}
        changed = {name: data for name, data in found.items() if data != self._parts.get(name)}
        series = {"whole": observer.history.whole, "recent": observer.history.recent}
        full = msgspec.json.encode({name: each.as_dict() for name, each in series.items()})
        if full != self._parts.get("series"):
            widths = observer.history.whole.width_s, observer.history.recent.width_s
            is_same = widths == self._widths and "series" in self._parts
            tail = {name: each.as_dict(_TAIL) for name, each in series.items()}
            changed |= {"tail": msgspec.json.encode(tail)} if is_same else {"series": full}
            self._widths = widths
        self._parts = {**found, "series": full}
        self._cost_s = self._clock.monotonic() - begun_s
        return changed

    def _send(self, data: bytes) -> None:
        for writer in list(self._listeners):
            transport = writer.transport
            if transport.is_closing() or transport.get_write_buffer_size() > _UNSENT_BYTES:
                self._listeners.discard(writer)
                transport.abort()
            else:
                writer.write(data)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= _CONNECTIONS:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections -= 1
            self._listeners.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                request = await _read(reader)
            self._admit(request)
            if (request.method, request.path) == ("GET", "/events"):
                await self._listen(reader, writer)
                return
            response = await self._response(request)
        except Refused as refusal:
            response = refusal.response
        writer.write(response.encoded())
        async with asyncio.timeout(_REQUEST_S):
            await writer.drain()

    def _admit(self, request: Request) -> None:
        """Refuses whoever may not look.

        Without a token only names of this machine are served: a page from elsewhere whose name leads here (DNS
        rebinding) would have another one. A query must come from our own page.
        """
        if self._token:
            _check_token(request, self._token)
        elif not _is_local(request.headers.get("host", "")):
            raise Refused(403, "this server answers for 127.0.0.1 and localhost; others need --token-file")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise Refused(403, "this request comes from another page")

    async def _response(self, request: Request) -> Response:
        if request.path == "/api/query":
            return await self._query(request)
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "this address can only be read")
        if "token" in request.query and request.path == "/":  # keeps it out of the address bar, and of bookmarks
            cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            return Response(303, headers={"Location": "/", "Set-Cookie": cookie})
        if request.path == "/metrics":
            return Response(200, metrics.exposition(self._observer).encode(), metrics.CONTENT_TYPE)
        if request.path == "/healthz":
            return self._health()
        if request.path.startswith(_IMAGES):
            return await self._image(request.path.removeprefix(_IMAGES))
        if request.path == "/api/state":
            return Response(200, _object(self._parts), TYPES["json"])
        return self._asset(request)

    def _health(self) -> Response:
        found = self._observer.health()
        return Response(200 if found["healthy"] else 503, msgspec.json.encode(found) + b"\n", TYPES["json"])

    async def _image(self, name: str) -> Response:
        """Serves an image of one of the last pages: nothing that a browser could take for a document."""
        async with self._reading:
            found = await asyncio.to_thread(self._observer.thumbnails.read, name)
        if found is None:
            raise Refused(404, "there is no such image")
        headers = {"Cache-Control": "private, max-age=3600, immutable", "Content-Security-Policy": _NOTHING}
        return Response(200, found[1], found[0], headers)

    def _asset(self, request: Request) -> Response:
        asset = self._assets.get(request.path)
        if asset is None:
            raise Refused(404, "there is nothing here; / is the dashboard")
        headers = {"Cache-Control": "no-cache", "ETag": asset.tag}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(200, gzip.decompress(asset.compressed), asset.kind, headers)
        return Response(200, asset.compressed, asset.kind, {**headers, "Content-Encoding": "gzip"})

    async def _query(self, request: Request) -> Response:
        """Runs SQL in a process of its own. A form of another page cannot send JSON unasked."""
        if request.method != "POST" or request.headers.get("content-type") != TYPES["json"]:
            raise Refused(405, "send a query with POST, as JSON")
        try:
            sql = str(json.loads(request.body)["sql"])
        except (ValueError, KeyError, TypeError):
            raise Refused(400, 'write {"sql": "SELECT ..."}') from None
        if self._asking.locked():
            raise Refused(429, "another query is running; try again in a moment")
        async with self._asking:
            return Response(200, await _asked(str(self._observer.place), sql), TYPES["json"])

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends everything once, then what changes, until the listener goes."""
        if len(self._listeners) >= _LISTENERS:
            raise Refused(503, "too many listen already")
        lines = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Connection": "close", **_SAFE}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\nretry: 2000\n\n".encode())
        writer.write(b"event: state\ndata: %s\n\n" % _object(self._parts))
        self._listeners.add(writer)
        while await reader.read(1024):  # ends when the listener has gone
            pass


async def _read(reader: asyncio.StreamReader) -> Request:
    """Reads one request; what is no HTTP is refused."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")[:-2]
        method, target, version = first.split(" ")
        pairs = [line.split(":", 1) for line in lines]
        headers = {name.lower(): value.strip() for name, value in pairs}
        size = int(headers.get("content-length", "0"))
    except ValueError:
        raise Refused(400, "this is not HTTP") from None
    if not version.startswith("HTTP/1.") or "transfer-encoding" in headers or size < 0:
        raise Refused(400, "this is not HTTP as it is spoken here")
    if size > _BODY_BYTES:
        raise Refused(413, "this is too long")
    split = urlsplit(target)
    return Request(method, split.path, parse_qs(split.query), headers, await reader.readexactly(size))


def _check_token(request: Request, token: str) -> None:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    cookies = [each.strip() for each in request.headers.get("cookie", "").split(";")]
    given = [bearer, *request.query.get("token", []), *(each.partition("=")[2] for each in cookies if _COOKIE in each)]
    if not any(hmac.compare_digest(each.encode(), token.encode()) for each in given):
        raise Refused(401, "a token is needed: open /?token=..., or send Authorization: Bearer ...")


def _is_local(host: str) -> bool:
    """Returns whether a Host header names this machine itself."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _asked(crawl: str, sql: str) -> bytes:
    """Returns the answer to a query as JSON. Its process is ended if it takes too long."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", asking.__name__, crawl,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(asking.SECONDS):
            found, _ = await process.communicate(sql.encode())
    except TimeoutError:
        return msgspec.json.encode({"error": f"the query took longer than {asking.SECONDS} s; add a LIMIT or a WHERE"})
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return found or msgspec.json.encode({"error": "the query needs more memory than it may have: choose fewer rows"})


def _object(parts: Mapping[str, bytes]) -> bytes:
    """Joins parts that are JSON to an object."""
    return b"{%s}" % b",".join(b'"%s":%s' % (name.encode(), data) for name, data in parts.items())


def _assets() -> dict[str, Asset]:
    """Returns the files of the page, by path."""
    found: dict[str, Asset] = {}
    folders: list[tuple[str, Any]] = [("/", files("gossamer.watch") / "page")]
    while folders:
        path, folder = folders.pop()
        for entry in folder.iterdir():
            ending = entry.name.rpartition(".")[2]
            if entry.is_dir():
                folders.append((f"{path}{entry.name}/", entry))
            elif ending in TYPES:
                data = entry.read_bytes()
                asset = Asset(TYPES[ending], gzip.compress(data, 9, mtime=0), f'"{sha256(data).hexdigest()[:16]}"')
                found["/" if path + entry.name == "/index.html" else path + entry.name] = asset
    return found
