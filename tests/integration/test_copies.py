"""A crawl whose files are on several disks survives the loss of one."""

import shutil
from pathlib import Path

import pytest
from crawls import crawl, statuses, visited

from gossamer import Config, Crawl
from gossamer.archive.chain import Chain
from gossamer.archive.copies import disks_of, restore
from gossamer.archive.store import Directory
from gossamer.errors import ArchiveError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=4, hosts=12, pages=240, page_bytes=2_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0)


def files(directory: Path, agent: str = "a0") -> dict[str, bytes]:
    store = Directory(directory)
    names = {*Chain.read(store, agent).names(), *store.list(f"manifest/{agent}/")}
    return {name: store.get(name) for name in names}


def test_a_lost_disk_loses_nothing(web: RunningWeb, tmp_path: Path) -> None:
    whole = crawl(web, tmp_path / "whole")
    first, other = tmp_path / "crawl", tmp_path / "other"
    values = {"site.copies": 2, "site.disks": [str(other)], "crawl.width": 30}
    crawl(web, first, {**values, "crawl.pages": 100})
    assert files(first) == files(other)
    shutil.rmtree(first)
    assert restore(first, [other]) > 10
    found = crawl(web, first, values, seeds=[])
    assert statuses(found) == statuses(whole)
    assert len(visited(found)) == len(set(visited(found))), "nothing is visited twice"
    assert files(first) == files(other)


def test_what_a_crash_left_on_a_copy_is_not_restored(web: RunningWeb, tmp_path: Path) -> None:
    """A copy is written before the original: whoever dies in between leaves a file that no manifest ever names."""
    first, other = tmp_path / "crawl", tmp_path / "other"
    values = {"site.copies": 2, "site.disks": [str(other)], "crawl.width": 30}
    crawl(web, first, {**values, "crawl.pages": 100})
    (other / "warc" / "a0-00000001-9.warc.gz").write_bytes(b"half of a round")
    (other / "notes.txt").write_text("mine")
    shutil.rmtree(first)
    restore(first, [other])
    assert not (first / "warc" / "a0-00000001-9.warc.gz").exists()
    assert (first / "notes.txt").read_text() == "mine"
    assert len(visited(crawl(web, first, {**values, "crawl.pages": 110}, seeds=[]))) >= 110


def test_a_new_disk_gets_what_it_lacks(web: RunningWeb, tmp_path: Path) -> None:
    first, other = tmp_path / "crawl", tmp_path / "other"
    values = {"site.copies": 2, "site.disks": [str(other)], "crawl.width": 30}
    crawl(web, first, {**values, "crawl.pages": 60})
    shutil.rmtree(other)
    crawl(web, first, {**values, "crawl.pages": 120}, seeds=[])
    assert files(first) == files(other)


def test_several_agents_use_several_disks(web: RunningWeb, tmp_path: Path) -> None:
    whole = crawl(web, tmp_path / "whole")
    disks = [tmp_path / "b", tmp_path / "c"]
    values = {"site.copies": 2, "site.disks": [str(disk) for disk in disks], "site.agents": 2}
    first = tmp_path / "crawl"
    crawl(web, first, values)
    assert files(first, "a0") == files(disks[0], "a0")
    assert files(first, "a1") == files(disks[1], "a1")
    shutil.rmtree(first)
    restore(first, disks)
    assert statuses(Crawl(first, (), Config())) == statuses(whole)


def test_disks_of_agents() -> None:
    assert disks_of("a0", ["x", "y", "z"], 3) == ["x", "y"]
    assert disks_of("a2", ["x", "y", "z"], 3) == ["z", "x"]
    assert disks_of("b", ["x"], 1) == []
    with pytest.raises(ArchiveError, match=r"takes 2 more in site\.disks, where 1 are given"):
        disks_of("a0", ["x"], 3)


def test_mistakes(web: RunningWeb, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="must be different directories"):
        crawl(web, tmp_path / "crawl", {"site.copies": 2, "site.disks": [str(tmp_path / "crawl")]})
    crawl(web, tmp_path / "two", {"crawl.pages": 1})
    with pytest.raises(ArchiveError, match="holds a crawl already"):
        restore(tmp_path / "two", [tmp_path / "two"])
    with pytest.raises(ArchiveError, match="holds no copies"):
        restore(tmp_path / "new", [tmp_path / "nothing"])
