"""A disk that fills up under several agents: the crawl ends with a message, nothing committed is lost, it goes on."""

from dataclasses import replace
from pathlib import Path

import pytest
from commands import line
from site_support import Site, check_same, check_zones, snapshots
from support import Command
from test_disk_full import DISK_BYTES, OPTIONS, SPEC, mounted

from gossamer.testweb.running import RunningWeb

# How much is free when a run starts, in kilobytes: the server and each agent need some.
FREE_KB = (0, 8, 64, 128, 256, 512, 1024)
PAGES = replace(SPEC, pages=300)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_disk_full(tmp_path: Path) -> None:
    with RunningWeb(PAGES) as web, mounted(tmp_path / "disk") as disk:
        plain = Command(web, tmp_path / "undisturbed", OPTIONS)
        plain.finish(120)
        site = Site(web, disk.path / "crawl", [*OPTIONS, "--agents", "3"])
        command = line(*site.arguments())
        for free_kb in FREE_KB:
            disk.fill(free_kb << 10)
            result = disk.run(*command)
            assert result.returncode == 1, (free_kb, result.stdout, result.stderr)
            assert "Traceback" not in result.stderr, (free_kb, result.stderr)
            assert "o space left" in result.stderr, (free_kb, result.stderr)
            copy = disk.copy("crawl", tmp_path / "copy")
            if (copy / "gossamer.json").exists() and "a0" in snapshots(copy):
                check_zones(copy)
        disk.fill(DISK_BYTES)
        result = disk.run(*command)
        assert result.returncode == 0, result.stderr
        found = disk.copy("crawl", tmp_path / "copy")
    check_same(found, plain.directory)
