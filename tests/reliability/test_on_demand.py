"""Agents that come and leave on demand, 1 → 4 → 1: each page is visited once and politely, as if one agent had crawled
in peace; also if agents that are leaving, or the supervisor in the midst of a change, are killed."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from site_support import LEASE_S, Site, check_same, check_served, check_zones, since
from support import Command
from test_pull_site import Machines

from gossamer.archive.store import Directory
from gossamer.cluster.on_demand import last_change
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

CONNECTIONS, DELAY_S, SCALE_S = 2, 0.5, 2.0
# Many hosts at first, more than few connections can serve; then a few large ones, which one agent can serve.
SPEC = WebSpec(
    seed=171, hosts=120, pages=700, host_exponent=0.8, links=20.0, page_bytes=2_000.0, latency_ms=60.0, changing=0.0,
    crawl_delays=0.0, robots_broken=0.0, errors=0.0,
)  # fmt: skip
OPTIONS = [
    "--width", "100", "--scope", "any", "--depth", "250", "--set", "limits.depth_dynamic=250",
    "--set", f"site.lease_s={LEASE_S}", "--set", "fetch.timeout_s=15", "--set", "crawl.patience_s=30",
    "--set", "fetch.retries=5", "--set", "fetch.retry_s=0.5", "--set", "polite.backoff_s=0.5",
    "--set", "polite.backoff_max_s=2",
]  # fmt: skip
SLOWLY = ["--delay", str(DELAY_S), "--connections", str(CONNECTIONS)]
ON_DEMAND = [*OPTIONS, *SLOWLY, "--agents", "1..4", "--set", f"site.scale_s={SCALE_S}"]
SOON = ["--delay", "0.01", "--connections", "40", "--agents", "1"]


class World:
    def __init__(self, web: RunningWeb, undisturbed: Path) -> None:
        self.web, self.undisturbed = web, undisturbed


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    where = tmp_path_factory.mktemp("on-demand")
    with RunningWeb(SPEC, log_path=where / "requests") as web:
        Command(web, where / "undisturbed", [*OPTIONS, *SOON]).finish(240)
        yield World(web, where / "undisturbed")


def changes(site: Site) -> list[dict[str, Any]]:
    return [event for event in site.log_events() if event["event"] == "scaled"]


def numbers(site: Site) -> list[int]:
    return [event["agents"] for event in changes(site)]


def finish(site: Site, world: World, start_s: float, deaths: int) -> None:
    """The rest is crawled in haste by one agent, and all of it is checked."""
    slow_until_s = time.time()
    hasty = Site(site.web, site.directory, [*OPTIONS, *SOON, *exchange(site)])
    with hasty.running() as process:
        hasty.end(process)
    check_zones(site.directory)
    check_same(site.directory, world.undisturbed)
    log = since(world.web.log(), start_s)
    check_served(log, world.web.truth, site.directory, 0.0, deaths * 100)
    slow = type(log)(*(column[log.start_s < slow_until_s] for column in vars(log).values()))
    check_served(slow, world.web.truth, site.directory, DELAY_S, deaths * 100)
    if not deaths:
        asked = zip(log.host.tolist(), log.path.tolist(), strict=True)
        visited = [(host, path) for host, path in asked if path != "/robots.txt"]
        assert len(visited) == len(set(visited)), "a page was visited twice"


def exchange(site: Site) -> list[str]:
    return ["--set", "site.exchange=store"] if "site.exchange=store" in site.options else []


def check_pace(site: Site) -> None:
    """No two changes are closer than is allowed, also over several supervisors."""
    times = [datetime.fromisoformat(event["time"]).timestamp() for event in changes(site)]
    assert all(later - sooner >= SCALE_S - 0.01 for sooner, later in pairwise(times)), times


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("hub", "most"),
    [
        ("nats", 2),
        pytest.param("nats", 4, marks=pytest.mark.slow),
        pytest.param("store", 4, marks=pytest.mark.slow),
    ],
)
def test_from_one_to_several_and_back(world: World, tmp_path: Path, hub: str, most: int) -> None:
    options = [*ON_DEMAND, "--agents", f"1..{most}", "--set", f"site.exchange={hub}"]
    site, start_s = Site(world.web, tmp_path / "crawl", options), time.time()
    with site.cared_for(), site.running() as process:
        site.wait_until(process, lambda: most in numbers(site), "as many agents as are allowed")
        site.wait_until(process, lambda: len(site.agents()) == most, "as many processes")
        site.wait_until(process, lambda: numbers(site)[-1:] == [1], "one agent")
        site.wait_until(process, lambda: set(site.agents()) == {"a0"}, "one process")
        process.send_signal(signal.SIGINT)
        site.end(process)
    assert numbers(site)[0] == 2
    assert max(numbers(site)) == most
    check_pace(site)
    finish(site, world, start_s, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("hub", ["nats", "store"])
def test_agents_that_are_killed_while_they_leave(world: World, tmp_path: Path, hub: str) -> None:
    site, start_s = Site(world.web, tmp_path / "crawl", [*ON_DEMAND, "--set", f"site.exchange={hub}"]), time.time()
    killed: list[str] = []
    with site.cared_for(), site.running() as process:
        while numbers(site)[-1:] != [1]:
            leaving = [name for event in changes(site) for name in event["retire"] if name not in killed]
            for name in leaving:
                if (pid := site.agents().get(name)) is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                killed.append(name)
            assert process.poll() is None, site.said()
            time.sleep(0.01)
        site.wait_until(process, lambda: set(site.agents()) == {"a0"}, "one process")
        process.send_signal(signal.SIGINT)
        site.end(process)
    assert len(killed) >= 2
    finish(site, world, start_s, 2 * len(killed))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("hub", ["nats", "store"])
def test_a_supervisor_that_is_killed_in_the_midst_of_each_change(world: World, tmp_path: Path, hub: str) -> None:
    site, start_s = Site(world.web, tmp_path / "crawl", [*ON_DEMAND, "--set", f"site.exchange={hub}"]), time.time()
    deaths = 0
    with site.cared_for():
        while numbers(site)[-1:] != [1]:
            before = len(changes(site))
            with site.running() as process:
                site.wait_until(process, lambda before=before: len(changes(site)) > before, "change")
                time.sleep(0.05 * (deaths % 5))
                process.kill()
                process.wait()
            deaths += 1
            found = last_change(Directory(site.directory))
            assert found is not None
            assert len(found.agents) == numbers(site)[-1], "whoever comes next knows of it"
        assert 4 in numbers(site)
        check_pace(site)
        finish(site, world, start_s, 5 * deaths)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_machines_are_taken_as_they_come_and_a_supervisor_that_takes_over_goes_on(world: World, tmp_path: Path) -> None:
    """Nobody but the machines bounds the number of agents; they go on while there is no supervisor."""
    Directory.prepare(tmp_path / "crawl", 1.0)
    options = [*ON_DEMAND, "--engine", "pull", "--agents", "1.."]
    site, start_s = Site(world.web, tmp_path / "crawl", options), time.time()
    machines = Machines(site.directory)
    try:
        for _ in range(4):
            machines.join()
        with site.running() as process:
            site.wait_until(process, lambda: len(changes(site)) == 1, "change")
            process.kill()
            process.wait()
        before = last_change(Directory(site.directory))
        assert before is not None
        with site.running() as process:
            site.wait_until(process, lambda: 4 in numbers(site), "four agents")
            site.wait_until(process, lambda: numbers(site)[-1:] == [1], "one agent")
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 0, site.said()
    finally:
        for machine in machines.running:
            machine.kill()
            machine.wait()
    assert max(numbers(site)) == 4, "there were no more machines"
    check_pace(site)
    finish(site, world, start_s, 5)
