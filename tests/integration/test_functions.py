"""The user's functions run on every page, their items are part of the round, and they break nothing but their page."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import run, succeed
from crawls import QUICK, crawl, visited

from gossamer import Config, Crawl
from gossamer.errors import ConfigError, FunctionError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec.plain(seed=4, hosts=3, pages=60, links=6.0)
PAGES = 40


def extracted(web: RunningWeb, directory: Path, *names: str, **values: Any) -> Crawl:
    functions = [f"page_functions:{name}" for name in names]
    given = {f"extract.{key}": value for key, value in values.items()}
    return crawl(web, directory, {"crawl.pages": PAGES, "extract.functions": functions, **given})


def urls_of(found: Crawl, table: str) -> list[str]:
    return sorted(row["url"] for row in found.query(f"SELECT url FROM {table}"))


def ok(found: Crawl) -> list[str]:
    return sorted(row["url"] for row in found.query("SELECT url FROM visits WHERE outcome = 'ok' AND NOT is_robots"))


def test_every_page_has_its_items(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", "heading", "blob")
    assert urls_of(found, "items") == ok(found)
    rows = found.query(
        "SELECT i.item, i.number, i.function, v.title, v.links FROM items i JOIN visits v USING (key, round, time)"
    )
    assert len(rows) == len(ok(found)) > PAGES // 2
    for row in rows:
        item = json.loads(row["item"])
        assert item["heading"] in row["title"]
        assert item["links"] == row["links"]
        assert (row["number"], row["function"]) == (0, "page_functions:heading")
    (files,) = found.query("SELECT count(*) AS n, sum(bytes) AS bytes, min(octet_length(data)) AS least FROM files")
    assert files["n"] == 2 * len(rows)
    assert files["least"] == 10
    assert found.query("SELECT * FROM function_errors") == []


def test_the_crawl_says_what_functions_found_and_where_they_failed(web: RunningWeb, tmp_path: Path) -> None:
    config = Config().replace({**QUICK, "resolve.map": {"*": web.address}, "crawl.pages": PAGES})
    config = config.replace({"extract.functions": ["page_functions:heading", "page_functions:wrong"]})
    found = Crawl(tmp_path / "c", web.start_urls, config)
    first, last = found.run().notes
    pages = len(ok(found))
    assert first.startswith("a function has failed, page_functions:wrong: ")
    assert last == (
        f"functions found {pages} items and 0 files on {pages} pages; they failed on {pages} pages "
        "(table function_errors)"
    )


def test_declared_types_are_columns(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", "seen", "size", "heading")
    rows = found.query(
        "SELECT i.*, v.title AS real, v.body_bytes, v.depth AS deep FROM items i JOIN visits v USING (key, round)"
    )
    assert {row["function"].partition(":")[2] for row in rows} == {"seen", "size", "heading"}
    for row in rows:
        item = json.loads(row["item"])
        if row["function"] == "page_functions:seen":
            assert (row["title"], row["words"], row["ratio"]) == (row["real"], item["words"], 0.5)
            assert row["time_"] == row["time"]  # a name that the table has already
            assert json.loads(row["about"]) == {"depth": row["deep"]}
            assert row["links"] == item["links"]
        elif row["function"] == "page_functions:size":
            assert row["size"] == row["body_bytes"]
            assert row["title"] is None


def test_a_type_that_only_its_items_show(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", "undeclared")
    (row,) = found.query("SELECT min(words) AS words, count(title) AS titles FROM items")
    assert row == {"words": 1, "titles": len(ok(found))}


SOFT = {
    "raises": "raised", "hangs": "timeout", "leaves": "raised", "eats": "memory", "nonsense": "invalid",
    "words": "invalid", "floods": "too large", "asynchronous": "invalid",
}  # fmt: skip


def test_a_function_that_fails_costs_only_its_page(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", *SOFT, time_s=0.3, page_mb=1)
    bad = [url for url in ok(found) if "/birds/" in url]
    assert bad
    for name, kind in SOFT.items():
        function = f"function = 'page_functions:{name}'"
        assert urls_of(found, f"items WHERE {function}") == [url for url in ok(found) if url not in bad]
        errors = found.query(f"SELECT * FROM function_errors WHERE {function} ORDER BY url")
        assert [row["url"] for row in errors] == bad
        assert {row["kind"] for row in errors} == {kind}
        assert all(row["error"] for row in errors)


def test_a_crash_costs_only_its_page(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", "crashes")
    bad = [url for url in ok(found) if "/birds/" in url]
    assert bad
    assert urls_of(found, "items") == [url for url in ok(found) if url not in bad]
    errors = found.query("SELECT * FROM function_errors ORDER BY url")
    assert [row["url"] for row in errors] == bad
    assert {(row["kind"], row["error"]) for row in errors} == {("crashed", "the worker was killed by SIGSEGV")}
    assert all("page_functions.py" in row["traceback"] for row in errors)


def test_wrong_types_are_errors(web: RunningWeb, tmp_path: Path) -> None:
    found = extracted(web, tmp_path / "c", "wrong")
    (row,) = found.query("SELECT count(*) AS n, min(kind) AS kind, min(error) AS error FROM function_errors")
    assert (row["n"], row["kind"]) == (len(ok(found)), "invalid")
    assert "Expected `int | null`, got `str`" in row["error"]


def test_many_errors_in_a_row_end_the_crawl(web: RunningWeb, tmp_path: Path) -> None:
    with pytest.raises(FunctionError, match=r"failed on 5 pages in a row \(extract.max_errors\)"):
        extracted(web, tmp_path / "c", "wrong", max_errors=5)
    found = Crawl(tmp_path / "c")
    assert len(found.query("SELECT * FROM function_errors")) >= 5  # they are committed


def test_functions_need_no_warc(web: RunningWeb, tmp_path: Path) -> None:
    functions = {"extract.functions": ["page_functions:heading"], "archive.warc": False, "crawl.pages": PAGES}
    found = crawl(web, tmp_path / "c", functions)
    assert not list((tmp_path / "c").glob("warc/*"))
    assert urls_of(found, "items") == ok(found)


def test_followed_pages_are_links_of_their_page(web: RunningWeb, tmp_path: Path) -> None:
    values = {"extract.functions": ["page_functions:elsewhere"], "crawl.scope": "host", "crawl.pages": 200}
    found = crawl(web, tmp_path / "c", values)
    rows = found.query("SELECT target_url, verdict FROM links WHERE target_url LIKE '%of=functions'")
    assert rows
    assert {row["verdict"] for row in rows} == {"followed"}
    assert {row["target_url"] for row in rows} <= set(visited(found))
    (out,) = found.query("SELECT DISTINCT verdict FROM links WHERE target_url = 'https://out-of-scope.example/'")
    assert out == {"verdict": "scope"}


def test_a_function_decides_about_links(web: RunningWeb, tmp_path: Path) -> None:
    found = crawl(web, tmp_path / "c", {"extract.links": "page_functions:few", "crawl.pages": 200})
    rows = found.query("SELECT target_url, verdict, count(*) AS n FROM links GROUP BY ALL")
    refused = {row["target_url"] for row in rows if row["verdict"] == "function"}
    assert refused
    assert not refused & set(visited(found))
    assert found.query("SELECT * FROM function_errors") == []


def test_where_the_links_function_fails_no_link_is_followed(web: RunningWeb, tmp_path: Path) -> None:
    values = {"extract.links": "page_functions:fails_on_links", "extract.time_s": 0.3, "crawl.pages": PAGES}
    config = Config().replace({**QUICK, "resolve.map": {"*": web.address}, **values})
    found = Crawl(tmp_path / "c", web.start_urls, config)
    notes = found.run().notes
    (row,) = found.query("SELECT count(*) AS n FROM function_errors")
    assert notes[-1].endswith(f"; the links function failed on {row['n']}: no link of these is followed")
    sql = """SELECT e.kind, verdict, count(*) AS n FROM links JOIN pages ON pages.key = source
        LEFT JOIN function_errors e ON e.key = source GROUP BY ALL"""
    verdicts: dict[str | None, set[str]] = {}
    for row in found.query(sql):
        verdicts.setdefault(row["kind"], set()).add(row["verdict"])
    assert "followed" in verdicts.pop(None)
    assert set(verdicts) == {"raised", "timeout", "crashed", "invalid"}
    for kind, seen in verdicts.items():
        assert "function" in seen, kind
        assert "followed" not in seen, kind


MISTAKES = {
    "nowhere:product": "No module named 'nowhere'",
    "page_functions:absent": "has no attribute 'absent'",
    "page_functions:NOT_A_FUNCTION": "is not a function",
    "missing.py:product": "No such file",
    "page_functions:later": "is async",
    "page_functions:later_items": "is async",
    "page_functions:Shop.product": "cannot be called with one argument.*missing a required argument",
    "page_functions:of_nothing": "cannot be called with one argument.*too many positional arguments",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_function_that_cannot_be_loaded_is_a_mistake(web: RunningWeb, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=MISTAKES[name]) as caught:
        crawl(web, tmp_path / "c", {"extract.functions": [name]})
    assert "; write " in str(caught.value)
    assert not (tmp_path / "c").exists()


SCRIPT = """
import sys
from gossamer import Config, Crawl

def product(page):
    yield {"title": page.title}

config = Config().replace({"resolve.map": {"*": sys.argv[2]}, "polite.delay_s": 0.0, "crawl.pages": 10})
crawl = Crawl(sys.argv[1], [sys.argv[3]], config, extract=product)
crawl.run()
print(len(crawl.query("SELECT * FROM items WHERE item LIKE '{\\"title\\":%'")))
"""


def test_a_script_hands_its_own_function_over(web: RunningWeb, tmp_path: Path) -> None:
    """Without `if __name__ == "__main__"`: the workers load it only up to where it begins to crawl."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(tmp_path / "c"), web.address, web.start_urls[0]]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert done.stdout == "10\n", done.stderr


def test_a_run_with_a_file_says_which_functions_it_drops(web: RunningWeb, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def product(page):\n    yield {}\n\ndef follow(link):\n    return True\n")
    (tmp_path / "c.toml").write_text("[polite]\ndelay_s = 0.0\n")
    start = ["crawl", web.start_urls[0], "--testweb", web.address, "--quiet", "--config", "c.toml", "--pages"]
    flags = ["--extract", "shop:product", "--links", "shop:follow"]
    succeed(*start, 3, *flags, at=tmp_path)
    again = run(*start, 6, at=tmp_path)
    assert again.returncode == 0
    (line,) = again.stderr.decode().splitlines()
    assert line.startswith("gossamer: the last run had functions that this one has not")
    assert "give --extract shop:product --links shop:follow again" in line
    assert "`gossamer extract crawl shop:product`" in line
    succeed(*start, 9, at=tmp_path)  # now the last run had none


def test_a_function_inside_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="inside another function"):
        Crawl(tmp_path, ["https://example.org/"], Config(), extract=lambda page: None)
