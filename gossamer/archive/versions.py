"""This module lists the versions of one page: of all its visits, those that brought something new."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from gossamer.archive import query
from gossamer.archive.reading import Where
from gossamer.errors import QueryError
from gossamer.web.url import earlier_form, normalise, page_key

# A version lasts until a visit finds something else. Passing failures and refusals do not end it. We never ask
# whether a robots.txt has changed: it is the same if it has the same digest.
_VERSIONS = """
    WITH informative AS (
        SELECT *, outcome <> 'unchanged' AND NOT (is_robots AND coalesce(digest = lag(digest) OVER past, false)) AS news
        FROM visits WHERE key = ?::UBIGINT AND status NOT IN ('failed', 'forbidden')
        WINDOW past AS (ORDER BY time, round, warc_offset)
    ), numbered AS (
        SELECT *, sum(news::INT) OVER (ORDER BY time, round, warc_offset)::INT AS version FROM informative
    )
    SELECT version, time, max(time) OVER same AS last_visit, count(*) OVER same AS visits, outcome, http_status,
        content_type, wire_bytes, title, location, digest, warc, warc_offset
    FROM numbered WINDOW same AS (PARTITION BY version)
    QUALIFY row_number() OVER (PARTITION BY version ORDER BY time, round, warc_offset) = 1 ORDER BY version"""


def versions(where: Where, url: str) -> list[dict[str, Any]]:
    """Returns the versions, oldest first; times are UTC."""
    normal = normalise(url)
    if normal is None:
        raise QueryError(f"{url!r} is not a web address; write it like https://example.org/")

    def asked(database: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for form in dict.fromkeys((normal, earlier_form(normal))):
            cursor = database.execute(_VERSIONS, [page_key(form)])
            names = [column[0] for column in cursor.description or ()]
            rows = rows or [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return rows

    rows = query.with_database(where, asked)
    if not rows:
        raise QueryError(f'{normal} was never visited; gossamer query DIR "SELECT url FROM pages" lists what is known')
    return rows


def version(where: Where, url: str, at: datetime | None = None) -> dict[str, Any]:
    """Returns the version of a time; without a time, the last one with content."""
    rows = [row for row in versions(where, url) if at is None or row["time"] <= at]
    if not rows:
        raise QueryError(f"{url} had not been visited by {at}; `gossamer versions` lists its visits")
    if at is not None:
        return rows[-1]
    return next((row for row in reversed(rows) if row["outcome"] == "ok"), rows[-1])


def content(where: Where, row: dict[str, Any], as_text: bool = False) -> bytes:
    """Returns the body of a version as it was served, codings undone; or its text without markup."""
    if not row["warc"]:
        raise QueryError(f"nothing is stored of that visit: {row['outcome']} (status {row['http_status']})")
    with closing(query.open_database(where)) as database:
        sql = f"SELECT {'text' if as_text else 'body'}(?, ?)"
        ((found,),) = database.execute(sql, [row["warc"], row["warc_offset"]]).fetchall()
    return found.encode() if isinstance(found, str) else found or b""


def moment(text: str) -> datetime:
    """Parses a time that people write: 2026-11-16 (its end), 2026-11-16T08:30, with or without a zone (then UTC)."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{text!r} is no time; write it like 2026-11-16 or 2026-11-16T08:30:00 (UTC)") from None
    if len(text) == len("2026-11-16"):
        found += timedelta(days=1)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
