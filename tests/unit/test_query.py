import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from sample_archive import NOW_S, TITLE, A, B, C, D, Response, Sample, Visit, page, sample

from gossamer.archive import query, reading
from gossamer.archive.query import open_database, open_reading
from gossamer.archive.store import Directory
from gossamer.archive.views import EXAMPLES, SQL_TYPES, TABLES, describe
from gossamer.errors import ArchiveError, QueryError
from gossamer.watch.rows import run

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that only read; the others make their own."""
    return sample(tmp_path_factory.mktemp("query") / "crawl")


@pytest.fixture(scope="module")
def ask(crawl: Path) -> Iterator[Ask]:
    with closing(open_database(crawl)) as database:
        yield lambda sql: database.execute(sql).fetchall()


def rows(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(open_database(directory)) as database:
        return database.execute(sql).fetchall()


def test_pages_have_their_latest_visit(ask: Ask) -> None:
    found = ask("SELECT url, status, visits, outcome, title, location FROM pages ORDER BY url")
    assert found == [
        (A, "fetched", 2, "unchanged", TITLE, ""),
        (B, "moved", 1, "moved", "", A),
        (D, "new", 0, None, None, None),
        (C, "failed", 1, "timeout", "", ""),
    ]
    assert ask(f"SELECT epoch(last_visit) FROM pages WHERE url = '{A}'") == [(NOW_S + 60,)]
    assert ask(f"SELECT host, domain, round FROM pages WHERE url = '{C}'") == [("www.b.test", "b.test", 1)]


def test_pages_keep_what_their_latest_version_says(tmp_path: Path) -> None:
    """Through visits that found it unchanged, by digest or by the server's word, or found it gone."""
    archive = Sample(tmp_path / "crawl")
    facts = {
        "title": "new",
        "charset": "utf-8",
        "content_type": "text/html",
        "links": 3,
        "canonical": A,
        "noindex": True,
    }
    known = [A, B, C, D]
    archive.commit(known, [page(url, f"<p>old {url}", title="old", links=9) for url in (A, B, C)])
    archive.commit([], [page(url, f"<p>new {url}", after_s=10.0, **facts) for url in (A, B, C)])
    not_modified = Response(A, b"", "", NOW_S + 20, 304)
    same = Response(B, f"<p>new {B}".encode(), started_s=NOW_S + 20)
    missing = Response(C, b"<p>missing", started_s=NOW_S + 20, status=404)
    seen = [
        Visit(A, "unchanged", 20.0, not_modified, (A, NOW_S + 10)),
        Visit(B, "unchanged", 20.0, same, (B, NOW_S + 10), {"title": "new", "links": 0}),
        Visit(C, "gone", 20.0, missing, row={"content_type": "text/html"}),
        Visit(D, "gone", 20.0, Response(D, b"<p>never there", started_s=NOW_S + 20, status=404)),
    ]
    archive.commit([], seen)
    of_visit = "url, status, visits, epoch(last_visit), outcome, http_status"
    assert rows(tmp_path / "crawl", f"SELECT {of_visit} FROM pages ORDER BY url") == [
        (A, "fetched", 3, NOW_S + 20, "unchanged", 304),
        (B, "fetched", 3, NOW_S + 20, "unchanged", 200),
        (D, "gone", 1, NOW_S + 20, "gone", 404),
        (C, "gone", 3, NOW_S + 20, "gone", 404),
    ]
    of_version = f"epoch(version_time), {', '.join(facts)}, text(warc, warc_offset)"
    found = rows(tmp_path / "crawl", f"SELECT {of_version} FROM pages WHERE url <> '{D}' ORDER BY url")
    assert found == [(NOW_S + 10, *facts.values(), f"new {url}") for url in (A, B, C)]
    # Where there never was content, there is at least the answer.
    assert rows(tmp_path / "crawl", f"SELECT text(warc, warc_offset) FROM pages WHERE url = '{D}'") == [
        ("never there",)
    ]


def test_a_query_reads_only_the_columns_it_asks_for(ask: Ask) -> None:
    (_, plan), *_ = ask("EXPLAIN SELECT sum(links) FROM pages")
    assert "links" in plan
    assert not [name for name in ("title", "url", "digest", "canonical", "reason") if name in plan]


def test_hosts(ask: Ask) -> None:
    columns = "host, domain, pages, visited, visits, ok, errors, wire_bytes, mean_elapsed_s"
    found = ask(f"SELECT {columns} FROM hosts ORDER BY host")
    assert found == [
        ("a.test", "a.test", 2, 2, 3, 2, 0, 190, 0.125),
        ("c.test", "c.test", 1, 0, 0, 0, 0, 0, None),
        ("www.b.test", "b.test", 1, 1, 1, 0, 1, 0, None),
    ]


def test_targets_count_pages_not_versions(ask: Ask) -> None:
    found = ask("SELECT url, hits, verdict FROM targets ORDER BY url")
    assert found == [(B, 1, "followed"), (C, 1, "followed"), ("http://x.test/", 1, "scope")]


def test_content_is_reachable_also_behind_a_revisit(ask: Ask) -> None:
    calls = "content(warc, warc_offset), body(warc, warc_offset), header(warc, warc_offset, 'Content-TYPE')"
    (content, body, header), *others = ask(f"SELECT {calls} FROM visits WHERE url = '{A}'")
    assert content.startswith("<html lang=en>")
    assert body == content.encode()
    assert header == "text/html; charset=utf-8"
    assert others == [(content, body, header)]
    assert ask("SELECT text(warc, warc_offset) FROM pages WHERE title LIKE 'Spiders%'") == [("Gossamer & wind",)]


def test_what_was_not_stored_is_null(ask: Ask) -> None:
    sql = "SELECT content(warc, warc_offset), body(warc, warc_offset) FROM pages WHERE status IN ('new', 'failed')"
    assert ask(sql) == [(None, None), (None, None)]
    assert ask("SELECT text('warc/other.warc.gz', 0), text('../gossamer.json', 0), text(NULL, -1)") == [
        (None, None, None)
    ]
    assert ask(f"SELECT header(warc, warc_offset, 'x-none') FROM pages WHERE url = '{A}'") == [(None,)]


@pytest.mark.parametrize("mime", ["unknown/unknown", "application/unknown", "*/*", "application/octet-stream"])
def test_pages_of_unknown_type_have_a_text(tmp_path: Path, mime: str) -> None:
    archive = Sample(tmp_path / "crawl")
    answer = Response(A, "<p>ü</p>".encode("latin-1"), f"Content-Type: {mime}; charset=latin1\r\n")
    archive.commit([A], [Visit(A, response=answer)])
    assert rows(tmp_path / "crawl", "SELECT text(warc, warc_offset) FROM pages") == [("ü",)]


def test_binary_bodies_have_no_text(tmp_path: Path) -> None:
    archive = Sample(tmp_path / "crawl")
    image = Response(B, b"\x89PNG\0", "Content-Type: image/png\r\n")
    latin = Response(C, "<p>é</p>".encode("latin-1"), "Content-Type: text/html; charset=iso-8859-1\r\n")
    untyped = Response(D, b"plain words", "")
    archive.commit([B, C, D], [Visit(r.url, response=r) for r in (image, latin, untyped)])
    sql = "SELECT content(warc, warc_offset), text(warc, warc_offset), body(warc, warc_offset) FROM pages ORDER BY url"
    assert rows(tmp_path / "crawl", sql) == [
        (None, None, b"\x89PNG\0"),
        ("plain words", "plain words", b"plain words"),
        ("<p>é</p>", "é", b"<p>\xe9</p>"),
    ]


def test_a_revisit_of_a_revisit(tmp_path: Path) -> None:
    archive = Sample(tmp_path / "crawl")
    original = page(A, "<p>words")
    copy = Visit(B, "ok", 10.0, Response(B, b"<p>words", started_s=NOW_S + 10), (A, NOW_S))
    # A server's 304 refers to the copy, in whole seconds as the index keeps them.
    unchanged = Visit(B, "unchanged", 20.0, Response(B, b"", "", NOW_S + 20, 304), (B, float(int(NOW_S + 10))))
    archive.commit([A, B], [original, copy, unchanged])
    found = rows(tmp_path / "crawl", "SELECT text(warc, warc_offset) FROM visits")
    assert found == [("words",)] * 3


def test_an_empty_crawl_has_empty_tables_with_the_right_columns(ask: Ask, tmp_path: Path) -> None:
    Directory.prepare(tmp_path / "empty", NOW_S)
    with closing(open_database(tmp_path / "empty")) as empty:
        for table in TABLES:
            expected = [(column.name, SQL_TYPES[column.dtype]) for column in table.columns]
            assert [row[:2] for row in ask(f"DESCRIBE {table.name}")] == expected
            assert [row[:2] for row in empty.execute(f"DESCRIBE {table.name}").fetchall()] == expected
            assert empty.execute(f"SELECT count(*) FROM {table.name}").fetchall() == [(0,)]


def test_all_agents_are_read(tmp_path: Path) -> None:
    crawl = sample(tmp_path / "crawl")
    other = Sample(crawl, "a1")
    other.commit(["http://z.test/"], [page("http://z.test/", "<p>of the second agent")])
    assert rows(crawl, "SELECT count(*) FROM pages") == [(5,)]
    assert rows(crawl, "SELECT text(warc, warc_offset) FROM pages WHERE host = 'z.test'") == [("of the second agent",)]


def test_the_documentation_is_current() -> None:
    page_ = Path(__file__).parents[2] / "docs" / "tables.md"
    assert page_.read_text() == describe()


@pytest.mark.parametrize("sql", EXAMPLES.values())
def test_documented_examples_run(ask: Ask, sql: str) -> None:
    ask(sql)


HARMFUL = [
    "COPY (SELECT 1) TO '{0}/x.csv'",
    "COPY (SELECT 1) TO '{0}/gossamer.json'",
    "COPY (SELECT 1) TO '{0}/tables/visits-a0-00000001.parquet' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{0}/x.csv'",
    "EXPORT DATABASE '{0}/x'",
    "ATTACH '{0}/x.db'",
    "SELECT * FROM read_text('{0}/gossamer.json')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM glob('{0}/*')",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "INSTALL httpfs",
    "LOAD httpfs",
    "DROP VIEW pages",
    "DELETE FROM visits",
    "CALL enable_logging(storage = 'file', storage_path = '{0}/log')",
    "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a'); SELECT 1",
    "PRAGMA database_list",
]


@pytest.mark.parametrize("sql", HARMFUL)
def test_a_query_can_only_read_the_tables(crawl: Path, sql: str) -> None:
    before = {path: path.read_bytes() for path in crawl.rglob("*") if path.is_file()}
    with pytest.raises(QueryError):
        run(crawl, sql.format(crawl), "csv")
    assert {path: path.read_bytes() for path in crawl.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("sql", [sql for sql in HARMFUL if sql.split()[0] in ("COPY", "EXPORT", "ATTACH", "SET")])
def test_nor_can_the_connection(crawl: Path, sql: str) -> None:
    before = sorted(crawl.rglob("*"))
    with closing(open_database(crawl)) as database, pytest.raises(duckdb.Error):
        database.execute(sql.format(crawl))
    assert sorted(crawl.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELCT 1", "syntax error"),
        ("", "nothing to run"),
        ("-- only a comment", "nothing to run"),
        ("SELECT * FROM page", 'Did you mean "pages"'),
        ("SELECT * FROM page", "The tables are pages, visits, links, hosts, targets, robots"),
        ("SELECT urll FROM pages", "pages: key, url, host"),
        ("SELECT 'x'::INTEGER", "Could not convert"),
        ("DROP TABLE pages", "DROP is refused"),
        ("CREATE TABLE t AS SELECT 1", "last statement must be a SELECT"),
        ("SELECT text('warc/a0-00000001-0.warc.gz', 5)", "there is no record at offset 5"),
    ],
)
def test_errors_say_what_to_do(crawl: Path, sql: str, words: str) -> None:
    with pytest.raises(QueryError, match=re.escape(words)):
        run(crawl, sql)


def test_only_the_tables_in_question_are_listed(crawl: Path) -> None:
    with pytest.raises(QueryError) as error:
        run(crawl, "SELECT urll FROM hosts")
    assert "mean_elapsed_s" in str(error.value)
    assert "warc_offset" not in str(error.value)


def test_no_crawl_there(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no crawl"):
        run(tmp_path, "SELECT 1")
    with pytest.raises(ArchiveError, match="holds no crawl"):
        open_database(tmp_path / "absent")


def test_formats(crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT url, visits, last_visit AS time FROM pages ORDER BY url LIMIT 2"
    assert run(crawl, sql, "csv") == 2
    assert capsys.readouterr().out.splitlines() == [
        "url,visits,time",
        f"{A},2,2025-06-15T15:07:40.250Z",
        f"{B},1,2025-06-15T15:06:41.250Z",
    ]
    assert run(crawl, sql, "json") == 2
    found = json.loads(capsys.readouterr().out)
    assert found[1] == {"url": B, "visits": 1, "time": "2025-06-15T15:06:41.250Z"}
    assert run(crawl, sql, "parquet", tmp_path / "out.parquet") == 2
    assert pq.read_table(tmp_path / "out.parquet").column("url").to_pylist() == [A, B]
    assert run(crawl, sql, "table", tmp_path / "out.txt") == 2
    assert "2 rows" in (tmp_path / "out.txt").read_text()
    with pytest.raises(QueryError, match="name a file"):
        run(crawl, sql, "parquet")
    with pytest.raises(QueryError, match="known are table, csv, json, parquet"):
        run(crawl, sql, "xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "out.txt"]


def test_several_statements(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(crawl, "CREATE TABLE big AS SELECT * FROM pages; SELECT 7; SELECT count(*) AS n FROM big", "csv")
    assert capsys.readouterr().out == "n\n4\n"
    run(crawl, "EXPLAIN SELECT url FROM pages")
    assert "Parquet" in capsys.readouterr().out


def test_files_that_a_crawl_merges_meanwhile(tmp_path: Path) -> None:
    """The first look names files that are gone when they are opened; the second finds what replaced them."""
    crawl = tmp_path / "crawl"
    archive = Sample(crawl)
    for url in (A, B, D):  # rounds of about the same size, or they would not be merged yet
        archive.commit([url], [page(url, f"<p>{url}")])
    sql = "SELECT url, text(warc, warc_offset) FROM visits ORDER BY url"
    looks: list[reading.Reading] = []

    def work(at: reading.Reading) -> list[tuple[Any, ...]]:
        with closing(open_reading(at)) as database:
            if not looks:
                archive.merge()
            looks.append(at)
            return database.execute(sql).fetchall()

    assert reading.reading(crawl, work) == [(url, url) for url in (A, B, D)]
    assert len(looks) == 2
    assert [len(look.names("visits")) for look in looks] == [3, 1]


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    crawl = sample(tmp_path / "crawl")
    next((crawl / "tables").glob("visits-*")).unlink()
    with pytest.raises(ArchiveError, match="damaged"):
        run(crawl, "SELECT count(*) FROM visits")


def test_a_missing_warc_is_damage(tmp_path: Path) -> None:
    crawl = sample(tmp_path / "crawl")
    for path in (crawl / "warc").iterdir():
        path.unlink()
    with pytest.raises(ArchiveError, match="damaged"):
        run(crawl, "SELECT text(warc, warc_offset) FROM pages", "json")


def test_answers_for_programs(crawl: Path) -> None:
    assert query.ask(crawl, "SELECT url, visits FROM pages WHERE visits > 1") == [{"url": A, "visits": 2}]
    assert query.ask(crawl, "SELECT 1 AS n WHERE false") == []
    with pytest.raises(QueryError, match="The tables are"):
        query.ask(crawl, "SELECT 1 FROM page")
    # What fails only when a row is reached is an error of the query, too.
    with pytest.raises(QueryError, match="Could not convert"):
        query.ask(crawl, "SELECT url::INTEGER FROM pages")


SCRIPT = """
import gc, sys
from pathlib import Path
from gossamer.archive.query import open_database
from gossamer.watch.rows import run
from gossamer.errors import QueryError
crawl = Path(sys.argv[1])
call = "SELECT text(warc, warc_offset) AS text FROM pages, range(3000)"
run(crawl, call + " ;")  # shows the first rows only
run(crawl, f"CREATE TEMP TABLE mine AS {call}; SELECT * FROM mine")
try:
    run(crawl, call + " WHERE CASE WHEN range = 2500 THEN error('late') ELSE true END", "json")
except QueryError as error:
    assert "late" in str(error)
else:
    sys.exit("no error")
gc.collect()
database = open_database(crawl)  # never closed
"""


def on_a_terminal(*command: str) -> tuple[int, str, str]:
    """Exit code, what a terminal shows, and complaints."""
    ours, its = os.openpty()
    environment = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
    with subprocess.Popen(command, stdout=its, stderr=subprocess.PIPE, env=environment) as process:
        os.close(its)
        shown = bytearray()
        with contextlib.suppress(OSError):  # the other end was closed
            while data := os.read(ours, 65536):
                shown += data
        os.close(ours)
        assert process.stderr is not None
        said = process.stderr.read()
    return process.returncode, shown.decode(), said.decode()


def test_results_that_are_not_read_to_the_end_do_no_harm(crawl: Path) -> None:
    """A process of its own, because the harm would be a crash, or complaints when the interpreter ends."""
    code, shown, said = on_a_terminal(sys.executable, "-c", SCRIPT, str(crawl))
    assert (code, said) == (0, "")
    assert "200 rows; 11,800 more are left out" in shown
    assert "200 rows; there are more" in shown


def test_a_pipe_gets_everything(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(crawl, "SELECT range AS n, repeat('x', 300) AS x FROM range(1000)") == 1000
    lines = capsys.readouterr().out.splitlines()
    assert lines[1001].split() == ["999", "x" * 300]
    assert lines[1002:] == ["1,000 rows"]
