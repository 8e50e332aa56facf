"""A focused crawl: what `--order relevance` brings first, against orders that do not know the topic."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import complaint
from crawls import crawl, visited
from test_crawl import missing_cash

from gossamer.frontier.relevance import Topic
from gossamer.frontier.strategies import ORDERS
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.words import COMMON, TOPIC_WORDS, TOPICS

PAGES, FIRST = 600, 150
GARDENING, CHESS = (TOPIC_WORDS["en"][TOPICS.index(name)].split() for name in ("gardening", "chess"))
TOPIC = f"the {' '.join(GARDENING)}"
STRICT = {"polite.connections": 1, "crawl.width": 10, "crawl.pages": FIRST}


def is_wanted(number: int) -> bool:
    return number % 2 == 0


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWeb]:
    """Two topics, half of the pages each. URLs tell nothing; a page links to its own topic hardly more often."""
    root = tmp_path_factory.mktemp("two-topics")
    draw = random.Random(3)
    common = COMMON["en"].split()
    names = [" ".join(draw.sample(GARDENING if is_wanted(page) else CHESS, 2)) for page in range(PAGES)]
    for page in range(PAGES):
        own = GARDENING if is_wanted(page) else CHESS
        text = " ".join(draw.choice(common if draw.random() < 0.8 else own) for _ in range(200))
        near = [number for number in range(PAGES) if is_wanted(number) == is_wanted(page)]
        links = draw.sample(near, 3) + draw.sample(range(PAGES), 7)
        anchors = "".join(f"<li><a href=p{to}.html>{draw.choice(common)} {names[to]}</a>" for to in links)
        body = f"<title>{names[page]}</title><p>{text}<ul>{anchors}</ul><a href=p{page // 2}.html>up</a>"
        (root / f"p{page}.html").write_text(body)
    (root / "index.html").write_text("<a href=p0.html>garden</a><a href=p1.html>chess</a>")
    with RunningWeb(roots={"two.test": root}) as running:
        yield running


def on_topic(web: RunningWeb, directory: Path, order: str) -> float:
    found = crawl(web, directory, {**STRICT, "crawl.order": order, "crawl.topic": TOPIC})
    pages = [int(url.rpartition("/p")[2].removesuffix(".html")) for url in visited(found)[1:]]
    assert len(pages) == FIRST - 1
    assert missing_cash(directory) == 0
    return sum(map(is_wanted, pages)) / len(pages)


def test_relevance_stays_on_the_topic(web: RunningWeb, tmp_path: Path) -> None:
    part = {order: on_topic(web, tmp_path / order, order) for order in ("relevance", "opic", "breadth-first")}
    assert part["relevance"] > 0.9
    assert max(part["opic"], part["breadth-first"]) < 0.7


def test_the_lab_foretells_a_focused_crawl(web: RunningWeb, tmp_path: Path) -> None:
    """What a crawl knows is enough to say how it would have gone with a topic."""
    pytest.importorskip("numba")
    from gossamer.sim.crawled import crawled, relevance
    from gossamer.sim.simulator import Conditions, Knowledge, simulate

    known = crawl(web, tmp_path / "known")
    actual = crawl(web, tmp_path / "actual", {**STRICT, "crawl.order": "relevance", "crawl.topic": TOPIC})
    graph = crawled(known.directory)
    assert graph.starts is not None
    near = relevance(known.directory, graph, Topic(TOPIC))
    foretold = simulate(graph, ORDERS["relevance"], graph.starts, Conditions(width=10), Knowledge(relevance=near))
    assert [graph.urls[page] for page in foretold.order[:FIRST]] == visited(actual)


@pytest.mark.parametrize(("topic", "reason"), [("", "is not given"), ("of the", "has no word that tells")])
def test_relevance_needs_a_topic(tmp_path: Path, topic: str, reason: str) -> None:
    asked = ("crawl", "http://a.test/", "--contact", "a@gossamer-tests.org", "--order", "relevance", "--topic", topic)
    message = complaint(*asked, at=tmp_path)
    assert f"crawl.topic {reason}" in message
    assert not (tmp_path / "crawl").exists()
