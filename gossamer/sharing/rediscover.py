"""This module finds the pages of a site that is gone with its disk again, by the links that lead to them.

These links were sent to that site, once, and to nobody else. The agents that speak for other sites send them again,
from all that their sites have archived. They go to the hosts' new owners like links that were just found. They bring no
cash: what they brought is lost.
"""

import contextlib
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from gossamer.archive.chain import snapshots
from gossamer.archive.store import Store
from gossamer.columns import Contributions
from gossamer.frontier.pages import HOST_SHIFT
from gossamer.sharing.owners import SiteView

_TRIES = 4  # other agents merge files while we read them
_FOLLOWED = "verdict IN ('followed', 'later')"  # later: since a shorter way to the page was found
_HOSTS = f"SELECT DISTINCT (target >> {HOST_SHIFT})::UINTEGER AS host FROM read_parquet($links) WHERE {_FOLLOWED}"
_LINKS = f"""
    SELECT l.target AS key, min(l.target_url) AS url, count(DISTINCT l.source)::INTEGER AS hits,
           least(min(v.depth) + 1, 255)::UTINYINT AS depth, min(l.source) AS referrer
    FROM read_parquet($links) l JOIN read_parquet($visits) v
        ON v.key = l.source AND (v.round = l.round OR l.verdict = 'later')
    WHERE l.{_FOLLOWED} AND (l.target >> {HOST_SHIFT})::UINTEGER IN (SELECT host FROM lost)
    GROUP BY l.target ORDER BY l.target"""


def links_to_lost(store: Store, place: SiteView) -> Contributions:
    """Returns the links that our site has sent to sites that are gone."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError, duckdb.IOException):
            return _read(store, place)
    return _read(store, place)


def _read(store: Store, place: SiteView) -> Contributions:
    everyone = snapshots(store).values()
    files = {
        kind: [str(store.local(name)) for at in everyone for name in at.files.get(kind, [])]
        for kind in ("links", "visits")
    }
    if not files["links"]:
        return Contributions.none()
    with duckdb.connect() as database:
        hosts = database.execute(_HOSTS, {"links": files["links"]}).fetchnumpy()["host"]
        lost = np.asarray(hosts, np.uint32)
        database.register("lost", pa.table({"host": lost[place.was_lost(lost)]}))
        rows: dict[str, Any] = database.execute(_LINKS, files).fetchnumpy()
    zero = np.zeros(len(rows["key"]))
    return Contributions(
        rows["key"].astype(np.uint64),
        zero.astype(np.int64),
        rows["hits"].astype(np.int32),
        rows["depth"].astype(np.uint8),
        zero.astype(np.uint8),
        rows["referrer"].astype(np.uint64),
        [str(url) for url in rows["url"]],
    )
