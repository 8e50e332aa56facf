"""`DigestCache` finds content that was stored before, so that it is not stored twice: a bounded cache of digests.

Digests are written in base 32; `letters` and `octets` take a fraction of the time of Python's module base64.
"""

from typing import Any

import numpy as np

_SHA1 = 20  # bytes
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [one + other for one in _LETTERS for other in _LETTERS]
_DIGITS = str.maketrans(_LETTERS, "0123456789abcdefghijklmnopqrstuv")  # those of `int`


class DigestCache:
    """The cache is direct-mapped: a digest has one slot, and the newest wins it. An entry takes 44 bytes."""

    def __init__(self, entries: int) -> None:
        # Zeros of NumPy take no memory until they are written, and views of them are faster to index.
        self._digests = np.zeros(entries, np.uint64).data
        self._keys = np.zeros(entries, np.uint64).data
        self._times: Any = np.zeros(entries, np.uint64).data
        self._stored: Any = np.zeros(entries * _SHA1, np.uint8).data

    def get(self, digest: int) -> tuple[int, int, str] | None:
        """Returns the page's key, and of the record that has the content its time in ms and WARC-Payload-Digest."""
        if not len(self._digests):
            return None
        slot = digest % len(self._digests)
        if self._digests[slot] != digest:
            return None
        stored = self._stored[slot * _SHA1 : (slot + 1) * _SHA1]
        return self._keys[slot], self._times[slot], letters(stored)

    def put(self, digest: int, key: int, time_ms: int, stored: str) -> None:
        if len(self._digests):
            slot = digest % len(self._digests)
            self._digests[slot], self._keys[slot], self._times[slot] = digest, key, time_ms
            self._stored[slot * _SHA1 : (slot + 1) * _SHA1] = octets(stored)


def letters(digest: bytes) -> str:
    """Returns the 32 letters of a SHA-1."""
    number = int.from_bytes(digest)
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(150, -1, -10)])


def octets(letters: str) -> bytes:
    """Returns the 20 bytes again."""
    return int(letters.translate(_DIGITS), 32).to_bytes(_SHA1)
