"""Functions where a crawl has several agents, several sites, or its archive in a bucket: the items are those of one."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import answer, run, succeed
from crawls import QUICK, crawl
from federations import federation
from object_stores import Server, at

from gossamer import Crawl
from gossamer.archive.query import ask
from gossamer.archive.reading import Where
from gossamer.cluster.federation import counters
from gossamer.cluster.location import locate
from gossamer.config import toml
from gossamer.crawl.stats import found_by_functions
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

HOSTS = 12
SPEC = WebSpec.plain(seed=21, hosts=HOSTS, pages=120, links=8.0, page_bytes=2_000.0)
# Every first page of a host asks for a page of every other host that no link leads to.
FUNCTIONS = f"""
def seen(page):
    yield {{"title": page.css("title").text(), "words": len(page.text.split())}}
    if page.url.count("/") == 3 and page.url.endswith("/"):
        for number in range({HOSTS}):
            yield page.follow(f"http://h{{number}}.test/?wanted", priority=2)

def by_path(page):
    yield {{"title": page.xpath("//title/text()").get(), "links": page.xpath("//a/@href").getall()}}

def by_selector(page):
    yield {{"title": page.css("title").text(), "links": page.css("a[href]").attrs("href")}}
"""
VALUES: dict[str, Any] = {**QUICK, "crawl.width": 20, "limits.depth": 250, "limits.depth_dynamic": 250}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions") / "seen.py"
    path.write_text(FUNCTIONS)
    return path


@pytest.fixture(scope="module")
def alone(web: RunningWeb, functions: Path, tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """The crawl of one agent."""
    return crawl(web, tmp_path_factory.mktemp("alone") / "crawl", values(web, functions), seeds(web))


def values(web: RunningWeb, functions: Path) -> dict[str, Any]:
    given = {"resolve.map": {"*": web.address}, "extract.functions": [f"{functions}:seen"], "extract.workers": 1}
    return {**VALUES, **given}


def seeds(web: RunningWeb) -> list[str]:
    return [f"http://h{number}.test/" for number in range(HOSTS)]


def options(values: Mapping[str, Any]) -> list[str]:
    """The same on the command line."""
    given = [f"{name}={value if isinstance(value, str) else toml(value)}" for name, value in values.items()]
    return [word for each in given for word in ("--set", each)]


def items(where: Where) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in ask(where, "SELECT url, function, number, item FROM items"))


def wanted(where: Where) -> list[tuple[str, str]]:
    """The pages that only functions asked for, with the agent that visited each, by its WARC file."""
    rows = ask(where, "SELECT url, warc FROM visits WHERE url LIKE '%?wanted' ORDER BY url")
    return [(row["url"], Path(row["warc"]).name.split("-")[0]) for row in rows]


def test_the_items_of_two_agents_are_those_of_one(
    web: RunningWeb, functions: Path, alone: Crawl, tmp_path: Path
) -> None:
    """Half of the pages that functions ask for belong to the other agent: they go to it as links do."""
    given = options(values(web, functions))
    summary = answer("crawl", *seeds(web), "--dir", "crawl", "--agents", "2", "--json", *given, at=tmp_path)
    found = tmp_path / "crawl"
    assert items(found) == items(alone.directory)
    number = items(found).total()
    assert summary["notes"] == [f"functions found {number} items and 0 files on {number} pages"]
    asked = wanted(found)
    assert [url for url, _ in asked] == [f"http://h{number}.test/?wanted" for number in sorted(range(HOSTS), key=str)]
    assert len({agent for _, agent in asked}) == 2, asked
    (again,) = ask(found, "SELECT count(*) - count(DISTINCT (key, round, number)) AS twice FROM items")
    assert again == {"twice": 0}


@pytest.mark.slow
def test_the_items_of_two_sites_are_those_of_one(
    web: RunningWeb, functions: Path, alone: Crawl, tmp_path: Path
) -> None:
    with federation(tmp_path, ["north", "south"], values(web, functions), 1) as sites:
        sites.start_all(*seeds(web))
        sites.wait()
        where = locate(sites.federation.path)
        assert items(where) == items(alone.directory)
        assert len({agent for _, agent in wanted(where)}) == 2
        number = items(where).total()
        found = counters(sites.federation, "north", "south").functions
        assert found_by_functions(found) == [f"functions found {number} items and 0 files on {number} pages"]


def test_items_in_a_bucket(
    web: RunningWeb, functions: Path, alone: Crawl, object_servers: Callable[[str], Server], tmp_path: Path
) -> None:
    """Another machine reads them, and says what comes next; the crawl goes on and has each item once."""
    weed = object_servers("seaweedfs")
    address = weed.address()
    given = options(values(web, functions))
    with at(weed, tmp_path / "one"):
        succeed("crawl", *seeds(web), "--dir", address, "--quiet", "--pages", "60", *given, at=tmp_path)
    with at(weed, tmp_path / "two"):
        next_pages = answer("query", address, "SELECT url, why, hits FROM frontier", "--json", at=tmp_path)
        new = answer("query", address, "SELECT url FROM pages WHERE status = 'new'", "--json", at=tmp_path)
        assert sorted(row["url"] for row in next_pages) == sorted(row["url"] for row in new)
        assert {row["why"] for row in next_pages} == {"new"}
    with at(weed, tmp_path / "one"):
        succeed("crawl", "--dir", address, "--quiet", "--set", "crawl.pages=0", at=tmp_path)
    with at(weed, tmp_path / "two"):
        assert run("export", address, "--items", "items.jsonl", at=tmp_path).returncode == 0
        found = [json.loads(text) for text in (tmp_path / "items.jsonl").read_text().splitlines()]
        assert Counter(map(json.dumps, found)) == Counter(
            json.dumps(json.loads(item)) for _, _, _, item in items(alone.directory).elements()
        )


def test_xpath_finds_what_css_finds(web: RunningWeb, functions: Path, tmp_path: Path) -> None:
    both = {"extract.functions": [f"{functions}:by_path", f"{functions}:by_selector"], "crawl.pages": 30}
    found = crawl(web, tmp_path / "crawl", {**values(web, functions), **both})
    rows = found.query("SELECT url, list(item ORDER BY function) AS items FROM items GROUP BY url")
    assert len(rows) == 30
    assert all(one == other for one, other in (row["items"] for row in rows))
    assert all(json.loads(row["items"][0])["links"] for row in rows)
    assert found.query("SELECT * FROM function_errors") == []
