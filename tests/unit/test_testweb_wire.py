"""Requests taken apart, answers put together, the log read back."""

from pathlib import Path

import numpy as np
import pytest

from gossamer.errors import ConfigError
from gossamer.testweb.answer import Answer
from gossamer.testweb.command import _web, parser
from gossamer.testweb.faults import Fault
from gossamer.testweb.log import LogWriter, read_log
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb
from gossamer.testweb.wire import Parser, framed

DATE = b"Date: now\r\n"


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode()


def test_a_request_is_taken_apart() -> None:
    request = Parser().request(
        head("GET /a?b=c HTTP/1.1", "HOST: H1.Test:8080", "user-agent: x\ty", 'If-None-Match: "1"', "X: y")
    )
    assert request is not None
    assert (request.method, request.host, request.path, request.keeps) == (b"GET", "h1.test", "/a?b=c", True)
    assert request.fields.agent == "x y"
    assert request.fields.asked == {"if-none-match": '"1"'}


@pytest.mark.parametrize(
    ("lines", "keeps"),
    [
        (("GET / HTTP/1.1", "Host: a"), True),
        (("GET / HTTP/1.1", "Host: a", "Connection: Close"), False),
        (("GET / HTTP/1.0", "Host: a"), False),
        (("GET / HTTP/1.0", "Host: a", "Connection: keep-alive"), True),
        (("POST / HTTP/1.1", "Host: a", "Content-Length: 4"), False),
        (("GET http://a/ HTTP/1.1", "Host: b"), True),
    ],
)
def test_who_keeps_the_connection(lines: tuple[str, ...], keeps: bool) -> None:
    parser = Parser()
    for _ in range(2):  # the second time from memory
        request = parser.request(head(*lines))
        assert request is not None
        assert request.host == "a"
        assert request.keeps == keeps


@pytest.mark.parametrize(
    "lines",
    [("",), ("GET /",), ("GET / HTTP/1.1",), ("GET / HTTP/2", "Host: a"), ("GET a b HTTP/1.1", "Host: a"),
     ("GET ftp://a/ HTTP/1.1", "Host: a"), ("GET * HTTP/1.1", "Host: a")],
)  # fmt: skip
def test_what_is_no_request(lines: tuple[str, ...]) -> None:
    assert Parser().request(head(*lines)) is None


def test_fields_in_memory_are_bounded() -> None:
    parser = Parser(remember=3)
    for n in range(10):
        parser.request(head("GET / HTTP/1.1", f"Host: h{n}"))
    assert len(parser._known) <= 3


def test_answers_are_framed() -> None:
    request = Parser().request(head("GET / HTTP/1.1", "Host: a"))
    only_head = Parser().request(head("HEAD / HTTP/1.1", "Host: a"))
    answer = Answer(200, b"A: b\r\n", b"body")
    assert b"".join(framed(answer, request, DATE)) == (
        b"HTTP/1.1 200 OK\r\nA: b\r\nDate: now\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert b"".join(framed(answer, only_head, DATE)).endswith(b"Content-Length: 4\r\n\r\n")
    assert b"".join(framed(answer._replace(chunked=True), request, DATE)).endswith(
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    )
    assert b"".join(framed(answer._replace(chunked=True), only_head, DATE)).endswith(b"chunked\r\n\r\n")
    assert b"".join(framed(Answer(304, b"", b""), request, DATE)) == (b"HTTP/1.1 304 Not Modified\r\nDate: now\r\n\r\n")
    assert b"Connection: close\r\n" in framed(answer, None, DATE)[0]


def test_the_log_is_read_back_and_judged(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    log = LogWriter(path)
    rows = [
        (2.0, 3.0, 1, "a", "/2", 200, 10, "x"),
        (1.0, 1.5, 1, "a", "/1", 200, 10, "x y"),
        (2.5, 2.6, 2, "a", "/3", 404, 0, "x"),  # before /2 was answered
        (3.5, 3.6, 2, "a", "/4", 200, 0, "x"),
        (1.2, 9.0, 3, "b", "/", 0, 0, ""),
    ]
    for row in rows:
        log.write("\t".join(map(str, row)) + "\n", row[1])
    log.flush_if_due(1.55)
    assert path.read_bytes() == b""  # nothing is due yet
    log.close()
    with path.open("ab") as file:
        file.write(b"12.0\t13.0\t1\ta")  # a line being written
    read = read_log(path)
    assert len(read) == 5
    assert read.urls[:2] == ["http://a/1", "http://b/"]
    assert read.overlaps() == [("a", 2.5)]
    assert np.allclose(read.intervals()["a"], [0.5, -0.5, 0.5])
    assert np.allclose(read.intervals(connections=True)["a"], [-0.5])
    assert len(read.intervals()["b"]) == 0
    assert read.status.tolist() == [200, 0, 200, 404, 200]
    assert read.agent[0] == "x y"


def test_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.touch()
    log = read_log(path)
    assert len(log) == 0
    assert log.overlaps() == []
    assert log.intervals() == {}


def test_lines_reach_the_file_in_time(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.tsv")
    log.write("line\n", 10.0)
    assert log.waiting
    log.flush_if_due(10.25)
    assert not log.waiting
    assert (tmp_path / "log.tsv").read_text() == "line\n"
    log.close()


def test_a_spec_and_its_command_line_are_one() -> None:
    spec = WebSpec(seed=9, hosts=7, pages=70, changes_per_day=3.5, suffix="example", near_duplicates=0.1)
    web = _web(parser().parse_args(spec.options()))
    assert isinstance(web, SyntheticWeb)
    assert web.spec == spec
    assert WebSpec().options() == []


@pytest.mark.parametrize("text", ["", "explode", "hang:3", "slow:x"])
def test_unknown_faults_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no such fault"):
        Fault.parse(text)


def test_faults_by_name() -> None:
    assert Fault.parse("hang") == Fault("hang")
    assert Fault.parse("slow:200") == Fault("slow", 200)
