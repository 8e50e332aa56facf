"""`History` joins a round's visits with what was known of their pages: it alone reads and writes VISITED rows at the
end of a round.

Of a page's version the index keeps, in one text, validators, the links that we follow, and which WARC record has its
content: hits count the links, and cash goes along them. When the page is visited again, the links of both versions are
compared: what stayed does not count again, what vanished no longer counts.
"""

from collections.abc import Sequence
from datetime import UTC
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from gossamer.arrays import I64, U64, Bools, Integers, Rows
from gossamer.columns import NO_TEXT, Contributions, Outcome
from gossamer.crawl.ledger import MAX_MINTED
from gossamer.crawl.opening import Revisits
from gossamer.crawl.reader import Visit
from gossamer.crawl.update import CashUse, Links
from gossamer.frontier.pages import HOST_SHIFT, PageIndex, host_of_key
from gossamer.frontier.sorted_runs import spans
from gossamer.frontier.text_heap import MAX_TEXT, TextHeap

_NOT_MODIFIED = 304
_VALIDATOR = 1024  # longest ETag we send back
_NEAR, _FAR = 5, 8  # bytes of a link: on the page's own host 40 bits tell pages apart
_HEAD = np.dtype([("degree", "<u4"), ("near", "<u4"), ("far", "<u4"), ("cut", "u1")])
_STORED_BYTES = 4096  # of a packed `Stored`: the URLs of most websites are shorter
_ROOM = MAX_TEXT - 2 * _VALIDATOR - 2 - _HEAD.itemsize - _STORED_BYTES


class EarlierLinks(NamedTuple):
    """`EarlierLinks` has the links of versions that were current until now, one row after the other."""

    source: I64  # index of the page among those asked for
    target: U64
    degree: I64  # per page: all its links, also those that are not followed
    is_cut: Bools  # per page: it had more than we remember


class History(Struct, frozen=True):
    """`History` has a round's visits, and what was known of their pages before; one row each."""

    visits: Sequence[Visit]
    found: Bools
    rows: Rows  # VISITED
    is_changed: Bools  # the visit brought a version
    is_unchanged: Bools
    links: EarlierLinks

    @classmethod
    def of(cls, index: PageIndex, visits: Sequence[Visit]) -> "History":
        count = len(visits)
        keys = np.fromiter((visit.response.request.key for visit in visits), np.uint64, count)
        order = np.argsort(keys)
        found, rows = np.zeros(count, np.bool_), np.zeros(count, index.visited.dtype)
        found[order], rows[order] = index.visited.look_up(keys[order])
        rows["validators"][~found] = NO_TEXT
        outcomes = np.fromiter((visit.outcome for visit in visits), np.uint8, count)
        return cls(
            visits, found, rows, outcomes == Outcome.OK, outcomes == Outcome.UNCHANGED, earlier_links(index.heap, rows)
        )

    def joined(self, links: Links) -> tuple[Links, Contributions]:
        """Returns the round's links with those of unchanged pages, which pass cash on but do not count again; and what
        pages lose that are no longer linked to."""
        before = self.links
        keeps = np.fromiter((visit.next.cash_use == CashUse.KEEP for visit in self.visits), np.bool_, len(self.visits))
        stays, goes = self.is_unchanged[before.source], ~(self.is_unchanged | keeps)[before.source]
        count, followed = len(links.target), np.flatnonzero(links.followed)
        ended = before._replace(source=before.source[goes], target=before.target[goes])
        is_new, is_gone = compared_links(ended, links.source[followed], links.target[followed])
        again, rest = self._unfollowed()
        more = len(again) + int(stays.sum())
        new = np.zeros(count + more, np.bool_)
        new[followed] = is_new
        joined = Links(
            np.concatenate((links.source, before.source[stays], again)).astype(np.int32),
            np.concatenate((links.target, before.target[stays], rest)),
            np.concatenate((links.followed, np.ones(int(stays.sum()), np.bool_), np.zeros(len(again), np.bool_))),
            None if links.relevance is None else np.concatenate((links.relevance, np.zeros(more))),
            new,
            None if links.is_level is None else np.concatenate((links.is_level, np.zeros(more, np.bool_))),
            None if links.priority is None else np.concatenate((links.priority, np.ones(more))),
        )
        return joined, vanished_links(ended.target[is_gone])

    def _unfollowed(self) -> tuple[I64, U64]:
        """Returns the other links of unchanged pages: we only know how many, and so they stand for themselves."""
        listed = np.bincount(self.links.source, minlength=len(self.visits))
        rest = np.where(self.is_unchanged, np.maximum(self.links.degree - listed, 0), 0)
        again = np.repeat(np.arange(len(self.visits)), rest)
        return again, self.rows["key"][again]

    def write(self, index: PageIndex, links: Links, wire_bytes: I64, passed: I64, revisits: Revisits | None) -> None:
        """Writes the rows after the round. `links` are its own, with `followed` as finally decided; `passed` is the
        cash that left each page."""
        rows, answered = self.rows.copy(), self.is_changed | self.is_unchanged
        times = np.fromiter((visit.response.started_s for visit in self.visits), np.float64, len(self.visits))
        changed = self.is_changed
        again = np.flatnonzero(self.found & answered)
        if revisits is not None and len(again):
            known = rows[again]
            modified_s = [_seconds(self.visits[place].last_modified) for place in again.tolist()]
            revisits.learn(known, times[again], changed[again], np.array(modified_s))
            rows[again] = known
        rows["first_s"] = np.where(self.found, rows["first_s"], times)
        rows["last_s"] = np.where(answered, times, rows["last_s"])
        rows["changed_s"] = np.where(changed, times, rows["changed_s"])
        rows["visits"] = np.minimum(rows["visits"].astype(np.int64) + answered, 0xFFFF)
        rows["changes"] = np.minimum(rows["changes"].astype(np.int64) + (changed & self.found), 0xFFFF)
        digests = np.fromiter((visit.digest for visit in self.visits), np.uint64, len(self.visits))
        rows["digest"] = np.where(changed, digests, rows["digest"])
        rows["wire_bytes"] = np.where(changed, np.minimum(wire_bytes, 0xFFFFFFFF), rows["wire_bytes"])
        # Together with the cash that the page has now, this is its importance by OPIC (refresh/importance.py).
        rows["history"] = np.minimum(rows["history"] + np.minimum(passed, MAX_MINTED).astype(np.uint64), MAX_MINTED)
        over = np.fromiter((visit.next.cash_use != CashUse.KEEP for visit in self.visits), np.bool_, len(self.visits))
        rows["validators"][over & ~self.is_unchanged] = NO_TEXT
        self._note(index, rows, links)
        self._renew(index, rows)
        rows = rows[answered | (self.found & over)]
        index.visited.write(rows[np.argsort(rows["key"])])

    def _note(self, index: PageIndex, rows: Rows, links: Links) -> None:
        """Writes validators and links of new versions to the heap."""
        degree = np.bincount(links.source, minlength=len(self.visits))
        follows = links.followed & self.is_changed[links.source]
        kept = degree > 0  # even if none is followed: that may change (crawl/onward.py)
        has_more = (bool(v.etag or v.last_modified or v.stored) for v in self.visits)
        kept |= np.fromiter(has_more, np.bool_, len(self.visits))
        places = np.flatnonzero(kept & self.is_changed)
        if not len(places):
            return
        validators = [(self.visits[place].etag, self.visits[place].last_modified) for place in places.tolist()]
        source = np.searchsorted(places, links.source[follows])
        stored = [_packed_stored(self.visits[place]) for place in places.tolist()]
        texts = packed_versions(rows["key"][places], validators, source, links.target[follows], degree[places], stored)
        rows["validators"][places] = index.heap.append(texts)

    def _renew(self, index: PageIndex, rows: Rows) -> None:
        """Replaces the validators that we sent by those of a 304 (RFC 9111 section 4.3.4); the others stay. The
        same content may have been stored again: then the newer record has it from now on."""
        renewed: dict[int, tuple[str, str]] = {}
        for place in np.flatnonzero(self.is_unchanged).tolist():
            visit = self.visits[place]
            request = visit.response.request
            sent = (request.etag, request.last_modified)
            now = (visit.etag or request.etag, visit.last_modified or request.last_modified)
            if visit.response.http_status == _NOT_MODIFIED and now != sent:
                renewed[place] = now
            elif visit.stored is not None and _packed_stored(visit) != request.stored:
                renewed[place] = (visit.etag, visit.last_modified)
        places = np.array([*renewed], np.intp)
        known = rows["validators"][places] != np.uint64(NO_TEXT)
        texts = dict(zip(places[known].tolist(), index.heap.read(rows["validators"][places[known]]), strict=True))
        packed = [
            with_validators(texts.get(place, b""), *pair, _packed_stored(self.visits[place]))
            for place, pair in renewed.items()
        ]
        rows["validators"][places] = index.heap.append(packed)


def _seconds(date: str) -> float:
    """Returns the seconds since 1970 of a header field's date; nan if it has none."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).replace(tzinfo=UTC).timestamp() if date else np.nan  # RFC 9110: it is GMT
    except (ValueError, OverflowError):
        return np.nan


def packed_versions(
    keys: U64,
    validators: Sequence[tuple[str, str]],
    source: Integers,
    target: U64,
    degree: I64,
    stored: Sequence[bytes] = (),
) -> list[bytes]:
    """Returns a text per page: its validators, its links and how many there are in all, and which record has its
    content. `source` indexes `keys`."""
    is_far = host_of_key(target) != host_of_key(keys)[source]
    order = np.lexsort((target, is_far, source))
    source, target, is_far = source[order], target[order], is_far[order]
    ends = np.cumsum(np.bincount(source * 2 + is_far, minlength=2 * len(keys))).reshape(-1, 2)
    near = np.ascontiguousarray(target[~is_far].astype("<u8").view(np.uint8).reshape(-1, 8)[:, :_NEAR]).tobytes()
    far = target[is_far].astype("<u8").tobytes()
    head = np.zeros(len(keys), _HEAD)
    head["degree"] = degree
    sizes = np.diff(ends.ravel(), prepend=0).reshape(-1, 2)
    # Links that do not fit are forgotten: no page has thousands of links that come and go.
    head["near"] = np.minimum(sizes[:, 0], _ROOM // _NEAR)
    head["far"] = np.minimum(sizes[:, 1], (_ROOM - head["near"].astype(np.int64) * _NEAR) // _FAR)
    head["cut"] = head["near"].astype(np.int64) + head["far"] < sizes.sum(axis=1)
    heads, texts = head.tobytes(), []
    starts = (np.cumsum(sizes, axis=0) - sizes).tolist()
    counts = zip(head["near"].tolist(), head["far"].tolist(), strict=True)
    for place, ((at_near, at_far), (of_near, of_far)) in enumerate(zip(starts, counts, strict=True)):
        texts.append(
            _packed_validators(*validators[place])
            + heads[place * _HEAD.itemsize : (place + 1) * _HEAD.itemsize]
            + near[at_near * _NEAR : (at_near + of_near) * _NEAR]
            + far[at_far * _FAR : (at_far + of_far) * _FAR]
            + (stored[place] if stored else b"")
        )
    return texts


def _packed_validators(etag: str, last_modified: str) -> bytes:
    """Packs validators. Header values come as octets in text and never contain a line end; one that is too long to be
    sent back is not kept."""
    etag = etag if len(etag) <= _VALIDATOR else ""
    last_modified = last_modified if len(last_modified) <= _VALIDATOR else ""
    return f"{etag}\n{last_modified}\n".encode("latin-1", "replace")


def with_validators(text: bytes, etag: str, last_modified: str, stored: bytes = b"") -> bytes:
    """Returns the same links under other validators; an empty text has none. `stored` is new if it is given."""
    links = text.split(b"\n", 2)[2] if text else bytes(_HEAD.itemsize)
    if stored:
        links = links[: _links_end(links)] + stored
    return _packed_validators(etag, last_modified) + links


def stored_of(text: bytes) -> bytes:
    """Returns which record has the content of a version (`archive.warc.Stored`); empty if that is not known."""
    links = text.split(b"\n", 2)[2]
    return links[_links_end(links) :]


def _packed_stored(visit: Visit) -> bytes:
    found = visit.stored.packed(visit.response.request.url) if visit.stored is not None else b""
    return found if len(found) <= _STORED_BYTES else b""


def _links_end(links: bytes) -> int:
    """Returns where the links of a version end."""
    head = np.frombuffer(links, _HEAD, 1)[0]
    return _HEAD.itemsize + _NEAR * int(head["near"]) + _FAR * int(head["far"])


def validators_of(text: bytes) -> tuple[str, str]:
    etag, modified, _ = text.split(b"\n", 2)
    return etag.decode("latin-1"), modified.decode("latin-1")


def earlier_links(heap: TextHeap, rows: Rows) -> EarlierLinks:
    """Returns the links that these pages (VISITED rows) had at their last visit with content."""
    known = np.flatnonzero(rows["validators"] != np.uint64(NO_TEXT))
    parts = [text.split(b"\n", 2)[2] for text in heap.read(rows["validators"][known])]
    head = np.frombuffer(b"".join(part[: _HEAD.itemsize] for part in parts), _HEAD)
    near, far = head["near"].astype(np.int64), head["far"].astype(np.int64)
    cuts = [_HEAD.itemsize + _NEAR * count for count in near.tolist()]
    ends = [cut + _FAR * count for cut, count in zip(cuts, far.tolist(), strict=True)]
    low = np.zeros((int(near.sum()), 8), np.uint8)
    local = b"".join(part[_HEAD.itemsize : cut] for part, cut in zip(parts, cuts, strict=True))
    low[:, :_NEAR] = np.frombuffer(local, np.uint8).reshape(-1, _NEAR)
    host = rows["key"][known] >> HOST_SHIFT << HOST_SHIFT
    targets = np.zeros(int(near.sum() + far.sum()), np.uint64)
    starts = np.cumsum(near + far) - near - far
    targets[spans(starts, near)] = low.view("<u8").ravel() | np.repeat(host, near)
    targets[spans(starts + near, far)] = np.frombuffer(
        b"".join(part[cut:end] for part, cut, end in zip(parts, cuts, ends, strict=True)), "<u8"
    )
    degree, is_cut = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    degree[known], is_cut[known] = head["degree"], head["cut"].astype(np.bool_)
    return EarlierLinks(np.repeat(known, near + far), targets, degree, is_cut)


def compared_links(before: EarlierLinks, source: Integers, target: U64) -> tuple[Bools, Bools]:
    """Returns which links of the new version (distinct per page) are new, and which of the version before are gone."""
    if not len(before.source):  # as in every round of pages that are visited for the first time
        return ~before.is_cut[source], np.zeros(0, np.bool_)
    sources = np.concatenate((before.source, source))
    targets = np.concatenate((before.target, target))
    order = np.lexsort((targets, sources))
    same = (np.diff(sources[order]) == 0) & (np.diff(targets[order]) == 0)
    in_both = np.zeros(len(order), np.bool_)
    in_both[order[:-1][same]] = in_both[order[1:][same]] = True
    old = len(before.source)
    # Of a page with more links than we remember, a link that we do not remember may be an old one.
    return ~in_both[old:] & ~before.is_cut[source], ~in_both[:old]


def vanished_links(targets: U64) -> Contributions:
    """Returns what pages lose that are no longer linked to: a hit, and nothing else. They keep their cash."""
    return Contributions.of(targets, [""] * len(targets), hits=-1, depth=255, hops=255)
