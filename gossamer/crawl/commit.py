"""This module closes a round: it writes the tables and the index that `Chain.commit` then names."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from gossamer.archive.cdxj import REVISIT, Capture, write_cdxj
from gossamer.archive.manifest import Changes
from gossamer.archive.tables import write_table
from gossamer.archive.warc import Location
from gossamer.arrays import F64, I32, U8, U32, U64, AnyKeys, Bools, Rows
from gossamer.columns import ACCOUNT, DEPTHS, LINKS, NEVER, PAGES, ROBOTS, SIGNALS, VISITS, Contributions, Outcome
from gossamer.config import FIREWALL, Config, Limits
from gossamer.config.host_overrides import pages_by_host
from gossamer.crawl import onward
from gossamer.crawl.opening import Books
from gossamer.crawl.reader import DEPTH, FOLLOWED, FOREIGN, LATER, PATTERN, SCOPE, VERDICTS
from gossamer.crawl.refusals import BY_LIMITS, TOO_DEEP, Judge, Revived, counted, counted_alike, revive, too_deep
from gossamer.crawl.round import Needed, Round, keep_best
from gossamer.crawl.update import (
    VISIT,
    Admission,
    CashUse,
    Links,
    NewPages,
    RoundColumns,
    UpdateResult,
    has_links,
    update,
)
from gossamer.crawl.visit_history import History
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.scores import Lesson
from gossamer.frontier.sorted_runs import union
from gossamer.frontier.targets import added_up
from gossamer.geography import countries
from gossamer.web.links import KINDS
from gossamer.web.posts import url_of
from gossamer.web.url import host_of

Apply = Callable[[RoundColumns], UpdateResult]

_OK = Outcome.OK.name.lower()
_CAPPED = np.array([VERDICTS.index(verdict.name.lower().partition("_")[0]) for verdict in Admission], np.uint8)


class Whose(Protocol):
    """`Whose` decides by their keys which pages belong to whom."""

    def is_own(self, keys: AnyKeys, /) -> Bools:
        """Returns which pages we may have in our index."""

    def is_native(self, keys: AnyKeys, /) -> Bools:
        """Returns which pages nobody else visits."""


class Closed(NamedTuple):
    """`Closed` is the result of a closed round."""

    changes: Changes
    links: Contributions  # to pages of other agents
    new: int  # pages
    textless: U64  # pages whose URLs other agents must send us
    visits: dict[str, Any]  # the round's rows of the VISITS table
    revived: int = 0  # links refused before that are followed, as settings or rules are other than they were
    is_judged: bool = True  # by what holds now, whole: else the next commit has more to revive


def close(
    books: Books,
    round_: Round,
    inbox: Contributions,
    whose: Whose,
    others: int,
    now_s: float,
    has_other_rules: bool = False,
    judge: Judge | None = None,
) -> Closed:
    """Takes step 1 of the commit: writes everything of the round to synced files, and updates the index in memory.
    `others` is the number of pages that other agents know. When websites have other rules than before, links that were
    refused as too deep are judged again; with `judge`, so are those that scope or patterns refused."""
    store = books.store
    source, targets, verdicts = round_.links()
    if books.config.crawl.links_per_page:
        merit = _merit(books, round_, source, targets)
        keep_best(source, merit, verdicts, books.config.crawl.links_per_page)
    if books.config.site.mode == FIREWALL:
        verdicts[(verdicts == FOLLOWED) & ~whose.is_native(targets)] = FOREIGN
    needed = round_.needed()
    if books.config.site.mode == FIREWALL:
        needed.verdicts[(needed.verdicts == FOLLOWED) & ~whose.is_native(needed.targets)] = FOREIGN
    history = History.of(books.index, round_.visits)
    level = round_.is_level()
    found = Links(source, targets, verdicts == FOLLOWED, round_.relevance(), is_level=level, priority=round_.priority())
    links, lost = history.joined(found)

    def apply(columns: RoundColumns) -> UpdateResult:
        return _apply(books, columns, whose, others, now_s)

    rows = round_.columns()
    _learn_of_hosts(books, rows)
    revived = _revived(books, round_, source, targets, verdicts, whose, judge)
    result = _update(
        books, round_, links, Contributions.joined([inbox, lost, revived.rows, round_.mentions(needed)]), apply
    )
    refused = np.flatnonzero((verdicts == FOLLOWED) & (result.verdicts[: len(verdicts)] != Admission.FOLLOWED))
    verdicts[refused] = _CAPPED[result.verdicts[refused]]
    of_index = np.zeros(len(verdicts), np.uint8)
    of_index[refused] = result.verdicts[refused]
    links = Links(source, targets, verdicts == FOLLOWED, is_level=level)
    wire_bytes = np.array(rows["wire_bytes"], np.int64)[~np.array(rows["is_robots"], np.bool_)]
    history.write(books.index, links, wire_bytes, result.passed, books.refresher)
    _note_onward(books, round_, links, verdicts)
    are_limits_new = has_other_rules or _are_limits_new(books)
    result, again = _judge_again(books, round_, result, apply, are_limits_new)
    round_.refused = _refused(books, round_, targets, verdicts, of_index, again)
    round_.refused.subtract(counted_alike(revived.verdicts))
    again = _with_revived(again, revived.rows)
    if books.scores is not None:
        _teach(books, round_, result, links, now_s)
    changes = round_.warc.close() if round_.warc else Changes()
    rows |= _account(books, round_, rows, now_s)
    changes |= _write_tables(books, round_, rows, result)
    changes |= _write_depths(books, round_, [result.nearer, *again.nearer])
    if books.config.archive.links:
        changes |= _write_links(books, round_, source, targets, verdicts, needed, again)
    changes |= books.index.flush(store, books.chain.label)
    changes |= books.frontier.flush(store, books.chain.label)
    count = len(again.url) if are_limits_new or judge else 0
    return Closed(changes, result.outbox, len(result.new), result.textless, rows, count, revived.is_complete)


def _revived(
    books: Books, round_: Round, source: I32, targets: U64, verdicts: U8, whose: Whose, judge: Judge | None
) -> Revived:
    if judge is None:
        return Revived.none()
    keys = np.fromiter((visit.response.request.key for visit in round_.visits), np.uint64, len(round_.visits))
    at = np.flatnonzero(np.isin(verdicts, (SCOPE, PATTERN)))
    urls = [round_.urls[key] for key in targets[at].tolist()]
    return revive(books, judge, whose.is_native, (keys[source[at]], targets[at], verdicts[at], urls))


def _with_revived(again: onward.Judged, rows: Contributions) -> onward.Judged:
    if not len(rows.key):
        return again
    source, target = np.concatenate((again.source, rows.referrer)), np.concatenate((again.target, rows.key))
    return again._replace(source=source, target=target, url=[*again.url, *rows.url])


def _account(books: Books, round_: Round, rows: dict[str, Any], now_s: float) -> dict[str, Any]:
    """Returns where the visits went and what they cost. The columns are NULL if nobody asked: SQL computes what follows
    from the rest of a row (archive/views.py)."""
    if books.carbon is None:
        unknown = [None] * len(rows["address"])
        return {**dict.fromkeys(ACCOUNT, unknown), "country": countries(rows["address"]).tolist()}
    columns = books.carbon.account(rows, round_.visits, max(rows["time"], default=now_s), books.frontier.taken)
    round_.cost = books.carbon.totals(columns)
    return columns


def _refused(
    books: Books, round_: Round, targets: U64, verdicts: U8, of_index: U8, again: onward.Judged
) -> Counter[str]:
    """Returns how many more links each setting has refused than before."""
    limits, places = books.config.limits, np.flatnonzero(BY_LIMITS[verdicts])
    urls = (round_.urls[key] for key in targets[places].tolist())
    found = counted(zip(verdicts[places].tolist(), of_index[places].tolist(), urls, strict=True), limits)
    found += counted_alike(verdicts)
    if not _are_limits_new(books):
        found.subtract(too_deep(again.url, limits))
        return found
    left, before = too_deep(onward.refused(books.index), limits), books.chain.state.counters.refused
    return Counter({**found, **{name: left[name] - before.get(name, 0) for name in TOO_DEEP}})


def _are_limits_new(books: Books) -> bool:
    """Returns whether the allowed depth has changed since the last commit."""
    return books.chain.state.depth_limits not in (None, depth_limits(books.config))


def _learn_of_hosts(books: Books, rows: dict[str, Any]) -> None:
    """Counts which hosts brought content of their own, and which brought content that is known from elsewhere."""
    brought = np.array([outcome == _OK for outcome in rows["outcome"]], np.bool_) & ~np.array(rows["is_robots"], bool)
    brought &= np.array([kind == "page" for kind in rows["kind"]], np.bool_)
    hosts = host_of_key(np.array(rows["key"], np.uint64)[brought])
    books.index.traps.saw(hosts, np.array(rows["is_revisit"], np.bool_)[brought])


def _note_onward(books: Books, round_: Round, links: Links, verdicts: U8) -> None:
    """Notes the links of the round's pages that matter when the pages turn out to be less deep."""
    redirects = np.array([visit.next.cash_use == CashUse.PASS for visit in round_.visits], np.bool_)
    is_level = redirects[links.source] if links.is_level is None else redirects[links.source] | links.is_level
    is_deep = verdicts == DEPTH
    found: dict[int, onward.Links] = {
        place: []
        for place, visit in enumerate(round_.visits)
        if visit.outcome is not Outcome.UNCHANGED and visit.next.cash_use != CashUse.KEEP
    }
    for at in np.flatnonzero(is_deep | (is_level & links.followed)).tolist():
        refused = onward.LEVEL_REFUSED if is_level[at] else onward.REFUSED
        kind = refused if is_deep[at] else onward.LEVEL
        found[int(links.source[at])].append((kind, round_.urls[int(links.target[at])]))
    keys = np.array([round_.visits[place].response.request.key for place in found], np.uint64)
    onward.write(books.index, keys, list(found.values()))


def _judge_again(
    books: Books, round_: Round, result: UpdateResult, apply: Apply, are_limits_new: bool
) -> tuple[UpdateResult, onward.Judged]:
    """Judges again the links of pages that are less deep than when their links were judged. When more depth is allowed
    than before, these are all pages."""
    index = books.index
    requests = [visit.response.request for visit in round_.visits]
    depth = np.array([request.depth for request in requests], np.uint8)
    late = np.array([request.key for request in requests], np.uint64)[result.depth < depth]
    fallen = union(result.fallen, late)
    if are_limits_new:
        fallen = union(fallen, np.concatenate([fallen[:0], *(rows["key"] for rows in index.onward.scan())]))
    found, pages = index.pages.look_up(fallen)
    fallen = fallen[found & has_links(pages["status"])]
    again = onward.judge(index, _limits_of(books), fallen, lambda rows: apply(RoundColumns(inbox=rows)))
    joined = replace(
        result,
        new=NewPages.joined([result.new, again.new]),
        outbox=added_up([result.outbox, again.outbox]) if len(again.outbox.key) else result.outbox,
        textless=np.concatenate((result.textless, again.textless)),
    )
    return joined, again


def _limits_of(books: Books) -> onward.LimitsOf:
    """Returns the function that knows by which limits links on pages are judged."""
    base, websites = books.config.limits, books.scope.websites
    if not websites:
        return lambda pages: [base] * len(pages)

    def limits_of(pages: Rows) -> list[Limits]:
        found = (websites.of(host_of(url)) for url in books.index.urls(pages))
        return [rules.limits(base) if rules else base for rules in found]

    return limits_of


def depth_limits(config: Config) -> tuple[int, ...]:
    """Returns the limits of depth. When they change, refused links are judged again."""
    return config.limits.depth, config.limits.depth_dynamic


def _teach(books: Books, round_: Round, result: UpdateResult, links: Links, now_s: float) -> None:
    """Updates scores by what the round found; pages whose scores changed get new ranks."""
    assert books.scores is not None
    visited = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
    lesson = Lesson(result.new.key, result.new.referrer, visited, links.source, links.target, links.followed)
    changed = books.scores.learn(lesson)
    if changed is None:
        books.frontier.rank_anew()
    elif len(changed):
        found, rows = books.index.pages.look_up(changed)
        books.frontier.offer(rows[found], now_s)


def _write_tables(books: Books, round_: Round, rows: dict[str, Any], result: UpdateResult) -> Changes:
    store, agent, number = books.store, books.chain.agent, round_.number
    pages = [i for i, is_robots in enumerate(rows["is_robots"]) if not is_robots]
    cash = np.zeros(len(rows["key"]), np.int64)
    cash[pages] = result.passed
    changes = write_table(store, VISITS, agent, number, {**rows, "cash": cash, "round": number})
    changes |= write_cdxj(store, agent, number, _captures(rows, round_.stored_digests))
    new = result.new
    pages_table = {
        "key": new.key,
        "url": new.url,
        "host": new.host,
        "domain": new.domain,
        "referrer": new.referrer,
        "round": number,
        "depth": new.depth,
        "kind": (new.is_requisite.astype(np.int32), ["page", "requisite"]),
    }
    changes |= write_table(store, PAGES, agent, number, pages_table)
    robots_table = {name: [row[name] for row in round_.robots] for name in ROBOTS.names}
    for name in ("time", "expires"):
        robots_table[name] = [moment.timestamp() for moment in robots_table[name]]
    changes |= write_table(store, ROBOTS, agent, number, robots_table)
    seen = books.carbon.seen() if books.carbon else {name: [] for name in SIGNALS.names}
    return changes | write_table(store, SIGNALS, agent, number, seen)


def _write_depths(books: Books, round_: Round, nearer: list[tuple[U64, U8]]) -> Changes:
    keys, depths = (np.concatenate(part) for part in zip(*nearer, strict=True))
    table = {"key": keys, "depth": depths, "round": round_.number}
    return write_table(books.store, DEPTHS, books.chain.agent, round_.number, table)


def _captures(rows: dict[str, Any], digests: list[str]) -> Iterator[Capture]:
    names = ("url", "time", "content_type", "http_status", "warc", "warc_offset", "warc_bytes", "is_revisit")
    columns = (rows[name] for name in names)
    for url, time_s, mime, status, warc, offset, length, is_revisit, digest in zip(*columns, digests, strict=True):
        if warc:
            mime, place = REVISIT if is_revisit else mime, Location(warc, offset, length)
            yield Capture(url_of(url), time_s, mime, status, digest, place)


def _write_links(
    books: Books, round_: Round, source: I32, targets: U64, verdicts: U8, needed: Needed, again: onward.Judged
) -> Changes:
    distinct, inverse = np.unique(np.concatenate((targets, needed.targets, again.target)), return_inverse=True)
    keys = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
    urls = round_.urls | dict(zip(again.target.tolist(), again.url, strict=True))
    kinds = np.array([KINDS.index(visit.kind) for visit in round_.visits], np.uint8)[source]
    for place, visit in enumerate(round_.visits):
        if visit.kinds is not None and len(visit.kinds) == len(visit.targets):
            kinds[source == place] = visit.kinds
    later = np.full(len(again.target), LATER, np.uint8)
    table = {
        "source": np.concatenate((keys[source], keys[needed.source], again.source)),
        "target": distinct[inverse],
        "target_url": (inverse, [urls[key] for key in distinct.tolist()]),
        "verdict": (np.concatenate((verdicts, needed.verdicts, later)), list(VERDICTS)),
        "round": round_.number,
        "kind": (np.concatenate((kinds, needed.kinds, 0 * later)), list(KINDS)),
    }
    return write_table(books.store, LINKS, books.chain.agent, round_.number, table)


def _update(books: Books, round_: Round, links: Links, inbox: Contributions, apply: Apply) -> UpdateResult:
    rows = np.zeros(len(round_.visits), VISIT.numpy)
    rows["key"] = np.fromiter((visit.response.request.key for visit in round_.visits), np.uint64, len(rows))
    for name in ("status", "due_s", "tries", "cash_use"):
        rows[name] = np.fromiter((getattr(visit.next, name) for visit in round_.visits), np.uint32, len(rows))
    if round_.deferrals:
        keys = np.array([deferral.request.key for deferral in round_.deferrals], np.uint64)
        due_s = np.array([int(deferral.until_s) + 1 for deferral in round_.deferrals], np.uint32)
        postpone(books.index, books.frontier, keys, due_s)
    return apply(RoundColumns(rows, links, round_.urls, inbox))


def _apply(books: Books, columns: RoundColumns, whose: Whose, others: int, now_s: float) -> UpdateResult:
    return update(
        books.index,
        books.frontier,
        books.ledger,
        columns,
        limits=books.config.limits,
        strategy=books.strategy,
        is_own=whose.is_own,
        others=others,
        now_s=now_s,
        seed=books.config.crawl.seed,
        best=books.config.limits.new_per_round,
        pages_by_host=pages_by_host(books.config),
        quota=books.scope.websites.quota if books.scope.websites else None,
    )


def postpone(index: PageIndex, frontier: Frontier | None, keys: U64, due_s: U32) -> None:
    """Defers these pages: nothing was tried, and only their due time changes."""
    order = np.argsort(keys)
    found, rows = index.pages.look_up(keys[order])
    latest_s = NEVER if frontier is None else frontier.latest_s
    rows["due_s"] = np.minimum(due_s[order], latest_s)  # the clock may have been set back since
    index.pages.write(rows[found], 0)
    if frontier is not None:
        frontier.settle(keys)


def _merit(books: Books, round_: Round, source: I32, targets: U64) -> F64:
    """Returns how good each link is, by `crawl.link_metric`."""
    metric = books.config.crawl.link_metric
    if metric == "external":
        keys = np.fromiter((v.response.request.key for v in round_.visits), np.uint64, len(round_.visits))
        leaves: Bools = host_of_key(keys[source]) != host_of_key(targets)
        return leaves.astype(np.float64)
    if metric == "first":
        return np.zeros(len(targets))
    unique, inverse = np.unique(targets, return_inverse=True)
    found, rows = books.index.pages.look_up(unique)
    column = {"hits": "hits", "cash": "cash", "shallow": "depth"}[metric]
    merit = np.where(found, rows[column].astype(np.float64), 0.0)
    return (-merit if metric == "shallow" else merit)[inverse]
