"""The test web over real sockets, in its own process."""

import http.client
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.errors import GossamerError
from gossamer.testweb.plan import Kind
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=5, hosts=20, pages=200, page_bytes=12_000.0)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    with RunningWeb(SPEC, log_path=tmp_path_factory.mktemp("testweb") / "log.tsv") as running:
        yield running


def connect(web: RunningWeb) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(web.address, timeout=20)


def get(
    connection: http.client.HTTPConnection, url: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    host, _, path = url.removeprefix("http://").partition("/")
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/{path}", headers={"Host": host, "User-Agent": "tests", **fields})
    answer = connection.getresponse()
    return answer, answer.read()


def fetch(web: RunningWeb, url: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = connect(web)
    try:
        return get(connection, url)
    finally:
        connection.close()


def raw(web: RunningWeb, data: bytes) -> socket.socket:
    host, _, port = web.address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=20)
    sock.sendall(data)
    return sock


def drained(sock: socket.socket) -> bytes:
    received = b""
    while data := sock.recv(65_536):
        received += data
    sock.close()
    return received


def test_pages_are_what_the_truth_says(web: RunningWeb) -> None:
    connection = connect(web)
    for page in web.truth.pages():
        url = web.truth.url(page)
        answer, body = get(connection, url)
        host, _, path = url.removeprefix("http://").partition("/")
        truth = web.truth.response(host, f"/{path}", 0.0, {})
        assert (answer.status, body) == (truth.status, truth.body)
        assert answer.getheader("Content-Type") == truth.headers["content-type"]
    connection.close()


def test_every_request_is_in_the_log(web: RunningWeb) -> None:
    before = len(web.log())
    connection = connect(web)
    for _ in range(3):
        get(connection, "http://h0.test/")
    get(connection, "http://h1.test/none")
    connection.close()
    log = web.log()
    assert len(log) == before + 4
    assert log.urls[before:] == ["http://h0.test/"] * 3 + ["http://h1.test/none"]
    assert log.status[before:].tolist() == [200, 200, 200, 404]
    assert len(set(log.connection[before:].tolist())) == 1
    assert set(log.agent[before:]) == {"tests"}
    assert (log.start_s <= log.end_s).all()
    assert log.overlaps() == []


def test_head_has_no_body_and_304_neither(web: RunningWeb) -> None:
    page = next(p for p in web.truth.pages() if web.truth.kind(p) is Kind.OK and web.truth.host(p).validators)
    connection = connect(web)
    full, body = get(connection, web.truth.url(page))
    head, nothing = get(connection, web.truth.url(page), "HEAD")
    assert (head.status, nothing) == (200, b"")
    assert head.getheader("Content-Length") == full.getheader("Content-Length")
    same, nothing = get(connection, web.truth.url(page), If_None_Match=full.getheader("ETag") or "")
    assert (same.status, nothing) == (304, b"")
    assert get(connection, web.truth.url(page))[1] == body  # the connection is still in step
    connection.close()


def test_requests_in_one_packet_are_answered_in_order(web: RunningWeb) -> None:
    data = b"GET /style.css HTTP/1.1\r\nHost: h0.test\r\n\r\n" * 3 + b"GET /none HTTP/1.0\r\nHost: h0.test\r\n\r\n"
    received = drained(raw(web, data))
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert received.index(b"404 Not Found") > received.rindex(b"200 OK")


def test_a_request_may_come_in_pieces(web: RunningWeb) -> None:
    sock = raw(web, b"GET /style.css HT")
    sock.sendall(b"TP/1.1\r\nHost: h0.test\r\nConnection: close\r\n")
    sock.sendall(b"\r\n")
    assert drained(sock).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h0.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", b"405"),
        (b"GET / HTTP/1.0\r\nHost: other.test\r\n\r\n", b"421"),
        (b"GET / HTTP/1.0\r\nHost: testweb.control\r\n\r\n", b"404"),
        (b"GET /fault?host=x&kind=y HTTP/1.0\r\nHost: testweb.control\r\n\r\n", b"400"),
        (b"GET /advance HTTP/1.0\r\nHost: testweb.control\r\n\r\n", b"400"),
    ],
)
def test_odd_requests_get_their_answer(web: RunningWeb, data: bytes, status: bytes) -> None:
    assert drained(raw(web, data)).split(b" ")[1] == status


def test_an_endless_head_is_cut_off(web: RunningWeb) -> None:
    sock = raw(web, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000)
    try:
        assert drained(sock) == b""
    except ConnectionResetError:
        sock.close()


def test_a_client_that_reads_slowly_gets_everything(web: RunningWeb) -> None:
    request = b"GET / HTTP/1.1\r\nHost: h0.test\r\n\r\n"
    sock = raw(web, request * 300 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    fetch(web, "http://h1.test/")  # others are served meanwhile
    assert drained(sock).count(b"HTTP/1.1 200 OK\r\n") == 301


@pytest.mark.parametrize("kind", ["refuse", "reset", "cut", "garbage"])
def test_faults_break_the_connection_of_their_host_only(web: RunningWeb, kind: str) -> None:
    web.fault("h2.test", kind)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        fetch(web, "http://h2.test/")
    assert fetch(web, "http://h3.test/")[0].status == 200
    web.fault("h2.test")
    assert fetch(web, "http://h2.test/")[0].status == 200
    log = web.log()
    assert 0 in log.status[log.host == "h2.test"].tolist()


def test_a_hanging_host_hangs_nobody_else(web: RunningWeb) -> None:
    web.fault("h2.test", "hang")
    hanging = raw(web, b"GET / HTTP/1.1\r\nHost: h2.test\r\n\r\n")
    assert fetch(web, "http://h3.test/")[0].status == 200
    hanging.settimeout(0.3)
    with pytest.raises(TimeoutError):
        hanging.recv(1)
    hanging.close()
    web.fault("h2.test")


def test_a_slow_host_sends_everything_in_the_end(web: RunningWeb) -> None:
    expected = web.truth.response("h4.test", "/", 0.0, {}).body
    web.fault("h4.test", "slow:60000")
    sock = raw(web, b"GET / HTTP/1.0\r\nHost: h4.test\r\n\r\n")
    assert fetch(web, "http://h3.test/")[0].status == 200  # long before
    assert expected in drained(sock)
    web.fault("h4.test")


def test_unknown_faults_are_refused(web: RunningWeb) -> None:
    with pytest.raises(GossamerError, match="no such fault"):
        web.fault("h2.test", "explode")


def test_latency_delays_each_host_and_blocks_none(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=2, hosts=50, pages=50, latency_ms=50.0)
    with RunningWeb(spec, log_path=tmp_path / "log") as web:
        socks = {
            name: raw(web, f"GET / HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
            for name in (web.truth.host(page).name for page in web.truth.pages())
        }
        for sock in socks.values():
            assert drained(sock).startswith(b"HTTP/1.1 200")
        log = web.log()
        for name, rows in log.by_host():
            assert (log.end_s[rows] - log.start_s[rows] >= web.truth.latency_s(name) - 1e-4).all()
        assert (log.start_s[1:] < log.end_s[:-1]).any()  # they waited side by side


def test_time_can_be_moved(tmp_path: Path) -> None:
    spec = WebSpec.plain(seed=2, hosts=1, pages=10, changing=1.0, changes_per_day=1.0)
    with RunningWeb(spec, options=["--speed", "0"]) as web:
        urls = [web.truth.url(page) for page in web.truth.pages()]
        before = [fetch(web, url)[1] for url in urls]
        assert before == [fetch(web, url)[1] for url in urls]
        web.advance(10 * 86_400)
        for page, url in enumerate(urls):
            changed = web.truth.version(page, 10 * 86_400) > 0
            assert (fetch(web, url)[1] != before[page]) == changed
    with RunningWeb(spec, options=["--speed", "0", "--at", str(10 * 86_400)]) as web:
        assert [fetch(web, url)[1] for url in urls] != before


def test_idle_connections_are_closed() -> None:
    with RunningWeb(WebSpec.plain(hosts=1, pages=1), options=["--idle-s", "0"]) as web:
        sock = raw(web, b"GET /style.css HTTP/1.1\r\nHost: h0.test\r\n\r\n")
        assert drained(sock).startswith(b"HTTP/1.1 200")  # it ends though we did not close it


def test_roots_and_graphs_beside_a_synthetic_web(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<title>hello</title>")
    with RunningWeb(WebSpec.plain(hosts=1, pages=1), roots={"docs.example": tmp_path}) as web:
        assert web.start_urls == ["http://h0.test/", "http://docs.example/"]
        assert fetch(web, "http://docs.example/")[1] == b"<title>hello</title>"
        assert fetch(web, web.start_url)[0].status == 200
    with RunningWeb(roots={"docs.example": tmp_path}) as web:
        assert web.start_url == "http://docs.example/"
        assert fetch(web, "http://h0.test/")[0].status == 421
        with pytest.raises(GossamerError, match="WebSpec"):
            assert web.truth
        with pytest.raises(GossamerError, match="log_path"):
            web.log()


def test_a_web_that_cannot_start_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(GossamerError, match="did not start"), RunningWeb(roots={"a.example": tmp_path / "none"}):
        pass
    assert "no such directory" in capfd.readouterr().err
    with pytest.raises(GossamerError, match="needs a WebSpec"):
        RunningWeb()


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "gossamer", "testweb", "--hosts", "2", "--pages", "4", *options]


def test_the_command_tells_how_to_crawl_it_and_ends_cleanly(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    log = tmp_path / "log"
    process = subprocess.Popen(command("--log", str(log)), stdout=subprocess.PIPE, cwd=root, text=True)
    assert process.stdout is not None
    first, second = process.stdout.readline(), process.stdout.readline()
    address = first.split()[-1]
    assert first == f"testweb: http://h0.test/ on {address}\n"
    assert f"gossamer crawl http://h0.test/ --testweb {address}" in second
    connection = http.client.HTTPConnection(address, timeout=20)
    get(connection, "http://h0.test/")
    connection.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    process.stdout.close()
    assert log.read_text().count("\n") == 1  # flushed at the end


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--port", "PORT"], "--port 0"),
        (["--log", "/nowhere/log"], "cannot write the log"),
        (["--stop-on-eof"], "wants standard input to be a pipe"),
        (["--root", "docs.example"], "wants NAME=DIR"),
        (["--fault", "h0.test=explode"], "no such fault"),
        (["--redirects", "2"], "between 0 and 1"),
    ],
)
def test_mistakes_are_explained(web: RunningWeb, options: list[str], advice: str) -> None:
    taken = web.address.rpartition(":")[2]
    line = command(*(option.replace("PORT", taken) for option in options))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=root, timeout=60, check=False
    )
    assert done.returncode == 2
    assert advice in done.stderr


def test_it_ends_with_the_process_that_started_it() -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command("--stop-on-eof"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_a_client_that_leaves_early_is_logged_without_an_answer(tmp_path: Path) -> None:
    spec = WebSpec.plain(hosts=1, pages=1, latency_ms=400.0)
    with RunningWeb(spec, log_path=tmp_path / "log") as web:
        sock = raw(web, b"GET / HTTP/1.1\r\nHost: h0.test\r\n\r\n")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        assert web.log().status.tolist() == [0]
