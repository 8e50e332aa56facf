"""The same real pages crawled by Gossamer and by Scrapy, one after the other on one core, and what the ratios are."""

import argparse
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

from benchmarks import RESULTS, ROOT, corpus, machine, table, write_section
from gossamer.testweb.running import RunningWeb

# Nothing heavy is imported here: the peak memory of a child counts from what its parent had.
VENV = corpus.CACHE / "scrapy-venv"  # Scrapy and the sampler are no business of the project's own environment
PEER = ("scrapy==2.19.0", "py-spy==0.4.3")
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

    @property
    def per_s(self) -> float:
        return len(self.pages) / self.usage.wall_s

    def row(self) -> list[str]:
        usage = self.usage
        figures = [self.per_s, self.per_cpu_s, usage.peak_rss_mb, self.stored_mb]
        seconds = [f"{usage.wall_s:.1f}", f"{usage.cpu_s:.1f}"]
        return [self.name, f"{len(self.pages):,}", f"{self.requests:,}", *seconds, *(f"{f:,.0f}" for f in figures)]


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


HEADER = ["", "pages", "requests", "wall s", "CPU s", "pages/s", "pages/CPU s", "peak MB", "stored MB"]


class Bench:
    """One server, one scratch directory, and the crawls made with them."""

    def __init__(self, web: RunningWeb, scratch: Path) -> None:
        self._address = web.address
        self._starts = corpus.start_urls(int(web.address.rpartition(":")[2]))
        self._server_pid = web.pid
        self._scratch = scratch
        self.crawled = scratch / "gossamer"

    def scrapy(self, pages: int) -> tuple[Result, str]:
        """The crawl, and the settings it was made with."""
        out = self._scratch / "scrapy"
        out.mkdir()
        command = [str(VENV / "bin/python"), "-m", "benchmarks.scrapy_spider", *self._starts]
        command += ["--domain", corpus.DOMAIN, "--out", str(out), "--pages", str(pages)]
        usage = self._measured([*command, "--concurrency", str(CONNECTIONS)], self._scratch / "scrapy.json")
        said = json.loads((self._scratch / "scrapy.json").read_text())
        rows = [line.split("\t") for line in (out / "visits.tsv").read_text().splitlines()]
        urls = [url for status, kind, url in rows if status == "200" and kind == "html"]
        requests = said["stats"]["downloader/request_count"]
        result = Result("Scrapy 2.19", usage, spelled(urls), requests, size_mb(out))
        return result, json.dumps(said["settings"])

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

    def profile(self) -> Profile:
        """One more crawl under a sampler, on all cores: on one, a thread that waits for the other to make way would
        look busy, too."""
        stacks, spent = self._scratch / "stacks.txt", self._scratch / "spent.txt"
        start = f"import atexit, pathlib, runpy, time; spent = pathlib.Path({str(spent)!r}); "
        start += "atexit.register(lambda: spent.write_text(str(time.process_time()))); "
        start += "runpy.run_module('gossamer', run_name='__main__', alter_sys=True)"
        sampler = [str(VENV / "bin/py-spy"), "record", "-r", str(SAMPLES_PER_S), "-f", "raw", "-o", str(stacks)]
        command = [*sampler, "--", sys.executable, "-c", start, *self._crawl()[2:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode or not stacks.exists():
            print(f"bench: no profile, py-spy cannot sample here: {' '.join(done.stderr.split())[-300:]}")
            return Profile(Counter(), 0.0)
        return Profile(by_part(stacks.read_text().splitlines()), float(spent.read_text()))

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
        modules = re.findall(r"gossamer/([\w/]+)\.py:", stack)
        innermost = modules[-1] if modules else ""
        part = next(part for prefix, part in prefixes if innermost.startswith(prefix))
        counts[STARTING if "importlib._bootstrap" in stack else part] += int(samples)
    return counts


def prepare_peer() -> None:
    """An environment with Scrapy and the sampler, made once."""
    if not (VENV / "bin/py-spy").exists():
        print(f"bench: creating {VENV} with {' and '.join(PEER)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin/pip"), "install", "-q", *PEER], check=True)


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


def report(bench: Bench, repeat: int, scrapy_pages: int) -> tuple[str, dict[str, Any]]:
    """Measures everything; text for RESULTS.md, and figures."""
    print(f"bench: Gossamer, {repeat} times", flush=True)
    runs = sorted((bench.gossamer() for _ in range(repeat)), key=lambda result: result.per_cpu_s)
    ours = runs[len(runs) // 2]
    print(f"bench: {ours.per_cpu_s:,.0f} pages per CPU-second; now Scrapy, which takes minutes", flush=True)
    theirs, settings = bench.scrapy(scrapy_pages)
    agreement, differences = compare(bench, ours, theirs, partial=scrapy_pages > 0)
    print(f"bench: {theirs.per_cpu_s:,.0f}; now the pure fetch ceiling, then a profile", flush=True)
    ceiling = bench.ceiling(list(ours.pages.values()))
    profile = bench.profile()
    figures = figures_of(ours, theirs, ceiling, agreement) | {"partial": scrapy_pages > 0}
    notes = [
        verdict(figures),
        *differences,
        f"Gossamer: {runs[0].per_cpu_s:,.0f} to {runs[-1].per_cpu_s:,.0f} pages per CPU-second in {repeat} runs; "
        "the median is shown.",
        f"Pure fetch ceiling: {figures['ceiling_pages_per_cpu_s']:,.0f} pages per CPU-second; the whole crawl reaches "
        f"{figures['ceiling_part']:.1%} of it.",
        f"The server's core was busy for {share(ours.usage)} of Gossamer's time, {share(theirs.usage)} of Scrapy's.",
        f"Scrapy's settings, besides its defaults: `{settings}`",
    ]
    text = [table([HEADER, ours.row(), theirs.row()]), "\n".join(f"- {note}" for note in notes)]
    if profile.samples:
        text += [profile.table(ours), profile.note()]
    if scrapy_pages:  # the text has the ratio with its reservation; a program that reads the last line would not see it
        figures |= {"scrapy_ratio": None, "wall_ratio": None}
    return "\n\n".join(text), figures


def figures_of(ours: Result, theirs: Result, ceiling: dict[str, float], agreement: float) -> dict[str, Any]:
    valid = agreement >= AGREEMENT
    ceiling_per_cpu_s = ceiling["fetches"] / ceiling["cpu_s"]
    return {
        "scrapy_ratio": round(ours.per_cpu_s / theirs.per_cpu_s, 2) if valid else None,
        "wall_ratio": round(ours.per_s / theirs.per_s, 2) if valid else None,
        "pages_per_cpu_s": round(ours.per_cpu_s, 1),
        "ceiling_part": round(ours.per_cpu_s / ceiling_per_cpu_s, 4),
        "peak_rss_mb": round(ours.usage.peak_rss_mb, 1),
        "scrapy_pages_per_cpu_s": round(theirs.per_cpu_s, 1),
        "scrapy_peak_rss_mb": round(theirs.usage.peak_rss_mb, 1),
        "ceiling_pages_per_cpu_s": round(ceiling_per_cpu_s, 1),
        "pages": len(ours.pages),
        "agreement": round(agreement, 4),
    }


def verdict(figures: dict[str, Any]) -> str:
    if figures["scrapy_ratio"] is None:
        return f"No ratio: fewer than {AGREEMENT:.0%} of the pages are the same."
    ratio = f"{figures['scrapy_ratio']} times Scrapy per CPU-second, {figures['wall_ratio']} times by the clock."
    # Pages near the start have the most links, and Scrapy's own start is spread over fewer of them.
    return f"{ratio} Scrapy saw the beginning only: this flatters Gossamer." if figures["partial"] else ratio


def share(usage: Usage) -> str:
    return f"{usage.server_cpu_s / usage.wall_s:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--scrapy-pages",
        type=int,
        default=0,
        metavar="N",
        help="stop Scrapy after so many answers, for a first look; writes no results",
    )
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="crawls by Gossamer; the median counts")
    arguments = parser.parse_args()
    try:
        hosts = corpus.ensure()
    except corpus.CorpusError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    prepare_peer()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"bench: other programs keep this machine busy (load {load:.1f}); expect figures that are too low")
    with RunningWeb(roots=hosts) as web, tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="bench-") as scratch:
        pin(web.pid, SERVER_CORE)
        text, figures = report(Bench(web, Path(scratch)), arguments.repeat, arguments.scrapy_pages)
    text = f"`make bench` on {machine()}; load {load:.1f} at the start\n\n{text}"
    print(f"\n{text}\n")
    if not figures["partial"]:
        write_section("crawl", text)
        print(f"bench: written to {RESULTS.relative_to(ROOT)}")
    print(json.dumps(figures))
    return 0 if figures["agreement"] >= AGREEMENT else 1


if __name__ == "__main__":
    sys.exit(main())
