"""Closes a round: tables, index and commit, in the order that makes it all or nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.archive.cdxj import REVISIT, Capture, write_cdxj
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.tables import write_table
from gossamer.archive.warc import Location
from gossamer.columns import LINKS, NO_TEXT, PAGES, ROBOTS, VISITS, Contributions, Outcome
from gossamer.config import FIREWALL, Config
from gossamer.crawl.generate import pack_validators
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.owners import Owners
from gossamer.crawl.reader import FOLLOWED, FOREIGN, VERDICTS, Visit
from gossamer.crawl.round import Round, keep_best
from gossamer.crawl.update import VISIT, Links, RoundColumns, UpdateResult, Verdict, postpone, update
from gossamer.index.frontier import Frontier
from gossamer.index.pages import PageIndex, host_of_key
from gossamer.order.scores import Lesson, Scores
from gossamer.order.strategies import Strategy
from gossamer.own_rules import pages_by_host

_CAPPED = np.array([VERDICTS.index(verdict.name.lower()) for verdict in Verdict], np.uint8)


@dataclass
class Books:
    """What a round changes, together."""

    store: Store
    config: Config
    chain: Chain
    index: PageIndex
    frontier: Frontier
    ledger: Ledger
    strategy: Strategy
    scores: Scores | None = None


class Closed(NamedTuple):
    """What a round has come to."""

    changes: Changes
    links: Contributions  # of others
    new: int  # pages
    textless: NDArray[np.uint64]  # pages that others must tell us the URLs of


def close(books: Books, round_: Round, inbox: Contributions, owners: Owners, others: int, now_s: float) -> Closed:
    """Step 1 of the commit: everything of the round in synced files, and the index updated in memory. `others` are the
    pages that others know."""
    store = books.store
    source, targets, verdicts = round_.links()
    if books.config.crawl.links_per_page:
        merit = _merit(books, round_, source, targets)
        keep_best(source, merit, verdicts, books.config.crawl.links_per_page)
    if books.config.site.mode == FIREWALL:
        verdicts[(verdicts == FOLLOWED) & ~owners.is_native(targets)] = FOREIGN
    links = Links(source, targets, verdicts == FOLLOWED, round_.relevance())
    result = _update(books, round_, links, inbox, owners, others, now_s)
    refused = np.flatnonzero((verdicts == FOLLOWED) & (result.verdicts != Verdict.FOLLOWED))
    verdicts[refused] = _CAPPED[result.verdicts[refused]]
    if books.scores is not None:
        _teach(books, round_, result, Links(source, targets, verdicts == FOLLOWED), now_s)
    _write_visited(books.index, round_.visits)
    changes = round_.warc.close() if round_.warc else Changes()
    changes |= _write_tables(books, round_, result)
    if books.config.archive.links:
        changes |= _write_links(books, round_, source, targets, verdicts)
    changes |= books.index.flush(store, books.chain.label)
    changes |= books.frontier.flush(store, books.chain.label)
    return Closed(changes, result.outbox, len(result.new), result.textless)


def _teach(books: Books, round_: Round, result: UpdateResult, links: Links, now_s: float) -> None:
    """Scores follow from what the round found; pages whose scores changed get new ranks."""
    assert books.scores is not None
    visited = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
    lesson = Lesson(result.new.key, result.new.referrer, visited, links.source, links.target, links.followed)
    changed = books.scores.learn(lesson)
    if changed is None:
        books.frontier.rank_anew()
    elif len(changed):
        found, rows = books.index.pages.look_up(changed)
        books.frontier.offer(rows[found], now_s)


def _write_tables(books: Books, round_: Round, result: UpdateResult) -> Changes:
    store, agent, number, rows = books.store, books.chain.agent, round_.number, round_.columns()
    pages = [i for i, is_robots in enumerate(rows["is_robots"]) if not is_robots]
    cash = np.zeros(len(rows["key"]), np.int64)
    cash[pages] = result.passed
    changes = write_table(store, VISITS, agent, number, {**rows, "cash": cash, "round": number})
    changes |= write_cdxj(store, agent, number, _captures(rows))
    new = result.new
    pages_table = {
        "key": new.key,
        "url": new.url,
        "host": new.host,
        "domain": new.domain,
        "referrer": new.referrer,
        "round": number,
        "depth": new.depth,
    }
    changes |= write_table(store, PAGES, agent, number, pages_table)
    robots_table = {name: [row[name] for row in round_.robots] for name in ROBOTS.names}
    for name in ("time", "expires"):
        robots_table[name] = [moment.timestamp() for moment in robots_table[name]]
    return changes | write_table(store, ROBOTS, agent, number, robots_table)


def _captures(rows: dict[str, list[Any]]) -> Iterator[Capture]:
    names = (
        "url",
        "time",
        "content_type",
        "http_status",
        "digest",
        "warc",
        "warc_offset",
        "warc_bytes",
        "is_revisit",
    )
    for url, time_s, mime, status, digest, warc, offset, length, is_revisit in zip(
        *(rows[n] for n in names), strict=True
    ):
        if warc:
            yield Capture(url, time_s, REVISIT if is_revisit else mime, status, digest, Location(warc, offset, length))


def _write_links(
    books: Books,
    round_: Round,
    source: NDArray[np.int32],
    targets: NDArray[np.uint64],
    verdicts: NDArray[np.uint8],
) -> Changes:
    distinct, inverse = np.unique(targets, return_inverse=True)
    keys = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
    table = {
        "source": keys[source],
        "target": targets,
        "target_url": (inverse, [round_.urls[key] for key in distinct.tolist()]),
        "verdict": (verdicts, list(VERDICTS)),
        "round": round_.number,
    }
    return write_table(books.store, LINKS, books.chain.agent, round_.number, table)


def _update(
    books: Books, round_: Round, links: Links, inbox: Contributions, owners: Owners, others: int, now_s: float
) -> UpdateResult:
    rows = np.zeros(len(round_.visits), VISIT.numpy)
    for i, visit in enumerate(round_.visits):
        n = visit.next
        rows[i] = (visit.response.request.key, n.status, n.due_s, n.tries, n.policy)
    if round_.deferrals:
        keys = np.array([deferral.request.key for deferral in round_.deferrals], np.uint64)
        due_s = np.array([int(deferral.until_s) + 1 for deferral in round_.deferrals], np.uint32)
        postpone(books.index, books.frontier, keys, due_s)
    columns = RoundColumns(rows, links, round_.urls, inbox)
    return update(
        books.index,
        books.frontier,
        books.ledger,
        columns,
        limits=books.config.limits,
        strategy=books.strategy,
        is_own=owners.is_own,
        others=others,
        now_s=now_s,
        seed=books.config.crawl.seed,
        pages_by_host=pages_by_host(books.config),
    )


def _merit(books: Books, round_: Round, source: NDArray[np.int32], targets: NDArray[np.uint64]) -> NDArray[np.float64]:
    """How good a page's links are, by `crawl.link_metric`."""
    metric = books.config.crawl.link_metric
    if metric == "external":
        keys = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
        leaves: NDArray[np.bool_] = host_of_key(keys[source]) != host_of_key(targets)
        return leaves.astype(np.float64)
    if metric == "first":
        return np.zeros(len(targets))
    unique, inverse = np.unique(targets, return_inverse=True)
    found, rows = books.index.pages.look_up(unique)
    column = {"hits": "hits", "cash": "cash", "shallow": "depth"}[metric]
    merit = np.where(found, rows[column].astype(np.float64), 0.0)
    per_link: NDArray[np.float64] = (-merit if metric == "shallow" else merit)[inverse]
    return per_link


def _write_visited(index: PageIndex, visits: list[Visit]) -> None:
    """Digest, validators and counters of the pages that answered."""
    answered = [visit for visit in visits if visit.outcome in (Outcome.OK, Outcome.UNCHANGED)]
    if not answered:
        return
    answered.sort(key=lambda visit: visit.response.request.key)
    keys = np.fromiter((v.response.request.key for v in answered), np.uint64, len(answered))
    found, rows = index.visited.look_up(keys)
    rows["key"] = keys
    rows["validators"][~found] = NO_TEXT
    times = np.fromiter((int(v.response.started_s) for v in answered), np.uint32, len(answered))
    changed = np.fromiter((v.outcome is Outcome.OK for v in answered), bool, len(answered))
    rows["last_s"] = times
    rows["changed_s"] = np.where(changed, times, rows["changed_s"])
    rows["visits"] = np.minimum(rows["visits"].astype(np.int64) + 1, 0xFFFF)
    rows["changes"] = np.minimum(rows["changes"].astype(np.int64) + (changed & found), 0xFFFF)
    digests = np.fromiter((v.digest for v in answered), np.uint64, len(answered))
    rows["digest"] = np.where(changed, digests, rows["digest"])
    given = [i for i, v in enumerate(answered) if changed[i] and (v.etag or v.last_modified)]
    rows["validators"][changed] = NO_TEXT
    texts = [pack_validators(answered[i].etag, answered[i].last_modified) for i in given]
    rows["validators"][given] = index.heap.append(texts)
    index.visited.write(rows)
