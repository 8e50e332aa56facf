"""The page about a crawl: its figures are those of SQL, it asks nobody for anything, and the web's text stays text."""

import html
import json
import re
from pathlib import Path

import pytest
from commands import answer, complaint, run, succeed
from crawls import QUICK, crawl
from raw_server import Loopback

from gossamer import Config, Crawl
from gossamer.testweb.assets import asset
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch.quality import PARTS, examined
from gossamer.watch.quality_page import page

HOSTILE = "</title><script>alert(1)</script>&#60;img src=x>"


def words(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report") / "crawl"
    with RunningWeb(WebSpec(seed=4, hosts=6, pages=80, errors=0.2)) as web:
        crawl(web, directory, {"crawl.pages": 60, "limits.depth": 2, "crawl.exclude": ["*/weaving/*"]})
    return directory


def test_figures_are_those_of_sql(crawled: Path, tmp_path: Path) -> None:
    told = json.loads(succeed("report", crawled, "--html", tmp_path / "out.html", "--json", at=tmp_path))
    assert set(told["parts"]) == {part.title for part in PARTS}
    found = answer("status", crawled, "--json", at=tmp_path)
    assert told["totals"]["known"] == found["known"]
    assert told["totals"]["visits"] == found["visits"] == 60
    statuses = {row["status"]: row["pages"] for row in told["parts"]["What became of the pages"]}
    asked = Crawl(crawled, (), Config()).query("SELECT status, count(*) AS pages FROM pages GROUP BY status")
    assert statuses == {row["status"]: row["pages"] for row in asked}
    refused = sum(row["links"] for row in told["parts"]["Links that were not followed"])
    counted = Crawl(crawled, (), Config()).query("SELECT count(*) AS n FROM links WHERE verdict <> 'followed'")
    assert refused == counted[0]["n"] > 0
    wrong = {row["outcome"]: row["visits"] for row in told["parts"]["What went wrong"]}
    calm = ("ok", "unchanged", "moved", "denied")
    assert wrong == {word: times for word, times in found["outcomes"].items() if word not in calm}
    linked = [row["links_to_it"] for row in told["parts"]["How many links lead to a page"]]
    assert linked == ["1", *(f"{2**power}+" for power in range(1, len(linked)))]
    made = (tmp_path / "out.html").read_text()
    assert "`" not in made
    shown = words(made)
    for status, pages in statuses.items():
        assert f"{status} {pages} " in shown
    assert sum(row["pages"] for row in told["parts"]["How deep they are"]) == found["known"]


def test_requisites_are_no_pages_and_robots_txt_is_no_content(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "index.html").write_text("<title>a</title><img src=there.png><img src=missing.png><a href=copy.html>b</a>")
    (root / "copy.html").write_text("<title>a</title>")
    (root / "there.png").write_bytes(asset("/assets/1-0.png").body)
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /no")
    with RunningWeb(roots={"a.test": root}) as web:
        crawl(web, tmp_path / "crawl", {"crawl.requisites": True}, seeds=["http://a.test/"])
    totals, answers = examined(tmp_path / "crawl")
    found = answer("status", tmp_path / "crawl", "--json", at=tmp_path)
    assert (totals["known"], totals["visits"]) == (found["known"], found["visits"]) == (2, 2)
    assert (totals["contents"], totals["contents_fetched"]) == (3, 3)  # two pages and an image
    rows = {each.part.title: each.rows for each in answers}
    assert rows["What went wrong"] == []
    missing = ("not fetched, though a page needs it to be shown", 1, "http://a.test/missing.png")
    assert missing in rows["Quality of what is stored"]


def test_a_crawl_that_has_committed_nothing_has_one_sentence(crawled: Path, tmp_path: Path) -> None:
    (tmp_path / "gossamer.json").write_bytes((crawled / "gossamer.json").read_bytes())
    made = page("begun", *examined(tmp_path))
    assert "This crawl has committed nothing yet." in made
    assert made.count('<section class="card') == 1


def test_it_needs_nothing_else(crawled: Path) -> None:
    made = page("crawl", *examined(crawled))
    assert "<script" not in made
    assert not re.findall(r"(?:src|href)\s*=|@import|url\(", made)
    assert "default-src 'none'" in made
    assert made.count('<section class="card') == len(PARTS)
    assert "None" not in words(made)


def test_text_of_the_web_is_no_markup(loopback: Loopback, tmp_path: Path) -> None:
    body = f"<html lang='\"><script>1</script>'><title>{HOSTILE}</title><a href='/?<b>x</b>'>a</a>".encode()
    server = loopback.serve(
        lambda exchange: exchange.send_page(body, "200 OK" if exchange.path == "/" else f"500 {HOSTILE}")
    )
    values = {"resolve.map": {"*": f"127.0.0.1:{server.port}"}, "crawl.patience_s": 0.1, "fetch.retries": 0}
    config = Config().replace({**QUICK, **values, "polite.robots": False})
    Crawl(tmp_path / "crawl", ["http://a.test/"], config).run()
    made = page("<script>crawl", *examined(tmp_path / "crawl"))
    assert "<script" not in made
    assert "<b>" not in made
    assert "server error 1 visit, 1 host " in words(made)


def test_a_crawl_that_reached_nobody(tmp_path: Path) -> None:
    values = {"resolve.map": {"*": "127.0.0.1:1"}, "crawl.patience_s": 0.1, "fetch.retries": 0}
    Crawl(tmp_path / "crawl", ["http://a.test/"], Config().replace({**QUICK, **values})).run()
    totals, answers = examined(tmp_path / "crawl")
    assert (totals["known"], totals["fetched"], totals["links"]) == (1, 0, 0)
    made = words(page("crawl", totals, answers))
    assert "no page declares one" in made
    assert "None" not in made


def test_mistakes(crawled: Path, tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text("mine")
    assert "exists" in complaint("report", crawled, "--html", "there.html", at=tmp_path)
    assert (tmp_path / "there.html").read_text() == "mine"
    assert "--html" in complaint("report", crawled, at=tmp_path)
    assert "no crawl" in complaint("report", tmp_path / "nowhere", "--html", "x.html", at=tmp_path)
    assert run("report", crawled, "--html", "-", at=tmp_path).stdout.startswith(b"<!doctype html>")
