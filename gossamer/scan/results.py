"""This module writes the results of a scan: tables of links, of changes and of websites, as Parquet and as CSV."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from gossamer.archive.outputs import replaced
from gossamer.scan.facts import Facts
from gossamer.scan.findings import LINKS
from gossamer.scan.records import Record, Scans

_TIME = pa.timestamp("ms", tz="UTC")
SITES = pa.schema(
    [
        ("site", pa.string()), ("start", pa.string()), ("status", pa.string()), ("reason", pa.string()),
        ("client", pa.string()), ("pages", pa.int64()), ("requests", pa.int64()), ("errors", pa.int64()),
        ("wire_bytes", pa.int64()), ("links", pa.int64()), ("appeared", pa.int64()), ("gone", pa.int64()),
        ("result_bytes", pa.int64()), ("scan_s", pa.float64()), ("lookup_s", pa.float64()),
        ("connect_s", pa.float64()), ("response_s", pa.float64()), ("byte_s", pa.float64()),
        ("delay_s", pa.float64()), ("asked_s", pa.float64()), ("mean_depth", pa.float64()),
        ("address", pa.string()), ("forecast_s", pa.float64()), ("begun", _TIME), ("ended", _TIME),
    ]
)  # fmt: skip
KEPT = pa.schema(
    [
        ("site", pa.string()), ("source", pa.string()), ("target", pa.string()), ("target_site", pa.string()),
        ("anchor", pa.string()), ("first_seen", _TIME), ("last_seen", _TIME),
    ]
)  # fmt: skip
_NAMES = ", ".join(KEPT.names)

# A link stays until its page was read without it, or is no longer there. What could not be read in passing, a page or
# a whole website, proves nothing: its links stay, with the time when they were last seen.
_LINKS_SQL = f"""SELECT n.site, n.source, n.target, n.target_site, n.anchor,
        coalesce(b.first_seen, n.seen) AS first_seen, n.seen AS last_seen
    FROM now n LEFT JOIN before b ON b.site = n.site AND b.source = n.source AND b.target = n.target
    UNION ALL
    SELECT {_NAMES} FROM before b
    WHERE (b.site IN (SELECT site FROM silent) OR (b.site, b.source) IN (SELECT (site, source) FROM unread))
        AND NOT EXISTS (FROM now n WHERE n.site = b.site AND n.source = b.source AND n.target = b.target)
    ORDER BY site, source, target"""
# Websites that were never scanned before have no changes, nor have those that left the list.
_CHANGES_SQL = f"""SELECT 'appeared' AS change, {_NAMES} FROM kept k
    WHERE k.site IN (SELECT site FROM scanned)
        AND NOT EXISTS (FROM before b WHERE b.site = k.site AND b.source = k.source AND b.target = k.target)
    UNION ALL
    SELECT 'gone' AS change, {_NAMES} FROM before b
    WHERE b.site IN (SELECT site FROM listed)
        AND NOT EXISTS (FROM kept k WHERE k.site = b.site AND k.source = b.source AND k.target = b.target)
    ORDER BY site, change, source, target"""


def publish(scans: Scans, record: Record) -> dict[str, Any]:
    """Writes the tables of a scan whose websites are all done; returns the sums."""
    places, folder = scans.places(record.number), scans.folder(record.number)
    facts = places.done(record.listed)
    paths = [path for website in record.listed if (path := places.links(website)).exists()]
    earlier = [each.number for each in scans.ended() if each.number < record.number]
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        _register(
            database, "now", pa.concat_tables([pq.read_table(p) for p in paths]) if paths else LINKS.empty_table()
        )
        _register(database, "before", _before(scans, earlier))
        _register(database, "listed", _names(record))
        _register(
            database,
            "silent",
            pa.table({"site": pa.array([f.site for f in facts.values() if _is_silent(f)], pa.string())}),
        )
        _register(database, "unread", _unread(facts.values()))
        _register(database, "scanned", _scanned(scans, earlier))
        kept: pa.Table = database.sql(_LINKS_SQL).to_arrow_table().cast(KEPT)
        _register(database, "kept", kept)
        changes = database.sql(_CHANGES_SQL).to_arrow_table()
    changes = changes.cast(pa.schema([("change", pa.string()), *KEPT]))
    sites = _sites(record, facts, changes)
    for name, table in (("links", kept), ("changes", changes), ("sites", sites)):
        _write(table, folder / name)
    shutil.rmtree(folder / "done", ignore_errors=True)
    kinds = changes["change"].to_pylist()
    return {"links": len(kept), "appeared": kinds.count("appeared"), "gone": kinds.count("gone")}


def _register(database: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    database.register(name, table)


def _names(record: Record) -> pa.Table:
    return pa.table({"site": pa.array([website.name for website in record.listed], pa.string())})


def _is_silent(facts: Facts) -> bool:
    """Returns whether nothing was read, for a reason that may pass."""
    return facts.status in ("unreachable", "failed")


def _unread(facts: Any) -> pa.Table:
    pairs = [(one.site, url) for one in facts for url in one.unread]
    return pa.table(
        {"site": pa.array([p[0] for p in pairs], pa.string()), "source": pa.array([p[1] for p in pairs], pa.string())}
    )


def _before(scans: Scans, earlier: Sequence[int]) -> pa.Table:
    return pq.read_table(scans.folder(earlier[-1]) / "links.parquet") if earlier else KEPT.empty_table()


def _scanned(scans: Scans, earlier: Sequence[int]) -> pa.Table:
    """Returns the websites that some earlier scan has read."""
    found = [read_sites(scans, number) for number in earlier]
    names = {
        row["site"] for table in found for row in table.select(["site", "status"]).to_pylist() if row["status"] == "ok"
    }
    return pa.table({"site": pa.array(sorted(names), pa.string())})


def read_sites(scans: Scans, number: int) -> pa.Table:
    return pq.read_table(scans.folder(number) / "sites.parquet")


def _sites(record: Record, facts: Mapping[str, Facts], changes: pa.Table) -> pa.Table:
    counts: dict[tuple[str, str], int] = {}
    for site, change in zip(changes["site"].to_pylist(), changes["change"].to_pylist(), strict=True):
        counts[site, change] = counts.get((site, change), 0) + 1
    rows = []
    for website in record.listed:
        one = facts[website.name]
        row = {name: getattr(one, name) for name in SITES.names if hasattr(one, name)}
        row |= {change: counts.get((one.site, change), 0) for change in ("appeared", "gone")}
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
