"""A crawl that dies once at every write, sync, link, rename and removal up to the end of a commit loses nothing."""

from collections import Counter
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

from gossamer.crawl.ledger import Ledger
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

WIDTH = 8
# With one connection and nothing that depends on the clock, the order of pages is part of what must not change.
SPEC = WebSpec(
    seed=5, hosts=12, pages=500, links=15.0, page_bytes=2_000.0, changing=0.0, errors=0.0, crawl_delays=0.0,
    robots_broken=0.0, gzip=0.3, chunked=0.3,
)  # fmt: skip
OPTIONS = [
    "--width", str(WIDTH), "--delay", "0", "--scope", "any", "--connections", "1", "--depth", "250",
    "--set", "limits.depth_dynamic=250", "--set", "archive.merge_files=2",
]  # fmt: skip
MOST = 400  # operations up to the end of the first round


def check_committed(directory: Path) -> int:
    """What the newest manifest names is there and makes sense; its number."""
    snapshot = snapshot_of(directory)
    if snapshot.number:
        assert all((directory / name).exists() for name in snapshot.names())
        stored = sum(int(rows["cash"].sum(dtype=np.int64)) for rows in open_index(directory).pages.scan())
        assert Ledger.from_dict(snapshot.state["ledger"]).missing(stored) == 0
    return snapshot.number


def die_everywhere(command: Command, report: Path, power_cut: bool, eager: bool) -> list[str]:
    """Die at operation 1, then at operation 2, and so on, until a round has been committed before that. Returns at
    which operations."""
    died: list[str] = []
    number = 0
    while len(died) < MOST:
        report.unlink(missing_ok=True)
        with command.forked(Death(len(died) + 1, command.directory, report, power_cut, eager)) as process:
            process.join(60)
            assert process.exitcode in (0, -9), f"exit code {process.exitcode}: {command.said()}"
            survived = process.exitcode == 0
        lines = report.read_text().splitlines()
        if survived:
            assert "committed" in lines, "the crawl ended before the test did; make the web larger"
            return died
        died.append(lines[-1])
        if (command.directory / "manifest").exists():
            before, number = number, check_committed(command.directory)
            assert number >= before, "a committed round vanished"
    raise AssertionError(f"no commit within {MOST} operations: {Counter(line.split()[0] for line in died)}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("power_cut", "eager"), [(False, False), (True, True)], ids=["killed", "power-cut"])
def test_die_at_every_operation(tmp_path: Path, power_cut: bool, eager: bool) -> None:
    with RunningWeb(SPEC, log_path=tmp_path / "requests") as web:
        plain = Command(web, tmp_path / "undisturbed", OPTIONS)
        plain.finish(60)
        asked = len(web.log())
        command = Command(web, tmp_path / "crawl", OPTIONS)
        died = die_everywhere(command, tmp_path / "report", power_cut, eager)
        log = web.log()
    kinds = Counter(line.split()[0] for line in died)
    assert kinds.keys() >= {"write", "truncate", "sync", "link", "rename", "remove", "folder"}, kinds
    one, other = command.directory, plain.directory
    assert differing(statuses(one), statuses(other)) == {}
    assert differing(outcomes(one), outcomes(other)) == {}
    assert differing(hits(one), hits(other)) == {}
    assert order(one) == order(other)
    check_visited_once(one, 0)
    check_index(one)
    check_no_leftovers(one)
    pages = Counter(url for url in log.urls[asked:] if not url.endswith("robots.txt"))
    assert sum(count - 1 for count in pages.values()) <= len(died) * WIDTH, "a death costs one round at most"
