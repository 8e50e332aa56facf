"""URL conformance: the WHATWG's own cases, all of them. They have none with `^` in a path: `test_url.py` does."""

import case_files

from gossamer.web.url import normalise, resolve, whatwg


def test_every_reference_resolves_as_the_standard_says() -> None:
    cases = case_files.load("url_resolve_wpt")["cases"]
    wrong = {c["id"]: got for c in cases if (got := whatwg(c["input"], c["base"])) != c.get("href")}
    assert wrong == {}
    assert len(cases) == 500


def test_only_web_pages_are_crawlable() -> None:
    for case in case_files.load("url_resolve_wpt")["cases"]:
        base = case["base"]
        got = normalise(case["input"]) if base is None else resolve(case["input"], base)
        assert (got is not None) == bool(case.get("crawlable")), case["id"]


def test_the_normal_form_of_every_result_is_stable() -> None:
    for case in case_files.load("url_resolve_wpt")["cases"]:
        if case.get("crawlable"):
            form = normalise(case["href"])
            assert form is not None, case["id"]
            assert normalise(form) == form, case["id"]
            assert "#" not in form, case["id"]
