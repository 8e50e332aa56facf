"""Sites whose archives are in buckets crawl as sites in directories do."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import answer, complaint, run
from crawls import QUICK, crawl, statuses
from federations import federation, write
from object_stores import Server, at

from gossamer.archive.query import ask
from gossamer.cluster.adoption import adopt
from gossamer.cluster.federation_file import load
from gossamer.cluster.location import locate
from gossamer.errors import ConfigError
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(
    seed=21, hosts=20, pages=200, page_bytes=2_000.0, links=20.0, local=0.6, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 60, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 16,
}  # fmt: skip


@pytest.fixture
def weed(object_servers: Callable[[str], Server], tmp_path: Path) -> Iterator[Server]:
    server = object_servers("seaweedfs")
    with at(server, tmp_path / "cache"):
        yield server


def in_buckets(path: Path, **directories: str) -> None:
    """Gives sites of the file a directory, or an address."""
    for site, place in directories.items():
        path.write_text(path.read_text().replace(f"[sites.{site}]\n", f'[sites.{site}]\ndirectory = "{place}"\n'))


def test_two_sites_in_a_bucket_and_one_in_a_directory(web: RunningWeb, weed: Server, tmp_path: Path) -> None:
    alone = crawl(web, tmp_path / "alone", VALUES)
    lines = len(web.log())
    values = {**VALUES, "resolve.map": {"*": web.address}}
    with federation(tmp_path, ["north", "east", "south"], values) as sites:
        path = sites.federation.path
        places = {"north": weed.address(), "east": weed.address()}
        in_buckets(path, **places)
        sites.federation = load(path)
        sites.start_all(*web.start_urls)
        sites.wait()
        assert sites.statuses() == statuses(alone)
        requests = Counter(web.log().urls[lines:])
        assert set(requests.values()) == {1}, "each page and each robots.txt is asked for once"
        rows = answer("federation", "status", path, "--json", at=tmp_path)
        assert {row["site"]: row["state"] for row in rows} == dict.fromkeys(("north", "east", "south"), "ended")
        assert not (tmp_path / "north").exists()
        for site, place in places.items():
            assert answer("verify", place, "--json", at=tmp_path)["faults"] == []
            assert ask(place, "SELECT count(*) AS n FROM pages")[0]["n"] > 0, site


def test_mistakes_with_sites_in_buckets(weed: Server, tmp_path: Path) -> None:
    values = {"fetch.contact": "me@gossamer-tests.org"}
    path = write(tmp_path, {"north": 4301, "east": 4302}, values, 1)
    plain = path.read_text()

    def said(*arguments: object, **directories: str) -> str:
        path.write_text(plain)
        in_buckets(path, **directories)
        return complaint(*arguments, at=tmp_path)

    crawling = ("site", "run", "--name", "north", path, "http://h0.test/", "--quiet")
    run("federation", "keys", path, at=tmp_path)
    assert "there is no bucket nowhere" in said(*crawling, north="s3://nowhere/north")
    address = weed.address()
    assert f"north and east have the same directory, {address}" in said(*crawling, north=address, east=address)
    assert re.search(r"north and east have the same directory, .*/east", said(*crawling, north="east"))
    assert "neither credentials nor options in it" in said(*crawling, north="s3://me:hush@box/north")
    with at(weed, tmp_path / "cache", AWS_SECRET_ACCESS_KEY="wrong"):
        assert "read, write, list and delete there" in said(*crawling, north=address)
    path.write_text(plain.replace("[federation]", "[federation]\nreplicas = 2"))
    in_buckets(path, east=address)
    with pytest.raises(ConfigError, match=rf"replicas is for sites in directories; east is at {address}"):
        load(path)
    path.write_text(plain)
    in_buckets(path, east=address)
    with pytest.raises(ConfigError, match="not lost with its machine"):
        adopt(load(path), "east")
    assert str(locate(path)) == str(path)
