"""A scan whose clients are killed, or slow, or whose coordinator dies ends like one that nobody disturbed."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import environment, line

from experiments.processes import family
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

HOSTS = 6
SPEC = WebSpec.plain(seed=32, hosts=HOSTS, pages=90, page_bytes=1_500.0, links=8.0, local=0.7)
PATIENCE_S = 100.0
SLOW = ("--delay", "0.08", "--depth", "4", "--at-once", "1", "--json", "--set", "crawl.patience_s=1")


def begin(web: RunningWeb, here: Path, *options: str) -> "subprocess.Popen[str]":
    (here / "SITES.txt").write_text("".join(f"h{number}.test\n" for number in range(HOSTS)))
    command = line("scan", "SITES.txt", "--testweb", web.address, *SLOW, *options)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=here, env=environment(), text=True, **pipes)


def finish(process: "subprocess.Popen[str]") -> dict[str, Any]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def done(here: Path, number: int = 1) -> list[Path]:
    return list((here / "scan" / "scans" / f"{number:04}" / "done").glob("*.json"))


def wait(here: Path, websites: int, process: "subprocess.Popen[str]", number: int = 1) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while len(done(here, number)) < websites:
        assert process.poll() is None
        assert time.monotonic() < end_s
        time.sleep(0.02)


def clients(process: "subprocess.Popen[str]") -> list[int]:
    return family(process.pid)[1:]


def table(here: Path, number: int = 1) -> list[tuple[str, ...]]:
    rows = pq.read_table(here / "scan" / "scans" / f"{number:04}" / "links.parquet").to_pylist()
    return [tuple(row[name] for name in ("site", "source", "target", "target_site", "anchor")) for row in rows]


def sizes(here: Path, number: int = 1) -> dict[str, int]:
    rows = pq.read_table(here / "scan" / "scans" / f"{number:04}" / "sites.parquet").to_pylist()
    return {row["site"]: row["pages"] for row in rows}


@pytest.fixture(scope="module")
def undisturbed(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("undisturbed")
    found = finish(begin(web, here, "--agents", "3"))
    assert found["ended"]
    assert len(table(here)) > 50
    return here


SLOWLY = [pytest.param(mode, marks=pytest.mark.slow) for mode in ("batch", "round-robin")]


@pytest.mark.parametrize("mode", ["dynamic", *SLOWLY])
def test_a_killed_client_changes_nothing(web: RunningWeb, undisturbed: Path, tmp_path: Path, mode: str) -> None:
    seen = len(web.log())
    process = begin(web, tmp_path, "--agents", "3", "--mode", mode)
    wait(tmp_path, 2, process)
    finished = {path.stem for path in done(tmp_path)}
    fetched = Counter(web.log().urls[seen:])
    os.kill(clients(process)[1], signal.SIGKILL)
    found = finish(process)
    assert table(tmp_path) == table(undisturbed)
    assert sizes(tmp_path) == sizes(undisturbed)
    assert any("died (signal 9)" in event and "went to the others" in event for event in found["events"])
    later = Counter(web.log().urls[seen:]) - fetched
    again = {url for url in later if url.split("/")[2] in finished}
    assert again == set(), "what was finished is not scanned again"


def test_a_killed_coordinator_takes_its_clients_along_and_the_next_goes_on(
    web: RunningWeb, undisturbed: Path, tmp_path: Path
) -> None:
    process = begin(web, tmp_path, "--agents", "2")
    wait(tmp_path, 2, process)
    orphans = clients(process)
    process.kill()
    process.communicate()
    end_s = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}").exists() for pid in orphans):
        assert time.monotonic() < end_s, "clients outlive their coordinator"
        time.sleep(0.05)
    assert finish(begin(web, tmp_path, "--agents", "1"))["scan"] == 1
    assert table(tmp_path) == table(undisturbed)
    assert sizes(tmp_path) == sizes(undisturbed)


@pytest.mark.slow
def test_when_all_clients_die_it_says_so_and_the_next_run_goes_on(
    web: RunningWeb, undisturbed: Path, tmp_path: Path
) -> None:
    process = begin(web, tmp_path, "--agents", "1")
    wait(tmp_path, 1, process)
    os.kill(clients(process)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "all clients died" in err
    assert "the same command goes on where they were" in err
    finish(begin(web, tmp_path, "--agents", "2"))
    assert table(tmp_path) == table(undisturbed)


def test_a_client_ten_times_slower_than_thought_is_noticed_and_relieved(
    web: RunningWeb, undisturbed: Path, tmp_path: Path
) -> None:
    names = ("[clients.a]\n", "[clients.b]\n")
    (tmp_path / "clients.toml").write_text("".join(names))
    assert finish(begin(web, tmp_path, "--clients", "clients.toml"))["scan"] == 1
    # A delay that no forecast knows of.
    slow = 'set = { "polite.small_delay_s" = 0.8, "polite.small_pages" = 1_000 }\n'
    (tmp_path / "clients.toml").write_text(names[0] + slow + names[1])
    found = finish(begin(web, tmp_path, "--clients", "clients.toml", "--mode", "batch"))
    assert any("client a takes" in event and "planned again" in event for event in found["events"]), found["events"]
    assert table(tmp_path, 2) == table(undisturbed)
    owners = pq.read_table(tmp_path / "scan" / "scans" / "0002" / "sites.parquet")["client"].to_pylist()
    assert owners.count("b") > owners.count("a")
