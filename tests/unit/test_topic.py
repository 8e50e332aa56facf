"""What the reader makes of a topic: anchors out of the markup, and a relevance for each link."""

import gzip

import numpy as np
import pytest
from answers import HTML, answer, reader

from gossamer.columns import LINK, Outcome
from gossamer.config import Config
from gossamer.crawl.reader import Visit
from gossamer.errors import ConfigError
from gossamer.frontier.scoring import check_scores
from gossamer.frontier.strategies import ORDERS, strategy
from gossamer.web.html import parse_html
from gossamer.web.tree import ANCHOR_CHARS

URL = "http://a.test/dir/p"


def anchors(markup: str, content_type: str = "text/html; charset=utf-8") -> dict[str, str]:
    encoding = content_type.partition("charset=")[2]
    found = parse_html(markup.encode(encoding), URL, content_type, anchors=True)
    plain = parse_html(markup.encode(encoding), URL, content_type)
    assert (found.links, found.nofollow_links, found.title) == (plain.links, plain.nofollow_links, plain.title)
    assert plain.anchors == {}
    return {link.removeprefix("http://a.test"): text for link, text in found.anchors.items()}


def test_anchors_are_what_a_reader_clicks_on() -> None:
    assert anchors("<a href=x>Red <b>roses</b>\n &amp; soil</a>") == {"/dir/x": "Red roses & soil"}
    assert anchors("<a href=x><img src=i alt='a rose'></a><area href=y alt=map>") == {
        "/dir/x": "a rose",
        "/dir/y": "map",
    }
    assert anchors("<a href=x title=more>here</a><a href=x#s>and there</a>") == {"/dir/x": "here more and there"}
    assert anchors("<a href=x>one</a><a href=./x>longer one</a><a href=y></a>") == {"/dir/x": "longer one"}
    assert anchors("<base href=/b/><a rel=nofollow href=x>ad</a><iframe src=f></iframe>") == {"/b/x": "ad"}
    assert anchors("<a href=mailto:x@y.test>mail</a><a>none</a>") == {}
    assert anchors("<a href='?q=é'>été</a>", "text/html; charset=iso-8859-1") == {"/dir/p?q=%E9": "été"}
    assert len(anchors(f"<a href=x>{'long ' * 1000}</a>")["/dir/x"]) == ANCHOR_CHARS


@pytest.mark.parametrize("between", ["", "<object>", "words and words "])
def test_anchors_in_anchors_are_read_as_often_as_the_page_is_long(between: str) -> None:
    """Each holds all that follow: the texts together would be thousands of times as long as the page."""
    markup = "<svg>" * (not between) + "".join(f"<a href={i}>{between}" for i in range(5_000)) + "end " * 50_000
    assert sum(map(len, anchors(markup).values())) <= 2 * len(markup)


def read(body: str, *fields: str, topic: str = "roses", **more: object) -> Visit:
    return reader(crawl__order="relevance", crawl__topic=topic).read(
        answer(body.encode(), *(fields or (HTML,)), **more)
    )  # type: ignore[arg-type]


def relevance(visit: Visit) -> dict[str, float]:
    assert visit.relevance is not None
    return {url.removeprefix("http://a.test"): of for url, of in zip(visit.urls, visit.relevance.tolist(), strict=True)}


def test_links_have_the_relevance_of_anchor_url_and_page() -> None:
    links = "<a href=/1>roses</a><a href=/2>imprint</a><a href=/roses/3>x</a><a rel=nofollow href=/4>roses</a>"
    off = relevance(read(f"<title>cars</title>{links}<p>{'engine ' * 50}"))
    on = relevance(read(f"<title>All about roses</title>{links}"))
    assert list(off) == list(on) == ["/1", "/2", "/roses/3", "/4"]
    assert off["/1"] == off["/4"] == off["/roses/3"] == 1
    assert off["/2"] < 0.02 < on["/2"] < 0.5


def test_only_an_order_that_needs_it_pays_for_it() -> None:
    visit = reader(crawl__topic="roses").read(answer(b"<a href=/1>roses</a>", HTML))
    assert visit.relevance is None
    assert [name for name in ORDERS if ORDERS[name].needs_topic] == ["relevance"]


def test_sitemaps_redirects_and_pages_that_did_not_change() -> None:
    sitemap = "<urlset><url><loc>http://a.test/roses</loc></url><url><loc>http://a.test/x</loc></url></urlset>"
    found = read(sitemap, "Content-Type: application/xml", url="http://a.test/sitemap.xml")
    assert relevance(found) == {"/roses": 1, "/x": 0}
    moved = read("", outcome=Outcome.MOVED, status=301, location="http://a.test/roses")
    assert (len(moved.targets), moved.relevance) == (1, None)
    body = "<a href=/1>roses</a>"
    same = read(body, digest=read(body).digest)
    assert (same.outcome, len(same.targets), same.relevance) == (Outcome.UNCHANGED, 0, None)
    assert relevance(read(body)) == {"/1": 1}


def test_an_encoded_page_is_read_too() -> None:
    body = gzip.compress(b"<a href=/1>Ros\xe9s</a>")
    response = answer(body, "Content-Type: text/html; charset=iso-8859-1", "Content-Encoding: gzip")
    assert relevance(reader(crawl__order="relevance", crawl__topic="ROSÉS").read(response)) == {"/1": 1}


def test_a_topic_is_needed() -> None:
    for topic, reason in (("", "is not given"), ("and 42", "has no word that tells")):
        with pytest.raises(ConfigError, match=f'order "relevance" .* crawl.topic {reason}'):
            check_scores(strategy("relevance"), Config().replace({"crawl.topic": topic}))
    check_scores(strategy("relevance"), Config().replace({"crawl.topic": "the roses"}))
    check_scores(strategy("opic"), Config())


def test_weights_are_whole_and_grow_with_relevance() -> None:
    links = np.zeros(4, LINK.numpy)
    links["relevance"] = [0, 0.1, 0.5, 1]
    links["foreign"] = [0, 1, 0, 1]
    for name, weights in (
        ("relevance", [1, 10, 250, 1000]),
        ("opic-foreign", [1, 10, 1, 10]),
        ("trans-host", [1, 1000, 1, 1000]),
    ):
        weigh = ORDERS[name].link_weight
        assert weigh is not None
        assert weigh(links).dtype == np.int64
        assert weigh(links).tolist() == weights
