"""One agent on one core against two agents on two: pages per second without politeness, and what a page costs.

The web's server needs CPU, too, and there are only two cores. So it is said openly what everybody used: how fast pages
come by the clock, while the server, the supervisor and nats-server take their share of the same cores; the same with
that share taken off; what a page costs the agents in CPU seconds; and how long agents had nothing to run, which the
kernel tells apart from waiting for a core.

One agent has a core of its own: everything else is kept on the other one. Of two agents each has a core, and whatever
else there is runs on both. Only the middle of a crawl counts, from the visit of a tenth of its pages until that of nine
tenths: in the beginning there are few links to follow, and at the end one agent waits for what the other still finds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT, machine, table, write_section
from experiments.processes import cpu_s
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

CONNECTIONS, WIDTH = 64, 2_000
HOSTS = 1_000  # of 300, chance gave one agent 173
GOAL = 1.8  # by the clock, with the share of everything else taken off
BUSY = 0.5  # load average at which a measurement is no longer alone
LOOK_S = 0.05


@dataclass(frozen=True)
class Run:
    agents: int
    pages: int  # in the middle of the crawl
    seconds: float  # which took so long
    wall_s: float  # of the whole command
    agents_cpu_s: float  # in these seconds
    others_cpu_s: float  # supervisor, nats-server
    server_cpu_s: float
    asleep_s: float  # of all agents: with nothing to run, waiting for pages, disks or each other
    commits: int
    update_s: float  # of all commits, by the clock
    sent_mb: float

    @property
    def per_s(self) -> float:
        return self.pages / self.seconds

    @property
    def accounted_per_s(self) -> float:
        """Pages in a second that the agents' cores had for them: what others took of two cores is half of that long."""
        taken_s = (self.others_cpu_s + self.server_cpu_s) / 2 if self.agents == 2 else 0.0
        return self.pages / (self.seconds - taken_s)

    @property
    def ms_per_page(self) -> float:
        return 1000 * self.agents_cpu_s / self.pages

    def row(self) -> list[str]:
        shares = (self.agents_cpu_s, self.others_cpu_s, self.server_cpu_s)
        figures = [
            f"{self.per_s:,.0f}",
            f"{self.wall_s:.1f}",
            f"{self.ms_per_page:.3f}",
            f"{self.accounted_per_s:,.0f}",
        ]
        cores = [*(f"{cpu / self.seconds:.2f}" for cpu in shares), f"{self.asleep_s / self.seconds:.2f}"]
        return [str(self.agents), *figures, *cores, str(self.commits), f"{self.update_s:.1f}", f"{self.sent_mb:.1f}"]


HEADER = [
    "agents",
    "pages/s",
    "wall s",
    "CPU ms/page",
    "accounted pages/s",
    "cores: agents",
    "others",
    "web",
    "asleep",
    "commits",
    "s in them",
    "MB sent",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=150_000)
    parser.add_argument("--runs", type=int, default=3, help="of each; the median by speed counts")
    parser.add_argument("--keep", action="store_true", help=f"write the figures to {RESULTS.name}")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    # Hosts of the same size: one that is very large would keep its agent busy long after the other.
    spec = WebSpec.plain(seed=3, hosts=HOSTS, pages=arguments.pages, host_exponent=0.0, links=40.0, page_bytes=10_000.0)
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(spec, options=["--warm", "--cache-mb", "1000"]) as web:
        runs = {agents: [] for agents in (1, 2)}  # type: dict[int, list[Run]]
        for number in range(arguments.runs):
            for agents, done in runs.items():
                done.append(crawl(web, Path(scratch) / f"{agents}-{number}", agents))
                print(*done[-1].row(), flush=True)
    text = report(runs, load)
    print(text)
    if arguments.keep:
        write_section("agents", text)


def crawl(web: RunningWeb, directory: Path, agents: int) -> Run:
    """Agents run on one core each; whatever else there is, on all."""
    command = [sys.executable, "-m", "gossamer", "crawl", web.start_url, "--dir", str(directory), "--json"]
    command += ["--testweb", web.address, "--delay", "0", "--connections", str(CONNECTIONS)]
    command += ["--agents", str(agents), "--set", "crawl.scope=any", "--set", f"crawl.width={WIDTH}"]
    start_s = time.time()
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(command, cwd=ROOT, stdout=nowhere)
    samples, rest = [], Asleep()
    while process.poll() is None:
        workers = _workers(process.pid, directory, agents)
        for core, pid in enumerate(workers):
            pin(pid, core % (os.cpu_count() or 1))
        others = [] if agents == 1 else [process.pid, *_server(directory)]
        pin(web.pid, *range(agents == 1, os.cpu_count() or 1))
        samples.append((time.time(), cpu_s(workers), cpu_s(others), cpu_s([web.pid]), rest.seconds(workers)))
        time.sleep(LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    run = _measured(agents, directory, samples, time.time() - start_s)
    shutil.rmtree(directory)
    return run


class Asleep:
    """`Asleep` adds up how long processes had no thread that ran, or waited for a core."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._before: dict[int, tuple[float, float]] = {}  # by process: when we looked, and how long it was awake

    def seconds(self, pids: Iterable[int]) -> float:
        for pid in pids:
            now_s, awake_s = time.monotonic(), _awake_s(pid)
            before_s, was_awake_s = self._before.get(pid, (now_s, awake_s))
            self._total_s += max(now_s - before_s - max(awake_s - was_awake_s, 0.0), 0.0)
            self._before[pid] = now_s, awake_s
        return self._total_s


def _awake_s(pid: int) -> float:
    try:
        tasks = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except OSError:
        return 0.0  # it has just ended
    return sum(int(ran) + int(waited) for ran, waited, _ in tasks) / 1e9


def pin(pid: int, *cores: int) -> None:
    """All threads of a process."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), cores)
    except OSError:
        return  # it has just ended


def _workers(pid: int, directory: Path, agents: int) -> list[int]:
    if agents == 1:
        return [pid]
    started = [event for event in events([directory / "log" / "crawl.jsonl"]) if event["event"] == "agent started"]
    return list({event["agent"]: int(event["process"]) for event in started}.values())


def _server(directory: Path) -> list[int]:
    """The nats-server of the site, by its command line."""
    config = str(directory / "site" / "nats.conf").encode()
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if config in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def events(paths: Iterable[Path]) -> list[dict[str, Any]]:
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


def _measured(agents: int, directory: Path, samples: list[tuple[float, ...]], wall_s: float) -> Run:
    ask = [sys.executable, "-m", "gossamer", "query", str(directory), "--json"]
    ask.append("SELECT epoch_ms(time) / 1000.0 + elapsed_s AS s FROM visits WHERE NOT is_robots ORDER BY s")
    times = [row["s"] for row in json.loads(subprocess.run(ask, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout)]
    commits = [event for event in events((directory / "log").glob("*.jsonl")) if event["event"] == "commit"]
    tenth = len(times) // 10
    begin_s, end_s = times[tenth], times[-tenth - 1]
    inside = [sample for sample in samples if begin_s <= sample[0] <= end_s]
    used = [last - first for first, last in zip(inside[0], inside[-1], strict=True)]
    sent = sum(event["sent_bytes"] for event in commits) / 1e6
    update_s = sum(event["seconds"] for event in commits)
    pages = bisect_right(times, inside[-1][0]) - bisect_right(times, inside[0][0])
    return Run(agents, pages, used[0], wall_s, *used[1:], len(commits), update_s, sent)


def report(runs: dict[int, list[Run]], load: float) -> str:
    one, two = (sorted(done, key=lambda run: run.per_s)[(len(done) - 1) // 2] for done in runs.values())
    by_cpu = 2 * one.ms_per_page / two.ms_per_page
    ratios = [b.per_s / a.per_s for a, b in zip(*runs.values(), strict=True)]
    accounted = [b.accounted_per_s / a.per_s for a, b in zip(*runs.values(), strict=True)]
    doubt = " **The machine was busy with other work: the ratios by the clock say nothing.**" if load > BUSY else ""
    return f"""`make bench-agents` on {machine()}; load {load:.1f} at the start.{doubt}

{table([HEADER, one.row(), two.row()])}

- Bound by CPU: two agents on two cores are {statistics.median(ratios):.2f} times as fast as one on one, by the clock
  ({_spread(ratios)}). The web's server, the supervisor and nats-server take their CPU from the
  same two cores: with one agent they have a core of their own, with two they have none.
- With their share taken off, {statistics.median(accounted):.2f} times ({_spread(accounted)};
  at least {GOAL} is wanted). That is: the pages of two agents divided by the time less half of the CPU seconds
  that the server, the supervisor and nats-server used in it, as each of the two cores was without its agent for that
  long; beside the pages of one agent by the clock. While agents were asleep, this says a little too much: that CPU was
  nobody's loss.
- A page costs the agents {one.ms_per_page:.3f} ms of CPU with one, {two.ms_per_page:.3f} ms with two: if
  CPU is all that limits them, and everything else has cores of its own, two are {by_cpu:.2f} times as fast.
- The middle of a crawl ({one.pages:,} pages; 10 KB with 40 links each, on {HOSTS:,} hosts of one size), no delays,
  {CONNECTIONS} connections per agent, rounds of {WIDTH:,}; agents are pinned to a core each.
"""


def _spread(ratios: list[float]) -> str:
    return f"median of {len(ratios)} pairs: {min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else "one run"


if __name__ == "__main__":
    main()
