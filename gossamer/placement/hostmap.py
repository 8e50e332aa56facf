"""`HostMap` is the replicated map from hosts to sites: which site each host was given, and who decides about others."""

from collections.abc import Collection, Sequence

import numpy as np

from gossamer.arrays import I64, Bools, Integers, Rows
from gossamer.columns import HOST_BITS
from gossamer.placement.ring import Ring

# turn: rises with each change of sites; even: its site was decided upon, odd: it was handed over by the site before.
ENTRY = np.dtype([("host", "u4"), ("site", "u1"), ("turn", "u2")])
_UNDECIDED = 0


class HostMap:
    """The map has a byte for each possible host key, and two for the turn of those that have changed hands; the kernel
    gives memory only to parts that are used.

    A host that nobody has decided about belongs, for the time being, to its home on the ring: that site decides, once.
    So it does about hosts of sites that are gone.
    """

    def __init__(self, ring: Ring, gone: Collection[str] = ()) -> None:
        self._ring = ring
        self._is_gone = np.array([False, *(name in gone for name in ring.sites)])
        self._site = np.zeros(1 << HOST_BITS, np.uint8)  # number of the site, plus one
        self._turn = np.zeros(1 << HOST_BITS, np.uint16)

    @property
    def sites(self) -> Sequence[str]:
        return self._ring.sites

    def of_keys(self, host_keys: Integers) -> I64:
        """Returns the number, in `sites`, of each host's site; of one that is undecided, its home's."""
        decided = self._site[host_keys].astype(np.int64) - 1
        undecided = ~self.is_settled(host_keys)
        if undecided.any():
            decided[undecided] = self._ring.of_keys(host_keys[undecided])
        return decided

    def is_settled(self, host_keys: Integers) -> Bools:
        settled: Bools = (self._site[host_keys] != _UNDECIDED) & ~self.is_orphaned(host_keys)
        return settled

    def is_orphaned(self, host_keys: Integers) -> Bools:
        """Returns whether a site that is gone had each host."""
        orphaned: Bools = self._is_gone[self._site[host_keys]]
        return orphaned

    def homes(self, host_keys: Integers) -> I64:
        """Returns their sites on the ring."""
        return self._ring.of_keys(host_keys)

    def record(self, entries: Rows) -> Rows:
        """Takes decisions, as ENTRY rows; returns those that are new. A decision stands until the host moves. A
        site that is not in our list yet has got its hosts handed over, and reports them itself once it is."""
        entries = entries[entries["site"] < len(self.sites)]
        entries = entries[np.argsort(entries["turn"], kind="stable")]
        undecided = self._site[entries["host"]] == _UNDECIDED
        entries = entries[undecided | (entries["turn"] > self._turn[entries["host"]])]
        self._site[entries["host"]] = entries["site"] + 1
        moved = entries[entries["turn"] != self._turn[entries["host"]]]  # few: where all is zero, no memory is used
        self._turn[moved["host"]] = moved["turn"]
        return entries

    def is_handed_over(self, host_keys: Integers) -> Bools:
        """Returns whether a host's site got it from another one, with all that was known of it."""
        handed_over: Bools = self._turn[host_keys] & 1 == 1
        return handed_over

    def decided(self, host_keys: Integers, sites: I64) -> Rows:
        """Returns entries for hosts that no other site has to hand over: they are new, or their site is gone."""
        known = self._site[host_keys] != _UNDECIDED
        return _entries(host_keys, sites, np.where(known, (self._turn[host_keys] | 1) + 1, 0))

    def handed_over(self, host_keys: Integers, sites: I64) -> Rows:
        """Returns the entries that go with hosts to their new sites."""
        return _entries(host_keys, sites, self._turn[host_keys] + 1 | 1)

    def entries(self, host_keys: Integers | None = None) -> Rows:
        """Returns all decisions, or those about these hosts that stand."""
        hosts = np.flatnonzero(self._site) if host_keys is None else np.unique(host_keys[self.is_settled(host_keys)])
        found = np.zeros(len(hosts), ENTRY)
        found["host"], found["site"], found["turn"] = hosts, self._site[hosts] - 1, self._turn[hosts]
        return found

    def __len__(self) -> int:
        return int(np.count_nonzero(self._site))


def _entries(host_keys: Integers, sites: I64, turns: Integers) -> Rows:
    entries = np.zeros(len(host_keys), ENTRY)
    entries["host"], entries["site"], entries["turn"] = host_keys, sites, turns
    return entries
