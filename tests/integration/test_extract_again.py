"""Functions run over an archive make what they would have made in the crawl; a new version replaces the old one."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from crawls import crawl
from raw_server import Exchange, Loopback
from rich.console import Console

from gossamer import Config, Crawl
from gossamer.archive.export_items import export_items
from gossamer.archive.warc_reader import read_record
from gossamer.cli.app import main
from gossamer.errors import ArchiveError, ConfigError, QueryError
from gossamer.functions import again
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.watch import quality, status

ROWS = "SELECT url, round, time, function, number, item FROM items ORDER BY ALL"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("web")
    spec = WebSpec.plain(seed=4, hosts=3, pages=60, links=6.0)
    with RunningWeb(spec, log_path=where / "log") as web:
        functions = ["page_functions:heading", "page_functions:seen", "page_functions:raises", "page_functions:blob"]
        crawl(web, where / "c", {"crawl.width": 15, "extract.functions": functions})
    return where / "c"


@pytest.fixture
def copy(crawled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawled, tmp_path / "c"))


def extract(directory: Path, *names: str, where: str = "") -> again.Extracted:
    functions = [f"page_functions:{name}" for name in names]
    return again.extract(directory, functions, where, 2e9, lambda *_: None, workers=1)


def rows(directory: Path, sql: str = ROWS) -> list[dict[str, Any]]:
    return Crawl(directory).query(sql)


def test_the_same_functions_make_the_same_items(copy: Path) -> None:
    tables = (ROWS, "SELECT url, round, time, name, data FROM files ORDER BY ALL")
    errors = "SELECT url, round, time, function, kind, error FROM function_errors ORDER BY ALL"
    before = [rows(copy, sql) for sql in (*tables, errors)]
    done = extract(copy, "heading", "seen", "raises", "blob")
    assert [rows(copy, sql) for sql in (*tables, errors)] == before
    assert done.items == len(before[0])
    assert done.errors == len(before[2]) > 0
    assert main(["verify", str(copy)]) == 0
    assert not list((copy / "extract").iterdir())


def test_a_function_that_fails_on_every_page_is_no_success(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", str(copy), "page_functions:broken"]) == 1
    said = capsys.readouterr().err
    assert "gossamer: a function has failed, page_functions:broken: ValueError: always" in said
    assert main(["extract", str(copy), "page_functions:broken", "page_functions:heading"]) == 0


def test_another_function_leaves_the_others_alone(copy: Path) -> None:
    before = rows(copy)
    done = extract(copy, "longer")
    new = rows(copy, "SELECT * FROM items WHERE function = 'page_functions:longer'")
    assert len(new) == done.items == 2 * done.pages
    assert all(json.loads(row["item"]) == {"size": row["size"]} for row in new)
    assert [row for row in rows(copy) if row["function"] != "page_functions:longer"] == before


def test_a_condition_replaces_only_what_it_selects(copy: Path) -> None:
    before = rows(copy)
    done = extract(copy, "heading", where="url LIKE '%/birds/%' -- and no more")
    assert 0 < done.pages < len(before)
    assert rows(copy) == before
    with pytest.raises(ConfigError, match="no visit to run functions on"):
        extract(copy, "heading", where="false")
    with pytest.raises(QueryError, match="nonsense"):
        extract(copy, "heading", where="nonsense = 1")
    assert rows(copy) == before


def test_it_goes_on_where_it_was(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, commit, done = rows(copy), again._commit, []
    monkeypatch.setattr(again, "_PIECE", 10)

    def killed(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(again, "_commit", killed)
    with pytest.raises(KeyboardInterrupt):
        extract(copy, "longer")
    assert rows(copy) == before
    monkeypatch.setattr(again, "_commit", commit)
    run = again._Again._rows
    monkeypatch.setattr(again._Again, "_rows", lambda *arguments: done.append(1) or run(*arguments))
    found = extract(copy, "longer")
    assert done == []
    assert len(rows(copy)) == len(before) + found.items


def test_a_crawl_goes_on_after_it(copy: Path) -> None:
    """Tables of several schemas are merged, and read together."""
    extract(copy, "longer")
    with RunningWeb(WebSpec.plain(seed=4, hosts=3, pages=60, links=6.0), log_path=copy.parent / "log") as web:
        values = {"crawl.width": 5, "archive.merge_files": 2, "extract.functions": ["page_functions:size"]}
        found = crawl(web, copy, {**values, "refresh.policy": "fixed", "refresh.interval_s": 1.0, "crawl.rounds": 6})
    assert found.query("SELECT count(*) AS n FROM items WHERE function = 'page_functions:longer'")[0]["n"] > 0


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_items_are_exported(crawled: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    assert main(["export", str(crawled), "--items", str(out)]) == 0
    with pytest.raises(ConfigError, match="exists"):
        export_items(crawled, out)
    before = out.read_bytes()
    assert export_items(crawled, out, force=True) == len(rows(crawled))
    if name != "out.parquet":
        assert out.read_bytes() == before
    if name == "out.jsonl":
        assert sorted(out.read_text().splitlines()) == sorted(row["item"] for row in rows(crawled))
    elif name == "out.csv":
        assert out.read_text().startswith("_url,")
        assert "heading" in out.read_text().splitlines()[0].split(",")
    else:
        assert pq.read_table(out).num_rows == len(rows(crawled))


def test_items_are_exported_in_shards(crawled: Path, tmp_path: Path) -> None:
    whole = "".join(f"{row['item']}\n" for row in rows(crawled, "SELECT item FROM items"))
    for _ in range(2):  # it may be done again
        export_items(crawled, tmp_path / "o.jsonl", force=True, shard_bytes=1000)
    (tmp_path / "o-00099.jsonl").write_text("not ours")
    found = sorted(tmp_path.glob("o-000[0-8]*.jsonl"))
    assert "".join(path.read_text() for path in found) == whole


def test_a_query_writes_json_lines(crawled: Path, tmp_path: Path) -> None:
    for name in ("x.jsonl", "x.ndjson"):
        assert main(["query", str(crawled), "SELECT url, number FROM items", "--out", str(tmp_path / name)]) == 0
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert len(lines) == len(rows(crawled))
        assert set(lines[0]) == {"url", "number"}


def test_a_function_has_one_name_however_it_is_spelled(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text("def product(page):\n    yield {'title': page.title}\n")
    monkeypatch.chdir(tmp_path)
    pages = len(rows(copy, "SELECT * FROM visits WHERE outcome = 'ok' AND NOT is_robots"))
    for spelling in ("shop:product", "shop.py:product", "./shop.py:product", str(tmp_path / "shop.py:product")):
        done = again.extract(copy, [spelling, "shop.py:product"], "", 2e9, lambda *_: None, workers=1)
        assert done.items == pages
        (found,) = rows(copy, "SELECT count(*) AS n, function FROM items WHERE function LIKE '%:product' GROUP BY ALL")
        assert found == {"n": pages, "function": "shop:product"}


def test_items_of_an_archive_with_another_spelling_are_replaced(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As archives have it that were written before functions had one name."""
    (tmp_path / "shop.py").write_text("def product(page):\n    yield {'title': page.title}\n")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as before:
        before.setattr("gossamer.functions.functions.canonical", str)
        again.extract(copy, ["./shop.py:product"], "", 2e9, lambda *_: None, workers=1)
    functions = "SELECT DISTINCT function FROM items WHERE function LIKE '%:product'"
    assert rows(copy, functions) == [{"function": "./shop.py:product"}]
    again.extract(copy, ["shop:product"], "", 2e9, lambda *_: None, workers=1)
    assert rows(copy, functions) == [{"function": "shop:product"}]


def test_items_are_written_in_known_formats_only(crawled: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"end it in .jsonl, .ndjson, .csv, .parquet"):
        export_items(crawled, tmp_path / "items.xlsx")
    assert not list(tmp_path.iterdir())


def test_a_module_alone_names_no_function(crawled: Path) -> None:
    with pytest.raises(ConfigError, match="'shop' names no function; write it like 'shop:product'"):
        again.extract(crawled, ["shop"], "", 2e9, lambda *_: None)


def test_status_and_report_show_items_and_errors(crawled: Path, tmp_path: Path) -> None:
    (counts,) = rows(
        crawled,
        """SELECT (SELECT count(*) FROM items) AS items, (SELECT count(*) FROM files) AS files,
        (SELECT count(*) FROM function_errors) AS function_errors""",
    )
    found = status.status(crawled)
    assert found["functions"] == counts
    assert all(counts.values())
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(status.render(found))
    shown = " ".join(console.export_text().split())
    files, errors = counts["files"], counts["function_errors"]
    assert f"items {counts['items']} and {files} files by functions; {errors} errors (table function_errors)" in shown
    (part,) = [each for each in quality.examined(crawled)[1] if each.part.title == "Functions"]
    by_function = {row[0]: row[1:] for row in part.rows}
    assert by_function["page_functions:raises"][2:] == (errors, "ValueError: not this one")
    assert by_function["page_functions:heading"][2:] == (0, "")
    assert sum(items for items, *_ in by_function.values()) == counts["items"]


def test_pages_that_were_stored_once_have_items_each(tmp_path: Path, loopback: Loopback) -> None:
    """The record of the second one refers to the first: workers cannot read it, and are given the page."""
    same = b"<title>Same</title><h1>Same</h1>" + b"<p>text</p>" * 500
    pages = {"/": b"<h1>Start</h1><a href=/a>a</a><a href=/b>b</a>", "/a": same, "/b": same}

    def answer(exchange: Exchange) -> bool:
        html = b"Content-Type: text/html\r\n"
        return exchange.send_page(pages.get(exchange.path, b""), "200 OK" if exchange.path in pages else "404 No", html)

    server = loopback.serve(answer)
    options = {"resolve.map": {"*": f"127.0.0.1:{server.port}"}, "polite.delay_s": 0.0}
    Crawl(tmp_path / "c", ["http://a.test/"], Config().replace(options)).run()
    done = extract(tmp_path / "c", "heading")
    assert (done.pages, done.items) == (3, 3)
    found = rows(tmp_path / "c", "SELECT url, item->>'heading' AS heading FROM items ORDER BY url")
    assert [row["heading"] for row in found] == ["Start", "Same", "Same"]
    kinds = [
        read_record(path, row["warc_offset"]).headers["WARC-Type"]
        for row in rows(tmp_path / "c", "SELECT warc, warc_offset FROM visits WHERE NOT is_robots ORDER BY url")
        for path in [tmp_path / "c" / row["warc"]]
    ]
    assert sorted(kinds) == ["response", "response", "revisit"]


def test_a_damaged_record_is_an_error(copy: Path) -> None:
    (row,) = rows(copy, "SELECT warc, warc_offset FROM visits WHERE outcome = 'ok' AND NOT is_robots LIMIT 1")
    with (copy / row["warc"]).open("r+b") as file:
        file.seek(row["warc_offset"])
        file.write(b"\0" * 20)
    with pytest.raises(ArchiveError, match=f"there is no record at offset {row['warc_offset']}"):
        extract(copy, "heading")
