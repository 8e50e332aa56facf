"""The same real pages crawled by Gossamer and by its peers, one after the other on one core, and the ratios."""

import argparse
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks import RESULTS, ROOT, corpus, machine, peers, table, write_section
from benchmarks.peers import PEERS, SCRAPY, VENV, Peer
from gossamer.testweb.running import RunningWeb

# Nothing heavy is imported here: the peak memory of a child counts from what its parent had.
CONNECTIONS = 64
AGREEMENT = 0.99  # below that the crawlers did different work, and a ratio would mean nothing
SAMPLES_PER_S = 500
BUSY = 0.5  # load average at which a measurement is no longer alone
SERVER_CORE, CRAWLER_CORE = (1, 0) if (os.cpu_count() or 1) > 1 else (0, 0)
PAGES_SQL = (
    "SELECT DISTINCT url FROM visits WHERE http_status = 200 AND NOT is_robots "
    "AND content_type IN ('text/html', 'application/xhtml+xml')"
)
# The parts of a crawl by the beginnings of their modules' names; the longest that fits decides.
PARTS = {
    "fetch: client": ("fetch/client", "fetch/transfer", "fetch/outcome", "fetch/request", "fetch/resolver"),
    "fetch: workbench, robots": ("fetch/", "web/robots"),
    "decode": ("web/http",),
    "parse: HTML": ("web/",),
    "parse: URLs": ("web/url",),
    "page to row": ("crawl/reader", "crawl/fetching"),
    "WARC": ("archive/warc", "archive/digests"),
    "CDXJ, Parquet": ("archive/cdxj", "archive/tables", "archive/merge"),
    "commit": ("archive/",),
    "index: update, generate": ("frontier/", "crawl/"),
    "other": ("",),
}
STARTING = "start-up: imports"


@dataclass(frozen=True)
class Usage:
    """What one process took, and the server meanwhile."""

    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    server_cpu_s: float


@dataclass(frozen=True)
class Result:
    name: str
    usage: Usage
    start_cpu_s: float  # of a crawl of one page without links
    pages: dict[str, str]  # HTML pages with status 200: how all crawlers spell them -> URL
    requests: int
    stored_mb: float

    @property
    def per_cpu_s(self) -> float:
        return len(self.pages) / self.usage.cpu_s

    @property
    def per_s(self) -> float:
        return len(self.pages) / self.usage.wall_s

    @property
    def page_us(self) -> float:
        """CPU per page without start-up."""
        return (self.usage.cpu_s - self.start_cpu_s) * 1e6 / len(self.pages)

    def row(self, ours: "Result") -> list[str]:
        usage = self.usage
        seconds = [f"{usage.wall_s:.1f}", f"{usage.cpu_s:.1f}", f"{self.start_cpu_s:.2f}"]
        figures = [self.page_us, self.per_cpu_s, usage.peak_rss_mb, self.stored_mb]
        times = [f"{ours.per_cpu_s / self.per_cpu_s:.1f}", f"{ours.per_s / self.per_s:.1f}"]
        counts = [f"{len(self.pages):,}", f"{self.requests:,}"]
        return [self.name, *counts, *seconds, *(f"{figure:,.0f}" for figure in figures), *times]


@dataclass(frozen=True)
class Profile:
    samples: Counter[str]  # by part
    cpu_s: float  # of the crawl that was sampled

    def table(self, ours: Result) -> str:
        """Samples as microseconds of the measured crawl's CPU, which no sampler disturbed."""
        total = self.samples.total()
        us_per_sample = ours.usage.cpu_s * 1e6 / len(ours.pages) / total
        rows = [["CPU per page", "µs", "share"]]
        rows += [[part, f"{n * us_per_sample:,.0f}", f"{n / total:.1%}"] for part, n in self.samples.most_common()]
        return table(rows)

    def note(self) -> str:
        sampled_s = self.samples.total() / SAMPLES_PER_S
        excess = sampled_s / self.cpu_s
        doubt = "; the machine was too busy for it to be trusted" if excess > 1.3 else ""
        return f"Profile: {sampled_s:.1f} s sampled of a crawl that took {self.cpu_s:.1f} s of CPU{doubt}."


@dataclass(frozen=True)
class Limit:
    """What the libraries take that every crawl like this one needs: no code of ours makes it less."""

    us: dict[str, float]  # of CPU a page, by library
    ours: Result

    @property
    def page_us(self) -> float:
        return sum(self.us.values())

    @property
    def per_cpu_s(self) -> float:
        """Pages per CPU-second if Gossamer were nothing but these libraries and its start-up."""
        return 1e6 / (self.page_us + self.ours.start_cpu_s * 1e6 / len(self.ours.pages))

    def table(self) -> str:
        rows = [["the limit: libraries alone", "µs a page"], *([name, f"{us:,.0f}"] for name, us in self.us.items())]
        return table([*rows, ["together", f"{self.page_us:,.0f}"]])

    def note(self, peers: list[Result]) -> str:
        times = ", ".join(f"{self.per_cpu_s / peer.per_cpu_s:.1f} times {peer.name}" for peer in peers)
        return (
            f"Alone these libraries allow {1e6 / self.page_us:,.0f} pages per CPU-second, with Gossamer's start-up "
            f"{self.per_cpu_s:,.0f}: {times}. Gossamer reaches {self.ours.per_cpu_s / self.per_cpu_s:.0%} of that."
        )


HEADER = [
    "",
    "pages",
    "requests",
    "wall s",
    "CPU s",
    "start-up CPU s",
    "µs/page",
    "pages/CPU s",
    "peak MB",
    "stored MB",
]
HEADER += ["Gossamer is faster by CPU", "by the clock"]


class Bench:
    """One server, one scratch directory, and the crawls made with them."""

    def __init__(self, web: RunningWeb, scratch: Path) -> None:
        port = int(web.address.rpartition(":")[2])
        self._address = web.address
        self._starts = corpus.start_urls(port)
        self._nowhere = [f"http://{corpus.EMPTY_HOST}:{port}/index.html"]
        self._server_pid = web.pid
        self._scratch = scratch
        self.crawled = scratch / "gossamer"

    def peer(self, peer: Peer) -> Result:
        start = self._run_peer(peer, self._nowhere)[0].cpu_s
        usage, out = self._run_peer(peer, self._starts)
        fetched = peer.fetched(out)
        return Result(peer.name, usage, start, spelled(fetched.urls), fetched.requests, size_mb(out))

    def _run_peer(self, peer: Peer, starts: list[str]) -> tuple[Usage, Path]:
        out = self._scratch / "peer"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        hosts = [*(book.host for book in corpus.BOOKS), corpus.EMPTY_HOST]
        command = peers.with_names(peer.command(starts, out, CONNECTIONS), hosts, self._scratch)
        return self._measured(command, out / "stdout", peer.exits), out

    def gossamer(self) -> Result:
        start = self._measured([sys.executable, *self._crawl(self._nowhere)], self._scratch / "gossamer.json").cpu_s
        usage = self._measured([sys.executable, *self._crawl(self._starts)], self._scratch / "gossamer.json")
        ((visits,),) = self.ask("SELECT count(*) FROM visits")
        pages = spelled([url for (url,) in self.ask(PAGES_SQL)])
        return Result("Gossamer", usage, start, pages, visits, size_mb(self.crawled))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        command = [sys.executable, "-m", "gossamer", "query", str(self.crawled), "--json", sql]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def limits(self, urls: list[str]) -> dict[str, float]:
        """CPU is counted from the first request: start-up is told apart."""
        listed, out = self._scratch / "urls.txt", self._scratch / "limits.json"
        listed.write_text("".join(f"{url}\n" for url in interleaved(urls)))
        command = [sys.executable, "-m", "benchmarks.limits", str(listed), "--address", self._address]
        self._measured([*command, "--connections", str(CONNECTIONS)], out)
        figures: dict[str, float] = json.loads(out.read_text())
        if figures.pop("failed"):
            raise RuntimeError("the limits are wrong: some of their fetches failed")
        return figures

    def profile(self) -> Profile:
        """One more crawl under a sampler, on all cores: on one, a thread that waits for the other to make way would
        look busy, too."""
        stacks, spent = self._scratch / "stacks.txt", self._scratch / "spent.txt"
        start = f"import atexit, pathlib, runpy, time; spent = pathlib.Path({str(spent)!r}); "
        start += "atexit.register(lambda: spent.write_text(str(time.process_time()))); "
        start += "runpy.run_module('gossamer', run_name='__main__', alter_sys=True)"
        sampler = [str(VENV / "bin/py-spy"), "record", "-r", str(SAMPLES_PER_S), "-f", "raw", "-o", str(stacks)]
        command = [*sampler, "--", sys.executable, "-c", start, *self._crawl(self._starts)[2:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode or not stacks.exists():
            print(f"bench: no profile, py-spy cannot sample here: {' '.join(done.stderr.split())[-300:]}")
            return Profile(Counter(), 0.0)
        return Profile(by_part(stacks.read_text().splitlines()), float(spent.read_text()))

    def _crawl(self, starts: list[str]) -> list[str]:
        """The crawl command as a user would give it, into a directory that is not there yet."""
        shutil.rmtree(self.crawled, ignore_errors=True)
        where = ["--dir", str(self.crawled), "--testweb", self._address]
        options = ["--delay", "0", "--connections", str(CONNECTIONS), "--json"]
        return ["-m", "gossamer", "crawl", *starts, *where, *options]

    def _measured(self, command: list[str], out: Path, exits: tuple[int, ...] = (0,)) -> Usage:
        """Runs a process on the crawler's core; its output goes to a file, a pipe would make us take part."""
        server_s, start_s = cpu_of(self._server_pid), time.perf_counter()
        with out.open("w") as stdout:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, preexec_fn=lambda: pin(0, CRAWLER_CORE)
            )
            try:
                _, status, used = os.wait4(process.pid, 0)
            except BaseException:  # a peer whose benchmark was interrupted would go on for minutes
                process.kill()
                raise
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s, server_s = time.perf_counter() - start_s, cpu_of(self._server_pid) - server_s
        if process.returncode not in exits:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        return Usage(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, server_s)


def pin(pid: int, core: int) -> None:
    os.sched_setaffinity(pid, {core})


def cpu_of(pid: int) -> float:
    """User and system seconds of a running process: fields 14 and 15 of its stat, counted after the name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size_mb(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def spelled(urls: list[str]) -> dict[str, str]:
    """URLs by a spelling in which the crawlers do not differ: without port and percent-encoding."""
    found = {}
    for url in urls:
        parts = urlsplit(url)
        query = f"?{unquote(parts.query)}" if parts.query else ""
        found[f"{parts.hostname}{unquote(parts.path) or '/'}{query}"] = url
    return found


def interleaved(urls: list[str]) -> list[str]:
    """One URL of every host in turn, as a crawl fetches them."""
    hosts: dict[str, list[str]] = {}
    for url in sorted(urls):
        hosts.setdefault(urlsplit(url).netloc, []).append(url)
    return [url for turn in zip_longest(*hosts.values()) for url in turn if url is not None]


def by_part(stacks: list[str]) -> Counter[str]:
    """Samples by the innermost frame that is ours; libraries count for the module that called them."""
    prefixes = sorted(((p, part) for part, begins in PARTS.items() for p in begins), key=lambda e: -len(e[0]))
    counts: Counter[str] = Counter()
    for line in stacks:
        stack, _, samples = line.rpartition(" ")
        modules = re.findall(r"gossamer/([\w/]+)\.py:", stack)
        innermost = modules[-1] if modules else ""
        part = next(part for prefix, part in prefixes if innermost.startswith(prefix))
        counts[STARTING if "importlib._bootstrap" in stack else part] += int(samples)
    return counts


def compare(bench: Bench, ours: Result, theirs: Result) -> tuple[float, list[str]]:
    """The share of pages that both Gossamer and Scrapy crawled, and what became of the others."""
    both = ours.pages.keys() & theirs.pages.keys()
    only_ours, only_theirs = ours.pages.keys() - both, theirs.pages.keys() - both
    agreement = len(both) / max(len(both) + len(only_ours) + len(only_theirs), 1)
    lines = [f"Same pages as {theirs.name}: {len(both):,}, {agreement:.2%} of all."]
    if only_theirs:
        reasons = Counter(reasons_of(bench, only_theirs).values())
        lines.append(f"Only Scrapy: {len(only_theirs):,} (Gossamer says: {told(reasons)}), as {sample(only_theirs)}.")
    if only_ours:
        lines.append(f"Only Gossamer: {len(only_ours):,}, as {sample(only_ours)}.")
    return agreement, lines


def reasons_of(bench: Bench, pages: set[str]) -> dict[str, str]:
    """What Gossamer's archive knows of pages that it did not store."""
    found = dict.fromkeys(pages, "never seen")
    refused = bench.ask("SELECT DISTINCT target_url, verdict FROM links WHERE verdict <> 'followed'")
    visited = bench.ask("SELECT url, concat_ws(' ', outcome, http_status) FROM visits WHERE NOT is_robots")
    for url, reason in (*refused, *visited):
        (page,) = spelled([url])
        if page in pages:
            found[page] = reason
    return found


def told(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(5))


def sample(pages: set[str]) -> str:
    return ", ".join(sorted(pages)[:5])


def report(bench: Bench, repeat: int, chosen: list[Peer]) -> tuple[str, dict[str, Any]]:
    """Measures everything; text for RESULTS.md, and figures."""
    print(f"bench: Gossamer, {repeat} times", flush=True)
    runs = sorted((bench.gossamer() for _ in range(repeat)), key=lambda result: result.per_cpu_s)
    ours = runs[len(runs) // 2]
    print(f"bench: {ours.per_cpu_s:,.0f} pages per CPU-second; now its peers, which take minutes", flush=True)
    results, notes = [ours], []
    figures: dict[str, Any] = {"pages_per_cpu_s": round(ours.per_cpu_s, 1), "page_us": round(ours.page_us, 1)}
    for peer in chosen:
        if why := peer.missing():
            notes.append(f"{peer.name} is left out: {why}.")
            continue
        theirs = bench.peer(peer)
        print(f"bench: {peer.name}: {theirs.per_cpu_s:,.0f}", flush=True)
        if peer is SCRAPY:
            figures["agreement"], differences = compare(bench, ours, theirs)
            notes += differences
        else:
            theirs = dataclasses.replace(
                theirs, pages={name: theirs.pages[name] for name in theirs.pages & ours.pages.keys()}
            )
            notes.append(
                f"{peer.name} ({peer.about}) has {len(theirs.pages) / len(ours.pages):.1%} of Gossamer's pages."
            )
        figures[peer.name] = round(ours.per_cpu_s / theirs.per_cpu_s, 2)
        results.append(theirs)
    print("bench: now the limits, then a profile", flush=True)
    limits = bench.limits(list(ours.pages.values()))
    client_us = limits.pop("client")
    limit = Limit(limits, ours)
    figures |= {"limit_us": round(limit.page_us, 1), "limit_pages_per_cpu_s": round(limit.per_cpu_s, 1)}
    notes += [
        f"Gossamer: {runs[0].per_cpu_s:,.0f} to {runs[-1].per_cpu_s:,.0f} pages per CPU-second in {repeat} runs; "
        "the median is shown.",
        f"The server's core was busy for {share(ours.usage)} of Gossamer's time.",
        "µs/page is CPU without start-up, which is that of a crawl of one page without links.",
    ]
    text = [table([HEADER, *(result.row(ours) for result in results)]), "\n".join(f"- {note}" for note in notes)]
    text += [limit.table(), f"{limit.note(results[1:])} Fetching by Gossamer's client: {client_us:,.0f} µs."]
    profile = bench.profile()
    if profile.samples:
        text += [profile.table(ours), profile.note()]
    return "\n\n".join(text), figures


def share(usage: Usage) -> str:
    return f"{usage.server_cpu_s / usage.wall_s:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [peer.name for peer in PEERS]
    parser.add_argument("--peer", action="append", choices=names, help="compare with this one only; writes no results")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="crawls by Gossamer; the median counts")
    arguments = parser.parse_args()
    chosen = [peer for peer in PEERS if peer.name in (arguments.peer or names)]
    try:
        hosts = corpus.ensure() | corpus.empty()
    except corpus.CorpusError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    peers.prepare()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"bench: other programs keep this machine busy (load {load:.1f}); expect figures that are too low")
    with RunningWeb(roots=hosts) as web, tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="bench-") as scratch:
        pin(web.pid, SERVER_CORE)
        text, figures = report(Bench(web, Path(scratch)), arguments.repeat, chosen)
    text = f"`make bench` on {machine()}; load {load:.1f} at the start\n\n{text}"
    print(f"\n{text}\n")
    if not arguments.peer:
        write_section("crawl", text)
        print(f"bench: written to {RESULTS.relative_to(ROOT)}")
    print(json.dumps(figures))
    return 0 if figures.get("agreement", 1.0) >= AGREEMENT else 1


if __name__ == "__main__":
    sys.exit(main())
