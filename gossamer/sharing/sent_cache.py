"""`SentCache` remembers which URLs were sent to remote sites: eight bytes each, bounded, and it forgets at random."""

import numpy as np
from xxhash import xxh3_64_intdigest

from gossamer.arrays import Bools, Keys


class SentCache:
    """`SentCache` has one place for each key; a newer key takes the place of an older one. To forget is harmless: the
    URL is sent once more as text."""

    def __init__(self, entries: int) -> None:
        self._places = np.zeros(max(1, entries), np.uint64)
        self.hits = self.misses = 0

    def add(self, site: str, keys: Keys) -> Bools:
        """Returns which of these (distinct) keys were sent to that site before; from now on, all of them were."""
        keys = _salted(site, keys)
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        known: Bools = self._places[places] == keys
        self._places[places] = keys
        self.hits += int(known.sum())
        self.misses += len(keys) - int(known.sum())
        return known

    def forget(self, site: str, keys: Keys) -> None:
        """Forgets keys: the site asks for the text again."""
        keys = _salted(site, keys)
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        self._places[places[self._places[places] == keys]] = 0


def _salted(site: str, keys: Keys) -> Keys:
    """Makes keys differ by site: a host may be given to another site later, which was not sent its URLs."""
    return keys ^ np.uint64(xxh3_64_intdigest(site.encode()))
