"""This module compares texts by what they say: MinHash signatures find near-duplicates among many, simhash is one
number for each text.

A text is the set of its runs of three words. Signatures of two texts agree in about the share of runs that both have
(Broder 1997). Simhash (Charikar 2002) has 64 bits, of which few differ between near-duplicates.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from gossamer.arrays import U32, U64

HASHES = 128  # of a signature
NEAR = 0.62  # of the hashes agree: below that texts are different. 5 % of the words changed leave about 0.74
SIMHASH_BITS = 8  # that may differ
_ROWS = 3  # hashes of a band: texts that agree in one band are compared
_RUN = 3  # words
_WORD = re.compile(r"\w+")
_REMEMBERED = 200_000  # words whose hashes are kept
_MIX: U64 = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_CHANCE = np.random.default_rng(1997)
_FACTORS: U64 = _CHANCE.integers(0, 1 << 63, HASHES, np.uint64) * np.uint64(2) + np.uint64(1)
_TERMS: U64 = _CHANCE.integers(0, 1 << 63, HASHES, np.uint64)
_SHIFTS: U64 = np.arange(64, dtype=np.uint64)


class Words:
    """`Words` makes numbers of texts. It remembers the hashes of words, as texts share most of them."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def runs(self, text: str) -> U64:
        """Returns the hashes of all runs of three words, each once; a shorter text is one run."""
        words = _WORD.findall(text.lower())
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        for word in set(words):
            if word not in self._known:
                self._known[word] = xxh3_64_intdigest(word.encode("utf-8", "replace"))
        hashes: U64 = np.fromiter((self._known[word] for word in words), np.uint64, len(words))
        count = max(len(hashes) - _RUN + 1, 1 if len(hashes) else 0)
        runs: U64 = np.zeros(count, np.uint64)
        for place in range(min(_RUN, len(hashes))):
            # The place counts: "a b" is not "b a".
            runs = (runs ^ hashes[place : place + count]) * _MIX[place]
            runs ^= runs >> np.uint64(29)
        found: U64 = np.unique(runs)
        return found


def minhash(runs: U64) -> U32:
    """Returns a signature: the least of each of many hashes."""
    if not len(runs):
        return np.zeros(HASHES, np.uint32)
    hashed = (runs[:, None] * _FACTORS + _TERMS) >> np.uint64(32)
    found: U32 = hashed.min(axis=0).astype(np.uint32)
    return found


def simhash(runs: U64) -> int:
    """Returns a number of which each bit is what most of the runs have there."""
    if not len(runs):
        return 0
    bits = (runs[:, None] >> _SHIFTS) & np.uint64(1)
    ones = bits.sum(axis=0, dtype=np.int64) * 2 > len(runs)
    return int((ones.astype(np.uint64) << _SHIFTS).sum())


def groups(signatures: NDArray[Any], near: float = NEAR) -> Sequence[int]:
    """Returns for each text the first one that it nearly repeats, itself if there is none. Texts that agree in one of
    the bands are compared with the first of their band: so the time is that of sorting."""
    count = len(signatures)
    parent = list(range(count))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for band in range(0, HASHES - _ROWS + 1, _ROWS):
        rows = np.ascontiguousarray(signatures[:, band : band + _ROWS])
        order = np.lexsort((np.arange(count), *rows.T))
        same = (rows[order][1:] == rows[order][:-1]).all(axis=1)
        starts = np.flatnonzero(np.r_[True, ~same])
        first = order[np.repeat(starts, np.diff(np.r_[starts, count]))]
        agree = (signatures[order] == signatures[first]).mean(axis=1) >= near
        agree &= order != first
        for i, j in zip(order[agree].tolist(), first[agree].tolist(), strict=True):
            a, b = root(i), root(j)
            if a != b:
                parent[max(a, b)] = min(a, b)
    return [root(i) for i in range(count)]
