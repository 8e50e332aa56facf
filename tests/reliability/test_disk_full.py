"""A disk that fills up ends a crawl with a message that says what to do; nothing committed is lost, and it goes on.

The disk is a small tmpfs in a mount namespace of its own: nobody else sees it, and it is gone with its last process.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from commands import ROOT, environment, line
from support import (
    Command,
    check_index,
    check_no_leftovers,
    check_visited_once,
    differing,
    hits,
    outcomes,
    snapshot_of,
    statuses,
)

from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

SPEC = WebSpec(
    seed=4, hosts=8, pages=600, links=15.0, page_bytes=6_000.0, changing=0.0, errors=0.0, crawl_delays=0.0,
    robots_broken=0.0,
)  # fmt: skip
OPTIONS = [
    "--width", "20", "--delay", "0", "--scope", "any", "--connections", "8", "--depth", "250",
    "--set", "limits.depth_dynamic=250", "--set", "archive.merge_files=3",
]  # fmt: skip
DISK_BYTES = 16 << 20
# How much is free when a run starts, in kilobytes: nothing at all, then room for ever more of what a commit writes.
FREE_KB = (0, 4, 8, 12, 16, 20, 28, 36, 44, 52, 68, 100, 140, 180, 240, 300, 400)
MESSAGE = "free some, then run the same command again; everything committed so far is safe"

_HOLD = 'mount -t tmpfs -o "size=$1" gossamer-test "$0" && echo ready && exec cat'
_FILL = """
import os, sys
path, free = sys.argv[1], int(sys.argv[2])
if os.path.exists(path):
    os.unlink(path)
there = os.statvfs(os.path.dirname(path))
size = there.f_bavail * there.f_frsize - free
if size > 0:
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
"""


class Disk:
    """A small disk at `path`, for processes that are started by `run`."""

    def __init__(self, path: Path, process: "subprocess.Popen[bytes]", options: Sequence[str]) -> None:
        self.path = path
        self._enter = ["nsenter", f"--target={process.pid}", "--mount", *options]

    def run(self, *command: str | Path, timeout_s: float = 120.0) -> "subprocess.CompletedProcess[str]":
        line = [*self._enter, *map(str, command)]
        return subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment())

    def fill(self, free_bytes: int) -> None:
        """Leave so much; all of it if there is less."""
        result = self.run(sys.executable, "-c", _FILL, self.path / "ballast", str(free_bytes))
        assert result.returncode == 0, result.stderr

    def copy(self, name: str, target: Path) -> Path:
        """A directory of it, where everybody can see it."""
        if target.exists():
            shutil.rmtree(target)
        result = self.run("cp", "-a", self.path / name, target)
        assert result.returncode == 0, result.stderr
        return target


@contextlib.contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """Skips the test where mounting is not permitted."""
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    hold = ["unshare", "--mount", *own, "sh", "-c", _HOLD, str(path), str(DISK_BYTES)]
    path.mkdir()
    try:
        process = subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError:
        pytest.skip("needs unshare and nsenter (util-linux)")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline().decode().strip()
        if said != "ready":
            pytest.skip(f"may not mount a small disk here: {said}")
        yield Disk(path, process, ["--user", "--preserve-credentials"] if own else [])
    finally:
        process.stdin.close()  # which ends it, and the disk with it
        process.wait(10)
        process.stdout.close()


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_disk_full(tmp_path: Path, every: int) -> None:
    with RunningWeb(SPEC) as web, mounted(tmp_path / "disk") as disk:
        plain = Command(web, tmp_path / "undisturbed", OPTIONS)
        plain.finish(60)
        command = Command(web, disk.path / "crawl", OPTIONS)
        words = line(*command.arguments())
        numbers: list[int] = []
        places: set[str] = set()
        for free_kb in FREE_KB[::every]:
            disk.fill(free_kb << 10)
            result = disk.run(*words)
            assert result.returncode == 1, (free_kb, result.stdout, result.stderr)
            assert result.stderr.startswith(f"gossamer: no space left for {disk.path}"), result.stderr
            assert result.stderr.strip().endswith(MESSAGE), result.stderr
            assert len(result.stderr.splitlines()) == 1, result.stderr
            place = result.stderr.removeprefix(f"gossamer: no space left for {command.directory}").split(":")[0]
            places.add(place.removeprefix("/tmp").strip("/").split("+")[0].split("/")[0])
            numbers.append(committed_rounds(disk, tmp_path / "copy"))
        assert len(places) >= (4 if every == 1 else 2), f"it was always the same that found no space: {places}"
        assert numbers == sorted(numbers), "committed rounds vanished"
        assert 0 < numbers[-1] < snapshot_of(plain.directory).number, "the crawl ended, or never began"
        for command_line in (["status", command.directory, "--json"], ["query", command.directory, "FROM hosts"]):
            result = disk.run(*line(*command_line))
            assert result.returncode == 0, f"a full disk can still be read: {result.stderr}"
        disk.fill(DISK_BYTES)
        result = disk.run(*words)
        assert result.returncode == 0, result.stderr
        found = disk.copy("crawl", tmp_path / "copy")
    assert differing(statuses(found), statuses(plain.directory)) == {}
    assert differing(outcomes(found), outcomes(plain.directory)) == {}
    assert differing(hits(found), hits(plain.directory)) == {}
    check_visited_once(found, 0)
    check_index(found)
    check_no_leftovers(found)
    assert not any((tmp_path / "disk").iterdir()), "the disk is not gone"


def committed_rounds(disk: Disk, copy: Path) -> int:
    """On the full disk: what is committed can be read and is whole; how many rounds."""
    found = disk.copy("crawl", copy)
    if not (found / "manifest").exists() or not snapshot_of(found).number:
        return 0
    check_index(found)
    return snapshot_of(found).number


def test_nothing_is_left_mounted(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        assert disk.run("touch", disk.path / "file").returncode == 0
        assert disk.run("ls", disk.path).stdout == "file\n"
        assert str(disk.path) not in Path("/proc/self/mountinfo").read_text()
    assert list((tmp_path / "disk").iterdir()) == []
    assert ROOT.exists()
