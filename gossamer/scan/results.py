"""This module writes the results of a scan: tables of links, of changes and of websites, as Parquet and as CSV."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from gossamer.archive.outputs import replaced
from gossamer.scan.findings import GONE, LINKS, READ
from gossamer.scan.records import Facts, Record, Scans

_TIME = pa.timestamp("ms", tz="UTC")
SITES = pa.schema(
    [
        ("site", pa.string()), ("start", pa.string()), ("status", pa.string()), ("reason", pa.string()),
        ("client", pa.string()), ("pages", pa.int64()), ("requests", pa.int64()), ("errors", pa.int64()),
        ("wire_bytes", pa.int64()), ("links", pa.int64()), ("appeared", pa.int64()), ("gone", pa.int64()),
        ("seen", pa.int64()), ("unknown", pa.int64()), ("result_bytes", pa.int64()), ("scan_s", pa.float64()),
        ("waited_s", pa.float64()), ("lookup_s", pa.float64()),
        ("connect_s", pa.float64()), ("response_s", pa.float64()), ("byte_s", pa.float64()),
        ("delay_s", pa.float64()), ("asked_s", pa.float64()), ("mean_depth", pa.float64()),
        ("address", pa.string()), ("forecast_s", pa.float64()), ("begun", _TIME), ("ended", _TIME),
    ]
)  # fmt: skip
KEPT = pa.schema(
    [
        ("site", pa.string()), ("source", pa.string()), ("target", pa.string()), ("target_site", pa.string()),
        ("anchor", pa.string()), ("first_seen", _TIME), ("last_seen", _TIME), ("state", pa.string()),
        ("reason", pa.string()),
    ]
)  # fmt: skip
UNREAD = pa.schema([("site", pa.string()), ("source", pa.string()), ("reason", pa.string())])
SEEN, UNKNOWN = "seen", "unknown"
_NAMES = ", ".join(KEPT.names)
_SAME = "n.site = b.site AND n.source = b.source AND n.target = b.target"

# A link is gone if its page was read without it, or answered that it is no longer there (404, 410). A page that was not
# read says nothing: its links stay, unknown, with the reason and the time when they were last seen.
_LINKS_SQL = f"""SELECT n.site, n.source, n.target, n.target_site, n.anchor,
        coalesce(b.first_seen, n.seen) AS first_seen, n.seen AS last_seen, '{SEEN}' AS state, '' AS reason
    FROM now n LEFT JOIN before b ON {_SAME}
    UNION ALL
    SELECT b.site, b.source, b.target, b.target_site, b.anchor, b.first_seen, b.last_seen, '{UNKNOWN}' AS state,
        coalesce(p.page, l.unreached) AS reason
    FROM before b JOIN listed l ON l.site = b.site LEFT JOIN pages p ON p.site = b.site AND p.source = b.source
    WHERE coalesce(p.page, '') NOT IN ('{READ}', '{GONE}') AND NOT EXISTS (FROM now n WHERE {_SAME})
    ORDER BY site, source, target"""
# Websites that were never scanned before have no changes, nor have those that left the list. The same holds for a page
# that could not be read the last time: nobody knows whether its links were there already.
_CHANGES_SQL = f"""SELECT 'appeared' AS change, {_NAMES} FROM kept n
    WHERE n.site IN (SELECT site FROM scanned) AND NOT EXISTS (FROM before b WHERE {_SAME})
        AND (NOT EXISTS (FROM unread u WHERE u.site = n.site AND u.source = n.source)
            OR EXISTS (FROM before b WHERE b.site = n.site AND b.source = n.source))
    UNION ALL
    SELECT '{GONE}' AS change, b.* REPLACE ('{GONE}' AS state, CASE p.page WHEN '{GONE}'
        THEN 'its page is gone' ELSE 'its page was read without it' END AS reason)
    FROM before b JOIN listed l ON l.site = b.site LEFT JOIN pages p ON p.site = b.site AND p.source = b.source
    WHERE NOT EXISTS (FROM kept n WHERE {_SAME})
    UNION ALL
    SELECT '{UNKNOWN}' AS change, {", ".join(f"n.{name}" for name in KEPT.names)} FROM kept n JOIN before b ON {_SAME}
    WHERE n.state = '{UNKNOWN}' AND b.state = '{SEEN}'
    ORDER BY site, change, source, target"""
_UNREAD_SQL = f"SELECT site, source, page AS reason FROM pages WHERE page NOT IN ('{READ}', '{GONE}') ORDER BY ALL"


def publish(scans: Scans, record: Record) -> dict[str, Any]:
    """Writes the tables of a scan whose websites are all done; returns the sums."""
    files, folder = scans.files(record.number), scans.folder(record.number)
    facts = files.done(record.listed)
    paths = [path for website in record.listed if (path := files.links(website)).exists()]
    earlier = [each.number for each in scans.ended() if each.number < record.number]
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = pa.concat_tables([LINKS.empty_table(), *map(pq.read_table, paths)], promote_options="default")
        is_link = pc.not_equal(found["target"], "")
        database.register("now", found.filter(is_link))
        database.register("pages", found.filter(pc.invert(is_link)))
        database.register("before", _before(scans, earlier))
        database.register("listed", _listed(record, facts))
        database.register("unread", _unread(scans, earlier))
        database.register("scanned", _scanned(scans, earlier))
        kept: pa.Table = database.sql(_LINKS_SQL).to_arrow_table().cast(KEPT)
        database.register("kept", kept)
        changes = database.sql(_CHANGES_SQL).to_arrow_table()
        unread = database.sql(_UNREAD_SQL).to_arrow_table().cast(UNREAD)
    changes = changes.cast(pa.schema([("change", pa.string()), *KEPT]))
    sites = _sites(record, facts, kept, changes)
    for name, table in (("links", kept), ("changes", changes), ("sites", sites), ("unread", unread)):
        _write(table, folder / name)
    shutil.rmtree(folder / "done", ignore_errors=True)
    kinds, states = changes["change"].to_pylist(), kept["state"].to_pylist()
    counts = {name: kinds.count(name) for name in ("appeared", GONE)}
    return {"links": len(kept), **counts, SEEN: states.count(SEEN), UNKNOWN: states.count(UNKNOWN)}


def _listed(record: Record, facts: Mapping[str, Facts]) -> pa.Table:
    """Returns the websites of the list, and why pages of each may not have been visited."""
    names = [website.name for website in record.listed]
    return pa.table({"site": names, "unreached": [facts[name].unreached or facts[name].reason for name in names]})


def _before(scans: Scans, earlier: Sequence[int]) -> pa.Table:
    """Returns the links as of the scan before. Tables of earlier versions have no state."""
    if not earlier:
        return KEPT.empty_table()
    found = pq.read_table(scans.folder(earlier[-1]) / "links.parquet")
    for name, value in (("state", SEEN), ("reason", "")):
        if name not in found.column_names:
            found = found.append_column(name, pa.array([value] * len(found), pa.string()))
    return found


def _unread(scans: Scans, earlier: Sequence[int]) -> pa.Table:
    """Returns the pages that the scan before could not read."""
    path = scans.folder(earlier[-1]) / "unread.parquet" if earlier else None
    return pq.read_table(path) if path is not None and path.exists() else UNREAD.empty_table()


def _scanned(scans: Scans, earlier: Sequence[int]) -> pa.Table:
    """Returns the websites that some earlier scan has read."""
    found = [read_sites(scans, number) for number in earlier]
    names = {
        row["site"] for table in found for row in table.select(["site", "status"]).to_pylist() if row["status"] == "ok"
    }
    return pa.table({"site": pa.array(sorted(names), pa.string())})


def read_sites(scans: Scans, number: int) -> pa.Table:
    return pq.read_table(scans.folder(number) / "sites.parquet")


def _sites(record: Record, facts: Mapping[str, Facts], kept: pa.Table, changes: pa.Table) -> pa.Table:
    counts = Counter(zip(kept["site"].to_pylist(), kept["state"].to_pylist(), strict=True))
    pairs = zip(changes["site"].to_pylist(), changes["change"].to_pylist(), strict=True)
    counts.update(pair for pair in pairs if pair[1] != UNKNOWN)
    rows = []
    for website in record.listed:
        one = facts[website.name]
        row = {name: getattr(one, name) for name in SITES.names if hasattr(one, name)}
        row |= {name: counts[one.site, name] for name in ("appeared", GONE, SEEN, UNKNOWN)}
        row |= {
            "forecast_s": record.forecast_s.get(one.site),
            "begun": _moment(one.begun_s),
            "ended": _moment(one.ended_s),
        }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SITES)


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _write(table: pa.Table, path: Path) -> None:
    with replaced(path.with_suffix(".parquet"), force=True) as part:
        pq.write_table(table, part)
    with replaced(path.with_suffix(".csv"), force=True) as part:
        pacsv.write_csv(table, part)
