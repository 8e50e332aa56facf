"""`read_links` makes the link graph of a crawl: the pages that answered, and the links of their latest versions."""

from typing import NamedTuple

import numpy as np

from gossamer.archive import query
from gossamer.archive.reading import Where
from gossamer.arrays import F64, I64, Bools, Keys
from gossamer.errors import ArchiveError


class LinkGraph(NamedTuple):
    keys: Keys  # of pages, in order of discovery
    urls: list[str]
    is_seed: Bools
    body_bytes: F64
    elapsed_s: F64  # of the last visit
    source: I64  # of links, places in `keys`; by source, and of a page in document order
    target: I64


# A redirect is a page with one link. Where a page changed, its last version counts.
_PAGES = """SELECT p.key, p.url, p.referrer = 0 AS is_seed, p.wire_bytes, p.elapsed_s
    FROM pages p WHERE p.status IN ('fetched', 'moved') ORDER BY p.round, p.referrer <> 0, p.key"""
# A plain scan keeps the order of rows, which a window would not.
_LINKS = """SELECT source, target, round, verdict = 'later' AS is_later, verdict IN ('followed', 'later') AS followed
    FROM links"""


def read_links(where: Where) -> LinkGraph:
    pages, links = query.with_database(
        where, lambda database: [database.execute(sql).fetchnumpy() for sql in (_PAGES, _LINKS)]
    )
    keys = np.asarray(pages["key"], np.uint64)
    if not len(keys):
        raise ArchiveError(f"{where} has no pages yet")
    order = np.argsort(keys)
    ends = [np.asarray(links[name], np.uint64) for name in ("source", "target")]
    places = [np.minimum(np.searchsorted(keys[order], end), len(keys) - 1) for end in ends]
    source, target = (order[place].astype(np.int64) for place in places)
    here = [keys[place] == end for place, end in zip((source, target), ends, strict=True)]
    is_later = np.asarray(links["is_later"], np.bool_)
    is_latest = _latest(np.where(here[0], source, len(keys)), np.asarray(links["round"], np.int64), is_later)
    kept = np.flatnonzero(here[0] & here[1] & is_latest & np.asarray(links["followed"], np.bool_))
    kept = kept[np.argsort(source[kept], kind="stable")]
    return LinkGraph(
        keys,
        [str(url) for url in pages["url"]],
        np.asarray(pages["is_seed"], np.bool_),
        np.asarray(pages["wire_bytes"], np.float64),
        np.asarray(pages["elapsed_s"], np.float64),
        source[kept],
        target[kept],
    )


def _latest(source: I64, rounds: I64, is_later: Bools) -> Bools:
    """Returns which links are of their page's last version. Links that were followed later have later rounds."""
    last = np.zeros(int(source.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, source[~is_later], rounds[~is_later])
    latest: Bools = (rounds == last[source]) | (is_later & (rounds > last[source]))
    return latest
