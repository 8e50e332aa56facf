"""Copies of an archive in buckets, archives in buckets with copies on disks, and what moves between the two."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import answer, complaint, run, succeed
from crawls import crawl, statuses, visited
from earlier_archives import unpacked
from object_stores import Server, at

from gossamer.archive.chain import snapshots
from gossamer.archive.copies import restore
from gossamer.archive.mark import LAYOUT
from gossamer.archive.object_store import ObjectStore
from gossamer.archive.query import ask
from gossamer.archive.store import Directory, Store
from gossamer.config.folders import Address
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(seed=4, hosts=8, pages=120, page_bytes=1_000.0, errors=0.0, robots_broken=0.0, crawl_delays=0.0)


@pytest.fixture
def weed(object_servers: Callable[[str], Server], tmp_path: Path) -> Iterator[Server]:
    server = object_servers("seaweedfs")
    with at(server, tmp_path / "cache"):
        yield server


def files(store: Store) -> dict[str, bytes]:
    names = {name for each in snapshots(store).values() for name in each.names()}
    return {name: store.get(name) for name in {*names, *store.list("manifest/")}}


def test_a_lost_directory_comes_back_from_a_bucket(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    whole = crawl(web, tmp_path / "whole")
    first, address = tmp_path / "crawl", weed.address()
    values = {"site.copies": 2, "site.disks": [str(address)], "crawl.width": 20}
    crawl(web, first, {**values, "crawl.pages": 60})
    kept = files(Directory(first))
    assert files(ObjectStore.open(address)) == kept
    shutil.rmtree(first)
    assert "files restored to crawl" in succeed("restore", "crawl", address, at=tmp_path)
    assert files(Directory(first)) == kept
    found = crawl(web, first, values, seeds=[])
    assert statuses(found) == statuses(whole)
    assert len(visited(found)) == len(set(visited(found))), "nothing is visited twice"


@pytest.mark.slow
def test_a_crawl_in_a_bucket_has_copies_elsewhere(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    """The copy takes the place of a bucket that is lost: the crawl goes on in another one."""
    whole = crawl(web, tmp_path / "whole")
    address, disk, other = weed.address(), tmp_path / "disk", weed.address()
    values = {"site.copies": 2, "site.disks": [str(disk)], "crawl.width": 20}
    crawl(web, address, {**values, "crawl.pages": 60})
    kept = files(Directory(disk))
    assert kept == files(ObjectStore.open(address))
    name = next(name for name in kept if name.startswith("warc/"))
    store = ObjectStore.open(address)
    store.delete(name)
    store.settle()
    crawl(web, address, {**values, "crawl.pages": 70}, seeds=[])
    assert ObjectStore.open(address, folder=tmp_path / "fresh").get(name) == kept[name], "reading heals"
    assert restore(other, [disk]) > 10
    assert answer("verify", other, "--json", at=tmp_path)["faults"] == []
    found = crawl(web, other, {"crawl.width": 20}, seeds=[])
    assert statuses(found) == statuses(whole)
    assert len(visited(found)) == len(set(visited(found))), "nothing is visited twice"


def test_an_archive_moves_into_a_bucket_and_back(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    there, address = tmp_path / "crawl", weed.address()
    found = crawl(web, there, {"crawl.width": 40})
    run("restore", address, "crawl", at=tmp_path)
    assert answer("status", address, "--json", at=tmp_path)["visits"] == len(visited(found))
    run("restore", "back", address, at=tmp_path)
    assert files(Directory(tmp_path / "back")) == files(Directory(there))
    assert (tmp_path / "back" / "last-run.toml").read_bytes() == (there / "last-run.toml").read_bytes()


def test_what_cannot_be_restored(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    crawl(web, tmp_path / "crawl", {"crawl.pages": 5})
    address = weed.address()
    assert f"{address} holds no copies of a crawl" in complaint("restore", "new", address, at=tmp_path)
    succeed("restore", address, "crawl", at=tmp_path)
    assert f"{address} holds a crawl already" in complaint("restore", address, "crawl", at=tmp_path)
    inside = complaint("restore", f"{address}/inside", address, at=tmp_path)
    assert "must be different directories or addresses" in inside
    assert "there is no bucket nowhere" in complaint("restore", "s3://nowhere/crawl", "crawl", at=tmp_path)
    assert "there is no bucket nowhere" in complaint("restore", "new", "s3://nowhere/crawl", at=tmp_path)
    assert not (tmp_path / "new").exists()
    with at(weed, tmp_path / "cache", AWS_SECRET_ACCESS_KEY="wrong"):
        assert "read, write, list and delete there" in complaint("restore", "new", address, at=tmp_path)


def test_an_earlier_layout_in_a_bucket(weed: Server, tmp_path: Path) -> None:
    """It can be asked, not crawled on, and migrated; doing it again changes nothing."""
    address = _uploaded(unpacked("alone", tmp_path, layout=LAYOUT - 1), weed.address())
    assert len(ask(address, "SELECT url FROM visits WHERE NOT is_robots")) == 5
    refused = run("crawl", "--dir", address, "--contact", "me@gossamer-tests.org", at=tmp_path).stderr.decode()
    assert f"`gossamer migrate {address}` brings it up to date" in refused
    assert f"{address}: 5 manifests were brought up to layout {LAYOUT}" in _said("migrate", address, at=tmp_path)
    assert json.loads(ObjectStore.open(address).get("gossamer.json"))["layout"] == LAYOUT
    assert f"{address}: is up to date (layout {LAYOUT})" in _said("migrate", address, at=tmp_path)
    assert len(ask(address, "SELECT url FROM visits WHERE NOT is_robots")) == 5
    assert answer("verify", address, "--json", at=tmp_path)["faults"] == []
    assert "holds no crawl" in complaint("migrate", weed.address(), at=tmp_path)


def _said(*arguments: str, at: Path) -> str:
    done = run(*arguments, at=at)
    assert done.returncode == 0
    return done.stderr.decode()


def _uploaded(directory: Path, address: Address) -> Address:
    store = ObjectStore(address)
    for path in directory.rglob("*"):
        if path.is_file() and path.parent.name != "lock":
            store.put(str(path.relative_to(directory)), path.read_bytes())
    store.settle()
    return address
