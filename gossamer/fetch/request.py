"""`Request` and `Response` are one visit: what is asked of a server, and what came back."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from gossamer.columns import REQUISITE, Outcome


class Request(Struct, gc=False):
    """One page to fetch. `url` is in normal form."""

    key: int
    url: str
    host: str
    depth: int = 0
    hops: int = 0
    tries: int = 0
    rank: float = 0.0  # higher goes first; ties by key
    etag: str = ""
    last_modified: str = ""
    is_robots: bool = False
    known: int = 0  # pages known of that host
    digest: int = 0  # of the body at the last visit; 0 if there was none
    stored: bytes = b""  # which record has that body, as `archive.warc.Stored` packs it; empty if none is known
    origin: str = ""  # robots.txt only: whose rules it brings; redirects may lead elsewhere
    post: str = ""  # end of the page's name, if it is a POST (web/posts.py)
    is_part: bool = False  # a page asked for it while it was rendered: it is a requisite that the index need not know
    asks: str = ""  # what robots.txt and other files of its origin say about its use, a line each

    @property
    def name(self) -> str:
        """Returns the page's name, by which it is known."""
        return self.url + self.post

    @property
    def is_requisite(self) -> bool:
        """Returns whether it is no page, but needed to show one."""
        return self.hops >= REQUISITE and not self.is_robots

    @property
    def is_conditional(self) -> bool:
        return bool(self.etag or self.last_modified) and not self.post


class Large(Protocol):
    """`Large` is a body that is on disk, as it is too large for memory: of a visit a `Spool`."""

    @property
    def size(self) -> int: ...

    @property
    def sha1(self) -> bytes: ...

    @property
    def xxh3(self) -> int: ...

    def start(self, size: int) -> bytes: ...

    def pieces(self) -> Iterator[bytes]: ...


class Response(Struct, gc=False):
    """The response to a request. Bytes are those of the wire; only the final answer counts, no 1xx."""

    request: Request
    outcome: Outcome
    reason: str = ""  # what went wrong, in words
    http_status: int = 0  # 0 if there was no valid answer
    started_s: float = 0.0  # since 1970
    elapsed_s: float = 0.0
    address: str = ""  # contacted; empty if none was
    request_head: bytes = b""
    head: bytes = b""
    body: bytes = b""  # content-coded and chunked as sent
    truncated: str = ""  # length, time, disconnect; unspecified, in the words of WARC, if it was not wanted
    location: str = ""  # where a redirect leads, absolute and in normal form
    kept: bool = False  # the connection is still open for the next request
    lookup_s: float = 0.0
    connect_s: float = 0.0  # 0 on a connection that was kept open
    response_s: float = 0.0
    robots: Sequence[dict[str, Any]] = ()  # rows of the ROBOTS table that follow from this answer
    request_body: bytes = b""
    large: Large | None = None  # the body, if it is too large for memory: `body` is empty then

    @property
    def size(self) -> int:
        """Returns the size of the body, as sent."""
        return self.large.size if self.large is not None else len(self.body)

    protocol: str = ""  # h2, if the answer came in HTTP/2; the header blocks here are in the form of HTTP/1.1


def port_of(request: Request) -> int:
    """Returns the port that the URL names or implies."""
    url = request.url
    start = (8 if url.startswith("https:") else 7) + len(request.host)
    if url[start] == ":":
        return int(url[start + 1 : url.index("/", start)])
    return 443 if url.startswith("https:") else 80
