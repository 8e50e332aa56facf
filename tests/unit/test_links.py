"""Links as columns: the compiled way from references to normal forms, keys and traps, against the way through texts."""

import json
from collections.abc import Sequence
from importlib.util import find_spec

import pytest
from reliability import fuzz_links

from gossamer.config import Limits
from gossamer.web import html
from gossamer.web.links import Links, Listed
from gossamer.web.url import TRAPS, resolve

HAS_COLUMNS = find_spec("gossamer.web._links") is not None
compiled = pytest.mark.skipif(not HAS_COLUMNS, reason="gossamer.web._links is not built")
URL = "http://a.test/d/e/p.html?q=1"


def page(references: Sequence[str]) -> bytes:
    quoted = (text.replace("&", "&amp;").replace('"', "&quot;") for text in references)
    return "".join(f'<a href="{text}">' for text in quoted).encode("utf-8", "replace")


def targets(*references: str, url: str = URL) -> Links:
    return html.parse_html(page(references), url, "text/html; charset=utf-8").targets


def resolved(reference: str) -> tuple[list[str], list[str]]:
    """Returns what the compiled way asks of the other, which knows no answer, and the links it finds itself."""
    asked: list[str] = []
    hrefs = html._scanned(page([reference]), "utf-8", "g", 9).hrefs
    return asked, list(hrefs.resolved(URL, False, asked.append))


@compiled
def test_mutated_pages_have_the_same_links_both_ways() -> None:
    assert list(fuzz_links.fuzz(seed=18, first=0, count=1_500)) == []


@compiled
def test_the_cases_of_the_url_standard(request: pytest.FixtureRequest) -> None:
    cases = json.loads((request.config.rootpath / "tests/cases/url_resolve.json").read_text("utf-8"))["cases"]
    for case in cases:
        reference = case["input"].partition("#")[0].strip("".join(map(chr, range(33))))
        base = case.get("base") or URL
        expected = resolve(reference, base)
        if reference and "\0" not in reference and base.startswith("http"):
            assert list(targets(reference, url=base)) == ([] if expected is None else [expected]), case["id"]


@compiled
@pytest.mark.parametrize(
    ("reference", "link"),
    [
        ("x", "http://a.test/d/e/x"),
        ("x/y.html?a=b&c=d", "http://a.test/d/e/x/y.html?a=b&c=d"),
        ("?b", "http://a.test/d/e/p.html?b"),
        ("/", "http://a.test/"),
        ("/x//y", "http://a.test/x//y"),
        ("..", "http://a.test/d/"),
        ("../../../../x", "http://a.test/x"),
        ("./x/./y/../z", "http://a.test/d/e/x/z"),
        ("x//../y", "http://a.test/d/e/x/y"),
        ("x%20y%2", "http://a.test/d/e/x%20y%2"),
        ("//b.test", "http://b.test/"),
        ("https://b.test?x", "https://b.test/?x"),
        ("http://b.test:8080/x:y", "http://b.test:8080/x:y"),
        ("http://1st.b-c_d.test/a(b)", "http://1st.b-c_d.test/a(b)"),
    ],
)
def test_plain_references_do_not_need_the_url_library(reference: str, link: str) -> None:
    asked, found = resolved(reference)
    assert (asked, found) == ([], [link])
    assert resolve(reference, URL) == link


@compiled
@pytest.mark.parametrize(
    "reference",
    ["http://b.test./", "http://B.test/", "http://u@b.test/", "http://1.2.3.4", "http://b.test:80/", "http://b.test:08/",
     "http://b..test/", "http://xn--a.test/", "%2e%2e/x", "x;jsessionid=1", "(S(abcdefghijklmnopqrstuvwx))/x", "?SID=1",
     "1:b", "x y", "x\\y", "x^y", "é", "?'", "http:x", "///b.test/", "http://b.test:65536/", "http://b.0x1/"],
)  # fmt: skip
def test_all_others_do(reference: str) -> None:
    assert resolved(reference) == ([reference], [])


@compiled
def test_links_are_distinct_and_marked_ones_come_last() -> None:
    markup = b"<a rel=nofollow href=m><a href=./x><a href=x><a href=/d/e/x#y><a rel=nofollow href=x><a href=z>"
    found = html.parse_html(markup, URL).targets
    assert [link.removeprefix("http://a.test/d/e/") for link in found] == ["x", "z", "m"]
    assert (len(found), found.followed, found[2]) == (3, 2, "http://a.test/d/e/m")
    with pytest.raises(IndexError):
        found[3]
    with pytest.raises(IndexError):
        found[-1]


def both(links: list[str]) -> list[Links]:
    listed: Links = Listed(links)
    return [listed, targets(*links)] if HAS_COLUMNS else [listed]


def test_traps() -> None:
    paths = ["/x", ":25/", "/a/a/a/a", "/" + "b/" * 40, "/" + "l" * 3_000, ":25/" + "l" * 3_000, "/a/a/b?/a/a/a/a"]
    links = [f"http://a.test{path}" for path in paths]
    for found in both(links):
        names = [TRAPS[trap] for trap in found.traps(Limits())]
        assert names == ["", "port", "trap", "trap", "length", "length", ""]
        wide = [TRAPS[trap] for trap in found.traps(Limits(path_segments=100, path_repeats=39))]
        assert wide == ["", "port", "", "", "length", "length", ""]


def test_only_new_texts_are_entered() -> None:
    links = ["http://a.test/x", "http://b.test/", "http://a.test/yy"]
    for found in both(links):
        keys = found.keys()
        texts = {int(keys[1]): "as it was"}
        assert found.enter(texts, keys) == (2, len(links[0]) + len(links[2]))
        assert texts == {int(keys[1]): "as it was", int(keys[0]): links[0], int(keys[2]): links[2]}
        assert found.chars == sum(map(len, links))


@compiled
def test_as_many_links_and_hosts_as_a_page_may_have() -> None:
    links = [f"http://h{i}.test/{i}" for i in range(20_000)]
    found = html.parse_html(page([*links, *links]), URL, max_links=15_000).targets
    assert list(found) == links[:15_000]
    assert found.origins == [link[: link.rindex("/")] for link in links[:15_000]]
    assert found.keys().tolist() == Listed(links[:15_000]).keys().tolist()


@compiled
def test_a_base_and_references_of_megabytes() -> None:
    long = "x" * 3_000
    base = f"http://a.test/{long}/p"
    found = html.parse_html(page([f"{i}{long}" for i in range(1_000)] + ["y" * 2_000_000]), base).targets
    assert len(found) == 1_000
    assert found[999] == f"http://a.test/{long}/999{long}"
    assert html.parse_html(page([]), URL).targets.keys().tolist() == []


@compiled
@pytest.mark.parametrize(
    "reference", ["../x", "..", "../../x", "y/../../x", "b:/../x", "./Z:/./../x", "./ab:/../x", "../c:/../../x"]
)
def test_what_looks_like_a_drive_of_windows_is_the_same_both_ways(reference: str) -> None:
    for url in ("http://a.test/d/a:/", "https://a.test/d/a:/p?q", "http://a.test/a:/", "http://a.test/a:b/1:/x"):
        expected = resolve(reference, url)
        assert list(targets(reference, url=url)) == ([] if expected is None else [expected])
