"""This module asks a crawl's archive what a quality report shows: coverage, structure, errors, politeness, carbon.

Each `Part` of the report is a query and a shape. All of them see the same commit.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb

from gossamer.archive.query import with_database
from gossamer.archive.reading import Where
from gossamer.crawl.stats import CALM

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """`Part` is one card of the report. The first column of a chart names what the second counts."""

    title: str
    shape: str  # bars, columns, curve, table, trouble
    sql: str
    note: str = ""
    empty: str = "nothing to show"
    is_wide: bool = False
    columns: Sequence[str] = ()  # of a table: how their values are written, as `quality_page` knows it


_PAGE = "kind IS DISTINCT FROM 'requisite'"  # requisites are no pages (docs/media.md); they have a line at the end
_VISIT = f"NOT is_robots AND {_PAGE}"
_TROUBLE = f"outcome NOT IN {CALM}"

TOTALS = f"""
    WITH own AS (SELECT * FROM pages WHERE {_PAGE})
    SELECT (SELECT count(*) FROM own) AS known, (SELECT count(*) FROM own WHERE visits > 0) AS visited,
        (SELECT count(*) FROM own WHERE status = 'fetched') AS fetched,
        (SELECT count(*) FROM own WHERE status = 'gone') AS gone, (SELECT count(DISTINCT host) FROM own) AS hosts,
        count(*) FILTER ({_VISIT}) AS visits, coalesce(sum(wire_bytes), 0) AS wire_bytes,
        count(*) FILTER ({_VISIT} AND {_TROUBLE}) AS trouble,
        epoch(min(time)) AS first_s, epoch(max(time)) AS last_s, coalesce(sum(energy_j), 0) AS energy_j,
        coalesce(sum(carbon_g), 0) AS carbon_g,
        count(DISTINCT digest) FILTER (outcome = 'ok' AND NOT is_robots) AS contents,
        count(*) FILTER (outcome = 'ok' AND NOT is_robots) AS contents_fetched,
        (SELECT count(*) FROM links) AS links
    FROM visits"""

PARTS = (
    Part(
        "What became of the pages",
        "bars",
        f"SELECT status, count(*) AS pages FROM pages WHERE {_PAGE} GROUP BY status ORDER BY pages DESC, status",
        "new: known, and not visited yet. denied: robots.txt forbids it. refused: by address, type or purpose.",
    ),
    Part(
        "How deep they are",
        "columns",
        f"""SELECT depth, count(*) AS pages, count(*) FILTER (visits > 0) AS visited FROM pages WHERE {_PAGE}
        GROUP BY depth ORDER BY depth LIMIT 40""",
        "links from a seed; the darker part has been visited",
    ),
    Part(
        "Pages over time",
        "curve",
        f"""WITH span AS (
            SELECT min(epoch(time)) AS first, greatest((max(epoch(time)) - min(epoch(time))) / 120, 1) AS slot_s
            FROM visits WHERE {_VISIT}
        ), counted AS (
            SELECT floor((epoch(time) - first) / slot_s)::BIGINT AS slot, count(*) AS visits
            FROM visits, span WHERE {_VISIT} GROUP BY slot
        ), slots AS (SELECT unnest(range(max(slot) + 1)) AS slot FROM counted)
        SELECT first + slot * slot_s AS time_s, coalesce(visits, 0) / slot_s AS pages
        FROM slots LEFT JOIN counted USING (slot), span ORDER BY slot""",
        "visits per second",
        is_wide=True,
    ),
    Part(
        "Types of content",
        "bars",
        """SELECT content_type, count(*) AS pages FROM pages WHERE status = 'fetched' AND content_type <> ''
        GROUP BY content_type ORDER BY pages DESC, content_type LIMIT 8""",
    ),
    Part(
        "Languages",
        "bars",
        """SELECT lower(split_part(language, '-', 1)) AS declared, count(*) AS pages FROM pages
        WHERE status = 'fetched' AND language <> '' GROUP BY declared ORDER BY pages DESC, declared LIMIT 8""",
        "as pages declare them",
        "no page declares one",
    ),
    Part(
        "Hosts",
        "table",
        """SELECT host, pages AS known, visited, 100.0 * visited / nullif(pages, 0) AS visited_share, errors,
            wire_bytes AS bytes, mean_elapsed_s AS seconds FROM hosts ORDER BY pages DESC, host LIMIT 20""",
        "those with the most pages; seconds are the mean of an exchange",
        is_wide=True,
        columns=("text", "count", "count", "percent", "count", "size", "seconds"),
    ),
    Part(
        "What went wrong",
        "trouble",
        f"""SELECT outcome, count(*) AS visits, count(DISTINCT host) AS hosts, mode(nullif(reason, '')) AS reason,
            min(url) AS example FROM visits WHERE {_VISIT} AND {_TROUBLE}
        GROUP BY outcome ORDER BY visits DESC, outcome LIMIT 12""",
        empty="nothing did",
        is_wide=True,
    ),
    Part(
        "Functions",
        "table",
        """WITH made AS (SELECT function, count(*) AS items, count(DISTINCT key) AS pages FROM items GROUP BY function),
        failed AS (SELECT function, count(*) AS errors, arg_min(error, time) AS first FROM function_errors
            GROUP BY function)
        SELECT function, coalesce(items, 0) AS items, coalesce(pages, 0) AS pages, coalesce(errors, 0) AS errors,
            left(coalesce(first, ''), 200) AS first_error
        FROM made FULL JOIN failed USING (function) ORDER BY errors DESC, function LIMIT 20""",
        "what your code found, and where it failed; the table `function_errors` has the tracebacks",
        "none was given, or none has found anything",
        is_wide=True,
        columns=("text", "count", "count", "count", "text"),
    ),
    Part(
        "Links that were not followed",
        "table",
        """SELECT verdict, count(*) AS links, count(DISTINCT target) AS addresses, min(target_url) AS example
        FROM links WHERE verdict <> 'followed' GROUP BY verdict ORDER BY links DESC, verdict""",
        "why, and an example; `gossamer status` names the setting that decides",
        "all links were followed, or none are kept (archive.links)",
        is_wide=True,
        columns=("word", "count", "count", "text"),
    ),
    Part(
        "How many links lead to a page",
        "columns",
        """WITH counted AS (
            SELECT floor(log2(hits))::BIGINT AS power, count(*) AS targets FROM targets WHERE hits > 0 GROUP BY power
        ), powers AS (SELECT unnest(range(max(power) + 1)) AS power FROM counted)
        SELECT CASE power WHEN 0 THEN '1' ELSE (2 ** power)::BIGINT || '+' END AS links_to_it,
            coalesce(targets, 0) AS targets FROM powers LEFT JOIN counted USING (power) ORDER BY power""",
        "addresses by the number of pages that link to them, each column twice as many as the one before",
        "no links are kept (archive.links)",
    ),
    Part(
        "Most linked",
        "table",
        "SELECT url, hits AS links FROM targets ORDER BY hits DESC, url LIMIT 10",
        "by pages in their current versions",
        "no links are kept (archive.links)",
        columns=("text", "count"),
    ),
    Part(
        "Between hosts",
        "table",
        """SELECT s.host AS from_host, split_part(split_part(target_url, '://', 2), '/', 1) AS to_host,
            count(*) AS links
        FROM links JOIN pages s ON s.key = links.source WHERE to_host <> s.host
        GROUP BY ALL ORDER BY links DESC, from_host, to_host LIMIT 10""",
        "the pairs with the most links",
        "no link leads to another host, or none are kept (archive.links)",
        columns=("text", "text", "count"),
    ),
    Part(
        "Politeness",
        "columns",
        """WITH gaps AS (
            SELECT host, epoch(time) - lag(epoch(time)) OVER (PARTITION BY host ORDER BY time) AS gap_s
            FROM visits WHERE outcome NOT IN ('denied', 'refused_address', 'no_name', 'dns_failed')
                AND NOT (outcome = 'refused_use' AND http_status = 0)
        ), least_of AS (SELECT host, min(gap_s) AS gap_s FROM gaps WHERE gap_s IS NOT NULL GROUP BY host),
        named AS (
            SELECT CASE WHEN gap_s < 0.1 THEN 0 WHEN gap_s < 0.5 THEN 1 WHEN gap_s < 1 THEN 2 WHEN gap_s < 2 THEN 3
                WHEN gap_s < 5 THEN 4 WHEN gap_s < 10 THEN 5 ELSE 6 END AS place FROM least_of
        )
        SELECT ['<0.1 s', '<0.5 s', '<1 s', '<2 s', '<5 s', '<10 s', '10 s+'][place + 1] AS pause, count(*) AS hosts
        FROM named GROUP BY place ORDER BY place""",
        "hosts by the shortest time between the beginnings of two requests to them, robots.txt included",
        "no host was asked twice",
    ),
    Part(
        "robots.txt",
        "bars",
        """SELECT CASE verdict WHEN 'rules' THEN 'has rules' WHEN 'allow_all' THEN 'none: all is allowed'
            ELSE 'unreachable: nothing is allowed' END AS found, count(DISTINCT origin) AS origins
        FROM robots GROUP BY found ORDER BY origins DESC""",
        empty="none was read",
    ),
    Part(
        "Energy and carbon",
        "table",
        """SELECT coalesce(nullif(country, ''), 'unknown') AS place, count(*) AS requests, sum(wire_bytes) AS bytes,
            sum(energy_j) AS energy, sum(carbon_g) AS carbon FROM visits GROUP BY place
        HAVING sum(energy_j) > 0 ORDER BY carbon DESC, place LIMIT 12""",
        "of moving the bytes, by where hosts are: an estimate (docs/green.md)",
        "no estimate was made",
        columns=("word", "count", "size", "joules", "grams"),
    ),
    Part(
        "Quality of what is stored",
        "table",
        f"""SELECT * FROM (
            SELECT 'the body is not whole: ' || truncated AS finding, count(*) AS pages, min(url) AS example
            FROM pages WHERE truncated <> '' AND status = 'fetched' GROUP BY truncated
            UNION ALL SELECT 'the same content as another page', count(*), min(url) FROM (
                SELECT url, row_number() OVER (PARTITION BY digest ORDER BY version_time, key) AS copy
                FROM pages WHERE status = 'fetched' AND digest <> '') WHERE copy > 1
            UNION ALL SELECT 'no title, though it is HTML', count(*), min(url) FROM pages
                WHERE status = 'fetched' AND content_type = 'text/html' AND coalesce(title, '') = ''
            UNION ALL SELECT 'not fetched, though a page needs it to be shown', count(*), min(url) FROM pages
                WHERE kind = 'requisite' AND visits > 0 AND {_TROUBLE}
            UNION ALL SELECT 'asks not to be indexed', count(*), min(url) FROM pages WHERE noindex
            UNION ALL SELECT 'another address is called canonical', count(*), min(url) FROM pages
                WHERE coalesce(canonical, '') NOT IN ('', url) AND status = 'fetched'
        ) WHERE pages > 0 ORDER BY pages DESC, finding""",
        empty="nothing is remarkable",
        is_wide=True,
        columns=("word", "count", "text"),
    ),
)


@dataclass(frozen=True)
class Answer:
    """`Answer` has the rows of one part, and the names of their columns."""

    part: Part
    names: Sequence[str]
    rows: Sequence[Row]


def examined(where: Where) -> tuple[Mapping[str, Any], list[Answer]]:
    """Returns the totals, and the answers of all parts."""

    def work(database: duckdb.DuckDBPyConnection) -> tuple[Mapping[str, Any], list[Answer]]:
        totals = _asked(database, TOTALS)
        found = [Answer(part, *_asked(database, part.sql)) for part in PARTS]
        return dict(zip(totals[0], totals[1][0], strict=True)), found

    return with_database(where, work)


def _asked(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[Row]]:
    with closing(database.cursor()) as cursor:
        cursor.execute(sql)
        return [name for name, *_ in cursor.description or ()], cursor.fetchall()
