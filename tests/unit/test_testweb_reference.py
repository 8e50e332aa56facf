"""The reference site: as many pages as asked for, all within three links, the same for ever."""

import pytest

from gossamer.testweb.reference import ReferenceSite
from gossamer.web.html import parse_html


def reached(site: ReferenceSite, depth: int) -> set[str]:
    level = {f"http://{site.host}/"}
    seen = set(level)
    for _ in range(depth):
        below = set()
        for url in level:
            answer = site.response(site.host, url.removeprefix(f"http://{site.host}"), 0.0, {})
            assert answer.status == 200
            below |= set(parse_html(answer.body, url).links)
        level = below - seen
        seen |= level
    return seen


@pytest.mark.parametrize("pages", [1, 2, 11, 12, 800])
def test_all_pages_are_within_three_links(pages: int) -> None:
    assert len(reached(ReferenceSite(pages), 3)) == pages


def test_it_knows_its_own_pages_only() -> None:
    site = ReferenceSite(20, "example")
    assert site.knows("reference.example")
    assert site.response("other.example", "/", 0.0, {}).status == 421
    for path in ("/part/20", "/part/0", "/part/x", "/part/01", "/part/", "/robots.txt"):
        assert site.response(site.host, path, 0.0, {}).status == 404
    same = [site.response(site.host, "/part/3", t_s, {}).body for t_s in (0.0, 1e9)]
    assert same[0] == same[1]
    assert len(same[0]) > 10_000
