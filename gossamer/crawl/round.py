"""`Round` gathers the visits that finished since the last commit, and turns them into files and columns."""

from collections import Counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec import Struct, field
from xxhash import xxh3_64_intdigest

from gossamer.archive.digests import DigestCache, letters
from gossamer.archive.manifest import Changes
from gossamer.archive.warc import (
    IDENTICAL,
    NOT_MODIFIED,
    Location,
    Stored,
    payload_digest,
    stored_as,
    stored_digest,
)
from gossamer.arrays import F64, I32, U8, U64, Bools
from gossamer.columns import ACCOUNT, VISITS, Contributions, Outcome, Status
from gossamer.crawl.reader import BEST, DEPTH, FOLLOWED, Visit
from gossamer.crawl.scope import Naming
from gossamer.fetch.politeness import Deferred
from gossamer.fetch.request import Response
from gossamer.web.links import NO_LINKS

_STORED = 1 << 10  # smaller content is not worth a reference to another page
_OUTCOMES = [outcome.name.lower() for outcome in Outcome]
_STATUSES = [status.name.lower() for status in Status]
_NAMES = [name for name in VISITS.names if name not in ACCOUNT]
_NOWHERE = Location("", 0, 0)
_HELD_BYTES = 384 << 20  # of a round, until it is committed; ten thousand ordinary pages hold a third of it
_LINK_BYTES = 50  # what a link takes in the columns of a commit,
_TEXT_BYTES = 100  # and a text besides its characters,
_COPIES = 2  # which are here and in a table when it is written


class Known(Protocol):
    """`Known` is what the index knows of a page that a revisit record refers to."""

    def note(self, key: int, url: str) -> None:
        """Notes that content of this page was stored: others may be found to have the same."""

    def url(self, key: int) -> str:
        """Returns its URL, empty if it is not known."""


class Elsewhere(Protocol):
    """`Elsewhere` is what other crawls have stored."""

    def find(self, digest: str) -> Stored | None:
        """Returns the record that has the content with this digest of its payload."""


class Records(Protocol):
    """`Records` is where answers are stored: a WARC writer, or a file that has them already."""

    def write_exchange(
        self,
        response: Response,
        digest: str,
        refers_to: Stored | None = None,
        profile: str = "",
        rendered: bytes = b"",
    ) -> Location:
        """Stores an answer and its request. Returns where the response (or revisit) record is."""

    def close(self) -> Changes:
        """Makes the round's files durable. Nothing can be written afterwards."""


class Round(Struct):
    """`Round` gathers what finished since the last commit. `add` runs once per page, everything else once per round."""

    number: int
    warc: Records | None
    digests: DigestCache
    known: Known
    others: Elsewhere | None = None
    visits: list[Visit] = field(default_factory=list)
    deferrals: list[Deferred] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)  # of the VISITS table, in its order of columns
    stored_digests: list[str] = field(default_factory=list)  # one for each row: as in WARC and CDXJ
    urls: dict[int, str] = field(default_factory=dict)  # of link targets
    sitemaps: dict[str, None] = field(default_factory=dict)
    named: dict[Naming, None] = field(default_factory=dict)
    robots: list[dict[str, Any]] = field(default_factory=list)  # rows of the ROBOTS table
    outcomes: Counter[str] = field(default_factory=Counter)
    requisites: int = 0  # of the visits, which are not counted as pages
    truncated: int = 0  # visits that brought a body, but not all of it
    refused: Counter[str] = field(default_factory=Counter)  # links, by the limit, once the round is closed
    functions: Counter[str] = field(default_factory=Counter)  # what functions found, once they have finished
    wire_bytes: int = 0
    cost: dict[str, float] = field(default_factory=dict)  # energy and carbon, once they have been accounted for
    held_bytes: int = 0  # about so much memory is free again after the commit

    @property
    def pages(self) -> int:
        return len(self.visits) - self.requisites

    def is_full(self, width: int) -> bool:
        """Returns whether the round is full of pages, or of bytes: pages may consist of nothing but long links."""
        return len(self.visits) >= width or self.held_bytes >= _HELD_BYTES

    @property
    def empty(self) -> bool:
        return not (self.rows or self.deferrals)

    def add(self, visit: Visit) -> None:
        response, request = visit.response, visit.response.request
        if response.large is not None:
            digest = letters(response.large.sha1)
        else:
            digest = payload_digest(response.head, response.body) if response.body else ""
        place, is_revisit = self._store(visit, digest)
        if is_revisit and visit.stored is not None:
            digest = visit.stored.digest
        self._row(visit, digest, place, is_revisit)
        self.stored_digests.append(visit.stored.stored_digest if digest and visit.stored is not None else "")
        self.wire_bytes += response.size
        self.held_bytes += _TEXT_BYTES + _COPIES * text_bytes(visit)
        self.robots += response.robots
        if visit.named:
            self.named.update(dict.fromkeys(visit.named))
        if request.is_robots:
            self.sitemaps.update(dict.fromkeys(visit.sitemaps))
        if request.is_robots or request.is_part:
            return
        self.truncated += visit.outcome is Outcome.OK and bool(visit.truncated)
        if request.is_requisite:
            self.requisites += 1
        else:
            self.outcomes[_OUTCOMES[visit.outcome]] += 1
        self._link(visit)
        # The body has been stored; from here on only columns are needed.
        response.body = response.head = response.request_head = response.request_body = b""
        response.large, visit.rendered = None, b""
        self.visits.append(visit)

    def _link(self, visit: Visit) -> None:
        new, chars = visit.urls.enter(self.urls, visit.targets)
        self.held_bytes += _LINK_BYTES * len(visit.targets) + _TEXT_BYTES * new + _COPIES * chars
        visit.urls = NO_LINKS
        if visit.requisites is not None:
            new, chars = visit.requisites.urls.enter(self.urls, visit.requisites.targets)
            self.held_bytes += _LINK_BYTES * len(visit.requisites.targets) + _TEXT_BYTES * new + _COPIES * chars
            visit.requisites.urls = NO_LINKS

    def _store(self, visit: Visit, digest: str) -> tuple[Location, bool]:
        """Returns where the record is, and whether it only refers to another one; notes which one has the content."""
        response = visit.response
        if self.warc is None or not response.head:
            return _NOWHERE, False
        may_be_elsewhere = visit.outcome is Outcome.OK and not visit.truncated and response.size >= _STORED
        digest64 = xxh3_64_intdigest(digest.encode()) if may_be_elsewhere else None
        if profile := self._refer(visit, digest, digest64):
            return self.warc.write_exchange(response, "", visit.stored, profile), True
        as_stored = stored_digest(response.head, response.body, digest) if response.body else digest
        visit.stored = stored_as(response.request.url, response.started_s, digest, as_stored)
        if digest64 is not None:
            key = response.request.key
            self.digests.put(digest64, key, visit.stored.time_ms, as_stored)
            self.known.note(key, response.request.url)
        return self.warc.write_exchange(response, as_stored, rendered=visit.rendered), False

    def _refer(self, visit: Visit, digest: str, digest64: int | None) -> str:
        """Finds the record that has the content already, and returns the profile of a revisit record; "" if there is
        none. With a `digest64` it may be that of another page. A revisit record promises the same payload, which is
        the bytes before they are decoded: the same text in other bytes is stored again."""
        response, request = visit.response, visit.response.request
        if visit.outcome is Outcome.UNCHANGED:
            visit.stored = Stored.unpacked(request.stored, request.url)
            if not response.size:
                return NOT_MODIFIED
            return IDENTICAL if visit.stored is not None and visit.stored.digest == digest else ""
        if digest64 is None:
            return ""
        if (seen := self.digests.get(digest64)) is not None:
            key, time_ms, as_stored = seen
            if key != request.key and (url := self.known.url(key)):
                visit.stored = Stored(url, time_ms, digest, as_stored)
                return IDENTICAL
        if self.others is not None and (found := self.others.find(digest)):
            visit.stored = found
            return IDENTICAL
        return ""

    def _row(self, visit: Visit, digest: str, place: Location, is_revisit: bool) -> None:
        response, request = visit.response, visit.response.request
        is_beside = request.is_robots or request.is_part  # no visit of a page that the index knows
        values = (
            request.key,
            request.name,
            request.host,
            self.number,
            response.started_s,
            _OUTCOMES[visit.outcome],
            "" if is_beside else _STATUSES[visit.next.status],
            response.http_status,
            visit.reason,
            visit.mime,
            visit.charset,
            visit.title,
            visit.language,
            visit.canonical,
            visit.location,
            response.size,
            visit.body_bytes,
            visit.truncated,
            digest,
            len(visit.targets),
            request.depth,
            0,
            response.elapsed_s,
            response.lookup_s,
            response.connect_s,
            response.response_s,
            response.address,
            place.file,
            place.offset,
            place.length,
            is_revisit,
            visit.noindex,
            is_beside,
            visit.preferences,
            visit.not_for,
            "part" if request.is_part else "requisite" if request.is_requisite else "page",
            *visit.size,
            bool(visit.rendered),
            visit.simhash,
        )
        self.rows.append(values)

    def columns(self) -> dict[str, list[Any]]:
        """Returns the round's rows of the VISITS table, without what they cost."""
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in _NAMES)
        return {name: list(column) for name, column in zip(_NAMES, columns, strict=True)}

    def links(self) -> tuple[I32, U64, U8]:
        """Returns all links of the round: index of the source in `visits`, target, verdict."""
        counts = [len(visit.targets) for visit in self.visits]
        source = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        if not len(source):
            return source, np.empty(0, np.uint64), np.empty(0, np.uint8)
        targets = np.concatenate([visit.targets for visit in self.visits])
        verdicts = np.concatenate([visit.verdicts for visit in self.visits])
        return source, targets, verdicts

    def followed(self) -> tuple[U64, dict[int, str]]:
        """Returns the pages that followed links lead to, once for each link, and their URLs."""
        _, targets, verdicts = self.links()
        return targets[verdicts == FOLLOWED], self.urls

    def needed(self) -> "Needed":
        """Returns what the round's pages need to be shown."""
        found = [(place, visit.requisites) for place, visit in enumerate(self.visits) if visit.requisites is not None]
        counts = [len(each.targets) for _, each in found]
        return Needed(
            np.repeat(np.array([place for place, _ in found], np.int32), counts),
            np.concatenate([np.empty(0, np.uint64), *(each.targets for _, each in found)]),
            np.concatenate([np.empty(0, np.uint8), *(each.verdicts for _, each in found)]),
            np.concatenate([np.empty(0, np.uint8), *(each.kinds for _, each in found)]),
            np.repeat(np.array([each.hops for _, each in found], np.uint8), counts),
        )

    def mentions(self, needed: "Needed") -> Contributions:
        """Returns what becomes known of that: no links, so that they have no cash and count as no hits."""
        at = np.flatnonzero(needed.verdicts == FOLLOWED)
        requests = [visit.response.request for visit in self.visits]
        keys = np.array([request.key for request in requests], np.uint64)
        depths = np.minimum(np.array([request.depth for request in requests], np.int64) + 1, 255).astype(np.uint8)
        targets, source = needed.targets[at], needed.source[at]
        return Contributions(
            targets,
            np.zeros(len(at), np.int64),
            np.zeros(len(at), np.int32),
            depths[source],
            needed.hops[at],
            keys[source],
            [self.urls[key] for key in targets.tolist()],
        )

    def is_level(self) -> Bools | None:
        """Returns which of the same links lead no deeper than their page is; None: none of them."""
        if all(visit.is_level is None for visit in self.visits):
            return None
        return np.concatenate(
            [np.zeros(len(v.targets), np.bool_) if v.is_level is None else v.is_level for v in self.visits]
        )

    def relevance(self) -> F64 | None:
        """Returns the relevance of the same links to the topic; None if there is no topic."""
        if all(visit.relevance is None for visit in self.visits):
            return None
        return np.concatenate([np.zeros(len(v.targets)) if v.relevance is None else v.relevance for v in self.visits])

    def priority(self) -> F64 | None:
        """Returns how much the same links count by the user's functions; None: all count 1."""
        if all(visit.priority is None for visit in self.visits):
            return None
        return np.concatenate([np.ones(len(v.targets)) if v.priority is None else v.priority for v in self.visits])


class Needed(NamedTuple):
    """`Needed` are the requisites of a round's pages, as columns."""

    source: I32  # index in the round's visits
    targets: U64
    verdicts: U8
    kinds: U8
    hops: U8


def text_bytes(visit: Visit) -> int:
    """Returns the size of a visit's text besides its body and links."""
    size = len(visit.response.request.name) + len(visit.title) + len(visit.canonical)
    size += len(visit.location) + len(visit.etag) + len(visit.last_modified)
    if visit.sitemaps:
        size += sum(len(url) + _TEXT_BYTES for url in visit.sitemaps)
    if visit.response.robots:
        size += sum(len(row["body"]) + _TEXT_BYTES for row in visit.response.robots)
    return size


def keep_best(source: I32, merit: F64, verdicts: U8, most: int) -> None:
    """Refuses all but the `most` best followed links of each page; equal merit goes by position."""
    # Links that are too deep now may be followed later: a page's depth must not decide which are best.
    followed = np.flatnonzero((verdicts == FOLLOWED) | (verdicts == DEPTH))
    order = followed[np.lexsort((followed, -merit[followed], source[followed]))]
    owners = source[order]
    first = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    rank = np.arange(len(order)) - np.repeat(first, np.diff(np.r_[first, len(order)]))
    verdicts[order[rank >= most]] = BEST
