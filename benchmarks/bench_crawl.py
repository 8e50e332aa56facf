"""The same real pages crawled by Gossamer and by Scrapy, one after the other on one core; prints ratios, writes RESULTS.md."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks import corpus  # nothing heavy here: a child's peak memory counts from what its parent had

ROOT = corpus.CACHE.parent
VENV = corpus.CACHE / "scrapy-venv"  # Scrapy and the sampler are no business of the project's own environment
PEER = ("scrapy==2.19.0", "py-spy==0.4.3")
RESULTS = Path(__file__).with_name("RESULTS.md")
CONNECTIONS = 64
AGREEMENT = 0.99  # below that the crawlers did different work, and a ratio would mean nothing
SAMPLES_PER_S = 500
SERVER_CORE, CRAWLER_CORE = (1, 0) if (os.cpu_count() or 1) > 1 else (0, 0)
PAGES_SQL = (
    "SELECT DISTINCT url FROM visits WHERE http_status = 200 AND NOT is_robots "
    "AND content_type IN ('text/html', 'application/xhtml+xml')"
)
# The parts of a crawl by the beginnings of their modules' names; the longest that fits decides.
PARTS = {
    "fetch: client": ("fetch/client", "fetch/transfer", "fetch/verdict", "fetch/request", "fetch/resolver"),
    "fetch: workbench, robots": ("fetch/", "web/robots"),
    "decode": ("web/http",),
    "parse: HTML": ("web/",),
    "parse: URLs": ("web/url",),
    "page to row": ("crawl/reader", "crawl/fetching"),
    "WARC": ("archive/warc", "archive/digests"),
    "CDXJ, Parquet": ("archive/cdxj", "archive/tables", "archive/merge"),
    "commit": ("archive/", "federation/"),
    "index: update, generate": ("index/", "order/", "crawl/"),
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
    pages: dict[str, str]  # HTML pages with status 200: how both crawlers spell them -> URL
    requests: int
    stored_mb: float

    @property
    def per_cpu_s(self) -> float:
        return len(self.pages) / self.usage.cpu_s

    def row(self) -> list[str]:
        usage = self.usage
        figures = [len(self.pages) / usage.wall_s, self.per_cpu_s, usage.peak_rss_mb, self.stored_mb]
        seconds = [f"{usage.wall_s:.1f}", f"{usage.cpu_s:.1f}"]
        return [self.name, f"{len(self.pages):,}", f"{self.requests:,}", *seconds, *(f"{f:,.0f}" for f in figures)]


HEADER = ["", "pages", "requests", "wall s", "CPU s", "pages/s", "pages/CPU s", "peak MB", "stored MB"]


class Bench:
    """One server, one scratch directory, and the crawls made with them."""

    def __init__(self, port: int, server_pid: int, scratch: Path) -> None:
        self._address = f"127.0.0.1:{port}"
        self._starts = corpus.start_urls(port)
        self._server_pid = server_pid
        self._scratch = scratch
        self.crawled = scratch / "gossamer"

    def scrapy(self, pages: int) -> Result:
        out = self._scratch / "scrapy"
        out.mkdir()
        command = [str(VENV / "bin/python"), "-m", "benchmarks.scrapy_spider", *self._starts]
        command += ["--domain", corpus.DOMAIN, "--out", str(out), "--pages", str(pages)]
        usage = self._measured([*command, "--concurrency", str(CONNECTIONS)], self._scratch / "scrapy.json")
        stats = json.loads((self._scratch / "scrapy.json").read_text())
        rows = [line.split("\t") for line in (out / "visits.tsv").read_text().splitlines()]
        urls = [url for status, kind, url in rows if status == "200" and kind == "html"]
        return Result("Scrapy 2.19", usage, spelled(urls), stats["downloader/request_count"], size_mb(out))

    def gossamer(self) -> Result:
        usage = self._measured([sys.executable, *self._crawl()], self._scratch / "gossamer.json")
        ((visits,),) = self.ask("SELECT count(*) FROM visits")
        pages = spelled([url for (url,) in self.ask(PAGES_SQL)])
        return Result("Gossamer", usage, pages, visits, size_mb(self.crawled))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        command = [sys.executable, "-m", "gossamer", "query", str(self.crawled), "--json", sql]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        return [tuple(row.values()) for row in json.loads(done.stdout)]

    def ceiling(self, urls: list[str]) -> dict[str, float]:
        """Its CPU is counted from the first request: start-up is not what bounds a crawl."""
        listed, out = self._scratch / "urls.txt", self._scratch / "ceiling.json"
        listed.write_text("".join(f"{url}\n" for url in interleaved(urls)))
        command = [sys.executable, "-m", "benchmarks.ceiling", str(listed), "--address", self._address]
        usage = self._measured([*command, "--connections", str(CONNECTIONS)], out)
        figures: dict[str, float] = json.loads(out.read_text())
        if figures["failed"]:
            raise RuntimeError(f"the ceiling is wrong: {figures['failed']} of its fetches failed")
        return figures | {"server_cpu_s": usage.server_cpu_s}

    def profile(self) -> Counter[str]:
        """Samples by part. The sampler runs on the server's core, so that it does not slow down what it watches."""
        stacks = self._scratch / "stacks.txt"
        start = f"import os, runpy; os.sched_setaffinity(0, [{CRAWLER_CORE}]); "
        start += "runpy.run_module('gossamer', run_name='__main__', alter_sys=True)"
        sampler = [str(VENV / "bin/py-spy"), "record", "-r", str(SAMPLES_PER_S), "-f", "raw", "-o", str(stacks)]
        command = [*sampler, "--", sys.executable, "-c", start, *self._crawl()[2:]]
        done = subprocess.run(
            command, cwd=ROOT, preexec_fn=lambda: pin(0, SERVER_CORE), capture_output=True, text=True
        )
        if done.returncode or not stacks.exists():
            print(f"profile: py-spy could not sample here: {done.stderr.strip().splitlines()[-1:]}")
            return Counter()
        return by_part(stacks.read_text().splitlines())

    def _crawl(self) -> list[str]:
        """The crawl command as a user would give it, into a directory that is not there yet."""
        shutil.rmtree(self.crawled, ignore_errors=True)
        where = ["--dir", str(self.crawled), "--testweb", self._address]
        options = ["--delay", "0", "--connections", str(CONNECTIONS), "--json"]
        return ["-m", "gossamer", "crawl", *self._starts, *where, *options]

    def _measured(self, command: list[str], out: Path) -> Usage:
        """Runs a process on the crawler's core; its output goes to a file, a pipe would make us take part."""
        server_s, start_s = cpu_of(self._server_pid), time.perf_counter()
        with out.open("w") as stdout:
            process = subprocess.Popen(command, cwd=ROOT, stdout=stdout, preexec_fn=lambda: pin(0, CRAWLER_CORE))
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s, server_s = time.perf_counter() - start_s, cpu_of(self._server_pid) - server_s
        if process.returncode:
            raise RuntimeError(f"{' '.join(command[:4])} ... ended with {process.returncode}")
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
        modules = re.findall(r"gossamer/([\w/]+)\.py[x]?:", stack)
        innermost = modules[-1] if modules else ""
        part = next(part for prefix, part in prefixes if innermost.startswith(prefix))
        counts[STARTING if "importlib._bootstrap" in stack else part] += int(samples)
    return counts


@contextmanager
def served(hosts: dict[str, Path]) -> Iterator[tuple[int, int]]:
    """Port and process of a test web that replays the corpus on its own core."""
    roots = [argument for host, path in hosts.items() for argument in ("--root", f"{host}={path}")]
    command = [sys.executable, "-m", "gossamer.testweb", *roots, "--port", "0"]
    server = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0, SERVER_CORE)
    )
    try:
        said = server.stdout.readline() if server.stdout else ""
        found = re.search(r"127\.0\.0\.1:(\d+)", said)
        if found is None:
            raise RuntimeError(f"the test web did not start: {said!r}")
        yield int(found[1]), server.pid
    finally:
        server.terminate()
        server.wait(10)


def prepare_peer() -> None:
    """An environment with Scrapy and the sampler, made once."""
    if not (VENV / "bin/py-spy").exists():
        print(f"bench: creating {VENV} with {', '.join(PEER)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin/pip"), "install", "-q", *PEER], check=True)
    command = [str(VENV / "bin/python"), "-m", "benchmarks.scrapy_spider", "--settings", "--concurrency", str(CONNECTIONS)]
    shown = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(f"Scrapy's settings: {shown.strip()}; all others by default", flush=True)


def compare(bench: Bench, ours: Result, theirs: Result, partial: bool) -> tuple[float, list[str]]:
    """The share of pages that both crawled, and what became of the others."""
    both = ours.pages.keys() & theirs.pages.keys()
    only_ours = ours.pages.keys() - both if not partial else set()
    only_theirs = theirs.pages.keys() - both
    agreement = len(both) / max(len(both) + len(only_ours) + len(only_theirs), 1)
    scope = f"of the {len(theirs.pages):,} that Scrapy was allowed" if partial else "of all"
    lines = [f"Same pages: {len(both):,}, {agreement:.2%} {scope}."]
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


def table(rows: list[list[str]]) -> str:
    """Markdown that also reads well on a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def cpu_table(samples: Counter[str], ours: Result) -> str:
    """Samples as microseconds of the measured crawl's CPU."""
    us_per_sample = ours.usage.cpu_s * 1e6 / len(ours.pages) / samples.total()
    rows = [["CPU per page", "µs", "share"]]
    rows += [
        [part, f"{n * us_per_sample:,.0f}", f"{n / samples.total():.1%}"] for part, n in samples.most_common()
    ]
    return table(rows)


def machine() -> str:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    gib = int(memory[1]) / 2**20 if memory else 0
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{cpu[1] if cpu else 'unknown CPU'}, {os.cpu_count()} cores, {gib:.0f} GiB; commit {commit}; {day}"


def write_section(name: str, text: str) -> None:
    """Replaces one section of RESULTS.md; the others belong to other benchmarks."""
    before = RESULTS.read_text() if RESULTS.exists() else "# Results\n"
    rest = re.sub(rf"^## {name}\n.*?(?=^## |\Z)", "", before, flags=re.MULTILINE | re.DOTALL)
    RESULTS.write_text(f"{rest.rstrip()}\n\n## {name}\n\n{text.strip()}\n")


def run(bench: Bench, repeat: int, scrapy_pages: int) -> tuple[str, dict[str, Any]]:
    """All measurements, as text for RESULTS.md and as figures."""
    print(f"bench: Gossamer, {repeat} times", flush=True)
    runs = sorted((bench.gossamer() for _ in range(repeat)), key=lambda result: result.per_cpu_s)
    ours = runs[len(runs) // 2]
    print("bench: Scrapy; this takes minutes", flush=True)
    theirs = bench.scrapy(scrapy_pages)
    agreement, notes = compare(bench, ours, theirs, partial=scrapy_pages > 0)
    print("bench: the pure fetch ceiling, then a profile", flush=True)
    ceiling = bench.ceiling(list(ours.pages.values()))
    samples = bench.profile()
    valid = agreement >= AGREEMENT
    per_cpu_s = ceiling["fetches"] / ceiling["cpu_s"]
    wall_ratio = len(ours.pages) / ours.usage.wall_s / (len(theirs.pages) / theirs.usage.wall_s)
    figures = {
        "scrapy_ratio": round(ours.per_cpu_s / theirs.per_cpu_s, 2) if valid else None,
        "wall_ratio": round(wall_ratio, 2) if valid else None,
        "pages_per_cpu_s": round(ours.per_cpu_s, 1),
        "ceiling_part": round(ours.per_cpu_s / per_cpu_s, 3),
        "peak_rss_mb": round(ours.usage.peak_rss_mb, 1),
        "scrapy_pages_per_cpu_s": round(theirs.per_cpu_s, 1),
        "ceiling_pages_per_cpu_s": round(per_cpu_s, 1),
        "pages": len(ours.pages),
        "agreement": round(agreement, 4),
    }
    spread = f"{runs[0].per_cpu_s:,.0f} to {runs[-1].per_cpu_s:,.0f} pages per CPU-second in {repeat} runs"
    notes.append(f"Gossamer: {spread}; the median is shown.")
    notes.append(
        f"Pure fetch ceiling: {per_cpu_s:,.0f} pages per CPU-second, {ceiling['fetches'] / ceiling['wall_s']:,.0f} per second; "
        f"the whole crawl reaches {figures['ceiling_part']:.1%} of it."
    )
    shares = [ours.usage.server_cpu_s / ours.usage.wall_s, theirs.usage.server_cpu_s / theirs.usage.wall_s]
    notes.append(f"The server's core was busy {shares[0]:.0%} with Gossamer, {shares[1]:.0%} with Scrapy.")
    if valid:
        notes.insert(0, f"**{figures['scrapy_ratio']} times Scrapy** per CPU-second, {figures['wall_ratio']} times by the clock.")
    else:
        notes.insert(0, f"No ratio: fewer than {AGREEMENT:.0%} of the pages are the same.")
    parts = ["\n".join(f"- {note}" for note in notes), table([HEADER, ours.row(), theirs.row()])]
    return "\n\n".join([*parts, cpu_table(samples, ours)] if samples else parts), figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scrapy-pages", type=int, default=0, metavar="N", help="stop Scrapy after so many answers")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="crawls by Gossamer; the median counts")
    arguments = parser.parse_args()
    try:
        hosts = corpus.ensure()
    except corpus.CorpusError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    settings = prepare_peer()
    with served(hosts) as (port, pid), tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="bench-") as scratch:
        text, figures = run(Bench(port, pid, Path(scratch)), arguments.repeat, arguments.scrapy_pages)
    text = f"`make bench` on {machine()}\n\n{text}\n\nScrapy's settings besides its defaults: `{settings}`"
    write_section("crawl", text)
    print(f"\n{text}\n\nwritten to {RESULTS.relative_to(ROOT)}")
    print(json.dumps(figures))
    return 0 if figures["scrapy_ratio"] else 1


if __name__ == "__main__":
    sys.exit(main())
