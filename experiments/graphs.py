"""This module makes the graphs that experiments run on where none is given, and earlier snapshots of graphs.

A graph is made of random links (hosts of all sizes, popular pages, dead ends), or of directories of HTML, such as the
benchmark's corpus. A snapshot is for strategies that remember: each page was there with a chance that grows with its
PageRank, drawn so that 55 % of the pages were, which have about 72 % of the PageRank of today (Castillo 2004, section
4.3.4); a quarter of the links between them did not exist.
"""

import argparse
import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gossamer.arrays import F64, Bools, Indices
from gossamer.sim.graphs import Graph, load
from gossamer.sim.hosts import host_rule
from gossamer.sim.ranking import pagerank
from gossamer.web.html import parse_html
from gossamer.web.url import normalise

OUT = 8  # links of a page, on average
LOCAL = 0.7  # part of them that stay on their host
DEAD_ENDS = 0.1  # part of the pages without links
PAGES, RANK = 0.55, 0.72
OLD_LINKS = 0.75


def given_or_made(
    arguments: argparse.Namespace, folder: Path, pages: int, hosts: int, skew: float = 2.0
) -> tuple[Path, Graph]:
    """The graph that is asked for, else one that is made in the folder."""
    path = arguments.graph
    if path is None:
        path = folder / "made.npz"
        make(path, pages, hosts, arguments.seed, skew)
    return path, load(path, arguments.hosts)


def make(path: Path, pages: int, hosts: int, seed: int = 0, skew: float = 2.0) -> None:
    """Write it as .npz. The greater the skew, the more links lead to early pages. Every host's first page leads to its
    second and so on, so that one start per host is enough."""
    random = np.random.default_rng(seed)
    host, _ = host_rule(f"power:{hosts}", np.zeros(pages + 1, np.int64), np.zeros(0, np.int32))
    first = np.searchsorted(host, np.arange(hosts + 1))
    rows = [_links(page, int(host[page]), first, random, skew) for page in range(pages)]
    np.savez_compressed(
        path,
        indptr=np.cumsum([0, *map(len, rows)]),
        indices=np.concatenate(rows).astype(np.int32),
        host=host.astype(np.int32),
        host_names=np.array([f"m{number}" for number in range(hosts)], "S"),
    )


def _links(page: int, host: int, first: Indices, random: np.random.Generator, skew: float) -> list[int]:
    """Distinct targets in a random order, early pages of a host and of the whole more popular than late ones."""
    start, end, pages = int(first[host]), int(first[host + 1]), int(first[-1])
    count = random.poisson(OUT) if random.random() > DEAD_ENDS else 0
    is_local = random.random(count) < LOCAL
    popular = random.random(count) ** skew
    targets = np.where(is_local, start + popular * (end - start), popular * pages).astype(np.int64)
    chain = [page + 1] if page + 1 < end else []
    return [target for target in dict.fromkeys([*targets.tolist(), *chain]) if target != page]


def of_directories(path: Path, hosts: Mapping[str, Path]) -> None:
    """Write the links between HTML files as .npz, with their URLs beside it: every directory is a host. A directory's
    own URL means its index.html, as a server would have it."""
    files = {f"http://{host}/{each.relative_to(top)}": each for host, top in hosts.items() for each in _html(top)}
    urls = {url: file for name, file in files.items() if (url := normalise(name))}
    number = {url: place for place, url in enumerate(urls)}
    number |= {url.removesuffix("index.html"): place for url, place in number.items() if url.endswith("/index.html")}
    rows, sizes = [], []
    for url, file in urls.items():
        body = file.read_bytes()
        found = (number.get(link) for link in parse_html(body, url, "text/html").links)
        rows.append([place for place in dict.fromkeys(found) if place is not None])
        sizes.append(len(body))
    indices = np.array([place for row in rows for place in row], np.int32)
    np.savez_compressed(path, indptr=np.cumsum([0, *map(len, rows)]), indices=indices, page_bytes=np.array(sizes))
    with gzip.open(path.with_suffix(".urls.gz"), "wt", encoding="utf-8") as lines:
        lines.writelines(f"{url}\n" for url in urls)


def _html(top: Path) -> list[Path]:
    return sorted(each for each in top.rglob("*.html") if each.is_file())


def earlier(graph: Graph, rank: F64, seed: int) -> F64:
    """The PageRank of each page in the earlier snapshot, NaN for pages that it did not have."""
    random = np.random.default_rng(seed)
    old = _old_pages(rank, random.exponential(size=graph.pages))
    source, target = graph.sources(), graph.indices
    kept = old[source] & old[target] & (random.random(graph.links) < OLD_LINKS)
    number = np.cumsum(old) - 1
    history = np.full(graph.pages, np.nan)
    history[old] = pagerank(number[source[kept]], number[target[kept]], int(old.sum()))
    return history


def _old_pages(rank: F64, draw: F64) -> Bools:
    """Sampling without replacement with weights rank**power: the power is found by bisection."""
    count = round(PAGES * len(rank))
    low, high = 0.0, 3.0
    old = np.zeros(len(rank), np.bool_)
    for _ in range(40):
        power = (low + high) / 2
        old[:] = False
        old[np.argsort(draw / rank**power, kind="stable")[:count]] = True
        low, high = (power, high) if rank[old].sum() < RANK else (low, power)
    return old
