"""Hosts are reached by a proxy, which looks their names up: a real one, HTTP and SOCKS5."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from crawls import QUICK
from proxy_server import ProxyServer
from raw_server import Exchange, Loopback, RawServer
from test_requests import everything_in

from gossamer import Config, Crawl
from gossamer.columns import Outcome
from gossamer.errors import ConfigError
from gossamer.fetch.proxies import Proxies

PASSWORD = "pr0xy-password"
LOGIN = f"me:{PASSWORD}"
DIRECT = {"*": "127.0.0.1:1"}  # whoever does not go by the proxy reaches nobody


def page(exchange: Exchange) -> bool:
    return exchange.send_page(b"<a href=/next%7e>x</a>", fields=b"Content-Type: text/html\r\n")


@pytest.fixture
def server(loopback: Loopback) -> RawServer:
    return loopback.serve(page)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def proxy(stack: ExitStack, server: RawServer, login: str = "") -> ProxyServer:
    found = ProxyServer(server.port, login)
    stack.callback(found.close)
    return found


def asked_for(found: ProxyServer) -> set[tuple[str, str, int]]:
    return {(asked.kind, asked.host, asked.port) for asked in found.asked}


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_crawl_by_proxy(
    server: RawServer, stack: ExitStack, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that only the proxy knows; its password is written nowhere."""
    found = proxy(stack, server, LOGIN)
    monkeypatch.setenv("PROXY_OF_A_TEST", f"{scheme}://{LOGIN}@127.0.0.1:{found.port}")
    values = {"resolve.map": DIRECT, "fetch.proxy": "env:PROXY_OF_A_TEST", "fetch.contact": "me@gossamer-tests.org"}
    crawl = Crawl(tmp_path / "c", ["http://only-the-proxy-knows.test/"], Config().replace({**QUICK, **values}))
    crawl.run()
    rows = crawl.query("SELECT url, outcome, address, reason FROM visits WHERE NOT is_robots ORDER BY url")
    assert [(row["url"], row["outcome"], row["address"]) for row in rows] == [
        ("http://only-the-proxy-knows.test/", "ok", ""),
        ("http://only-the-proxy-knows.test/next%7e", "ok", ""),
    ]
    kind = "GET" if scheme == "http" else "SOCKS"
    assert asked_for(found) == {(kind, "only-the-proxy-knows.test", 80)}
    assert {asked.login for asked in found.asked} == {LOGIN}
    assert sorted(server.paths) == ["/", "/next%7e", "/robots.txt"], "escapes stay as they are written"
    assert PASSWORD.encode() not in everything_in(tmp_path / "c")


@pytest.mark.parametrize(("scheme", "kind"), [("http", "CONNECT"), ("socks5h", "SOCKS")])
def test_https_by_proxy(loopback: Loopback, stack: ExitStack, certificate: Path, scheme: str, kind: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = loopback.serve(page, wrap=lambda connection: context.wrap_socket(connection, server_side=True))
    found = proxy(stack, server)
    changes: dict[str, Any] = {"fetch.proxy": f"{scheme}://127.0.0.1:{found.port}", "fetch.verify_tls": False}
    visitor = loopback.visitor(None, **{"resolve.map": DIRECT, **changes})
    for path in ("/", "/a%7eb"):
        response = visitor.fetch(f"https://a.test{path}", reuse=True)
        assert (response.outcome, response.reason) == (Outcome.OK, "")
        assert response.head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type"), "not the proxy's answer"
    assert asked_for(found) == {(kind, "a.test", 443)}
    assert all("Gossamer" in asked.agent for asked in found.asked if asked.kind == "CONNECT")
    assert [exchange.connection for exchange in server.exchanges] == [1, 1], "kept open"


def test_hosts_with_a_proxy_of_their_own(loopback: Loopback, server: RawServer, stack: ExitStack) -> None:
    one, other = proxy(stack, server), proxy(stack, server)
    visitor = loopback.visitor(
        server,
        **{
            "fetch.proxy": f"http://127.0.0.1:{one.port}",
            "host.*.b.test": {"proxy": f"socks5h://127.0.0.1:{other.port}"},
            "host.c.test": {"proxy": "none"},
        },
    )
    for host in ("a.test", "x.b.test", "c.test", "a.test"):
        response = visitor.fetch(f"http://{host}/", reuse=True)
        assert response.outcome is Outcome.OK
        assert response.address == ("127.0.0.1" if host == "c.test" else "")
        assert response.request_head == server.exchanges[-1].head
    assert asked_for(one) == {("GET", "a.test", 80)}
    assert asked_for(other) == {("SOCKS", "x.b.test", 80)}


def test_a_proxy_that_does_not_help(loopback: Loopback, server: RawServer, stack: ExitStack) -> None:
    guarded = proxy(stack, server, LOGIN)
    for proxy_, url, outcome, reason in (
        ("http://127.0.0.1:1", "http://a.test/", Outcome.CONNECT_FAILED, "by proxy: "),
        ("socks5h://127.0.0.1:1", "http://a.test/", Outcome.CONNECT_FAILED, "by proxy: "),
        (f"http://127.0.0.1:{guarded.port}", "http://a.test/", Outcome.CONNECT_FAILED, "by proxy: response 407"),
        (f"http://127.0.0.1:{guarded.port}", "https://a.test/", Outcome.CONNECT_FAILED, "response 407"),
        (f"socks5h://127.0.0.1:{guarded.port}", "http://a.test/", Outcome.CONNECT_FAILED, "by proxy: "),
    ):
        response = loopback.visitor(server, **{"fetch.proxy": proxy_}).fetch(url)
        assert response.outcome is outcome, (proxy_, url, response.reason)
        assert reason in response.reason


def test_a_wrong_password_of_a_proxy_says_nothing_about_the_website(
    server: RawServer, stack: ExitStack, tmp_path: Path
) -> None:
    """robots.txt is unreachable, so nothing is visited; with the right password the next run reads both."""
    found = proxy(stack, server, LOGIN)
    values = {"fetch.proxy": f"http://127.0.0.1:{found.port}", "fetch.contact": "me@gossamer-tests.org"}
    config = Config().replace({**QUICK, **values, "crawl.patience_s": 0, "polite.backoff_s": 0.05})
    first = Crawl(tmp_path / "c", ["http://a.test/"], config)
    first.run()
    rows = first.query("SELECT is_robots, outcome, reason FROM visits")
    assert {(row["is_robots"], row["outcome"], row["reason"][:22]) for row in rows} == {
        (True, "connect_failed", "by proxy: response 407")
    }
    assert {asked.target for asked in found.asked} == {"http://a.test/robots.txt"}
    found.login = ""
    again = Crawl(tmp_path / "c", config=config.replace({"crawl.patience_s": 60}))
    again.run()
    rows = again.query("SELECT url FROM visits WHERE outcome = 'ok' ORDER BY url")
    assert [row["url"] for row in rows] == ["http://a.test/", "http://a.test/next%7e", "http://a.test/robots.txt"]


def test_a_407_of_a_website_is_its_own(loopback: Loopback, stack: ExitStack) -> None:
    """By SOCKS the website answers, not the proxy."""
    server = loopback.serve(lambda exchange: exchange.send(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"))
    found = proxy(stack, server)
    response = loopback.visitor(server, **{"fetch.proxy": f"socks5h://127.0.0.1:{found.port}"}).fetch("http://a.test/")
    assert (response.outcome, response.http_status) == (Outcome.FORBIDDEN, 407)


def test_no_reason_has_the_password(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """libcurl quotes an address that it does not understand."""
    monkeypatch.setenv("PROXY_OF_A_TEST", f"http://me:{PASSWORD}%00@127.0.0.1:99999")
    response = loopback.visitor(None, **{"fetch.proxy": "env:PROXY_OF_A_TEST"}).fetch("http://a.test/")
    assert response.reason.startswith("by proxy: ")
    assert PASSWORD not in response.reason


def test_what_the_url_says_is_still_judged(loopback: Loopback, server: RawServer, stack: ExitStack) -> None:
    found = proxy(stack, server)
    visitor = loopback.visitor(None, **{"fetch.proxy": f"http://127.0.0.1:{found.port}"})
    for url in ("http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest", "http://a.test:25/"):
        assert visitor.fetch(url).outcome is Outcome.REFUSED_ADDRESS
    assert found.asked == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("socks5://localhost:1080", "write socks5h://, with an h"),
        ("https://localhost:1080", "must be like http://proxy.example.org:3128"),
        ("http://localhost", "with a port"),
        ("localhost:3128", "must be like http://proxy.example.org:3128"),
        (f"http://{LOGIN}@localhost:3128", 'write "env:NAME"'),
    ],
)
def test_what_is_no_proxy(value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fetch.proxy", "host.a.test"):
        with pytest.raises(ConfigError) as error:
            Config().replace({name: value if name == "fetch.proxy" else {"proxy": value}})
        assert message in str(error.value)
        assert PASSWORD not in str(error.value)
    monkeypatch.setenv("PROXY_OF_A_TEST", f"ftp://{PASSWORD}")
    with pytest.raises(ConfigError, match="must be like http://user:password@") as error:
        Proxies(Config().replace({"fetch.proxy": "env:PROXY_OF_A_TEST"}))
    assert PASSWORD not in str(error.value)


def test_whoever_uses_a_proxy_says_who_it_is(tmp_path: Path) -> None:
    """With a proxy a map of names to loopback does not keep the crawl at home."""
    config = Config().replace({"resolve.map": DIRECT, "fetch.proxy": "http://127.0.0.1:1"})
    with pytest.raises(ConfigError, match="say who is crawling"):
        Crawl(tmp_path / "c", ["http://a.test/"], config).run()
