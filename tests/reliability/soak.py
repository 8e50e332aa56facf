"""Kills crawls at random instants, again and again, and compares each with one that nobody disturbed.

`make soak MINUTES=N` runs it; `python tests/reliability/soak.py --seed S --loops 1` repeats a loop that failed. A loop
draws from its seed alone which kind of crawl it is (one agent or two, default or short rounds, seeds from the command
line, a file, or added on the way) and when which process is killed. After each loop pages, outcomes, links, rules,
sitemaps and seeds must equal those of the undisturbed crawl, politeness must have held by the server's own log, and
every file must be as its manifest says.
"""

import argparse
import contextlib
import io
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from site_support import LEASE_S, Site, Trouble, check_same, since
from support import Command, check_equal, check_no_leftovers, check_polite, check_visited_once

from gossamer.api import Crawl
from gossamer.archive.query import ask
from gossamer.cli.app import main as gossamer
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

DELAY_S = 0.1
RETRIES = 1
# Redirects, failures, slow hosts, rules, crawl-delays and pages that only sitemaps name; nothing changes by itself.
SPEC = WebSpec(
    seed=77, hosts=120, pages=600, host_exponent=0.3, links=12.0, page_bytes=3_000.0, latency_ms=15.0, changing=0.0,
    redirects=0.06, errors=0.05, crawl_delays=0.1, crawl_delay_s=0.3, sitemaps=0.8, robots_missing=0.1,
    robots_broken=0.0, gzip=0.3, chunked=0.2,
)  # fmt: skip
OPTIONS = [
    "--scope", "any", "--connections", "64", "--depth", "250", "--delay", str(DELAY_S),
    "--set", "limits.depth_dynamic=250", "--set", f"fetch.retries={RETRIES}", "--set", "fetch.retry_s=0.5",
    "--set", "polite.backoff_s=0.5", "--set", "polite.backoff_max_s=2", "--set", "crawl.patience_s=5",
    "--set", f"site.lease_s={LEASE_S}", "--set", "fetch.timeout_s=3",
]  # fmt: skip
SHORT = ["--width", "12", "--set", "crawl.round_s=0.02", "--set", "archive.merge_files=4"]
FAULTS = ("kill agent", "kill all agents", "kill server", "kill supervisor", "kill supervisor")


@dataclass(frozen=True)
class Soak:
    """One web, and what a crawl finds there in peace."""

    web: RunningWeb
    where: Path
    undisturbed: Path
    peace_s: float  # how long that took
    seeds: list[str] = field(default_factory=list)

    @classmethod
    @contextlib.contextmanager
    def begin(cls, where: Path) -> Iterator["Soak"]:
        with RunningWeb(SPEC, log_path=where / "requests") as web:
            seeds = [*web.start_urls, *(f"http://h{number}.test/" for number in range(1, SPEC.hosts, 3))]
            start_s = time.monotonic()
            Command(web, where / "undisturbed", OPTIONS, seeds).finish(300)
            yield cls(web, where, where / "undisturbed", time.monotonic() - start_s, seeds)

    def loop(self, seed: int) -> int:
        """One crawl to its end; returns how often something was killed."""
        chance = random.Random(seed)
        agents, is_short, source = chance.choice((1, 1, 2)), chance.random() < 0.5, chance.randrange(3)
        directory, start_s = self.where / f"loop-{seed}", time.time()
        given, added = (self.seeds, []) if source < 2 else (self.seeds[:3], self.seeds[3:])
        if source == 1:
            file = self.where / f"seeds-{seed}.txt"
            file.write_text("".join(f"{url}\n" for url in given))
            given = [str(file)]
        options = [*OPTIONS, *(SHORT if is_short else []), "--agents", str(agents)]
        site = Site(self.web, directory, options, given)
        with site.cared_for():
            kills = (self._alone if agents == 1 else self._together)(site, chance, added)
            if (directory / "gossamer.json").exists():
                Crawl(directory).add(added)
            again(site).finish(300)
        self.check(directory, start_s, agents)
        return kills

    def _alone(self, site: Site, chance: random.Random, added: Sequence[str]) -> int:
        kills = chance.randint(4, 12)
        for number in range(kills):
            with again(site).forked() as process:
                time.sleep(self._instant_s(chance))
                if added and number == 1 and (site.directory / "gossamer.json").exists():
                    Crawl(site.directory).add(added)
                if not process.is_alive():
                    assert process.exitcode == 0, site.said()
                    return number
        return kills

    def _together(self, site: Site, chance: random.Random, added: Sequence[str]) -> int:
        kills = 0
        for _ in range(chance.randint(1, 3)):
            trouble = Trouble(site, chance)
            with again(site).running() as process:
                for _ in range(chance.randint(1, 4)):
                    time.sleep(1.0 + self._instant_s(chance))
                    if process.poll() is not None:
                        assert process.returncode == 0, site.said()
                        return kills
                    kills += 1
                    kind = chance.choice(FAULTS)
                    if kind == "kill supervisor":
                        break
                    trouble.make(kind)
                else:
                    kills += 1  # leaving the block kills the supervisor
        return kills

    def _instant_s(self, chance: random.Random) -> float:
        """Mostly while it crawls; often just after its start, when little is remembered yet."""
        return chance.choice((chance.uniform(0.0, 0.3), chance.uniform(0.0, self.peace_s / 2)))

    def check(self, directory: Path, start_s: float, agents: int) -> None:
        check_same(directory, self.undisturbed)
        check_polite(since(self.web.log(), start_s), self.web.truth, DELAY_S)
        check_visited_once(directory, RETRIES)
        check_equal(rules(directory), rules(self.undisturbed))
        assert robots_visits(directory) >= {f"{origin}/robots.txt" for origin in rules(directory)}
        check_equal(sitemaps(directory), sitemaps(self.undisturbed))
        if agents == 1:
            check_no_leftovers(directory)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert gossamer(["verify", str(directory)]) == 0, said.getvalue()


def again(site: Site) -> Site:
    """The next run of the crawl. Whatever remembers its options must remember its seeds too."""
    return replace(site, seeds=[]) if (site.directory / "last-run.toml").exists() else site


def rules(directory: Path) -> dict[str, str]:
    """The last verdict of each origin's robots.txt."""
    rows = ask(directory, "SELECT origin, arg_max(verdict, time) AS verdict FROM robots GROUP BY origin")
    return {row["origin"]: row["verdict"] for row in rows}


def robots_visits(directory: Path) -> set[str]:
    return {row["url"] for row in ask(directory, "SELECT DISTINCT url FROM visits WHERE is_robots")}


def sitemaps(directory: Path) -> dict[str, str]:
    rows = ask(directory, "SELECT url, status FROM pages WHERE url LIKE '%sitemap%'")
    return {row["url"]: row["status"] for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill crawls at random instants and compare.")
    parser.add_argument("--seed", type=int, help="of the first loop; default: another one each time")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no loop after so long")
    parser.add_argument("--loops", type=int, default=10**9, help="at most so many")
    parser.add_argument("--kills", type=int, default=10**9, help="stop after so many")
    wanted = parser.parse_args()
    first = wanted.seed if wanted.seed is not None else random.randrange(10**9)
    end_s, kills = time.monotonic() + wanted.minutes * 60, 0
    with tempfile.TemporaryDirectory() as folder, Soak.begin(Path(folder)) as soak:
        for loop in range(wanted.loops):
            if time.monotonic() > end_s or kills >= wanted.kills:
                break
            print(f"seed {first + loop}: ", end="", flush=True)
            killed = soak.loop(first + loop)
            kills += killed
            print(f"{killed} kills, no difference; {kills} in all", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
