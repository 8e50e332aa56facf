"""The client against a real socket: what it sends, what it keeps, and what it makes of the answer."""

import socket
import threading
import time
from typing import Any

import pytest
from raw_server import Exchange, Loopback

from gossamer.columns import Outcome
from gossamer.fetch.client import Request
from gossamer.fetch.resolver import Answer
from gossamer.web.http import Headers, decode_body
from gossamer.web.url import page_key

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def page(exchange: Exchange) -> bool:
    return exchange.send_page()


def test_a_page_and_its_bytes(loopback: Loopback) -> None:
    server = loopback.serve_bytes(OK)
    response = loopback.visitor(server).fetch("http://a.test/x?y=1")
    assert (response.outcome, response.http_status, response.reason) == (Outcome.OK, 200, "")
    assert response.head + response.body == OK
    assert (response.truncated, response.address, response.location) == ("", "127.0.0.1", "")
    assert response.started_s > 1_000_000_000
    assert response.elapsed_s > 0


def test_where_the_time_goes(loopback: Loopback) -> None:
    """The second request finds the connection open. libcurl notes the end of a request after it was sent: the server
    may be at work by then, on a busy machine, and its time looks shorter; hardly ten times in a row."""

    def slow(exchange: Exchange) -> bool:
        time.sleep(0.05)
        return exchange.send_page()

    visitor = loopback.visitor(loopback.serve(slow))
    first, *others = (visitor.fetch("http://a.test/", reuse=True) for _ in range(10))
    assert first.connect_s > 0
    assert {response.connect_s for response in others} == {0}
    for response in (first, *others):
        assert response.elapsed_s >= 0.05
        assert 0 < response.lookup_s + response.connect_s + response.response_s <= response.elapsed_s
    assert max(response.response_s for response in others) >= 0.05


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize(
    "fields",
    [{}, {"etag": 'W/"1é"', "last_modified": "Sun, 06 Nov 1994 08:49:37 GMT"}, {"etag": "a\r\nX: y"}],
)
@pytest.mark.parametrize(
    "url",
    ["http://a.test/", "http://b.test:8080/a/../b;x?q={1}|'", "http://c.test/%7Ea//b", "http://[2001:db8::1]:81/"],
)
def test_the_request_is_known_exactly(loopback: Loopback, url: str, fields: dict[str, Any], reuse: bool) -> None:
    server = loopback.serve(page)
    headers = {"Accept-Language": "de, en;q=0.5"}
    visitor = loopback.visitor(server, fetch__headers=headers, fetch__contact="https://x.test/bot")
    responses = [visitor.fetch(url, reuse, **fields), visitor.fetch(url, reuse)]
    assert [response.request_head for response in responses] == [e.head for e in server.exchanges]
    head = server.exchanges[0].head
    assert b"\r\nUser-Agent: Gossamer/0.1.0 (+https://x.test/bot)\r\n" in head
    assert b"\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n" in head
    assert b"\r\nX: y" not in head, "no header is smuggled in"
    assert (b"If-Modified-Since: Sun, 06" in head) == ("last_modified" in fields)
    assert (b"Connection: close" in head) != reuse


def test_a_request_is_sent_before_the_client_waits(loopback: Loopback) -> None:
    """The answer to it then ends the wait: one poll is enough for a page on an open connection."""
    visitor = loopback.visitor(loopback.serve(page))
    visitor.fetch("http://a.test/", reuse=True)
    visitor.client.start(Request(page_key("http://a.test/"), "http://a.test/", "a.test"), reuse=True)
    assert [response.outcome for response in visitor.client.poll(30.0)] == [Outcome.OK]


def test_connections_are_kept_only_when_told_so(loopback: Loopback) -> None:
    server = loopback.serve(page)
    visitor = loopback.visitor(server)
    kept = [visitor.fetch("http://a.test/", reuse).kept for reuse in (True, True, False, False, True)]
    assert kept == [True, True, False, False, True]
    assert [exchange.connection for exchange in server.exchanges] == [1, 1, 1, 2, 3]


def test_hosts_do_not_share_connections(loopback: Loopback) -> None:
    server = loopback.serve(page)
    visitor = loopback.visitor(server)
    for host in ("a.test", "b.test", "a.test"):
        visitor.fetch(f"http://{host}/", reuse=True)
    assert [exchange.connection for exchange in server.exchanges] == [1, 2, 1]


@pytest.mark.parametrize("field", [b"Connection: close\r\n", b"connection:keep-alive, Close\r\n"])
def test_a_server_that_closes_is_noticed(loopback: Loopback, field: bytes) -> None:
    server = loopback.serve(lambda exchange: exchange.send_page(fields=field) and False)
    assert not loopback.visitor(server).fetch(reuse=True).kept


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK), (203, Outcome.OK), (204, Outcome.OK), (206, Outcome.OTHER), (299, Outcome.OK),
        (300, Outcome.BAD_REDIRECT), (301, Outcome.BAD_REDIRECT), (304, Outcome.OTHER),
        (305, Outcome.BAD_REDIRECT), (306, Outcome.BAD_REDIRECT), (400, Outcome.REJECTED),
        (401, Outcome.FORBIDDEN), (402, Outcome.FORBIDDEN), (403, Outcome.FORBIDDEN),
        (407, Outcome.FORBIDDEN), (404, Outcome.GONE), (410, Outcome.GONE),
        (418, Outcome.REJECTED), (429, Outcome.THROTTLED), (451, Outcome.FORBIDDEN),
        (500, Outcome.SERVER_ERROR), (502, Outcome.SERVER_ERROR), (503, Outcome.THROTTLED),
        (504, Outcome.SERVER_ERROR), (600, Outcome.OTHER), (999, Outcome.OTHER),
    ],
)  # fmt: skip
def test_outcome_by_status(loopback: Loopback, status: int, outcome: Outcome) -> None:
    response = loopback.fetch_bytes(b"HTTP/1.1 %d Words\r\nContent-Length: 4\r\n\r\nbody" % status)
    assert (response.outcome, response.http_status) == (outcome, status)
    assert response.body == (b"" if status in (204, 304) else b"body")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 399])
def test_redirects(loopback: Loopback, status: int) -> None:
    response = loopback.fetch_bytes(b"HTTP/1.1 %d x\r\nLocation: b/../c?d#e\r\nContent-Length: 0\r\n\r\n" % status)
    assert (response.outcome, response.location) == (Outcome.MOVED, "http://a.test/c?d")


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (305, b"http://proxy.test/"), (306, b"http://proxy.test/"), (301, b""), (301, b"/"), (302, b"#top"),
        (302, b"http://[::bad"), (302, b"javascript:alert(1)"), (302, b"file:///etc/passwd"),
        (302, b"data:text/html,x"), (302, b"ftp://a.test/"), (302, b"mailto:a@b.test"),
    ],
)  # fmt: skip
def test_redirects_that_lead_nowhere(loopback: Loopback, status: int, location: bytes) -> None:
    response = loopback.fetch_bytes(
        b"HTTP/1.1 %d x\r\nLocation: %s\r\nContent-Length: 4\r\n\r\nbody" % (status, location)
    )
    assert (response.outcome, response.location, response.body) == (Outcome.BAD_REDIRECT, "", b"body")
    assert response.reason


def test_two_different_targets_are_none(loopback: Loopback) -> None:
    response = loopback.fetch_bytes(b"HTTP/1.1 302 x\r\nLocation: /b\r\nLocation: /c\r\n\r\n")
    assert (response.outcome, response.location) == (Outcome.BROKEN, "")


NO_FIELD = b"HTTP/1.1 %s\r\nX-A: one\r\n  two\r\npreload\r\n%s\r\n\r\n"


@pytest.mark.parametrize(
    ("status", "field", "body", "stays"),
    [(b"200 OK", b"Content-Length: 5", b"hello", True), (b"200 OK", b"Content-Length: 5", b"hello and more", True),
     (b"200 OK", b"X: y", b"hello", False),
     (b"404 No", b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", True),
     (b"304 Not Modified", b"X: y", b"", True), (b"301 Moved", b"Location: /there\r\nContent-Length: 0", b"", True)],
)  # fmt: skip
def test_a_header_line_that_is_no_field_is_passed_over(
    loopback: Loopback, status: bytes, field: bytes, body: bytes, stays: bool
) -> None:
    """libcurl refuses such an answer. From then on its host is read without it: every byte is kept, folds too."""
    head = NO_FIELD % (status, field)
    server = loopback.serve(lambda exchange: exchange.send(head + body) and stays)
    visitor = loopback.visitor(server)
    assert visitor.fetch().outcome is Outcome.BROKEN, "the first time; nobody is asked twice in a row"
    for _ in range(2):
        response = visitor.fetch(etag='"1"')
        assert response.head == head
        assert response.body == (body[:5] if b"Length: 5" in field else body)
        assert (response.http_status, response.truncated) == (int(status[:3]), "")
        assert response.request_head == server.exchanges[-1].head
        assert Headers(response.head).get("x-a") == "one two"
    moved = status.startswith(b"301")
    assert response.location == ("http://a.test/there" if moved else "")
    assert visitor.fetch("http://b.test/").outcome is Outcome.BROKEN, "another host"


@pytest.mark.parametrize(
    ("answer", "outcome", "truncated"),
    [(NO_FIELD % (b"200 OK", b"Content-Length: 9") + b"hello", Outcome.OK, "disconnect"),
     (NO_FIELD % (b"200 OK", b"Content-Length: 9999") + b"x" * 9999, Outcome.OK, "length"),
     (b"HTTP/1.1 100 Continue\r\n\r\n" + NO_FIELD % (b"200 OK", b"X: y"), Outcome.OK, ""),
     (b"HTTP/1.1 200 OK\r\npre", Outcome.BROKEN, ""), (b"", Outcome.BROKEN, ""), (b"SSH-2.0", Outcome.BROKEN, ""),
     (b"HTTP/1.1 200 OK\r\n" + b"pre" * 9999 + b"\r\n\r\n", Outcome.BROKEN, "")],
)  # fmt: skip
def test_what_else_such_a_host_may_send(loopback: Loopback, answer: bytes, outcome: Outcome, truncated: str) -> None:
    answers = [NO_FIELD % (b"200 OK", b"X: y"), answer]
    server = loopback.serve(lambda exchange: exchange.send(answers[len(server.exchanges) > 1]) and False)
    visitor = loopback.visitor(server, fetch__body_bytes=1024, fetch__header_bytes=4096)
    visitor.fetch()
    response = visitor.fetch()
    assert (response.outcome, response.truncated) == (outcome, truncated)
    assert len(response.body) <= 1024
    assert response.reason or outcome is Outcome.OK


def test_such_a_host_may_be_silent(loopback: Loopback) -> None:
    first = NO_FIELD % (b"200 OK", b"X: y")
    server = loopback.serve(lambda e: (e.send(first) if len(server.exchanges) < 2 else server.pause(9.0)) and False)
    visitor = loopback.visitor(server, fetch__timeout_s=1.0)
    visitor.fetch()
    assert visitor.fetch().outcome is Outcome.TIMEOUT
    assert visitor.client.active == 0


SETTINGS = bytes.fromhex("000006040000000000 000300000080")
GOAWAY = bytes.fromhex("000008070000000000 00000000 0000000d")


@pytest.mark.parametrize("first", [SETTINGS, GOAWAY])
def test_a_server_of_http2_is_called_so(loopback: Loopback, first: bytes) -> None:
    response = loopback.fetch_bytes(first)
    assert (response.outcome, response.http_status, response.body) == (Outcome.BROKEN, 0, b"")
    assert response.reason == "the server speaks only HTTP/2, and we speak HTTP/1.1"


@pytest.mark.parametrize(
    ("http", "connections", "reason"),
    [("1.1", 1, "the server speaks only HTTP/2, and we speak HTTP/1.1"),
     ("auto", 2, "the server agrees on neither HTTP/1.1 nor HTTP/2")],
)  # fmt: skip
def test_a_server_that_wants_http2_in_the_handshake_is_called_so(
    loopback: Loopback, http: str, connections: int, reason: str
) -> None:
    def refuse(connection: socket.socket) -> socket.socket:
        connection.recv(4096)
        connection.sendall(bytes.fromhex("15 0303 0002 0278"))  # alert 120, RFC 7301 section 3.2
        return connection

    server = loopback.serve(lambda exchange: False, wrap=refuse)
    response = loopback.visitor(server, fetch__http=http).fetch("https://a.test/")
    assert (response.outcome, server.connections) == (Outcome.TLS_FAILED, connections)
    assert response.reason == reason


@pytest.mark.parametrize("start", [b"SSH-2.0-OpenSSH_9.9\r\n", b"<html>old", b"220 mail.test ESMTP\r\n"])
def test_what_is_not_http_is_shown(loopback: Loopback, start: bytes) -> None:
    """Also when the server goes on for ever."""
    server = loopback.serve(lambda exchange: exchange.send(start) and not server.pause(5.0))
    response = loopback.visitor(server).fetch()
    assert (response.outcome, response.http_status, response.body) == (Outcome.BROKEN, 0, b"")
    assert response.reason.startswith(f"the answer is not HTTP: it begins with {start[:8]!r}"[:-1])


def test_304_answers_only_a_condition(loopback: Loopback) -> None:
    server = loopback.serve_bytes(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")
    visitor = loopback.visitor(server)
    assert visitor.fetch(etag='"x"').outcome is Outcome.UNCHANGED
    assert visitor.fetch().outcome is Outcome.OTHER


def test_chunks_stay_as_sent(loopback: Loopback) -> None:
    body = b"4;x=y\r\ntest\r\n5\r\n page\r\n0\r\nTrailer: z\r\n\r\n"
    response = loopback.fetch_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + body)
    assert (response.body, response.truncated) == (body, "")
    assert decode_body(response.body, Headers(response.head), 100) == (b"test page", "")


def test_content_stays_coded(loopback: Loopback) -> None:
    response = loopback.fetch_bytes(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain")
    assert (response.outcome, response.body) == (Outcome.OK, b"plain")


def test_interim_answers_are_skipped(loopback: Loopback) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    response = loopback.fetch_bytes(b"HTTP/1.1 100 Continue\r\n\r\n" + early * 1000 + OK)
    assert response.head + response.body == OK


def test_a_long_body_is_cut(loopback: Loopback) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    response = loopback.fetch_bytes(head + b"x" * 1_000_000, fetch__body_bytes=5000)
    assert (response.outcome, response.truncated, response.body) == (Outcome.OK, "length", b"x" * 5000)
    assert response.head == head


def test_a_body_of_just_the_limit_is_whole(loopback: Loopback) -> None:
    response = loopback.fetch_bytes(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000, fetch__body_bytes=5000)
    assert (len(response.body), response.truncated) == (5000, "")


def test_long_robots_are_cut_earlier(loopback: Loopback) -> None:
    server = loopback.serve_bytes(b"HTTP/1.1 200 OK\r\n\r\n" + b"#" * 3_000_000)
    response = loopback.visitor(server).fetch("http://a.test/robots.txt", is_robots=True)
    assert response.truncated == "length"
    assert 500 << 10 < len(response.body) < 2 << 20


def test_long_headers_are_refused(loopback: Loopback) -> None:
    data = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 3000 + b"\r\nContent-Length: 5\r\n\r\nhello"
    response = loopback.fetch_bytes(data, fetch__header_bytes=2000)
    assert (response.outcome, response.reason, response.body) == (Outcome.BROKEN, "headers too long", b"")
    assert loopback.fetch_bytes(data, fetch__header_bytes=4000).outcome is Outcome.OK


def test_refused_connections(loopback: Loopback) -> None:
    server = loopback.serve(page)
    server.close()
    response = loopback.visitor(server).fetch()
    assert (response.outcome, response.http_status) == (Outcome.CONNECT_FAILED, 0)
    assert response.reason
    assert not response.request_head


def test_names_outside_the_map_are_refused(loopback: Loopback) -> None:
    server = loopback.serve(page)
    visitor = loopback.visitor(server, resolve__map={"*.b.test": f"127.0.0.1:{server.port}"})
    response = visitor.fetch("http://a.test/")
    assert (response.outcome, response.address) == (Outcome.REFUSED_ADDRESS, "")
    assert "not in resolve.map" in response.reason
    assert visitor.fetch("http://x.b.test/").outcome is Outcome.OK


def test_names_that_libcurl_does_not_take(loopback: Loopback) -> None:
    server = loopback.serve(page)
    response = loopback.visitor(server).fetch("http://a'b.test/")
    assert response.outcome in (Outcome.REFUSED_ADDRESS, Outcome.OK)
    assert len(server.exchanges) == (response.outcome is Outcome.OK)


def test_the_next_address_is_tried(loopback: Loopback) -> None:
    server = loopback.serve(page)
    visitor = loopback.visitor(server)
    request = Request(page_key("http://a.test/"), "http://a.test/", "a.test")
    answer = Answer("127.0.0.2", server.port, others=("127.0.0.3", "127.0.0.1"))
    visitor.client.connect(request, False, answer)
    response = visitor.finish()
    assert (response.outcome, response.address) == (Outcome.OK, "127.0.0.1")
    assert visitor.client.active == 0


def test_the_environments_proxy_is_not_used(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert loopback.visitor(loopback.serve(page)).fetch().outcome is Outcome.OK


def test_a_kept_connection_that_died_is_replaced(loopback: Loopback) -> None:
    """The server closes just when the next request arrives: one silent retry, not a failure (RFC 9112, 9.3.1)."""

    def answer(exchange: Exchange) -> bool:
        first = sum(e.connection == exchange.connection for e in server.exchanges) == 1
        return first and exchange.send_page()

    server = loopback.serve(answer)
    visitor = loopback.visitor(server)
    assert [visitor.fetch(f"http://a.test/{i}", reuse=True).outcome for i in range(2)] == [Outcome.OK] * 2
    assert server.paths == ["/0", "/1", "/1"]


def test_many_at_a_time(loopback: Loopback) -> None:
    server = loopback.serve(page)
    visitor = loopback.visitor(server)
    urls = [f"http://h{i}.test/{i}" for i in range(200)]
    for url in urls:
        visitor.client.start(Request(page_key(url), url, url[7:].partition("/")[0]), False)
    assert visitor.client.active == 200
    assert {visitor.finish().request.url for _ in range(1)} <= set(urls)
    while visitor.client.active:
        visitor.client.poll(1.0)
    assert sorted(server.paths) == sorted(f"/{i}" for i in range(200))


def test_another_thread_can_wake_it(loopback: Loopback) -> None:
    visitor = loopback.visitor(loopback.serve(page))
    threading.Timer(0.1, visitor.client.wake).start()
    before_s = time.monotonic()
    assert visitor.client.poll(60.0) == []
    assert time.monotonic() - before_s < 50


def test_closing_drops_what_is_under_way(loopback: Loopback) -> None:
    server = loopback.serve(lambda exchange: server.pause(60) or False)
    visitor = loopback.visitor(server)
    visitor.client.start(Request(1, "http://a.test/", "a.test"), False)
    while not server.exchanges:
        visitor.client.poll(0.1)
    visitor.close()
    visitor.close()


PNG = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 40\r\n\r\n" + b"\x89PNG" * 10


@pytest.mark.parametrize("types", [["text/html"], ["text/*", "application/pdf"]])
def test_types_that_nobody_asked_for_are_left_after_their_headers(loopback: Loopback, types: list[str]) -> None:
    response = loopback.fetch_bytes(PNG, fetch__accept_types=types)
    assert (response.outcome, response.http_status, response.body) == (Outcome.REFUSED_TYPE, 200, b"")
    assert (response.reason, response.kept) == ("image/png is not among fetch.accept_types", False)
    assert b"image/png" in response.head


@pytest.mark.parametrize(
    ("data", "types", "outcome"),
    [
        (PNG, ["text/html", "IMAGE/*"], Outcome.OK),
        (PNG, ["*/*"], Outcome.OK),
        (PNG, [], Outcome.OK),
        (PNG.replace(b"200 OK", b"404 No"), ["text/html"], Outcome.GONE),
        (PNG.replace(b"Content-Type: image/png\r\n", b""), ["text/html"], Outcome.OK),
        (PNG.replace(b"image/png", b"Text/HTML ; charset=x"), ["text/html"], Outcome.OK),
    ],
)
def test_all_others_are_read(loopback: Loopback, data: bytes, types: list[str], outcome: Outcome) -> None:
    response = loopback.fetch_bytes(data, fetch__accept_types=types)
    assert (response.outcome, len(response.body), response.truncated) == (outcome, 40, "")


def test_robots_and_sitemaps_are_read_whatever_their_type(loopback: Loopback) -> None:
    visitor = loopback.visitor(loopback.serve_bytes(PNG), fetch__accept_types=["text/html"])
    assert len(visitor.fetch("http://a.test/robots.txt", is_robots=True).body) == 40
    assert len(visitor.fetch("http://a.test/sitemap.xml").body) == 40
    assert visitor.fetch("http://a.test/").outcome is Outcome.REFUSED_TYPE
