"""These tests compare refreshes of pages with the HTML standard: our cases, and Scrapy's, w3lib's and StormCrawler's
where they are."""

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


@pytest.mark.parametrize("suite", case_files.suites("meta_refresh"))
def test_every_refresh(suite: case_files.Suite) -> None:
    differs = set()
    for case in suite.cases:
        url = normalise(case["url"])
        assert url is not None
        content_type = f"text/html; charset={case.get('encoding') or 'utf-8'}"
        page = parse_html(case_files.body_of(case, "html"), url, content_type)
        target = normalise(case["target"]) if case["target"] else None
        if page.refresh != ((case["delay"], target) if target else None):
            differs.add(case["id"])
    assert differs == (set() if suite.is_ours else set(OTHER_POLICY))
