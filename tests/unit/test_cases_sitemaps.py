"""These tests read sitemaps leniently: our cases, the files of crawler-commons where they are, and generated bombs and
loops."""

import gzip
from typing import Any

import case_files
import pytest

from gossamer.web.sitemap import LIMIT_BYTES, LIMIT_URLS, is_sitemap, parse_sitemap

BASE = "https://example.com/sitemap.xml"
ENTRY = b"<url><loc>https://example.com/some/page/%08d</loc></url>\n"


def _expected(case: dict[str, Any], urls: list[str]) -> list[str]:
    """A strict upstream drops what lies outside the sitemap's directory; that is the caller's decision with us."""
    if case["options"]["strict"] and case["kind"] == "urlset":
        return [url for url in urls if url.startswith(case["url"][: case["url"].rindex("/") + 1])]
    return urls


@pytest.mark.parametrize("suite", case_files.suites("sitemaps"))
def test_files(suite: case_files.Suite) -> None:
    for case in suite.cases:
        body = suite.file(case)
        found = parse_sitemap(body, case["url"])
        if case["error"] is None:
            assert found.kind == case["kind"], case["id"]
            assert _expected(case, found.urls) + found.sitemaps == case["urls"], case["id"]
            assert len(case["urls"]) == case["count"]
        elif found.kind:
            # Refused upstream for its form (broken XML, a strict namespace); we read what is there.
            assert found.kind == "urlset", case["id"]
            assert found.urls, case["id"]


@pytest.mark.parametrize("suite", case_files.suites("sitemaps"))
def test_what_is_accepted_is_recognised(suite: case_files.Suite) -> None:
    for case in suite.cases:
        if case["kind"] and case["content_type"] != "application/bogus":
            assert is_sitemap(suite.file(case), case["content_type"] or "", case["url"]), case["id"]


@pytest.mark.parametrize("suite", [case_files.extra("sitemaps")])
def test_every_generated_case_has_a_test(suite: case_files.Suite) -> None:
    ids = {case["id"].removeprefix("own/") for case in suite.meta["generated"]}
    tested = {"50000", "50001", "60MB", "gzip-bomb", "index-loop", "index-depth", "billion-laughs", "xxe"}
    assert ids == tested | {"truncated", "cross-host", "html-200"}


def test_50000_and_50001() -> None:
    body = b"<urlset>" + b"".join(ENTRY % n for n in range(LIMIT_URLS))
    found = parse_sitemap(body + b"</urlset>", BASE)
    assert (len(found.urls), found.truncated) == (50_000, False)
    found = parse_sitemap(body + ENTRY % 99_999_999 + b"</urlset>", BASE)
    assert (len(found.urls), found.truncated) == (50_000, True)


def test_60_megabytes_stop_at_the_limit() -> None:
    entry = b"<url><loc>https://example.com/%08d</loc><x>" + b"-" * 4000 + b"</x></url>\n"
    body = b"<urlset>" + b"".join(entry % n for n in range(62_914_560 // len(entry % 0)))
    found = parse_sitemap(body, BASE)
    assert found.truncated
    assert len(found.urls) == (LIMIT_BYTES - len(b"<urlset>")) // len(entry % 0) + 1


def test_gzip_bomb() -> None:
    bomb = gzip.compress(b"<urlset>" + ENTRY % 1 + bytes(64 << 20), 1)
    found = parse_sitemap(bomb, BASE)
    assert (found.urls, found.truncated) == (["https://example.com/some/page/00000001"], True)


def test_indexes_that_name_themselves_or_each_other_are_lists_of_distinct_urls() -> None:
    """Fetching each only once is what the pages' identity is for: an index gives URLs, nothing is followed here."""
    entry = f"<sitemap><loc>{BASE}</loc></sitemap>"
    found = parse_sitemap(f"<sitemapindex>{entry * 1000}</sitemapindex>".encode(), BASE)
    assert (found.kind, found.urls, found.sitemaps) == ("index", [], [BASE])
    nested = "<sitemapindex>" * 5 + entry + "</sitemapindex>" * 5
    assert parse_sitemap(nested.encode(), BASE).sitemaps == [BASE]


def test_billion_laughs_and_external_entities() -> None:
    lines = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 20))
    doctype = f'<!DOCTYPE u [<!ENTITY a0 "x">{lines}<!ENTITY f SYSTEM "file:///etc/hostname">]>'
    body = doctype + "<urlset><url><loc>&a19;</loc></url><url><loc>&f;</loc></url></urlset>"
    found = parse_sitemap(body.encode(), BASE)
    assert (found.kind, found.urls) == ("urlset", [])


def test_truncated() -> None:
    body = b"<urlset>" + b"".join(ENTRY % n for n in range(1000)) + b"</urlset>"
    urls = parse_sitemap(body[: len(body) // 2], BASE).urls
    assert len(urls) == 500 or len(urls) == 499
    assert urls == parse_sitemap(body, BASE).urls[: len(urls)]


def test_urls_of_other_hosts_are_told_as_they_are() -> None:
    """Whether a host may speak for another depends on the other's robots.txt, which only the caller knows."""
    body = b"<urlset><url><loc>https://other.example/1</loc></url><url><loc>https://example.com/2</loc></url></urlset>"
    assert parse_sitemap(body, BASE).urls == ["https://other.example/1", "https://example.com/2"]


def test_html_instead() -> None:
    body = b"<!DOCTYPE html>\n<html><head><title>Oops</title></head><body><a href='/x'>x</a></body></html>"
    found = parse_sitemap(body, BASE)
    assert (found.kind, found.urls, found.sitemaps) == ("", [], [])
