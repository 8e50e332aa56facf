"""A crawl killed again and again at random instants ends like one that nobody disturbed, and was polite throughout."""

import random
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from support import (
    Command,
    Committed,
    check_complete,
    check_index,
    check_no_leftovers,
    check_not_again,
    check_polite,
    check_repeats,
    check_visited_once,
    committed,
    differing,
    hits,
    order,
    outcomes,
    statuses,
)

from gossamer.api import Crawl
from gossamer.testweb.log import Log, read_log
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

WIDTH, RETRIES = 60, 1
# No page is refused for its depth: what limits do with deep pages has tests of its own (test_depths.py).
OPTIONS = [
    "--width", str(WIDTH), "--scope", "any", "--connections", "24", "--depth", "250",
    "--set", "limits.depth_dynamic=250", "--set", f"fetch.retries={RETRIES}", "--set", "fetch.retry_s=0.5",
    "--set", "polite.backoff_s=0.5", "--set", "polite.backoff_max_s=2", "--set", "crawl.patience_s=5",
    "--set", "archive.merge_files=6",
]  # fmt: skip
# Nothing changes, so that both crawls see the same. Some hosts have a crawl-delay, some of the long one a robots.txt
# that answers 500: their pages stay unvisited in both. The delays of the short one are longer than a restart takes.
SHORT = WebSpec(
    seed=133, hosts=20, pages=150, host_exponent=0.5, links=20.0, page_bytes=4_000.0, latency_ms=10.0, changing=0.0,
    crawl_delays=0.2, crawl_delay_s=1.2, robots_broken=0.0, gzip=0.3, chunked=0.2,
)  # fmt: skip
LONG = WebSpec(
    seed=29, hosts=40, pages=1_200, links=20.0, page_bytes=4_000.0, latency_ms=10.0, changing=0.0,
    crawl_delays=0.12, crawl_delay_s=1.0, robots_broken=0.03, gzip=0.3, chunked=0.2,
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    spec: WebSpec
    kills: int
    delay_s: float


@dataclass(frozen=True)
class Crawled:
    directory: Path
    log: Log
    kills: list[Committed]


@dataclass(frozen=True)
class Pair:
    """Two crawls of the same web."""

    plan: Plan
    truth: SyntheticWeb
    undisturbed: Crawled
    disturbed: Crawled


def killed(command: Command, chance: random.Random, kills: int) -> list[Committed]:
    """Start and kill: mostly while it crawls, now and then while the command is starting up."""
    found: list[Committed] = []
    for number in range(kills):
        if number % 7 == 6:
            with command.running() as process:
                time.sleep(chance.uniform(0.1, 1.5))
                assert process.poll() is None, command.said()
        else:
            begins, commits = command.events("begin"), command.events("commit")
            with command.forked() as fork:
                command.wait_for(fork, "begin", begins + 1)
                if number % 3 == 0:  # some runs must get on
                    command.wait_for(fork, "commit", commits + 3)
                time.sleep(chance.uniform(0.0, 0.7))
                assert fork.is_alive(), f"the crawl ended too early: {command.said()}"
        found.append(committed(command.directory, time.time()))
    return found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Plan(SHORT, 7, 0.6), id="short"),
        pytest.param(Plan(LONG, 22, 0.1), id="long", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    plan: Plan = request.param
    where = tmp_path_factory.mktemp("crawls")
    crawls = []
    for name in ("undisturbed", "disturbed"):
        with RunningWeb(plan.spec, log_path=where / f"{name}.requests") as web:
            command = Command(web, where / name, [*OPTIONS, "--delay", str(plan.delay_s)])
            states = killed(command, random.Random(plan.kills), plan.kills) if name == "disturbed" else []
            command.finish(300)
            crawls.append(Crawled(command.directory, web.log(), states))
    return Pair(plan, SyntheticWeb(plan.spec), *crawls)


def test_same_pages(pair: Pair) -> None:
    one, other = pair.disturbed.directory, pair.undisturbed.directory
    assert differing(statuses(one), statuses(other)) == {}
    assert differing(outcomes(one), outcomes(other)) == {}


def test_each_link_counted_once(pair: Pair) -> None:
    assert differing(hits(pair.disturbed.directory), hits(pair.undisturbed.directory)) == {}


def test_complete(pair: Pair) -> None:
    for crawled in (pair.disturbed, pair.undisturbed):
        check_complete(crawled.directory, crawled.log, pair.truth)


def test_nothing_fetched_twice(pair: Pair) -> None:
    crawled = pair.disturbed
    assert len(crawled.kills) == pair.plan.kills
    progress = [len(kill.final) for kill in crawled.kills]
    assert sum(a < b for a, b in pairwise(progress)) >= pair.plan.kills // 4, f"few runs came to a commit: {progress}"
    check_not_again(crawled.log, crawled.kills)
    # A round is committed while the next one is fetched, so that two of them may be lost.
    check_repeats(crawled.log, crawled.kills, 2 * WIDTH)
    check_visited_once(crawled.directory, RETRIES)


def test_polite_through_crashes(pair: Pair) -> None:
    for crawled in (pair.disturbed, pair.undisturbed):
        check_polite(crawled.log, pair.truth, pair.plan.delay_s)


def test_index_agrees(pair: Pair) -> None:
    for crawled in (pair.disturbed, pair.undisturbed):
        check_index(crawled.directory)
        check_no_leftovers(crawled.directory)


@pytest.mark.parametrize("strategy", ["opic", "breadth-first"])
def test_order_through_crashes(tmp_path: Path, strategy: str) -> None:
    """With one connection even the order is the same, as if nothing had happened."""
    spec = replace(SHORT, errors=0.0, latency_ms=0.0, crawl_delays=0.0)  # no retries: they come by the clock
    options = ["--width", "15", "--delay", "0", "--scope", "any", "--connections", "1", "--order", strategy]
    chance = random.Random(strategy)
    with RunningWeb(spec) as web:
        plain = Command(web, tmp_path / "undisturbed", options)
        plain.finish(60)
        command = Command(web, tmp_path / "disturbed", options)
        for number in range(6):
            begins, commits = command.events("begin"), command.events("commit")
            with command.forked() as fork:
                command.wait_for(fork, "begin", begins + 1)
                if number % 2 == 0:
                    command.wait_for(fork, "commit", commits + 2)
                time.sleep(chance.uniform(0.0, 0.1))
        command.finish(60)
    assert order(command.directory) == order(plain.directory)
    assert hits(command.directory) == hits(plain.directory)


def test_added_seeds_through_crashes(tmp_path: Path) -> None:
    """What `gossamer add` took and what a seed file has is visited, whenever the crawl was killed."""
    spec = WebSpec.plain(seed=2, hosts=16, pages=64, links=8.0, page_bytes=2_000.0)
    chance = random.Random(2)
    seeds = tmp_path / "seeds.txt"
    seeds.touch()
    with RunningWeb(spec) as web:
        options = ["--delay", "0.05", "--scope", "host", "--width", "5"]
        command = Command(web, tmp_path / "crawl", options, seeds=[*web.start_urls, str(seeds)])
        added = []
        for number in range(1, spec.hosts, 2):
            one, other = (f"http://h{n}.test/" for n in (number, number + 1))
            begins = command.events("begin")
            with command.forked() as fork:
                if number % 4 == 1:
                    command.wait_for(fork, "begin", begins + 1)
                time.sleep(chance.uniform(0.0, 0.2))
                Crawl(command.directory).add([one])
                if number + 1 < spec.hosts:
                    with seeds.open("a") as file:
                        file.write(f"{other}\n")
                    added.append(other)
                added.append(one)
                time.sleep(chance.uniform(0.0, 0.4))
        command.finish(60)
    found = statuses(command.directory)
    assert {url: found.get(url, "lost") for url in added} == dict.fromkeys(added, "fetched")
    check_index(command.directory)
    check_visited_once(command.directory, 0)


def wait_for_requests(web: RunningWeb, command: Command, fork: BaseProcess, hosts: set[str], count: int) -> None:
    """Until the server has logged so many requests for pages of these hosts."""
    assert web.log_path is not None
    end_s = time.monotonic() + 60
    while sum(host in hosts and path != "/robots.txt" for host, path in asked(web.log_path)) < count:
        assert fork.is_alive(), command.said()
        assert time.monotonic() < end_s, "no request came"
        time.sleep(0.01)


def asked(path: Path) -> list[tuple[str, str]]:
    log = read_log(path)
    return list(zip(log.host.tolist(), log.path.tolist(), strict=True))


def test_crawl_delay_after_a_crash(tmp_path: Path) -> None:
    """Killed just after a host with a crawl-delay was contacted, a crawl lets it rest when it comes back."""
    spec = WebSpec.plain(seed=1, hosts=4, pages=40, links=10.0, page_bytes=2_000.0, crawl_delays=1.0, crawl_delay_s=2.0)
    truth = SyntheticWeb(spec)
    slow = {host.name for host in (truth.plan.hosts[n] for n in range(spec.hosts)) if host.crawl_delay_s >= 2}
    with RunningWeb(spec, log_path=tmp_path / "requests") as web:
        command = Command(web, tmp_path / "crawl", ["--delay", "0.1", "--scope", "any"])
        for count in range(2, 6):
            commits = command.events("commit")
            with command.forked() as fork:
                command.wait_for(fork, "commit", commits + (6 if count == 2 else 1))
                wait_for_requests(web, command, fork, slow, count * len(slow))
        log = web.log()
    assert len(log) > 4 * len(slow)
    check_polite(log, truth, 0.1)


def test_delay_after_a_clean_end_and_a_crash(tmp_path: Path) -> None:
    """That a crawl once ended cleanly says nothing about the one after it, which was killed before it committed."""
    delay_s = 2.0
    spec = WebSpec.plain(seed=1, hosts=3, pages=30, links=10.0, page_bytes=2_000.0)
    options = ["--delay", str(delay_s), "--scope", "any", "--width", "1000"]
    everyone = {f"h{n}.test" for n in range(spec.hosts)}
    with RunningWeb(spec, log_path=tmp_path / "requests") as web:
        Command(web, tmp_path / "crawl", [*options, "--pages", "2"]).finish(60)
        time.sleep(delay_s)
        command = Command(web, tmp_path / "crawl", options, seeds=[])
        for count in (3, 6):
            with command.forked() as fork:
                wait_for_requests(web, command, fork, everyone, count)
        log = web.log()
    check_polite(log, SyntheticWeb(spec), delay_s)
