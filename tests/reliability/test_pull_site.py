"""Machines that join a crawl, and are lost: with `gossamer agent join` on one store, the crawl ends as if in peace."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT, environment, line
from site_support import Site, check_same, check_served, since
from test_site_faults import DELAY_S, OPTIONS, WIDTH, World
from test_site_faults import world as world

from gossamer.archive.store import Directory

PULL = [*OPTIONS, "--engine", "pull", "--agents", "2", "--width", "6"]


class Machines:
    """Workers, each a process that stands for a machine: with it ends all that runs there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.running: list[subprocess.Popen[bytes]] = []

    def join(self) -> None:
        with self._directory.with_name("workers.output").open("ab") as output:
            command = line("agent", "join", self._directory)
            self.running.append(subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=output, stderr=output))

    def lose(self, chance: random.Random) -> None:
        """One is lost, and another one comes."""
        lost = self.running.pop(chance.randrange(len(self.running)))
        lost.kill()
        lost.wait()
        self.join()

    def leave(self) -> None:
        """One is asked to end, as its owner would with Ctrl-C."""
        left = self.running.pop()
        left.send_signal(signal.SIGTERM)
        assert left.wait(60) == 0


@pytest.fixture
def site(world: World, tmp_path: Path) -> Site:
    Directory.prepare(tmp_path / "crawl", 1.0)
    return Site(world.web, tmp_path / "crawl", PULL)


@pytest.fixture
def machines(site: Site) -> Iterator[Machines]:
    found = Machines(site.directory)
    for _ in range(2):
        found.join()
    yield found
    for process in found.running:
        process.kill()
        process.wait()


def check(site: Site, world: World, start_s: float, deaths: int) -> None:
    check_same(site.directory, world.undisturbed)
    check_served(since(world.web.log(), start_s), world.web.truth, site.directory, DELAY_S, deaths * 2 * WIDTH)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_machines_that_are_lost_are_replaced(world: World, site: Site, machines: Machines, times: int) -> None:
    start_s, chance = time.time(), random.Random(times)
    with site.running() as process:
        for place in range(times):
            at = world.visits * (place + 1) // (times + 2)
            site.wait_until(process, lambda at=at: site.visits() >= at, f"{at} visits")
            time.sleep(chance.uniform(0.0, 0.5))
            machines.lose(chance)
        site.end(process)
    check(site, world, start_s, times)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_agents_go_on_without_a_supervisor_until_another_takes_over(
    world: World, site: Site, machines: Machines
) -> None:
    start_s = time.time()
    with site.running() as process:
        site.wait_until(process, lambda: site.visits() >= world.visits // 5, "visits")
        process.kill()
        process.wait()
    before, end_s = site.visits(), time.monotonic() + 60
    while site.visits() <= before + 12:
        assert time.monotonic() < end_s, "nobody went on"
        time.sleep(0.02)
    with site.running() as successor:
        site.end(successor)
    check(site, world, start_s, 2)
    assert "takes over when that one ends" in site.said()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_machine_may_leave_and_its_agent_goes_elsewhere(world: World, site: Site, machines: Machines) -> None:
    start_s = time.time()
    with site.running() as process:
        site.wait_until(process, lambda: site.visits() >= world.visits // 4, "visits")
        machines.join()
        machines.running.insert(0, machines.running.pop())
        machines.leave()
        site.end(process)
    check(site, world, start_s, 1)
    assert 'code":-' not in (site.directory / "log" / "crawl.jsonl").read_text(), "nothing was killed"
