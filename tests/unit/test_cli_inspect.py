import io
from typing import Any

from rich.console import Console

from gossamer.cli.inspect import inspect_report

FOUND: dict[str, Any] = {
    "url": "http://A.test",
    "redirects": [{"url": "http://a.test/", "http_status": 301, "location": "http://a.test/b"}],
    "normalised": "http://a.test/b",
    "key": "00ff00ff00ff00ff",
    "host": "a.test",
    "domain": "a.test",
    "trap": "",
    "robots": {
        "verdict": "allowed",
        "line": "Allow: /b",
        "reason": "",
        "url": "http://a.test/robots.txt",
        "http_status": 200,
        "crawl_delay_s": 2.5,
        "sitemaps": ["http://a.test/sitemap.xml"],
    },
    "outcome": "ok",
    "reason": "",
    "http_status": 200,
    "address": "192.0.2.1",
    "headers": [["content-type", "text/html"], ["x-evil", "\x1b[2J"]],
    "content_type": "text/html",
    "charset": "utf-8",
    "title": "Spiders [bold]\x1b]0;x\x07",
    "language": "en",
    "canonical": "",
    "location": "",
    "noindex": True,
    "truncated": "length",
    "wire_bytes": 12_345,
    "body_bytes": 54_321,
    "elapsed_s": 0.1234,
    "links": [{"url": f"http://a.test/{i}", "verdict": "followed" if i % 5 else "scope"} for i in range(30)],
}


def drawn(found: dict[str, Any], width: int = 80) -> str:
    to = Console(file=io.StringIO(), width=width)
    to.print(inspect_report(found))
    return to.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_report() -> None:
    text = drawn(FOUND)
    folded = [line.split() for line in text.splitlines()]
    for part in (
        "url http://A.test",
        "redirected 301 http://a.test/ → http://a.test/b",
        "robots allowed",
        "decided by Allow: /b",
        "robots.txt http://a.test/robots.txt (200)",
        "crawl-delay 2.5 s",
        "outcome ok",
        "size 12.3 kB as sent, 54.3 kB decoded",
        "time 0.123 s",
        "cut length",
        "noindex the page asks not to be indexed",
        "links 24 followed, 6 scope",
        "and 10 more; --json has all",
    ):
        assert part.split() in folded
    assert "canonical" not in text
    assert "\x1b" not in text
    assert "Spiders [bold]" in text


def test_a_denied_page() -> None:
    robots = {"verdict": "denied", "line": "Disallow: /", "url": "http://a.test/robots.txt", "http_status": 200}
    found = {"url": "http://a.test/", "normalised": "http://a.test/", "robots": robots, "outcome": "denied"}
    text = drawn(found)
    assert "Disallow: /" in text
    assert "answer" not in text


def test_an_unreachable_robots_txt_and_a_trap() -> None:
    robots = {"verdict": "unreachable", "reason": "no answer", "url": "http://a.test/robots.txt", "http_status": 0}
    text = drawn({"url": "x", "robots": robots, "outcome": "robots_unreachable", "trap": "length"})
    assert "(no answer)" in text
    assert "length: links to it are not followed" in text
