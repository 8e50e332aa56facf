"""These tests compare URLs with the WHATWG standard: our cases, and all of the Web Platform Tests' where they are.

Theirs have none with `^` in a path: `test_url.py` does.
"""

import case_files
import pytest

from gossamer.web.url import normalise, resolve, whatwg

pytestmark = pytest.mark.parametrize("suite", case_files.suites("url_resolve"))


def test_every_reference_resolves_as_the_standard_says(suite: case_files.Suite) -> None:
    wrong = {c["id"]: got for c in suite.cases if (got := whatwg(c["input"], c["base"])) != c.get("href")}
    assert wrong == {}


def test_only_web_pages_are_crawlable(suite: case_files.Suite) -> None:
    for case in suite.cases:
        base = case["base"]
        got = normalise(case["input"]) if base is None else resolve(case["input"], base)
        assert (got is not None) == bool(case.get("crawlable")), case["id"]


def test_the_normal_form_of_every_result_is_stable(suite: case_files.Suite) -> None:
    for case in suite.cases:
        if case.get("crawlable"):
            form = normalise(case["href"])
            assert form is not None, case["id"]
            assert normalise(form) == form, case["id"]
            assert "#" not in form, case["id"]
