"""Meta refresh conformance: Scrapy's, w3lib's and StormCrawler's cases."""

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import parse_html
from gossamer.web.url import normalise

pytestmark = pytest.mark.usefixtures("tokeniser")

# Cases with another policy than ours, and ours.
OTHER_POLICY = {
    "w3lib/TestGetMetaRefresh::test_get_meta_refresh_unterminated_tag/9": (
        "a tag that the end of the page cuts is none (HTML standard): half a URL is worse than no URL"
    ),
    "w3lib/TestGetMetaRefresh::test_inside_noscript/31": "ignore_tags=[]: a refresh in noscript does not count",
    "w3lib/TestGetMetaRefresh::test_inside_script/33": "ignore_tags=[]: text of a script is not markup",
}


def test_every_refresh() -> None:
    cases = case_files.load("meta_refresh")["cases"]
    differs = set()
    for case in cases:
        url = normalise(case["url"])
        assert url is not None
        content_type = f"text/html; charset={case.get('encoding') or 'utf-8'}"
        page = parse_html(case_files.body_of(case, "html"), url, content_type)
        target = normalise(case["target"]) if case["target"] else None
        if page.refresh != ((case["delay"], target) if target else None):
            differs.add(case["id"])
    assert differs == set(OTHER_POLICY)
    assert len(cases) == 33
