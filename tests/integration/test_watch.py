"""`gossamer watch` as operators and strangers meet it: real processes, real HTTP, a real crawl of the test web."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands
import pytest
import tools
from crawls import crawl
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gossamer.testweb.assets import asset
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.asking import answer

SPEC = WebSpec(seed=5, hosts=12, pages=150, errors=0.1)
TOKEN = "0123456789abcdef-token"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("watch") / "crawl"
    with RunningWeb(SPEC) as web:
        crawl(web, directory, {"crawl.width": 60})
    return directory


class Watch:
    """A running `gossamer watch`."""

    def __init__(self, process: commands.Process) -> None:
        self.process = process
        assert process.inner.stderr is not None
        self.line = process.inner.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.line)
        assert found, self.line
        self.port = int(found[1])

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        got = connection.getresponse()
        return got.status, {name.lower(): value for name, value in got.getheaders()}, got.read()

    def sql(self, text: str) -> dict[str, Any]:
        body = json.dumps({"sql": text}).encode()
        status, _, found = self.ask("/api/query", "POST", body, Content_Type="application/json")
        assert status == 200
        rows: dict[str, Any] = json.loads(found)
        return rows

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/events")
        stream = connection.getresponse()
        assert stream.getheader("content-type") == "text/event-stream"
        kind = ""
        while line := stream.readline().decode():
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])


@contextlib.contextmanager
def watch(directory: Path, *more: object) -> Iterator[Watch]:
    with commands.running("watch", directory, "--listen", "127.0.0.1:0", *more, at=directory.parent) as process:
        yield Watch(process)


@pytest.fixture(scope="module")
def shown(done: Path) -> Iterator[Watch]:
    with watch(done) as found:
        yield found


def samples(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("outcome", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_open_metrics_and_those_of_status(shown: Watch, done: Path) -> None:
    status, headers, body = shown.ask("/metrics")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "application/openmetrics-text")
    found, expected = samples(body.decode()), commands.answer("status", done, "--json", at=done.parent)
    visits = {outcome: value for (name, outcome), value in found.items() if name == "gossamer_visits_total"}
    assert visits == expected["outcomes"]
    assert found["gossamer_received_bytes_total", ""] == expected["wire_bytes"]
    assert found["gossamer_known_pages", ""] == expected["known"]
    assert found["gossamer_frontier_pages", ""] == expected["frontier"]
    assert found["gossamer_healthy", ""] == 1
    labels = {label for f in text_string_to_metric_families(body.decode()) for s in f.samples for label in s.labels}
    assert labels <= {"agent", "site", "outcome"}


def test_promtool_accepts_the_metrics(shown: Watch) -> None:
    # promtool reads the text format of before: its end is a comment, and counters and units have their whole names.
    text = shown.ask("/metrics")[2].decode()
    names = re.findall(r"^# TYPE (\S+) counter$", text, re.M)
    for name in names:
        text = re.sub(rf"^# (TYPE|HELP) {name} ", rf"# \1 {name}_total ", text, flags=re.M)
    text = re.sub(r"^# (UNIT .*|EOF)\n", "", text, flags=re.M)
    checked = subprocess.run([tools.need("promtool"), "check", "metrics"], input=text, text=True, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_images_of_the_last_pages_are_served_as_images_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    markup = "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'><script>alert(1)</script></svg>"
    (root / "drawn.svg").write_text(markup)
    (root / "false.png").write_bytes(b"GIF8" + markup.encode())
    (root / "good.gif").write_bytes(asset("/assets/1-0.png").body)  # its name tells another type
    (root / "index.html").write_text("<title>whole</title><img src=good.gif><a href=bare.html>x</a>")
    (root / "bare.html").write_text("<title>bare</title><img src=drawn.svg><img src=false.png>")
    with RunningWeb(roots={"a.test": root}) as web:
        crawl(web, tmp_path / "crawl", {"crawl.requisites": True}, seeds=["http://a.test/"])
    with watch(tmp_path / "crawl") as shown:
        pages = json.loads(shown.ask("/api/state")[2])["pages"]
        images = {page["title"]: page["image"] for page in pages}
        assert set(images) == {"whole", "bare"}  # requisites are no pages
        assert images["bare"] == ""
        status, headers, body = shown.ask(f"/images/{images['whole']}")
        assert (status, headers["content-type"], body) == (200, "image/png", asset("/assets/1-0.png").body)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; sandbox")
        assert "immutable" in headers["cache-control"]
        for name in ("0" * 24, "", "../index.html", "%2e%2e/index.html"):
            assert shown.ask(f"/images/{name}")[0] == 404


def test_counters_do_not_fall_when_the_crawl_is_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with RunningWeb(SPEC) as web:
        crawl(web, directory, {"crawl.pages": 60, "crawl.width": 30})
        with watch(directory) as shown:
            before = samples(shown.ask("/metrics")[2].decode())
            crawl(web, directory, {"crawl.pages": 120, "crawl.width": 30})
            for _, parts in shown.events():
                if parts.get("now", {}).get("visits", 0) >= 120:
                    break
            after = samples(shown.ask("/metrics")[2].decode())
    falling = [key for key, value in before.items() if key[0].endswith("_total") and after[key] < value]
    assert falling == []
    assert after["gossamer_commits_total", ""] > before["gossamer_commits_total", ""]


def test_a_finished_crawl_is_healthy_and_a_killed_one_is_not(done: Path, shown: Watch, tmp_path: Path) -> None:
    assert shown.ask("/healthz")[0] == 200
    assert commands.succeed("status", done, "--check", at=tmp_path) == "healthy: ended\n"
    slow = ["--delay", "0.2", "--scope", "any", "--width", "5", "--quiet"]
    with (
        RunningWeb(SPEC) as web,
        commands.running("crawl", web.start_url, "--testweb", web.address, *slow, at=tmp_path) as killed,
    ):
        killed.wait_until(lambda: commands.committed_visits(tmp_path / "crawl") > 5, "commits")
        assert commands.succeed("status", "--check", at=tmp_path) in ("healthy: running\n", "healthy: waiting\n")
        killed.signal(signal.SIGKILL)
        killed.inner.wait()
    checked = commands.run("status", "--check", at=tmp_path)
    assert (checked.returncode, checked.stderr) == (1, b"")
    assert checked.stdout.startswith(b"a0 ended without a last commit. Run the same command again")
    with watch(tmp_path / "crawl") as found:
        status, _, body = found.ask("/healthz")
        assert status == 503
        assert json.loads(body)["problems"][0]["is_failure"]


def test_events_begin_with_everything_and_go_on_with_what_changes(tmp_path: Path) -> None:
    directory = tmp_path / "crawl"
    with RunningWeb(SPEC) as web:
        command = ["crawl", web.start_url, "--testweb", web.address, "--delay", "0.1", "--scope", "any", "--quiet"]
        with commands.running(*command, "--width", "10", at=tmp_path) as crawling:
            crawling.wait_until(lambda: commands.committed_visits(directory) > 5, "commits")
            with watch(directory) as shown:
                events = shown.events()
                kind, first = next(events)
                assert kind == "state"
                assert {"now", "agents", "outcomes", "hosts", "pages", "series", "problems"} <= first.keys()
                assert first["now"]["state"] in ("running", "waiting")
                assert first["agents"][0]["process"] == crawling.inner.pid
                assert first["agents"][0]["memory_bytes"] > 1_000_000
                changes = (parts for kind, parts in events if kind == "change")
                later = next(
                    parts for parts in changes if parts.get("now", {}).get("visits", 0) > first["now"]["visits"]
                )
    assert "series" not in later or "tail" not in later
    assert "refused" not in later or later["refused"] != first["refused"]


def test_a_page_of_elsewhere_learns_nothing(shown: Watch) -> None:
    assert shown.ask("/", Host="evil.example")[0] == 403  # its name leads to 127.0.0.1: DNS rebinding
    assert shown.ask("/metrics", Host="127.0.0.1.evil.example")[0] == 403
    assert shown.ask("/", Host=f"localhost:{shown.port}")[0] == 200
    assert shown.ask("/api/state", Origin="http://evil.example")[0] == 403
    body = json.dumps({"sql": "SELECT 1"}).encode()
    assert shown.ask("/api/query", "POST", body, Content_Type="text/plain")[0] == 405  # what a form can send
    _, headers, _ = shown.ask("/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path", ["/../server.py", "/vendor/../../server.py", "/%2e%2e/server.py", "//etc/passwd", "/x"]
)
def test_only_files_of_the_page_are_served(shown: Watch, path: str) -> None:
    assert shown.ask(path)[0] == 404


def test_what_is_no_http_is_refused_and_the_server_goes_on(shown: Watch) -> None:
    for sent in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nbad\r\n\r\n", b"x" * 100_000, b"GET / SPDY\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", shown.port)) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
    assert shown.ask("/healthz")[0] == 200


def test_a_query_answers_with_rows(shown: Watch, done: Path) -> None:
    expected = commands.answer("query", done, "SELECT count(*) AS n FROM pages", "--json", at=done.parent)
    found = shown.sql("SELECT count(*) AS n FROM pages")
    assert (found["columns"], found["rows"]) == (["n"], [[str(expected[0]["n"])]])
    many = shown.sql("SELECT * FROM range(1000)")
    assert (len(many["rows"]), many["more"]) == (200, True)


ATTACKS = [
    "COPY (SELECT 1) TO '{there}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{there}'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT content FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "ATTACH '{there}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA enable_external_access = true; SELECT 1",
    "SET memory_limit = '100GB'; SELECT 1",
    "CREATE TABLE t AS SELECT * FROM read_blob('/etc/passwd'); SELECT * FROM t",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "EXPORT DATABASE '{there}'",
    "DROP VIEW pages; SELECT 1",
    "SELECT getenv('HOME')",
    "SELECT list(range) FROM range(100000000)",  # memory
]


def test_no_query_reads_or_writes_files_or_takes_all_memory(done: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    answers = {attack: answer(str(done), attack.format(there=there)) for attack in ATTACKS}
    assert [attack for attack, found in answers.items() if "error" not in found] == []
    assert not there.exists()


@pytest.mark.slow
def test_a_query_that_never_ends_is_ended(shown: Watch) -> None:
    each = ", ".join(f"range(100000) {name}" for name in "abc")  # small enough for the limit of memory
    endless = f"SELECT count(*) FROM {each} WHERE hash(a.range + b.range + c.range) = 0"
    assert "took longer" in shown.sql(endless)["error"]
    assert shown.ask("/healthz")[0] == 200


def test_other_addresses_need_a_token(done: Path, tmp_path: Path) -> None:
    said = commands.complaint("watch", done, "--listen", "0.0.0.0:0", at=tmp_path)
    assert "--token-file" in said
    (tmp_path / "short").write_text("secret\n")
    assert "16 characters" in commands.complaint("watch", done, "--token-file", tmp_path / "short", at=tmp_path)
    (tmp_path / "token").write_text(TOKEN + "\n")
    with watch(done, "--token-file", tmp_path / "token") as shown:
        assert TOKEN not in shown.line
        assert [shown.ask(path)[0] for path in ("/", "/metrics", "/events", "/healthz", "/api/state")] == [401] * 5
        assert shown.ask("/metrics", Authorization=f"Bearer {TOKEN}x")[0] == 401
        assert shown.ask("/metrics", Authorization=f"Bearer {TOKEN}", Host="crawler.example")[0] == 200
        status, headers, _ = shown.ask(f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        assert shown.ask("/", Cookie=headers["set-cookie"].partition(";")[0])[0] == 200


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:http"])
def test_an_address_that_is_none_is_a_mistake(done: Path, listen: str) -> None:
    assert "write HOST:PORT" in commands.complaint("watch", done, "--listen", listen, at=done.parent)


def test_an_address_in_use_is_named(done: Path, shown: Watch) -> None:
    said = commands.complaint("watch", done, "--listen", f"127.0.0.1:{shown.port}", at=done.parent)
    assert f"cannot listen on 127.0.0.1:{shown.port}" in said


def test_where_no_crawl_is_there_is_nothing_to_watch(tmp_path: Path) -> None:
    assert "holds no crawl" in commands.complaint("watch", tmp_path, at=tmp_path)


def test_a_crawl_can_bring_its_own_watch_which_ends_with_it(tmp_path: Path) -> None:
    with RunningWeb(SPEC) as web:
        command = ["crawl", web.start_url, "--testweb", web.address, "--delay", "0.1", "--scope", "any", "--quiet"]
        command += ["--width", "10", "--watch", "127.0.0.1:0"]
        with commands.running(*command, at=tmp_path) as crawling:
            shown = Watch(crawling)
            parts = next(parts for _, parts in shown.events() if parts.get("now", {}).get("visits"))
            assert parts["now"]["state"] in ("running", "waiting")
            crawling.signal(signal.SIGKILL)
            crawling.inner.wait()
            end_s = time.monotonic() + 60
            with contextlib.suppress(ConnectionError):
                while shown.ask("/healthz"):
                    assert time.monotonic() < end_s, "it goes on without its crawl"
                    time.sleep(0.1)
