"""A scan with clients that joined over TLS from elsewhere: killed, cut off, come back; the tables do not show it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import environment, line

from gossamer.cluster.federation import prepare as make_keys
from gossamer.cluster.federation_file import load
from gossamer.cluster.nats_server import free_port
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

HOSTS = 9
SPEC = WebSpec.plain(seed=33, hosts=HOSTS, pages=80, page_bytes=1_500.0, links=8.0, local=0.7)
PATIENCE_S = 100.0
SITES = ("paris", "tokyo", "lima")


class Running:
    """A command of Gossamer, and the processes that it starts."""

    def __init__(self, here: Path, *words: str) -> None:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(
            line(*words), cwd=here, env=environment(), text=True, start_new_session=True, **pipes
        )

    def kill(self) -> None:
        """All of it, as if its machine were gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def freeze(self, is_frozen: bool) -> None:
        os.killpg(self._process.pid, signal.SIGSTOP if is_frozen else signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def finish(self) -> dict[str, Any]:
        out, err = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as kept:
        yield kept


def prepare(here: Path, web: RunningWeb) -> None:
    (here / "SITES.txt").write_text("".join(f"h{number}.test\n" for number in range(HOSTS)))
    sites = "".join(f'[sites.{name}]\naddress = "127.0.0.1:{free_port()}"\n' for name in SITES)
    (here / "three.toml").write_text(
        f'{sites}[resolve]\nmap = {{"*" = "{web.address}"}}\n[polite]\ndelay_s = 0.15\n'
        "[crawl]\npatience_s = 1.0\n[limits]\ndepth = 4\n[site]\nlease_s = 2.0\n"
    )
    make_keys(load(here / "three.toml"))


def scan(here: Path, stack: ExitStack) -> Running:
    found = Running(here, "scan", "SITES.txt", "--federation", "three.toml", "--at-once", "1", "--json")
    stack.callback(found.stop)
    return found


def join(here: Path, stack: ExitStack, name: str) -> Running:
    found = Running(here, "scan", "join", "three.toml", "--name", name)
    stack.callback(found.stop)
    return found


def wait(condition: Callable[[], object], process: Running) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.is_alive
        assert time.monotonic() < end_s
        time.sleep(0.02)


def done(here: Path) -> dict[str, str]:
    """Who has scanned what so far."""
    paths = (here / "scan" / "scans" / "0001" / "done").glob("*.json")
    return {path.stem: json.loads(path.read_text())["client"] for path in paths}


def table(here: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = pq.read_table(here / "scan" / "scans" / "0001" / f"{name}.parquet").to_pylist()
    return [tuple(row[column] for column in columns) for row in rows]


def links(here: Path) -> list[tuple[Any, ...]]:
    return table(here, "links", "site", "source", "target", "target_site", "anchor")


def sizes(here: Path) -> list[tuple[Any, ...]]:
    return table(here, "sites", "site", "status", "pages")


@pytest.fixture(scope="module")
def undisturbed(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By clients of one machine, with nothing but pipes."""
    here = tmp_path_factory.mktemp("undisturbed")
    prepare(here, web)
    words = (
        "scan",
        "SITES.txt",
        "--config",
        "three.toml",
        "--agents",
        "3",
        "--at-once",
        "4",
        "--delay",
        "0.01",
        "--json",
    )
    assert Running(here, *words).finish()["ended"]
    assert len(links(here)) > 50
    return here


def test_a_client_elsewhere_dies_and_comes_back(
    web: RunningWeb, undisturbed: Path, tmp_path: Path, stack: ExitStack
) -> None:
    prepare(tmp_path, web)
    tokyo, _ = (join(tmp_path, stack, name) for name in ("tokyo", "lima"))
    scanning = scan(tmp_path, stack)
    wait(lambda: {"tokyo_a0", "lima_a0"} <= set(done(tmp_path).values()), scanning)
    tokyo.kill()
    join(tmp_path, stack, "tokyo")
    found = scanning.finish()
    assert links(tmp_path) == links(undisturbed)
    assert sizes(tmp_path) == sizes(undisturbed)
    events = found["events"]
    assert any(event.startswith("client tokyo_a0 died") for event in events), events
    assert "client lima_a0 has joined" in events


@pytest.mark.slow
def test_a_client_that_is_cut_off_stops_and_comes_back(
    web: RunningWeb, undisturbed: Path, tmp_path: Path, stack: ExitStack
) -> None:
    """For longer than its lease nobody hears of it: then others have its websites, and it must leave them alone."""
    prepare(tmp_path, web)
    tokyo = join(tmp_path, stack, "tokyo")
    scanning = scan(tmp_path, stack)
    wait(lambda: "tokyo_a0" in done(tmp_path).values(), scanning)
    tokyo.freeze(True)
    time.sleep(4.0)  # twice its lease
    tokyo.freeze(False)
    found = scanning.finish()
    assert links(tmp_path) == links(undisturbed)
    assert sizes(tmp_path) == sizes(undisturbed)
    joined = [event for event in found["events"] if event == "client tokyo_a0 has joined"]
    assert len(joined) == 2, found["events"]


@pytest.mark.slow
def test_a_killed_coordinator_is_waited_for(
    web: RunningWeb, undisturbed: Path, tmp_path: Path, stack: ExitStack
) -> None:
    prepare(tmp_path, web)
    join(tmp_path, stack, "tokyo")
    scanning = scan(tmp_path, stack)
    wait(lambda: "tokyo_a0" in done(tmp_path).values(), scanning)
    scanning.kill()
    again = scan(tmp_path, stack)
    found = again.finish()
    assert found["scan"] == 1
    assert links(tmp_path) == links(undisturbed)
    assert sizes(tmp_path) == sizes(undisturbed)
    assert "client tokyo_a0 has joined" in found["events"]
