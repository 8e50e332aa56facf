"""This module builds UniCrawl's link database L (section VI) beside the sums that Gossamer sends instead.

L has a triple (page, referrer, score) for each link that leads to another site. It is built and maintained as the crawl
was made: round by round, between the sites that really had the hosts. A message for each round and pair of sites is
encoded as our own are, decoded, and taken in by the site that has the page, which is the nearest place to keep it. The
same messages are made of summed scores, as in production. All that differs is what is said of each page.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zstandard

from gossamer.archive import query
from gossamer.arrays import I64, Bools, Keys
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.location import locate
from gossamer.cluster.rebalance import host_map
from gossamer.columns import Contributions
from gossamer.frontier.pages import host_of_key
from gossamer.sharing import compact
from gossamer.sharing.sent_cache import SentCache

_LINKS = "SELECT source, target, target_url, round FROM links WHERE verdict IN ('followed', 'later') ORDER BY round"
_CASH = 1 << 50  # what there is, shared by the pages of the first round
_LEVEL = 12  # of zstd, as in our messages


class Crossing(NamedTuple):
    """The links of one round that lead from one site to another."""

    round: int
    from_site: int
    to_site: int
    referrer: Keys
    target: Keys
    score: I64
    url: list[str]  # of the target


class Triples(NamedTuple):
    target: Keys
    referrer: Keys
    score: I64


@dataclass
class Way:
    """What one way costs all sites together."""

    sent: int = 0  # bytes
    stored: int = 0  # the most that was there at a time, in bytes
    sending_s: float = 0.0  # of CPU: to encode and to decode
    keeping_s: float = 0.0  # of CPU: to keep what came, and to bring the scores of pages up to date

    @contextmanager
    def sending(self) -> Iterator[None]:
        begin_s = time.thread_time()
        yield
        self.sending_s += time.thread_time() - begin_s

    @contextmanager
    def keeping(self) -> Iterator[None]:
        begin_s = time.thread_time()
        yield
        self.keeping_s += time.thread_time() - begin_s


@dataclass
class Costs:
    sums: Way = field(default_factory=Way)
    kept: Way = field(default_factory=Way)  # L for good, read again in each round, as UniCrawl sketches it
    cleaned: Way = field(default_factory=Way)  # L emptied after each round
    links: int = 0
    apart: float = 0.0  # the largest difference between scores by triples and by sums, in proportion


class Scores:
    """The scores of a site's pages: the same for every way."""

    def __init__(self) -> None:
        self.keys, self.values = np.zeros(0, np.uint64), np.zeros(0, np.int64)

    def add(self, keys: Keys, values: I64) -> None:
        found, at = np.unique(np.concatenate((self.keys, keys)), return_inverse=True)
        summed = np.zeros(len(found), np.int64)
        np.add.at(summed, at.reshape(-1), np.concatenate((self.values, values)))
        self.keys, self.values = found, summed


def costs(federation: Federation, scratch: Path) -> Costs:
    """Makes the crawl's rounds again: every message is encoded, decoded and taken in by each way."""
    found, caches = Costs(), [SentCache(federation.config.site.sent_cache) for _ in federation.sites]
    sums, cleaned = ([Scores() for _ in federation.sites] for _ in range(2))
    kept = [Kept(scratch / f"links-{name}") for name in federation.sites]
    for _, messages in groupby(crossing(federation), lambda links: links.round):
        given: dict[int, list[Contributions]] = {}
        came: dict[int, list[Triples]] = {}
        sent = found.sums.sent, found.cleaned.sent
        for links in messages:
            found.links += len(links.target)
            is_known = caches[links.from_site].add(str(links.to_site), np.unique(links.target))
            with found.sums.sending():
                parts = summed(links, is_known)
                given.setdefault(links.to_site, []).extend(map(compact.decode, parts))
            found.sums.sent += sum(map(len, parts))
            with found.cleaned.sending():
                parts = encoded(links, is_known)
                came.setdefault(links.to_site, []).append(decoded(parts))
            found.cleaned.sent += sum(map(len, parts))
        for site in given:
            with found.sums.keeping():
                rows = Contributions.joined(given[site])
                sums[site].add(rows.key, rows.cash)
            new = Triples(*map(np.concatenate, zip(*came[site], strict=True)))
            with found.cleaned.keeping():
                cleaned[site].add(new.target, new.score)
            with found.kept.keeping():
                kept[site].take(new)
        for way, before in zip((found.sums, found.cleaned), sent, strict=True):
            way.stored = max(way.stored, way.sent - before)
    found.kept.sent, found.kept.sending_s = found.cleaned.sent, found.cleaned.sending_s
    found.kept.stored = sum(site.stored for site in kept)
    every = [*zip(sums, cleaned, strict=True), *((one, other.scores()) for one, other in zip(sums, kept, strict=True))]
    found.apart = max(_apart(one, other) for one, other in every)
    return found


def sent_by_triples(federation: Federation) -> int:
    """Returns the bytes of L's messages."""
    caches = [SentCache(federation.config.site.sent_cache) for _ in federation.sites]
    total = 0
    for links in crossing(federation):
        is_known = caches[links.from_site].add(str(links.to_site), np.unique(links.target))
        total += sum(map(len, encoded(links, is_known)))
    return total


class Kept:
    """L of one site: a file for what came in each round, with the keys and scores of all its triples."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._files, self.stored = folder, 0, 0

    def take(self, triples: Triples) -> Scores:
        """Adds what came, and brings all scores up to date, by all tuples that there are."""
        order = np.lexsort((triples.referrer, triples.target))
        data = zstandard.ZstdCompressor(level=_LEVEL).compress(_planes(triples.target[order], triples.referrer[order]))
        cash = zstandard.ZstdCompressor(level=_LEVEL).compress(_planes(triples.score[order]))
        file = self._folder / f"{self._files:06}"
        file.write_bytes(len(data).to_bytes(4, "big") + data + cash)
        self._files += 1
        self.stored += file.stat().st_size
        return self.scores()

    def scores(self) -> Scores:
        found, unpacked = Scores(), zstandard.ZstdDecompressor()
        parts = []
        for file in sorted(self._folder.iterdir()):
            data = file.read_bytes()
            size = int.from_bytes(data[:4], "big")
            ends = _columns_of(unpacked.decompress(data[4 : 4 + size]), 2)
            parts.append((ends[0].astype(np.uint64), _columns_of(unpacked.decompress(data[4 + size :]), 1)[0]))
        if parts:
            found.add(np.concatenate([keys for keys, _ in parts]), np.concatenate([cash for _, cash in parts]))
        return found


def _planes(*columns: npt.NDArray[Any]) -> bytes:
    """The bytes of columns of eight bytes, the low ones first; the first column as differences."""
    first, *more = columns
    wide = [np.diff(first, prepend=first.dtype.type(0)), *more]
    return b"".join(np.ascontiguousarray(each.view(np.uint8).reshape(-1, 8).T).tobytes() for each in wide)


def _columns_of(data: bytes, count: int) -> list[I64]:
    rows = np.frombuffer(data, np.uint8).reshape(count, 8, -1)
    wide = [np.ascontiguousarray(each.T).view(np.int64).reshape(-1) for each in rows]
    return [np.cumsum(wide[0]), *wide[1:]]


def _apart(one: Scores, other: Scores) -> float:
    assert (one.keys == other.keys).all()
    return float((np.abs(one.values - other.values) / np.maximum(one.values, 512)).max(initial=0.0))


# Messages


def summed(links: Crossing, is_known: Bools) -> list[bytes]:
    """What we send: each page once, with the sum of what the links give to it."""
    targets, first, hits = np.unique(links.target, return_index=True, return_counts=True)
    scores = Scores()
    scores.add(links.target, links.score)
    urls = [links.url[row] for row in first.tolist()]
    return compact.encode(_columns(targets, hits, compact.rounded(scores.values), urls), is_known)


def encoded(links: Crossing, is_known: Bools) -> list[bytes]:
    """Triples as a message: the pages with the number of links to each, and the pages that have these links with what
    each gives to a page, both as our messages have them; and of each link, in the order of the targets, the number of
    its referrer. As in messages, a URL is sent as text once, and by its key from then on."""
    targets, first, hits = np.unique(links.target, return_index=True, return_counts=True)
    referrers, at, number = np.unique(links.referrer, return_index=True, return_inverse=True)
    pages = compact.encode(_columns(targets, hits, None, [links.url[row] for row in first.tolist()]), is_known)
    shares = _columns(referrers, np.ones(len(referrers)), compact.rounded(links.score[at]), [""] * len(referrers))
    sources = compact.encode(shares, np.ones(len(referrers), np.bool_))
    numbers = number.reshape(-1)[np.argsort(links.target, kind="stable")]
    raw = numbers.astype("<u2" if len(referrers) <= 1 << 16 else "<u4").tobytes()
    packed = min(raw, zstandard.ZstdCompressor(level=_LEVEL).compress(raw), key=len)
    head = bytes((len(pages), len(sources), raw is packed))
    return [head, *pages, *sources, packed]


def decoded(parts: list[bytes]) -> Triples:
    pages, sources, is_raw = parts[0]
    found = Contributions.joined(map(compact.decode, parts[1 : 1 + pages]))
    shares = Contributions.joined(map(compact.decode, parts[1 + pages : 1 + pages + sources]))
    raw = parts[-1] if is_raw else zstandard.ZstdDecompressor().decompress(parts[-1])
    order, at = np.argsort(found.key), np.argsort(shares.key)
    numbers = at[np.frombuffer(raw, "<u2" if len(shares.key) <= 1 << 16 else "<u4")]
    target = np.repeat(found.key[order], found.hits[order])
    return Triples(target, shares.key[numbers], shares.cash[numbers])


def _columns(keys: Keys, hits: npt.NDArray[Any], cash: I64 | None, urls: list[str]) -> Contributions:
    count = len(keys)
    nothing, none = np.zeros(count, np.uint8), np.zeros(count, np.uint64)
    given = np.zeros(count, np.int64) if cash is None else cash
    return Contributions(keys, given, hits.astype(np.int32), nothing, nothing, none, urls)


# What crossed


def crossing(federation: Federation) -> Iterator[Crossing]:
    """All links between hosts of two sites, by the sites that have them, round by round, with what each gives: OPIC's
    cash, replayed."""
    links, owners = _read(federation, _LINKS), host_map(federation)
    source, target = (owners.of_keys(host_of_key(links[end])) for end in ("source", "target"))
    score = _scores(links)
    group = np.stack([links["round"].astype(np.int64), source, target])
    rows = np.flatnonzero(source != target)
    ways, place = np.unique(group[:, rows], axis=1, return_inverse=True)
    place = place.reshape(-1)
    for number, (turn, one, other) in enumerate(ways.T.tolist()):
        at = rows[place == number]
        urls = [str(url) for url in links["target_url"][at]]
        yield Crossing(turn, one, other, links["source"][at], links["target"][at], score[at], urls)


def _scores(links: dict[str, Any]) -> I64:
    """What each link gives its target: pages are visited round by round, and divide all that they have by then."""
    pages, ends = np.unique(np.concatenate((links["source"], links["target"])), return_inverse=True)
    source, target = ends.reshape(2, -1)
    degree = np.bincount(source, minlength=len(pages))
    cash = np.zeros(len(pages), np.int64)
    starts = np.unique(source[links["round"] == links["round"][:1]])
    cash[starts] = _CASH // max(1, len(starts))
    score = np.zeros(len(source), np.int64)
    for number in np.unique(links["round"]).tolist():
        row = np.flatnonzero(links["round"] == number)
        score[row] = cash[source[row]] // degree[source[row]]
        cash[np.unique(source[row])] = 0
        np.add.at(cash, target[row], score[row])
    return score


def _read(federation: Federation, sql: str) -> dict[str, Any]:
    with closing(query.open_database(locate(federation.path))) as database:
        found: dict[str, Any] = database.execute(sql).fetchnumpy()
    return {name: np.asarray(column, np.uint64 if column.dtype.kind == "u" else None) for name, column in found.items()}
