"""Patterns on URLs: only * is special, and the whole URL counts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.crawl.scope import Patterns


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("*", "http://a.test/", True),
        ("*/blog/*", "http://a.test/blog/1", True),
        ("*/blog/*", "http://a.test/blog", False),
        ("*.pdf", "http://a.test/x.pdf", True),
        ("*.pdf", "http://a.test/x.pdf?y", False),
        ("*.pdf", "http://a.test/xpdf", False),
        ("http://a.test/", "http://a.test/", True),
        ("http://a.test/", "http://a.test/x", False),
        ("http://a.test/*/c*", "http://a.test/b/cd", True),
        ("http://a.test/?p=[1]", "http://a.test/?p=[1]", True),
        ("http://a.test/?p=[1]", "http://a.test/xp=1", False),
        ("*a*a*", "http://b.test/a", False),
        ("*/x/*/x/*", "http://a.test/x/x/x/", True),
    ],
)
def test_a_pattern(pattern: str, url: str, matches: bool) -> None:
    assert Patterns([pattern]).admit(url) is matches
    assert Patterns([], [pattern]).admit(url) is not matches


def test_one_of_those_to_include_and_none_of_those_to_exclude() -> None:
    both = Patterns(["*/a*", "*/b*"], ["*.pdf", "*.zip"])
    urls = ["http://x/a", "http://x/b", "http://x/c", "http://x/a.pdf", "http://x/b.zip"]
    assert [both.admit(url) for url in urls] == [True, True, False, False, False]
    assert all(map(Patterns().admit, urls))


TEXT = st.text("ab*", max_size=8)


@given(TEXT, st.text("ab", max_size=12))
def test_stars_stand_for_any_text(pattern: str, url: str) -> None:
    simple = ".*".join(map(re.escape, pattern.split("*")))
    assert Patterns([pattern]).admit(url) is (re.fullmatch(simple, url) is not None)


def test_many_stars_take_no_time() -> None:
    assert not Patterns(["*a" * 30 + "*b"]).admit("a" * 5_000)
