"""Several agents as a user sees them: one crawl, with limits that hold, mistakes that are explained, and no remains."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import ROOT, answer, complaint, environment, line, running, succeed
from crawls import Fixed

from gossamer import Config, Crawl
from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.state import AgentState, Counters
from gossamer.archive.store import Directory
from gossamer.clocks import RealClock
from gossamer.cluster.members import Ended
from gossamer.cluster.site_agent import SiteAgent
from gossamer.crawl.agent import Agent
from gossamer.event_log import EventLog
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.peers import Sharing
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.wiring import open_books

SPEC = WebSpec.plain(seed=3, hosts=16, pages=200, links=12.0, page_bytes=2_000.0)
OPTIONS = (
    "--json", "--scope", "any", "--delay", "0.05", "--width", "20", "--agents", "3",
    "--set", "crawl.patience_s=3", "--set", "site.lease_s=5", "--set", "fetch.timeout_s=5",
)  # fmt: skip


def crawl(web: RunningWeb, *more: object) -> tuple[object, ...]:
    return ("crawl", *web.start_urls, "--testweb", web.address, "--dir", "c", *OPTIONS, *more)


def agents(directory: Path) -> dict[str, int]:
    """The newest process of each agent."""
    log = directory / "log" / "crawl.jsonl"
    events = [json.loads(text) for text in log.read_text().splitlines()] if log.exists() else []
    return {event["agent"]: event["process"] for event in events if event["event"] == "agent started"}


def is_alive(process: int) -> bool:
    try:
        return b"gossamer" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def visits(directory: Path) -> int:
    if not (directory / "manifest").exists():
        return 0
    found = snapshots(Directory(directory)).values()
    return sum(at.state.counters.visits for at in found)


def test_one_crawl_with_exact_limits(web: RunningWeb, tmp_path: Path) -> None:
    # With one of them the others hand over and leave; from then on it is alone. What they have visited counts.
    for limit, number in ((57, 3), (75, 1), (90, 1)):
        told = answer(*crawl(web, "--pages", limit, "--agents", number), at=tmp_path)
        assert (told["visits"], told["ended"]) == (limit, f"limit of {limit} pages")
        (row,) = answer("query", "c", "SELECT count(*) AS n FROM visits WHERE NOT is_robots", "--json", at=tmp_path)
        assert row["n"] == limit
    told = answer(*crawl(web, "--pages", 10_000), at=tmp_path)
    reachable = len(web.truth.reachable())
    assert (told["visits"], told["ended"]) == (reachable, "nothing left to visit")
    assert answer("status", "c", "--json", at=tmp_path)["visits"] == reachable
    found = Crawl(tmp_path / "c")
    assert {page.url for page in found.pages()} == set(web.truth.urls(web.truth.reachable()))
    (row,) = found.query("SELECT count(*) AS n FROM visits WHERE warc <> ''")
    store = Directory(tmp_path / "c")
    captures = [
        text for at in snapshots(store).values() for name in at.files["cdxj"]
        for text in store.get(name).decode().splitlines()
    ]  # fmt: skip
    assert len(captures) == len(set(captures)) == row["n"], "WARC, CDXJ and Parquet agree"


def test_agents_that_come_back_outlive_it(web: RunningWeb, tmp_path: Path) -> None:
    """An agent reports when something will be due. What it reported could not be sent, and it died of that."""
    again = ("refresh.policy=index", "refresh.interval_s=5", "refresh.least_s=1")
    told = answer(*crawl(web, "--pages", 600, *(word for key in again for word in ("--set", key))), at=tmp_path)
    assert told["visits"] == 600
    events = [json.loads(text) for text in (tmp_path / "c" / "log" / "crawl.jsonl").read_text().splitlines()]
    ends = [event["code"] for event in events if event["event"] == "agent ended"]
    assert set(ends) == {0}


def test_taken_over_before_it_began(web: RunningWeb, tmp_path: Path) -> None:
    """A process hung before its first commit; its successor was told to be quiet, and knows nothing else."""
    store, exchange, clock = Directory.prepare(tmp_path / "c", 1.0), InProcess(), RealClock()
    chain = Chain.take_over(store, "a1", exchange, 1.0, clock.now())
    config = Config().replace({"crawl.agent": "a1", "resolve.map": {"*": web.address}})
    with EventLog(tmp_path / "log") as log:
        books = open_books(store, config, clock, chain)
        peers = Sharing(books, exchange, Fixed(("a1",) * 256), log)
        peers.settle(clock.now())
        assert Agent(books, clock, peers, log).run(lambda _: None).visits == 0
    state = Chain.read(store, "a1").state
    assert state.clean
    assert state.counters.known == 0


def test_starting_again_is_not_getting_on() -> None:
    """An agent takes its chain over and commits its seeds each time: only more than that resets the count of deaths."""
    agent, crash = SiteAgent("a0", Snapshot("a0")), Ended(1, "")
    for number in range(1, 4):
        agent.ended(crash, Snapshot("a0", number=3 * number))
        assert agent.crashes == number
    agent.ended(crash, Snapshot("a0", number=12, state=AgentState(counters=Counters(visits=1))))
    assert agent.crashes == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_stopped_and_gone_on_with(web: RunningWeb, tmp_path: Path, number: int) -> None:
    """Ctrl-C ends all of them cleanly; seeds added meanwhile are not forgotten."""
    directory = tmp_path / "c"
    with running(*crawl(web), at=tmp_path) as process:
        process.wait_until(lambda: visits(directory) > 10, "visits")
        processes = agents(directory)
        process.signal(number)
        code, out, err = process.finish()
    assert (code, err) == (0, "")
    assert json.loads(out)["ended"] == "stopped"
    assert len(processes) == 3
    assert not any(is_alive(number) for number in processes.values())
    assert all(at.state.clean for at in snapshots(Directory(directory)).values())
    succeed("add", "c", *(f"http://h{host}.test/added" for host in range(8)), at=tmp_path)  # several agents' zones
    told = answer(*crawl(web), at=tmp_path)
    assert told["visits"] == len(web.truth.reachable()) + 8


def test_interrupted_twice(web: RunningWeb, tmp_path: Path) -> None:
    """The second Ctrl-C does not wait: not for an agent that hangs either."""
    directory = tmp_path / "c"
    with running(*crawl(web), at=tmp_path) as process:
        process.wait_until(lambda: visits(directory) > 0, "visits")
        processes = agents(directory)
        os.kill(processes["a1"], signal.SIGSTOP)
        process.signal(signal.SIGINT)
        process.wait_until(lambda: not is_alive(processes["a0"]), "end of an agent that does not hang")
        process.signal(signal.SIGINT)
        code, _, _ = process.finish()
    assert code != 0
    assert not any(is_alive(number) for number in processes.values())


def test_nobody_outlives_the_supervisor(web: RunningWeb, tmp_path: Path) -> None:
    """Killed, it takes all with it, also one that is stopped: the next command finds nobody at work."""
    directory = tmp_path / "c"
    patient = ("--set", "site.lease_s=60")  # a successor would finish the crawl
    with running(*crawl(web, *patient), at=tmp_path) as process:
        process.wait_until(lambda: visits(directory) > 0, "visits")
        processes = agents(directory)
        os.kill(processes["a1"], signal.SIGSTOP)
        said = complaint(*crawl(web), at=tmp_path)
        assert f"is being crawled by process {process.inner.pid}" in said
        process.inner.kill()
        process.inner.wait()
    end_s = time.monotonic() + 60
    while any(is_alive(number) for number in processes.values()) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not any(is_alive(number) for number in processes.values())
    assert answer(*crawl(web, "--pages", visits(directory) + 5), at=tmp_path)["run_visits"] == 5


def test_damage(web: RunningWeb, tmp_path: Path) -> None:
    """What can be made anew is; what cannot is named."""
    directory = tmp_path / "c"
    answer(*crawl(web, "--pages", 5), at=tmp_path)
    (directory / "site" / "nats.json").write_bytes(b'{"url": 5, "password": null}')
    assert answer(*crawl(web, "--pages", 7), at=tmp_path)["visits"] == 7
    newest = sorted((directory / "manifest" / "a1").iterdir())[-1]
    content = newest.read_bytes()
    newest.write_bytes(b"{}")
    assert f"manifest/a1/{newest.name} is damaged; restore it" in complaint(*crawl(web), at=tmp_path)
    newest.write_bytes(content)
    shutil.rmtree(directory / "site")
    (directory / "site").write_text("in the way")
    assert "site: File exists" in complaint(*crawl(web), at=tmp_path)


# Where agents are forked, a deed is done after that; where they are not, as Python begins.
FORKED = """import os, runpy, sys
def deed(*_, **__):
    {deed}
def forked():
    runpy.run_module = deed
if 'gossamer.cluster.fork_server' in sys.orig_argv:
    os.register_at_fork(after_in_child=forked)
"""
ALONE = """import os, sys
if 'gossamer.cluster.agent_process' in sys.orig_argv:
    {deed}
"""


@pytest.mark.parametrize("how", [FORKED, ALONE])
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("os.kill(os.getpid(), 11)", "died 5 times in a row: signal 11"),
        ("raise SystemExit('no luck')", "died 5 times in a row: exit code 1; .*no luck"),
    ],
)
def test_an_agent_that_dies_again_and_again(web: RunningWeb, tmp_path: Path, how: str, deed: str, words: str) -> None:
    """It is not started for ever."""
    (tmp_path / "sitecustomize.py").write_text(how.format(deed=deed))
    more = {**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(line(*crawl(web)), cwd=tmp_path, env=more, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert re.search(words, done.stderr)
    assert not any(is_alive(number) for number in agents(tmp_path / "c").values())


def test_without_the_server(web: RunningWeb, tmp_path: Path) -> None:
    """An environment without nats-server: the message says what to install."""
    hidden = (
        "import shutil, sys, gossamer.cli.app, gossamer.cluster.nats_server as server\n"
        "server.sys.executable = '/nowhere/python'\n"
        "shutil.which = lambda *_: None\n"
        "sys.exit(gossamer.cli.app.main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", hidden, *map(str, crawl(web))]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "pip install 'gossamer-crawler[agents]'" in done.stderr
    assert "Traceback" not in done.stderr
