"""What a crawl sends besides its own header fields: credentials reach their host, and nothing else."""

import gzip
import signal
import threading
from pathlib import Path
from typing import Any

import commands
import pyarrow.parquet as pq
import pytest
from crawls import QUICK
from raw_server import Exchange, Loopback, RawServer

from gossamer import Config, Crawl
from gossamer.archive.copies import restore
from gossamer.columns import Outcome

SECRET, PASSWORD = "tok3n-of-a-test", "pa55word-of-a-test"
ENCODED = "bWU6cGE1NXdvcmQtb2YtYS10ZXN0"  # me:PASSWORD
NO_ROBOTS = {"polite.robots": False}


def crawled(server: RawServer, directory: Path, seeds: list[str], values: dict[str, Any] | None = None) -> Crawl:
    config = Config().replace({**QUICK, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, **(values or {})})
    found = Crawl(directory, seeds, config)
    found.run()
    return found


def field(exchange: Exchange, name: str) -> str | None:
    for line in exchange.head.decode("latin-1").split("\r\n"):
        if line.lower().startswith(f"{name}: "):
            return line.partition(": ")[2]
    return None


def site(exchange: Exchange) -> bool:
    """Pages of a.test need credentials; one leads to another host."""
    if exchange.path == "/robots.txt":
        return exchange.send_page(b"", "404 Not Found")
    if exchange.host == "a.test" and field(exchange, "authorization") is None:
        return exchange.send_page(b"", "401 Unauthorized")
    if exchange.path == "/away":
        return exchange.send_page(b"", "302 Found", b"Location: http://b.test/landed\r\n")
    links = b"<a href=/away>x</a> <a href=/next>y</a>" if exchange.path == "/" else b"bye"
    return exchange.send_page(links, fields=b"Content-Type: text/html\r\n")


def everything_in(directory: Path) -> bytes:
    """All that a crawl wrote, with what is compressed unpacked."""
    found = b""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += str(path).encode() + data
            if path.suffix == ".gz":
                found += gzip.decompress(data)
            elif path.suffix == ".parquet":
                found += str(pq.read_table(path).to_pylist()).encode()
    return found


def test_credentials_reach_their_host_and_do_not_follow_a_redirect(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    server = loopback.serve(site)
    own = {"auth": "bearer env:TOKEN", "headers": {"X-Key": "env:TOKEN", "X-Client": "test"}, "cleartext": True}
    values = {"fetch.headers": {"DNT": "1"}, "host.a.test": own}
    found = crawled(server, tmp_path / "c", ["http://a.test/"], values)
    heads = {f"{exchange.host}{exchange.path}": exchange for exchange in server.exchanges}
    assert {name for name in heads if "robots" not in name} == {
        "a.test/",
        "a.test/away",
        "a.test/next",
        "b.test/landed",
    }
    for name, exchange in heads.items():
        is_own = name.startswith("a.test")
        assert field(exchange, "authorization") == (f"Bearer {SECRET}" if is_own else None)
        assert field(exchange, "x-key") == (SECRET if is_own else None)
        assert field(exchange, "x-client") == ("test" if is_own else None)
        assert field(exchange, "dnt") == "1"
    rows = found.query("SELECT url, outcome FROM visits WHERE NOT is_robots AND outcome NOT IN ('ok', 'moved')")
    assert rows == []


def test_no_file_log_or_output_has_the_secrets(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As users run it: two runs of the command, the second by what the first left in the directory."""
    monkeypatch.setenv("TOKEN", SECRET)
    (tmp_path / "login.txt").write_text(f"me:{PASSWORD}\n")
    server = loopback.serve(site)
    (tmp_path / "crawl.toml").write_text(f"""
        [polite]
        delay_s = 0
        [crawl]
        patience_s = 1
        scope = "any"
        [resolve]
        map = {{ "*" = "127.0.0.1:{server.port}" }}
        [host."a.test"]
        cleartext = true
        auth = "basic file:login.txt"
        headers = {{ X-Key = "env:TOKEN" }}
    """)
    out = commands.succeed("crawl", "http://a.test/", "--config", "crawl.toml", "--pages", 1, at=tmp_path)
    again = commands.run("crawl", "--pages", 4, at=tmp_path)
    assert again.returncode == 0, again.stderr
    assert [e.path for e in server.exchanges if field(e, "authorization") == f"Basic {ENCODED}"][-1] != "/"
    assert server.paths[-1] in ("/away", "/next", "/landed")
    told = out.encode() + again.stdout + again.stderr + everything_in(tmp_path / "crawl")
    assert b"Authorization: (not stored)\r\n" in told
    assert b"env:TOKEN" in told
    for secret in (SECRET, PASSWORD, ENCODED):
        assert secret.encode() not in told
    asked_for = crawled(
        server,
        tmp_path / "asked",
        ["http://a.test/"],
        {"archive.secrets": True, "host.a.test": {"auth": f"basic file:{tmp_path}/login.txt", "cleartext": True}},
    )
    assert ENCODED.encode() in everything_in(Path(str(asked_for.directory)))


def test_plain_http_gets_no_credentials_and_the_visit_says_so(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    server = loopback.serve(site)
    visitor = loopback.visitor(server, **{"host.a.test": {"auth": "bearer env:TOKEN"}})
    response = visitor.fetch("http://a.test/")
    assert (response.outcome, response.http_status) == (Outcome.FORBIDDEN, 401)
    assert "cleartext = true" in response.reason
    assert field(server.exchanges[0], "authorization") is None


def test_a_missing_secret_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    (tmp_path / "crawl.toml").write_text('[host."a.test"]\nauth = "bearer env:NOWHERE"\n')
    said = commands.complaint(
        "crawl", "http://a.test/", "--testweb", "127.0.0.1:1", "--config", "crawl.toml", at=tmp_path
    )
    assert "the environment variable NOWHERE is empty or not set" in said
    assert not (tmp_path / "crawl").exists()


def members(exchange: Exchange) -> bool:
    """Pages other than the first are for those who bring the cookie that the first one sets."""
    cookies = field(exchange, "cookie") or ""
    if exchange.path == "/robots.txt":
        return exchange.send_page(b"", "404 Not Found")
    if exchange.path == "/":
        links = b"".join(b"<a href=/%d>x</a>" % number for number in range(6))
        fields = b"Content-Type: text/html\r\nSet-Cookie: visit=v1s1t-of-a-test; Path=/\r\n"
        return exchange.send_page(links, fields=fields)
    if "visit=v1s1t-of-a-test" not in cookies:
        return exchange.send_page(b"", "403 Forbidden")
    return exchange.send_page(b"hello", fields=b"Set-Cookie: user=%b\r\n" % SECRET.encode())


def outcomes(found: Crawl) -> dict[str, int]:
    rows = found.query("SELECT outcome, count(*) AS n FROM visits WHERE NOT is_robots GROUP BY outcome")
    return {row["outcome"]: row["n"] for row in rows}


def test_cookies_are_kept_through_a_crawl_and_a_restart(loopback: Loopback, tmp_path: Path) -> None:
    server = loopback.serve(members)
    values = {"fetch.cookies": True}
    crawled(server, tmp_path / "c", ["http://a.test/"], {**values, "crawl.pages": 1})
    found = crawled(server, tmp_path / "c", [], values)
    assert outcomes(found) == {"ok": 7}
    assert b"v1s1t" in everything_in(tmp_path / "c" / "tables")
    assert b"v1s1t" not in everything_in(tmp_path / "c" / "warc")
    assert b"Cookie: (not stored)" in everything_in(tmp_path / "c" / "warc")
    assert found.query("SELECT count(*) AS n FROM pages")[0]["n"] == 7
    asked_for = crawled(server, tmp_path / "asked", ["http://a.test/"], {**values, "archive.secrets": True})
    assert outcomes(asked_for) == {"ok": 7}
    assert b"\r\nCookie: visit=v1s1t-of-a-test" in everything_in(tmp_path / "asked" / "warc")
    without = crawled(server, tmp_path / "without", ["http://a.test/"])
    assert outcomes(without) == {"ok": 1, "forbidden": 6}


def test_kept_cookies_are_for_their_owner_only(loopback: Loopback, tmp_path: Path) -> None:
    """Wherever they are: merged, copied, restored."""
    server, first, other = loopback.serve(members), tmp_path / "c", tmp_path / "other"
    values = {"fetch.cookies": True, "site.copies": 2, "site.disks": [str(other)]}
    crawled(server, first, ["http://a.test/", "http://b.test/"], {**values, "crawl.pages": 1})
    crawled(server, first, [], values)
    restore(tmp_path / "restored", [other])
    for place in (first, other, tmp_path / "restored"):
        modes = {path: path.stat().st_mode & 0o777 for path in place.rglob("tables/*.parquet")}
        kept = {mode for path, mode in modes.items() if path.name.startswith("cookies-")}
        assert kept == {0o600}, place
        assert {*modes.values()} != kept, "the others are as the user's umask has it"


def test_cookies_outlive_a_crawl_that_is_killed(loopback: Loopback, tmp_path: Path) -> None:
    """Killed in the round after the one that the cookie came in: the cookie was committed."""
    stuck, is_open = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> bool:
        if exchange.path not in ("/", "/robots.txt") and not is_open.is_set():
            stuck.set()
            server.pause(60)
            return False
        return members(exchange)

    server = loopback.serve(answer)
    options = ("--set", "fetch.cookies=true", "--delay", 0, "--set", "crawl.patience_s=1", "--quiet")
    command = ("crawl", "--testweb", f"127.0.0.1:{server.port}", *options)
    with commands.running(*command, "http://a.test/", at=tmp_path) as process:
        process.wait_until(stuck.is_set, "request after the first round")
        process.signal(signal.SIGKILL)
        process.finish()
    is_open.set()
    commands.succeed(*command, at=tmp_path)
    assert outcomes(Crawl(tmp_path / "crawl")) == {"ok": 7}


def test_the_users_cookies_are_sent_and_written_nowhere(loopback: Loopback, tmp_path: Path) -> None:
    """The server repeats the user's cookie with every answer, as many do to renew a session."""
    server = loopback.serve(members)
    (tmp_path / "cookies.txt").write_text(f"a.test\tFALSE\t/\tFALSE\t0\tuser\t{SECRET}\n")
    options = ("--set", "fetch.cookies=true", "--delay", 0, "--set", "crawl.patience_s=1", "--cookies", "cookies.txt")
    out = commands.succeed(
        "crawl", "http://a.test/", "--testweb", f"127.0.0.1:{server.port}", *options, "--pages", 3, at=tmp_path
    )
    again = commands.run("crawl", "--pages", 7, at=tmp_path)
    assert again.returncode == 0, again.stderr
    pages = [exchange for exchange in server.exchanges if exchange.path != "/robots.txt"]
    assert len(pages) == 7
    assert all(f"user={SECRET}" in (field(exchange, "cookie") or "") for exchange in pages)
    assert SECRET.encode() not in out.encode() + again.stdout + again.stderr + everything_in(tmp_path / "crawl")
    said = commands.complaint(
        "crawl",
        "http://a.test/",
        "--cookies",
        "none.txt",
        "--dir",
        "x",
        *options[:4],
        "--testweb",
        "127.0.0.1:1",
        at=tmp_path,
    )
    assert "none.txt, which cannot be read: No such file" in said
    assert not (tmp_path / "x").exists()
