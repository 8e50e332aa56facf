"""Which URLs were sent to other sites before: a bounded memory, eight bytes each, that forgets at random."""

import numpy as np
from xxhash import xxh3_64_intdigest

from gossamer.arrays import Bools, Keys


class SentCache:
    """Each key has one place; a newer one that has the same place takes it. To forget is harmless: the URL is sent once
    more as text."""

    def __init__(self, entries: int) -> None:
        self._places = np.zeros(max(1, entries), np.uint64)
        self.hits = self.misses = 0

    def add(self, site: str, keys: Keys) -> Bools:
        """Which of these (distinct) keys that site was told of; from now on, all of them."""
        keys = _salted(site, keys)
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        known: Bools = self._places[places] == keys
        self._places[places] = keys
        self.hits += int(known.sum())
        self.misses += len(keys) - int(known.sum())
        return known

    def forget(self, site: str, keys: Keys) -> None:
        """The site asks for the text again."""
        keys = _salted(site, keys)
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        self._places[places[self._places[places] == keys]] = 0


def _salted(site: str, keys: Keys) -> Keys:
    """A host may be given to another site later: what one was told, the other was not."""
    return keys ^ np.uint64(xxh3_64_intdigest(site.encode()))
