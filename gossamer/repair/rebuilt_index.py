"""This module rebuilds the frontier's index from an archive's tables when the index is lost.

Pages are new, visited, failed or gone as they were, with their links and depths, in order of discovery. Lost for good
are OPIC cash (pages not visited yet begin with equal shares; what visited ones have passed on is known), validators,
digests and estimated rates of change: a page that is visited again counts as changed once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gossamer.archive.manifest import Changes
from gossamer.archive.state import Counters
from gossamer.archive.store import Memory, Store
from gossamer.archive.tables import arrow_table
from gossamer.archive.views import statements
from gossamer.arrays import Rows
from gossamer.columns import NEVER, NO_TEXT, PAGES, Status
from gossamer.config import Config
from gossamer.crawl import onward
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.update import is_final, is_requisite
from gossamer.crawl.visit_history import packed_versions
from gossamer.frontier.caps import domain_key
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.text_heap import MAX_TEXT
from gossamer.web.url import domain_of, host_of

Columns = dict[str, npt.NDArray[Any]]

_BATCH = 1 << 17
_SLICES = 16  # of keys; links of one slice are in memory at a time

# Pages as they were discovered; those whose row is lost are known from their visits, and from links to them.
_KNOWN = """
    WITH met AS (
        SELECT key, url, depth, round, 0 AS rank, coalesce(kind, 'page') = 'page' AS is_page FROM stored.pages
        UNION ALL SELECT key, url, depth, round, 1, coalesce(kind, 'page') = 'page' FROM stored.visits
            WHERE NOT is_robots
        UNION ALL SELECT l.target, l.target_url, least(v.depth + 1, 255), l.round, 2,
            coalesce(l.kind, 'link') IN ('link', 'redirect', 'sitemap') AND coalesce(v.kind, 'page') = 'page'
            FROM stored.links l JOIN stored.visits v ON v.key = l.source AND v.round = l.round AND NOT v.is_robots
            WHERE l.verdict = 'followed'
    ), once AS (
        SELECT key, any_value(url) AS url, min(depth)::UTINYINT AS depth, min((round, rank)) AS met,
            bool_or(is_page) AS is_page
        FROM met WHERE url IS NOT NULL GROUP BY key
    ), last AS (
        SELECT key, arg_max(status, (time, round)) AS status, max(time) AS time,
            count(*) FILTER (status NOT IN ('failed', 'forbidden')) AS settled,
            max((time, round)) FILTER (status NOT IN ('failed', 'forbidden')) AS settled_at
        FROM stored.visits WHERE NOT is_robots GROUP BY key
    ), tried AS (
        SELECT v.key, count(*) AS tries FROM stored.visits v JOIN last ON last.key = v.key
        WHERE NOT is_robots AND v.status IN ('failed', 'forbidden')
            AND (settled = 0 OR (v.time, v.round) > settled_at) GROUP BY v.key
    )
    SELECT once.key, once.url, once.depth, coalesce(last.status, 'new') AS status, coalesce(tries, 0) AS tries,
        coalesce(epoch(last.time), 0)::BIGINT AS time,
        if(is_page, coalesce(hits, 0), 0)::UINTEGER AS hits, if(is_page, 0, 128)::UTINYINT AS hops
    FROM once LEFT JOIN last USING (key) LEFT JOIN tried USING (key) LEFT JOIN targets USING (key)
    ORDER BY once.met, once.key"""
_VISITED = """
    SELECT key, max(epoch(time))::BIGINT AS last_s, min(epoch(time))::BIGINT AS first_s, count(*)::BIGINT AS visits,
        coalesce(max(epoch(time)) FILTER (outcome = 'ok'), 0)::BIGINT AS changed_s,
        count(*) FILTER (outcome = 'ok')::BIGINT AS changes,
        coalesce(arg_max(wire_bytes, time) FILTER (outcome = 'ok'), 0)::BIGINT AS wire_bytes,
        least(coalesce(sum(cash), 0), 4611686018427387904)::UBIGINT AS history
    FROM stored.visits WHERE NOT is_robots AND outcome IN ('ok', 'unchanged') AND key BETWEEN ? AND ?
    GROUP BY key ORDER BY key"""
# The links of the versions that pages have now.
_LINKS = """
    WITH now AS (
        SELECT key, arg_max(round, (time, round)) AS round FROM stored.visits
        WHERE NOT is_robots AND outcome = 'ok' AND key BETWEEN ? AND ? GROUP BY key
    )
    SELECT source, target, coalesce(verdict = 'followed', false) AS followed
    FROM stored.links l JOIN now ON key = source
    WHERE l.round = now.round AND coalesce(kind, 'link') IN ('link', 'redirect', 'sitemap') ORDER BY source"""
# Links of the same versions, or redirects, that were refused as too deep: more depth may be allowed one day.
_TOO_DEEP = """
    WITH now AS (
        SELECT key, arg_max(round, (time, round)) AS round FROM stored.visits
        WHERE NOT is_robots AND outcome <> 'unchanged' AND status NOT IN ('failed', 'forbidden')
            AND key BETWEEN ? AND ? GROUP BY key
    )
    SELECT source, list(DISTINCT target_url ORDER BY target_url) AS urls FROM stored.links l JOIN now ON key = source
    WHERE l.round = now.round AND verdict = 'depth' AND target_url IS NOT NULL GROUP BY source ORDER BY source"""
_FIGURES = """
    SELECT outcome, count(*) FILTER (NOT is_robots AND coalesce(kind, 'page') = 'page') AS visits,
        sum(wire_bytes)::BIGINT AS wire_bytes, count(*) FILTER (kind = 'requisite') AS requisites
    FROM stored.visits GROUP BY outcome"""
# Pages of which no row is left. Of a federation's links it is not known here whose pages they lead to.
_LOST = """
    WITH met AS (
        SELECT l.target AS key, l.target_url AS url, l.source AS referrer, l.round,
            least(v.depth + (v.status <> 'moved')::INTEGER, 255) AS depth,
            coalesce(l.kind, 'link') IN ('link', 'redirect', 'sitemap') AND coalesce(v.kind, 'page') = 'page' AS is_page
            FROM stored.links l JOIN stored.visits v ON v.key = l.source AND v.round = l.round AND NOT v.is_robots
            WHERE l.verdict = 'followed' AND $alone
        UNION ALL SELECT key, url, NULL, round, depth, coalesce(kind, 'page') = 'page' FROM stored.visits
            WHERE NOT is_robots
    )
    SELECT key, any_value(url) AS url,
        CASE WHEN min(depth) = 0 AND coalesce(min(depth) FILTER (referrer IS NOT NULL), 1) > 0 THEN 0  -- a seed
            ELSE coalesce(arg_min(referrer, (round, referrer)), 0) END::UBIGINT AS referrer,
        min(round)::UINTEGER AS round, min(depth)::UTINYINT AS depth,
        if(bool_or(is_page), 'page', 'requisite') AS kind
    FROM met ANTI JOIN stored.pages USING (key) WHERE url IS NOT NULL GROUP BY key ORDER BY round, key"""
# A page whose referrer was lost is a seed if no link leads to it.
_SEED_HOSTS = """
    SELECT DISTINCT host FROM stored.pages WHERE depth = 0 AND (
        referrer = 0 OR referrer IS NULL AND key NOT IN (SELECT target FROM stored.links WHERE target IS NOT NULL)
    ) ORDER BY host"""


class RebuiltIndex:
    """`RebuiltIndex` is the index of all pages that the tables have."""

    def __init__(self, files: Mapping[str, Sequence[Path]], config: Config) -> None:
        self._files, self._config = files, config
        self.index = PageIndex.open(Memory(), {}, config.index)  # of no files
        self.ledger = Ledger()

    def write(self, store: Store, label: str) -> Changes:
        """Writes its files, durable and not named by a manifest yet."""
        with closing(opened(self._files)) as database:
            rows = self._pages(database)
            self._count_hosts(rows)
            self.index.pages.write(rows[np.argsort(rows["key"])], len(rows))
            for first, last in _ranges():
                self._visited(database, first, last)
                self._too_deep(database, first, last)
        return self.index.flush(store, label)

    def _pages(self, database: duckdb.DuckDBPyConnection) -> Rows:
        parts = [np.zeros(0, self.index.pages.dtype)]
        self._domains: dict[int, int] = {}
        for batch in _batches(database, _KNOWN):
            rows = np.zeros(len(batch["key"]), self.index.pages.dtype)
            for name in ("key", "depth", "hits", "hops"):
                rows[name] = batch[name]
            _settle(rows, batch, self._config)
            texts = [url.encode()[:MAX_TEXT] for url in batch["url"].tolist()]
            rows["text"] = self.index.heap.append(texts)
            hosts, first = np.unique(host_of_key(rows["key"]), return_index=True)
            for host, place in zip(hosts.tolist(), first.tolist(), strict=True):
                if host not in self._domains:
                    self._domains[host] = domain_key(domain_of(host_of(batch["url"][place])))
            parts.append(rows)
        rows = np.concatenate(parts)
        is_page = ~is_requisite(rows["hops"])
        waits = (rows["due_s"] != NEVER) & is_page
        rows["cash"][waits] = self.ledger.mint(int(waits.sum()))
        self.ledger.known = int(is_page.sum())
        return rows

    def _count_hosts(self, rows: Rows) -> None:
        rows = rows[~is_requisite(rows["hops"])]
        hosts, inverse = np.unique(host_of_key(rows["key"]), return_inverse=True)
        known = np.bincount(inverse, minlength=len(hosts)).astype(np.int64)
        visited = np.bincount(inverse, is_final(rows["status"]), minlength=len(hosts)).astype(np.int64)
        domains = np.array([self._domains[host] for host in hosts.tolist()], np.uint32)
        self.index.hosts.grow(hosts, domains, known, visited)

    def _visited(self, database: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
        found = database.execute(_VISITED, [first, last]).fetchnumpy()
        rows = np.zeros(len(found["key"]), self.index.visited.dtype)
        if not len(rows):
            return
        for name in ("key", "last_s", "first_s", "changed_s", "history"):
            rows[name] = found[name]
        rows["visits"] = np.minimum(found["visits"], 0xFFFF)
        rows["changes"] = np.clip(found["changes"] - 1, 0, 0xFFFF)
        rows["wire_bytes"] = np.minimum(found["wire_bytes"], 0xFFFFFFFF)
        rows["validators"] = NO_TEXT
        links = database.execute(_LINKS, [first, last]).fetchnumpy()
        source = np.searchsorted(rows["key"], links["source"].astype(np.uint64))
        degree = np.bincount(source, minlength=len(rows))
        has = np.flatnonzero(degree)
        if len(has):
            followed = np.asarray(links["followed"], np.bool_)
            texts = packed_versions(
                rows["key"][has],
                [("", "")] * len(has),
                np.searchsorted(has, source[followed]),
                links["target"][followed].astype(np.uint64),
                degree[has],
            )
            rows["validators"][has] = self.index.heap.append(texts)
        self.index.visited.write(rows, len(rows))

    def _too_deep(self, database: duckdb.DuckDBPyConnection, first: int, last: int) -> None:
        found = database.execute(_TOO_DEEP, [first, last]).fetchall()
        keys = np.array([key for key, _ in found], np.uint64)
        onward.write(self.index, keys, [[(onward.REFUSED, url) for url in urls] for _, urls in found])


def _settle(rows: Rows, batch: Columns, config: Config) -> None:
    """Sets status, failures in a row, and when the page is due (`crawl/states.py`)."""
    words = {status.name.lower(): int(status) for status in Status}
    rows["status"] = [words[word] for word in batch["status"].tolist()]
    fetch, failed, forbidden = config.fetch, rows["status"] == Status.FAILED, rows["status"] == Status.FORBIDDEN
    tries = np.where(failed | forbidden, batch["tries"].astype(np.int64), 0)
    rows["tries"] = np.minimum(tries, 255)
    is_last = tries > fetch.retries
    rows["status"][failed & is_last] = Status.GONE
    doubled = 2.0 ** np.clip(tries - 1, 0, fetch.retries)
    passing_s = np.minimum(fetch.retry_s * doubled, max(fetch.retry_s, config.polite.backoff_max_s))
    pauses_s = np.where(forbidden, fetch.forbidden_s * doubled, passing_s)
    due_s = np.where(failed | forbidden, batch["time"].astype(np.int64) + pauses_s + 1, 0)
    never = is_last | (is_final(rows["status"]) & ~forbidden)
    rows["due_s"] = np.where(never, NEVER, np.minimum(due_s, NEVER - 1))


def opened(files: Mapping[str, Sequence[Path]]) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    for statement in statements(database, files):
        database.execute(statement)
    return database


def figures(files: Mapping[str, Sequence[Path]]) -> Counters:
    """Returns the totals of an agent's visits, as its counters have them."""
    with closing(opened(files)) as database:
        found = database.execute(_FIGURES).fetchall()
    outcomes = {outcome: visits for outcome, visits, _, _ in found if visits}
    return Counters(
        visits=sum(outcomes.values()),
        requisites=sum(requisites for _, _, _, requisites in found),
        wire_bytes=sum(size for _, _, size, _ in found),
        outcomes=outcomes,
    )


def seed_hosts(files: Mapping[str, Sequence[Path]]) -> list[str]:
    with closing(opened(files)) as database:
        return [host for (host,) in database.execute(_SEED_HOSTS).fetchall()]


def lost_pages(files: Mapping[str, Sequence[Path]], alone: bool) -> pa.Table | None:
    """Returns rows for the table of pages: of those that are known only from visits and from links to them."""
    with closing(opened(files)) as database:
        found = database.execute(_LOST, {"alone": alone}).fetchall()
    if not found:
        return None
    key, url, referrer, round_, depth, kind = (list(column) for column in zip(*found, strict=True))
    hosts = [host_of(each) for each in url]
    values = {"key": key, "url": url, "host": hosts, "domain": [domain_of(host) for host in hosts]}
    return arrow_table(PAGES, {**values, "referrer": referrer, "round": round_, "depth": depth, "kind": kind})


def _batches(database: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Columns]:
    for batch in database.sql(sql).to_arrow_reader(_BATCH):
        yield {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}


def _ranges() -> list[tuple[int, int]]:
    width = 2**64 // _SLICES
    return [(place * width, (place + 1) * width - 1) for place in range(_SLICES)]
