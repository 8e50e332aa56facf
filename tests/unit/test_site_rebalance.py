"""A proposal which hosts should change sites, made while the sites go on crawling."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
from sample_archive import Sample, page

from gossamer.archive import query
from gossamer.archive.linkgraph import read_links
from gossamer.archive.reading import Reading
from gossamer.archive.versions import versions
from gossamer.cluster.federation_file import load
from gossamer.cluster.location import locate
from gossamer.cluster.rebalance import propose

URLS = [f"http://{name}.test/" for name in "abcdef"]


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sites; when the first look at their archives has been taken, one of them merges its files."""
    path = tmp_path / "f.toml"
    path.write_text(
        '[federation]\npartitioner = "fennel"\n'
        '[sites.paris]\naddress = "127.0.0.1:4000"\n[sites.tokyo]\naddress = "127.0.0.1:4001"\n'
    )
    archives = [Sample(tmp_path / site, f"{site}_a0") for site in ("paris", "tokyo")]
    for archive, urls in zip(archives, (URLS[:3], URLS[3:]), strict=True):
        for url in urls:  # rounds of about the same size, or they would not be merged yet
            archive.commit([url], [page(url, f"<p>{url}")], [(url, URLS[0], "followed")])
    original, looks = query.open_reading, list[Reading]()

    def look(at: Reading, **more: Any) -> duckdb.DuckDBPyConnection:
        database = original(at, **more)
        if not looks:
            archives[0].merge()
        looks.append(at)
        return database

    monkeypatch.setattr(query, "open_reading", look)
    return path


def test_files_that_are_merged_meanwhile_are_read_again(federation: Path) -> None:
    assert propose(load(federation)).hosts == [f"{name}.test" for name in "abcdef"]


def test_so_are_those_of_versions(federation: Path) -> None:
    assert [row["visits"] for row in versions(locate(federation), URLS[1])] == [1]


def test_so_are_those_of_a_link_graph(federation: Path) -> None:
    assert sorted(read_links(locate(federation)).urls) == URLS
