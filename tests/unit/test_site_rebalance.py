"""A proposal which hosts should change sites, made while the sites go on crawling."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sample_archive import Sample, page

from gossamer.archive import query
from gossamer.archive.linkgraph import read_links
from gossamer.archive.manifest import MOVES
from gossamer.archive.reading import Reading
from gossamer.archive.store import Directory
from gossamer.archive.versions import versions
from gossamer.clocks import RealClock
from gossamer.cluster import rebalancing
from gossamer.cluster.federation_file import load
from gossamer.cluster.location import locate
from gossamer.cluster.rebalance import propose
from gossamer.cluster.rebalancing import Rebalancing, once
from gossamer.crawl.inbox import Inbox
from gossamer.errors import ConfigError
from gossamer.placement.rebalance import ROW_BYTES

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


def ordered(site: Path) -> list[dict[str, str]]:
    return [json.loads(each.data) for each in Inbox(Directory(site)).pending("", {}) if each.sender == MOVES]


def test_a_rebalance_that_is_repeated_follows_the_prices_of_the_file_within_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    text = "".join(
        f'[sites.{site}]\naddress = "127.0.0.1:{port}"\negress_per_gb = 0.1\ncpu_per_hour = 0.1\n'
        for port, site in enumerate(("paris", "tokyo"), 4000)
    )
    path.write_text('[federation]\npartitioner = "fennel"\nrebalance_hours = 6\n' + text)
    hosts = [f"http://h{number}.test/" for number in range(40)]
    for site in ("paris", "tokyo"):
        Sample(tmp_path / site, f"{site}_a0").commit(hosts if site == "paris" else [])
    assert once(load(path)).endswith("no host is worth moving")
    assert ordered(tmp_path / "paris") == ordered(tmp_path / "tokyo") == []
    path.write_text(path.read_text().replace("cpu_per_hour = 0.1", "cpu_per_hour = 90.0", 1))
    assert len(propose(load(path)).moves.host) > 4, "until the cheaper site is full"
    path.write_text(path.read_text().replace("hours = 6", f"hours = 6\nrebalance_mb = {4 * ROW_BYTES / 1e6}"))
    assert once(load(path)).endswith("will: paris gives 4")
    (moved,) = ordered(tmp_path / "paris")
    assert len(moved) == 4
    assert set(moved.values()) == {"tokyo"}


def test_it_needs_a_period_and_says_what_keeps_it_from_moving_hosts(federation: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="say how often: rebalance_hours = 6"):
        Rebalancing(federation, RealClock(), print)
    federation.write_text(federation.read_text().replace('"fennel"', '"ring"\nrebalance_hours = 1'))
    with pytest.raises(ConfigError, match="partitioner ring"):
        Rebalancing(federation, RealClock(), print)
    assert once(load(federation)).startswith("no rebalance this time: with the partitioner ring")


def test_it_ends_when_no_site_crawls_any_more(federation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation.write_text(federation.read_text().replace('"fennel"', '"fennel"\nrebalance_hours = 1e-9'))
    states = iter(["not reached", "crawling", "not reached"])
    monkeypatch.setattr(rebalancing, "status", lambda _: [{"state": next(states)}, {"state": "ended"}])
    said: list[str] = []
    Rebalancing(federation, RealClock(), said.append, step_s=0.001).run()
    assert len(said) == 3, "it waits for sites that have not begun"
    assert said[-1] == "no site crawls any more, or none can be reached"
