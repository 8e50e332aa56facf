"""What watching costs: a crawl while the dashboard is open, /metrics of 64 agents, 100 who listen to events.

1. One crawl, bound by CPU, without and with `gossamer watch` and somebody who listens to its events as the page does,
   in turns of eight rounds. Four turns are a figure: without, with, with, without, or the other way round, by chance,
   so that whatever grows or repeats in a crawl counts on both sides. Files are merged every eight rounds, so that each
   turn has it once; every 32, as is the default, it would always fall into the same turn of four. The crawler has a
   core of its own; the web, the watcher and its reader share the other. A watcher that was stopped looks at once when
   it goes on, which it would not do by itself: in shorter turns that is most of what it does.
2. A site of 64 agents, all alive, each with a chain of its own. It is polite and mostly waits. /metrics is asked for
   again and again: by the clock, and by the CPU of the watcher.
3. A polite crawl, watched by nobody, by one and by 100 in turns: the CPU of the watcher.
"""

import argparse
import http.client
import os
import random
import re
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import NamedTuple

from benchmarks import RESULTS, ROOT, machine, write_section
from benchmarks.bench_crawl import BUSY, CONNECTIONS, CRAWLER_CORE, SERVER_CORE, pin
from experiments.processes import cpu_s
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

CALM = {"errors": 0.0, "crawl_delays": 0.0, "robots_broken": 0.0, "robots_rules": 0.0, "redirects": 0.0}
EAGER = WebSpec(seed=21, hosts=200, pages=90_000, page_bytes=10_000.0, links=30.0, host_exponent=0.0, **CALM)  # type: ignore[arg-type]
POLITE = WebSpec(seed=22, hosts=100, pages=40_000, page_bytes=10_000.0, links=30.0, host_exponent=0.0, **CALM)  # type: ignore[arg-type]
MANY = WebSpec(seed=23, hosts=640, pages=20_000, page_bytes=10_000.0, links=30.0, host_exponent=0.0, **CALM)  # type: ignore[arg-type]
WIDTH, FIRST, TOGETHER = 500, 5, 8  # pages of a round; rounds before the first span, and of a span
ASKED = 200  # times
PARTS = ("slowdown", "metrics", "events")
PATIENCE_S = 600.0


def crawl_line(web: RunningWeb, directory: Path, *options: str) -> list[str]:
    line = [sys.executable, "-m", "gossamer", "crawl", web.start_url, "--dir", str(directory), "--quiet"]
    return [*line, "--testweb", web.address, "--scope", "any", "--depth", "1000", *options]


@contextmanager
def process_of(line: Sequence[str], core: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    cores = os.sched_getaffinity(0) if core is None else {core}
    process = subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


@dataclass(frozen=True)
class Watcher:
    pid: int
    port: int

    def get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        return connection.getresponse().read()


@contextmanager
def watcher(directory: Path, core: int | None = None) -> Iterator[Watcher]:
    line = [sys.executable, "-m", "gossamer", "watch", str(directory), "--listen", "127.0.0.1:0"]
    line += ["--with-process", str(os.getpid())]  # there may be no crawl yet
    with process_of(line, core) as process:
        assert process.stderr is not None
        found = re.search(rb":(\d+)/", process.stderr.readline())
        if not found:
            raise RuntimeError(f"{' '.join(line)} did not start")
        yield Watcher(process.pid, int(found[1]))


class Listeners:
    """So many clients of /events, read by one thread."""

    def __init__(self, port: int, number: int) -> None:
        self.bytes = self.events = 0
        self._selector, self._sockets = selectors.DefaultSelector(), list[socket.socket]()
        for _ in range(number):
            opened = socket.create_connection(("127.0.0.1", port))
            opened.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self._selector.register(opened, selectors.EVENT_READ)
            self._sockets.append(opened)
        self._is_over = False
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(0.2):
                data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if not data:
                    raise RuntimeError("a listener was sent away")
                self.bytes += len(data)
                self.events += data.count(b"event: change")

    def close(self) -> None:
        self._is_over = True
        self._thread.join()
        for opened in self._sockets:
            opened.close()
        self._selector.close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end_s:
            raise RuntimeError(f"no {what} within {PATIENCE_S:g} s")
        time.sleep(0.1)


# 1. A crawl that is watched


class Span(NamedTuple):
    """Some rounds of a crawl, and whether the dashboard was open then."""

    is_watched: bool
    rounds: range
    cpu_s: float  # of the crawler, all its threads
    length_s: float
    watching_s: float  # of CPU, of the watcher


def process_s(pid: int) -> float:
    """CPU time of a process, to the nanosecond, by the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~pid << 3) | 2)


def rounds_of(directory: Path) -> int:
    """How many rounds were committed."""
    names = [path.stem for path in directory.glob("manifest/*/*.json")]
    return max(map(int, names), default=0)


def spans(web: RunningWeb, directory: Path, chance: random.Random) -> list[Span]:
    """Parts of one crawl. The watcher has a listener all the time; it is stopped where nobody is to look."""
    found: list[Span] = []
    settings = ("--set", f"crawl.width={WIDTH}", "--set", f"archive.merge_files={TOGETHER}")
    line = crawl_line(web, directory, "--delay", "0", "--connections", str(CONNECTIONS), *settings)
    is_first = False  # of the four turns that are under way: whether somebody looks in the first and the last
    with process_of(line, CRAWLER_CORE) as crawl, watcher(directory) as shown:
        listeners = Listeners(shown.port, 1)

        def looked(at_least: int) -> tuple[int, float, float, float]:
            while (number := rounds_of(directory)) < at_least:
                if crawl.poll() is not None:
                    raise EOFError
                time.sleep(0.005)
            return number, process_s(crawl.pid), time.monotonic(), process_s(shown.pid)

        try:
            begin = looked(FIRST)
            while True:
                turn = len(found) % 4
                is_first = chance.random() < 0.5 if turn == 0 else is_first
                is_watched = is_first == (turn in (0, 3))
                os.kill(shown.pid, signal.SIGCONT if is_watched else signal.SIGSTOP)
                end = looked(begin[0] + TOGETHER)
                used = (after - before for before, after in zip(begin[1:], end[1:], strict=True))
                found.append(Span(is_watched, range(begin[0] + 1, end[0] + 1), *used))
                begin = end
        except (EOFError, OSError):  # the crawl is over
            pass
        finally:
            os.kill(shown.pid, signal.SIGCONT)
            listeners.close()
    return found


def visits_of(directory: Path) -> dict[int, int]:
    """How many requests each round made."""
    sql = "SELECT round, count(*) FROM visits GROUP BY round"
    line = [sys.executable, "-m", "gossamer", "query", str(directory), sql, "--format", "csv"]
    rows = subprocess.check_output(line, cwd=ROOT, text=True).split()[1:]
    return {int(number): int(visits) for number, _, visits in (row.partition(",") for row in rows)}


def side(four: Sequence[Span], is_watched: bool, visits: Mapping[int, int]) -> tuple[float, float, float]:
    """CPU and time of a page, in µs, and the share of the watcher, in the turns with somebody who looks or without."""
    turns = [span for span in four if span.is_watched is is_watched]
    pages = [sum(visits.get(number, 0) for number in span.rounds) for span in turns]
    if min(pages) < TOGETHER * WIDTH / 2:
        raise EOFError  # the crawl comes to its end, where rounds are small
    cpu = statistics.mean(1e6 * span.cpu_s / count for span, count in zip(turns, pages, strict=True))
    length = statistics.mean(1e6 * span.length_s / count for span, count in zip(turns, pages, strict=True))
    return cpu, length, sum(span.watching_s for span in turns) / sum(span.length_s for span in turns)


def slowdown(scratch: Path, fours: int) -> str:
    everywhere, chance = os.sched_getaffinity(0), random.Random(1)
    pin(0, SERVER_CORE)  # whatever we start begins there, too
    cpu, speed, shares, costs, loads = (list[float]() for _ in range(5))
    with RunningWeb(EAGER, options=["--warm", "--cache-mb", "1000"]) as web:
        while len(cpu) < fours:
            loads.append(os.getloadavg()[0])
            found = spans(web, scratch / "crawl", chance)
            visits = visits_of(scratch / "crawl")
            shutil.rmtree(scratch / "crawl")
            with suppress(EOFError):
                for start in range(0, len(found) - 3, 4):
                    off, on = (side(found[start : start + 4], is_watched, visits) for is_watched in (False, True))
                    cpu.append(100 * (on[0] / off[0] - 1))
                    speed.append(100 * (on[1] / off[1] - 1))
                    shares.append(100 * on[2])
                    costs.append(off[0])
            print(f"bench: {len(cpu)} times four turns, CPU {interval(cpu)}, time {interval(speed)}", flush=True)
    os.sched_setaffinity(0, everywhere)
    share = statistics.median(shares)
    return f"""- A crawl with the dashboard open, beside itself without it, in turns: {interval(cpu)} CPU a page
  (median of {len(cpu)} times four turns, and its 95 % confidence interval), {interval(speed)} time a page.
  A turn has {TOGETHER * WIDTH:,} pages; {statistics.median(costs):,.0f} µs a page, bound by CPU; load at
  most {max(loads):.1f}. The watcher takes {share:.2f} % of a core meanwhile."""


def interval(percent: Sequence[float]) -> str:
    """The median, with a confidence interval of 95 % that supposes nothing about how the figures are distributed."""
    ordered, number = sorted(percent), len(percent)
    rank, below = 0, 0.0  # so many figures at either end are left out: the chance that the median is there
    while (below := below + comb(number, rank) / 2**number) <= 0.025:
        rank += 1
    low, high = ordered[max(rank - 1, 0)], ordered[min(number - rank, number - 1)]
    return f"{statistics.median(ordered):+.2f} % ({low:+.2f} to {high:+.2f})"


# 2. The metrics of many agents


def many(scratch: Path, agents: int) -> str:
    directory = scratch / "many"
    with RunningWeb(MANY) as web:
        line = crawl_line(web, directory, "--delay", "20", "--agents", str(agents))
        with process_of(line) as crawl, watcher(directory) as shown:

            def up() -> bool:
                if crawl.poll() is not None:
                    raise RuntimeError(f"the crawl ended: {crawl.stderr.read().decode()}")  # type: ignore[union-attr]
                text = shown.get("/metrics").decode()
                alive = len(re.findall(r"^gossamer_agent_up\{[^}]*\} 1$", text, re.M))
                return alive == agents == len(re.findall(r"^gossamer_commits_total\{", text, re.M))

            wait_for(up, f"{agents} agents that have committed")
            time.sleep(20.0)  # they start, which is not what is measured
            load, before_s = os.getloadavg()[0], cpu_s([shown.pid])
            idle_s = time.monotonic()
            time.sleep(10.0)
            idle = (cpu_s([shown.pid]) - before_s) / (time.monotonic() - idle_s)  # it looks at the crawl meanwhile
            before_s, start_s, times_s = cpu_s([shown.pid]), time.monotonic(), []
            for _ in range(ASKED):
                asked_s = time.perf_counter()
                text = shown.get("/metrics")
                times_s.append(time.perf_counter() - asked_s)
                time.sleep(0.05)
            spent_s = cpu_s([shown.pid]) - before_s - idle * (time.monotonic() - start_s)
    cuts = statistics.quantiles(times_s, n=20)
    lines = len([line for line in text.decode().splitlines() if not line.startswith("#")])
    return f"""- /metrics at {agents} agents, all alive: median {1000 * statistics.median(times_s):.1f} ms by the clock,
  95 % within {1000 * cuts[-1]:.1f}, at most {1000 * max(times_s):.1f}; {1000 * spent_s / ASKED:.1f} ms of the watcher's
  CPU. {lines:,} samples, {len(text) / 1000:.0f} kB, {ASKED} times; load {load:.1f}."""


# 3. Many who listen


def listened(scratch: Path, rounds: int, span_s: float, clients: int) -> str:
    directory = scratch / "listened"
    found: dict[int, list[float]] = {0: [], 1: [], clients: []}
    sent: list[tuple[float, float]] = []  # events and bytes, of a client in a second
    with RunningWeb(POLITE) as web, process_of(crawl_line(web, directory, "--delay", "1"), CRAWLER_CORE) as crawl:
        pin(web.pid, CRAWLER_CORE)
        with watcher(directory) as shown:
            wait_for(lambda: b"gossamer_commits_total" in shown.get("/metrics"), "first commit")
            time.sleep(5.0)
            load = os.getloadavg()[0]
            for number in [*found] * rounds:
                share, events, size = span(shown, number, span_s)
                found[number].append(share)
                sent += [(events, size)] if number else []
                print(f"bench: {number} listen: {100 * share:.2f} % of a core", flush=True)
            if crawl.poll() is not None:
                raise RuntimeError("the crawl ended before it was measured")
    shares = {
        number: f"{100 * statistics.median(each):.1f} % of a core ({100 * min(each):.1f} to {100 * max(each):.1f})"
        for number, each in found.items()
    }
    more = 100 * (statistics.median(found[clients]) - statistics.median(found[1]))
    events, size = (statistics.median(each) for each in zip(*sent, strict=True))
    return f"""- The watcher of a crawl of 100 pages a second: {shares[0]} if nobody listens, {shares[1]} with one,
  {shares[clients]} with {clients}: {more:.1f} % for {clients - 1} more. Each gets {events:.2f} events and
  {size / 1000:.1f} kB a second. {rounds} spans of {span_s:g} s each, in turns; load {load:.1f}."""


def span(shown: Watcher, number: int, span_s: float) -> tuple[float, float, float]:
    """The watcher's share of a core while so many listen; events and bytes that each of them gets in a second."""
    listeners = Listeners(shown.port, number)
    time.sleep(1.0)  # everything is sent once, at the start
    before_s, start_s, events, size = cpu_s([shown.pid]), time.monotonic(), listeners.events, listeners.bytes
    time.sleep(span_s)
    passed_s = time.monotonic() - start_s
    share = (cpu_s([shown.pid]) - before_s) / passed_s
    each_s = max(number, 1) * passed_s
    found = share, (listeners.events - events) / each_s, (listeners.bytes - size) / each_s
    listeners.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fours", type=int, default=60, help="times four turns, two of them watched")
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--spans", type=int, default=3, help="of 20 seconds, for each number of those who listen")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one, or these; default: all")
    parser.add_argument("--keep", action="store_true", help=f"write the figures to {RESULTS.name}")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"bench: other programs keep this machine busy (load {load:.1f}): compare by CPU, not by the clock")
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        scratch = Path(folder)
        parts = [f"`make bench-watch` on {machine()}; load {load:.1f} at the start"]
        chosen, lines = arguments.part or PARTS, list[str]()
        if "slowdown" in chosen:
            lines.append(slowdown(scratch, arguments.fours))
        lines += [many(scratch, arguments.agents)] if "metrics" in chosen else []
        if "events" in chosen:
            lines.append(listened(scratch, arguments.spans, 20.0, arguments.clients))
        parts += ["\n".join(lines)] if lines else []
    text = "\n\n".join(parts)
    print(f"\n{text}\n")
    if arguments.keep:
        write_section("watch", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
