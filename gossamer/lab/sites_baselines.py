"""What would cross between places in other designs, for the very pages that a federation has crawled.

Computed from its archive, round by round, with the encoding that our own letters have:

- *stretched* (UniCrawl, section V-B): one logical crawler over two places. An agent fetches a host, but pages are
  stored by the hash of their URL, half of them at the other place: what it is to fetch comes from there, what it
  fetched and what becomes of the page goes there, and so do the links to pages that are stored there.
- *links* (UniCrawl, section VI): the database L of all links, a triple (page, referrer, score) for each that leads to
  another site, sent once; from it scores can be computed exactly.
"""

from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zstandard

from gossamer.archive import query
from gossamer.columns import Contributions
from gossamer.federation import compact
from gossamer.federation.file import Federation
from gossamer.federation.members import of_file
from gossamer.index.pages import host_of_key
from gossamer.place.ring import Ring

U8 = npt.NDArray[np.uint64]

_VISITS = "SELECT key, url, warc_bytes, round FROM visits WHERE NOT is_robots AND outcome = 'ok' ORDER BY round"
_LINKS = """SELECT source, target, target_url, round FROM links WHERE verdict = 'followed' ORDER BY round"""


class Crossing(NamedTuple):
    """Bytes."""

    generate: int
    fetch: int
    update: int

    @property
    def total(self) -> int:
        return sum(self)


def stretched(federation: Federation) -> Crossing:
    visits, links = _read(federation, _VISITS), _read(federation, _LINKS)
    generate = fetch = update = 0
    told = np.zeros(0, np.uint64)
    for here in (0, 1):
        agent = _places(host_of_key(visits["key"])) == here
        away = agent & (_places(visits["key"]) != here)
        fetch += int(visits["warc_bytes"][away].sum())
        sent = (_places(host_of_key(links["source"])) == here) & (_places(links["target"]) != here)
        for number in np.unique(visits["round"]).tolist():
            rows = np.flatnonzero(away & (visits["round"] == number))
            generate += _bytes(visits["key"][rows], visits["url"][rows], np.zeros(len(rows), np.bool_))
            update += _bytes(visits["key"][rows], visits["url"][rows], np.ones(len(rows), np.bool_))
            targets = np.flatnonzero(sent & (links["round"] == number))
            keys, first = np.unique(links["target"][targets], return_index=True)
            update += _bytes(keys, links["target_url"][targets][first], np.isin(keys, told))
            told = np.union1d(told, keys)
    return Crossing(generate, fetch, update)


def link_database(federation: Federation) -> int:
    """Bytes of L: per round and pair of sites, compressed."""
    links, ring = _read(federation, _LINKS), Ring(of_file(federation).weights)
    source, target = (ring.of_keys(host_of_key(links[end])) for end in ("source", "target"))
    total = 0
    squeeze = zstandard.ZstdCompressor(level=12)
    for number in np.unique(links["round"]).tolist():
        for one in range(len(ring.sites)):
            for other in range(len(ring.sites)):
                rows = np.flatnonzero((links["round"] == number) & (source == one) & (target == other))
                if one != other and len(rows):
                    rows = rows[np.argsort(links["target_url"][rows].astype(str), kind="stable")]
                    text = "\n".join(str(url) for url in links["target_url"][rows])
                    total += len(squeeze.compress(text.encode())) + len(
                        squeeze.compress(links["source"][rows].tobytes())
                    )
                    total += 2 * len(rows)  # the score, rounded as in our letters
    return total


def _read(federation: Federation, sql: str) -> dict[str, Any]:
    with closing(query.open_database(federation.path)) as database:
        found: dict[str, Any] = database.execute(sql).fetchnumpy()
    return {name: np.asarray(column, np.uint64 if column.dtype.kind == "u" else None) for name, column in found.items()}


def _places(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One of two, by a hash that has nothing to do with how keys are made."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(63)).astype(np.int64)


def _bytes(keys: U8, urls: npt.NDArray[Any], is_known: npt.NDArray[np.bool_]) -> int:
    """Of a letter about these pages."""
    count = len(keys)
    zero = np.zeros(count, np.uint8)
    cash = compact.rounded(np.full(count, 1 << 30, np.int64))
    hits: Any = np.ones(count, np.uint32)
    rows = Contributions(keys, cash, hits, zero, zero, np.zeros(count, np.uint64), [str(url) for url in urls])
    return sum(map(len, compact.encode(rows, is_known)))
