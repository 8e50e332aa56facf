"""Robots directives of pages: Nutch's and StormCrawler's cases, and those of the documented rules."""

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import parse_html

pytestmark = pytest.mark.usefixtures("tokeniser")


def test_every_directive() -> None:
    cases = case_files.load("meta_robots")["cases"]
    wrong = {}
    for case in cases:
        headers = [value for values in case["headers"].values() for value in values]
        agent = case.get("agent", "gossamer")
        page = parse_html(case_files.body_of(case, "html"), "http://page.example/", "", headers, agent)
        if (page.noindex, page.nofollow) != (case["noindex"], case["nofollow"]):
            wrong[case["id"]] = (page.noindex, page.nofollow)
    assert wrong == {}
    assert len(cases) == 33
