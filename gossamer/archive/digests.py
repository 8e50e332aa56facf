"""`DigestCache` finds content that was stored before, so that it is not stored twice: a bounded cache of digests.

Digests are written in base 32; `letters` and `octets` take a fraction of the time of Python's module base64.
"""

import struct
from typing import Any

import numpy as np

_SHA1 = 20  # bytes
_ROW = struct.Struct(f"=3Q{_SHA1}s")  # digest, the page's key, milliseconds, WARC-Payload-Digest
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [one + other for one in _LETTERS for other in _LETTERS]
_DIGITS = str.maketrans(_LETTERS, "0123456789abcdefghijklmnopqrstuv")  # those of `int`


class DigestCache:
    """The cache is direct-mapped: a digest has one slot, and the newest wins it. An entry takes 48 bytes.

    A slot holds the number of a row, and rows are filled one after the other. What a small crawl writes then lies
    together: rows in random places would have the kernel clear all the memory of a large crawl.
    """

    def __init__(self, entries: int) -> None:
        # Zeros of NumPy take no memory until they are written, and views of them are faster to index.
        self._slots: Any = np.zeros(entries, np.uint32).data
        self._rows = bytearray(_ROW.size)  # the first is that of empty slots

    def get(self, digest: int) -> tuple[int, int, str] | None:
        """Returns the page's key, and of the record that has the content its time in ms and WARC-Payload-Digest."""
        if not len(self._slots):
            return None
        row = self._slots[digest % len(self._slots)]
        known, key, time_ms, stored = _ROW.unpack_from(self._rows, row * _ROW.size)
        return (key, time_ms, letters(stored)) if row and known == digest else None

    def put(self, digest: int, key: int, time_ms: int, stored: str) -> None:
        if not len(self._slots):
            return
        slot = digest % len(self._slots)
        if not self._slots[slot]:
            self._slots[slot] = len(self._rows) // _ROW.size
            self._rows += bytes(_ROW.size)
        _ROW.pack_into(self._rows, self._slots[slot] * _ROW.size, digest, key, time_ms, octets(stored))


def letters(digest: bytes) -> str:
    """Returns the 32 letters of a SHA-1."""
    number = int.from_bytes(digest)
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(150, -1, -10)])


def octets(letters: str) -> bytes:
    """Returns the 20 bytes again."""
    return int(letters.translate(_DIGITS), 32).to_bytes(_SHA1)
