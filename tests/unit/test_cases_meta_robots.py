"""These tests compare robots directives of pages with the documented rules: our cases, and Nutch's and StormCrawler's
where they are."""

import case_files
import pytest
from tokenisers import tokeniser  # noqa: F401

from gossamer.web.html import parse_html

pytestmark = pytest.mark.usefixtures("tokeniser")


@pytest.mark.parametrize("suite", case_files.suites("meta_robots"))
def test_every_directive(suite: case_files.Suite) -> None:
    wrong = {}
    for case in suite.cases:
        headers = [value for values in case["headers"].values() for value in values]
        agent = case.get("agent", "gossamer")
        page = parse_html(case_files.body_of(case, "html"), "http://page.example/", "", headers, agent)
        if (page.noindex, page.nofollow) != (case["noindex"], case["nofollow"]):
            wrong[case["id"]] = (page.noindex, page.nofollow)
    assert wrong == {}
