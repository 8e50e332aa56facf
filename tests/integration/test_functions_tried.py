"""What one needs while writing functions: try one on a URL, see which one crashed, follow lists, hear of bad seeds."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_server import Exchange, Loopback, RawServer

from gossamer import Config, Crawl
from gossamer.archive.export_items import export_items
from gossamer.cli.app import main

HTML = b"Content-Type: text/html\r\n"


@pytest.fixture
def site(loopback: Loopback) -> Callable[[dict[str, bytes]], RawServer]:
    def serve(pages: dict[str, bytes]) -> RawServer:
        def answer(exchange: Exchange) -> bool:
            status = "200 OK" if exchange.path in pages else "404 Not Found"
            return exchange.send_page(pages.get(exchange.path, b""), status, HTML)

        return loopback.serve(answer)

    return serve


def options(server: RawServer, **more: Any) -> list[str]:
    values = {"resolve.map": f'{{"*" = "127.0.0.1:{server.port}"}}', "polite.delay_s": 0, **more}
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def values(server: RawServer, **more: Any) -> Config:
    given = {name.replace("__", "."): value for name, value in more.items()}
    return Config().replace({"resolve.map": {"*": f"127.0.0.1:{server.port}"}, "polite.delay_s": 0.0, **given})


def test_a_function_is_tried_on_one_url(
    site: Callable[[dict[str, bytes]], RawServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = site({"/": b"<h1>One</h1><a href=/x>x</a>"})
    tried = ["inspect", "http://a.test/", *options(server), "--extract", "page_functions:heading"]
    assert main([*tried, "--extract", "page_functions:blob", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["items"] == [{"function": "page_functions:heading", "item": {"heading": "One", "links": 1}}]
    assert [each["name"] for each in found["files"]] == ["page.bin", "url.txt"]
    assert (found["outcome"], found["function_errors"]) == ("ok", [])
    assert main(tried) == 0
    assert '"heading": "One"' in capsys.readouterr().out
    assert main(["inspect", "http://a.test/", *options(server), "--extract", "page_functions:wrong"]) == 1
    assert "page_functions:wrong failed: an item is not of its declared type" in capsys.readouterr().out
    assert main(["inspect", "http://a.test/", *options(server), "--extract", "page_functions:absent"]) == 2
    assert server.paths.count("/") == 3, "a function that cannot be loaded is a mistake before anything is fetched"


def test_what_a_function_prints_is_shown_when_it_is_tried_and_nowhere_else(
    site: Callable[[dict[str, bytes]], RawServer], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = site({"/": b"<h1>One</h1>"})
    assert main(["inspect", "http://a.test/", *options(server), "--extract", "page_functions:talks", "--json"]) == 0
    shown = capfd.readouterr()
    assert shown.err == "One, says the function\nand complains\n"
    assert json.loads(shown.out)["items"][0]["item"] == {"said": "One"}
    crawl = Crawl(tmp_path / "c", ["http://a.test/"], values(server, extract__functions=["page_functions:talks"]))
    crawl.run()
    assert len(crawl.query("SELECT item FROM items")) == 1
    assert capfd.readouterr() == ("", "")


def test_a_function_that_did_not_run_is_no_success(
    site: Callable[[dict[str, bytes]], RawServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = site({"/robots.txt": b"User-agent: *\nDisallow: /no"})
    for url, why in (
        ("http://a.test/lost", "HTTP 404"),
        ("http://a.test/no", "robots.txt: Disallow: /no"),
        (f"http://127.0.0.1:{server.port + 1}/", "127.0.0.1 is loopback; --set resolve.private=true allows that"),
    ):
        own = [] if "127" in url else options(server)
        assert main(["inspect", url, *own, "--extract", "page_functions:heading"]) == 1
        assert f"functions did not run, as there is no page for them: {why}\n" in capsys.readouterr().err


def test_the_function_that_crashed_is_named(site: Callable[[dict[str, bytes]], RawServer], tmp_path: Path) -> None:
    server = site({"/": b"<h1>One</h1>"})
    functions = ["page_functions:heading", "page_functions:falls", "page_functions:size"]
    found = Crawl(tmp_path / "c", ["http://a.test/"], values(server, extract__functions=functions))
    assert found.run().notes[-1] == (
        "functions found 0 items and 0 files on 1 pages; they failed on 1 pages (table function_errors)"
    )
    (row,) = found.query("SELECT function, kind FROM function_errors")
    assert row == {"function": "page_functions:falls", "kind": "crashed"}


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone")
def test_items_are_exported_with_their_pages(site: Callable[[dict[str, bytes]], RawServer], tmp_path: Path) -> None:
    server = site({"/": b"<h1>One</h1>"})
    functions = ["page_functions:heading", "page_functions:empty"]
    found = Crawl(tmp_path / "c", ["http://a.test/"], values(server, extract__functions=functions))
    found.run()
    (row,) = found.query("SELECT strftime(time, '%Y-%m-%dT%H:%M:%S.%gZ') AS time FROM items LIMIT 1")
    assert main(["export", str(tmp_path / "c"), "--items", "--with-page", str(tmp_path / "o.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    page = {"_url": "http://a.test/", "_time": row["time"]}
    assert sorted(lines, key=len) == [page, {**page, "heading": "One", "links": 0}]
    export_items(tmp_path / "c", tmp_path / "o.csv", with_page=True)
    assert (tmp_path / "o.csv").read_text().splitlines()[:2] == [
        "_url,_time,heading,links",
        f"http://a.test/,{row['time']},One,0",
    ]


def test_pages_of_a_list_that_a_function_follows_are_no_deeper(
    site: Callable[[dict[str, bytes]], RawServer], tmp_path: Path
) -> None:
    """limits.list_pages holds for page.follow, too; a page that has no links, as an API has none, may be a list."""
    server = site({f"/list?page={number}": b"[]" for number in range(1, 31)})
    config = values(server, extract__functions=["page_functions:next_page"], limits__list_pages=20)
    found = Crawl(tmp_path / "c", ["http://a.test/list?page=1"], config)
    found.run()
    (row,) = found.query("SELECT count(*) AS n, max(depth) AS depth FROM pages WHERE status = 'fetched'")
    assert row == {"n": 25, "depth": 5}, "twenty of the list, then as deep as other dynamic pages"


@pytest.mark.parametrize("status", ["401 Unauthorized", "500 Oh No"])
def test_a_crawl_that_fetched_nothing_fails(
    loopback: Loopback, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    def answer(exchange: Exchange) -> bool:
        return exchange.send_page(b"no", "404 No" if exchange.path == "/robots.txt" else states[0])

    states = [status]
    server = loopback.serve(answer)
    crawl = [
        "crawl",
        "http://a.test/",
        "--dir",
        str(tmp_path / "c"),
        "--quiet",
        *options(server, **{"fetch.retries": 0}),
    ]
    assert main(crawl) == 1
    said = capsys.readouterr().err
    assert "no page could be fetched: http://a.test/: " in said
    assert f"HTTP {status[:3]}" in said
    states[0] = "200 OK"
    if status.startswith("401"):
        assert main([*crawl, "--set", "fetch.retries=2"]) == 0, "it was given up, and more is allowed now"
        assert Crawl(tmp_path / "c").query("SELECT status FROM pages") == [{"status": "fetched"}]
