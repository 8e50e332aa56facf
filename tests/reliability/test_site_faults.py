"""Agents, supervisor and nats-server killed, stopped, added and retired in mid-crawl: the crawl ends as if nothing had
happened, and was polite throughout."""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest
from site_support import LEASE_S, Site, Trouble, check_same, check_served, check_zones, since, snapshots
from support import Command

from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

WIDTH, DELAY_S = 30, 0.2
SPEC = WebSpec(
    seed=133, hosts=24, pages=240, host_exponent=0.4, links=20.0, page_bytes=3_000.0, latency_ms=10.0, changing=0.0,
    crawl_delays=0.1, crawl_delay_s=0.5, robots_broken=0.0, gzip=0.3, chunked=0.2,
)  # fmt: skip
# No page is refused for its depth: what limits do with deep pages has tests of its own (test_depths.py).
OPTIONS = [
    "--width", str(WIDTH), "--scope", "any", "--connections", "24", "--depth", "250", "--delay", str(DELAY_S),
    "--set", "limits.depth_dynamic=250", "--set", "fetch.retries=1", "--set", "fetch.retry_s=0.5",
    "--set", "polite.backoff_s=0.5", "--set", "polite.backoff_max_s=2", "--set", "crawl.patience_s=5",
    "--set", "archive.merge_files=6", "--set", f"site.lease_s={LEASE_S}", "--set", "fetch.timeout_s=3",
]  # fmt: skip
FAULTS = ("kill agent", "stop agent", "kill server", "add", "retire", "kill supervisor", "interrupt")
ENDS = ("kill supervisor", "interrupt")  # the command must be given again


@dataclass(frozen=True)
class World:
    web: RunningWeb
    undisturbed: Path
    visits: int


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A web, and what one agent finds there in peace."""
    where = tmp_path_factory.mktemp("site")
    with RunningWeb(SPEC, log_path=where / "requests") as web:
        Command(web, where / "undisturbed", OPTIONS).finish(240)
        alone = snapshots(where / "undisturbed")["a0"]
        yield World(web, where / "undisturbed", alone.state.counters.visits)


def disturbed(site: Site, world: World, faults: list[str], chance: random.Random, agents: list[int]) -> Trouble:
    """Crawl to the end, with these faults spread over it; the command is given again after those that end it."""
    trouble = Trouble(site, chance)
    waiting = list(enumerate(faults, 1))
    while True:
        numbers = ["--agents", str(agents[0] if len(agents) == 1 else agents.pop(0))]
        command = Site(site.web, site.directory, [*site.options, *numbers])
        started = site.events("agent started")
        with command.running() as process:
            command.wait_until(process, lambda started=started: site.events("agent started") > started, "agent")
            while waiting:
                place, kind = waiting.pop(0)
                at = world.visits * place // (len(faults) + 2)
                command.wait_until(process, lambda at=at: site.visits() >= at, f"{at} visits")
                time.sleep(chance.uniform(0.0, 0.5))
                if kind in ENDS:
                    end(process, kind)
                    trouble.done.append((kind, time.time()))
                    break
                trouble.make(kind)
            else:
                command.end(process)
                return trouble


def end(process: "Popen[bytes]", kind: str) -> None:
    if kind == "interrupt":
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    else:
        process.kill()
        process.wait()


def check(site: Site, world: World, trouble: Trouble, start_s: float) -> None:
    check_same(site.directory, world.undisturbed)
    # A round is committed while the next one is fetched, so that a process that dies may lose two of them.
    deaths = {"kill agent": 1, "stop agent": 1, "kill all agents": 6, "kill supervisor": 6}
    lost = sum(deaths.get(kind, 0) for kind, _ in trouble.done) * 2 * WIDTH
    check_served(since(world.web.log(), start_s), world.web.truth, site.directory, DELAY_S, lost)


def one_of_each(number: int) -> list[str]:
    faults = list(FAULTS)
    random.Random(number).shuffle(faults)
    return faults


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(one_of_each(1), id="one of each"),
        pytest.param(["kill agent", "kill server", "kill all agents"] * 4, id="killed", marks=pytest.mark.slow),
        pytest.param(["stop agent", "stop server", "stop agent"], id="stopped", marks=pytest.mark.slow),
        pytest.param(["add", "retire", "kill agent"] * 3, id="come and go", marks=pytest.mark.slow),
    ],
)
def test_as_if_nothing_had_happened(world: World, tmp_path: Path, faults: list[str]) -> None:
    site, start_s = Site(world.web, tmp_path / "crawl", OPTIONS), time.time()
    with site.cared_for():
        trouble = disturbed(site, world, faults, random.Random(str(faults)), [3])
    assert len(trouble.done) == len(faults)
    check(site, world, trouble, start_s)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_number_of_agents_each_time(world: World, tmp_path: Path) -> None:
    site, start_s, numbers = Site(world.web, tmp_path / "crawl", OPTIONS), time.time(), [4, 2, 1, 3, 2]
    with site.cared_for():
        trouble = disturbed(site, world, ["interrupt", "kill supervisor"] * 2, random.Random(9), numbers)
    assert numbers == [2]
    check(site, world, trouble, start_s)


def test_alone_where_several_were(world: World, tmp_path: Path) -> None:
    """Who has crawled with three agents may go on with one; the others hand over what they have."""
    site, start_s = Site(world.web, tmp_path / "crawl", OPTIONS), time.time()
    with site.cared_for():
        trouble = disturbed(site, world, ["interrupt"], random.Random(5), [3, 1])
        check_zones(site.directory)
    check(site, world, trouble, start_s)
    at = snapshots(site.directory)
    assert {name: len(one.zones) for name, one in at.items()} == {"a0": ZONES_IN_ALL, "a1": 0, "a2": 0}
    started = Counter(event["agent"] for event in site.log_events() if event["event"] == "agent started")
    assert started == {"a0": 2, "a1": 2, "a2": 2}, "whoever has left is not called back without a reason"
    Command(world.web, site.directory, OPTIONS, seeds=[]).finish(60)
    assert site.events("agent started") == started.total(), "from now on it is one agent's crawl"
