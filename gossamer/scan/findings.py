"""Reads from a website's archive what a scan is for: the links that lead away, with their texts, and figures."""

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa

from gossamer.archive import query
from gossamer.archive.contents import Answer, Contents
from gossamer.archive.reading import Reading
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.steps import capped_s
from gossamer.scan.websites import Website, name_of
from gossamer.web.html import parse_html
from gossamer.web.http import content_type
from gossamer.web.robots import Rules

LINKS = pa.schema(
    [
        ("site", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("target_site", pa.string()),
        ("anchor", pa.string()),
        ("seen", pa.timestamp("ms", tz="UTC")),
    ]
)
# Failures that may pass: what the page said before may still be true.
PASSING = tuple(
    outcome.name.lower()
    for outcome in (
        Outcome.SERVER_ERROR, Outcome.THROTTLED, Outcome.ROBOTS_UNREACHABLE, Outcome.DNS_FAILED,
        Outcome.CONNECT_FAILED, Outcome.TLS_FAILED, Outcome.TIMEOUT, Outcome.BROKEN,
    )
)  # fmt: skip
_BATCH = 500  # pages whose links' texts are read at a time
_READ = "NOT is_robots AND outcome IN ('ok', 'unchanged')"
_FIGURES = f"""SELECT count(*) FILTER ({_READ}) AS pages,
    count(*) FILTER (http_status > 0 OR elapsed_s > 0) AS requests,
    coalesce(sum(wire_bytes), 0)::BIGINT AS wire_bytes,
    coalesce(regr_intercept(elapsed_s, wire_bytes) FILTER ({_READ}), avg(elapsed_s), 0.0)::DOUBLE AS response_s,
    coalesce(regr_slope(elapsed_s, wire_bytes) FILTER ({_READ}), 0.0)::DOUBLE AS byte_s,
    coalesce(avg(depth) FILTER ({_READ}), 0.0)::DOUBLE AS mean_depth,
    coalesce(min(address) FILTER (address <> ''), '') AS address FROM visits"""
_UNREAD = f"SELECT url FROM pages WHERE outcome IN ({', '.join(map(repr, PASSING))}) ORDER BY url"
# Without an answer to robots.txt no page is visited: then that is what happened.
_START = """SELECT outcome, reason, location, http_status FROM visits
    ORDER BY is_robots, depth, time DESC, warc_offset DESC LIMIT 1"""
_ROBOTS = "SELECT body FROM robots WHERE verdict = 'rules' ORDER BY time, origin"
_NETLOC = "regexp_extract(target_url, '^[a-z]+://([^/?#]+)', 1)"
_AWAY = f"""SELECT DISTINCT p.url, l.target_url, {_NETLOC} AS netloc, p.warc, p.warc_offset, epoch_ms(p.last_visit)
    FROM links l JOIN pages p ON p.key = l.source
    WHERE {_NETLOC} IN (SELECT unnest(?::VARCHAR[])) ORDER BY p.url, l.target_url"""


@dataclass(frozen=True)
class Findings:
    links: pa.Table
    status: str
    reason: str
    asked_s: float
    unread: list[str]
    busy_s: float  # of the crawl, runs before an interruption included
    figures: dict[str, Any]


def findings(at: Reading, website: Website, config: Config, scope: str) -> Findings:
    with closing(query.open_reading(at)) as database:
        names = ("pages", "requests", "wire_bytes", "response_s", "byte_s", "mean_depth", "address")
        figures = dict(zip(names, database.execute(_FIGURES).fetchall()[0], strict=True))
        status, reason = ("ok", "") if figures["pages"] else _why_nothing(database)
        return Findings(
            _links(database, at, website, config, scope),
            status,
            reason,
            _asked_s(database, config),
            [url for (url,) in database.execute(_UNREAD).fetchall()],
            sum(float(snapshot.state.get("busy_s", 0.0)) for snapshot in at.snapshots.values()),
            figures,
        )


def _why_nothing(database: duckdb.DuckDBPyConnection) -> tuple[str, str]:
    rows = database.execute(_START).fetchall()
    if not rows:
        return "failed", "no page was visited"
    outcome, reason, location, http_status = rows[0]
    if outcome == "moved":
        return "moved", f"it leads to {location}"
    if outcome == "denied":
        return "denied", "robots.txt forbids it"
    answered = f"it answered {http_status}" if http_status else ""
    return "failed" if http_status else "unreachable", reason or answered or outcome.replace("_", " ")


def _asked_s(database: duckdb.DuckDBPyConnection, config: Config) -> float:
    """The crawl-delay that robots.txt asks for, as far as we obey it."""
    agent = config.fetch.agent_name
    bodies = [body for (body,) in database.execute(_ROBOTS).fetchall()]
    return max([0.0, *(capped_s(config.polite, Rules.parse(b, agent).crawl_delay_s) for b in bodies)])


def _links(database: duckdb.DuckDBPyConnection, at: Reading, website: Website, config: Config, scope: str) -> pa.Table:
    """Links to other websites, one row per page and target, with what a reader clicks on."""
    netlocs = database.execute(f"SELECT DISTINCT {_NETLOC} FROM links ORDER BY 1").fetchall()
    sites = {netloc: name_of(f"http://{netloc}/", scope) for (netloc,) in netlocs if netloc}
    away = [netloc for netloc, site in sites.items() if site != website.name]
    rows = database.execute(_AWAY, [away]).fetchall()
    texts = _anchors(at, {url: (warc, offset) for url, _, _, warc, offset, _ in rows if warc}, config)
    columns = [
        [website.name] * len(rows),
        [row[0] for row in rows],
        [row[1] for row in rows],
        [sites[row[2]] for row in rows],
        [texts.get(row[0], {}).get(row[1], "") for row in rows],
        [datetime.fromtimestamp(row[5] / 1000, UTC) for row in rows],
    ]
    return pa.table(dict(zip(LINKS.names, columns, strict=True)), schema=LINKS)


def _anchors(at: Reading, pages: dict[str, tuple[str, int]], config: Config) -> dict[str, dict[str, str]]:
    """Texts by page and target. The links table has none, so pages with links away are read again, from the archive."""
    urls = list(pages)
    found: dict[str, dict[str, str]] = {}
    with closing(Contents(at)) as contents:
        for first in range(0, len(urls), _BATCH):
            some = urls[first : first + _BATCH]

            def read(i: int, answer: Answer, some: list[str] = some) -> None:
                mime, declared = content_type(answer.headers)
                if "html" in mime or not mime:
                    body = answer.body[: config.fetch.parse_bytes]
                    document = parse_html(body, some[i], declared, max_links=config.limits.links, anchors=True)
                    found[some[i]] = document.anchors

            contents.each([pages[url] for url in some], read)
    return found
