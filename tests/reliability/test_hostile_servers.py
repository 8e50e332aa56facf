"""Servers that mean no good: whatever they send, there is an outcome, in bounded time and memory.

Numbers such as T012 are those of the list in tests/cases/README.md.
"""

import base64
import gzip
import resource
import socket
import struct
import time
import zlib
from typing import Any

import case_files
import pytest
from raw_server import Exchange, Loopback

from gossamer.columns import Outcome
from gossamer.fetch.request import Request
from gossamer.web.http import Headers, decode_body
from gossamer.web.robots import Rules
from gossamer.web.url import normalise

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("case", case_files.each("http_raw_responses"))
def test_odd_bytes(loopback: Loopback, case: dict[str, str]) -> None:
    """Never a crash or a hang; what libcurl takes for an answer is recorded, the rest is broken."""
    raw = base64.b64decode(case["raw_b64"])
    response = loopback.fetch_bytes(raw)
    if response.http_status:
        assert response.outcome is Outcome[case.get("outcome", "OK")]
        assert response.head.startswith(b"HTTP/")
        assert raw.startswith(response.head), "the raw bytes are preserved"
        assert response.body in raw
    else:
        assert (response.outcome, response.head, response.body) == (Outcome.BROKEN, b"", b"")
        assert response.reason
    if case.get("browser_expectation") == "Valid":
        assert response.body == b"Test."


@pytest.mark.parametrize("case", case_files.each("http_content_length"))
def test_content_length(loopback: Loopback, case: dict[str, Any]) -> None:
    """T014: equal repeats are accepted, contradictions are errors. So is nonsense, where browsers are milder."""
    body = b"x" * 42
    response = loopback.fetch_bytes(HEAD + case["headers_raw"].encode() + b"\r\n\r\n" + body)
    if response.outcome is Outcome.OK:
        # 030 and 30 are one number to libcurl.
        assert len(response.body) == case["content_length"] or "030" in case["headers_raw"]
    else:
        assert response.outcome is Outcome.BROKEN
        assert case["content_length"] in (None, 42)


@pytest.mark.parametrize("length", [b"9223372036854775807", b"9223372036854775808", b"99999999999999999999999"])
def test_t014_no_memory_for_declared_sizes(loopback: Loopback, length: bytes) -> None:
    response = loopback.fetch_bytes(HEAD + b"Content-Length: " + length + b"\r\n\r\nhello")
    assert (response.outcome, response.truncated) in ((Outcome.OK, "disconnect"), (Outcome.BROKEN, ""))


def test_t012_fewer_bytes_than_declared(loopback: Loopback) -> None:
    response = loopback.fetch_bytes(HEAD + b"Content-Length: 30\r\n\r\nTest")
    assert (response.outcome, response.body, response.truncated) == (Outcome.OK, b"Test", "disconnect")


def test_t013_more_bytes_than_declared(loopback: Loopback) -> None:
    """The rest poisons no later answer: the connection is not used again."""
    poison = HEAD + b"Content-Length: 6\r\n\r\npoison"

    def answer(exchange: Exchange) -> bool:
        first = exchange.path == "/0"
        return exchange.send(HEAD + b"Content-Length: 4\r\n\r\npage" + (poison if first else b""))

    server = loopback.serve(answer)
    visitor = loopback.visitor(server)
    assert [visitor.fetch(f"http://a.test/{i}", reuse=True).body for i in range(3)] == [b"page"] * 3
    assert server.exchanges[0].connection != server.exchanges[1].connection


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_t015_chunks_win_over_content_length(loopback: Loopback, order: tuple[int, int]) -> None:
    fields = (b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n")
    data = HEAD + fields[order[0]] + fields[order[1]] + b"\r\n4\r\nTest\r\n0\r\n\r\n"
    response = loopback.fetch_bytes(data)
    assert (response.outcome, response.body) == (Outcome.OK, b"4\r\nTest\r\n0\r\n\r\n")


def test_t016_chunks_without_an_end(loopback: Loopback) -> None:
    response = loopback.fetch_bytes(CHUNKED + b"4\r\nTest\r\n")
    assert (response.outcome, response.body, response.truncated) == (Outcome.OK, b"4\r\nTest\r\n", "disconnect")


def test_t016_chunks_then_silence(loopback: Loopback) -> None:
    server = loopback.serve(lambda exchange: exchange.send(CHUNKED + b"4\r\nTest\r\n") and server.pause(60))  # type: ignore[func-returns-value,arg-type]
    response = loopback.visitor(server, fetch__timeout_s=2.0).fetch()
    assert (response.outcome, response.body, response.truncated) == (Outcome.OK, b"4\r\nTest\r\n", "time")


@pytest.mark.parametrize(
    "chunks",
    [b"zz\r\nTest", b"-1\r\nTest", b"ffffffffffffffff\r\nTest", b"fffffffffffffffff\r\nx", b"0x4\r\nTest\r\n0\r\n\r\n",
     b"4\r\nTestTest\r\n0\r\n\r\n", b"9\r\nTest\r\n0\r\n\r\n", b"4\nTest\n0\n\n", b"4;" + b"e" * 100_000 + b"\r\nTest"],
)  # fmt: skip
def test_t017_bad_chunks(loopback: Loopback, chunks: bytes) -> None:
    response = loopback.fetch_bytes(CHUNKED + chunks)
    assert response.outcome in (Outcome.OK, Outcome.BROKEN)
    decode_body(response.body, Headers(response.head), 1000)


def test_t017_what_follows_the_last_chunk_is_not_ours(loopback: Loopback) -> None:
    body = b"4\r\nTest\r\n0\r\nTrailer: x\r\n\r\n"

    def answer(exchange: Exchange) -> bool:
        return exchange.send(CHUNKED + body + (HEAD + b"\r\nstray" if exchange.path == "/0" else b""))

    server = loopback.serve(answer)
    visitor = loopback.visitor(server)
    assert [visitor.fetch(f"http://a.test/{i}", reuse=True).body for i in range(2)] == [body] * 2


def test_t018_endless_body(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        exchange.send(HEAD + b"\r\n")
        while exchange.send(b"x" * 65536):
            pass
        return False

    server = loopback.serve(answer)
    response = loopback.visitor(server, fetch__body_bytes=1_000_000).fetch()
    assert (response.outcome, response.truncated, len(response.body)) == (Outcome.OK, "length", 1_000_000)
    response = loopback.visitor(server, fetch__body_bytes=1 << 40, fetch__timeout_s=1.5).fetch()
    assert (response.outcome, response.truncated) == (Outcome.OK, "time")
    assert response.body or (response.large and response.large.size)  # in memory, or too large for that


@pytest.mark.parametrize("start", [b"", HEAD + b"\r\n"])
def test_t019_one_byte_at_a_time(loopback: Loopback, start: bytes) -> None:
    def answer(exchange: Exchange) -> bool:
        exchange.send(start)
        for byte in HEAD * 1000:
            if server.is_closing or not exchange.send(bytes([byte])):
                break
            server.pause(0.25)  # the first line is not whole when time is over
        return False

    server = loopback.serve(answer)
    response = loopback.visitor(server, fetch__timeout_s=2.0).fetch()
    expected = (Outcome.OK, "time") if start else (Outcome.TIMEOUT, "")
    assert (response.outcome, response.truncated) == expected


def test_t020_silence(loopback: Loopback) -> None:
    server = loopback.serve(lambda exchange: bool(server.pause(60)))  # type: ignore[func-returns-value]
    visitor = loopback.visitor(server, fetch__timeout_s=0.3)
    response = visitor.fetch()
    assert (response.outcome, response.http_status, response.address) == (Outcome.TIMEOUT, 0, "127.0.0.1")
    assert visitor.client.active == 0


@pytest.mark.parametrize("line", [b"A: b\r\n", b"X" * 10_000 + b": y\r\n", b"y" * 100_000, b" folded\r\n"], ids=len)
def test_t021_endless_headers(loopback: Loopback, line: bytes) -> None:
    def answer(exchange: Exchange) -> bool:
        exchange.send(HEAD + b"First: 1\r\n")
        deadline_s = time.monotonic() + 20
        while exchange.send(line * 100) and time.monotonic() < deadline_s:
            pass
        return False

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    response = loopback.visitor(loopback.serve(answer)).fetch()
    assert (response.outcome, response.head) == (Outcome.BROKEN, b"")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "in KiB"


@pytest.mark.parametrize(
    "data",
    [b"hello", b"ICY 200 OK\r\n\r\nx", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1 1000 x\r\n\r\n", b"HTTP/1.1 099 x\r\n\r\n",
     b"HTTP/1.1 000 x\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nA: b", b"", b"\0" * 1000,
     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"],
)  # fmt: skip
def test_t022_t023_t030_no_answer_at_all(loopback: Loopback, data: bytes) -> None:
    response = loopback.fetch_bytes(data)
    assert (response.outcome, response.http_status, response.body) == (Outcome.BROKEN, 0, b"")
    assert response.reason


def test_t026_interim_answers_without_end(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        while exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100):
            pass
        return False

    response = loopback.visitor(loopback.serve(answer), fetch__timeout_s=5.0).fetch()
    assert response.outcome in (Outcome.BROKEN, Outcome.TIMEOUT)


@pytest.mark.parametrize("status", [204, 304])
def test_t027_bodies_where_none_belong(loopback: Loopback, status: int) -> None:
    def answer(exchange: Exchange) -> bool:
        if exchange.path == "/0":
            return exchange.send(b"HTTP/1.1 %d x\r\nContent-Length: 6\r\n\r\npoison" % status)
        return exchange.send_page(b"page")

    visitor = loopback.visitor(loopback.serve(answer))
    bodies = [visitor.fetch(f"http://a.test/{i}", reuse=True).body for i in range(2)]
    assert bodies == [b"", b"page"]


def test_t030_reset_within_the_body(loopback: Loopback) -> None:
    def answer(exchange: Exchange) -> bool:
        exchange.send(HEAD + b"Content-Length: 100000\r\n\r\nTest")
        server.pause(2.0)  # what has not been read by then is lost
        exchange.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    server = loopback.serve(answer)
    response = loopback.visitor(server).fetch()
    assert (response.outcome, response.body, response.truncated) == (Outcome.OK, b"Test", "disconnect")


def test_t032_other_protocols_are_not_spoken(loopback: Loopback) -> None:
    data = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    response = loopback.fetch_bytes(data)
    assert (response.outcome, response.http_status) == (Outcome.OTHER, 101)


def test_t033_bombs_are_cut_on_the_wire_and_after_it(loopback: Loopback) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(squeeze.compress(b"\0" * 1_000_000) for _ in range(200)) + squeeze.flush()
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    response = loopback.fetch_bytes(head + bomb)
    assert (response.outcome, len(response.body)) == (Outcome.OK, len(bomb))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body, truncated = decode_body(response.body, Headers(response.head), 1_000_000)
    assert (len(body), truncated) == (1_000_000, "length")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "in KiB"


PACKED = gzip.compress(b"x", mtime=0)  # with a time of its own the parameters would differ from worker to worker


@pytest.mark.parametrize(
    ("coding", "wire", "content"),
    [
        (b"gzip", b"<html>plain", b"<html>plain"),
        (b"", PACKED, PACKED),
        (b"gzip", gzip.compress(PACKED, mtime=0), PACKED),
    ],
    ids=["plain that claims to be gzip", "gzip that does not say so", "a gzip file, sent as gzip"],
)
def test_t034_wrong_codings(loopback: Loopback, coding: bytes, wire: bytes, content: bytes) -> None:
    field = b"Content-Encoding: " + coding + b"\r\n" if coding else b""
    response = loopback.fetch_bytes(HEAD + field + b"Content-Length: %d\r\n\r\n" % len(wire) + wire)
    assert response.body == wire
    assert decode_body(response.body, Headers(response.head), 1000)[0] == content


def test_t061_endless_robots(loopback: Loopback) -> None:
    rules = b"User-agent: *\nDisallow: /private\n"

    def answer(exchange: Exchange) -> bool:
        exchange.send(HEAD + b"\r\n" + rules)
        while exchange.send(b"Disallow: /x\n" * 5000):
            pass
        return False

    response = loopback.visitor(loopback.serve(answer)).fetch("http://a.test/robots.txt", is_robots=True)
    assert response.truncated == "length"
    assert not Rules.parse(response.body, "Gossamer").allows("/private/1")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/", "http://0x7f.1:{port}/",
        "http://0177.0.0.1:{port}/", "http://127.1:{port}/", "http://[::1]:{port}/", "http://0.0.0.0:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/", "http://[::127.0.0.1]:{port}/", "http://127.0.0.1.:{port}/",
        "http://user@127.0.0.1:{port}/", "http://１２７.0.0.1:{port}/", "http://localhost.:{port}/",
    ],
)  # fmt: skip
def test_t074_t075_loopback_in_every_spelling(loopback: Loopback, url: str) -> None:
    """A canary listens on loopback; no spelling of its address may reach it."""
    canary = loopback.serve(lambda exchange: exchange.send_page())
    visitor = loopback.visitor()
    target = normalise(url.format(port=canary.port))
    if target is not None:
        response = visitor.fetch(target)
        assert response.outcome in (Outcome.REFUSED_ADDRESS, Outcome.NO_NAME, Outcome.DNS_FAILED)
        assert (response.address, response.http_status) == ("", 0)
    assert canary.connections == 0


def test_t019_others_go_on_while_one_stalls(loopback: Loopback) -> None:
    """A slow server costs only its own connection."""

    def answer(exchange: Exchange) -> bool:
        if exchange.host == "slow.test":
            server.pause(60)
        return exchange.send_page()

    server = loopback.serve(answer)
    visitor = loopback.visitor(server)
    visitor.client.start(Request(1, "http://slow.test/", "slow.test"), False)
    assert [visitor.fetch(f"http://h{i}.test/").outcome for i in range(20)] == [Outcome.OK] * 20
    assert visitor.client.active == 1


def test_t084_a_black_hole(loopback: Loopback) -> None:
    """A full backlog drops SYNs, as a black hole does: the connect time-out is separate, and earlier."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        visitor = loopback.visitor(resolve__map={"*": f"127.0.0.1:{port}"}, fetch__connect_timeout_s=0.3)
        response = visitor.fetch()
        for filler in fillers:
            filler.close()
    assert (response.outcome, response.http_status) == (Outcome.CONNECT_FAILED, 0)
