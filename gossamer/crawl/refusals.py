"""This module deals with the links that were not followed: it counts them under the setting that decided so, and
`revive` finds those again that scope or patterns refused, when these are wider than they were.

Reviving is one pass over the links tables, in the commit that follows the change. A link that is followed now gets a
row with the verdict `later`, so that it counts once. At most `_AT_ONCE` links are revived by a commit: the state says
that more are to come, and the next commit, or the next run, looks again. Links refused as too deep have an index of
their own (crawl/onward.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import snapshots
from gossamer.arrays import U8, U64, Bools
from gossamer.columns import MOST_HOPS, Contributions, Status
from gossamer.config import FIREWALL, Config, Limits
from gossamer.crawl import onward
from gossamer.crawl.opening import Books
from gossamer.crawl.reader import DEPTH, FOLLOWED, LATER, PATTERN, SCOPE, VERDICTS
from gossamer.crawl.update import Admission
from gossamer.web.links import KINDS
from gossamer.web.url import host_of, is_dynamic

_AT_ONCE = 500_000  # links: their URLs are in memory
_REFUSED = (SCOPE, PATTERN)
_FEEDS = (".xml", ".xml.gz", ".txt", ".txt.gz")

Judge = Callable[[str, str, int], int]  # the verdict of a link: its URL, the host of its page, how deep it would be
Batch = tuple[U64, U64, U8, list[str]]  # sources, targets, verdicts and URLs


class Revived(NamedTuple):
    """`Revived` are links that are followed from now on."""

    rows: Contributions  # the referrer is the page that a link is on
    verdicts: U8  # that they had
    is_complete: bool

    @classmethod
    def none(cls) -> "Revived":
        return cls(Contributions.none(), np.zeros(0, np.uint8), True)


def settings(config: Config) -> str:
    """Returns the settings that decide about scope and patterns, as one text."""
    crawl = config.crawl
    return f"{crawl.scope} include={' '.join(crawl.include)} exclude={' '.join(crawl.exclude)}"


def revive(books: Books, judge: Judge, is_native: Callable[[U64], Bools], fresh: Batch) -> Revived:
    """Returns refused links that are to be followed, of pages in our index. `fresh` are those of the round itself."""
    if not books.config.archive.links or books.config.crawl.links_per_page:  # which were best, nobody knows any more
        return Revived.none()
    seen = _pairs_followed(books)
    found: list[Revived] = []
    count = 0
    for batch in [*_batches(books, "scope", "pattern"), fresh]:
        found.append(_judged(books, judge, is_native, batch, seen))
        count += len(found[-1].verdicts)
        if count >= _AT_ONCE:
            break
    rows = Contributions.joined([each.rows for each in found])
    return Revived(rows, np.concatenate([each.verdicts for each in found]), count < _AT_ONCE)


_LINKS = (None, *KINDS[:3])  # earlier versions did not note the kind of a link: there was one only


def _batches(books: Books, *verdicts: str) -> Iterator[Batch]:
    """Iterates over links with these verdicts, of all agents: zones may have changed their owner."""
    names = [name for at in snapshots(books.store).values() for name in at.files.get("links", [])]
    for name in names:
        try:
            with pq.ParquetFile(books.store.local(name)) as file:
                has_kind = ["kind"] if "kind" in file.schema_arrow.names else []
                for rows in file.iter_batches(columns=["source", "target", "target_url", "verdict", *has_kind]):
                    words = rows.column("verdict").to_numpy(zero_copy_only=False)
                    kept = rows.filter(pa.array(np.isin(words, verdicts)))
                    if has_kind and len(kept):  # what pages need is not judged again
                        kept = kept.filter(pa.array([kind in _LINKS for kind in kept.column("kind").to_pylist()]))
                    if len(kept):
                        yield _batch(kept)
        except FileNotFoundError:  # another agent has just merged it: what it has is in a file that comes later
            continue


def _batch(rows: pa.RecordBatch) -> Batch:
    codes = [VERDICTS.index(word) for word in rows.column("verdict").to_pylist()]
    numbers = (rows.column(name).to_numpy() for name in ("source", "target"))
    source, target = numbers
    return source, target, np.array(codes, np.uint8), rows.column("target_url").to_pylist()


def _pairs_followed(books: Books) -> set[int]:
    """Returns the links that were revived before, by `_pair`."""
    return {
        pair for source, target, _, _ in _batches(books, VERDICTS[LATER]) for pair in _pair(source, target).tolist()
    }


def _pair(source: U64, target: U64) -> U64:
    """Returns a hash of each link."""
    with np.errstate(over="ignore"):
        mixed: U64 = source * np.uint64(0x9E3779B97F4A7C15) ^ target
    return mixed


def _judged(books: Books, judge: Judge, is_native: Callable[[U64], Bools], batch: Batch, seen: set[int]) -> Revived:
    source, target, verdicts, urls = batch
    keys, which = np.unique(source, return_inverse=True)
    found, pages = books.index.pages.look_up(keys)
    texts = books.index.urls(pages[found])
    place = np.cumsum(found) - 1
    firewall = books.config.site.mode == FIREWALL
    may_follow = is_native(target) if firewall else np.ones(len(target), np.bool_)
    pairs = _pair(source, target).tolist()
    rows: list[tuple[int, int, int]] = []  # the link, its depth, its hops
    deep: dict[int, onward.Links] = {}
    for at in np.flatnonzero(found[which] & may_follow & np.isin(verdicts, _REFUSED)).tolist():
        page, text = pages[which[at]], texts[place[which[at]]]
        is_moved = page["status"] == Status.MOVED
        depth = min(int(page["depth"]) + (not is_moved), 255)
        verdict = SCOPE if _is_of_a_sitemap(text, urls[at]) else judge(urls[at], host_of(text), depth)
        if pairs[at] in seen or verdict not in (FOLLOWED, DEPTH):
            continue
        seen.add(pairs[at])
        if verdict == FOLLOWED:
            rows.append((at, depth, min(int(page["hops"]) + 1, MOST_HOPS) if is_moved else 0))
        else:
            kind = onward.LEVEL_REFUSED if is_moved else onward.REFUSED
            deep.setdefault(int(keys[which[at]]), []).append((kind, urls[at]))
    _note_deep(books, deep)
    return _revived(books, batch, rows)


def _is_of_a_sitemap(page: str, url: str) -> bool:
    """Returns whether this may be a link of a sitemap to another host, for which it does not speak."""
    path = page.partition("?")[0]
    return host_of(page) != host_of(url) and ("sitemap" in path or path.endswith(_FEEDS))


def _note_deep(books: Books, deep: Mapping[int, onward.Links]) -> None:
    """Notes links that are only too deep now: more depth may be allowed one day."""
    keys = np.array(sorted(deep), np.uint64)
    before = onward.read(books.index, keys)
    onward.write(books.index, keys, [[*old, *deep[key]] for key, old in zip(keys.tolist(), before, strict=True)])


def _revived(books: Books, batch: Batch, rows: Iterable[tuple[int, int, int]]) -> Revived:
    source, target, verdicts, urls = batch
    at, depth, hops = np.array(list(rows), np.int64).reshape(-1, 3).T
    keys, which = np.unique(source[at], return_inverse=True)
    onward.remember(books.index, keys, which, target[at])
    texts = [urls[place] for place in at.tolist()]
    said = Contributions.of(target[at], texts, hits=1, depth=depth, hops=hops, referrer=source[at])
    return Revived(said, verdicts[at], True)


_CAPS = {
    Admission.CAP: "limits.pages_per_host",
    Admission.CAP_DOMAIN: "limits.pages_per_domain",
    Admission.CAP_HOSTS: "limits.hosts_per_domain",
    Admission.BEST: "limits.new_per_round",
    Admission.LENGTH: "limits.url_bytes",
    Admission.CAP_WEBSITE: "seeds.pages",
}
TOO_DEEP = ("limits.depth", "limits.depth_dynamic")  # settings that refuse links as too deep
BY_LIMITS = np.array([word in ("depth", "trap", "length", "cap", "best") for word in VERDICTS])  # by code of a verdict
_BY_WORD = {"length": "limits.url_bytes", "best": "crawl.links_per_page"}
_ALIKE = {  # verdicts that one setting stands behind, whatever the URL
    "scope": "crawl.scope",
    "pattern": "crawl.include/exclude",
    "nofollow": "crawl.nofollow",
    "foreign": "site.mode",
    "port": "port",
    "function": "extract.links",
    "requisites": "limits.requisites",
}


def counted_alike(verdicts: U8) -> Counter[str]:
    """Counts links that were not followed for a reason that does not depend on their URL, without a look at each."""
    times = np.bincount(verdicts, minlength=len(VERDICTS)).tolist()
    return Counter({_ALIKE[word]: n for word, n in zip(VERDICTS, times, strict=True) if n and word in _ALIKE})


def counted(links: Iterable[tuple[int, int, str]], limits: Limits) -> Counter[str]:
    """Counts refused links. Each link has the reader's verdict, the index's verdict, and its URL."""
    found: Counter[str] = Counter()
    for verdict, capped, url in links:
        if setting := _setting(VERDICTS[verdict], capped, url, limits):
            found[setting] += 1
    return found


def too_deep(urls: Iterable[str], limits: Limits) -> Counter[str]:
    """Counts links that are refused as too deep."""
    return Counter(_depth(url, limits) for url in urls)


def _setting(verdict: str, capped: int, url: str, limits: Limits) -> str:
    if capped in _CAPS:
        return _CAPS[Admission(capped)]
    if verdict == "depth":
        return _depth(url, limits)
    if verdict == "trap":
        slashes = url.partition("?")[0].count("/", 8)
        return "limits.path_segments" if slashes > limits.path_segments else "limits.path_repeats"
    return _BY_WORD.get(verdict, "")


def _depth(url: str, limits: Limits) -> str:
    return "limits.depth_dynamic" if is_dynamic(url) and limits.depth_dynamic < limits.depth else "limits.depth"
