"""This experiment measures scale-up that is bound by CPU: each agent, or site, has an equal slice of a core.

UniCrawl (Le Quoc et al.) gives 3.79 from one node to four of a site, and 1.42 from two sites to three that fetch as
many pages a round together. Its nodes are machines; here a node is a group of processes that are stopped whenever they
have used more than their slice, and go on when they have some again. The supervisor and nats-server are in the first
agent's slice; all processes of a site are in the site's.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.agents import UNICRAWL_FACTOR
from experiments.agents_scaling import events
from experiments.harness import STATEMENTS_SHOWN, Block, Results, Row, columns, publish, statement
from experiments.paired import LEVEL, RESAMPLES
from experiments.processes import cpu_s, family
from experiments.sites_lab import first_pages
from experiments.sites_runs import Crawled, Setting, crawl
from gossamer.arrays import F64
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.numbers import positive
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

UNICRAWL_SITES = 1.42
STEP_S, LOOK_S = 0.01, 0.5  # how often groups are weighed, and processes looked for
CREDIT_S = 0.05  # of CPU, at most, that a group which waited may have saved up
STEADY = (0.1, 0.8)  # of the pages: before, nodes begin; after, hosts run out
SHOWN = columns(
    "kind: nodes are | nodes | pages_per_s: pages/s | factor | low: from | high: to | paper: UniCrawl | "
    "used: of its slice | cpu_ms: CPU ms/page"
)
Groups = dict[str, list[int]]  # processes, by node


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", action="append", choices=("agents", "sites"), help="(default: both)")
    parser.add_argument("--slice", type=float, default=0.2, metavar="CORES", help="of each node (default: 0.2)")
    parser.add_argument("--pages", type=positive, default=40_000, metavar="N", help="of the web (default: 40,000)")
    parser.add_argument(
        "--width", type=positive, default=4_000, metavar="N", help="pages of a round, of all nodes (default: 4,000)"
    )
    parser.add_argument("--repeat", type=positive, default=2, metavar="N", help="crawls of each (default: 2)")


@dataclass
class Slices:
    """Lets each group have so much CPU: a thread weighs them, and stops and continues their processes."""

    share: float
    groups: Callable[[], Groups]
    used_s: dict[str, float] = field(default_factory=dict)  # since they were first seen
    seen_s: dict[str, float] = field(default_factory=dict)  # when that was

    @contextmanager
    def limiting(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._limit, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _limit(self, over: threading.Event) -> None:
        groups: Groups = {}
        left: dict[str, float] = {}
        before: dict[str, float] = {}
        stopped: set[str] = set()
        looked_s, last_s = -LOOK_S, time.monotonic()
        while not over.wait(STEP_S):
            now_s = time.monotonic()
            if now_s - looked_s > LOOK_S:
                groups, looked_s = self.groups(), now_s
            for name, pids in groups.items():
                total_s = cpu_s(pids)
                self.seen_s.setdefault(name, now_s)
                used_s = max(0.0, total_s - before.get(name, total_s))
                before[name] = total_s
                self.used_s[name] = self.used_s.get(name, 0.0) + used_s
                left[name] = min(CREDIT_S, left.get(name, 0.0) + self.share * (now_s - last_s) - used_s)
                if (left[name] < 0) != (name in stopped):
                    stopped ^= {name}
                    _signal(pids, signal.SIGSTOP if name in stopped else signal.SIGCONT)
            last_s = now_s
        for pids in groups.values():
            _signal(pids, signal.SIGCONT)

    def part_used(self) -> float:
        """Returns how much of its slice a node used, in the mean."""
        now_s = time.monotonic()
        return float(np.mean([used / (self.share * (now_s - self.seen_s[name])) for name, used in self.used_s.items()]))


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def sites() -> Groups:
    """The processes of each site of a federation that this process runs."""
    lines = {pid: words_of(pid) for pid in family()}
    mains = {words[words.index("--name") + 1]: pid for pid, words in lines.items() if "--name" in words}
    return {site: family(pid) for site, pid in mains.items()}


def agents(main: int) -> Groups:
    """The agents of a crawl; the first one with all that is not an agent."""
    everybody = sorted(family(main))
    agents = [pid for pid in everybody if any("agent_process" in word for word in words_of(pid)) and not _forks(pid)]
    first = {"0": [pid for pid in everybody if pid not in agents[1:]]}
    return first | {str(number): [pid] for number, pid in enumerate(agents[1:], 1)}


def _forks(pid: int) -> bool:
    """Returns whether this is a server that agents are forked from: they have its command line."""
    return any(words_of(child) == words_of(pid) for child in family(pid)[1:])


# --- crawls


@dataclass(frozen=True)
class Measured:
    kind: str
    nodes: int
    pages_per_s: float
    used: float
    cpu_ms: float  # of a page, of all nodes


def run(arguments: argparse.Namespace) -> int:
    spec = WebSpec.plain(
        seed=arguments.seed, pages=arguments.pages, hosts=200, host_exponent=0.0, links=10.0, local=0.8,
        page_bytes=4_000.0,
    )  # fmt: skip
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(spec) as web:
        seeds = Path(scratch) / "seeds.txt"
        seeds.write_text("".join(f"{url}\n" for url in first_pages(spec.hosts)))
        for number in range(arguments.repeat):
            for kind in arguments.kind or ["agents", "sites"]:
                for nodes in (1, 2, 3, 4):
                    folder = Path(scratch) / f"{kind}-{nodes}-{number}"
                    done, slices = _CRAWLS[kind](nodes, folder, seeds, web.address, arguments)
                    cpu_ms = 1000 * sum(slices.used_s.values()) / max(1, len(done.visited()[0]))
                    found.append(Measured(kind, nodes, rate(commits(done)), slices.part_used(), cpu_ms))
    for kind in dict.fromkeys(one.kind for one in found):
        publish(_results([one for one in found if one.kind == kind], arguments), arguments.out, arguments.json)
    return 0


def commits(done: Crawled) -> list[tuple[float, int]]:
    """The time of each commit, and how many visits it has."""
    found = (event for directory in done.directories for event in events(directory) if event["event"] == "commit")
    return sorted((float(event["s"]), int(event["visits"])) for event in found)


def rate(committed: Sequence[tuple[float, int]]) -> float:
    """Pages per second between the commits that complete 10 and 80 % of the pages: with what follows fetching."""
    time_s, visits = np.array(committed).T
    pages = np.cumsum(visits)
    first, last = (int(np.searchsorted(pages, part * pages[-1])) for part in STEADY)
    return float((pages[last] - pages[first]) / max(1e-3, time_s[last] - time_s[first]))


def _agents(nodes: int, folder: Path, seeds: Path, web: str, arguments: argparse.Namespace) -> tuple[Crawled, Slices]:
    setting = Setting(1, connections=CONNECTIONS, width=arguments.width // nodes)
    options = {**setting.sections(web), "site": {"agents": nodes}}
    keys = {f"{section}.{key}": value for section, values in options.items() for key, value in values.items()}
    del keys["resolve.map"]
    more = [word for key, value in keys.items() for word in ("--set", f"{key}={str(value).lower()}")]
    command = [sys.executable, "-m", "gossamer", "crawl", "--quiet", "--dir", str(folder), "--testweb", web, *more]
    process = subprocess.Popen([*command, str(seeds)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    slices = Slices(arguments.slice, lambda: agents(process.pid))
    with slices.limiting():
        code = process.wait()
    if code:
        raise SystemExit(f"the crawl with {nodes} agents failed")
    return Crawled(folder, [folder], [(0.0, 0)]), slices


def _sites(nodes: int, folder: Path, seeds: Path, web: str, arguments: argparse.Namespace) -> tuple[Crawled, Slices]:
    slices = Slices(arguments.slice, sites)
    setting = Setting(nodes, connections=CONNECTIONS, width=arguments.width // nodes)
    with slices.limiting():
        return crawl(setting, folder, seeds, web), slices


CONNECTIONS = 16  # of each node
_CRAWLS = {"agents": _agents, "sites": _sites}


# --- results


def _ratio(above: F64, below: F64) -> tuple[float, float, float]:
    """Returns the ratio of two means of different runs, and its bootstrap interval."""
    random = np.random.default_rng(0)
    drawn = [each[random.integers(0, len(each), (RESAMPLES, len(each)))].mean(axis=1) for each in (above, below)]
    low, high = np.quantile(drawn[0] / drawn[1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(above.mean() / below.mean()), float(low), float(high)


def _results(found: Sequence[Measured], arguments: argparse.Namespace) -> Results:
    rates: dict[tuple[str, int], F64] = {
        (one.kind, one.nodes): np.array([each.pages_per_s for each in found if each.kind == one.kind
                                         and each.nodes == one.nodes]) for one in found
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for (kind, nodes), rate in rates.items():
        here = [each for each in found if (each.kind, each.nodes) == (kind, nodes)]
        bounds = dict(zip(("factor", "low", "high"), _ratio(rate, rates[kind, 1]), strict=True))
        paper = UNICRAWL_FACTOR if (kind, nodes) == ("agents", 4) else None
        rows.append(
            {
                "kind": kind,
                "nodes": nodes,
                "pages_per_s": float(rate.mean()),
                **bounds,
                "paper": paper,
                "used": float(np.mean([each.used for each in here])),
                "cpu_ms": float(np.mean([each.cpu_ms for each in here])),
            }
        )
    notes = [
        f"{arguments.pages:,} pages of 200 hosts, answered at once, no pauses; {arguments.width:,} pages a round in "
        f"all; each node has {arguments.slice:g} of a core, kept by stopping its processes (SIGSTOP) whenever it has "
        f"used more, looked at every {1000 * STEP_S:g} ms; {arguments.repeat} crawls of each, in turns",
        "agents: the first one's slice also holds the supervisor and nats-server, and one agent is the plain crawl; "
        "sites: a site's slice holds all its processes",
        "pages per second from the commit that completes 10 % of the pages to that of 80 %; "
        "from, to: 95 % bootstrap interval; used: CPU of a node in "
        "proportion to its slice, from its first process to the end of the crawl: what is missing waited",
        f"this machine has {os.cpu_count()} cores; the web's server has what is left of them",
    ]
    blocks = [Block("Statements of UniCrawl", list(_statements(rates)), STATEMENTS_SHOWN)]
    title = f"Scale-up with equal slices of CPU: {found[0].kind}"
    return Results(
        f"cpu-slices-{found[0].kind}",
        title,
        rows,
        SHOWN,
        notes,
        [figure(rows)],
        blocks,
        series=[vars(one) for one in found],
    )


def _statements(rates: dict[tuple[str, int], F64]) -> Iterator[Row]:
    for kind, above, below, paper in (("agents", 4, 1, UNICRAWL_FACTOR), ("sites", 3, 2, UNICRAWL_SITES)):
        if (kind, above) in rates:
            factor, low, high = _ratio(rates[kind, above], rates[kind, below])
            holds = True if low >= paper else False if high < paper else None
            text = f"from {below} to {above} {kind}: at least UniCrawl's {paper} times as fast"
            yield statement(text, holds, f"{factor:.2f} [{low:.2f}, {high:.2f}]")


def figure(rows: Sequence[Row]) -> Figure:
    curves = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        ours = [row for row in rows if row["kind"] == kind]
        x, y = (np.array([row[key] for row in ours], np.float64) for key in ("nodes", "factor"))
        curves.append(Curve(f"Gossamer: {kind}", x, y))
    paper = np.array([1.0, 4.0])
    if rows[0]["kind"] == "agents":
        curves.append(Curve("UniCrawl: nodes of a site", paper, np.array([1.0, UNICRAWL_FACTOR]), dashed=True))
    curves.append(Curve("as many times as nodes", paper, paper, dashed=True, color="0.6"))
    name = f"cpu-slices-{rows[0]['kind']}"
    return Figure(name, "Pages per second, one node = 1, bound by CPU", "nodes", "factor", curves, markers=True)
