"""Small archives for the tests of what reads archives: by the real writers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.archive.cdxj import REVISIT, Capture, write_cdxj
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.merge import merge
from gossamer.archive.state import Counters, replace
from gossamer.archive.store import Directory
from gossamer.archive.tables import write_table
from gossamer.archive.warc import IDENTICAL, WarcWriter, payload_digest, stored_as
from gossamer.columns import LINKS, PAGES, ROBOTS, VISITS, Column, Outcome
from gossamer.config import Config
from gossamer.crawl.states import TRANSITIONS
from gossamer.sharing.exchange import InProcess
from gossamer.web.url import domain_of, host_of, page_key

NOW_S = 1_750_000_000.25
HTML = "Content-Type: text/html; charset=utf-8\r\n"


@dataclass
class Request:
    url: str


@dataclass
class Response:
    """What the WARC writer needs of an answer."""

    url: str
    body: bytes
    headers: str = HTML
    started_s: float = NOW_S
    status: int = 200
    reason: str = ""
    elapsed_s: float = 0.125
    address: str = "192.0.2.1"
    truncated: str = ""
    request_body: bytes = b""
    protocol: str = ""
    large: Any = None
    request_head: bytes = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

    @property
    def request(self) -> Request:
        return Request(self.url)

    @property
    def head(self) -> bytes:
        return f"HTTP/1.1 {self.status} X\r\n{self.headers}\r\n".encode()


@dataclass
class Visit:
    """A visit as the tests tell it; an answer is stored if there is one."""

    url: str
    outcome: str = "ok"
    after_s: float = 0.0  # when, seen from NOW_S
    response: Response | None = None
    refers_to: tuple[str, float] | None = None
    row: dict[str, Any] = field(default_factory=dict)


def page(url: str, body: str, outcome: str = "ok", after_s: float = 0.0, **row: Any) -> Visit:
    response = Response(url, body.encode(), started_s=NOW_S + after_s)
    return Visit(url, outcome, after_s, response, row=row)


class Sample:
    """An archive under construction: each `commit` is a round."""

    def __init__(self, path: Path, agent: str = "a0") -> None:
        self.path = path
        self._config = Config().replace({"crawl.agent": agent})
        self._store = Directory.prepare(path, NOW_S)
        self._exchange = InProcess()
        self._chain = Chain.open(self._store, agent, self._exchange)

    def commit(
        self,
        known: Sequence[str] = (),
        visits: Sequence[Visit] = (),
        links: Sequence[tuple[str, str, str]] = (),
        robots: Sequence[dict[str, Any]] = (),
        **state: Any,
    ) -> None:
        number = self._chain.round
        warc = WarcWriter(self._store, number, self._config)
        captures: list[Capture] = []
        tables = [
            (VISITS, [self._visit_row(visit, warc, number, captures) for visit in visits]),
            (PAGES, [_page_row(url, number) for url in known]),
            (LINKS, [_link_row(link, number) for link in links]),
            (ROBOTS, list(robots)),
        ]
        changes = warc.close()
        for table, rows in tables:
            if rows:
                columns = {column.name: _values(column, rows) for column in table.columns}
                changes |= write_table(self._store, table, self._chain.agent, number, columns)
        changes |= write_cdxj(self._store, self._chain.agent, number, captures)
        self._commit(changes, **state)

    def merge(self) -> None:
        """Make one file of each kind; the old ones are gone afterwards."""
        config = self._config.replace({"archive.merge_files": 2})
        changes = merge(self._store, self._chain.files, config, self._chain.round)
        assert {"warc", "visits", "pages", "cdxj"} <= set(changes.removed)
        self._commit(changes)

    def _commit(self, changes: Changes, **news: Any) -> None:
        state = replace(self._chain.state, **news)
        now_s = NOW_S + self._chain.round
        self._chain.commit(changes, state=state, marks={}, outbox=[], exchange=self._exchange, applied=[], now_s=now_s)

    def _visit_row(self, visit: Visit, warc: WarcWriter, number: int, captures: list[Capture]) -> dict[str, Any]:
        row = {**_NO_VISIT, "key": page_key(visit.url), "url": visit.url, "host": host_of(visit.url)}
        status = TRANSITIONS[Outcome[visit.outcome.upper()]].status.name.lower()
        row |= {"round": number, "time": NOW_S + visit.after_s, "outcome": visit.outcome, "status": status}
        row["kind"] = "page"
        response = visit.response
        if response is not None:
            digest = payload_digest(response.head, response.body)
            profile = IDENTICAL if visit.refers_to else ""
            to = stored_as(*visit.refers_to, digest, digest) if visit.refers_to else None
            place = warc.write_exchange(response, digest, to, profile)
            mime = REVISIT if visit.refers_to else "text/html"
            captures.append(Capture(visit.url, response.started_s, mime, response.status, digest, place))
            row |= {"http_status": response.status, "digest": digest, "elapsed_s": response.elapsed_s}
            row |= {"wire_bytes": len(response.body), "body_bytes": len(response.body)}
            row |= {"warc": place.file, "warc_offset": place.offset, "warc_bytes": place.length}
        return row | visit.row


def _values(column: Column, rows: list[dict[str, Any]]) -> Any:
    values = [row[column.name] for row in rows]
    return np.array(values, column.dtype) if column.dtype[0] in "uif" else values


def _page_row(url: str, number: int) -> dict[str, Any]:
    host = host_of(url)
    row = {"key": page_key(url), "url": url, "host": host, "domain": domain_of(host)}
    return row | {"referrer": 0, "round": number, "depth": 0, "kind": "page"}


def _link_row(link: tuple[str, str, str], number: int) -> dict[str, Any]:
    source, target, verdict = link
    row = {"source": page_key(source), "target": page_key(target), "target_url": target}
    return row | {"verdict": verdict, "round": number, "kind": "link"}


_NO_VISIT: dict[str, Any] = {
    column.name: "" if column.dtype in ("string", "dict") else False if column.dtype == "bool" else 0
    for column in VISITS.columns
}

A, B, C, D = "http://a.test/", "http://a.test/b", "http://www.b.test/c", "http://c.test/d"
TITLE = "Spiders <cross> oceans"


def sample(path: Path, agent: str = "a0") -> Path:
    """Two rounds: A fetched and found unchanged, B moved, C failed, D never visited; robots.txt of a.test."""
    archive = Sample(path, agent)
    body = "<html lang=en><title>Spiders</title><p>Gossamer &amp; wind</p><script>no()</script></html>"
    robots_txt = {"origin": "http://a.test", "time": NOW_S - 1, "expires": NOW_S + 86_400, "http_status": 200}
    archive.commit(
        known=[A, B, C],
        visits=[
            Visit("http://a.test/robots.txt", after_s=-1, row={"is_robots": True, "wire_bytes": 10}),
            page(A, body, title=TITLE, language="en", content_type="text/html", links=2),
            Visit(B, "moved", 1.0, Response(B, b"", "Location: /\r\n", NOW_S + 1, 301), row={"location": A}),
        ],
        links=[(A, B, "followed"), (A, C, "followed"), (A, "http://x.test/", "scope")],
        robots=[robots_txt | {"verdict": "rules", "body": b"User-agent: *\nDisallow:\n"}],
        counters=Counters(visits=2, hosts=2, known=3, frontier=1, outcomes={"ok": 1, "moved": 1}),
    )
    again = Response(A, body.encode(), started_s=NOW_S + 60)
    archive.commit(
        known=[D],
        visits=[
            Visit(A, "unchanged", 60.0, again, (A, NOW_S), {"title": TITLE, "language": "en"}),
            Visit(C, "timeout", 61.0, row={"reason": "no answer within 60 s"}),
        ],
        links=[(A, B, "followed")],
    )
    return path
