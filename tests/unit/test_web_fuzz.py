"""Whatever bytes and texts come in, the pure functions of gossamer.web answer, within bounds, without an exception."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.config import Limits
from gossamer.web import charset, guard, http, robots, sitemap, url
from gossamer.web.html import parse_html, text_of

BASE = "https://www.example.co.uk:8443/dir/page.html?q=1"
LIMITS = Limits()
untimed = settings(deadline=None)  # a busy machine is no bug

# Pieces that parsers react to make deeper input than plain noise does.
HTML = [
    b"<a href=", b"<a href='/x' rel=nofollow>", b"</a>", b"<base href='//h/'>", b"<link rel=canonical href=y>",
    b'"', b"'", b">", b"<", b"<!--", b"-->", b"<script>", b"</script>", b"<meta name=robots content=none>",
    b"<meta charset=", b"=", b"<meta http-equiv=refresh content='0;url=z'>", b"<title>", b"</title>", b"&amp;",
    b"&#x", b";", b"\0", b"\xff", b"\xc3\xa9", b"<template>", b"<noscript>", b"<svg>", b"<![CDATA[",
    b"<iframe src=a>", b"<template shadowrootmode=open>", b"<iframe srcdoc='", b"&lt;a href=s>",
    b"http://a.b/", b"/../", b"#", b"utf-16", b"<area href=q>", b"\n", b" ",
]  # fmt: skip
ROBOTS = [
    b"User-agent:", b"*", b"gossamer", b"Allow:", b"Disallow:", b"Crawl-delay:", b"Sitemap:", b"/", b"$", b"#",
    b"%2a", b"%", b"%zz", b"a", b"\n", b"\r", b" ", b":", b"\0", b"\xff", b"\xef\xbb\xbf", b"9", b".", b"-",
    b"/index.html",
]  # fmt: skip
SITEMAPS = [
    b"<urlset>", b"<sitemapindex>", b"<rss>", b"<feed>", b"<rdf:RDF>", b"<url>", b"<loc>", b"</loc>", b"<item>",
    b"<link>", b"<link href='", b"<entry>", b"<guid>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE u [",
    b"]>", b"&amp;", b"&#x26;", b"&x;", b"https://a.b/", b"/c", b"\n", b"<?xml encoding='utf-7'?>", b"\xff\xfe",
    b"\x1f\x8b", b"x:", b"<", b">",
]  # fmt: skip
HEADS = [
    b"HTTP/1.1 200 OK\r\n", b"Content-Type:", b"text/html", b";charset=", b'"', b"\\", b",",
    b"Content-Encoding:", b"gzip", b"br", b"deflate", b"zstd", b"Transfer-Encoding:", b"chunked",
    b"Content-Length:", b"5", b"Location:", b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\xe9", b"x",
]  # fmt: skip
BODIES = [
    b"5\r\n", b"\r\n", b"0\r\n\r\n", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\x78\x9c", b"\x28\xb5\x2f\xfd",
    b"\x4b\x4c\x44\0", b"abcde", b"\xff", b"\0\0\0\0", b";", b"<html>", b"\x50\x2a\x4d\x18",
]  # fmt: skip
URLS = [
    "http:", "https:", "//", "/", "\\", "?", "#", "@", ":", "80", "99999", "[", "]", "::1", "127.1", "0x7f",
    ".", "..", "%2e", "%", "%41", "é", "ａ", "xn--", "xn--a", "example.com", "com", "co.uk", ";jsessionid=1",
    "PHPSESSID=a", "sid=", "0123456789abcdef" * 2, "&", "(S(", "))", " ", "\t", "\n", "\0", "javascript:",
    "\ud800", "*", "~", "|", "a", "^",
]  # fmt: skip


def mix(pieces: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces) | st.binary(max_size=3), max_size=25).map(b"".join)


urls = st.lists(st.sampled_from(URLS) | st.characters(), max_size=12).map("".join)
web_urls = urls.map(lambda rest: url.normalise("https://example.com/" + rest)).filter(lambda found: found is not None)


@untimed
@given(urls)
def test_normalising_twice_changes_nothing(text: str) -> None:
    found = url.normalise(text)
    if found is not None:
        assert url.normalise(found) == found
        assert found.isascii()
        assert found.startswith(("http://", "https://"))
        assert "#" not in found


@untimed
@given(urls)
def test_what_resolves_is_in_normal_form(text: str) -> None:
    found = url.resolve(text, BASE)
    if found is not None:
        assert url.normalise(found) == found
        assert len(found) <= 3 * len(text.encode("utf-8", "replace")) + len(BASE) + 200


@untimed
@given(st.lists(urls, max_size=6))
def test_many_references_resolve_as_one_by_one(texts: list[str]) -> None:
    single = dict.fromkeys(url.resolve(text, BASE) for text in texts)
    single.pop(None, None)
    assert url.resolve_all(texts, BASE) == list(single)


@untimed
@given(web_urls)
def test_a_normal_form_can_be_taken_apart(found: str) -> None:
    assert url.origin_of(found) + url.path_of(found) == found
    assert url.host_of(found)
    assert url.domain_of(url.host_of(found))
    assert url.trap(found, LIMITS) in ("", "length", "trap", "port")
    assert url.is_dynamic(found) is ("?" in found)
    key = url.page_key(found)
    assert 0 < key < 1 << 64
    assert key >> 40 == url.host_key(url.host_of(found)) or key == 1
    assert url.page_keys([found]).tolist() == [key]
    assert url.page_keys([]).dtype == np.uint64


@untimed
@given(mix(HTML), st.sampled_from(["", "text/html;charset=gbk", "text/html; charset=utf-16", "\0"]))
def test_pages(body: bytes, content_type: str) -> None:
    found = parse_html(body, BASE, content_type, ["gossamer: nofollow", ":"], max_links=5)
    assert len(found.links) + len(found.nofollow_links) <= 5 + 1  # a refresh target may be added
    for link in found.links + found.nofollow_links:
        assert url.normalise(link) == link
    assert found.canonical == "" or url.normalise(found.canonical) == found.canonical
    assert isinstance(text_of(body, content_type), str)


@untimed
@given(mix(HTML), st.text(max_size=20))
def test_charsets(body: bytes, content_type: str) -> None:
    for declared in (charset.declared_charset(body), charset.declared_charset(body, content_type)):
        assert declared == declared.lower()
        assert len(charset.decode(body, declared)) <= 3 * len(body)


@untimed
@given(mix(ROBOTS), st.sampled_from(["gossamer", "", "*", "Gossamer/1.0", "é"]), urls)
def test_robots(body: bytes, agent: str, path: str) -> None:
    rules = robots.Rules.parse(body, agent)
    allowed, line = rules.decide("/" + path)
    assert allowed is rules.allows("/" + path)
    assert len(line) <= len(body)
    assert rules.crawl_delay_s is None or 0 <= rules.crawl_delay_s <= 1e9
    assert len(rules.sitemaps) <= len(body)
    assert rules.size_bytes >= 500
    assert rules.allows("/robots.txt")


@untimed
@given(mix(ROBOTS))
def test_robots_as_utf_16_means_the_same(body: bytes) -> None:
    text = body.replace(b"\0", b"").removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    plain = robots.Rules.parse(text.encode(), "gossamer")
    wide = robots.Rules.parse(b"\xff\xfe" + text.encode("utf-16-le"), "gossamer")
    for path in ("/", "/a", "/a/9", "/index.html"):
        assert plain.decide(path) == wide.decide(path)
    assert (plain.sitemaps, plain.crawl_delay_s, plain.group) == (wide.sitemaps, wide.crawl_delay_s, wide.group)


@untimed
@given(mix(SITEMAPS), st.integers(1, 4))
def test_sitemaps(body: bytes, limit: int) -> None:
    found = sitemap.parse_sitemap(body, BASE, limit_bytes=500, limit_urls=limit)
    assert found.kind in ("", "urlset", "index", "rss", "atom", "text")
    assert len(found.urls) + len(found.sitemaps) <= limit
    for target in found.urls + found.sitemaps:
        assert url.normalise(target) == target
    assert isinstance(sitemap.is_sitemap(body, "text/xml", BASE), bool)


@untimed
@given(mix(HEADS), mix(BODIES), st.integers(0, 40))
def test_answers(head: bytes, wire: bytes, limit: int) -> None:
    headers = http.Headers(head)
    for name, value in headers:
        assert name == name.lower()
        assert value == value.strip(" \t")
        assert not set(value) & set("\r\n\0")
    essence, full = http.content_type(headers)
    assert full.startswith(essence)
    length, _ = http.content_length(headers)
    assert length is None or 0 <= length < 1 << 63
    target = http.location(headers)
    assert target is None or (target.isascii() and target)
    assert http.status_code(head) in (None, 200)
    body, reason = http.decode_body(wire, headers, limit)
    assert len(body) <= limit
    assert reason in ("", "length", "disconnect", "corrupt", "coding")


@untimed
@given(mix(BODIES))
def test_dechunking_never_adds(wire: bytes) -> None:
    content, _ = http.dechunk(wire)
    assert len(content) <= len(wire)


@untimed
@given(st.text(max_size=40), st.floats(0, 4e9))
def test_retry_after(value: str, now: float) -> None:
    seconds = http.retry_after_s(value, now)
    assert seconds is None or seconds >= 0


@untimed
@given(st.text(max_size=20) | st.ip_addresses().map(str), st.integers())
def test_guard(address: str, port: int) -> None:
    assert isinstance(guard.refusal(address), str)
    assert isinstance(guard.port_refusal(port), str)


@pytest.mark.parametrize("size", [0, 1, 4095, 70_000])
def test_noise(size: int) -> None:
    noise = np.random.default_rng(size).bytes(size)
    parse_html(noise, BASE)
    text_of(noise)
    robots.Rules.parse(noise, "gossamer").allows("/")
    assert sitemap.parse_sitemap(noise, BASE).urls == []
    headers = http.Headers(noise)
    for coding in ("gzip", "br", "deflate", "zstd"):
        labelled = http.Headers(b"Content-Encoding: " + coding.encode())
        assert len(http.decode_body(noise, labelled, 1000)[0]) <= 1000
    http.decode_body(noise, headers, 1000)
