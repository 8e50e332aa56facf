"""These tests compare base URLs with the HTML standard: our cases, and Scrapy's, w3lib's and Nutch's where they are."""

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import parse_html

pytestmark = pytest.mark.usefixtures("tokeniser")


@pytest.mark.parametrize("suite", case_files.suites("base_url"))
def test_every_base(suite: case_files.Suite) -> None:
    wrong = {}
    for case in suite.cases:
        url = case["url"] or "http://page.example/"  # some suites ask without a page's URL
        page = parse_html(case_files.body_of(case, "html"), url, "text/html; charset=utf-8")
        if page.base != (case["base"] or url):
            wrong[case["id"]] = page.base
    assert wrong == {}
