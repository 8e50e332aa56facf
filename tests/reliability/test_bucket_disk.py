"""The disk of the cache fills up while the archive is in a bucket: the crawl says what to do, and goes on when there is
room again. The disk is a real one, small (see test_disk_full.py)."""

import sys
from collections.abc import Callable
from pathlib import Path

from commands import line
from object_stores import Server, at
from support import differing
from test_disk_full import OPTIONS, SPEC, mounted

from gossamer.archive.query import ask
from gossamer.config.folders import Address
from gossamer.testweb.running import RunningWeb

FREE_KB = (0, 64, 512)
MESSAGE = "no space left for"
REMEDY = "everything committed so far is safe"
STATUSES = "SELECT url, status FROM pages"


def test_a_full_cache_disk(object_servers: Callable[[str], Server], tmp_path: Path) -> None:
    weed = object_servers("seaweedfs")
    address: Address = weed.address()
    with RunningWeb(SPEC) as web, mounted(tmp_path / "disk") as disk:

        def crawl(place: str) -> list[str]:
            return line("crawl", *web.start_urls, "--dir", place, "--testweb", web.address, "--quiet", *OPTIONS)

        with at(weed, disk.path / "cache"):
            full = 0
            for free_kb in FREE_KB:
                disk.fill(free_kb << 10)
                done = disk.run(*crawl(address))
                assert done.returncode in (0, 1), done.stderr
                assert "Traceback" not in done.stderr
                if done.returncode:
                    full += 1
                    assert MESSAGE in done.stderr
                    assert REMEDY in done.stderr
            assert full >= 2, "the disk was never full"
            disk.run(sys.executable, "-c", f"import os; os.unlink({str(disk.path / 'ballast')!r})")
            done = disk.run(*crawl(address))
            assert (done.returncode, done.stderr) == (0, "")
        with at(weed, tmp_path / "elsewhere"):
            undisturbed = disk.run(*crawl(str(tmp_path / "plain")))
            assert undisturbed.returncode == 0
            found, expected = (
                {row["url"]: row["status"] for row in ask(place, STATUSES)} for place in (address, tmp_path / "plain")
            )
    assert len(expected) > 300
    assert differing(found, expected) == {}
