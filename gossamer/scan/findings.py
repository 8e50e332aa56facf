"""This module reads the result of a website's scan from the archive of its crawl: the links that lead away, with their
texts, and figures.

It uses no SQL: most websites are small, and a database would take longer to open than all of them to read. Within a
scan a page is read once, so its links are those of its only version.

Beside its links it tells of every visited page whether it was read: a page that was not says nothing about its links.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gossamer.archive.contents import Contents
from gossamer.archive.labels import label_of
from gossamer.archive.reading import Reading
from gossamer.archive.state import replace
from gossamer.columns import Outcome
from gossamer.config import Config
from gossamer.fetch.politeness import capped_s
from gossamer.scan.records import Facts
from gossamer.scan.waiting import waited_s
from gossamer.scan.websites import Website, name_of
from gossamer.web.answer import Answer
from gossamer.web.html import parse_html
from gossamer.web.http import content_type
from gossamer.web.robots import Rules
from gossamer.web.sniff import is_html
from gossamer.web.url import host_of

LINKS = pa.schema(
    [
        ("site", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("target_site", pa.string()),
        ("anchor", pa.string()),
        ("seen", pa.timestamp("ms", tz="UTC")),
        ("page", pa.string()),  # of a row without target: READ, GONE, or why the source was not read
    ]
)
READ, GONE = "read", "gone"
IsOwn = Callable[[str], bool]  # whether a host is the website's
# Failures that may pass, and refusals: the content of the page before may still be true.
PASSING = tuple(
    outcome.name.lower()
    for outcome in (
        Outcome.SERVER_ERROR, Outcome.THROTTLED, Outcome.ROBOTS_UNREACHABLE, Outcome.DNS_FAILED,
        Outcome.CONNECT_FAILED, Outcome.TLS_FAILED, Outcome.TIMEOUT, Outcome.BROKEN, Outcome.FORBIDDEN,
    )
)  # fmt: skip
_READ = ("ok", "unchanged")
_BATCH = 500  # pages whose links' texts are read at a time
_VISIT = (
    "key", "url", "time", "round", "is_robots", "depth", "outcome", "reason", "location", "http_status", "address",
    "elapsed_s", "lookup_s", "connect_s", "wire_bytes", "warc", "warc_offset", "truncated", "links",
    "body_bytes",
)  # fmt: skip


def findings(
    at: Reading, website: Website, config: Config, first_round: int, begun_s: float, took_s: float
) -> tuple[pa.Table, Facts]:
    """Returns the links of a website whose visits are in `first_round` and later ones, and what became of it. Its scan,
    or the last run of it, has begun at `begun_s` and took `took_s`."""
    scope, at = config.crawl.scope, _since(at, first_round)
    site = Website.site(host_of(website.start), scope)

    def is_own(host: str) -> bool:
        return Website.site(host, scope) == site

    visits = _visits(at, is_own)
    facts = Facts(website.name, website.start, "ok", begun_s=begun_s, **_figures(visits))
    status, reason = ("ok", "") if facts.pages else _why_nothing(visits)
    pages = _latest(visits)
    links, read = _links(at, pages, website, config, scope), _states(pages, website, config)
    asked_s = _asked_s(at, config, is_own)
    delay_s = max(asked_s, config.polite.delay_s)
    facts = replace(
        facts,
        status=status,
        reason=reason,
        errors=len(pages.filter(pc.is_in(pages["outcome"], pa.array(PASSING)))),
        links=len(links),
        scan_s=took_s if first_round else took_s + _earlier_s(visits, begun_s, config),
        waited_s=_waited_s(visits, delay_s, config),
        delay_s=delay_s,
        asked_s=asked_s,
        unreached=reason or _unreached(read, facts.pages, took_s, config),
    )
    return pa.concat_tables([links, read]), facts


def _since(at: Reading, first_round: int) -> Reading:
    """Returns the reading without tables of earlier rounds."""
    if not first_round:
        return at

    def later(names: Sequence[str]) -> list[str]:
        return [name for name in names if (label := label_of(name)) is None or label.last >= first_round]

    kinds = ("visits", "links", "robots")
    found = {
        agent: replace(
            snapshot, files={**snapshot.files, **{kind: later(snapshot.files.get(kind, [])) for kind in kinds}}
        )
        for agent, snapshot in at.snapshots.items()
    }
    return dataclasses.replace(at, snapshots=found)


def _visits(at: Reading, is_own: IsOwn) -> pa.Table:
    """Returns all requests to a website, with plain strings instead of dictionaries."""
    tables = [_of_hosts(_table(path, (*_VISIT, "host")), is_own) for path in at.paths("visits")]
    if not tables:
        return pa.table({name: pa.array([], pa.string()) for name in _VISIT})
    return pa.concat_tables([table.cast(_plain(table.schema)) for table in tables])


def _of_hosts(table: pa.Table, is_own: IsOwn) -> pa.Table:
    own = [host for host in pc.unique(table["host"]).to_pylist() if is_own(host)]
    return table.filter(pc.is_in(table["host"], pa.array(own, pa.string())))


def _earlier_s(visits: pa.Table, begun_s: float, config: Config) -> float:
    """Returns how long earlier runs were busy. Within a run a website waits no longer for its next request than we are
    patient: a longer gap is between two runs."""
    times_s = np.sort(visits["time"].cast(pa.int64()).to_numpy() / 1e3) if len(visits) else np.zeros(0)
    gaps_s = np.diff(times_s[times_s < begun_s])
    return float(gaps_s[gaps_s <= config.crawl.patience_s + config.fetch.timeout_s].sum())


def _waited_s(visits: pa.Table, delay_s: float, config: Config) -> float:
    if not len(visits):
        return 0.0
    visits = visits.sort_by([("time", "ascending"), ("warc_offset", "ascending")])
    begun_s = visits["time"].cast(pa.int64()).to_numpy() / 1e3
    failed = pc.is_in(visits["outcome"], pa.array(PASSING)).to_numpy()
    most_s = config.crawl.patience_s + config.fetch.timeout_s
    ended_s = begun_s + visits["elapsed_s"].to_numpy()
    return waited_s(begun_s, ended_s, failed, visits["key"].to_pylist(), delay_s, most_s)


def _table(path: Path, columns: Sequence[str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(columns=list(columns), use_threads=False)  # which would cost more than such little files


def _plain(schema: pa.Schema) -> pa.Schema:
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def _figures(visits: pa.Table) -> dict[str, Any]:
    """Returns what `Facts` has of measured figures."""
    if not len(visits):
        return {}
    sent, took_s = (visits[name].to_numpy().astype(np.float64) for name in ("wire_bytes", "elapsed_s"))
    read = ~visits["is_robots"].to_numpy() & pc.is_in(visits["outcome"], pa.array(_READ)).to_numpy()
    response_s, byte_s = _line(sent[read], took_s[read]) or (float(took_s.mean()), 0.0)
    return {
        "pages": int(read.sum()),
        "requests": int(((visits["http_status"].to_numpy() > 0) | (took_s > 0)).sum()),
        "wire_bytes": int(sent.sum()),
        "lookup_s": float(visits["lookup_s"].to_numpy().mean()),
        "connect_s": float(visits["connect_s"].to_numpy().mean()),
        "response_s": response_s,
        "byte_s": byte_s,
        "mean_depth": float(visits["depth"].to_numpy()[read].mean()) if read.any() else 0.0,
        "address": min((address for address in visits["address"].to_pylist() if address), default=""),
    }


def _line(x: "np.ndarray[Any, Any]", y: "np.ndarray[Any, Any]") -> tuple[float, float] | None:
    """Returns the intercept and the slope of the least-squares line; None if no line is better than others."""
    if not len(x) or not (spread := float(x.var())):
        return None
    slope = float(((x - x.mean()) * (y - y.mean())).mean()) / spread
    return float(y.mean()) - slope * float(x.mean()), slope


def _why_nothing(visits: pa.Table) -> tuple[str, str]:
    if not len(visits):
        return "failed", "no page was visited"
    # Without an answer to robots.txt no page is visited: then that is what happened.
    order = [("is_robots", "ascending"), ("depth", "ascending"), ("time", "descending"), ("warc_offset", "descending")]
    (first,) = visits.take(pc.sort_indices(visits, order)[:1]).to_pylist()
    kinds = {"moved": "moved", "denied": "denied"}
    return kinds.get(first["outcome"], "failed" if first["http_status"] else "unreachable"), _why(first)


def _why(visit: dict[str, Any]) -> str:
    """Returns why a visit has not read its page, in words."""
    if visit["outcome"] == "moved":
        return f"it leads to {visit['location']}"
    if visit["outcome"] == "denied":
        return "robots.txt forbids it"
    answered = f"it answered {visit['http_status']}" if visit["http_status"] else ""
    return visit["reason"] or answered or str(visit["outcome"]).replace("_", " ")


def _states(pages: pa.Table, website: Website, config: Config) -> pa.Table:
    """Returns a row for each visited page, in order of its URL: whether it was read, is gone, or why neither is so."""
    names = ("url", "time", "outcome", "http_status", "reason", "location", "truncated", "links", "body_bytes")
    rows = pages.select(names).sort_by("url").to_pylist() if len(pages) else []
    states = [_state(row, config) for row in rows]
    found = {
        "site": [website.name] * len(rows),
        "source": [row["url"] for row in rows],
        "target": [""] * len(rows),
        "seen": [row["time"] for row in rows],
        "page": states,
    }
    return pa.table({name: found.get(name, [None] * len(rows)) for name in LINKS.names}, schema=LINKS)


def _state(visit: dict[str, Any], config: Config) -> str:
    if visit["outcome"] == "gone":
        return GONE
    if visit["outcome"] not in _READ or visit["reason"]:
        return _why(visit)
    if visit["truncated"] or visit["body_bytes"] > config.fetch.parse_bytes:
        return f"it was read in part ({visit['truncated'] or 'length'})"
    return READ if visit["links"] < config.limits.links else f"only {config.limits.links} of its links were read"


def _unreached(read: pa.Table, pages: int, took_s: float, config: Config) -> str:
    """Returns why a page that an earlier scan knew was not visited by this one."""
    if config.crawl.minutes and took_s >= 60 * config.crawl.minutes:
        return "not visited: crawl.minutes ended the scan of its website"
    if config.crawl.pages and pages >= config.crawl.pages:
        return "not visited: crawl.pages ended the scan of its website"
    if unread := sum(state not in (READ, GONE) for state in read["page"].to_pylist()):
        return f"not visited: pages that were not read ({unread}) may lead to it"
    return "not visited: no page that was read leads to it within the depth"


def _latest(visits: pa.Table) -> pa.Table:
    """Returns the last visit of each page."""
    if not len(visits):
        return visits
    pages = visits.filter(pc.invert(visits["is_robots"]))
    order = [(name, "ascending") for name in ("key", "time", "round", "warc_offset")]
    pages = pages.take(pc.sort_indices(pages, order))
    key = pages["key"].to_numpy()
    return pages.filter(pa.array(np.append(key[1:] != key[:-1], True)[: len(key)]))


def _asked_s(at: Reading, config: Config, is_own: IsOwn) -> float:
    """Returns the crawl-delay that robots.txt asks for, as far as we obey it."""
    agent = config.fetch.agent_name
    rows = [row for path in at.paths("robots") for row in _robots(path, is_own)]
    rules = [Rules.parse(row["body"], agent) for row in rows if row["verdict"] == "rules"]
    return max([0.0, *(capped_s(config.polite, each.crawl_delay_s) for each in rules)])


def _robots(path: Path, is_own: IsOwn) -> list[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        origins = file.read(columns=["origin"], use_threads=False)["origin"].to_pylist()
        own = [row for row, origin in enumerate(origins) if is_own(host_of(f"{origin}/"))]
        return file.read(columns=["verdict", "body"], use_threads=False).take(own).to_pylist() if own else []


def _links(at: Reading, pages: pa.Table, website: Website, config: Config, scope: str) -> pa.Table:
    """Returns the links to other websites, one row per page and target, with the text that a reader clicks on."""
    place = {key: row for row, key in enumerate(pages["key"].to_pylist())}
    url, warc, offset, seen = (pages[name].to_pylist() for name in ("url", "warc", "warc_offset", "time"))
    away = {(place[source], target, site) for source, target, site in _away(at, website, scope) if source in place}
    texts = _anchors(at, {url[row]: (warc[row], offset[row]) for row in {row for row, *_ in away} if warc[row]}, config)
    found = sorted((url[row], target, site, row) for row, target, site in away)
    columns = [
        [website.name] * len(found),
        [source for source, *_ in found],
        [target for _, target, *_ in found],
        [site for *_, site, _ in found],
        [texts.get(source, {}).get(target, "") for source, target, *_ in found],
        [seen[row] for *_, row in found],
        [None] * len(found),
    ]
    return pa.table(dict(zip(LINKS.names, columns, strict=True)), schema=LINKS)


def _away(at: Reading, website: Website, scope: str) -> Iterator[tuple[int, str, str]]:
    """Yields source, target and the target's website. Most links stay within the website: those cost no Python each."""
    sites: dict[str, str] = {}  # by host and port
    for path in at.paths("links"):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["source", "target_url"]):
                targets = batch.column("target_url")
                urls = targets.dictionary.to_pylist()
                names = [_site(url, sites, scope) for url in urls]
                leads_away = np.array([name not in ("", website.name) for name in names], np.bool_)
                place = targets.indices.to_numpy()
                rows = np.flatnonzero(leads_away[place]) if len(urls) else np.array([], np.int64)
                sources = batch.column("source").to_numpy()[rows]
                for source, i in zip(sources.tolist(), place[rows].tolist(), strict=True):
                    yield source, urls[i], names[i]


def _site(url: str, known: dict[str, str], scope: str) -> str:
    netloc = url.partition("://")[2].partition("/")[0]
    if netloc not in known:
        known[netloc] = name_of(f"http://{netloc}/", scope) if netloc else ""
    return known[netloc]


def _anchors(at: Reading, pages: dict[str, tuple[str, int]], config: Config) -> dict[str, dict[str, str]]:
    """Returns texts by page and target. The links table has none: pages with links away are read again from the
    archive."""
    urls = list(pages)
    found: dict[str, dict[str, str]] = {}
    with closing(Contents(at)) as contents:
        for first in range(0, len(urls), _BATCH):
            some = urls[first : first + _BATCH]

            def read(i: int, answer: Answer, some: list[str] = some) -> None:
                mime, declared = content_type(answer.headers)
                if is_html(answer.body, mime):
                    body = answer.body[: config.fetch.parse_bytes]
                    document = parse_html(body, some[i], declared, max_links=config.limits.links, anchors=True)
                    found[some[i]] = document.anchors

            contents.each([pages[url] for url in some], read)
    return found
