"""`History` joins a round's visits with what was known of their pages: it alone reads and writes VISITED rows at the
end of a round."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossamer.arrays import I64, U64, Bools, Rows
from gossamer.columns import NO_TEXT, Contributions, Outcome
from gossamer.crawl import link_diff
from gossamer.crawl.opening import Revisits
from gossamer.crawl.reader import Visit
from gossamer.crawl.update import Links, Policy
from gossamer.frontier.pages import PageIndex

_NOT_MODIFIED = 304


@dataclass(frozen=True)
class History:
    """`History` has a round's visits, and what was known of their pages before; one row each."""

    visits: Sequence[Visit]
    found: Bools
    rows: Rows  # VISITED
    is_changed: Bools  # the visit brought a version
    is_unchanged: Bools
    links: link_diff.Earlier

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
            visits,
            found,
            rows,
            outcomes == Outcome.OK,
            outcomes == Outcome.UNCHANGED,
            link_diff.earlier(index.heap, rows),
        )

    def joined(self, links: Links) -> tuple[Links, Contributions]:
        """Returns the round's links with those of unchanged pages, which pass cash on but do not count again; and what
        pages lose that are no longer linked to."""
        before = self.links
        keeps = np.fromiter((visit.next.policy == Policy.KEEP for visit in self.visits), np.bool_, len(self.visits))
        stays, goes = self.is_unchanged[before.source], ~(self.is_unchanged | keeps)[before.source]
        count, followed = len(links.target), np.flatnonzero(links.followed)
        ended = before._replace(source=before.source[goes], target=before.target[goes])
        is_new, is_gone = link_diff.compared(ended, links.source[followed], links.target[followed])
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
        )
        return joined, link_diff.vanished(ended.target[is_gone])

    def _unfollowed(self) -> tuple[I64, U64]:
        """Returns the other links of unchanged pages: we only know how many, and so they stand for themselves."""
        listed = np.bincount(self.links.source, minlength=len(self.visits))
        rest = np.where(self.is_unchanged, np.maximum(self.links.degree - listed, 0), 0)
        again = np.repeat(np.arange(len(self.visits)), rest)
        return again, self.rows["key"][again]

    def write(self, index: PageIndex, links: Links, wire_bytes: I64, revisits: Revisits | None) -> None:
        """Writes the rows after the round. `links` are its own, with `followed` as finally decided."""
        rows, answered = self.rows.copy(), self.is_changed | self.is_unchanged
        times = np.fromiter((visit.response.started_s for visit in self.visits), np.float64, len(self.visits))
        changed = self.is_changed
        again = np.flatnonzero(self.found & answered)
        if revisits is not None and len(again):
            known = rows[again]
            revisits.learn(known, times[again], changed[again])
            rows[again] = known
        rows["first_s"] = np.where(self.found, rows["first_s"], times)
        rows["last_s"] = np.where(answered, times, rows["last_s"])
        rows["changed_s"] = np.where(changed, times, rows["changed_s"])
        rows["visits"] = np.minimum(rows["visits"].astype(np.int64) + answered, 0xFFFF)
        rows["changes"] = np.minimum(rows["changes"].astype(np.int64) + (changed & self.found), 0xFFFF)
        digests = np.fromiter((visit.digest for visit in self.visits), np.uint64, len(self.visits))
        rows["digest"] = np.where(changed, digests, rows["digest"])
        rows["wire_bytes"] = np.where(changed, np.minimum(wire_bytes, 0xFFFFFFFF), rows["wire_bytes"])
        over = np.fromiter((visit.next.policy != Policy.KEEP for visit in self.visits), np.bool_, len(self.visits))
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
        kept |= np.fromiter((bool(v.etag or v.last_modified) for v in self.visits), np.bool_, len(self.visits))
        places = np.flatnonzero(kept & self.is_changed)
        if not len(places):
            return
        validators = [(self.visits[place].etag, self.visits[place].last_modified) for place in places.tolist()]
        source = np.searchsorted(places, links.source[follows])
        texts = link_diff.pack(rows["key"][places], validators, source, links.target[follows], degree[places])
        rows["validators"][places] = index.heap.append(texts)

    def _renew(self, index: PageIndex, rows: Rows) -> None:
        """Replaces the validators that we sent by those of a 304 (RFC 9111 section 4.3.4); the others stay."""
        renewed: dict[int, tuple[str, str]] = {}
        for place in np.flatnonzero(self.is_unchanged).tolist():
            visit = self.visits[place]
            request = visit.response.request
            sent = (request.etag, request.last_modified)
            now = (visit.etag or request.etag, visit.last_modified or request.last_modified)
            if visit.response.http_status == _NOT_MODIFIED and now != sent:
                renewed[place] = now
        places = np.array([*renewed], np.intp)
        known = rows["validators"][places] != np.uint64(NO_TEXT)
        texts = dict(zip(places[known].tolist(), index.heap.read(rows["validators"][places[known]]), strict=True))
        packed = [link_diff.renewed(texts.get(place, b""), *pair) for place, pair in renewed.items()]
        rows["validators"][places] = index.heap.append(packed)
