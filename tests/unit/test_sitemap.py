import gzip
import tracemalloc

import pytest

from gossamer.web.sitemap import LIMIT_URLS, Sitemap, is_sitemap, parse_sitemap

BASE = "https://example.com/sitemap.xml"
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'


def urlset(content: str | bytes) -> bytes:
    return HEAD + (content.encode() if isinstance(content, str) else content) + b"</urlset>"


def entries(count: int) -> bytes:
    return b"".join(
        b"<url><loc>https://example.com/p/%d?a=1&amp;b=2</loc><lastmod>2026-01-01</lastmod></url>\n" % n
        for n in range(count)
    )


def test_pages() -> None:
    found = parse_sitemap(urlset(entries(3)), BASE)
    assert found == Sitemap("urlset", [f"https://example.com/p/{n}?a=1&b=2" for n in range(3)], [], False)


def test_sitemaps_of_an_index() -> None:
    body = b"<sitemapindex><sitemap><loc>https://example.com/1.xml.gz</loc></sitemap></sitemapindex>"
    assert parse_sitemap(body, BASE) == Sitemap("index", [], ["https://example.com/1.xml.gz"], False)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com/a", "https://example.com/a"),
        ("\n\t https://example.com/a \n", "https://example.com/a"),
        ("\u00a0\ufeffhttps://example.com/a\u200b", "https://example.com/a"),
        ("HTTPS://EXAMPLE.com/a#x", "https://example.com/a"),
        ("<![CDATA[https://example.com/?a=1&b=2]]>", "https://example.com/?a=1&b=2"),
        ("https://example.com/?a=1&#38;b=2&#x26;c=3", "https://example.com/?a=1&b=2&c=3"),
        ("https://example.com/?a=1&copy=2", "https://example.com/?a=1&copy=2"),
        ("https://example.com/?a=&unknown;", "https://example.com/?a=&unknown;"),
        ("https://example.com/é", "https://example.com/%C3%A9"),
        ("/rooted", "https://example.com/rooted"),
        ("//other.example/x", "https://other.example/x"),
        ("www.example.com/x", "https://www.example.com/x"),
        ("<url>https://example.com/nested</url>", "https://example.com/nested"),
        ("https://example.com/a<!-- no -->b", "https://example.com/ab"),
        ("https://example.com/?&#99999999;", "https://example.com/?&"),
    ],
)
def test_texts_of_loc(text: str, url: str) -> None:
    assert parse_sitemap(urlset(f"<url><loc>{text}</loc></url>"), BASE).urls == [url]


@pytest.mark.parametrize(
    "text",
    ["", "  ", "page.html", "2026-01-01", "mailto:a@b.c", "javascript:x", "ftp://a/b", "http://", "&xxe;", "x" * 9999],
)
def test_texts_that_are_no_url_are_left_out(text: str) -> None:
    assert parse_sitemap(urlset(f"<url><loc>{text}</loc></url>"), BASE).urls == []


@pytest.mark.parametrize(
    "content",
    [
        "<!-- <url><loc>https://example.com/no</loc></url> --><url><loc>https://example.com/yes</loc></url>",
        "<url><image:image><image:loc>https://example.com/no</image:loc></image:image>"
        "<loc>https://example.com/yes</loc></url>",
        "<URL><LOC>https://example.com/yes</LOC></URL>",
        "<url ><loc\n a='b' >https://example.com/yes</loc ></url >",
        "<url>https://example.com/yes</url>",
        "<url><lastmod>x</lastmod><loc>https://example.com/yes</loc>",
        "<url><loc>https://example.com/yes</loc></url><url><loc>https://example.com/yes</loc></url>",
    ],
)
def test_leniently(content: str) -> None:
    assert parse_sitemap(urlset(content), BASE).urls == ["https://example.com/yes"]


def test_a_namespace_prefix() -> None:
    body = b"<s:urlset xmlns:s='x'><s:url><s:loc>https://example.com/1</s:loc></s:url><loc>https://a/</loc></s:urlset>"
    assert parse_sitemap(body, BASE) == Sitemap("urlset", ["https://example.com/1"])


def test_encodings() -> None:
    text = "<?xml version='1.0' encoding='{}'?><urlset><url><loc>https://example.com/é</loc></url></urlset>"
    expected = ["https://example.com/%C3%A9"]
    assert parse_sitemap(text.format("iso-8859-1").encode("latin-1"), BASE).urls == expected
    assert parse_sitemap(text.format("utf-16").encode("utf-16"), BASE).urls == expected
    assert parse_sitemap(text.format("utf-8").encode("utf-8-sig"), BASE).urls == expected
    assert parse_sitemap(text.format("rot13").encode(), BASE).urls == expected
    assert len(parse_sitemap(text.format("utf-8").encode("latin-1"), BASE).urls) == 1


def test_feeds() -> None:
    rss = (
        b"<rss><channel><link>https://example.com/no</link><item><link>https://example.com/1</link></item>"
        b"<item><guid>https://example.com/2</guid></item><item><title>none</title></item>"
        b"<image><link>https://example.com/no</link></image></channel></rss>"
    )
    assert parse_sitemap(rss, BASE) == Sitemap("rss", ["https://example.com/1", "https://example.com/2"])
    atom = (
        b"<a:feed xmlns:a='x'><a:link href='https://example.com/no'/><a:entry>"
        b"<a:link rel='self' href='https://example.com/no'/><a:link href=\"https://example.com/1?a&amp;b\" />"
        b"</a:entry><a:entry></a:entry></a:feed>"
    )
    assert parse_sitemap(atom, BASE) == Sitemap("atom", ["https://example.com/1?a&b"])
    assert parse_sitemap(b"<rss></rss>", BASE) == Sitemap("rss")


def test_lists() -> None:
    body = b"\xef\xbb\xbf\r\nhttps://example.com/1\r\n\r\nnot a url\rhttps://example.com/2"
    assert parse_sitemap(body, BASE) == Sitemap("text", ["https://example.com/1", "https://example.com/2"])
    cut = parse_sitemap(b"https://example.com/1\nhttps://example.com/23456", BASE, limit_bytes=40)
    assert cut == Sitemap("text", ["https://example.com/1"], [], True)


def test_gzip() -> None:
    body = urlset(entries(50))
    assert parse_sitemap(gzip.compress(body), BASE) == parse_sitemap(body, BASE)
    cut = parse_sitemap(gzip.compress(body)[:-100], BASE)
    assert cut.truncated
    assert cut.urls == parse_sitemap(body, BASE).urls[: len(cut.urls)]
    assert len(cut.urls) > 5


def test_a_file_cut_in_the_middle_gives_whole_urls_only() -> None:
    body = urlset(entries(20))
    whole = parse_sitemap(body, BASE).urls
    for cut in range(0, len(body), 7):
        found = parse_sitemap(body[:cut], BASE).urls
        assert found == whole[: len(found)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 100,
        b"this is no sitemap",
        b"<!doctype html><html><body>&lt;urlset&gt; <urlset><loc>https://example.com/</loc></urlset></body></html>",
        b"<html><head><title>Not found</title></head></html>",
        b"<?xml version='1.0'?><other><loc>https://example.com/</loc></other>",
        b"<!-- never closed <urlset><url><loc>https://example.com/1</loc></url></urlset>",
        b"\x1f\x8bgarbage",
        b"{}",
    ],
)
def test_other_files_give_nothing(body: bytes) -> None:
    found = parse_sitemap(body, BASE)
    assert (found.urls, found.sitemaps) == ([], [])
    assert not is_sitemap(body, "", BASE)


def test_warnings_before_the_root_element() -> None:
    body = b"<br />\n<b>Warning</b>: Cannot modify header\n" + urlset(entries(1))
    assert parse_sitemap(body, BASE).urls == ["https://example.com/p/0?a=1&b=2"]


def test_no_entity_is_expanded() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE urlset [<!ENTITY l0 "https://example.com/lol">{laughs}]>'.encode()
    body = bomb + urlset("<url><loc>&l9;</loc></url><url><loc>https://example.com/ok</loc></url>")
    assert parse_sitemap(body, BASE).urls == ["https://example.com/ok"]
    xxe = b"<!DOCTYPE urlset [<!ENTITY x SYSTEM 'file:///etc/hostname'>]>"
    assert parse_sitemap(xxe + urlset("<url><loc>https://example.com/&x;</loc></url>"), BASE).urls == [
        "https://example.com/&x;"
    ]


def test_limits() -> None:
    assert not parse_sitemap(urlset(entries(100)), BASE, limit_urls=100).truncated
    found = parse_sitemap(urlset(entries(101)), BASE, limit_urls=100)
    assert found.truncated
    assert len(found.urls) == 100
    body = urlset(entries(100))
    cut = parse_sitemap(body, BASE, limit_bytes=len(body) // 2)
    assert cut.truncated
    assert 40 < len(cut.urls) < 60
    empty = parse_sitemap(urlset(b"<loc>" * 400), BASE, limit_urls=10)
    assert empty.truncated


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = gzip.compress(HEAD + b"<url><loc>https://example.com/</loc></url>" + b" " * (64 << 20), 1)
    tracemalloc.start()
    try:
        found = parse_sitemap(bomb, BASE, limit_bytes=4 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == Sitemap("urlset", ["https://example.com/"], [], True)
    assert peak < 10 * (4 << 20)


EVIL = [b"<loc>", b"<loc", b"<!--", b"<![CDATA[", b"<!DOCTYPE", b"<!DOCTYPE[", b"<item>", b" ", b"<url ", b"<url><loc>"]
EVIL += [b"<link a='", b"<!", b"&#", b"<", b"<a:", b"<loc>    ", b"<!---->", b"<!>", b"<![CDATA[]]>", b"\n", b"<entry>"]


@pytest.mark.parametrize("root", [b"", b"<urlset>", b"<rss>", b"<feed>", b"http://a/\n"])
@pytest.mark.parametrize("evil", EVIL)
def test_repetitive_files_end(root: bytes, evil: bytes) -> None:
    """A quadratic step would take minutes here, and the time-out would tell."""
    found = parse_sitemap(root + evil * ((256 << 10) // len(evil)), BASE)
    assert len(found.urls) <= 1


def test_sniffing() -> None:
    text = b"https://example.com/1\nhttps://example.com/2\n"
    assert is_sitemap(urlset(b""), "text/xml", "https://example.com/anything")
    assert is_sitemap(gzip.compress(urlset(entries(9000))), "application/gzip", BASE)
    assert is_sitemap(b"<rss version='2.0'>", "application/rss+xml", "https://example.com/feed")
    assert is_sitemap(text, "text/plain; charset=utf-8", "https://example.com/sitemap.txt")
    assert not is_sitemap(text, "text/plain", "https://example.com/links.txt")
    assert not is_sitemap(text, "text/html", "https://example.com/sitemap.txt")
    assert LIMIT_URLS == 50_000
