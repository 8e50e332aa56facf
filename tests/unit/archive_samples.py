"""Answers and rounds for the tests of the archive's writers."""

from dataclasses import dataclass, field
from typing import Any

from gossamer import columns
from gossamer.archive.cdxj import REVISIT, Capture, write_cdxj
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.tables import write_table
from gossamer.archive.warc import IDENTICAL, Location, Stored, WarcWriter, payload_digest, stored_as, stored_digest
from gossamer.config import Config

START = 1_700_000_000.1239


@dataclass
class Request:
    url: str


@dataclass
class Response:
    request: Request
    body: bytes
    head: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    reason: str = ""
    started_s: float = START
    elapsed_s: float = 0.25
    address: str = "192.0.2.7"
    request_head: bytes = b"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Gossamer\r\n\r\n"
    truncated: str = ""
    request_body: bytes = b""
    protocol: str = ""
    large: Any = None

    @property
    def digest(self) -> str:
        return payload_digest(self.head, self.body)

    @property
    def stored_digest(self) -> str:
        return stored_digest(self.head, self.body, self.digest)


def stored(response: Response, started_s: float) -> Stored:
    return stored_as(response.request.url, started_s, response.digest, response.stored_digest)


def answer(url: str, body: bytes = b"<html>hello</html>", more: bytes = b"", **rest: Any) -> Response:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + more + b"\r\n"
    return Response(Request(url), body, **({"head": head} | rest))


def chunked(body: bytes, size: int = 7) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@dataclass
class Round:
    """A round's visits, written with all the writers as a crawl does."""

    number: int
    rows: list[tuple[Response, Location, str]] = field(default_factory=list)

    def write(self, store: Store, config: Config, answers: list[Response], revisit: bool = False) -> Changes:
        writer = WarcWriter(store, self.number, config)
        for response in answers:
            if revisit:
                place = writer.write_exchange(response, "", stored(response, START), IDENTICAL)
            else:
                place = writer.write_exchange(response, response.stored_digest)
            self.rows.append((response, place, REVISIT if revisit else "text/html"))
        changes = writer.close()
        captures = [Capture(r.request.url, r.started_s, mime, 200, r.stored_digest, p) for r, p, mime in self.rows]
        agent = config.crawl.agent
        changes |= write_cdxj(store, agent, self.number, captures)
        return changes | write_table(store, columns.VISITS, agent, self.number, self.visits())

    def visits(self) -> dict[str, Any]:
        plain = {"string": "", "dict": "", "bool": False}
        values: dict[str, Any] = {c.name: plain.get(c.dtype, 0) for c in columns.VISITS.columns}
        values["round"] = self.number
        values["url"] = [response.request.url for response, _, _ in self.rows]
        values["digest"] = [response.digest for response, _, _ in self.rows]
        values["time"] = [response.started_s for response, _, _ in self.rows]
        values["warc"] = [place.file for _, place, _ in self.rows]
        values["warc_offset"] = [place.offset for _, place, _ in self.rows]
        values["warc_bytes"] = [place.length for _, place, _ in self.rows]
        return values
