"""What a page costs by the shape of the web, and as a crawl grows: CPU, memory, files, and how long a question takes.

Each row of the first table is a crawl of one synthetic web. The second table is one crawl, stopped and resumed nine
times: each tenth of its visits is a process of its own, so that its CPU is known exactly.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import RESULTS, ROOT, corpus, machine, table, write_section
from benchmarks.bench_crawl import BUSY, CONNECTIONS, CRAWLER_CORE, SERVER_CORE, pin
from benchmarks.front import KINDS, NEEDED, front, is_here
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

# Nothing on these webs is waited for: they measure CPU.
CALM = {"errors": 0.0, "crawl_delays": 0.0, "robots_broken": 0.0, "subdomains": 0.0}
PAGES = 6_000
SHAPES = {
    "1 host": {"hosts": 1},
    "100 hosts": {"hosts": 100},
    "5,000 hosts": {"hosts": 5_000},
    "small pages: 2 kB, 10 links": {"page_bytes": 2_000.0, "links": 10.0},
    "large pages: 200 kB, 1,000 links": {"page_bytes": 200_000.0, "links": 1_000.0},
    "plain": {},
    "gzip": {"gzip": 1.0},
    "chunked": {"chunked": 1.0},
}
QUESTION = "SELECT status, count(*), sum(wire_bytes) FROM visits GROUP BY status"


@dataclass(frozen=True)
class Cost:
    visits: int
    cpu_s: float
    wall_s: float
    peak_mb: float
    own_mb: float  # the most without what is mapped from files, which the kernel takes back whenever it needs it


def crawl(url: str, address: str, directory: Path, visits: int = 0) -> Cost:
    """Crawls, or goes on, until there are so many visits in all; 0: until nothing is left."""
    command = [sys.executable, "-m", "gossamer", "crawl", url, "--dir", str(directory), "--testweb", address, "--json"]
    command += ["--delay", "0", "--connections", str(CONNECTIONS), "--scope", "any", "--set", "fetch.verify_tls=false"]
    command += ["--pages", str(visits)] if visits else []
    start_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=lambda: pin(0, CRAWLER_CORE))
    own_mb, ended = 0.0, 0
    while not ended:
        own_mb = max(own_mb, anonymous_mb(process.pid))
        time.sleep(0.02)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    wall_s = time.perf_counter() - start_s
    return Cost(known(directory)["visits"], used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / 1024, own_mb)


def anonymous_mb(pid: int) -> float:
    """The memory that is the process's own; 0 when it has just ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def known(directory: Path) -> dict[str, int]:
    command = [sys.executable, "-m", "gossamer", "status", str(directory), "--json"]
    found: dict[str, int] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return found


def question_s(directory: Path) -> float:
    """How long a question over all visits takes, start-up included."""
    start_s = time.perf_counter()
    command = [sys.executable, "-m", "gossamer", "query", str(directory), "--json", QUESTION]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start_s


def files(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def shapes(scratch: Path) -> str:
    rows = [["web", "visits", "CPU µs/page", "peak MB", "files"]]

    def measure(name: str, url: str, address: str) -> None:
        print(f"bench: {name}", flush=True)
        cost = crawl(url, address, scratch / "crawl")
        page_us = cost.cpu_s * 1e6 / cost.visits
        counts = (cost.visits, page_us, cost.peak_mb, files(scratch / "crawl"))
        rows.append([name, *(f"{count:,.0f}" for count in counts)])
        shutil.rmtree(scratch / "crawl")

    for name, traits in SHAPES.items():
        with RunningWeb(spec_of(traits)) as web:
            pin(web.pid, SERVER_CORE)
            measure(name, web.start_url, web.address)
    if not is_here():
        print(f"bench: without Brotli and TLS, which need {', '.join(NEEDED)}")
        return table(rows)
    with RunningWeb(spec_of({})) as web:
        pin(web.pid, SERVER_CORE)
        for name in KINDS:
            with front(name, web.address, scratch / "front", SERVER_CORE) as address:
                url = web.start_url.replace("http:", "https:") if "TLS" in name else web.start_url
                measure(name, url, address)
    return table(rows)


def spec_of(traits: dict[str, float]) -> WebSpec:
    return WebSpec(seed=18, pages=PAGES, **{**CALM, "hosts": 300, **traits})  # type: ignore[arg-type]


def growth(scratch: Path, visits: int) -> str:
    rows = [["visits", "CPU µs/page", "peak MB", "of it own MB", "files", "a question s", "resumed and stopped s"]]
    spec = WebSpec(seed=18, hosts=visits // 100, pages=int(visits * 1.5), page_bytes=8_000.0, links=30.0, **CALM)  # type: ignore[arg-type]
    directory, before = scratch / "grown", 0
    with RunningWeb(spec) as web:
        pin(web.pid, SERVER_CORE)
        for tenth in range(1, 11):
            cost = crawl(web.start_url, web.address, directory, visits * tenth // 10)
            # One more visit: nearly all of it is opening and closing.
            resumed = crawl(web.start_url, web.address, directory, cost.visits + 1)
            page_us = (cost.cpu_s - resumed.cpu_s) * 1e6 / max(cost.visits - before, 1)
            print(f"bench: {cost.visits:,} visits, {page_us:,.0f} µs a page", flush=True)
            rows.append(
                [
                    f"{cost.visits:,}",
                    f"{page_us:,.0f}",
                    f"{cost.peak_mb:,.0f}",
                    f"{max(cost.own_mb, resumed.own_mb):,.0f}",
                    f"{files(directory):,}",
                    f"{question_s(directory):.2f}",
                    f"{resumed.wall_s:.1f}",
                ]
            )
            before = resumed.visits
    return table(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=100_000, help="of the crawl that grows (0: none)")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"bench: other programs keep this machine busy (load {load:.1f}); expect figures that are too low")
    corpus.CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=corpus.CACHE, prefix="shapes-") as scratch:
        sections = {"shapes": ("", shapes(Path(scratch)))}
        if arguments.visits:
            more = f" VISITS={arguments.visits}"
            remark = "One crawl that grows; each row is the tenth that ends there.\n\n"
            sections["growth"] = (more, remark + growth(Path(scratch), arguments.visits))
    for name, (more, text) in sections.items():
        text = f"`make bench-shapes{more}` on {machine()}; load {load:.1f} at the start\n\n{text}"
        print(f"\n{text}\n")
        write_section(name, text)
    print(f"bench: written to {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
