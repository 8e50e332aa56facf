"""What the scan tests share: a web, the truth about its links, and what a scan wrote."""

import csv
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec
from gossamer.testweb.web import SyntheticWeb

HOSTS = 4
SPEC = WebSpec.plain(
    seed=31, hosts=HOSTS, pages=50, page_bytes=1_500.0, links=8.0, local=0.6, changing=0.5, changes_per_day=2.0
)
QUICK = ("--delay", "0.01", "--set", "fetch.retries=0", "--set", "polite.backoff_s=0.1", "--set", "crawl.patience_s=1")

Link = tuple[str, str, str]


def names(web: RunningWeb) -> list[str]:
    return [web.truth.plan.hosts.name(number) for number in range(HOSTS)]


def write_list(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def true_pages(truth: SyntheticWeb, host: str, depth: int, t_s: float = 0.0) -> dict[str, int]:
    """A host's pages within a depth, at a time of the web: their numbers by URL."""
    level = {truth.page(f"http://{host}/")}
    seen = set(level)
    for _ in range(depth):
        level = {target for page in level for target in truth.links(page, t_s) if truth.host(target).name == host}
        level -= seen
        seen |= level
    return {truth.url(page): page for page in seen}


def true_links(truth: SyntheticWeb, host: str, depth: int, t_s: float = 0.0) -> set[Link]:
    """The links away from these pages."""
    return {
        (host, url, truth.url(target))
        for url, page in true_pages(truth, host, depth, t_s).items()
        for target in truth.links(page, t_s)
        if truth.host(target).name != host
    }


def folder(directory: Path, number: int = 1) -> Path:
    return directory / "scans" / f"{number:04}"


def links(directory: Path, number: int = 1) -> set[Link]:
    rows = pq.read_table(folder(directory, number) / "links.parquet").to_pylist()
    return {(row["site"], row["source"], row["target"]) for row in rows}


def texts(directory: Path, number: int = 1) -> set[tuple[str, ...]]:
    """The same with everything that must not depend on who scanned when."""
    rows = pq.read_table(folder(directory, number) / "links.parquet").to_pylist()
    return {(row["site"], row["source"], row["target"], row["target_site"], row["anchor"]) for row in rows}


def changes(directory: Path, number: int) -> dict[str, set[Link]]:
    found: dict[str, set[Link]] = {"appeared": set(), "gone": set(), "unknown": set()}
    with (folder(directory, number) / "changes.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["change"]].add((row["site"], row["source"], row["target"]))
    return found


def sites(directory: Path, number: int = 1) -> dict[str, dict[str, object]]:
    return {row["site"]: row for row in pq.read_table(folder(directory, number) / "sites.parquet").to_pylist()}
