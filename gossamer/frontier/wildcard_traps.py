"""`WildcardTraps` contains traps of wildcard names: it keeps where the hosts of a domain come from and what they bring.

With wildcard names a domain has as many hosts as anybody cares to link to. What such a trap is made of: hosts that
lead to hosts that lead to hosts, and often the same content under every name. So a host has a *generation*: 0 if it was
found from outside its domain, else one more than that of the host that led to it, the least of them. And a host is
*barren* while all content that it brought is known from elsewhere.
"""

import numpy as np

from gossamer import columns
from gossamer.arrays import I64, U8, AnyKeys, Bools
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.sorted_runs import search
from gossamer.frontier.table import Table

_SHIFT = np.uint64(64 - columns.HOST_BITS)
_MOST = 0xFFFF


class WildcardTraps:
    """The KIN table lists hosts. Those not listed were found from outside, and have brought something or were not
    visited yet."""

    def __init__(self, table: Table, hosts: Hosts) -> None:
        self.table = table
        self._hosts = hosts
        self.recount()

    def standing(self, hosts: AnyKeys) -> tuple[U8, Bools]:
        """Returns the generation of hosts (sorted, unique), and which are barren."""
        rows = self.table.look_up(_keys(hosts))[1]
        return rows["generation"], (rows["stale"] > 0) & (rows["fresh"] == 0)

    def enter(self, hosts: AnyKeys, generation: U8) -> None:
        """Adds new hosts (sorted, unique)."""
        later = generation > 0
        rows = self.table.look_up(_keys(hosts[later]))[1]
        rows["generation"] = generation[later]
        self.table.write(rows)

    def saw(self, hosts: AnyKeys, is_stale: Bools) -> None:
        """Takes visits that brought content: of which host, and whether it was known from elsewhere."""
        if not len(hosts):
            return
        unique, which = np.unique(hosts, return_inverse=True)
        stale, fresh = np.bincount(which, is_stale), np.bincount(which, ~is_stale)
        found, rows = self.table.look_up(_keys(unique))
        was_barren = (rows["stale"] > 0) & (rows["fresh"] == 0)
        # Who is not listed and brings its first copy may have brought content of its own before.
        known = self._hosts.look_up(unique)[1]
        fresh += ~found & (known["visited"] > 0)
        for name, more in (("stale", stale), ("fresh", fresh)):
            rows[name] = np.minimum(rows[name] + more.astype(np.int64), _MOST)
        change = found | (stale > 0)
        self.table.write(rows[change])
        is_barren = change & (rows["stale"] > 0) & (rows["fresh"] == 0)
        if (is_barren != (was_barren & found)).any():
            self.recount()

    def barren(self, domains: AnyKeys) -> I64:
        """Returns how many hosts of each domain are barren."""
        counts = np.zeros(len(domains), np.int64)
        found, at = search(self._domains, domains)
        counts[found] = self._barren[at[found]]
        return counts

    def recount(self) -> None:
        barren = [rows["key"][(rows["stale"] > 0) & (rows["fresh"] == 0)] for rows in self.table.scan()]
        hosts = (np.concatenate([np.zeros(0, np.uint64), *barren]) >> _SHIFT).astype(np.uint32)
        found, rows = self._hosts.look_up(hosts)
        self._domains, counts = np.unique(rows["domain"][found], return_counts=True)
        self._barren: I64 = counts.astype(np.int64)


def _keys(hosts: AnyKeys) -> AnyKeys:
    """Returns hosts as the first of their pages' keys."""
    return hosts.astype(np.uint64) << _SHIFT
