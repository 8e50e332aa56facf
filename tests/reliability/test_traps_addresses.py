"""Crawls that are led to places where a crawler must not go, and answers that ask for more than a GET.

A canary listens on loopback: whatever a page, a redirect or a sitemap says, nobody ever connects to it.
Numbers such as T074 are those of the list in tests/cases/README.md.
"""

from pathlib import Path

import pytest
from raw_server import Loopback, RawServer
from scripted import VALUES, Web, moved, outcomes, page, reply, robots, statuses, verdicts

from gossamer import Config, Crawl
from gossamer.web.url import normalise

SPELLINGS = [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://2130706433:{port}/", "http://0x7f.1:{port}/",
    "http://0177.0.0.1:{port}/", "http://127.1:{port}/", "http://[::1]:{port}/", "http://0.0.0.0:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/", "http://[::127.0.0.1]:{port}/", "http://127.0.0.1.:{port}/",
    "http://user@127.0.0.1:{port}/", "http://t.test@127.0.0.1:{port}/", "http://１２７.0.0.1:{port}/",
    "http://localhost.:{port}/", "http://127.0.0.2:{port}/", "http://[::ffff:7f00:1]:{port}/",
]  # fmt: skip
ELSEWHERE = [
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/",
    "http://100.64.0.1/", "http://[fe80::1]/", "http://[fc00::1]/", "http://224.0.0.1/", "http://[64:ff9b::7f00:1]/",
]  # fmt: skip


@pytest.fixture
def canary(loopback: Loopback) -> RawServer:
    return loopback.serve(lambda exchange: exchange.send_page(b"tweet"))


def bad_urls(canary: RawServer) -> list[str]:
    return [url.format(port=canary.port) for url in SPELLINGS] + ELSEWHERE


def test_t074_t075_links_and_redirects_to_forbidden_addresses(
    loopback: Loopback, tmp_path: Path, canary: RawServer
) -> None:
    """Only the hostile host is mapped; the rest of the world does not exist for this crawl."""
    urls = bad_urls(canary)
    hops = {f"/hop{i}": moved(url) for i, url in enumerate(urls)}
    sitemap = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    web = Web(loopback, {
        **hops, "/": page(*urls, *hops), "/robots.txt": robots("Sitemap: /sitemap.xml\nSitemap: " + urls[0]),
        "/sitemap.xml": reply(f"<urlset>{sitemap}</urlset>".encode(), mime="application/xml"),
    })  # fmt: skip
    seeds = ["http://evil.test/", "http://evil.test/sitemap.xml"]
    found = web.crawl(tmp_path, seeds, resolve__map={"evil.test": web.address})
    assert canary.connections == 0
    assert {f"evil.test{hop}" for hop in hops} <= set(web.asked())
    targets = {normalise(url) for url in urls} - {None}
    outcome = outcomes(found)
    assert {outcome[url] for url in targets if url in outcome} == {"refused_address"}
    assert len(targets & outcome.keys()) > 15
    assert {exchange.host for exchange in web.exchanges(with_robots=True)} == {"evil.test"}


def test_t074_a_robots_txt_that_leads_to_a_forbidden_address(
    loopback: Loopback, tmp_path: Path, canary: RawServer
) -> None:
    lure = moved(f"http://127.0.0.1:{canary.port}/robots.txt")
    web = Web(loopback, {"/robots.txt": lure, "evil.test": page()})
    found = web.crawl(tmp_path, ["http://evil.test/"], resolve__map={"evil.test": web.address}, crawl__patience_s=0.0)
    assert canary.connections == 0
    assert web.asked() == []
    assert statuses(found) == {"http://evil.test/": "new"}, "its rules are out of reach"


def test_t074_t075_forbidden_seeds(tmp_path: Path, canary: RawServer) -> None:
    """No map: the guard itself stands between us and the canary."""
    seeds = [url for url in bad_urls(canary) if normalise(url) and "localhost" not in url]
    found = Crawl(tmp_path, seeds, Config().replace({**VALUES, "fetch.contact": "test@gossamer-tests.org"}))
    found.run()
    assert canary.connections == 0
    assert set(statuses(found).values()) == {"refused"}
    reasons = {row["reason"] for row in found.query("SELECT reason FROM visits WHERE NOT is_robots")}
    assert any("loopback" in reason for reason in reasons)
    assert any("link-local" in reason or "metadata" in reason for reason in reasons)


def test_t077_forbidden_ports(loopback: Loopback, tmp_path: Path) -> None:
    bad = [f"http://evil.test:{port}/" for port in (1, 22, 25, 110, 6000, 6667, 10080)]
    web = Web(loopback, {"/": page(*bad, "/hop"), "/hop": moved(bad[0])})
    found = web.crawl(tmp_path, ["http://evil.test/"])
    assert {verdict for url, verdict in verdicts(found).items() if url in bad} == {"port"}
    assert web.asked() == ["evil.test/", "evil.test/hop"]


def test_t084_nobody_listens(loopback: Loopback, tmp_path: Path) -> None:
    closed = loopback.serve(lambda exchange: False)
    closed.close()
    web = Web(loopback, {"up.test": page()})
    names = {"up.test": web.address, "down.test": f"127.0.0.1:{closed.port}"}
    found = web.crawl(tmp_path, ["http://down.test/", "http://up.test/"], resolve__map=names, polite__robots=False)
    rows = found.query("SELECT outcome, count(*) AS n FROM visits WHERE host = 'down.test' GROUP BY outcome")
    assert rows == [{"outcome": "connect_failed", "n": 2}], "one retry, as configured"
    assert statuses(found)["http://up.test/"] == "fetched"


def test_a_host_whose_header_lines_are_no_fields_is_crawled(loopback: Loopback, tmp_path: Path) -> None:
    """libcurl refuses its first answer. After a rest the host is asked again, and read as browsers do."""
    bad = reply(b"<!doctype html><a href=/next>next</a>", 200, "Strict-Transport-Security: max-age=1;", "preload")
    web = Web(loopback, {"t.test": bad})
    found = web.crawl(tmp_path, ["http://t.test/"], polite__robots=False)
    assert statuses(found) == {"http://t.test/": "fetched", "http://t.test/next": "fetched"}
    (row,) = found.query("SELECT header(warc, warc_offset, 'content-type') AS mime FROM pages WHERE url LIKE '%next'")
    assert row["mime"] == "text/html"


def test_t087_answers_that_want_credentials_or_money(loopback: Loopback, tmp_path: Path) -> None:
    replies = {
        "/401": reply(b"<a href=/in>log in</a>", 401, 'WWW-Authenticate: Basic realm="x"'),
        "/digest": reply(b"no", 401, 'WWW-Authenticate: Digest realm="x", nonce="1"'),
        "/407": reply(b"no", 407, 'Proxy-Authenticate: Basic realm="x"'),
        "/402": reply(b"pay", 402), "/403": reply(b"no", 403), "/451": reply(b"law", 451),
    }  # fmt: skip
    web = Web(loopback, replies)
    found = web.crawl(tmp_path, [f"http://user:secret@t.test{path}" for path in replies])
    assert sorted(web.asked()) == sorted(f"t.test{path}" for path in replies), "asked once, and not again"
    assert set(outcomes(found).values()) == set(statuses(found).values()) == {"forbidden"}
    for exchange in web.exchanges(with_robots=True):
        assert b"authorization" not in exchange.head.lower()
        assert b"secret" not in exchange.head
    rows = found.query("SELECT content(warc, warc_offset) AS body FROM pages WHERE http_status = 402")
    assert rows == [{"body": "pay"}]


def test_t088_conditional_requests(loopback: Loopback, tmp_path: Path) -> None:
    """The refresh interval is short, and the limit on visits generous enough that every page is visited again."""
    stamp = "Wed, 21 Oct 2015 07:28:00 GMT"
    fields = {
        "/strong": ['ETag: "v1"'], "/weak": ['ETag: W/"v1"'], "/dated": [f"Last-Modified: {stamp}"],
        "/both": ['ETag: "v1"', f"Last-Modified: {stamp}"], "/none": [],
    }  # fmt: skip
    web = Web(loopback, {"/unasked": reply(b"", 304)})
    for path, lines in fields.items():
        web.replies[path] = lambda exchange, lines=lines: exchange.send(
            reply(b"", 304, *lines)
            if b"\r\nIf-" in exchange.head
            else reply(b"<html>" + exchange.path.encode() + b"</html>", 200, *lines)
        )
    web.replies["/changing"] = lambda exchange: exchange.send(
        reply(b"<html>%d</html>" % len(web.exchanges()), 200, f'ETag: "v{len(web.exchanges())}"')
    )
    paths = [*fields, "/changing", "/unasked"]
    found = web.crawl(
        tmp_path, [f"http://t.test{path}" for path in paths],
        refresh__policy="fixed", refresh__interval_s=1.0, refresh__least_s=1.0,
        crawl__pages=4 * len(paths), crawl__patience_s=5.0,
    )  # fmt: skip
    again = {path: [e.head for e in web.exchanges() if e.path == path][1] for path in paths if path != "/unasked"}
    assert b'\r\nIf-None-Match: "v1"\r\n' in again["/strong"]
    assert b'\r\nIf-None-Match: W/"v1"\r\n' in again["/weak"]
    assert f"\r\nIf-Modified-Since: {stamp}\r\n".encode() in again["/dated"]
    assert b"\r\nIf-None-Match: " in again["/both"]
    assert b"\r\nIf-Modified-Since: " in again["/both"]
    assert b"\r\nIf-" not in again["/none"]
    rows = found.query("SELECT url, outcome, http_status, is_revisit FROM visits WHERE NOT is_robots ORDER BY time")
    visits: dict[str, list[tuple[str, int, bool]]] = {path: [] for path in paths}
    for row in rows:
        visits[row["url"].removeprefix("http://t.test")].append((row["outcome"], row["http_status"], row["is_revisit"]))
    for path in ("/strong", "/weak", "/dated", "/both"):
        assert visits[path][:2] == [("ok", 200, False), ("unchanged", 304, True)]
    assert visits["/none"][:2] == [("ok", 200, False), ("unchanged", 200, True)], "found out by its digest"
    assert set(visits["/changing"]) == {("ok", 200, False)}
    assert visits["/unasked"] == [("other", 304, False)], "nobody asked whether it had changed"
    assert web.asked().count("t.test/unasked") == 1
