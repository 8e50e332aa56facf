"""This module compares texts by what they say: MinHash signatures find near-duplicates among many, simhash is one
number for each text.

A text is the set of its runs of three words. Signatures of two texts agree in about the share of runs that both have
(Broder 1997). A simhash has 64 bits, of which few differ between near-duplicates. Each is one bit of a hash of the
signature (Li and König 2010) and not the vote of all runs (Charikar 2002): of that, half as many bits differ again
where the texts are nearly the same, and as many where they are not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from gossamer.arrays import U32, U64, Indices
from gossamer.web.answer import Answer
from gossamer.web.main_text import check_extractor

HASHES = 128  # of a signature
NEAR = 0.62  # of the hashes agree: below that texts are different. 5 % of the words changed leave about 0.74
SIMHASH_BITS = 4  # that may differ
LEAST_RUNS = 20  # of a text that can repeat another: "Not found" is no duplicate
_ROWS = 3  # hashes of a band: texts that agree in one band are compared
_BLOCKS = (11, 11, 11, 11, 10, 10)  # bits of a simhash: of six blocks, four bits that differ leave two as they are
_NEIGHBOURS = 256  # with which a simhash is compared that has the same two blocks: more are one large group
_RUN = 3  # words
_WORD = re.compile(r"\w{1,64}")  # a longer one is several
_REMEMBERED = 100_000  # words whose hashes are kept
_AT_ONCE = 1 << 12  # runs that are hashed at a time: texts may be large
_SIGNED_BYTES = 1 << 19  # of a page: the main text of a larger one is not looked for while crawling
_URL_BITS = 40  # of a page's key, besides those of its host
_MIX: U64 = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_CHANCE = np.random.default_rng(1997)
_FACTORS: U64 = _CHANCE.integers(0, 1 << 63, HASHES, np.uint64) * np.uint64(2) + np.uint64(1)
_TERMS: U64 = _CHANCE.integers(0, 1 << 63, HASHES, np.uint64)


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


def minhash(runs: U64, hashes: int = HASHES) -> U32:
    """Returns a signature: the least of each of many hashes."""
    if not len(runs):
        return np.zeros(hashes, np.uint32)
    least: U64 = np.full(hashes, np.iinfo(np.uint64).max, np.uint64)
    for start in range(0, len(runs), _AT_ONCE):
        hashed = runs[start : start + _AT_ONCE, None] * _FACTORS[:hashes] + _TERMS[:hashes]
        np.minimum(least, hashed.min(axis=0), out=least)
    return (least >> np.uint64(32)).astype(np.uint32)


def simhash(runs: U64) -> int:
    """Returns a number that has the last bit of each of 64 hashes of the signature."""
    bits = (minhash(runs, 64) & np.uint32(1)).astype(np.uint8)
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


class Simhashes:
    """`Simhashes` computes the simhash of pages while they are crawled, of a share of them: of each page always, or
    never, so that two of them can be compared at every visit."""

    def __init__(self, share: float) -> None:
        check_extractor()
        self._below, self._words = share * (1 << _URL_BITS), Words()

    def of(self, key: int, answer: Answer) -> int | None:
        """Returns that of the main text; 0 if it has hardly any, None if nobody looked."""
        if key & ((1 << _URL_BITS) - 1) >= self._below or len(answer.body) > _SIGNED_BYTES:
            return None
        with suppress(Exception):  # what the library fails to read has none; it must not end the crawl
            runs = self._words.runs(answer.main_text() or "")
            return simhash(runs) if len(runs) >= LEAST_RUNS else 0
        return None


def groups(signatures: NDArray[Any], near: float = NEAR) -> Sequence[int]:
    """Returns for each text the first one that it nearly repeats, itself if there is none. Texts that agree in one of
    the bands are compared with the first of their band: so the time is that of sorting."""
    return _joined(len(signatures), _in_bands(signatures, near))


def groups_of(simhashes: U64) -> Sequence[int]:
    """Returns the same by simhashes of which at most four bits differ."""
    values, firsts, where = np.unique(simhashes, return_index=True, return_inverse=True)
    found = _joined(len(values), _in_blocks(values))
    least = firsts.copy()
    np.minimum.at(least, found, firsts)
    return list(map(int, least[np.array(found, np.int64)[where]]))


def _joined(count: int, pairs: Iterable[tuple[Indices, Indices]]) -> Sequence[int]:
    """Returns for each of so many texts the first one of its group, which pairs join."""
    parent = list(range(count))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for some, others in pairs:
        for i, j in zip(some.tolist(), others.tolist(), strict=True):
            a, b = root(i), root(j)
            if a != b:
                parent[max(a, b)] = min(a, b)
    return [root(i) for i in range(count)]


def _in_blocks(values: U64) -> Iterator[tuple[Indices, Indices]]:
    """Yields pairs of simhashes, each of which is there once. Those that agree in two blocks are compared."""
    ends = np.cumsum(_BLOCKS).tolist()
    masks = [((1 << size) - 1) << (end - size) for size, end in zip(_BLOCKS, ends, strict=True)]
    for one, other in combinations(masks, 2):
        part = values & np.uint64(one | other)
        order = np.argsort(part, kind="stable")
        places = np.arange(len(order))  # whose next neighbours are still in the same block
        for step in range(1, _NEIGHBOURS):
            places = places[places + step < len(order)]
            places = places[part[order[places]] == part[order[places + step]]]
            if not len(places):
                break
            a, b = order[places], order[places + step]
            near = np.bitwise_count(values[a] ^ values[b]) <= SIMHASH_BITS
            yield a[near], b[near]


def _in_bands(signatures: NDArray[Any], near: float) -> Iterator[tuple[Indices, Indices]]:
    """Yields pairs of texts that agree in so many of the hashes."""
    for band in range(0, HASHES - _ROWS + 1, _ROWS):
        rows = np.ascontiguousarray(signatures[:, band : band + _ROWS])
        order = np.lexsort((np.arange(len(rows)), *rows.T))
        same = (rows[order][1:] == rows[order][:-1]).all(axis=1)
        starts = np.flatnonzero(np.r_[True, ~same])
        first = order[np.repeat(starts, np.diff(np.r_[starts, len(order)]))]
        agree = (signatures[order] == signatures[first]).mean(axis=1) >= near
        agree &= order != first
        yield order[agree], first[agree]
