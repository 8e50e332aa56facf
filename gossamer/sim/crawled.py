"""This module reads a crawl's own directory as a graph: its pages, links, sizes, and how fast its hosts answered.

It also has what strategies may know from a crawl: the PageRank of its pages, and how near its links are to a topic.
"""

from pathlib import Path

import numpy as np

from gossamer.api import Crawl
from gossamer.archive.linkgraph import read_links
from gossamer.arrays import F64, I32
from gossamer.frontier.relevance import Topic
from gossamer.frontier.sorted_runs import search
from gossamer.sim.graphs import Graph, linked
from gossamer.sim.ranking import pagerank
from gossamer.web.html import parse_html
from gossamer.web.url import host_of

MIN_S = 0.001  # nothing answers faster
LATENCY_PART = 2 / 3  # as in the simulator: of a page's time most is latency


def crawled(directory: Path) -> Graph:
    found = read_links(directory)
    hosts = [host_of(url) for url in found.urls]
    names = sorted(set(hosts))
    numbers = {name: number for number, name in enumerate(names)}
    host = np.fromiter((numbers[name] for name in hosts), np.int32, len(hosts))
    latency_s, speed = _speeds(host, len(names), found.elapsed_s, found.body_bytes)
    return Graph(
        directory.resolve().name,
        *linked(found.source, found.target, len(found.keys)),
        host,
        names,
        found.body_bytes,
        "hosts of its URLs",
        listed=found.urls,
        latency_s=latency_s,
        speed=speed,
        starts=np.flatnonzero(found.is_seed).astype(np.int32),
    )


def remembered(graph: Graph, directory: Path) -> F64:
    """The PageRank that each page had in an earlier crawl, NaN for pages that it did not have."""
    old = read_links(directory)
    order = np.argsort(old.keys)
    ranks = pagerank(old.source, old.target, len(old.keys))[order]
    found, at = search(old.keys[order], graph.keys)
    history = np.full(graph.pages, np.nan)
    history[found] = ranks[at[found]]
    return history


def relevance(directory: Path, graph: Graph, topic: Topic) -> F64:
    """How near each link of `crawled(directory)` is to a topic: as the crawl's reader would have judged it."""
    found = np.zeros(graph.links)
    urls, places = graph.urls, {url: place for place, url in enumerate(graph.urls)}
    for page in Crawl(directory).pages():
        place = places.get(page.url)
        if place is None or not page.html:
            continue
        document = parse_html(page.html.encode(), page.url, "text/html; charset=utf-8", anchors=True)
        about = topic.page(document.title, page.text or "")
        for link in range(graph.indptr[place], graph.indptr[place + 1]):
            url = urls[graph.indices[link]]
            found[link] = topic.link(url, document.anchors.get(url, ""), about)
    return found


def _speeds(host: I32, hosts: int, elapsed_s: F64, body_bytes: F64) -> tuple[F64, F64]:
    """Of each host: its mean page came in its mean time."""
    count = np.maximum(np.bincount(host, minlength=hosts), 1)
    mean_s = np.maximum(np.bincount(host, elapsed_s, hosts) / count, MIN_S)
    mean_bytes = np.maximum(np.bincount(host, body_bytes, hosts) / count, 1.0)
    return mean_s * LATENCY_PART, mean_bytes / (mean_s * (1 - LATENCY_PART))
