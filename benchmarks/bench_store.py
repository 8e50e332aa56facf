"""What an archive in a bucket costs: requests and bytes of a crawl, dollars at list prices, and speed at a distance.

Requests are counted by an HTTP proxy before SeaweedFS. For the speed, the same crawl goes into a directory, into a
bucket on loopback, and into that bucket through a link of 15 ms each way (real sockets), in turns.
"""

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import ROOT, machine, table, write_section
from experiments import servers
from experiments.proxy import Proxy as Link
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from tests.object_stores import Asked, Proxy

BUCKET = "bench"
PAGE = ROOT / "docs" / "cloud.md"
ONE_WAY_S = 0.015
# Dollars; docs/cloud.md says where these are from. Change them here, and everything that follows is computed anew.
CORE_HOUR = 0.0816 / 2


@dataclass(frozen=True)
class Prices:
    name: str
    put: float  # also list
    get: float
    gb_month: float


PRICES = (Prices("S3", 5.0e-6, 0.4e-6, 0.023), Prices("Azure", 5.0e-6, 0.4e-6, 0.018))
CHAN = 462 / 1005  # dollars for a million pages: 1.005 billion for 462
ROUNDS = {"rounds of 10,000 pages": 10_000, "100 pages/s, a commit every 30 s": 3_000}

WEB = WebSpec(seed=5, hosts=100, pages=16_000, crawl_delays=0.0, errors=0.0, robots_broken=0.0)
POLITE = WebSpec(
    seed=6, hosts=60, pages=1_800, host_exponent=0.0, links=30.0, page_bytes=10_000.0, crawl_delays=0.0, errors=0.0,
    robots_broken=0.0, robots_rules=0.0, redirects=0.0,
)  # fmt: skip
EAGER = WebSpec(seed=7, hosts=60, pages=6_000, crawl_delays=0.0, errors=0.0, robots_broken=0.0)


@dataclass(frozen=True)
class Crawl:
    """One crawl: what the command took, and what its web saw of it."""

    wall_s: float
    cpu_s: float
    pages: int
    per_s: float  # pages, from the first request to the last


def crawl(spec: WebSpec, place: str, settings: dict[str, str], *options: str) -> Crawl:
    with tempfile.TemporaryDirectory() as scratch, RunningWeb(spec, log_path=Path(scratch) / "requests") as web:
        command = [sys.executable, "-m", "gossamer", "crawl", *web.start_urls, "--dir", place, "--testweb", web.address]
        command += ["--scope", "any", "--depth", "1000", "--set", "limits.depth_dynamic=1000", "--quiet", *options]
        before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        own = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
        env = {**own, **settings, "GOSSAMER_CACHE": str(Path(scratch) / "cache")}
        subprocess.run(command, check=True, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
        wall_s, after = time.monotonic() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        log = web.log()
        starts = log.start_s[np.array([not path.endswith("/robots.txt") for path in log.path.tolist()])]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Crawl(wall_s, cpu_s, len(starts), (len(starts) - 1) / float(np.ptp(starts)))


# Requests, bytes, dollars


@dataclass(frozen=True)
class Counts:
    """What a crawl asked of its bucket while it ran, from its third commit to its last."""

    pages: int
    commits: int
    kinds: Counter[str]
    most_puts: int  # of a commit
    seconds: float
    opening: Counter[str]  # before the first commit
    stored_bytes: int
    cpu_s: float

    def per_commit(self, kind: str) -> float:
        return self.kinds[kind] / self.commits


def kind_of(asked: Asked) -> str:
    if asked.is_list:
        return "list"
    return "put" if asked.is_put else "delete" if asked.method in ("POST", "DELETE") else "get"


class Clocked(Proxy):
    """A proxy that also notes when each request came."""

    def __init__(self, port: int) -> None:
        self.times_s: list[float] = []
        super().__init__(port, self._note)

    def _note(self, _: Asked) -> str:
        self.times_s.append(time.monotonic())
        return "pass"


def counted(port: int) -> Counts:
    with Clocked(port) as proxy:
        done = crawl(WEB, f"s3://{BUCKET}/counted", servers.s3_settings(proxy.port), "--delay", "0", "--width", "1000")
        asked, times_s = proxy.asked, proxy.times_s
    created = [at for at, each in enumerate(asked) if each.is_create and "/manifest/" in each.path]
    first, last = created[2] + 1, created[-1] + 1
    kinds = Counter(kind_of(each) for each in asked[first:last])
    most_puts = max(sum(each.is_put for each in asked[one:two]) for one, two in pairwise(created[2:]))
    opening = Counter(kind_of(each) for each in asked[: created[0]])
    seconds = times_s[last - 1] - times_s[first]
    return Counts(done.pages, len(created) - 3, kinds, most_puts, seconds, opening, _stored_bytes(port), done.cpu_s)


def _stored_bytes(port: int) -> int:
    import boto3

    settings = servers.s3_settings(port)
    client = boto3.client(
        "s3", endpoint_url=settings["AWS_ENDPOINT_URL"], aws_access_key_id=servers.KEY,
        aws_secret_access_key=servers.SECRET, region_name="us-east-1",
    )  # fmt: skip
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="counted/")
    found = sum(int(each["Size"]) for page in pages for each in page.get("Contents", ()))
    client.close()
    return found


def requests_table(found: Counts) -> str:
    rows = [["while it runs", "puts", "gets", "lists", "deletes"]]
    kinds = ("put", "get", "list", "delete")
    rows.append([f"a commit ({found.commits} of them)", *(f"{found.per_commit(kind):.1f}" for kind in kinds)])
    rows.append(["the commit with the most puts", str(found.most_puts), "", "", ""])
    minutes = found.seconds / 60
    rows.append([f"a minute ({minutes:.1f} of them)", *(f"{found.kinds[kind] / minutes:.1f}" for kind in kinds)])
    rows.append(["opening an empty folder", *(str(found.opening[kind]) for kind in kinds)])
    return table(rows)


def costs(found: Counts) -> list[list[str]]:
    """Dollars for a million pages, by how many pages a commit has."""
    gigabytes = found.stored_bytes / found.pages * 1e6 / 1e9
    core_hours = found.cpu_s / found.pages * 1e6 / 3600
    head = ["dollars per million pages", "puts", "gets", "requests", "storage, a month", "CPU", "together"]
    rows = [head]
    for prices in PRICES:
        for name, pages in ROUNDS.items():
            puts = found.per_commit("put") * 1e6 / pages
            gets = 1e6 / 100 / 5 * 2 if pages == ROUNDS["100 pages/s, a commit every 30 s"] else _gets(found)
            asked = puts * prices.put + gets * prices.get
            kept, worked = gigabytes * prices.gb_month, core_hours * CORE_HOUR
            figures = [asked, kept, worked, asked + kept + worked]
            rows.append(
                [f"{prices.name}: {name}", f"{puts:,.0f}", f"{gets:,.0f}", *(f"{each:.3f}" for each in figures)]
            )
    rows.append(["Chan 2025: 12 machines, their own disks", "-", "-", "-", "-", "-", f"{CHAN:.2f}"])
    return rows


def _gets(found: Counts) -> float:
    """Two gets in five seconds ask for new seeds; a crawl bound by CPU has so many seconds."""
    return found.cpu_s / found.pages * 1e6 / 5 * 2


# Speed at a distance


@contextmanager
def at_a_distance(port: int) -> Iterator[int]:
    link = Link(port, ONE_WAY_S)
    try:
        yield link.port
    finally:
        link.close()


def speeds(port: int, runs: int) -> dict[str, dict[str, list[Crawl]]]:
    """Crawls by what bounds them and where their archive is, in turns."""
    loads = {
        "politeness: 60 hosts, 0.5 s": (POLITE, ["--delay", "0.5", "--width", "200"]),
        "CPU: no delay": (EAGER, ["--delay", "0", "--width", "1000"]),
    }
    places = ("directory", "bucket, 0 ms", "bucket, 30 ms")
    found: dict[str, dict[str, list[Crawl]]] = {load: {place: [] for place in places} for load in loads}
    with at_a_distance(port) as far:
        for number in range(runs):
            for load, (spec, options) in loads.items():
                for place in places:
                    with tempfile.TemporaryDirectory() as scratch:
                        near = (
                            f"{scratch}/crawl"
                            if place == "directory"
                            else f"s3://{BUCKET}/{load[:3]}{number}{place[8:9]}"
                        )
                        settings = servers.s3_settings(far if place == "bucket, 30 ms" else port)
                        done = crawl(spec, near, settings, *options)
                    print(load, place, done, file=sys.stderr, flush=True)
                    found[load][place].append(done)
    return found


def speeds_table(found: dict[str, dict[str, list[Crawl]]]) -> str:
    rows = [["bound by", "archive", "pages", "pages/s", "of a directory's", "whole command s", "CPU s"]]
    for load, by_place in found.items():
        plain = statistics.median(each.per_s for each in by_place["directory"])
        for place, crawls in by_place.items():
            per_s, wall_s, cpu_s = (
                statistics.median(getattr(each, key) for each in crawls) for key in ("per_s", "wall_s", "cpu_s")
            )
            share = f"{per_s / plain:.1%}"
            rows.append([load, place, f"{crawls[0].pages:,}", f"{per_s:,.1f}", share, f"{wall_s:.1f}", f"{cpu_s:.1f}"])
    return table(rows)


def fill_in(page: Path, name: str, shown: str) -> None:
    """Replaces what the page has between <!-- NAME --> and <!-- end NAME -->."""
    place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end {name} -->)", re.DOTALL)
    page.write_text(place.sub(lambda _: f"{shown}\n", page.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each crawl whose speed is measured; the median counts")
    parser.add_argument("--write", action="store_true", help="into RESULTS.md and docs/cloud.md")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        servers.seaweedfs(Path(scratch) / "weed", BUCKET) as port,
    ):
        found = counted(port)
        print(requests_table(found), table(costs(found)), sep="\n", flush=True)
        fast = speeds(port, arguments.runs)
    thousand = 1000 / found.pages
    text = "\n\n".join(
        [
            f"`python -m benchmarks.bench_store --write` on {machine()}; load {load:.1f} at the start, "
            f"{os.getloadavg()[0]:.1f} at the end",
            f"A crawl of {found.pages:,} pages in rounds of 1,000 into SeaweedFS: "
            f"{found.stored_bytes * thousand / 1e6:.1f} MB and {found.cpu_s * thousand:.2f} s of CPU per thousand.",
            requests_table(found),
            table(costs(found)),
            f"Medians of {arguments.runs} runs, in turns:",
            speeds_table(fast),
        ]
    )
    print(text)
    if arguments.write:
        write_section("store", text)
        for name, shown in {"costs": table(costs(found)), "speeds": speeds_table(fast)}.items():
            fill_in(PAGE, name, shown)


if __name__ == "__main__":
    main()
