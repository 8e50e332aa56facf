"""These tests compare links of pages with the standards: our cases, and Scrapy's, Nutch's and StormCrawler's where
they are.

Fragments are cut and duplicates dropped on both sides: a page is its URL without fragment. Where an option only
selects among a page's links, ours must contain the selection; where it widens what a link is, we say why we differ.
"""

from typing import Any

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import Document, parse_html
from gossamer.web.url import normalise

pytestmark = pytest.mark.usefixtures("tokeniser")

# Options that leave links out. We have no such options here: scope and limits decide later. (Two of these cases,
# test_link_extractor_aggregation/51 and /53, also canonicalize: they keep one of ?a=1&b=2 and ?b=2&a=1, we both.)
SELECTIONS = frozenset((
    "allow", "deny", "allow_domains", "deny_domains", "deny_extensions", "restrict_css", "restrict_text",
    "restrict_xpaths", "unique",
))  # fmt: skip

# Cases with another policy than ours: part of the id, and our policy.
OTHER_POLICY = {
    "test_ignored_extensions/25": "a link is followed whatever its extension; the content type decides later",
    "test_process_value/27": "javascript: URLs are not searched for paths",
    "test_attrs/30": "images are no links",
    "test_attrs/31": "attrs=None: Scrapy looks nowhere",
    "test_tags/32": "tags=None: Scrapy looks nowhere",
    "test_tags/36": "images are no links",
    "test_tags_attrs/37": "data-url is no link",
    "test_tags_attrs/38": "data-url is no link",
    "test_tags_attrs_wildcard_and_deny/40": "href of a span is no link",
    "test_tags_attrs_wildcard_and_deny/41": "data-url is no link",
    "test_tags_attrs_wildcard_and_deny/42": "data-url is no link",
    "test_tags_attrs_wildcard_and_deny/43": "href of a span is no link",
    "test_canonicalize_once_per_link/54": "canonicalize sorts the query, which may change its meaning",
    "TestDOMContentUtils[5]/64": "images are no links, and #bottom leads to the page itself",
    "TestDOMContentUtils[9]/68": "forms are never submitted",
    "TestDOMContentUtils[13]/72": "images are no links",
    "TestDOMContentUtils[14]/73": "media are no links",
    "testNoFollowOutlinks/75": "the feed that a link element names (alternate) is a link too: 26, not 25",
}


def parsed(case: dict[str, Any]) -> Document:
    encoding = case.get("encoding") or "utf-8"
    body = case_files.body_of(case, "html") if "html_b64" in case else case["html"].encode(encoding)
    return parse_html(body, normalise(case["url"]) or "", f"text/html; charset={encoding}")


def agrees(case: dict[str, Any]) -> bool:
    page = parsed(case)
    options = case.get("options") or {}
    if case["mode"] == "no_crash":
        return True
    if case["mode"] == "count":
        return len(page.links) == (case["expect"] or 1)  # "distinct" without a number: one
    if "links" in case and options.get("rel_nofollow") != "drop":
        marked = [link["url"] for link in case["links"] if link.get("nofollow")]
        if page.nofollow_links != distinct(marked):
            return False
        expected = distinct([link["url"] for link in case["links"] if not link.get("nofollow")])
    else:
        expected = distinct(case["expect"])
    if SELECTIONS & options.keys() or options.get("tags") in ("a", "area"):
        return [link for link in page.links if link in expected] == expected
    return page.links == expected


def distinct(urls: list[str]) -> list[str]:
    """As we would write them; what is not on the web (ftp:) is left out."""
    forms = dict.fromkeys(normalise(url) for url in urls)
    return [form for form in forms if form is not None]


@pytest.mark.parametrize("suite", case_files.suites("link_extraction"))
def test_every_page(suite: case_files.Suite) -> None:
    differ = {case["id"] for case in suite.cases if not agrees(case)}
    explained = {case["id"] for case in suite.cases if case["id"].endswith(tuple(OTHER_POLICY))}
    assert differ == explained
    assert len(explained) == (0 if suite.is_ours else len(OTHER_POLICY))
