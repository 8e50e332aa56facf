"""The peers of the crawl benchmark: how each is started on the same pages, and which pages it then has.

All of them look names up in a hosts file of their own, in a mount namespace: nothing of the machine changes. That needs
root; a peer that cannot run here is left out, and the report says why. HTTrack is not among them: it fetched one page a
second of this web, whatever limits it was given.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import corpus

VENV = corpus.CACHE / "peers-venv"  # the peers and the sampler are no business of the project's own environment
PACKAGES = ("scrapy==2.19.0", "crawlee[parsel]==1.11.0", "selectolax==1.0.2", "url-py==2026.5.1", "py-spy==0.4.3")


@dataclass(frozen=True)
class Fetched:
    """What a peer says it fetched: its URLs of pages with status 200, and the number of its requests."""

    urls: list[str]
    requests: int


@dataclass(frozen=True)
class Peer:
    name: str
    command: Callable[[list[str], Path, int], list[str]]  # of start URLs, a directory to write to, and connections
    fetched: Callable[[Path], Fetched]  # read from that directory
    about: str  # what it does and keeps, where that differs from Gossamer
    needs: str = ""  # a program of Debian's package of the same name
    exits: tuple[int, ...] = (0,)

    def missing(self) -> str:
        """Returns why it cannot run here; empty if it can."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            return "it needs root and `unshare`, for a hosts file of its own"
        if self.needs and shutil.which(self.needs) is None:
            return f"{self.needs} is not installed: `apt-get install {self.needs}`"
        return ""


def prepare() -> None:
    """Makes an environment with the peers and the sampler, once."""
    if not (VENV / "bin/py-spy").exists():
        print(f"bench: creating {VENV} with {', '.join(PACKAGES)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin/pip"), "install", "-q", *PACKAGES], check=True)


def with_names(command: list[str], hosts: Iterable[str], scratch: Path) -> list[str]:
    """Returns a command that runs with these names on loopback."""
    file = scratch / "hosts"
    file.write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {host}\n" for host in hosts))
    script = f'mount --bind {file} /etc/hosts && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]


def _spider(module: str, *more: str) -> Callable[[list[str], Path, int], list[str]]:
    def command(starts: list[str], out: Path, connections: int) -> list[str]:
        python = str(VENV / "bin/python")
        where = ["--out", str(out), "--concurrency", str(connections)]
        return [python, "-m", f"benchmarks.{module}", *starts, *where, *more]

    return command


def _spiders_pages(out: Path) -> Fetched:
    """What our own spiders wrote down: a line for each answer, and their figures on standard output."""
    rows = [line.split("\t") for line in (out / "visits.tsv").read_text().splitlines()]
    said = json.loads((out / "stdout").read_text().splitlines()[-1])
    requests = said["requests"] if "requests" in said else said["stats"].get("downloader/request_count", len(rows))
    return Fetched([url for status, kind, url in rows if status == "200" and kind == "html"], requests)


def _wget(starts: list[str], out: Path, _connections: int) -> list[str]:
    follow = ["--recursive", "--level=inf", "--span-hosts", f"--domains={corpus.DOMAIN}"]
    follow += ["--follow-tags=a,area,frame,iframe"]  # pages only: it would fetch images and styles, too
    return ["wget", *follow, "--no-verbose", f"--output-file={out / 'log'}", f"--directory-prefix={out}", *starts]


def _wget_pages(out: Path) -> Fetched:
    log = (out / "log").read_text(errors="replace")
    urls = re.findall(r"URL:\s*(\S+) \[", log)
    return Fetched(urls, len(urls) + log.count(" ERROR "))


SCRAPY = Peer(
    "Scrapy 2.19",
    _spider("scrapy_spider", "--domain", corpus.DOMAIN),
    _spiders_pages,
    "its link extractor, robots.txt, bodies appended to one file",
)
PEERS = (
    SCRAPY,
    Peer(
        "Scrapy 2.19, lean",
        _spider("lean_spider", "--domain", corpus.DOMAIN),
        _spiders_pages,
        "selectolax and url-py for links, own filter of duplicates, most middlewares off; robots.txt, bodies as above",
    ),
    Peer(
        "wget",
        _wget,
        _wget_pages,
        "one connection, robots.txt, a file for each page, no index",
        needs="wget",
        exits=(0, 8),  # 8: a link led to an error, as some here do
    ),
    Peer(
        "Crawlee 1.11",
        _spider("crawlee_spider"),
        _spiders_pages,
        "its Parsel crawler, robots.txt, queue in memory, bodies appended to one file",
    ),
)
