"""Answers of servers, and the reader that turns them into visits, for the tests of the crawl's parts."""

from typing import Any

from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.crawl.reader import Reader
from gossamer.crawl.scope import NamedSitemaps, Scope
from gossamer.fetch.client import Request, Response
from gossamer.web.url import host_of, origin_of, page_key

NOW_S = 1_700_000_000.0
HTML = "Content-Type: text/html; charset=utf-8"


def reader(scope: Scope | None = None, named: NamedSitemaps | None = None, **changes: Any) -> Reader:
    """With options written section__key."""
    config = Config().replace({name.replace("__", "."): value for name, value in changes.items()})
    return Reader(config, scope or Scope("any"), named)


def answer(
    body: bytes = b"", *fields: str, url: str = "http://a.test/dir/p", status: int = 200,
    outcome: Outcome = Outcome.OK, location: str = "", truncated: str = "", started_s: float = NOW_S, **request: Any,
) -> Response:  # fmt: skip
    """What a client hands over; `request` has fields of the Request."""
    head = "\r\n".join([f"HTTP/1.1 {status} x", *fields, "", ""]).encode("latin-1")
    whose = {"origin": origin_of(url)} if request.get("is_robots") else {}
    asked = Request(page_key(url), url, host_of(url), **{**whose, **request})
    sent = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
    return Response(asked, outcome, "", status, started_s, 0.5, "192.0.2.1", sent, head, body, truncated, location)


def page(*hrefs: str, head: str = "") -> bytes:
    return f"<html lang=de><head><title>T</title>{head}</head>{''.join(f'<a href={h}>x</a>' for h in hrefs)}".encode()
