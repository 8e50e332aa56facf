"""Tables grow columns without a new layout: an archive whose files have fewer columns, or more, opens and goes on."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from crawls import crawl, statuses

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import file_name, sealed
from gossamer.archive.near_duplicates import near_duplicates
from gossamer.archive.state import replace
from gossamer.archive.store import Directory
from gossamer.repair.repair import Repair
from gossamer.repair.verify import verify
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=8, hosts=4, pages=40, page_bytes=1_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0)
VALUES: dict[str, Any] = {"crawl.width": 6, "limits.depth": 250, "limits.depth_dynamic": 250, "archive.merge_files": 0}
LATER = {"visits": ["connect_s", "address"], "pages": ["domain"], "links": ["verdict"], "robots": ["http_status"]}


def rewrite(directory: Path, change: Any) -> None:
    """Changes the tables, and commits that as a version would that knows no other columns."""
    store = Directory(directory)
    at = Chain.read(store, "a0")
    for kind in LATER:
        for name in at.files[kind]:
            rows = change(kind, pq.read_table(directory / name))
            pq.write_table(rows, directory / name)
    sums = {name: store.checksum(name) for name in at.names()}
    assert store.create(file_name("a0", at.number + 1), sealed(replace(at, number=at.number + 1, sums=sums)))


def without(kind: str, rows: pa.Table) -> pa.Table:
    return rows.drop_columns(LATER[kind])


def with_more(_: str, rows: pa.Table) -> pa.Table:
    return rows.append_column("mood", pa.array(["calm"] * rows.num_rows))


def test_an_archive_with_fewer_columns_is_asked_crawled_on_and_merged(web: RunningWeb, tmp_path: Path) -> None:
    whole = statuses(crawl(web, tmp_path / "whole", VALUES))
    found = crawl(web, tmp_path / "crawl", {**VALUES, "crawl.pages": 18})
    rewrite(tmp_path / "crawl", without)
    assert found.query("SELECT DISTINCT connect_s, address FROM visits") == [{"connect_s": None, "address": None}]
    assert verify(tmp_path / "crawl").faults == []
    assert not Repair(tmp_path / "crawl", 1e9).plan()
    end = crawl(web, tmp_path / "crawl", {**VALUES, "archive.merge_files": 2}, seeds=[])
    assert statuses(end) == whole
    (row,) = end.query("SELECT count(*) AS n, count(address) AS known FROM visits WHERE NOT is_robots")
    assert 18 <= row["n"] - row["known"] < 30 < row["n"]
    assert verify(tmp_path / "crawl").faults == []
    files = Chain.read(Directory(tmp_path / "crawl"), "a0").files
    assert len(files["visits"]) == 1, "files with and without the columns became one"


def test_files_with_and_without_a_column_are_asked_together(web: RunningWeb, tmp_path: Path) -> None:
    crawl(web, tmp_path / "crawl", {**VALUES, "crawl.pages": 12})
    rewrite(tmp_path / "crawl", without)
    end = crawl(web, tmp_path / "crawl", {**VALUES, "crawl.pages": 24}, seeds=[])
    (row,) = end.query("SELECT count(*) AS n, count(address) AS known FROM visits WHERE NOT is_robots")
    assert 0 < row["known"] < row["n"]
    assert all(page["domain"] is None or page["url"] for page in end.query("SELECT url, domain FROM pages"))


def test_a_crawl_of_before_notes_simhashes_from_now_on(web: RunningWeb, tmp_path: Path) -> None:
    crawl(web, tmp_path / "crawl", {**VALUES, "crawl.pages": 18})
    rewrite(tmp_path / "crawl", lambda kind, rows: rows.drop_columns(["simhash"]) if kind == "visits" else rows)
    again = {**VALUES, "archive.merge_files": 2, "archive.simhash": 1.0}
    end = crawl(web, tmp_path / "crawl", again, seeds=[])
    assert len(Chain.read(Directory(tmp_path / "crawl"), "a0").files["visits"]) == 1, "they became one"
    sql = """SELECT count(simhash) AS noted, count(*) FILTER (simhash <> 0) AS texts, count(*) AS pages,
        count(*) FILTER (simhash <> 0 AND simhash <> simhash(main_text(warc, warc_offset))) AS others
        FROM pages WHERE outcome = 'ok'"""
    (row,) = end.query(sql)
    assert 0 < row["texts"] <= row["noted"] < row["pages"]
    assert row["others"] == 0
    assert near_duplicates(tmp_path / "crawl", is_quick=True) == []
    assert verify(tmp_path / "crawl").faults == []


def test_columns_of_a_later_version_are_not_lost(web: RunningWeb, tmp_path: Path) -> None:
    crawl(web, tmp_path / "crawl", {**VALUES, "crawl.pages": 12})
    rewrite(tmp_path / "crawl", with_more)
    end = crawl(web, tmp_path / "crawl", {**VALUES, "archive.merge_files": 2, "crawl.pages": 24}, seeds=[])
    assert end.query("SELECT count(*) AS n FROM visits")[0]["n"] >= 24
    files = Chain.read(Directory(tmp_path / "crawl"), "a0").files["visits"]
    merged = [pq.read_table(tmp_path / "crawl" / name) for name in files]
    moods = [mood for rows in merged if "mood" in rows.column_names for mood in rows["mood"].to_pylist()]
    assert moods.count("calm") > 0
    assert None in moods, "rows with and without the column became one file"
