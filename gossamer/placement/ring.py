"""`Ring` is consistent hashing: it gives a host to a site by the names of both alone.

Every site has points on a ring, as many as its weight says; a host belongs to the first point at or after its own hash.
A site's points depend on nothing but its name, so that when it joins, leaves or changes its weight, only hosts that it
wins or loses move. A site of weight 0 has no points, and no hosts.
"""

from collections.abc import Mapping

import numpy as np

from gossamer.arrays import I64, Bools, Integers
from gossamer.errors import ConfigError
from gossamer.web.url import host_key

POINTS = 1_024  # of a site with weight 1: loads then differ by some 3 %


class Ring:
    """The ring depends on names and weights alone, so that all sites compute the same one."""

    def __init__(self, weights: Mapping[str, float], points: int = POINTS) -> None:
        if not weights:
            raise ConfigError("a ring needs at least one site")
        for name, weight in weights.items():
            if not 0 <= weight < float("inf"):
                raise ConfigError(f"site {name} has weight {weight}; it must be 0 or more")
        if not any(weights.values()):
            raise ConfigError("no site takes hosts: at least one must have a weight above 0")
        self.sites: list[str] = list(weights)
        counts = [max(1, round(weights[name] * points)) if weights[name] else 0 for name in self.sites]
        keys = [
            host_key(f"{name}#{number}")
            for name, count in zip(self.sites, counts, strict=True)
            for number in range(count)
        ]
        owners = np.repeat(np.arange(len(counts)), counts)
        places = np.array(keys, np.int64)
        by_name = np.argsort(np.argsort(np.array(self.sites)))
        order = np.lexsort((by_name[owners], places))  # two on one place: the first site by name has it
        self._places, self._owners = places[order], owners[order]

    def site(self, host: str) -> str:
        return self.sites[int(self.of_keys(np.array([host_key(host)]))[0])]

    def of_keys(self, host_keys: Integers) -> I64:
        """Returns the number, in `sites`, of each host's site. A host key is the first 24 bits of a page's key."""
        found = np.searchsorted(self._places, host_keys.astype(np.int64))
        return self._owners[found % len(self._places)]

    def is_settled(self, host_keys: Integers) -> Bools:
        """Returns true for all: a ring leaves no host undecided."""
        return np.ones(len(host_keys), np.bool_)
