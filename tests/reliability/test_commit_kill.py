"""A crawl that dies at every write, sync, link, rename and removal, one after the other, loses nothing."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from dying import Death
from support import (
    Command,
    check_index,
    check_no_leftovers,
    check_visited_once,
    differing,
    hits,
    open_index,
    order,
    outcomes,
    snapshot_of,
    statuses,
)

from gossamer.archive.chain import Chain
from gossamer.archive.store import Directory
from gossamer.crawl.inbox import Inbox
from gossamer.crawl.ledger import Ledger
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WIDTH = 8
# With one connection and nothing that depends on the clock, the order of pages is part of what must not change.
SPEC = WebSpec(
    seed=5, hosts=12, pages=400, links=15.0, page_bytes=2_000.0, changing=0.0, errors=0.0, crawl_delays=0.0,
    robots_broken=0.0, gzip=0.3, chunked=0.3,
)  # fmt: skip
OPTIONS = [
    "--width", str(WIDTH), "--delay", "0", "--scope", "any", "--connections", "1", "--depth", "250",
    "--set", "limits.depth_dynamic=250", "--set", "archive.merge_files=2",
]  # fmt: skip
MOST = 400  # operations up to the end of a round
EVERY_KIND = {"write", "truncate", "sync", "link", "rename", "remove"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """A crawl that nobody disturbed."""
    where = tmp_path_factory.mktemp("plain")
    with RunningWeb(SPEC, log_path=where / "requests") as web:
        command = Command(web, where / "crawl", OPTIONS)
        command.finish(60)
        yield command


def die(command: Command, death: Death) -> list[str]:
    """What it did until it died; the last one is what it died of. `committed` is last if it did not die."""
    death.report.unlink(missing_ok=True)
    with command.forked(death) as process:
        process.join(60)
        assert process.exitcode in (0, -9), f"exit code {process.exitcode}: {command.said()}"
        survived = process.exitcode == 0
    lines = death.report.read_text().splitlines()
    assert survived == (lines[-1] == "committed"), "the crawl ended before the test did; make the web larger"
    return lines


def check_committed(directory: Path) -> int:
    """What the newest manifest names is there and makes sense; its number."""
    snapshot = snapshot_of(directory)
    if snapshot.number:
        assert [name for name in snapshot.names() if not (directory / name).exists()] == []
        stored = sum(int(rows["cash"].sum(dtype=np.int64)) for rows in open_index(directory).pages.scan())
        assert Ledger.of(snapshot.state.ledger).missing(stored) == 0
    return snapshot.number


def test_die_one_operation_later_each_time(plain: Command, tmp_path: Path) -> None:
    """From an empty directory on: each run gets one operation further, until one commits a round before it dies."""
    asked = len(plain.web.log())
    command = Command(plain.web, tmp_path / "crawl", OPTIONS)
    died: list[str] = []
    number = 0
    while (last := die(command, Death(len(died) + 1, command.directory, tmp_path / "report"))[-1]) != "committed":
        died.append(last)
        assert len(died) < MOST, Counter(line.split()[0] for line in died)
        if (command.directory / "manifest").exists():
            before, number = number, check_committed(command.directory)
            assert number >= before, "a committed round vanished"
    assert {line.split()[0] for line in died} >= EVERY_KIND | {"folder"}
    one, other = command.directory, plain.directory
    assert differing(statuses(one), statuses(other)) == {}
    assert differing(outcomes(one), outcomes(other)) == {}
    assert differing(hits(one), hits(other)) == {}
    assert order(one) == order(other)
    check_visited_once(one, 0)
    check_index(one)
    check_no_leftovers(one)
    pages = Counter(url for url in plain.web.log().urls[asked:] if not url.endswith("robots.txt"))
    assert sum(count - 1 for count in pages.values()) <= len(died) * WIDTH, "a death costs one round at most"


@pytest.mark.parametrize("power_cut", [False, True], ids=["killed", "power-cut"])
def test_die_at_every_operation_of_a_commit(plain: Command, tmp_path: Path, power_cut: bool) -> None:
    """From copies of a crawl under way, whose next commits merge files, fold the index and remove old files."""
    base = tmp_path / "base"
    Command(plain.web, base, [*OPTIONS, "--set", "archive.merge_files=0", "--rounds", "2"]).finish(60)
    whole, done = order(plain.directory), len(order(base))
    assert order(base) == whole[:done]
    command = Command(plain.web, tmp_path / "crawl", [*OPTIONS, "--rounds", "1"])

    def dead_at(number: int) -> tuple[list[str], list[str]]:
        """What it did, and the order of visits that is left."""
        shutil.copytree(base, command.directory)
        death = Death(number, command.directory, tmp_path / "report", power_cut, eager=True)
        lines = die(command, death)
        check_recovery(command.directory)
        if "manifest" in lines[-1]:
            check_index(command.directory)
        left = order(command.directory)
        shutil.rmtree(command.directory)
        return lines, left

    lines, left = dead_at(0)
    assert left == whole[: done + WIDTH]
    assert {line.split()[0] for line in lines[:-1]} == EVERY_KIND
    assert any(line.startswith("rename warc/") and line.count("-0") == 3 for line in lines), "no files were merged"
    assert any(line.startswith("rename index/frontier-") for line in lines), "no frontier was kept"
    number, survived = 0, False
    while not survived:
        number += 1
        # Sizes depend on the time, so that a file may take a write more or less.
        near = lines[max(number - 2, 0) : number + 1]
        if power_cut and near and all(line.startswith("write") for line in near):
            continue  # the same is lost whichever write it was
        died, left = dead_at(number)
        survived = died[-1] == "committed"
        assert left == whole[: done + WIDTH * is_committed(died[:-1], power_cut)], died[-1]
        assert number < MOST


def is_committed(lines: list[str], power_cut: bool) -> bool:
    """Whether the manifest of the round was there; that of the beginning comes first."""
    links = [place for place, line in enumerate(lines) if line.startswith("link manifest/")]
    return len(links) == 2 and (not power_cut or "sync manifest/a0" in lines[links[1] :])


def check_recovery(directory: Path) -> None:
    """As the next crawl begins: what is not committed is swept, what is committed is whole."""
    before = check_committed(directory)
    store = Directory(directory)
    Chain.open(store, "a0", Inbox(store))
    assert check_committed(directory) == before
    check_no_leftovers(directory)
