"""This module packs what the index keeps of a page's version until the next one comes: validators and links, in one
text.

The links are those that we follow: hits count them, and cash goes along them. When the page is visited again, the
links of both versions are compared: what stayed does not count again, what vanished no longer counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import I64, U64, Bools, Integers, Rows
from gossamer.columns import NO_TEXT, Contributions
from gossamer.frontier.pages import HOST_SHIFT, host_of_key
from gossamer.frontier.sorted_runs import spans
from gossamer.frontier.text_heap import MAX_TEXT, TextHeap

_VALIDATOR = 1024  # longest ETag we send back
_NEAR, _FAR = 5, 8  # bytes of a link: on the page's own host 40 bits tell pages apart
_HEAD = np.dtype([("degree", "<u4"), ("near", "<u4"), ("far", "<u4"), ("cut", "u1")])
_ROOM = MAX_TEXT - 2 * _VALIDATOR - 2 - _HEAD.itemsize


class Earlier(NamedTuple):
    """`Earlier` has the links of versions that were current until now, one row after the other."""

    source: I64  # index of the page among those asked for
    target: U64
    degree: I64  # per page: all its links, also those that are not followed
    is_cut: Bools  # per page: it had more than we remember


def pack(keys: U64, validators: Sequence[tuple[str, str]], source: Integers, target: U64, degree: I64) -> list[bytes]:
    """Returns a text per page: its validators, its links and how many there are in all. `source` indexes `keys`."""
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
        )
    return texts


def _packed_validators(etag: str, last_modified: str) -> bytes:
    """Packs validators. Header values come as octets in text and never contain a line end; one that is too long to be
    sent back is not kept."""
    etag, last_modified = (value if len(value) <= _VALIDATOR else "" for value in (etag, last_modified))
    return f"{etag}\n{last_modified}\n".encode("latin-1", "replace")


def renewed(text: bytes, etag: str, last_modified: str) -> bytes:
    """Returns the same links under other validators; an empty text has none."""
    links = text.split(b"\n", 2)[2] if text else bytes(_HEAD.itemsize)
    return _packed_validators(etag, last_modified) + links


def validators(text: bytes) -> tuple[str, str]:
    etag, modified, _ = text.split(b"\n", 2)
    return etag.decode("latin-1"), modified.decode("latin-1")


def earlier(heap: TextHeap, rows: Rows) -> Earlier:
    """Returns the links that these pages (VISITED rows) had at their last visit with content."""
    known = np.flatnonzero(rows["validators"] != np.uint64(NO_TEXT))
    parts = [text.split(b"\n", 2)[2] for text in heap.read(rows["validators"][known])]
    head = np.frombuffer(b"".join(part[: _HEAD.itemsize] for part in parts), _HEAD)
    near, far = head["near"].astype(np.int64), head["far"].astype(np.int64)
    cuts = [_HEAD.itemsize + _NEAR * count for count in near.tolist()]
    low = np.zeros((int(near.sum()), 8), np.uint8)
    local = b"".join(part[_HEAD.itemsize : cut] for part, cut in zip(parts, cuts, strict=True))
    low[:, :_NEAR] = np.frombuffer(local, np.uint8).reshape(-1, _NEAR)
    host = rows["key"][known] >> HOST_SHIFT << HOST_SHIFT
    targets = np.zeros(int(near.sum() + far.sum()), np.uint64)
    starts = np.cumsum(near + far) - near - far
    targets[spans(starts, near)] = low.view("<u8").ravel() | np.repeat(host, near)
    targets[spans(starts + near, far)] = np.frombuffer(
        b"".join(part[cut:] for part, cut in zip(parts, cuts, strict=True)), "<u8"
    )
    degree, is_cut = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    degree[known], is_cut[known] = head["degree"], head["cut"].astype(np.bool_)
    return Earlier(np.repeat(known, near + far), targets, degree, is_cut)


def compared(before: Earlier, source: Integers, target: U64) -> tuple[Bools, Bools]:
    """Returns which links of the new version (distinct per page) are new, and which of the version before are gone."""
    sources = np.concatenate((before.source, source))
    targets = np.concatenate((before.target, target))
    order = np.lexsort((targets, sources))
    same = (np.diff(sources[order]) == 0) & (np.diff(targets[order]) == 0)
    in_both = np.zeros(len(order), np.bool_)
    in_both[order[:-1][same]] = in_both[order[1:][same]] = True
    old = len(before.source)
    # Of a page with more links than we remember, a link that we do not remember may be an old one.
    return ~in_both[old:] & ~before.is_cut[source], ~in_both[:old]


def vanished(targets: U64) -> Contributions:
    """Returns what pages lose that are no longer linked to: a hit, and nothing else. They keep their cash."""
    count = len(targets)
    far = np.full(count, 255, np.uint8)
    nothing = np.zeros(count, np.int64)
    return Contributions(
        targets, nothing, np.full(count, -1, np.int32), far, far, nothing.astype(np.uint64), [""] * count
    )
