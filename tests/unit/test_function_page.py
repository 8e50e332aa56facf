import pytest

from gossamer.functions.page import Page
from gossamer.functions.protocol import Setup, Task

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def page(body: str) -> Page:
    return Page(Task(1, "http://a.example/b/", 200, 1e9, 0, HTML, body.encode()), Setup())


def test_selectors() -> None:
    found = page("<h1> a <b>€</b></h1><ul><li class=x><a href=/1>one</a><li><a href=/2>two</a><a>three</a></ul>")
    assert found.css("h1").text() == "a €"
    assert found.css("li").css("a").texts() == ["one", "two", "three"]
    assert found.css("a").attrs("href") == ["/1", "/2"]
    assert (found.css("a").attr("href"), found.css("h2").attr("href"), found.css("h2").text("none")) == (
        "/1",
        None,
        "none",
    )
    assert [each.text() for each in found.css(".x a")] == ["one"]
    assert found.css("b").html() == "<b>€</b>"
    links = found.css("a")
    assert (links.text(), links.attr("href"), len(links), len(links.nodes), links[1].text()) == (
        "one",
        "/1",
        3,
        3,
        "two",
    )
    assert (bool(links), bool(found.css("h2")), found.css("h2").nodes) == (True, False, [])


@pytest.mark.parametrize("selector", ["h1::text", "a::attr(href)", "h1:", ""])
def test_what_is_no_selector_says_so(selector: str) -> None:
    """Scrapy's ::text is what people try first."""
    found = page("<h1>a</h1>")
    with pytest.raises(ValueError, match="this is no CSS selector") as error:
        found.css(selector)
    assert ("write css(...).text()" in str(error.value)) == ("::" in selector)
    with pytest.raises(ValueError, match="this is no CSS selector"):
        found.css("h1").css(selector)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("get", r"\.text\(\)"), ("getall", r"\.texts\(\)"), ("re", "re.findall"), ("other", "no .other")],
)
def test_methods_of_parsel_have_others_here(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        getattr(page("<h1>a</h1>").css("h1"), name)
