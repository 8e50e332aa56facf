"""This experiment measures what crosses between sites, what distance costs, and how well several crawl.

It runs real sites with proxies between them. UniCrawl (Le Quoc et al., sections V-A2, V-B and VI) has the figures to
compare with: bytes between sites against a stretched crawler, throughput by ping distance and by number of sites, the
cache of sent URLs, and the quality of what is crawled first. Placement is that of LEADS D1.4 (2015), section 4.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from experiments.actual import pages_of
from experiments.harness import Block, Results, Row, add_graph, add_pages, columns, publish
from experiments.link_triples import sent_by_triples
from experiments.sites_lab import MADE_HOSTS, MADE_PAGES, Lab, Lines, first_pages
from experiments.sites_replicas import replicas
from experiments.sites_runs import SITES, Done, Setting
from experiments.sites_stretched import kinds, stretched
from experiments.stretched import Stretched
from gossamer.errors import ConfigError
from gossamer.placement.partitioners import NAMES
from gossamer.sim.figures import Curve, Figure
from gossamer.sim.measures import at, average, cumulative
from gossamer.sim.numbers import positive
from gossamer.sim.ranking import pagerank
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

STARTS = 20
PAPER_GB, PAPER_USD = 3_000.0, 30.0  # a month of the stretched crawler (UniCrawl, section V-B)
FOUR = Setting(4, connections=2, width=50)  # how quality crawls with several
PARTS = ("traffic", "stretched", "distance", "scale", "cache", "quality", "replicas")


def options(parser: argparse.ArgumentParser) -> None:
    add_graph(parser, made=True)
    add_pages(parser)
    parser.add_argument(
        "--part", action="append", choices=PARTS, help="only these (default: traffic); as often as you like"
    )
    parser.add_argument(
        "--sites", action="append", type=positive, metavar="N",
        help="traffic, distance: up to 8, as often as you like (default: 3)",
    )  # fmt: skip
    parser.add_argument("--web", type=positive, default=MADE_PAGES, metavar="N", help="traffic: pages of the made web")
    parser.add_argument(
        "--partitioner", action="append", choices=NAMES, help="traffic: compare these (default: ring, ldg and fennel)"
    )
    parser.add_argument(
        "--scores", action="append", choices=("global", "local", "none"), help="traffic: (global and local)"
    )
    parser.add_argument(
        "--round-trip", action="append", type=float, metavar="MS", help="distance: (0, 20, 40 and 80), stretched: (20)"
    )
    parser.add_argument("--delay", type=float, default=0.0, metavar="S", help="traffic: between requests to a host (0)")


def run(arguments: argparse.Namespace) -> int:
    arguments.sites = arguments.sites or [3]
    if not all(2 <= sites <= len(SITES) for sites in arguments.sites):
        raise ConfigError(f"--sites is between 2 and {len(SITES)}")
    parts = arguments.part or ["traffic"]
    work: dict[str, Callable[[Lab], None]] = {
        "traffic": traffic, "stretched": stretched, "distance": distance, "scale": scale, "cache": cache,
        "quality": quality, "replicas": replicas,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(arguments, Path(scratch))
        for part in parts:
            work[part](lab)
    shown = {"experiment": "experiment", "setting": "setting", "value": "value", "unit": "unit", "paper": "paper"}
    name = f"sites-{parts[0]}" if len(parts) == 1 else "sites"
    if parts == ["traffic"] and arguments.web != MADE_PAGES:
        name += f"-{arguments.web}"
    results = Results(name, "Several sites", lab.lines, shown, lab.notes, lab.figures, lab.blocks)
    publish(results, arguments.out, arguments.json)
    return 0


# What crosses


def traffic(lab: Lab) -> None:
    arguments = lab.arguments
    rows = []
    with web_of(lab, arguments.web) as (web, seeds, note):
        # Rounds are small, so that half of the files are half of the bytes.
        setting = Setting(2, width=100, delay_s=arguments.delay, pages=arguments.pages, merge_files=0)
        other = lab.stretched(setting, seeds, web.address)
        ways = product(
            arguments.sites, arguments.partitioner or ["ring", "ldg", "fennel"], arguments.scores or ["global", "local"]
        )
        for sites, partitioner, scores in ways:
            setting = Setting(sites, partitioner, scores, delay_s=arguments.delay, pages=arguments.pages)
            rows.append(_crossed(lab, lab.crawl(setting, seeds, web.address), other))
    lab.notes += [
        f"traffic: {note}; sites of one agent each, all on this machine",
        "a link crosses once per round and target, however many pages have it; bytes are of the messages, on the wire "
        "also those of TLS, NATS, receipts, news and heartbeats, both directions",
        "all links: what would have crossed for the same pages between the sites that had them, computed from the "
        "archive: pages encoded as in our messages, their referrers' keys, and what each gives (lab link-database); "
        "stretched: files that crossed while one crawler over two places, however many sites it is compared with, "
        "crawled the same, and with what carries them (on the wire); the paper's sent 3,000 GB a month, UniCrawl 192",
    ]
    shown = columns(
        "sites | partitioner | scores | pages | links: links crossing per page | bytes_per_record: bytes per link | "
        "wire_per_record: on the wire | bytes: bytes per page | wire: on the wire | database: all links (L) | "
        "stretched | stretched_wire: on the wire | saved: saved, % | saved_wire: on the wire, % | largest: largest site"
    )
    lab.blocks.append(Block("What crosses, in bytes per page", rows, shown))


@contextmanager
def web_of(lab: Lab, pages: int = MADE_PAGES) -> Iterator[tuple[RunningWeb, Path, str]]:
    """The graph that is asked for, whose pages are nothing but links; or pages as long as those of the web."""
    if lab.arguments.graph is None:
        spec = WebSpec.plain(
            seed=lab.arguments.seed, pages=pages, hosts=MADE_HOSTS, links=30.0, local=0.8, page_bytes=30_000.0
        )
        note = (
            f"{spec.pages:,} pages of {spec.hosts} hosts, 30 KB and 30 links each in the mean, a fifth to other hosts"
        )
        with RunningWeb(spec) as web:
            yield web, lab.seeds(first_pages(STARTS)), note
        return
    path, graph, options_ = lab.graph()
    starts = np.random.default_rng(lab.arguments.seed).choice(graph.pages, min(STARTS, graph.pages), replace=False)
    note = f"{graph.name}, {graph.pages:,} pages, {graph.links:,} links, {len(graph.host_names):,} hosts ({graph.rule})"
    with RunningWeb(graph=path, options=options_) as web:
        yield web, lab.seeds([graph.urls[start] for start in np.sort(starts).tolist()]), note


def _crossed(lab: Lab, done: Done, other: Stretched) -> Row:
    pages, crossed = max(1, sum(done.visits.values())), done.crossed()
    by_kind, database = kinds(other), sent_by_triples(done.federation)
    files, other_wire = sum(by_kind.values()), other.wire_bytes / len(other.visited()[0])
    name = f"{done.setting.sites} sites, {done.setting.partitioner}, {done.setting.scores}"
    records = crossed.get("urls", 0) + crossed.get("keys", 0)
    saved = 1 - crossed.get("bytes", 0) / pages / files
    row: Row = {
        "sites": done.setting.sites,
        "partitioner": done.setting.partitioner,
        "scores": done.setting.scores,
        "pages": pages,
        "links": crossed.get("links", 0) / pages,
        "bytes_per_record": crossed.get("bytes", 0) / max(1, records),
        "wire_per_record": done.wire_bytes / max(1, records),
        "bytes": crossed.get("bytes", 0) / pages,
        "wire": done.wire_bytes / pages,
        "database": database / pages,
        "stretched": files,
        "stretched_wire": other_wire,
        "saved": 100 * saved,
        "saved_wire": 100 * (1 - done.wire_bytes / pages / other_wire),
        "largest": max(done.visits.values()) / pages,
    }
    lab.say("links crossing per page", name, row["links"], "links")
    lab.say("bytes per link", name, row["bytes_per_record"], "bytes")
    lab.say("bytes per link, on the wire", name, row["wire_per_record"], "bytes")
    lab.say("bytes per page", name, row["bytes"], "bytes")
    lab.say("bytes per page, on the wire", name, row["wire"], "bytes")
    lab.say("bytes per page, all links (L)", name, row["database"], "bytes")
    lab.say("bytes per page, stretched", name, row["stretched"], "bytes")
    for kind, number in by_kind.items():
        lab.say(f"bytes per page, stretched, {kind}", name, number, "bytes")
    lab.say("saved against stretched", name, row["saved"], "%", 93.6)
    lab.say("saved against stretched, on the wire", name, row["saved_wire"], "%", 93.6)
    lab.say("dollars a month at the paper's volume", name, PAPER_USD * (1 - saved), "USD", 1.92)
    return row


# What distance costs


def distance(lab: Lab) -> None:
    """A web that answers in a tenth of a second and asks for no pauses: whatever waits, waits for the other sites."""
    spec = WebSpec.plain(
        seed=lab.arguments.seed, pages=lab.arguments.pages or 9_000, hosts=300, host_exponent=0.0, links=12.0,
        local=0.8, page_bytes=4_000.0, latency_ms=100.0,
    )  # fmt: skip
    trips = lab.arguments.round_trip or [0.0, 20.0, 40.0, 80.0]
    rows = []
    with RunningWeb(spec) as web:
        for trip in trips:
            setting = Setting(lab.arguments.sites[0], round_trip_ms=trip, connections=12, width=200)
            done = lab.crawl(setting, lab.seeds(first_pages(spec.hosts)), web.address)
            commits = [float(event["seconds"]) for event in done.commits()]
            rate, update_s = done.pages_per_s(), float(np.mean(commits))
            rows.append({"trip": trip, "rate": rate, "update": update_s, "rounds": len(commits) / setting.sites})
            lab.say("pages per second", f"{trip:g} ms", rate, "pages/s", {20.0: 334.0, 80.0: 278.0}.get(trip))
            lab.say("update and commit", f"{trip:g} ms", update_s, "s")
    if len(rows) > 1:
        kept = 100 * rows[-1]["rate"] / rows[0]["rate"]
        lab.say("throughput kept", f"{trips[0]:g} to {trips[-1]:g} ms", kept, "%", 83.2)
    lab.notes.append(
        f"distance: {spec.pages:,} pages of {spec.hosts} hosts that answer after 100 ms, {setting.sites} sites, 12 "
        "connections each; pages per second from 10 to 80 % of the crawl. UniCrawl kept 278 of 334 from 20 to 80 ms"
    )
    shown = {"trip": "round trip, ms", "rate": "pages/s", "update": "update and commit, s", "rounds": "rounds per site"}
    lab.blocks.append(Block("By distance", rows, shown))
    curve = Curve("Gossamer", np.array([row["trip"] for row in rows]), np.array([row["rate"] for row in rows]))
    paper = Curve("UniCrawl, Figure 4(b)", np.array([20.0, 80.0]), np.array([334.0, 278.0]), dashed=True)
    title = "Throughput by distance of the sites"
    lab.figures.append(Figure("sites-distance", title, "round trip, ms", "pages/s", [curve, paper], markers=True))


# More sites


def scale(lab: Lab) -> None:
    """A web bound by latency and politeness: a site is as fast as its connections."""
    spec = WebSpec.plain(
        seed=lab.arguments.seed, pages=lab.arguments.pages or 3_000, hosts=400, host_exponent=0.0, links=10.0,
        local=0.8, page_bytes=4_000.0, latency_ms=200.0,
    )  # fmt: skip
    width = 600
    runs = [("one width for all", sites, width // sites) for sites in (2, 3)]
    runs += [("a width for each", sites, width // 3) for sites in (1, 2, 3, 4)]
    rows: Lines = []
    with RunningWeb(spec) as web:
        for rule, sites, each in runs:
            setting = Setting(sites, connections=12, width=each, delay_s=0.2)
            done = lab.crawl(setting, lab.seeds(first_pages(spec.hosts)), web.address)
            first = next((row["rate"] for row in rows if row["rule"] == rule), None)
            rate = done.pages_per_s()
            rows.append({"rule": rule, "sites": sites, "rate": rate, "factor": rate / (first or rate)})
            lab.say("pages per second", f"{sites} sites, {rule}", rate, "pages/s")
    lab.say("2 to 3 sites", "one width for all", rows[1]["factor"], "times", 1.42)
    lab.say("1 to 4 sites", "a width for each", rows[-1]["factor"], "times")
    lab.notes.append(
        f"scale: {spec.pages:,} pages of {spec.hosts} hosts that answer after 200 ms and want 0.2 s of rest, 12 "
        "connections per site; pages per second from 10 to 80 % of the crawl"
    )
    shown = {"rule": "width", "sites": "sites", "rate": "pages/s", "factor": "against the fewest"}
    lab.blocks.append(Block("More sites", rows, shown))


# The cache


def cache(lab: Lab) -> None:
    """Rounds are short, so that there are many."""
    spec = WebSpec.plain(
        seed=lab.arguments.seed, pages=lab.arguments.pages or 6_000, hosts=200, host_exponent=0.5, links=20.0,
        local=0.6, page_bytes=4_000.0,
    )  # fmt: skip
    rows, curves = [], []
    with RunningWeb(spec) as web:
        for entries in (1_000, 10_000, 100_000, 1_000_000):
            setting = Setting(3, connections=8, width=40, sent_cache=entries)
            done = lab.crawl(setting, lab.seeds(first_pages(20)), web.address)
            crossed = done.crossed()
            hits = crossed.get("cache_hits", 0) / max(1, crossed.get("links", 0))
            rounds = max(len(list(events)) for events in _by_agent(done).values())
            memory_mb = 8 * entries / 1e6
            rows.append({"entries": entries, "memory": memory_mb, "hits": 100 * hits, "rounds": rounds})
            curves.append(_hits_by_round(done, f"{entries:,} entries"))
            lab.say("sent before", f"{entries:,} entries, {rounds} rounds", 100 * hits, "%", 92.0)
            lab.say("memory", f"{entries:,} entries", memory_mb, "MB", 3.0)
    lab.notes.append(
        f"cache: {spec.pages:,} pages of {spec.hosts} hosts, 20 links each, rounds of at most 40 pages; an entry "
        "that meets another one's place replaces it: eviction at random. UniCrawl, after 50 rounds: 92 %, 3 MB"
    )
    shown = {"entries": "entries", "memory": "MB", "rounds": "rounds", "hits": "sent before, %"}
    lab.blocks.append(Block("The cache of sent URLs, per site", rows, shown))
    title = "Links to other sites that need no text"
    lab.figures.append(Figure("sites-cache", title, "round", "sent before, % of all so far", curves))


def _by_agent(done: Done) -> dict[str, list[tuple[int, int]]]:
    """By agent, of each round: links to remote sites so far, and how many of them the cache knew."""
    found: dict[str, list[tuple[int, int]]] = {}
    for event in done.commits():
        found.setdefault(event["agent"], []).append((event["remote"][0], event["remote"][1]))
    return found


def _hits_by_round(done: Done, label: str) -> Curve:
    agents = list(_by_agent(done).values())
    rounds = min(map(len, agents))
    links, hits = (np.array([[each[kind] for each in agent[:rounds]] for agent in agents]).sum(0) for kind in (0, 1))
    return Curve(label, np.arange(1, rounds + 1), 100 * hits / np.maximum(1, links))


# What is crawled first


def quality(lab: Lab) -> None:
    path, graph, options_ = lab.graph()
    starts = np.random.default_rng(lab.arguments.seed).choice(graph.pages, min(STARTS, graph.pages), replace=False)
    seeds = lab.seeds([graph.urls[start] for start in np.sort(starts).tolist()])
    rank = pagerank(graph.sources(), graph.indices, graph.pages)
    rows, curves = [], []
    with RunningWeb(graph=path, options=options_) as web:
        for name, setting in _ways(lab.arguments.pages):
            done = lab.crawl(setting, seeds, web.address)
            curve, visits = cumulative(pages_of(graph, done.visited()[0]), rank), max(1, sum(done.visits.values()))
            sent = done.crossed().get("bytes", 0) / visits
            reached = [part for part in (5, 10, 20) if graph.pages * part / 101 <= len(curve)]  # nearly
            share = {f"at_{part}": at(curve, graph.pages * part // 100) for part in reached}
            rows.append({"way": name, "average": average(curve), **share, "bytes": sent})
            if setting == replace(FOUR, pages=setting.pages):  # scores of all links would be the same
                sent_all = sent_by_triples(done.federation) / visits
                rows.append({**rows[-1], "way": "the same by all links (L), computed", "bytes": sent_all})
                lab.say("bytes per page", "four sites, all links (L), computed", sent_all, "bytes")
            curves.append(Curve(name, np.arange(1, len(curve) + 1) / graph.pages, curve))
            for part in reached:
                lab.say(f"PageRank after {part} %", name, share[f"at_{part}"], "part of all")
            lab.say("average PageRank", name, average(curve), "part of all")
            lab.say("bytes per page", name, sent, "bytes")
    lab.notes.append(
        f"quality: {graph.name}, {graph.pages:,} pages, {len(graph.host_names):,} hosts ({graph.rule}); rounds of 50 "
        "pages per site; the database of all links (L) would crawl as global does: its bytes are computed"
    )
    shown = {"way": "crawl", "average": "average", "at_5": "after 5 %", "at_10": "after 10 %", "at_20": "after 20 %"}
    lab.blocks.append(Block("Cumulative PageRank", rows, {**shown, "bytes": "bytes crossing per page"}))
    title = f"What several sites crawl first ({graph.name})"
    lab.figures.append(Figure("sites-quality", title, "pages crawled, part of all", "PageRank collected", curves))


def _ways(pages: int) -> Iterator[tuple[str, Setting]]:
    """All of them fetch as many pages at a time, and as many in a round."""
    four = replace(FOUR, pages=pages)
    yield "one site", replace(four, sites=1, connections=8, width=200)
    yield "four sites, global scores", four
    yield "four sites, local scores", replace(four, scores="local")
    yield "four sites, bare URLs", replace(four, scores="none")
    yield "four sites, larger-sites-first", replace(four, order="larger-sites-first", scores="local")
