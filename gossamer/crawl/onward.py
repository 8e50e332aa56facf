"""This module makes depths independent of the order of discovery. When a shorter way to a visited page is found, all
pages behind it are less deep too, and links that were refused as too deep are judged again.

Where a visited page leads is in the index: the keys of the links that were followed (crawl/visit_history.py), and
here, as texts, those that a key is not enough for: links refused as too deep, and links that lead no deeper.
All of it happens in the commit that found the shorter way; what is another's leaves with the same commit. While no
depth changes, it costs next to nothing.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import U8, U64, Indices, Rows
from gossamer.columns import MOST_HOPS, NO_TEXT, ONWARD, Contributions, Status
from gossamer.config import Limits
from gossamer.crawl.update import NewPages, UpdateResult
from gossamer.crawl.visit_history import earlier_links, packed_versions, stored_of, validators_of
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.sorted_runs import union
from gossamer.frontier.targets import added_up
from gossamer.frontier.text_heap import MAX_TEXT, TextHeap
from gossamer.web.url import deepest, page_keys

LEVEL, LEVEL_REFUSED, REFUSED = "=", "~", ">"  # leads no deeper, followed or not; refused, and leads a link deeper
PAGES_AT_ONCE = 4_096  # pages that become less deep: their links are in memory
_PIECE = MAX_TEXT - 8

Links = list[tuple[str, str]]  # of a page: the kind of each link, and its URL
Apply = Callable[[Contributions], UpdateResult]
LimitsOf = Callable[[Rows], Sequence[Limits]]  # by which links on these pages are judged


class Judged(NamedTuple):
    """`Judged` is the result for pages that turned out to be less deep."""

    new: NewPages
    outbox: Contributions
    textless: U64
    nearer: list[tuple[U64, U8]]  # pages that are less deep, and how deep they are
    source: U64  # of links that are followed after all
    target: U64
    url: list[str]


def write(index: PageIndex, keys: U64, links: Sequence[Links]) -> None:
    """Replaces the onward links of these pages (distinct); an empty list means none."""
    order = np.argsort(keys)
    found, before = index.onward.look_up(keys[order])
    rows = np.zeros(len(keys), ONWARD.numpy)
    rows["key"] = keys[order]
    rows["text"] = [_put(index.heap, links[place]) for place in order.tolist()]
    change = (rows["text"] != NO_TEXT) | (found & (before["text"] != NO_TEXT))
    index.onward.write(rows[change], int((~found & change).sum()))


def read(index: PageIndex, keys: U64) -> list[Links]:
    """Returns the onward links of pages (keys sorted)."""
    found, rows = index.onward.look_up(keys)
    offsets = np.where(found, rows["text"], np.uint64(NO_TEXT)).tolist()
    return [_get(index.heap, offset) for offset in offsets]


def refused(index: PageIndex) -> Iterator[str]:
    """Iterates over all links that are too deep at present."""
    for rows in index.onward.scan():
        for links in read(index, np.ascontiguousarray(rows["key"])):
            yield from (url for kind, url in links if kind != LEVEL)


def packed(links: Links) -> bytes:
    return zlib.compress("\n".join(kind + url for kind, url in links).encode()) if links else b""


def unpacked(text: bytes) -> Links:
    lines = zlib.decompress(text).decode().split("\n") if text else []
    return [(line[0], line[1:]) for line in lines]


def _put(heap: TextHeap, links: Links) -> int:
    """Writes links in pieces, the last one first: each begins with the position of the next."""
    data, at = packed(links), NO_TEXT
    for start in reversed(range(0, len(data), _PIECE)):
        at = int(heap.append([at.to_bytes(8, "little") + data[start : start + _PIECE]])[0])
    return at


def _get(heap: TextHeap, offset: int) -> Links:
    data = b""
    while offset != NO_TEXT:
        (piece,) = heap.read(np.array([offset], np.uint64))
        offset = int.from_bytes(piece[:8], "little")
        data += piece[8:]
    return unpacked(data)


def judge(index: PageIndex, limits_of: LimitsOf, fallen: U64, apply: Apply) -> Judged:
    """Judges again the links of these visited pages (keys sorted), and of all pages that become less deep thereby."""
    results: list[UpdateResult] = []
    counted: list[Contributions] = []
    while len(fallen):
        pages = index.pages.look_up(fallen)[1]
        # The least deep first: then hardly any page falls twice.
        now = np.sort(np.argsort(pages["depth"], kind="stable")[:PAGES_AT_ONCE])
        admitted = _admitted(index, pages[now], limits_of(pages[now]))
        results.append(apply(Contributions.joined([_followed(index, pages[now]), admitted])))
        counted.append(admitted.take(np.flatnonzero(admitted.hits > 0)))
        fallen = union(np.delete(fallen, now), results[-1].fallen)
    followed = Contributions.joined(counted)
    return Judged(
        NewPages.joined([result.new for result in results]),
        added_up([result.outbox for result in results]),
        np.concatenate([np.zeros(0, np.uint64), *(result.textless for result in results)]),
        [result.nearer for result in results],
        followed.referrer,
        followed.key,
        followed.url,
    )


def _followed(index: PageIndex, pages: Rows) -> Contributions:
    """Returns the followed links of pages' versions: only the depth that they lead to is new."""
    found, visited = index.visited.look_up(np.ascontiguousarray(pages["key"]))
    pages, visited = pages[found], visited[found]
    links = earlier_links(index.heap, visited)
    deeper = np.minimum(pages["depth"][links.source] + np.int64(1), 255)
    referrer = pages["key"][links.source]
    return Contributions.of(links.target, [""] * len(links.target), depth=deeper, hops=255, referrer=referrer)


def _admitted(index: PageIndex, pages: Rows, limits: Sequence[Limits]) -> Contributions:
    """Returns the other links of pages. Links that are not too deep any more count as links from now on."""
    rows: list[tuple[int, int, int, int, str]] = []  # hits, depth, hops, page, URL
    before = read(index, np.ascontiguousarray(pages["key"]))
    changed: list[int] = []
    for place, (links, page) in enumerate(zip(before, pages, strict=True)):
        kept: Links = []
        further = min(int(page["hops"]) + 1, MOST_HOPS) if page["status"] == Status.MOVED else 0
        for kind, url in links:
            depth = int(page["depth"]) + (kind == REFUSED)
            if kind == LEVEL:
                rows.append((0, depth, 255, place, url))
            elif depth <= deepest(url, limits[place]):
                rows.append((1, depth, further, place, url))
                kind = LEVEL if kind == LEVEL_REFUSED else ""
            kept += [(kind, url)] if kind else []
        if kept != links:
            before[place] = kept
            changed.append(place)
    write(index, pages["key"][changed], [before[place] for place in changed])
    urls = [row[4] for row in rows]
    hits, depths, hops, at = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4).T
    keys = page_keys(urls)
    remember(index, pages["key"], at[hits > 0], keys[hits > 0])
    return Contributions.of(keys, urls, hits=hits, depth=depths, hops=hops, referrer=pages["key"][at])


def remember(index: PageIndex, keys: U64, source: Indices, target: U64) -> None:
    """Adds links to those of pages' versions, so that they pass cash on, and no longer count once they vanish."""
    places, which = np.unique(source, return_inverse=True)
    found, rows = index.visited.look_up(np.ascontiguousarray(keys[places]))
    rows["validators"][~found] = NO_TEXT  # nothing is kept there of pages that have moved
    links = earlier_links(index.heap, rows)
    kept = rows["validators"] != np.uint64(NO_TEXT)
    if not kept.any():
        return
    which, target = which[kept[which]], target[kept[which]]
    number = np.cumsum(kept) - 1
    before = index.heap.read(rows["validators"][kept])
    texts = packed_versions(
        rows["key"][kept],
        [validators_of(text) for text in before],
        number[np.concatenate((links.source, which))],
        np.concatenate((links.target, target)),
        links.degree[kept],
        [stored_of(text) for text in before],
    )
    rows["validators"][kept] = index.heap.append(texts)
    index.visited.write(rows[kept], 0)
