import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sample_archive import NOW_S, A, Sample, page, sample

from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.errors import ArchiveError
from gossamer.watch.status import render, status


def drawn(found: dict[str, Any], width: int = 80) -> str:
    to = Console(file=io.StringIO(), width=width)
    to.print(render(found))
    return to.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    return sample(tmp_path / "crawl")


def test_status(crawl: Path) -> None:
    Sample(crawl).commit(state={"busy_s": 4.0, "started_s": NOW_S})
    found = status(crawl)
    assert not found["running"]
    assert found["agents"] == {"a0": {"round": 3, "committed_s": NOW_S + 3, "pid": None}}
    assert (found["visits"], found["known"], found["frontier"], found["hosts"]) == (2, 3, 1, 2)
    assert found["outcomes"] == {"ok": 1, "moved": 1}
    assert found["errors"] == {}
    assert found["rate"] == {"mean": 0.5, "recent": 4 / 61, "recent_rounds": 2}
    assert found["statuses"] == {"new": 1, "fetched": 1, "moved": 1, "failed": 1}
    assert found["top_hosts"][0] == {
        "host": "a.test", "pages": 2, "visited": 2, "ok": 2, "errors": 0, "wire_bytes": 190,
        "energy_j": 0.0, "carbon_g": 0.0,
    }  # fmt: skip
    assert found["disk_bytes"] == sum(
        path.stat().st_size for folder in ("warc", "cdxj", "tables") for path in (crawl / folder).iterdir()
    )
    assert found["last_commit_s"] == NOW_S + 3
    assert json.loads(json.dumps(found)) == found


def test_rendered(crawl: Path) -> None:
    text = drawn(status(crawl), 100)
    for part in ("not running", "2  in 2 rounds", "pages of 2 hosts", "2025-06-15 15:06:42 UTC", "a.test"):
        assert part in text
    assert max(map(len, drawn(status(crawl)).splitlines())) <= 80


@pytest.mark.parametrize(("ahead_s", "is_said"), [(90.0, True), (-5.0, False)])
def test_what_is_waited_for_is_said(crawl: Path, ahead_s: float, is_said: bool) -> None:
    until_s = RealClock().now() + ahead_s
    Sample(crawl).commit(state={"waits_until_s": until_s})
    found = status(crawl)
    assert found["waits_until_s"] == (until_s if is_said else None)
    assert ("waits until" in drawn(found)) == is_said


def test_unknown_is_a_dash(crawl: Path) -> None:
    found = status(crawl)
    assert found["busy_s"] is None
    assert found["rate"]["mean"] is None
    assert ["traffic", "-", "bodies", "as", "sent"] in [line.split() for line in drawn(found).splitlines()]


def test_a_running_crawl(crawl: Path) -> None:
    with Directory(crawl).lock("a0"):
        found = status(crawl)
    assert found["running"]
    assert found["agents"]["a0"]["pid"] == os.getpid()
    assert f"running (process {os.getpid()})" in drawn(found, 200)


def test_before_the_first_commit(tmp_path: Path) -> None:
    store = Directory.prepare(tmp_path / "crawl", NOW_S)
    with store.lock("a0"):
        found = status(tmp_path / "crawl")
    assert found["running"]
    assert found["rounds"] == 0
    assert found["last_commit_s"] is None
    assert found["statuses"] == {}
    assert "nothing committed yet" in drawn(found, 200)


def test_big_crawls_are_not_scanned(crawl: Path) -> None:
    found = status(crawl, scanned_rows=3)
    assert found["statuses"] is None
    assert found["top_hosts"] is None
    assert "most visited" not in drawn(found)
    assert status(crawl)["statuses"]["new"] == 1


def test_agents_are_added_up(crawl: Path) -> None:
    counters = {"visits": 5, "ok": 4, "timeout": 1, "known": 9}
    Sample(crawl, "a1").commit(["http://z.test/"], [page("http://z.test/", "x")], state={"counters": counters})
    found = status(crawl)
    assert found["visits"] == 7
    assert found["known"] == 12
    assert found["outcomes"] == {"ok": 5, "moved": 1, "timeout": 1}
    assert found["errors"] == {"timeout": 1}
    assert found["rounds"] == 3


def test_no_crawl(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no crawl"):
        status(tmp_path)


def test_hostile_host_names_are_harmless(crawl: Path) -> None:
    found = status(crawl)
    found["top_hosts"][0]["host"] = "\x1b[2Jx"
    assert "\x1b" not in drawn(found)
    assert A not in drawn(found)
