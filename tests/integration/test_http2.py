"""Servers that refuse HTTP/1.1 are asked with HTTP/2: a real one, over TLS; what is stored has the form of HTTP/1.1."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from http2_server import CLOSED, REFUSED, Answer, Asked, Http2Server
from raw_server import Exchange, Loopback
from warcio.archiveiterator import ArchiveIterator

from gossamer import Config, Crawl
from gossamer.cli.app import main
from gossamer.columns import Outcome

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastwarc.warc import ArchiveIterator as FastIterator

Start = Callable[..., Http2Server]


@pytest.fixture
def start(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a server whose certificate is trusted, for a.test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with ExitStack() as stack:

        def started(answer: Callable[[Asked], Answer] = lambda _: Answer(), **options: object) -> Http2Server:
            server = Http2Server(certificate, answer, **options)  # type: ignore[arg-type]
            stack.callback(server.close)
            return server

        yield started


@pytest.mark.parametrize("refusal", [REFUSED, CLOSED])
def test_a_server_that_refuses_http1_is_asked_with_http2(loopback: Loopback, start: Start, refusal: str) -> None:
    server = start(refusal=refusal)
    visitor = loopback.visitor(server)  # type: ignore[arg-type]
    response = visitor.fetch("https://a.test/x%c3?q=1", reuse=True)
    assert (response.outcome, response.http_status, response.body) == (Outcome.OK, 200, b"hello")
    assert (response.head, response.protocol) == (b"HTTP/1.1 200 OK\r\n\r\n", "h2")
    assert response.request_head.startswith(b"GET /x%c3?q=1 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: ")
    assert b"Connection" not in response.request_head
    assert response.kept
    assert server.connections == 2
    assert visitor.fetch("https://a.test/y").body == b"hello"
    assert server.connections == 2, "its choice is known: the connection is used again"
    assert server.paths == ["/x%c3?q=1", "/y"]
    names = [name for name, _ in server.asked[0].fields]
    assert "connection" not in names
    assert {":authority", "user-agent", "accept", "accept-encoding"} <= {*names}


@pytest.mark.parametrize(
    ("status", "more", "repeats"),
    [("505 HTTP Version Not Supported", b"", True), ("426 Upgrade Required", b"Upgrade: h2\r\n", True),
     ("426 Upgrade Required", b"Upgrade: TLS/1.3\r\n", False), ("500 Internal Server Error", b"", False)],
)  # fmt: skip
def test_an_answer_may_ask_for_http2(loopback: Loopback, start: Start, status: str, more: bytes, repeats: bool) -> None:
    first = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n".encode() + more + b"\r\n"
    server = start(also=lambda head: first)
    visitor = loopback.visitor(server)  # type: ignore[arg-type]
    for _ in range(2):
        response = visitor.fetch("https://a.test/")
        assert response.http_status == (200 if repeats else int(status[:3]))
        assert response.protocol == ("h2" if repeats else "")
    assert len(server.asked) == (2 if repeats else 0)
    assert server.connections == (3 if repeats else 2)


def test_http1_only_never_asks_twice(loopback: Loopback, start: Start) -> None:
    server = start()
    response = loopback.visitor(server, fetch__http="1.1").fetch("https://a.test/")  # type: ignore[arg-type]
    assert (response.outcome, server.connections) == (Outcome.TLS_FAILED, 1)
    assert response.reason == "the server speaks only HTTP/2, and we speak HTTP/1.1"


def test_a_server_that_closes_is_asked_twice_only_once(loopback: Loopback, certificate: Path, start: Start) -> None:
    """A server that always closes has refused no version of HTTP."""
    server = start(also=lambda head: b"", answer=lambda _: Answer(body=b"", error=ErrorCodes.INTERNAL_ERROR))
    visitor = loopback.visitor(server)  # type: ignore[arg-type]
    for connections in (2, 3, 4):
        assert visitor.fetch("https://a.test/").outcome is Outcome.BROKEN
        assert server.connections == connections


def test_a_server_may_want_http1_after_all(loopback: Loopback, start: Start) -> None:
    """It takes HTTP/2 for some pages only (HTTP_1_1_REQUIRED, RFC 9113 section 7)."""
    answers = [b"HTTP/1.1 505 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold"]
    server = start(
        lambda _: Answer(body=b"", error=ErrorCodes.HTTP_1_1_REQUIRED),
        also=lambda head: answers.pop(0) if len(answers) > 1 else answers[0],
    )
    visitor = loopback.visitor(server)  # type: ignore[arg-type]
    for _ in range(2):
        response = visitor.fetch("https://a.test/")
        assert (response.http_status, response.body, response.protocol) == (200, b"old", "")
    assert len(server.asked) == 1


def test_what_an_answer_in_http2_may_be(loopback: Loopback, start: Start) -> None:
    answers = {
        "/early": Answer(early={"link": "</x>"}, fields={"content-type": "text/html", "etag": '"1"'}),
        "/long": Answer(body=b"x" * 300_000, fields={"content-length": "300000"}),
        "/cut": Answer(body=b"half", fields={"content-length": "8"}, error=ErrorCodes.CANCEL),
        "/moved": Answer(302, b"", {"location": "/there"}),
        "/odd": Answer(299, b""),
        "/pdf": Answer(fields={"content-type": "application/pdf"}),
    }
    server = start(lambda asked: answers[asked.path])
    visitor = loopback.visitor(server, fetch__body_bytes=100_000, fetch__accept_types=["text/html"])  # type: ignore[arg-type]
    found = {path: visitor.fetch(f"https://a.test{path}", reuse=True) for path in answers}
    assert found["/early"].head == b'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\netag: "1"\r\n\r\n'
    assert (found["/long"].truncated, len(found["/long"].body)) == ("length", 100_000)
    assert (found["/cut"].truncated, found["/cut"].body) == ("disconnect", b"half")
    assert (found["/moved"].outcome, found["/moved"].location) == (Outcome.MOVED, "https://a.test/there")
    assert found["/odd"].head == b"HTTP/1.1 299 \r\n\r\n"
    assert (found["/pdf"].outcome, found["/pdf"].body) == (Outcome.REFUSED_TYPE, b"")


def test_a_post_is_one_in_http2_too(loopback: Loopback, start: Start) -> None:
    server = start()
    response = loopback.visitor(server).fetch(  # type: ignore[arg-type]
        "https://a.test/api", post='#POST:application/json:{"q":1}'
    )
    assert response.http_status == 200
    assert (dict(server.asked[0].fields)[":method"], server.asked[0].body) == ("POST", b'{"q":1}')


def test_a_post_that_may_have_been_read_is_not_sent_again(loopback: Loopback, start: Start) -> None:
    server = start(also=lambda head: b"")
    visitor = loopback.visitor(server)  # type: ignore[arg-type]
    response = visitor.fetch("https://a.test/api", post='#POST:application/json:{"q":1}')
    assert (response.outcome, server.connections, server.asked) == (Outcome.BROKEN, 1, [])


def test_no_server_without_tls_is_asked_again(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        return exchange.send_page(b"", "505 HTTP Version Not Supported")

    server = loopback.serve(answer)
    assert loopback.visitor(server).fetch().http_status == 505
    assert len(server.exchanges) == 1


def test_a_crawl_of_such_a_server(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """robots.txt, redirects and politeness are as ever, and other programs read what is stored."""
    html = {"content-type": "text/html"}
    pages = {
        "/robots.txt": Answer(body=b"User-agent: *\nDisallow: /secret\n", fields={"content-type": "text/plain"}),
        "/": Answer(body=b'<a href="/moved">a</a><a href="/secret">b</a>', fields=html),
        "/moved": Answer(301, b"", {"location": "/end"}),
        "/end": Answer(body=b"<title>End</title>" + b"x" * 100_000, fields=html),
    }
    server = start(lambda asked: pages.get(asked.path, Answer(404)))
    options = {"resolve.map": {"*": f"127.0.0.1:{server.port}"}, "polite.delay_s": 0.01, "fetch.body_bytes": 50_000}
    Crawl(tmp_path / "crawl", ["https://a.test/"], Config().replace(options)).run()
    assert server.paths == ["/robots.txt", "/", "/moved", "/end"]
    found, status = {}, {}
    for warc in (tmp_path / "crawl").glob("warc/*.warc.gz"):
        with warc.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.http_headers:
                    fields, http = record.rec_headers, record.http_headers
                    code = http.get_statuscode() if record.rec_type == "response" else ""
                    found[record.rec_type, fields.get_header("WARC-Target-URI")] = (
                        fields.get_header("WARC-Protocol"), http.protocol, code, record.content_stream().read()[:18]
                    )  # fmt: skip
        with warc.open("rb") as file:
            answers = [each for each in FastIterator(file) if each.headers["WARC-Type"] == "response"]
            status |= {each.headers["WARC-Target-URI"]: each.http_headers.status_code for each in answers}
    assert found["response", "https://a.test/end"] == ("h2", "HTTP/1.1", "200", b"<title>End</title>")
    assert found["response", "https://a.test/moved"][:3] == ("h2", "HTTP/1.1", "301")
    assert found["request", "https://a.test/"][0] == "h2"
    assert (status["https://a.test/"], status["https://a.test/moved"]) == (200, 301)
    assert main(["show", str(tmp_path / "crawl"), "https://a.test/"]) == 0
    assert "/secret" in capsys.readouterr().out
