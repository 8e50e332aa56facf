"""This module computes what would cross between sites with UniCrawl's link database (section VI), for the same pages.

The database L has all links, a triple (page, referrer, score) for each that leads to another site, sent once; from it
scores can be computed exactly. It is computed from the archive: a message for each round and pair of sites, between the
sites that really had the hosts, and encoded as our own messages are.
"""

from collections.abc import Iterator
from contextlib import closing
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

SCORE_BYTES = 2  # of a link's score, which the archive does not have: as long as the cash in our messages is
_LINKS = """SELECT source, target, target_url, round FROM links WHERE verdict IN ('followed', 'later') ORDER BY round"""


class Crossing(NamedTuple):
    """The links of one round that lead from one site to another."""

    from_site: int
    to_site: int
    referrer: Keys
    target: Keys
    url: list[str]  # of the target


def link_database(federation: Federation) -> int:
    """Bytes of L. As in messages, a URL is sent as text once, and by its key from then on."""
    entries = federation.config.site.sent_cache
    caches = {number: SentCache(entries) for number in range(len(federation.sites))}
    total = 0
    for links in crossing(federation):
        targets, first = np.unique(links.target, return_index=True)
        is_known = caches[links.from_site].add(str(links.to_site), targets)
        message = [*target_parts(links, targets, first, is_known), *referrer_parts(links)]
        total += sum(map(len, message)) + SCORE_BYTES * len(links.target)
    return total


def crossing(federation: Federation) -> Iterator[Crossing]:
    """All links between hosts of two sites, by the sites that have them, round by round."""
    links, owners = _read(federation, _LINKS), host_map(federation)
    source, target = (owners.of_keys(host_of_key(links[end])) for end in ("source", "target"))
    group = np.stack([links["round"].astype(np.int64), source, target])
    crossing = np.flatnonzero(source != target)
    ways, place = np.unique(group[:, crossing], axis=1, return_inverse=True)
    place = place.reshape(-1)
    for number, (_, one, other) in enumerate(ways.T.tolist()):
        rows = crossing[place == number]
        urls = [str(url) for url in links["target_url"][rows]]
        yield Crossing(one, other, links["source"][rows], links["target"][rows], urls)


def target_parts(links: Crossing, targets: Keys, first: I64, is_known: Bools) -> list[bytes]:
    """The pages, each once with the number of links to it, as our messages say it."""
    hits = np.unique(links.target, return_counts=True)[1]
    urls = [links.url[row] for row in first.tolist()]
    return compact.encode(_columns(targets, hits, urls), is_known)


def referrer_parts(links: Crossing) -> list[bytes]:
    """The pages that have these links, each once, as messages name known pages; and of each link, in the order of the
    targets, the number of its referrer."""
    referrers, number, hits = np.unique(links.referrer, return_inverse=True, return_counts=True)
    parts = compact.encode(_columns(referrers, hits, [""] * len(referrers)), np.ones(len(referrers), np.bool_))
    numbers = number.reshape(-1)[np.argsort(links.target, kind="stable")]
    raw = numbers.astype("<u2" if len(referrers) <= 1 << 16 else "<u4").tobytes()
    return [*parts, min(raw, zstandard.ZstdCompressor(level=12).compress(raw), key=len)]


def _columns(keys: Keys, hits: npt.NDArray[Any], urls: list[str]) -> Contributions:
    """Nothing but pages and how many links each has: scores are counted on their own."""
    count = len(keys)
    nothing, none = np.zeros(count, np.uint8), np.zeros(count, np.uint64)
    return Contributions(keys, np.zeros(count, np.int64), hits.astype(np.int32), nothing, nothing, none, urls)


def _read(federation: Federation, sql: str) -> dict[str, Any]:
    with closing(query.open_database(locate(federation.path))) as database:
        found: dict[str, Any] = database.execute(sql).fetchnumpy()
    return {name: np.asarray(column, np.uint64 if column.dtype.kind == "u" else None) for name, column in found.items()}
