"""These tests hold robots.txt to RFC 9309: our cases, and those of google/robotstxt, crawler-commons, protego and
others where they are."""

from typing import Any

import case_files
import pytest

from gossamer.web.robots import Rules, verdict_of_status
from gossamer.web.url import resolve

# Contested cases in which we differ from the expectation of the suite they come from, and why.
CONTESTED = {
    "GoogleOnly_AcceptUserAgentUpToFirstSpace": "an agent called 'Foo Bar' has the product token 'Foo'",
    "ID_Encoding": "RFC 9309 2.2.2: both sides are compared after percent-encoding and -decoding",
    "GoogleOnly_LineTooLong": "we do not cut lines at 2,083 x 8 octets",
    "testNutchCases": "several names on one user-agent line are not RFC 9309: the first one counts",
    "testNutchCases2": "several names on one user-agent line are not RFC 9309: the first one counts",
    "testMultiAgentNames": "several names on one user-agent line are not RFC 9309: the first one counts",
    "testSpacesInMultipleUserAgentNames": "the same with commas",
    "testMatchingUserAgentNamesHttpHeader": "a whole user-agent header is not a product token",
    "testHtmlMarkupInRobotsTxt": "markup is not removed from lines",
    "testDirectiveTypos": "'useg-agent' is not among the misspellings that we know",
    "testBigCrawlDelay": "a long crawl-delay slows us down, it does not forbid",
}
# Cases about lines that RFC 9309 does not define, in which we differ.
DIRECTIVES = {
    "testHtmlMarkupInRobotsTxt": "markup is not removed from lines",
    "testSitemap": "a URL on a line of its own is not a sitemap line",
}


def _name(case: dict[str, Any]) -> str:
    return str(case["id"]).split("/")[-2 if case["id"].rsplit("/", 1)[-1].isdigit() else -1].split(".")[-1]


def _rules(case: dict[str, Any]) -> Rules:
    """Some suites give several names for one crawler: the first that the file addresses counts."""
    body = case_files.body_of(case, "robots")
    found = [Rules.parse(body, agent) for agent in case.get("agents") or [""]]
    return next((rules for rules in found if rules.group not in ("", "*")), found[0])


def _path(url: str) -> str:
    """Path and query as written: the suites test raw ones."""
    rest = url.partition("://")[2].partition("#")[0]
    return rest[rest.index("/") :] if "/" in rest else "/"


ALLOW = pytest.mark.parametrize("suite", case_files.suites("robots_allow"))
DIRECTIVE = pytest.mark.parametrize("suite", case_files.suites("robots_directives"))


def _misses(suite: case_files.Suite, level: str) -> list[str]:
    cases = [case for case in suite.cases if case["level"] == level]
    assert cases
    return [_name(case) for case in cases if _rules(case).allows(_path(case["url"])) is not case["allow"]]


@ALLOW
def test_must(suite: case_files.Suite) -> None:
    assert _misses(suite, "must") == []


@pytest.mark.parametrize("suite", [case_files.extra("robots_allow")])
def test_should(suite: case_files.Suite) -> None:
    assert _misses(suite, "should") == []


@pytest.mark.parametrize("suite", [case_files.extra("robots_allow")])
def test_contested_differences_are_known(suite: case_files.Suite) -> None:
    assert set(_misses(suite, "contested")) == set(CONTESTED)


@ALLOW
def test_the_deciding_line_agrees_with_the_answer(suite: case_files.Suite) -> None:
    for case in suite.cases:
        rules, path = _rules(case), _path(case["url"])
        allowed, line = rules.decide(path)
        assert allowed is rules.allows(path)
        assert allowed or line
        body = case_files.body_of(case, "robots")
        if line and body[:1] not in (b"\xff", b"\xfe"):
            assert line.encode("utf-8", "replace")[:10] in body


@DIRECTIVE
def test_crawl_delays(suite: case_files.Suite) -> None:
    timed = [case for case in suite.cases if "crawl_delay_s" in case]
    wrong = {_name(case) for case in timed if _rules(case).crawl_delay_s != case["crawl_delay_s"]}
    assert timed
    assert wrong <= (set() if suite.is_ours else set(DIRECTIVES))


@DIRECTIVE
def test_sitemaps(suite: case_files.Suite) -> None:
    cases = [case for case in suite.cases if "sitemaps" in case]
    wrong = set()
    for case in cases:
        # Some suites resolve relative ones, others leave it to the caller.
        base = "http://domain.com/robots.txt"
        found = [resolve(text, base) for text in _rules(case).sitemaps]
        if found != [resolve(text, base) for text in case["sitemaps"]]:
            wrong.add(_name(case))
    assert cases
    assert wrong <= (set() if suite.is_ours else set(DIRECTIVES))


@pytest.mark.parametrize("suite", case_files.suites("robots_fetch_status"))
@pytest.mark.parametrize(("expected", "defer"), [("allow_all", False), ("deny_all", True)])
def test_status_of_robots_txt(suite: case_files.Suite, expected: str, defer: bool) -> None:
    statuses = [case["http_status"] for case in suite.cases if case["defer"] is defer]
    assert statuses
    assert {verdict_of_status(status) for status in statuses} == {expected}
