"""`DigestCache` finds content that was stored before, so that it is not stored twice: a bounded cache of digests."""

from typing import Any

import numpy as np


class DigestCache:
    """The cache is direct-mapped: a digest has one slot, and the newest wins it. An entry takes 24 bytes."""

    def __init__(self, entries: int) -> None:
        # Zeros of NumPy take no memory until they are written, and views of them are faster to index.
        self._digests = np.zeros(entries, np.uint64).data
        self._keys = np.zeros(entries, np.uint64).data
        self._times: Any = np.zeros(entries, np.float64).data

    def get(self, digest: int) -> tuple[int, float] | None:
        """Returns the page's key and the time of the visit whose record has the content."""
        if not len(self._digests):
            return None
        slot = digest % len(self._digests)
        if self._digests[slot] != digest:
            return None
        return self._keys[slot], self._times[slot]

    def put(self, digest: int, key: int, time_s: float) -> None:
        if len(self._digests):
            slot = digest % len(self._digests)
            self._digests[slot], self._keys[slot], self._times[slot] = digest, key, time_s
