"""Which URLs were sent to other sites before: a bounded memory, eight bytes each, that forgets at random."""

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]


class SentCache:
    """Each key has one place; a newer one that has the same place takes it. To forget is harmless: the URL is sent once
    more as text."""

    def __init__(self, entries: int) -> None:
        self._places = np.zeros(max(1, entries), np.uint64)
        self.hits = self.misses = 0

    def add(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which of these (distinct) keys are known; from now on all of them are."""
        # The low bits of a key are its URL's hash.
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        known: npt.NDArray[np.bool_] = self._places[places] == keys
        self._places[places] = keys
        self.hits += int(known.sum())
        self.misses += len(keys) - int(known.sum())
        return known

    def forget(self, keys: Keys) -> None:
        """The owner asks for the text again."""
        places = (keys % np.uint64(len(self._places))).astype(np.intp)
        self._places[places[self._places[places] == keys]] = 0
