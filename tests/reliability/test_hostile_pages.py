"""Pages and answers that once ended a whole crawl, or fooled it."""

import pytest

from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.crawl.reader import Reader
from gossamer.crawl.scope import Scope
from gossamer.fetch.client import Request, Response
from gossamer.fetch.outcome import without_excess
from gossamer.web.html import parse_html, text_of
from gossamer.web.url import host_of, normalise, page_key

HUGE = b"1" * 5_000


@pytest.mark.parametrize("markup", [b"<title>&#%s;</title>", b"<a href='?&#%s;'>x</a>", b"<p>&#%s;</p>"])
def test_character_references_with_thousands_of_digits(markup: bytes) -> None:
    body = markup % HUGE
    parse_html(body, "http://a.test/")
    assert "1" not in text_of(body)


def test_a_charset_that_only_decodes_by_hand() -> None:
    document = parse_html(b"<title>\x80</title><a href=/x>", "http://a.test/", "text/html; charset=x-user-defined")
    assert document.links == ["http://a.test/x"]


def test_a_chunk_larger_than_memory() -> None:
    body = b"fffffffffffffff\r\nabc"
    assert without_excess(body) == body


def test_chunks_without_end_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads more of them: looking for what follows the last would stop all other hosts for seconds."""
    monkeypatch.setattr("gossamer.fetch.outcome._MOST_CHUNKS", 3)
    few, many = (b"1\r\nx\r\n" * count + b"0\r\n\r\nexcess" for count in (2, 3))
    assert without_excess(few) == few.removesuffix(b"excess")
    assert without_excess(many) == many


@pytest.mark.parametrize("content", ["0" * 300_000, "1" * 300_000 + "x", "." * 300_000, "1;" + " " * 300_000 + "x"])
def test_a_refresh_of_endless_digits(content: str) -> None:
    """It once took time by the square of their number: a page of a megabyte held the crawl for ever."""
    body = f"<meta http-equiv=refresh content='{content}'><a href=/y>".encode()
    assert "http://a.test/y" in parse_html(body, "http://a.test/").links
    assert "http://a.test/y" in parse_html(b"<a href=/y>", "http://a.test/", refresh=content).links


def test_a_base_that_would_be_repeated_by_every_link() -> None:
    body = b"<base href='/" + b"a" * 10_000 + b"/'>" + b"<a href=x>"
    assert parse_html(body, "http://a.test/").links == ["http://a.test/x"]


def test_a_final_dot_makes_no_second_host() -> None:
    assert normalise("http://a.test./x./y.") == "http://a.test/x./y."
    assert normalise("http://a.test.:8080/") == "http://a.test:8080/"
    assert normalise("http://1.2.3.4/./") == "http://1.2.3.4/"
    for url in ("http://a.test./", "https://b.test.:444/?x=./"):
        once = normalise(url)
        assert once is not None
        assert normalise(once) == once
        assert not host_of(once).endswith(".")


def test_a_page_that_cannot_be_read_is_kept_and_the_crawl_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("gossamer.crawl.reader.parse_html", fail)
    url = "http://a.test/"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    response = Response(
        Request(page_key(url), url, "a.test"), Outcome.OK, http_status=200, head=head, body=b"<a href=/x>"
    )
    visit = Reader(Config(), Scope("any")).read(response)
    assert visit.outcome is Outcome.OK
    assert "too deep" in visit.reason
    assert len(visit.targets) == 0
