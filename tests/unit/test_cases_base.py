"""Base URL conformance: Scrapy's, w3lib's and Nutch's cases."""

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import parse_html

pytestmark = pytest.mark.usefixtures("tokeniser")


def test_every_base() -> None:
    cases = case_files.load("base_url")["cases"]
    wrong = {}
    for case in cases:
        url = case["url"] or "http://page.example/"  # some suites ask without a page's URL
        page = parse_html(case_files.body_of(case, "html"), url, "text/html; charset=utf-8")
        if page.base != (case["base"] or url):
            wrong[case["id"]] = page.base
    assert wrong == {}
    assert len(cases) == 45
