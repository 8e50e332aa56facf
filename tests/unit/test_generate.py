import numpy as np
import pytest

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.columns import NO_TEXT, PAGE, VISITED, Status
from gossamer.config import Config
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.scheduler import per_host, requests
from gossamer.crawl.update import RoundColumns, seeds, update
from gossamer.crawl.visit_history import packed_versions
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import ORDERS
from gossamer.web.url import page_key

URLS = ["http://a.test/1", "http://a.test/2", "http://b.test:8080/3", "https://a.test/4"]


@pytest.fixture
def index() -> PageIndex:
    index = PageIndex.open(Memory(), {}, config.Index(memory_mb=16))
    columns = RoundColumns(inbox=seeds(URLS, Ledger()))
    order = ORDERS["opic"]
    update(index, None, Ledger(), columns, limits=config.Limits(), strategy=order, now_s=0.0)
    return index


def rows_of(index: PageIndex, urls: list[str], **fields: object) -> np.ndarray:
    """Rows in this order, with some fields changed."""
    keys = np.array([page_key(url) for url in urls], np.uint64)
    order = np.argsort(keys)
    found, rows = index.pages.look_up(keys[order])
    assert found.all()
    rows = rows[np.argsort(order)]
    for name, values in fields.items():
        rows[name] = values
    return rows


def noted(etag: str, modified: str) -> bytes:
    none = np.zeros(0, np.uint64)
    return packed_versions(
        np.zeros(1, np.uint64), [(etag, modified)], none.astype(np.int64), none, np.zeros(1, np.int64)
    )[0]


def visit(index: PageIndex, url: str, digest: int, validators: bytes | None) -> None:
    row = np.zeros(1, VISITED.numpy)
    row["key"], row["digest"] = page_key(url), digest
    row["validators"] = NO_TEXT if validators is None else index.heap.append([validators])[0]
    index.visited.write(row)


@pytest.mark.parametrize(
    ("values", "soon", "later"),
    [
        ({"polite.delay_s": 5.0}, 2, 12),
        ({"polite.delay_s": 0.1}, 20, 600),
        ({"polite.delay_s": 100.0}, 2, 2),
        ({"polite.delay_s": 5.0, "polite.burst": 10}, 20, 120),
        ({"polite.delay_s": 0.0, "crawl.width": 500}, 500, 500),
        ({"polite.delay_s": 0.1, "index.queue_per_host": 7}, 7, 7),
    ],
)
def test_pages_per_host(values: dict[str, object], soon: int, later: int) -> None:
    assert per_host(Config().replace(values)) == (soon, later)


def test_requests_say_what_the_index_knows(index: PageIndex) -> None:
    rows = rows_of(index, URLS, depth=[0, 1, 2, 3], hops=[0, 0, 1, 0], tries=[0, 2, 0, 0])
    found = requests(index, rows, ORDERS["opic"], 0, 0)
    assert [request.url for request in found] == URLS, "in the order of the rows"
    assert [request.key for request in found] == [page_key(url) for url in URLS]
    assert [request.host for request in found] == ["a.test", "a.test", "b.test", "a.test"]
    assert [(r.depth, r.hops, r.tries) for r in found] == [(0, 0, 0), (1, 0, 2), (2, 1, 0), (3, 0, 0)]
    assert [request.known for request in found] == [3, 3, 1, 3]
    assert not any(request.is_conditional or request.digest or request.is_robots for request in found)


def test_ranks_are_those_of_the_strategy(index: PageIndex) -> None:
    rows = rows_of(index, URLS, cash=[1, 5, 3, 2], hits=[4, 3, 2, 1])
    assert [r.rank for r in requests(index, rows, ORDERS["opic"], 0, 0)] == [1, 5, 3, 2]
    assert [r.rank for r in requests(index, rows, ORDERS["backlink-count"], 0, 0)] == [4, 3, 2, 1]


def test_where_hosts_are_ranked_the_order_of_taking_counts(index: PageIndex) -> None:
    rows = rows_of(index, URLS)
    first = requests(index, rows[:2], ORDERS["larger-sites-first"], 0, 0)
    then = requests(index, rows[2:], ORDERS["larger-sites-first"], 0, 2)
    assert [request.rank for request in first + then] == [0, -1, -2, -3]


def test_pages_visited_before_are_asked_for_with_their_validators(index: PageIndex) -> None:
    visit(index, URLS[0], 11, noted('"e"', "yesterday"))
    visit(index, URLS[1], 12, noted('W/"é"', ""))
    visit(index, URLS[2], 13, None)
    status = [Status.FETCHED, Status.FETCHED, Status.FAILED, Status.FETCHED]
    found = requests(index, rows_of(index, URLS, status=status), ORDERS["opic"], 0, 0)
    assert [(r.etag, r.last_modified, r.digest) for r in found] == [
        ('"e"', "yesterday", 11), ('W/"é"', "", 12), ("", "", 13), ("", "", 0),
    ]  # fmt: skip
    assert [request.is_conditional for request in found] == [True, True, False, False]


def test_new_pages_have_no_history(index: PageIndex) -> None:
    visit(index, URLS[0], 11, noted('"e"', ""))
    (request,) = requests(index, rows_of(index, URLS[:1], status=Status.NEW), ORDERS["opic"], 0, 0)
    assert (request.etag, request.digest) == ("", 0)


def test_no_rows_no_requests(index: PageIndex) -> None:
    assert requests(index, np.zeros(0, PAGE.numpy), ORDERS["opic"], 0, 0) == []
