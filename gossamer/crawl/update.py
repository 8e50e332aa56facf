"""`update` applies a round to the index, as a pure function on columns: new pages, passed cash, new states."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from gossamer.arrays import F64, I32, I64, U8, U64, Bools, Indices, Rows
from gossamer.columns import LINK, MOST_HOPS, PAGE, REQUISITE, VANISHED, Column, Contributions, Status, Table
from gossamer.config import Limits
from gossamer.crawl.ledger import Ledger
from gossamer.errors import ArchiveError
from gossamer.frontier import caps
from gossamer.frontier.caps import Homes, Quota, Quotas, domain_text, homes, most_pages
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.sorted_runs import raw, search, union
from gossamer.frontier.strategies import Strategy
from gossamer.frontier.targets import Groups, Targets
from gossamer.frontier.text_heap import MAX_TEXT
from gossamer.web.url import host_of, page_keys

IsOwn = Callable[[U64], Bools]  # which pages belong to us
_PRIORITY = 1000  # parts of one: as exact as priorities are

QuotaOf = Callable[[str], Quota | None]  # of a host's website


class CashUse(IntEnum):
    """`CashUse` is what a visit does with its page's cash."""

    SPEND = 0  # split over the links
    PASS = 1  # a redirect: all of it to the one link
    KEEP = 2  # a passing failure
    DROP = 3  # to the virtual page: gone, denied, refused


class Admission(IntEnum):
    """`Admission` is the result for a link that the caller wanted to follow."""

    FOLLOWED = 0
    CAP = caps.PAGES_PER_HOST  # too many pages of its host,
    CAP_DOMAIN = caps.PAGES_PER_DOMAIN  # or of its domain,
    CAP_HOSTS = caps.HOSTS_PER_DOMAIN  # or hosts of its domain
    BEST = 4  # not among the best new pages of this round
    LENGTH = 5  # the text of its URL is missing or too long
    CAP_WEBSITE = caps.PAGES_PER_WEBSITE  # too many pages of a website with rules of its own


VISIT = Table(
    "visit",
    "what a visit makes of its page",
    (
        Column("key", "u8", "the page"),
        Column("status", "u1", "Status from now on"),
        Column("due_s", "u4", "seconds since 1970 when it may be visited again"),
        Column("tries", "u1", "failed visits in a row"),
        Column("cash_use", "u1", "CashUse"),
    ),
)


class Links(NamedTuple):
    """`Links` are distinct per source. Those not followed count in the out-degree; their share has no taker."""

    source: I32  # index into the visits
    target: U64
    followed: Bools
    relevance: F64 | None = None  # to the topic, 0 to 1
    is_new: Bools | None = None  # the others were on the version before, and count in `hits` already; None: all are new
    is_level: Bools | None = None  # leads no deeper than its page is (crawl/scope.py); None: none does
    priority: F64 | None = None  # how much it counts, by the user's functions; None: all count 1

    @classmethod
    def none(cls) -> "Links":
        return cls(np.zeros(0, np.int32), np.zeros(0, np.uint64), np.zeros(0, np.bool_))


class RoundColumns(Struct, frozen=True):
    """`RoundColumns` is everything that a round brings to the index."""

    visits: Rows = field(default_factory=lambda: np.zeros(0, VISIT.numpy))  # distinct pages
    links: Links = field(default_factory=Links.none)
    urls: Mapping[int, str] = field(default_factory=dict)  # of targets that may be new
    inbox: Contributions = field(default_factory=Contributions.none)


class NewPages(Struct, frozen=True):
    """`NewPages` are the pages that entered, in order of discovery."""

    key: U64
    url: list[str]
    host: list[str]
    domain: list[str]
    referrer: U64
    depth: U8
    is_requisite: Bools

    def __len__(self) -> int:
        return len(self.url)

    @classmethod
    def joined(cls, parts: Sequence["NewPages"]) -> "NewPages":
        return cls(
            np.concatenate([np.zeros(0, np.uint64), *(part.key for part in parts)]),
            [url for part in parts for url in part.url],
            [host for part in parts for host in part.host],
            [domain for part in parts for domain in part.domain],
            np.concatenate([np.zeros(0, np.uint64), *(part.referrer for part in parts)]),
            np.concatenate([np.zeros(0, np.uint8), *(part.depth for part in parts)]),
            np.concatenate([np.zeros(0, np.bool_), *(part.is_requisite for part in parts)]),
        )


class UpdateResult(Struct, frozen=True):
    new: NewPages
    passed: I64  # per visit: cash that left the page
    verdicts: U8  # per link, meaningful for those followed: Admission
    outbox: Contributions  # for zones of others, by key; its cash is no longer in the index
    textless: U64  # pages that are not known, and of which only keys have come
    depth: U8  # per visit: of its page, as it is known now
    fallen: U64  # pages visited before to which a shorter way was found
    promoted: U64  # requisites that a link leads to now: they are pages from here on
    nearer: tuple[U64, U8]  # all pages known before to which a shorter way was found, and how deep they are now


class Rules(Struct, frozen=True):
    """`Rules` decide in an update, besides the round itself."""

    limits: Limits
    strategy: Strategy
    is_own: IsOwn
    seed: int
    best: int
    pages_by_host: Mapping[str, int]
    quota: QuotaOf | None


def update(
    index: PageIndex,
    frontier: Frontier | None,
    ledger: Ledger,
    columns: RoundColumns,
    *,
    limits: Limits,
    strategy: Strategy,
    now_s: float,
    is_own: IsOwn = lambda keys: np.ones(len(keys), np.bool_),
    seed: int = 0,
    best: int = 0,
    others: int = 0,
    pages_by_host: Mapping[str, int] = MappingProxyType({}),
    quota: QuotaOf | None = None,
) -> UpdateResult:
    """Applies a round. `best` limits the new pages that enter (0: all). Cash without a taker is pooled, for our pages
    and the `others` that other agents know."""
    rows, result = _changed(index, ledger, columns, Rules(limits, strategy, is_own, seed, best, pages_by_host, quota))
    index.pages.write(rows, len(result.new))
    ledger.known += len(result.new) - int(result.new.is_requisite.sum()) + len(result.promoted)
    if strategy.virtual:
        ledger.give(others)
    if frontier is not None:
        frontier.offer(rows, now_s, settled=columns.visits["key"])
    return result


def _changed(index: PageIndex, ledger: Ledger, columns: RoundColumns, rules: Rules) -> tuple[Rows, UpdateResult]:
    """Returns the rows of all pages of the round as they will be; texts and hosts of new ones are in the index then."""
    visits, inbox, followed = columns.visits, columns.inbox, np.flatnonzero(columns.links.followed)
    said = np.concatenate((inbox.key, columns.links.target[followed]))
    groups = Groups.of(said)
    is_own = rules.is_own(groups.key)
    # The only look-up in the index: every page of the round, by key.
    keys = union(visits["key"], groups.key[is_own])
    found, rows = index.pages.look_up(keys)
    at = np.searchsorted(keys, visits["key"])
    if not found[at].all():
        raise ArchiveError("a visited page is not in the index: it belongs to another crawl, or is damaged")
    before = rows[at]
    passed, share = _shares(before, visits, columns.links, ledger.v, rules.strategy)
    targets = _targets(groups, columns, followed, before, share)
    ledger.pool += int(passed.sum()) + int(inbox.cash.sum()) - int(targets.cash.sum())

    own, others = targets.where(is_own), targets.where(~is_own)
    to = np.searchsorted(keys, own.key)
    is_known = found[to]
    # A vanished link is no reason to get to know where it led.
    lost = ~is_known & (own.hits <= 0) & (own.cash == 0)
    lost &= ~is_requisite(own.hops) | (own.hops == VANISHED)
    texts = _Texts(columns)
    enters = ~is_known & ~lost
    entering = _Entering.of(index, own.where(enters), texts, ledger.v)
    referrers = np.concatenate((inbox.referrer, visits["key"][columns.links.source[followed]]))
    was_redirect = (inbox.hops > 0) & (inbox.hops < REQUISITE)
    is_redirect = np.concatenate((was_redirect, (visits["cash_use"] == CashUse.PASS)[columns.links.source[followed]]))
    generation = caps.generations(index.hosts, index.traps, entering.homes, said, referrers, is_redirect)
    verdicts = entering.judge(index, rules, generation)
    ledger.pool += int(entering.targets.cash[verdicts != Admission.FOLLOWED].sum())

    _visit(rows, at, visits, ledger.v)
    nearer, became_pages = _receive(rows, to[is_known], own.where(is_known), ledger.v)
    promoted = rows["key"][became_pages]
    depth, closer = rows["depth"][at], rows[nearer]
    fallen = closer["key"][has_links(closer["status"])]
    new = entering.enter(index, rows, to[enters], verdicts)
    pages = new.key[~new.is_requisite]
    _count_hosts(index, entering.homes, pages, visits, before)
    if len(promoted):
        _count_promoted(index, rows[became_pages])
    entered = entering.homes.is_new & np.isin(entering.homes.hosts, host_of_key(pages))
    index.traps.enter(entering.homes.hosts[entered], generation[entered])
    keep = found.copy()
    keep[to[enters]] = verdicts == Admission.FOLLOWED
    rows = rows if keep.all() else raw(rows)[keep].view(rows.dtype)
    of_target = np.zeros(len(groups.key), np.uint8)
    of_target[np.flatnonzero(is_own)[enters]] = verdicts
    of_link = np.zeros(len(columns.links.target), np.uint8)
    of_link[followed] = groups.spread(of_target)[len(inbox.key) :]
    textless = entering.targets.key[[not url for url in entering.urls]]
    return rows, UpdateResult(
        new, passed, of_link, texts.outbox(others), textless, depth, fallen, promoted, (closer["key"], closer["depth"])
    )


def seeds(urls: Sequence[str], ledger: Ledger) -> Contributions:
    """Returns what seeds contribute: new cash."""
    return Contributions.of(page_keys(list(urls)), list(urls), cash=ledger.mint(len(urls)))


def _shares(before: Rows, visits: Rows, links: Links, v: int, strategy: Strategy) -> tuple[I64, I64]:
    """Returns the cash that leaves each visited page, and the cash that each link carries."""
    cash_use, damping = visits["cash_use"], strategy.damping
    passed = np.where((cash_use == CashUse.KEEP) | is_requisite(before["hops"]), 0, before["cash"] + v)
    spends = cash_use == CashUse.SPEND
    budget = np.where(spends, passed // damping.denominator * damping.numerator, 0)
    budget[cash_use == CashUse.PASS] = passed[cash_use == CashUse.PASS]
    if strategy.link_weight is None and links.priority is None:
        parts = np.bincount(links.source, minlength=len(before))
        if strategy.virtual:
            parts = parts + spends  # the virtual page is one more link
        return passed, (budget // np.maximum(parts, 1))[links.source]
    rows = np.zeros(len(links.target), LINK.numpy)
    rows["foreign"] = host_of_key(visits["key"])[links.source] != host_of_key(links.target)
    rows["relevance"] = 0.0 if links.relevance is None else links.relevance
    weights = np.ones(len(rows), np.int64) if strategy.link_weight is None else strategy.link_weight(rows)
    unit = 1
    if links.priority is not None:
        unit = _PRIORITY
        weights = np.maximum(np.rint(weights * links.priority * unit), 1).astype(np.int64)
    parts = np.zeros(len(before), np.int64)
    np.add.at(parts, links.source, weights)
    if strategy.virtual and strategy.link_weight is None:  # as in the simulator: weights leave the virtual page out
        parts += spends * unit
    return passed, (budget // np.maximum(parts, 1))[links.source] * weights


def _targets(groups: Groups, columns: RoundColumns, followed: Indices, before: Rows, share: I64) -> Targets:
    inbox, links, source = columns.inbox, columns.links, columns.links.source[followed]
    counts = np.ones(len(source), np.int64) if links.is_new is None else links.is_new[followed].astype(np.int64)
    is_redirect = (columns.visits["cash_use"] == CashUse.PASS).astype(np.int64)
    is_level = is_redirect[source].astype(np.bool_)
    if links.is_level is not None:
        is_level |= links.is_level[followed]
    depth = np.minimum(before["depth"][source] + np.int64(1) - is_level, 255).astype(np.uint8)
    hops = (np.minimum(before["hops"] + np.int64(1), MOST_HOPS) * is_redirect).astype(np.uint8)
    first = groups.reduce(np.minimum, np.arange(len(inbox.key) + len(source)))
    return Targets(
        groups.key,
        groups.reduce(np.add, np.concatenate((inbox.cash, share[followed]))),
        groups.reduce(np.add, np.concatenate((inbox.hits, counts))),
        groups.reduce(np.minimum, np.concatenate((inbox.depth, depth))),
        groups.reduce(np.minimum, np.concatenate((inbox.hops, hops[source]))),
        np.concatenate((inbox.referrer, columns.visits["key"][source]))[first],
        first,
    )


def _visit(rows: Rows, at: Indices, visits: Rows, v: int) -> None:
    for name in ("status", "due_s", "tries"):
        rows[name][at] = visits[name]
    rows["cash"][at[(visits["cash_use"] != CashUse.KEEP) & ~is_requisite(rows["hops"][at])]] = -v


def _receive(rows: Rows, to: Indices, targets: Targets, v: int) -> tuple[Indices, Indices]:
    """Returns the indices of the pages to which a shorter way was found, and of those that were requisites until now.
    From here on the virtual page gives to these, too."""
    nearer = to[targets.depth < rows["depth"][to]]
    promoted = to[is_requisite(rows["hops"][to]) & (targets.hops < REQUISITE)]
    rows["cash"][to] += targets.cash
    rows["cash"][promoted] -= v
    rows["hits"][to] = np.clip(rows["hits"][to] + targets.hits, 0, 0xFFFFFFFF)
    rows["depth"][to] = np.minimum(rows["depth"][to], targets.depth)
    rows["hops"][to] = np.minimum(rows["hops"][to], targets.hops)
    return nearer, promoted


class _Texts:
    """`_Texts` finds the URLs of targets, wherever the round has them."""

    def __init__(self, columns: RoundColumns) -> None:
        self._links = columns.urls
        named = zip(columns.inbox.key.tolist(), columns.inbox.url, strict=True)
        self._inbox = {key: url for key, url in named if url}  # of a page that comes twice, one may have no text

    def of(self, keys: U64) -> list[str]:
        links, inbox = self._links, self._inbox
        if not inbox:
            return [links.get(key, "") for key in keys.tolist()]
        return [links.get(key) or inbox.get(key, "") for key in keys.tolist()]

    def outbox(self, others: Targets) -> Contributions:
        key, cash, hits, depth, hops, referrer, _ = others
        return Contributions(key, cash, hits.astype(np.int32), depth, hops, referrer, self.of(key))


class _Entering(Struct, frozen=True):
    """`_Entering` has the targets that the index does not know, and where they would live."""

    targets: Targets
    rows: Rows
    urls: list[str]
    texts: list[bytes]
    usable: Indices  # those with a text
    homes: Homes  # of the usable targets

    @classmethod
    def of(cls, index: PageIndex, targets: Targets, texts: _Texts, v: int) -> "_Entering":
        urls = texts.of(targets.key)
        rows = np.zeros(len(targets.key), PAGE.numpy)
        for name in ("key", "depth", "hops"):
            rows[name] = getattr(targets, name)
        rows["hits"] = np.maximum(targets.hits, 0)
        rows["cash"] = targets.cash - np.where(is_requisite(targets.hops), 0, v)
        # Where its text would be, so that pages rank by discovery before they have entered.
        rows["text"] = np.uint64(len(index.heap)) + targets.first.astype(np.uint64)
        data = [url.encode() for url in urls]
        sizes = np.fromiter(map(len, data), np.int64, len(data))
        usable = np.flatnonzero((sizes > 0) & (sizes <= MAX_TEXT))
        at_home = homes(index.hosts, targets.key[usable], [urls[place] for place in usable.tolist()])
        return cls(targets, rows, urls, data, usable, at_home)

    def judge(self, index: PageIndex, rules: Rules, generation: U8) -> U8:
        """Returns an Admission for each target: caps fill up from the best page downwards."""
        verdicts = np.full(len(self.rows), Admission.LENGTH, np.uint8)
        ranks = rules.strategy.page_rank(self.rows, rules.seed)[self.usable]
        order = np.lexsort((self.targets.key[self.usable], -ranks))
        needed = is_requisite(self.targets.hops[self.usable])
        if needed.any():  # the page that needs them has limited how many there are
            verdicts[self.usable[needed]] = Admission.FOLLOWED
            order = order[~needed[order]]
        urls = [self.urls[place] for place in self.usable.tolist()] if rules.pages_by_host or rules.quota else ()
        quotas = Quotas.find(index.hosts, urls, rules.quota, index.namesakes) if rules.quota else None
        most = most_pages(self.homes, urls, rules.limits, rules.pages_by_host, quotas)
        names = caps.Names(lambda page: host_of(self.urls[self.usable[page]]), index.namesakes)
        capped = caps.caps(index.hosts, index.traps, self.homes, order, rules.limits, most, names, generation, quotas)
        ranked = self.usable[order]
        verdicts[ranked] = capped
        best = rules.best
        if best and (last := np.flatnonzero(capped == Admission.FOLLOWED)[best - 1 : best]).size:
            verdicts[ranked[last[0] + 1 :]] = Admission.BEST
        return verdicts

    def enter(self, index: PageIndex, rows: Rows, to: Indices, verdicts: U8) -> NewPages:
        """Writes the admitted targets into `rows` at `to`, and their texts into the heap in order of discovery."""
        new = np.flatnonzero(verdicts == Admission.FOLLOWED)
        new = new[np.argsort(self.targets.first[new])]
        picked = new.tolist()
        self.rows["text"][new] = index.heap.append([self.texts[place] for place in picked])
        raw(rows)[to] = raw(self.rows)
        urls = [self.urls[place] for place in picked]
        names = [url.split("/", 3)[2] for url in urls]
        hosts = [name if ":" not in name else host_of(url) for name, url in zip(names, urls, strict=True)]
        at = self.homes.of_page[np.searchsorted(self.usable, new)]
        keys = dict(zip(hosts, self.homes.domains[at].tolist(), strict=True))
        domains = {host: domain_text(host, key) for host, key in keys.items()}
        key, needed = self.targets.key[new], is_requisite(self.targets.hops[new])
        index.namesakes.entered(host_of_key(key[~needed]), compress(hosts, (~needed).tolist()))
        return NewPages(
            key,
            urls,
            hosts,
            [domains[host] for host in hosts],
            self.targets.referrer[new],
            self.targets.depth[new],
            needed,
        )


def _count_hosts(index: PageIndex, homes: Homes, new: U64, visits: Rows, before: Rows) -> None:
    """Counts hosts' pages. One counts as visited while its status is final: if it failed again, it is pending."""
    needed = is_requisite(before["hops"])
    if needed.any():
        visits, before = visits[~needed], before[~needed]
    change = is_final(visits["status"]).astype(np.int64) - is_final(before["status"])
    _grow(index, homes, new, visits["key"], change)


def _count_promoted(index: PageIndex, rows: Rows) -> None:
    """Counts pages that were requisites until now."""
    at_home = homes(index.hosts, np.ascontiguousarray(rows["key"]), index.urls(rows))
    index.namesakes.forget(at_home.hosts)
    _grow(index, at_home, rows["key"], rows["key"], is_final(rows["status"]).astype(np.int64))


def _grow(index: PageIndex, at_home: Homes, new: U64, visited_pages: U64, change: I64) -> None:
    hosts, inverse = np.unique(host_of_key(np.concatenate((new, visited_pages))), return_inverse=True)
    known, visited = np.zeros(len(hosts), np.int64), np.zeros(len(hosts), np.int64)
    np.add.at(known, inverse[: len(new)], 1)
    np.add.at(visited, inverse[len(new) :], change)
    domains = np.zeros(len(hosts), np.uint32)
    here, at = search(at_home.hosts, hosts)
    domains[here] = at_home.domains[at[here]]
    index.hosts.grow(hosts, domains, known, visited)


def is_requisite(hops: U8) -> Bools:
    """Returns which pages are only needed to show others. They have no cash, and no place in any count."""
    return hops >= REQUISITE


def has_links(status: U8) -> Bools:
    """Returns which pages may have known links: what failed or was forbidden at last may have had content before."""
    return np.isin(status, (Status.FETCHED, Status.MOVED, Status.FAILED, Status.FORBIDDEN))


def is_final(status: U8) -> Bools:
    final: Bools = (status != Status.NEW) & (status != Status.FAILED)
    return final
