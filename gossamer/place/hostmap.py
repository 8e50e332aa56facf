"""The replicated host map: to which site each host was given, and who decides about the others."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gossamer.columns import HOST_BITS
from gossamer.place.ring import Ring

HostKeys = npt.NDArray[np.integer]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ENTRY = np.dtype([("host", "u4"), ("site", "u1")])
_UNDECIDED = 0


class HostMap:
    """A byte for each possible host key; the kernel gives memory only to parts that are used.

    A host that nobody has decided about belongs, for the time being, to its home on the ring: that site decides, once.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._site = np.zeros(1 << HOST_BITS, np.uint8)  # number of the site, plus one

    @property
    def sites(self) -> Sequence[str]:
        return self._ring.sites

    def of_keys(self, host_keys: HostKeys) -> I8:
        """The number, in `sites`, of each host's site; of one that is undecided, its home's."""
        decided = self._site[host_keys].astype(np.int64) - 1
        undecided = decided < 0
        if undecided.any():
            decided[undecided] = self._ring.of_keys(host_keys[undecided])
        return decided

    def is_settled(self, host_keys: HostKeys) -> Mask:
        settled: Mask = self._site[host_keys] != _UNDECIDED
        return settled

    def record(self, entries: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Decisions, as ENTRY rows; returns those that are news. The first decision stands."""
        entries = entries[~self.is_settled(entries["host"])]
        self._site[entries["host"]] = entries["site"] + 1
        return entries

    def __len__(self) -> int:
        return int(np.count_nonzero(self._site))
