"""An `Answer` is what a test web sends to one request; `Web` is the port that every kind of test web implements."""

from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, Protocol


class Answer(NamedTuple):
    """`Answer` is an HTTP answer without what the connection decides (length, framing, date)."""

    status: int
    head: bytes  # header lines, each ended by CRLF
    body: bytes
    chunked: bool = False  # send the body in chunks

    @property
    def headers(self) -> dict[str, str]:
        """Returns header fields by lower-case name."""
        lines = self.head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines if line)
        return {name.lower(): value for name, _, value in pairs}


class Web(Protocol):
    """Port: a web that the server can serve."""

    def knows(self, host: str) -> bool:
        """Returns whether it has a host of this name."""

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:
        """Returns the answer for a path with its query at a time of the web.

        `asked` has the lower-case fields if-none-match, if-modified-since and accept-encoding of the request,
        where present.
        """

    def latency_s(self, host: str) -> float:
        """Returns how long the host takes to answer."""

    def start_urls(self) -> list[str]:
        """Returns where a crawl should begin."""


class Joined:
    """`Joined` serves several webs as one: each host is the first web's that knows it."""

    def __init__(self, webs: list[Web]) -> None:
        self._webs = webs
        self._of: dict[str, Web] = {}

    def knows(self, host: str) -> bool:
        return any(web.knows(host) for web in self._webs)

    def response(self, host: str, path: str, t_s: float, asked: Mapping[str, str]) -> Answer:
        web = self._of.get(host)
        if web is None:
            web = next((web for web in self._webs if web.knows(host)), None)
            if web is None:
                return NO_HOST
            self._of[host] = web
        return web.response(host, path, t_s, asked)

    def latency_s(self, host: str) -> float:
        return next((web.latency_s(host) for web in self._webs if web.knows(host)), 0.0)

    def start_urls(self) -> list[str]:
        return [url for web in self._webs for url in web.start_urls()]


def text(status: int, message: str, kind: str = "text/plain; charset=utf-8", more: bytes = b"") -> Answer:
    return Answer(status, b"Content-Type: " + kind.encode() + b"\r\n" + more, message.encode())


NO_HOST = text(421, "This test web has no such host.\n")
NOT_FOUND = text(404, "<!DOCTYPE html>\n<title>Not found</title>\n<h1>Not found</h1>\n", "text/html; charset=utf-8")


def moved(status: int, location: str) -> Answer:
    body = f'<!DOCTYPE html>\n<title>Moved</title>\n<p>It is <a href="{location.replace("&", "&amp;")}">here</a>.\n'
    return text(status, body, "text/html; charset=utf-8", f"Location: {location}\r\n".encode())


def http_date(seconds: float) -> str:
    return _http_date(int(seconds))


@lru_cache(65_536)
def _http_date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def is_current(asked: Mapping[str, str], etag: str, modified_s: float) -> bool:
    """Returns whether the client's copy is good (RFC 9110 section 13.2.2: If-None-Match decides where it is
    present)."""
    tags = asked.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
    since = asked.get("if-modified-since")
    if since is None:
        return False
    try:
        return int(modified_s) <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        return False
