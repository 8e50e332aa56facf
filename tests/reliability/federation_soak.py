"""Lets the sites of a federation come, go, die and lose each other at random, and compares each crawl with one that
nobody disturbed.

`make soak-sites MINUTES=N` runs it; `python tests/reliability/federation_soak.py --seed S --loops 1` repeats a
loop that failed. A loop draws from its seed alone how hosts are placed, how many agents a site has, and what happens
when: sites join, retire, get another weight, die and come back, are lost with their disk and adopted; links are cut,
servers killed, hosts moved. A new list of sites reaches each site at another moment, or not before the next one does.
After each loop all sites together must have the pages, outcomes, links and cash of the undisturbed crawl, each page
visited once, and politeness must have held by the server's own log.
"""

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from crawls import QUICK, crawl
from federations import Sites, federation
from site_support import final_outcomes, hits, since
from support import check_equal, check_polite, check_visited_once, differing, statuses

from experiments.proxy import Proxy
from gossamer.archive.query import ask
from gossamer.cluster.changing import versioned, with_key, with_site
from gossamer.cluster.federation import prepare
from gossamer.cluster.federation_file import load
from gossamer.cluster.location import locate
from gossamer.cluster.nats_server import free_port
from gossamer.cluster.rebalance import give_away
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

NAMES, NEW = ("north", "east", "south"), ("west", "oslo")  # in the beginning, and those that may join
DELAY_S, RETRIES, WIDTH, CONNECTIONS = 0.2, 1, 25, 8
SPEC = WebSpec(
    seed=78, hosts=60, pages=700, host_exponent=0.3, links=12.0, local=0.5, page_bytes=3_000.0, latency_ms=10.0,
    changing=0.0, redirects=0.05, errors=0.04, crawl_delays=0.1, crawl_delay_s=0.5, sitemaps=0.3, robots_missing=0.1,
    robots_broken=0.0,
)  # fmt: skip
# Long leases and time-outs: who is slow on a busy machine, and replaced or asked again, would make requests twice.
VALUES: dict[str, Any] = {
    **QUICK, "crawl.width": WIDTH, "limits.depth": 250, "limits.depth_dynamic": 250, "polite.connections": CONNECTIONS,
    "polite.delay_s": DELAY_S, "polite.backoff_s": 0.5, "polite.backoff_max_s": 2.0, "site.lease_s": 60.0,
    "fetch.timeout_s": 60.0, "fetch.retries": RETRIES, "fetch.retry_s": 0.5, "crawl.patience_s": 5.0,
}  # fmt: skip
EVENTS = ("join", "join", "retire", "weigh", "kill", "kill", "cut", "cut", "kill server", "restart", "move", "lose")
PATIENCE_S = 420.0  # of a run to its end, with others on the machine
CALM_S = 60.0  # without a visit: nothing is left, or nobody can be reached
RUNS = 4  # until all that was left when sites ended has arrived


@dataclass
class Turmoil:
    """Disturbs a federation, at random but the same for the same seed; remembers what it did."""

    sites: Sites
    seeds: list[str]
    chance: random.Random
    agents: int
    proxies: dict[str, Proxy]
    done: list[str] = field(default_factory=list)
    wasted: int = 0  # requests that may have been made for nothing
    _lost: set[str] = field(default_factory=set)  # sites whose disks were
    _apart: str = ""  # whose server the others do not reach

    def run(self, events: int) -> None:
        sites, visits = self.sites, self.chance.randint(10, 60)
        for name in sites.federation.sites:
            self._start(name, *(self.seeds if name == sites.federation.first else ()))
        for _ in range(events):
            if not self._reaches(visits):
                break
            at, kind = sites.visits(), self.chance.choice(EVENTS)
            if said := getattr(self, f"_{kind.replace(' ', '_')}")():
                self.done.append(f"{at}: {said}")
            visits += self.chance.randint(20, 90)
        self._mend()
        self._to_the_end()

    def _reaches(self, visits: int) -> bool:
        """Whether so many visits are made while all sites run. Who is done waits for a site that is cut off."""
        seen, seen_s = self.sites.visits(), time.monotonic()
        while seen < visits:
            if time.monotonic() - seen_s > CALM_S:
                return False
            if any(process.poll() is not None for process in self.sites.processes.values()):
                return False
            time.sleep(0.05)
            if (now := self.sites.visits()) > seen:
                seen, seen_s = now, time.monotonic()
        return True

    # What may happen

    def _join(self) -> str:
        new = [name for name in NEW if name not in self.sites.federation.sites]
        if not new:
            return ""
        name, behind = new[0], free_port()
        self.proxies[name] = Proxy(behind)
        text = with_site(self._text(), name, f"127.0.0.1:{self.proxies[name].port}")
        keys = {"listen": f'"127.0.0.1:{behind}"', "agents": self.agents, "latitude": 1.0, "longitude": 1.0}
        for key, value in keys.items():
            text = with_key(text, name, key, str(value))
        self._bring(text)
        self._start(name)
        return f"{name} joins"

    def _retire(self) -> str:
        staying = self._staying()
        if len(staying) < 3:
            return ""
        name = self.chance.choice(staying)
        self._bring(with_key(self._text(), name, "weight", "0.0"))
        return f"{name} retires"

    def _weigh(self) -> str:
        name, weight = self.chance.choice(self._staying()), self.chance.choice((0.5, 2.0, 4.0))
        self._bring(with_key(self._text(), name, "weight", str(weight)))
        return f"{name} gets weight {weight:g}"

    def _kill(self) -> str:
        name = self.chance.choice(sorted(self.sites.processes))
        self.sites.kill(name)
        self.wasted += self._of_a_kill
        time.sleep(self.chance.uniform(0.0, 2.0))
        self._start(name)
        return f"{name} dies and comes back"

    def _cut(self) -> str:
        """Until the next cut, or the end."""
        self._mend()
        self._apart = self.chance.choice(sorted(self.proxies))
        self.proxies[self._apart].cut()
        return f"{self._apart} is cut off"

    def _mend(self) -> None:
        if self._apart:
            self.proxies[self._apart].mend()
        self._apart = ""

    def _kill_server(self) -> str:
        name = self.chance.choice(sorted(self.sites.processes))
        self.sites.kill_server(name)
        return f"the server of {name} dies"

    def _restart(self) -> str:
        """As for an update of all machines. One that has hardly begun may end by the signal itself."""
        for process in self.sites.processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.sites.processes.items():
            assert process.wait(PATIENCE_S) in (0, -signal.SIGTERM), self.sites.words(name)
        for name in self.sites.federation.sites:
            self._start(name)
        return "all are stopped and started"

    def _move(self) -> str:
        """What a rebalance does."""
        shared = self.sites.federation.shared
        name, others = self.chance.choice(sorted(self.sites.processes)), self._staying()
        hosts = [] if shared.partitioner == "ring" else self.sites.hosts(name)
        moved = {host: self.chance.choice(others) for host in hosts if self.chance.random() < 0.3}
        if not moved:
            return ""
        give_away(self.sites.federation, name, moved)
        return f"{name} gives {len(moved)} hosts away"

    def _lose(self) -> str:
        """With its disk; another one on this machine has its replica."""
        federation = self.sites.federation
        name = self.chance.choice(sorted(self.sites.processes))
        if federation.shared.replicas < 2 or len(self._staying()) < 3 or not self.sites.replicated_visits(name):
            return ""
        self._mend()
        self.sites.kill(name)
        self.wasted += self._of_a_kill + self.sites.visits(name) - self.sites.replicated_visits(name)
        shutil.rmtree(federation.directory(name))
        time.sleep(1.0)
        self._bring(with_key(self._text(), name, "weight", "0.0"))
        self._lost.add(name)
        self._start(name)
        return f"{name} is lost with its disk and adopted"

    @property
    def _of_a_kill(self) -> int:
        """Requests whose answers die with a site: a round, and what finished while it was being committed."""
        return 2 * (WIDTH + CONNECTIONS) * self.agents

    def _staying(self) -> list[str]:
        return [name for name, site in self.sites.federation.sites.items() if site.weight and not site.gone]

    # The list of sites

    def _text(self) -> str:
        return self.sites.federation.path.read_text()

    def _bring(self, text: str) -> None:
        """The next version of the list of sites, to one site after the other; the last may not get it this time."""
        sites, path = self.sites, self.sites.federation.path
        path.write_text(versioned(text, sites.federation.shared.version + 1))
        sites.federation = load(path)
        prepare(sites.federation)
        names = list(sites.federation.sites)
        self.chance.shuffle(names)
        for name in names[: len(names) - (self.chance.random() < 0.3)]:
            self._give(name)
            time.sleep(self.chance.choice((0.0, self.chance.uniform(0.0, 1.5))))

    def _own(self, name: str) -> Path:
        return self.sites.federation.path.with_name(f"list-of-{name}.toml")

    def _give(self, name: str) -> None:
        scratch = self._own(name).with_suffix(".new")
        scratch.write_text(self._text())
        scratch.replace(self._own(name))

    def _start(self, name: str, *seeds: str) -> None:
        if not self._own(name).exists():
            self._give(name)
        if name in self._lost and not self.sites.federation.directory(name).exists():
            self.sites.adopt(name)  # it died before it was here again
        else:
            self.sites.start(name, *seeds, file=self._own(name))

    # The end

    def _to_the_end(self) -> None:
        """A site that ended before the others had something for it is started again, as its owner would."""
        for _ in range(RUNS):
            for name in self.sites.federation.sites:
                self._give(name)
                if name not in self.sites.processes or self.sites.processes[name].poll() is not None:
                    self._start(name)
            self.sites.wait()
            if not (left := self._left()):
                return
            self.done.append(f"again, as {left}")
        raise AssertionError(f"it does not come to its end: {left}")

    def _left(self) -> str:
        """Why another run is needed; empty if none is."""
        sites = self.sites
        at = {name: one for site in sites.federation.sites for name, one in sites.at(site).items()}
        marks = {stream: number for one in at.values() for stream, number in one.marks.items()}
        for name, one in at.items():
            if one.state.members is None or one.state.members.version < sites.federation.shared.version:
                return f"{name} has another list of sites"
            if late := [stream for stream, number in one.sent.items() if marks.get(stream, 0) < number]:
                return f"{late[0]} is not received"
        for name, site in sites.federation.sites.items():
            if not site.weight and sites.pages(name):
                return f"{name} has hosts"
        return ""


@dataclass(frozen=True)
class FederationSoak:
    """One web, and what a crawl finds there in peace."""

    web: RunningWeb
    where: Path
    undisturbed: Path

    @classmethod
    @contextlib.contextmanager
    def begin(cls, where: Path) -> Iterator["FederationSoak"]:
        with RunningWeb(SPEC, log_path=where / "requests") as web:
            crawl(web, where / "undisturbed", {**VALUES, "polite.delay_s": 0.0}, cls.seeds(web))
            yield cls(web, where, where / "undisturbed")

    @staticmethod
    def seeds(web: RunningWeb) -> list[str]:
        return [*web.start_urls, *(f"http://h{number}.test/" for number in range(1, SPEC.hosts, 3))]

    def loop(self, seed: int) -> list[str]:
        """One crawl to its end; returns what happened to it."""
        chance, folder, start_s = random.Random(seed), self.where / f"loop-{seed}", time.time()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        agents, partitioner = chance.choice((1, 1, 2)), chance.choice(("ring", "ring", "fennel", "distance"))
        replicas, scores = chance.choice((1, 2)), chance.choice(("global", "global", "local"))
        values = {**VALUES, "resolve.map": {"*": self.web.address}, "site.scores": scores}
        behind = {name: free_port() for name in NAMES}
        proxies = {name: Proxy(port) for name, port in behind.items()}
        ports = {name: proxy.port for name, proxy in proxies.items()}
        try:
            with federation(
                folder, list(NAMES), values, agents, ports, behind=behind, partitioner=partitioner, replicas=replicas
            ) as sites:
                sites.patience_s = PATIENCE_S
                turmoil = Turmoil(sites, self.seeds(self.web), chance, agents, proxies)
                turmoil.done.append(f"{partitioner}, {scores}, {agents} agents, {replicas} replicas")
                try:
                    turmoil.run(chance.randint(4, 9))
                    self.check(sites, start_s, turmoil.wasted, scores)
                except BaseException:
                    print(*turmoil.done, sep="; ", flush=True)
                    raise
        finally:
            for proxy in proxies.values():
                proxy.close()
        return turmoil.done

    def check(self, sites: Sites, start_s: float, wasted: int, scores: str) -> None:
        whole, log = locate(sites.federation.path), since(self.web.log(), start_s)
        check_equal(sites.statuses(), statuses(self.undisturbed))
        sites.check_owned_once()
        assert sites.missing_cash() == 0, "cash was lost or made"
        check_visited_once(whole, RETRIES)
        check_equal(final_outcomes(whole), final_outcomes(self.undisturbed))
        if scores == "global":
            found = differing(without_sitemaps(sites.hits()), hits(self.undisturbed))
            assert not found, f"links were lost or counted twice: {found}"
        check_polite(log, self.web.truth, DELAY_S)
        asked = sum(not path.endswith("/robots.txt") for path in log.path.tolist())
        answered = ask(whole, "SELECT count(*) AS n FROM visits WHERE http_status > 0 AND NOT is_robots")[0]["n"]
        assert 0 <= asked - answered <= wasted, f"{asked - answered} requests for nothing"


def without_sitemaps(found: dict[str, int]) -> dict[str, int]:
    """A robots.txt that is read again, as its host has moved, names its sitemaps again."""
    return {url: count for url, count in found.items() if not url.endswith("/sitemap.xml")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Disturb federations at random and compare.")
    parser.add_argument("--seed", type=int, help="of the first loop; default: another one each time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no loop after so long")
    parser.add_argument("--loops", type=int, default=10**9, help="at most so many")
    parser.add_argument("--keep", type=Path, help="leave what failed there")
    wanted = parser.parse_args()
    first = wanted.seed if wanted.seed is not None else random.randrange(10**9)
    end_s = time.monotonic() + wanted.minutes * 60
    with contextlib.ExitStack() as stack:
        if wanted.keep:
            wanted.keep.mkdir(parents=True, exist_ok=True)
        folder = wanted.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        soak = stack.enter_context(FederationSoak.begin(folder))
        for loop in range(wanted.loops):
            if time.monotonic() > end_s:
                break
            print(f"seed {first + loop}: ", end="", flush=True)
            print(*soak.loop(first + loop), "no difference", sep="; ", flush=True)
            shutil.rmtree(folder / f"loop-{first + loop}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
