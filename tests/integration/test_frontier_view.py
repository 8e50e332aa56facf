"""The table `frontier` and the columns of `pages` that the index knows: what SQL says comes next is what comes next."""

import shutil
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from crawls import QUICK, crawl, visited
from earlier_archives import unpacked
from raw_server import Exchange, Loopback

from gossamer import Config, Crawl
from gossamer.archive.query import ask
from gossamer.clocks import VirtualClock
from gossamer.errors import QueryError
from gossamer.frontier.strategies import ORDERS
from gossamer.refresh.upcoming import Upcoming
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

WIDTH = 20
STRICT: dict[str, Any] = {"polite.connections": 1, "crawl.width": WIDTH, "crawl.pages": 3 * WIDTH}
QUICKLY = ("opic", "larger-sites-opic", "shallow-first", "random")
FROM_INDEX = [
    name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow)
    for name, order in ORDERS.items()
    if order.score is None and not order.needs_topic
]


SPEC = WebSpec.plain(seed=3, hosts=12, pages=400)


@pytest.mark.parametrize("order", FROM_INDEX)
def test_the_next_round_visits_what_the_frontier_lists(web: RunningWeb, tmp_path: Path, order: str) -> None:
    found = crawl(web, tmp_path / "crawl", {**STRICT, "crawl.order": order})
    before = visited(found)
    rows = found.query("SELECT * FROM frontier")
    crawl(web, tmp_path / "crawl", {**STRICT, "crawl.order": order, "crawl.pages": 4 * WIDTH})
    assert [row["url"] for row in rows[:WIDTH]] == visited(found)[len(before) :]
    assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["why"] for row in rows} == {"new"}
    assert {row["agent"] for row in rows} == {"a0"}
    assert all((row["waits_for"] == "") == (row["ahead"] == 0) for row in rows)


def test_the_frontier_is_what_was_not_visited(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path / "crawl", STRICT)
    (row,) = found.query(
        """SELECT count(*) AS waiting, count(*) FILTER (p.status = 'new') AS new, bool_and(f.url = p.url) AS same,
            bool_and(f.hits = p.hits AND f.score = p.score AND f.depth = p.depth) AS alike,
            bool_and(p.due = f.due AND f.due <= now()::TIMESTAMP) AS due
        FROM frontier f JOIN pages p ON p.key = f.key"""
    )
    unvisited = len(found.query("SELECT url FROM pages WHERE status = 'new'"))
    assert row == {"waiting": unvisited, "new": unvisited, "same": True, "alike": True, "due": True}
    done = found.query("SELECT DISTINCT due, change_rate FROM pages WHERE status = 'fetched'")
    assert done == [{"due": None, "change_rate": None}]  # nobody comes back to them
    hits = found.query("SELECT p.url, p.hits, t.hits AS counted FROM pages p JOIN targets t ON t.key = p.key")
    assert hits
    assert [row for row in hits if row["hits"] != row["counted"]] == []


def test_a_score_that_the_index_does_not_know_is_null(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path / "crawl", {**STRICT, "crawl.order": "batch-pagerank"})
    assert found.query("SELECT DISTINCT score FROM frontier") == [{"score": None}]
    assert found.query("SELECT min(hits) AS least FROM frontier")[0]["least"] >= 1
    (row,) = found.query(
        """SELECT bool_and(later) AS sorted FROM (
            SELECT p.round >= lag(p.round) OVER (PARTITION BY f.host ORDER BY place) AS later
            FROM frontier f JOIN pages p ON p.key = f.key)"""
    )
    assert row["sorted"]  # on each host, by discovery


def test_a_query_that_asks_for_other_columns_does_not_open_the_index(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path / "crawl", {**STRICT, "crawl.pages": WIDTH})
    shutil.rmtree(tmp_path / "crawl" / "index")
    assert found.query("SELECT count(*) AS pages, min(status) AS least FROM pages")[0]["least"] == "fetched"
    with pytest.raises(Exception, match=r"index/.*missing"):
        found.query("SELECT sum(hits) FROM pages")


def test_pages_that_failed_or_rest_say_so(loopback: Loopback, tmp_path: Path) -> None:
    def answer(exchange: Exchange) -> bool:
        if exchange.path == "/":
            return exchange.send_page(b"<a href=/broken>b</a><a href=/forbidden>f</a><a href=/gone>g</a>")
        status = {"/broken": "500 No", "/forbidden": "403 No", "/gone": "404 No", "/late": "503 Later"}[exchange.path]
        return exchange.send_page(b"", status, b"Retry-After: 5000\r\n" if "503" in status else b"")

    server = loopback.serve(answer)
    config = {**QUICK, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, "fetch.retry_s": 1000.0,
              "polite.robots": False, "crawl.patience_s": 0.0, "polite.backoff_max_s": 6000.0,
              "polite.backoff_s": 0.0}  # fmt: skip
    seeds = ["http://a.test/", "http://rests.test/late", "http://rests.test/other"]
    found = Crawl(tmp_path / "crawl", seeds, Config().replace(config))
    began = time.time()
    found.run()
    rows = found.query("SELECT url, why, waits_for, epoch(due) AS due_s FROM frontier")
    words = {row["url"]: (row["why"], row["waits_for"]) for row in rows}
    assert words == {
        "http://a.test/broken": ("failed before", "its time"),
        "http://a.test/forbidden": ("forbidden before", "its time"),
        "http://rests.test/late": ("failed before", "its host's rest"),
        "http://rests.test/other": ("new", "its host's rest"),
    }
    assert [row["due_s"] for row in rows] == sorted(row["due_s"] for row in rows)
    late = next(row["due_s"] for row in rows if row["url"].endswith("/late"))
    assert began + 4990 < late < time.time() + 5010
    assert found.query("SELECT due FROM pages WHERE url LIKE '%/gone'") == [{"due": None}]


def test_revisits_are_mixed_with_first_visits(web: RunningWeb, tmp_path: Path) -> None:
    values = {**STRICT, "refresh.policy": "fixed", "refresh.interval_s": 1.0, "refresh.least_s": 1.0,
              "refresh.share": 0.25}  # fmt: skip
    found = crawl(web, tmp_path / "crawl", values)
    later = VirtualClock(time.time() + 100)
    rows = ask(tmp_path / "crawl", "SELECT place, why, due FROM frontier", lambda at: Upcoming(at, later))
    again = [row["place"] for row in rows if row["why"] == "due again"]
    assert len(again) == len(found.query("SELECT 1 AS n FROM pages WHERE status = 'fetched'"))
    assert len([place for place in again if place <= WIDTH]) == WIDTH // 4
    (row,) = found.query(
        "SELECT min(wait) AS least, max(wait) AS most FROM"
        " (SELECT epoch(due) - epoch(last_visit) AS wait FROM pages WHERE status = 'fetched')"
    )
    assert 0 <= row["least"] <= row["most"] <= 1  # the index has whole seconds


def test_change_rates_are_those_of_pages_that_were_visited_again(loopback: Loopback, tmp_path: Path) -> None:
    visits: dict[str, int] = {}

    def answer(exchange: Exchange) -> bool:
        visits[exchange.path] = number = visits.get(exchange.path, 0) + 1
        news = str(number) if exchange.path == "/news" else "the same"
        return exchange.send_page(f"<a href=/news>n</a><a href=/old>o</a>{exchange.path} {news}".encode())

    server = loopback.serve(answer)
    values = {**QUICK, "resolve.map": {"*": f"127.0.0.1:{server.port}"}, "polite.robots": False, "crawl.pages": 12,
              "refresh.policy": "adaptive", "refresh.interval_s": 1.0, "refresh.least_s": 1.0}  # fmt: skip
    found = Crawl(tmp_path / "crawl", ["http://a.test/"], Config().replace(values))
    found.run()
    rates = {row["url"][13:]: row["change_rate"] for row in found.query("SELECT url, change_rate FROM pages")}
    assert rates["/news"] > rates["/old"] > 0
    assert {row["why"] for row in found.query("SELECT why FROM frontier")} == {"due again"}


def test_it_can_be_asked_while_the_crawl_runs(web: RunningWeb, tmp_path: Path) -> None:
    """Each round replaces files of the index: a question meets them as they vanish."""
    given = [*web.start_urls[:1], "--scope", "any", "--delay", "1", "--set", f"resolve.map={{'*'='{web.address}'}}",
             "--set", "crawl.width=8", "--set", "archive.merge_files=2",
             "--contact", "me@gossamer-tests.org"]  # fmt: skip
    with commands.running("crawl", *given, "--dir", "crawl", at=tmp_path) as process:
        process.wait_until(lambda: commands.committed_visits(tmp_path / "crawl"), "first commit")
        asked = [_waiting(tmp_path) for _ in range(10)]
        process.wait_until(lambda: commands.committed_visits(tmp_path / "crawl") > 40, "more commits")
        asked += [_waiting(tmp_path) for _ in range(5)]
        assert process.inner.poll() is None
    assert min(asked) > 0


def _waiting(at: Path) -> int:
    (row,) = ask(at / "crawl", "SELECT count(*) AS n, sum(hits) AS hits FROM frontier", Upcoming)
    return int(row["n"])


@pytest.mark.parametrize("name", ["alone", "agents"])
def test_an_archive_of_an_earlier_layout_can_be_asked(tmp_path: Path, name: str) -> None:
    directory = unpacked(name, tmp_path)
    waiting = ask(directory, "SELECT url, why FROM frontier ORDER BY place", Upcoming)
    new = ask(directory, "SELECT url FROM pages WHERE status = 'new'", Upcoming)
    assert {row["url"] for row in waiting} == {row["url"] for row in new}
    assert len(new) == (3 if name == "alone" else 0)
    assert min(row["hits"] for row in ask(directory, "SELECT hits FROM pages", Upcoming)) is not None


def test_a_frontier_cannot_be_written(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path / "crawl", {**STRICT, "crawl.pages": 1})
    with pytest.raises(QueryError, match="only reads"):
        found.query("DELETE FROM frontier")


def test_the_name_of_a_directory_may_have_a_colon(
    web: RunningWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To Arrow a relative name such as `shop:1/...` is an address."""
    monkeypatch.chdir(tmp_path)
    found = crawl(web, Path("shop:1"), {**STRICT, "crawl.pages": WIDTH, "archive.merge_files": 2})
    assert found.query("SELECT count(*) AS n FROM frontier")[0]["n"] > 0
