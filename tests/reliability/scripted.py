"""A small web whose every answer a test writes down, on loopback, and whole crawls of it."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from raw_server import Exchange, Loopback, RawServer

from gossamer import Config, Crawl

# A reply is the bytes of an answer, or a function that sends one and says whether the connection stays open.
Reply = bytes | Callable[[Exchange], bool]

VALUES: dict[str, Any] = {
    "crawl.scope": "any",
    "crawl.patience_s": 2.0,
    "polite.delay_s": 0.0,
    "polite.backoff_s": 0.1,
    "polite.connections": 16,
    "fetch.retries": 1,
    "fetch.retry_s": 0.1,
    "fetch.timeout_s": 5.0,
}


def reply(body: bytes = b"", status: int | str = 200, *fields: str | bytes, mime: str = "text/html") -> bytes:
    """An answer with these header fields; a Content-Type only if there is a body."""
    lines = [f.encode("latin-1") if isinstance(f, str) else f for f in fields]
    if body:
        lines.insert(0, f"Content-Type: {mime}".encode())
    head = [f"HTTP/1.1 {status} x".encode(), *lines, b"Content-Length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def page(*hrefs: str, head: str = "", text: str = "") -> bytes:
    """A page with these links."""
    links = "".join(f'<a href="{href}">to</a>\n' for href in hrefs)
    return reply(f"<!doctype html><html><head><title>t</title>{head}</head><body>{links}{text}</body></html>".encode())


def robots(text: str) -> bytes:
    return reply(text.encode(), mime="text/plain")


def moved(location: str | bytes, status: int = 301) -> bytes:
    target = location.encode() if isinstance(location, str) else location
    return reply(b"", status, b"Location: " + target)


class Web:
    """Answers by "host/path", then by "/path", then by "host"; else 404. Remembers what it was asked."""

    def __init__(self, loopback: Loopback, replies: Mapping[str, Reply], **options: Any) -> None:
        self.replies = dict(replies)
        self.server: RawServer = loopback.serve(self._answer, **options)

    def _answer(self, exchange: Exchange) -> bool:
        host, path = exchange.host, exchange.path
        names = [host + path, path] if path == "/robots.txt" else [host + path, path, host]
        found = next((self.replies[name] for name in names if name in self.replies), reply(b"", 404))
        return exchange.send(found) if isinstance(found, bytes) else found(exchange)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def exchanges(self, host: str = "", with_robots: bool = False) -> list[Exchange]:
        """Requests in order of arrival."""
        return [
            exchange
            for exchange in list(self.server.exchanges)
            if (not host or exchange.host == host) and (with_robots or exchange.path != "/robots.txt")
        ]

    def asked(self, host: str = "", with_robots: bool = False) -> list[str]:
        """What was asked for, as "host/path"."""
        return [exchange.host + exchange.path for exchange in self.exchanges(host, with_robots)]

    def crawl(self, directory: Path, seeds: Iterable[str], **changes: Any) -> Crawl:
        """A crawl of it to the end. Options are written section__key."""
        crawl = Crawl(directory, seeds, self.config(**changes))
        crawl.run()
        return crawl

    def config(self, **changes: Any) -> Config:
        values = {name.replace("__", "."): value for name, value in changes.items()}
        return Config().replace({**VALUES, "resolve.map": {"*": self.address}, **values})


def outcomes(crawl: Crawl) -> dict[str, str]:
    """The outcome of every page's last visit, by URL; pages never visited are left out."""
    sql = "SELECT url, outcome FROM pages WHERE outcome IS NOT NULL"
    return {row["url"]: row["outcome"] for row in crawl.query(sql)}


def statuses(crawl: Crawl) -> dict[str, str]:
    return {row["url"]: row["status"] for row in crawl.query("SELECT url, status FROM pages")}


def verdicts(crawl: Crawl) -> dict[str, str]:
    """What became of each link, by target."""
    return {row["url"]: row["verdict"] for row in crawl.query("SELECT url, verdict FROM targets")}


def silent(server: Callable[[], RawServer], seconds: float) -> Callable[[Exchange], bool]:
    """A reply that lets the client wait for ever, as far as it can tell."""

    def wait(_: Exchange) -> bool:
        with contextlib.suppress(OSError):
            server().pause(seconds)
        return False

    return wait
