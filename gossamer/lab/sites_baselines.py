"""What would cross between sites with UniCrawl's link database (section VI), for the very pages that they crawled.

The database L has all links, a triple (page, referrer, score) for each that leads to another site, sent once; from it
scores can be computed exactly. Computed from the archive, round by round, compressed as our own letters are.
"""

from contextlib import closing
from typing import Any

import numpy as np
import zstandard

from gossamer.archive import query
from gossamer.federation.file import Federation
from gossamer.federation.members import of_file
from gossamer.index.pages import host_of_key
from gossamer.place.ring import Ring

_LINKS = """SELECT source, target, target_url, round FROM links WHERE verdict = 'followed' ORDER BY round"""


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
