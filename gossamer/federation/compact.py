"""Links between sites in few bytes: URLs as sorted text, known pages as sorted keys, cash rounded to two bytes.

A part is two blocks, each a zstd frame: first the columns, of which most are zero or small, then the text. Keys of
pages that are sent as text follow from it. Who found the link is not said: between sites nobody asks.
"""

import struct

import numpy as np
import numpy.typing as npt
import zstandard

from gossamer.columns import Contributions
from gossamer.federation.exchange import PART_BYTES
from gossamer.web.url import page_keys

I8 = npt.NDArray[np.int64]
U2 = npt.NDArray[np.uint16]

MANTISSA = 11  # bits: cash is rounded down by less than a five-hundredth
_HEAD = struct.Struct("<III")  # rows as text, rows as keys, length of the first block
_LEVEL = 12


def rounded(cash: I8) -> I8:
    """Cash as it will arrive: never more."""
    return _unpacked(_packed(cash))


def encode(columns: Contributions, is_known: npt.NDArray[np.bool_], limit: int = PART_BYTES) -> list[bytes]:
    """Parts below the limit. Cash must be `rounded`; those that are known there need no text."""
    count = len(columns.key)
    if not count:
        return []
    data = _encoded(columns, is_known)
    if len(data) < limit or count == 1:
        return [data]
    halves = np.array_split(np.arange(count), 2)
    return [part for half in halves for part in encode(columns.take(half), is_known[half], limit)]


def decode(data: bytes) -> Contributions:
    """Known pages come without their URLs."""
    texts, keys, size = _HEAD.unpack_from(data)
    body = zstandard.decompress(data[_HEAD.size : _HEAD.size + size])
    text = zstandard.decompress(data[_HEAD.size + size :]).decode()
    urls = text.split("\n") if texts else []
    count, at = texts + keys, 0
    found = {}
    for name, dtype, length in (
        ("key", "<u8", keys),
        ("cash", "<u2", count),
        ("hits", "<u4", count),
        ("depth", "u1", count),
        ("hops", "u1", count),
    ):
        width = np.dtype(dtype).itemsize
        planes = np.frombuffer(body, np.uint8, width * length, at).reshape(width, length)
        found[name] = np.ascontiguousarray(planes.T).view(dtype).reshape(length)
        at += width * length
    known = np.cumsum(found["key"], dtype=np.uint64)
    return Contributions(
        np.concatenate((page_keys(urls), known)),
        _unpacked(found["cash"]),
        found["hits"].astype(np.int32),
        found["depth"].copy(),
        found["hops"].copy(),
        np.zeros(count, np.uint64),
        urls + [""] * keys,
    )


def _encoded(columns: Contributions, is_known: npt.NDArray[np.bool_]) -> bytes:
    new, known = np.flatnonzero(~is_known), np.flatnonzero(is_known)
    new = np.array(sorted(new.tolist(), key=lambda row: columns.url[row]), np.intp)
    known = known[np.argsort(columns.key[known])]
    order = np.concatenate((new, known))
    steps = np.diff(columns.key[known], prepend=np.uint64(0))
    planes = [_planes(steps, "<u8"), _planes(_packed(columns.cash[order]), "<u2"), _planes(columns.hits[order], "<u4")]
    planes += [columns.depth[order].tobytes(), columns.hops[order].tobytes()]
    squeeze = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False, write_content_size=True)
    body = squeeze.compress(b"".join(planes))
    text = squeeze.compress("\n".join(columns.url[row] for row in new.tolist()).encode())
    return _HEAD.pack(len(new), len(known), len(body)) + body + text


def _planes(values: npt.NDArray[np.integer], dtype: str) -> bytes:
    """First all low bytes, then all second ones, and so on: the high ones are alike."""
    width = np.dtype(dtype).itemsize
    return np.ascontiguousarray(values.astype(dtype).view(np.uint8).reshape(-1, width).T).tobytes()


def _packed(cash: I8) -> U2:
    """As a number of MANTISSA bits, shifted: five bits say how far, in steps of two."""
    cash = np.maximum(cash, 0)
    bits = np.floor(np.log2(np.maximum(cash, 1).astype(np.float64))).astype(np.int64) + 1  # too many, never too few
    shift = (np.maximum(bits - MANTISSA, 0) + 1) // 2 * 2
    packed: U2 = ((shift // 2) << MANTISSA | cash >> shift).astype(np.uint16)
    return packed


def _unpacked(packed: U2) -> I8:
    wide = packed.astype(np.int64)
    return (wide & ((1 << MANTISSA) - 1)) << (wide >> MANTISSA << 1)
