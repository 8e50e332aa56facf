"""This module encodes what sites send each other in few bytes. Links: URLs as sorted text, known pages as sorted keys,
cash rounded to two bytes. Entries of the host map: hosts of one site as sorted keys.

A part is two numbers, of URLs and of keys, and blocks, each packed in the way that takes least: the low bytes of the
keys' differences, which are random; their high ones; the low bytes of the cash, and the high ones; all other columns,
of which most are zero or small; the text. Keys of pages that are sent as text follow from it. Who found the link is
not sent: between sites nobody asks.
"""

import bz2
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from gossamer.arrays import I64, U16, Bools, Integers, Rows
from gossamer.columns import HOST_BITS, Contributions
from gossamer.crawl.inbox import PART_BYTES
from gossamer.errors import Unreadable
from gossamer.placement.hostmap import ENTRY
from gossamer.web.url import page_keys

MANTISSA = 11  # bits: cash is rounded down by less than a five-hundredth
_RANDOM = 4  # bytes of a key that differences leave as they are
_KEY_BYTES = HOST_BITS // 8  # of a host's key
_LEVEL = 12
_LONGEST = 63  # bits of a number
MOST_BYTES = 1 << 26  # of a part, unpacked: whoever sends more wants to fill our memory
MOST_ROWS = 1 << 19


def rounded(cash: I64) -> I64:
    """Returns cash as it will arrive: never more."""
    return _unpacked(_packed(cash))


def encode(columns: Contributions, is_known: Bools, limit: int = PART_BYTES) -> list[bytes]:
    """Returns parts below the limit, and far below what `decode` takes. Cash must be `rounded`; pages that are known
    there need no text."""
    count = len(columns.key)
    if not count:
        return []
    if count == 1 or (count <= MOST_ROWS // 4 and sum(map(len, columns.url)) <= MOST_BYTES // 4):
        data = _encoded(columns, is_known)
        if len(data) < limit or count == 1:
            return [data]
    halves = np.array_split(np.arange(count), 2)
    return [part for half in halves for part in encode(columns.take(half), is_known[half], limit)]


def decode(data: bytes) -> Contributions:
    """Decodes what `encode` made; anything else is an error. Known pages come without their URLs."""
    rows = _Reader(data)
    texts, keys = rows.number(), rows.number()
    count = texts + keys
    if count > MOST_ROWS:
        raise Unreadable("it says that it has more rows than it can have")
    low, high = rows.block(), rows.block()
    steps = _joined(low + high, 8, keys)
    cash = _joined(rows.block() + rows.block(), 2, count)
    rest, at = rows.block(), 4 * count
    hits = _joined(rest[:at], 4, count)
    depth, hops = np.frombuffer(rest[at:], np.uint8).reshape(2, count)
    text = rows.block() if texts else b""
    if (text.count(b"\n") + 1 if texts else 0) != texts or not rows.is_at_end:
        raise Unreadable("it does not have the rows that it says it has")
    urls = text.decode().split("\n") if texts else []
    return Contributions(
        np.concatenate((page_keys(urls), np.cumsum(steps, dtype=np.uint64))),
        _unpacked(cash),
        hits.astype(np.int32),
        depth.copy(),
        hops.copy(),
        np.zeros(count, np.uint64),
        urls + [""] * keys,
    )


def _encoded(columns: Contributions, is_known: Bools) -> bytes:
    new, known = np.flatnonzero(~is_known), np.flatnonzero(is_known)
    new = np.array(sorted(new.tolist(), key=lambda row: columns.url[row]), np.intp)
    known = known[np.argsort(columns.key[known])]
    order = np.concatenate((new, known))
    steps = _planes(np.diff(columns.key[known], prepend=np.uint64(0)), "<u8")
    cash = _planes(_packed(columns.cash[order]), "<u2")
    rest = [*_planes(columns.hits[order], "<u4"), columns.depth[order].tobytes(), columns.hops[order].tobytes()]
    blocks = [steps[:_RANDOM], steps[_RANDOM:], cash[:1], cash[1:], rest]
    parts = [_number(len(new)), _number(len(known)), *(_block(b"".join(planes)) for planes in blocks)]
    return b"".join(parts) + (_text([columns.url[row] for row in new.tolist()]) if len(new) else b"")


# Entries of the host map


def encode_entries(entries: Rows) -> bytes:
    """Encodes entries as runs of one site and one turn. In a run only the differences of the sorted keys are sent: all
    low bytes, as they are, all middle ones, all high ones. So no message has more entries than bytes."""
    entries = entries[np.lexsort((entries["host"], entries["turn"], entries["site"]))]
    of_run = entries[["site", "turn"]]
    starts = np.flatnonzero(np.r_[True, of_run[1:] != of_run[:-1]][: len(entries)])
    counts = np.diff(starts, append=len(entries))
    steps = np.diff(entries["host"], prepend=np.uint32(0))
    steps[starts] = entries["host"][starts]
    numbers = [len(starts)]
    for row, count in zip(entries[starts].tolist(), counts.tolist(), strict=True):
        numbers += [row[1], row[2], count]
    low, *others = _planes(steps, "<u4")[:_KEY_BYTES]
    return b"".join([*map(_number, numbers), low, *map(_block, others)])


def decode_entries(data: bytes) -> Rows:
    """Decodes what `encode_entries` made; anything else is an error."""
    rows = _Reader(data)
    runs = [(rows.number(), rows.number(), rows.number()) for _ in range(rows.number())]
    sites, turns, counts = (list(column) for column in zip(*runs, strict=True)) if runs else ([], [], [])
    count = sum(counts)
    if max(sites, default=0) > 0xFF or max(turns, default=0) > 0xFFFF or 0 in counts:
        raise Unreadable("it speaks of sites or turns that cannot be")
    planes = rows.plain(count) + b"".join(rows.block() for _ in range(_KEY_BYTES - 1))
    if len(planes) != _KEY_BYTES * count or not rows.is_at_end:
        raise Unreadable("it does not have the entries that it says it has")
    total = np.cumsum(_joined(planes + bytes(count), 4, count), dtype=np.int64)
    before = np.concatenate(([0], total))[np.cumsum([0, *counts])[:-1]]  # where each run begins
    entries = np.zeros(count, ENTRY)
    entries["host"] = total - np.repeat(before, counts)
    entries["site"], entries["turn"] = np.repeat(sites, counts), np.repeat(turns, counts)
    return entries


# Blocks


class _Reader:
    """`_Reader` takes a part apart, from its beginning. All blocks together have at most MOST_BYTES."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._left = data, 0, MOST_BYTES

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > _LONGEST:
                raise Unreadable("a number in it has no end")

    def plain(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise Unreadable(_TOO_LONG)
        self._at += size
        return data

    def block(self) -> bytes:
        size, how = divmod(self.number(), len(_HOW))
        data = self._data[self._at : self._at + size]
        self._at += size
        found = _HOW[how](data, self._left)
        self._left -= len(found)
        return found

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)


def _number(value: int) -> bytes:
    """Encodes a number as seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _block(data: bytes, front: bytes | None = None) -> bytes:
    """Packs data in the way that takes least. `front` is the same text in another form."""
    ways = [data, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress(data)]
    if front is not None:
        ways.append(bz2.compress(front))
    how = min(range(len(ways)), key=lambda way: len(ways[way]))
    return _number(len(ways[how]) * len(_HOW) + how) + ways[how]


def _text(urls: list[str]) -> bytes:
    return _block("\n".join(urls).encode(), _fronted(urls))


def _fronted(urls: list[str]) -> bytes:
    """Front-codes URLs: of each only what the one before it does not begin with. A byte that is not ASCII says how much
    that is, and URLs are ASCII."""
    found, before = bytearray(), ""
    for url in urls:
        ends = (place for place, (one, other) in enumerate(zip(before, url, strict=False)) if one != other)
        shared = min(127, next(ends, min(len(before), len(url))))
        found.append(128 + shared)
        found += url[shared:].encode()
        before = url
    return bytes(found)


def _unfronted(data: bytes, most: int) -> bytes:
    """Undoes that. A byte can stand for 127, again and again: the sum is looked at before anything is put together."""
    found, before = list[bytes](), b""
    for match in _FRONTED.finditer(data):
        before = before[: match[1][0] - 128] + match[2]
        most -= len(before) + 1
        if most < -1 or len(found) == MOST_ROWS:
            raise Unreadable(_TOO_LONG)
        found.append(before)
    return b"\n".join(found)


_FRONTED = re.compile(rb"([\x80-\xff])([\x00-\x7f]*)")
_TOO_LONG = "a block in it is cut off, or longer than it can be"


def _plain(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise Unreadable(_TOO_LONG)
    return data


def _zstd(data: bytes, most: int) -> bytes:
    if zstandard.frame_content_size(data) > most:  # so much is allocated before anything is read
        raise Unreadable(_TOO_LONG)
    return zstandard.ZstdDecompressor().decompress(data, most)


def _bz2(data: bytes, most: int) -> bytes:
    reader = bz2.BZ2Decompressor()
    found = reader.decompress(data, most)
    if not reader.eof or reader.unused_data:
        raise Unreadable(_TOO_LONG)
    return _unfronted(found, most)


_HOW: tuple[Callable[[bytes, int], bytes], ...] = (_plain, _zstd, _bz2)


# Columns


def _planes(values: Integers, dtype: str) -> list[bytes]:
    """Returns first all low bytes, then all second ones, and so on: the high ones are alike."""
    width = np.dtype(dtype).itemsize
    planes = np.ascontiguousarray(values.astype(dtype).view(np.uint8).reshape(-1, width).T)
    return [plane.tobytes() for plane in planes]


def _joined(planes: bytes, width: int, count: int) -> npt.NDArray[Any]:
    bytes_ = np.frombuffer(planes, np.uint8).reshape(width, count)
    return np.ascontiguousarray(bytes_.T).view(f"<u{width}").reshape(count)


def _packed(cash: I64) -> U16:
    """Packs cash as a number of MANTISSA bits, shifted: five bits say how far, in steps of two."""
    cash = np.maximum(cash, 0)
    bits = np.floor(np.log2(np.maximum(cash, 1).astype(np.float64))).astype(np.int64) + 1  # too many, never too few
    shift = (np.maximum(bits - MANTISSA, 0) + 1) // 2 * 2
    packed: U16 = ((shift // 2) << MANTISSA | cash >> shift).astype(np.uint16)
    return packed


def _unpacked(packed: U16) -> I64:
    wide = packed.astype(np.int64)
    mantissa, shift = wide & ((1 << MANTISSA) - 1), wide >> MANTISSA << 1
    if (np.ldexp(mantissa.astype(np.float64), shift.astype(np.int32)) >= 2.0**63).any():
        raise Unreadable("it has more cash than there is")
    return mantissa << shift
