"""The recipes of docs/cookbook.md: their files are written and their commands run as they stand there."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import ROOT
from raw_server import Exchange, Loopback

from benchmarks import shop
from gossamer.archive.query import ask
from gossamer.cli.app import main
from gossamer.testweb.running import RunningWeb

PRODUCTS = 60
PAGE = ROOT / "docs" / "cookbook.md"
FROM_SCRAPY = ROOT / "docs" / "from-scrapy.md"
HTML = b"Content-Type: text/html; charset=utf-8\r\n"


def recipe(title: str) -> tuple[dict[str, str], list[str]]:
    """The files and the commands of a recipe."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = {body.split()[1]: body for kind, body in blocks if kind == "python"}
    return files, [line for kind, body in blocks if kind == "sh" for line in body.splitlines()]


Cook = Callable[[str, str], list[str]]


@pytest.fixture
def cook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cook:
    """Runs a recipe; the one thing that is added is where its hosts are. Returns what each command printed."""
    monkeypatch.chdir(tmp_path)

    def run(title: str, address: str) -> list[str]:
        files, lines = recipe(title)
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        printed = []
        for line in lines:
            program, *words = shlex.split(line)
            assert program == "gossamer"
            more = ["--testweb", address, "--delay", "0", "--quiet"] if words[0] == "crawl" else []
            code = main([*words, *more])
            shown = capsys.readouterr()
            assert code == 0, f"{line}: {shown.err}"
            printed.append(shown.out)
        return printed

    return run


@pytest.fixture(scope="module")
def shop_web(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with RunningWeb(roots={shop.HOST: shop.build(tmp_path_factory.mktemp("shop"), PRODUCTS, reviews=2)}) as web:
        yield web


def serve(loopback: Loopback, pages: Callable[[Exchange], bytes | None], kind: bytes = HTML) -> str:
    """Serves what `pages` says, and no robots.txt; returns the address."""

    def reply(exchange: Exchange) -> bool:
        body = pages(exchange)
        return exchange.send_page(b"", "404 Not Found") if body is None else exchange.send_page(body, fields=kind)

    return f"127.0.0.1:{loopback.serve(reply).port}"


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_recipe_is_tested() -> None:
    titles = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    tested = Path(__file__).read_text()
    assert [title for title in titles if f'cook("{title}"' not in tested] == []


def test_the_page_for_users_of_scrapy_shows_the_code_that_is_measured() -> None:
    for name in ("shop_spider.py", "shop_functions.py"):
        assert f"```python\n{(ROOT / 'benchmarks' / name).read_text()}```" in FROM_SCRAPY.read_text()


def test_a_spider_moved(shop_web: RunningWeb, cook: Cook, tmp_path: Path) -> None:
    cook("A Scrapy spider, moved", shop_web.address)
    lamps = [item for item in shop.items(PRODUCTS) if "lamps" in item["tags"]]
    found = sorted(json_lines(tmp_path / "lamps.jsonl"), key=lambda item: int(item["name"].split()[-1]))
    assert found == [{name: item[name] for name in ("name", "price", "tags")} for item in lamps]


def test_a_shop(shop_web: RunningWeb, cook: Cook, tmp_path: Path) -> None:
    printed = cook("A shop with pagination", shop_web.address)
    items = shop.items(PRODUCTS)
    rows = pq.read_table(tmp_path / "shop.parquet", columns=list(items[0])).to_pylist()
    assert sorted(rows, key=lambda row: row["sku"]) == items
    assert str(sum(item["stock"] for item in items)) in printed[1]
    (sql,) = re.findall(r"^```sql\n(.*?)^```$", FROM_SCRAPY.read_text(), re.MULTILINE | re.DOTALL)
    lists = ask(tmp_path / "shop", sql)
    assert {row["name"] for row in lists} == {item["name"] for item in items}
    assert {row["list"] for row in lists} == {"Lamps", "Chairs", "Tables", "Clocks", "Rugs"}


def test_an_api(loopback: Loopback, cook: Cook, tmp_path: Path) -> None:
    pages = 20

    def entries(exchange: Exchange) -> bytes | None:
        found = re.fullmatch(r"/entries\?page=(\d+)", exchange.path)
        if not found:
            return None
        number = int(found[1])
        after = f"/entries?page={number + 1}" if number < pages else None
        new = [{"id": str(3 * number + i), "name": f"entry {3 * number + i}"} for i in range(3)]
        return json.dumps({"entries": new, "next": after}).encode()

    cook("An API with JSON", serve(loopback, entries, b"Content-Type: application/json\r\n"))
    found = json_lines(tmp_path / "entries.jsonl")
    assert sorted(int(row["id"]) for row in found) == list(range(3, 3 * pages + 3))
    assert found[0]["name"] == f"entry {found[0]['id']}"


def test_a_login(loopback: Loopback, cook: Cook, tmp_path: Path) -> None:
    def members(exchange: Exchange) -> bytes | None:
        if exchange.path == "/robots.txt":
            return None
        is_member = b"Cookie: session=s3cret-of-mine" in exchange.head
        return b"<h1>Inside</h1><a href=/more>more</a>" if is_member else b"<h1>Please log in</h1>"

    (tmp_path / "cookies.txt").write_text(
        "# Netscape HTTP Cookie File\nmembers.example\tFALSE\t/\tFALSE\t4102444800\tsession\ts3cret-of-mine\n"
    )
    printed = cook("A login by cookie", serve(loopback, members))
    assert "Inside" in printed[1]
    assert "log in" not in printed[1]


def test_a_sitemap(loopback: Loopback, cook: Cook) -> None:
    def recipes(exchange: Exchange) -> bytes | None:
        if exchange.path == "/sitemap.xml":
            urls = "".join(f"<url><loc>http://recipes.example/{name}</loc></url>" for name in ("soup", "bread"))
            space = "http://www.sitemaps.org/schemas/sitemap/0.9"
            return f'<?xml version="1.0"?><urlset xmlns="{space}">{urls}</urlset>'.encode()
        if exchange.path == "/robots.txt":
            return None
        return f"<h1>{exchange.path[1:]}</h1><a href=/elsewhere>elsewhere</a>".encode()

    printed = cook("What a sitemap lists, and nothing else", serve(loopback, recipes))
    assert [line.strip() for line in printed[1].splitlines() if line.strip() in ("bread", "soup", "elsewhere")] == [
        "bread",
        "soup",
    ]


def test_a_topic(loopback: Loopback, cook: Cook, tmp_path: Path) -> None:
    def library(exchange: Exchange) -> bytes | None:
        if exchange.path == "/robots.txt":
            return None
        about = [f"<a href=/spiders/{n}>spiders and silk webs, part {n}</a>" for n in range(10)]
        other = [f"<a href=/{word}/{n}>{word} of the year {n}</a>" for word in ("trains", "coins") for n in range(20)]
        return f"<title>{exchange.path}</title>{' '.join(other + about)}".encode()

    cook("A crawl about a topic", serve(loopback, library))
    rows = ask(tmp_path / "spiders", "SELECT url FROM pages WHERE status = 'fetched'")
    assert len(rows) == 12
    assert len([row for row in rows if "/spiders/" in row["url"]]) == 10


def test_news(loopback: Loopback, cook: Cook, tmp_path: Path) -> None:
    visits: dict[str, int] = {}

    def news(exchange: Exchange) -> bytes | None:
        if exchange.path == "/robots.txt":
            return None
        visits[exchange.path] = number = visits.get(exchange.path, 0) + 1
        stories = number if exchange.path == "/" else 1
        headlines = "".join(f"<h2>{exchange.path} story {n}</h2>" for n in range(stories))
        return f"{headlines}<a href=/about>about</a>".encode()

    printed = cook("News, again and again", serve(loopback, news))
    assert "http://news.example/" in printed[1]
    rows = ask(tmp_path / "news", "SELECT url, round, item FROM items")
    assert visits["/"] > 1
    front = [row for row in rows if row["url"].endswith("example/")]
    assert len(front) == sum(range(1, visits["/"] + 1))  # each version has all of its headlines
    assert len([row for row in rows if row["url"].endswith("/about")]) == 1
    assert "/ story 1" in printed[2]
