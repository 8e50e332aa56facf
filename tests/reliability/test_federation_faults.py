"""Sites, their servers and the links between them fail; together they still crawl what one crawls alone."""

import contextlib
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from crawls import QUICK, crawl, statuses
from federations import Sites, federation
from nats_site import eventually

from experiments.proxy import Proxy
from gossamer import Crawl
from gossamer.cluster.federation import status
from gossamer.cluster.federation_file import load
from gossamer.cluster.nats_server import free_port
from gossamer.cluster.rebalance import give_away
from gossamer.cluster.replicas import holders
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.web.url import host_of

NAMES = ["north", "east", "south"]
SPEC = WebSpec(
    seed=22, hosts=40, pages=500, page_bytes=3_000.0, links=20.0, local=0.5, errors=0.0, robots_broken=0.0,
    crawl_delays=0.0, changing=0.0,
)  # fmt: skip
# Long leases and time-outs: who is slow on a busy machine, and replaced or asked again, would make requests twice.
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": 25, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": 8,
    "polite.delay_s": 0.05, "site.lease_s": 60.0, "fetch.timeout_s": 60.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(web: RunningWeb, tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    return crawl(web, tmp_path_factory.mktemp("alone") / "crawl", {**VALUES, "polite.delay_s": 0.0})


def values(web: RunningWeb) -> dict[str, Any]:
    return {**VALUES, "resolve.map": {"*": web.address}}


def check(
    sites: Sites, alone: Crawl, web: RunningWeb, log_lines: int, repeats: int = 0, hosts_moved: bool = False
) -> None:
    """The union is the undisturbed crawl; at most so many requests were made again, besides those for the robots.txt of
    hosts that moved."""
    assert sites.statuses() == statuses(alone)
    sites.check_owned_once()
    assert sites.missing_cash() == 0
    urls = [url for url in web.log().urls[log_lines:] if not (hosts_moved and url.endswith("/robots.txt"))]
    again = sum(times - 1 for times in Counter(urls).values())
    assert again <= repeats


def test_a_link_is_cut_and_mended(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    """Everybody goes on with what they have; then all of it arrives."""
    lines = len(web.log())
    behind = {"east": free_port()}
    proxy = Proxy(behind["east"])
    ports = {"north": free_port(), "east": proxy.port, "south": free_port()}
    with contextlib.closing(proxy), federation(tmp_path, NAMES, values(web), ports=ports, behind=behind) as sites:
        sites.start_all(*web.start_urls)
        for visits in (60, 200):
            sites.wait_for_visits(visits)
            proxy.cut()
            time.sleep(4.0)
            assert all(process.poll() is None for process in sites.processes.values()), "nobody gives up"
            proxy.mend()
        sites.wait()
        check(sites, alone, web, lines)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_whole_sites_are_killed_and_come_back(web: RunningWeb, alone: Crawl, tmp_path: Path, seed: int) -> None:
    lines, chance = len(web.log()), random.Random(seed)
    with federation(tmp_path, NAMES, values(web), agents=2 if seed == 2 else 1) as sites:
        sites.start_all(*web.start_urls)
        for visits in (50, 150, 300):
            sites.wait_for_visits(visits)
            victim = chance.choice(NAMES)
            sites.kill(victim)
            time.sleep(chance.uniform(0.0, 2.0))
            sites.start(victim, *(web.start_urls if victim == sites.federation.first else ()))
        sites.wait()
        check(sites, alone, web, lines, repeats=3 * 2 * (25 + 8) * 2)


@pytest.mark.slow
def test_a_server_is_killed(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web)) as sites:
        sites.start_all(*web.start_urls)
        for site, visits in (("north", 50), ("south", 200)):
            sites.wait_for_visits(visits)
            sites.kill_server(site)
        sites.wait()
        check(sites, alone, web, lines)


@pytest.mark.parametrize(("partitioner", "agents"), [("ring", 1), pytest.param("fennel", 2, marks=pytest.mark.slow)])
def test_a_site_joins_and_another_leaves(
    web: RunningWeb, alone: Crawl, tmp_path: Path, partitioner: str, agents: int
) -> None:
    """While the crawl goes on: hosts change hands with all that is known of them, and nothing is visited twice."""
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web), agents=agents, partitioner=partitioner) as sites:
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(60)
        sites.change("west", f'address = "127.0.0.1:{free_port()}"\nagents = {agents}\n')
        sites.start("west")
        sites.wait_for_visits(250)
        sites.change("south", "weight = 0\n")
        sites.wait()
        if sites.pages("south"):  # on a slow machine the crawl ends before all have heard; the next run hands over
            sites.start_all()
            sites.wait()
        check(sites, alone, web, lines, hosts_moved=True)
        assert sites.pages("south") == 0
        assert sites.visits("south") > 0
        assert partitioner == "fennel" or sites.visits("west") > 0  # hosts that FENNEL has placed stay where they are


@pytest.mark.slow
def test_hosts_are_moved_by_a_rebalance(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    """In mid-crawl, through two agents at either end; one site is killed meanwhile."""
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web), agents=2, partitioner="fennel") as sites:
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(150)
        hosts = sites.hosts("north")
        give_away(sites.federation, "north", dict.fromkeys(hosts[:6], "east"))
        sites.wait_for_visits(250)
        give_away(sites.federation, "north", dict.fromkeys(hosts[6:], "south"))
        time.sleep(1.0)
        sites.kill("east")
        sites.start("east")
        sites.wait()
        check(sites, alone, web, lines, repeats=2 * (25 + 8) * 2, hosts_moved=True)
        assert not set(hosts) & set(sites.hosts("north"))
        assert set(hosts[:6]) <= set(sites.hosts("east"))


@pytest.mark.parametrize("agents", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_site_is_lost_for_good(web: RunningWeb, alone: Crawl, tmp_path: Path, agents: int) -> None:
    """Its processes die, and its disk with them: its replica gives what it had to the others."""
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web), agents=agents, replicas=2) as sites:
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(200)
        sites.kill("south")
        lost = sites.visits("south") - sites.replicated_visits("south")  # what it had not yet said to anybody
        shutil.rmtree(sites.federation.directory("south"))
        time.sleep(1.0)
        sites.change("south", "weight = 0\n")
        sites.adopt("south")
        sites.wait()
        check(sites, alone, web, lines, repeats=lost + 2 * (25 + 8) * agents, hosts_moved=True)
        assert sites.pages("south") == 0
        assert sites.visits("south") > 0


@pytest.mark.slow
def test_a_site_is_lost_for_good_and_its_holder_is_new(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    """A site joins that holds the replica by the new list, and has nothing of it: what the old holder has counts."""
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web), replicas=2) as sites:
        assert holders([*NAMES, "oslo"], "south", 2) == ["oslo"] != holders(NAMES, "south", 2)
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(200)
        sites.kill("south")
        lost = sites.visits("south") - sites.replicated_visits("south")
        shutil.rmtree(sites.federation.directory("south"))
        sites.change("oslo", f'address = "127.0.0.1:{free_port()}"\n')
        sites.start("oslo")
        while not (sites.federation.directory("oslo") / "replicas").exists():
            assert sites.processes["oslo"].poll() is None, sites.words("oslo")
            time.sleep(0.1)
        sites.change("south", "weight = 0\n")
        sites.adopt("south")
        sites.wait()
        check(sites, alone, web, lines, repeats=lost + 2 * (25 + 8), hosts_moved=True)
        assert "east/replicas/south: commit" in sites.words("south")
        assert sites.visits("south") > 0


@pytest.mark.parametrize(("partitioner", "agents"), [("ring", 1), pytest.param("fennel", 2, marks=pytest.mark.slow)])
def test_a_site_is_lost_without_a_replica(
    web: RunningWeb, alone: Crawl, tmp_path: Path, partitioner: str, agents: int
) -> None:
    """The others share its hosts, and find all of their pages again: links to them are in their archives."""
    lines = len(web.log())
    with federation(tmp_path, NAMES, values(web), agents=agents, partitioner=partitioner) as sites:
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(250)
        sites.kill("south")
        theirs = set(sites.hosts("south"))
        assert sites.visits("south") > 0
        shutil.rmtree(sites.federation.directory("south"))
        time.sleep(1.0)
        sites.change("south", "gone = true\n")
        sites.wait()
        assert sites.statuses() == statuses(alone)
        assert not [name for site in ("north", "east") for name in sites.at(site) if "south" in name]
        for site in ("north", "east"):
            assert not [entry for at in sites.at(site).values() for entry in at.outbox if entry.message.to == "south"]
        urls = Counter(url for url in web.log().urls[lines:] if not url.endswith("/robots.txt"))
        again = {url for url, times in urls.items() if times > 1}
        assert {host_of(url) for url in again} <= theirs, "what was not lost is not visited again"


def test_a_site_that_is_gone_wakes_up_with_an_old_list(web: RunningWeb, tmp_path: Path) -> None:
    """It learns that before its first request: its hosts are others' now."""
    with federation(tmp_path, NAMES, values(web)) as sites:
        old = tmp_path / "old.toml"
        sites.start_all(*web.start_urls)
        sites.wait_for_visits(100)
        sites.kill("south")
        shutil.copy(sites.federation.path, old)
        sites.change("south", "gone = true\n")
        eventually(lambda: all(follows(sites, site, 2) for site in ("north", "east")), 60.0)
        log = sites.federation.directory("south") / "log" / "crawl.jsonl"
        before, visits = log.read_text().count("agent started"), sites.visits("south")
        sites.start("south", file=old)
        assert sites.processes.pop("south").wait(sites.patience_s) == 1
        assert "by version 2 of the list of sites south is gone" in sites.words("south")
        assert log.read_text().count("agent started") == before
        assert sites.visits("south") == visits


def follows(sites: Sites, site: str, version: int) -> bool:
    return any(at.state.members and at.state.members.version == version for at in sites.at(site).values())


def test_two_lists_with_one_version(web: RunningWeb, alone: Crawl, tmp_path: Path) -> None:
    """One of the two sites waits, and says what to do; with one list for both, the crawl goes on to its end."""
    lines = len(web.log())
    with federation(tmp_path, ["north", "east"], values(web)) as sites:
        path, other = sites.federation.path, tmp_path / "other.toml"
        shutil.copy(path, other)
        sites.start("north", *web.start_urls)
        sites.start("east", file=other)
        sites.wait_for_visits(60)
        for file, weight in ((path, 1.0), (other, 3.0)):
            text = file.read_text().replace("[federation]\n", "[federation]\nversion = 2\n", 1)
            file.write_text(text.replace("[sites.east]\n", f"[sites.east]\nweight = {weight}\n", 1))
        eventually(lambda: "waiting" in sites.words("east"), 60.0)
        assert "north follows another version 2 of the list of sites than east" in sites.words("east")
        assert "waiting" not in sites.words("north")
        eventually(lambda: "bring one file to all sites" in status(load(path), ["east"])[0]["behind"])
        for file in (other, path):
            file.write_text(other.read_text().replace("version = 2\n", "version = 3\n"))
        sites.federation = load(path)
        sites.wait()
        check(sites, alone, web, lines, repeats=2 * (25 + 8), hosts_moved=True)
