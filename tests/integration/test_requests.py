"""What a crawl sends besides its own header fields: credentials reach their host, and nothing else."""

import gzip
from pathlib import Path
from typing import Any

import commands
import pyarrow.parquet as pq
import pytest
from crawls import QUICK
from raw_server import Exchange, Loopback, RawServer

from gossamer import Config, Crawl
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
