"""`Locator` finds the countries of hosts that nobody has contacted yet: it looks their names up, all at once."""

import select
from collections.abc import Mapping, Sequence
from functools import partial

from gossamer.clocks import Clock
from gossamer.config import Resolve
from gossamer.config.host_overrides import of_host
from gossamer.fetch.resolver import Answer, Resolver
from gossamer.geography import countries
from gossamer.placement.network import block_of

_PATIENCE_S = 5.0  # for all of them: a commit waits for it


class Locator:
    """Looks up many names at once, and waits: never call it in the thread that fetches."""

    def __init__(self, config: Resolve, clock: Clock, places: Mapping[str, str] | None = None) -> None:
        """`places`: countries of hosts that are known better than their addresses tell, as `carbon.places`."""
        self._clock, self._places = clock, places or {}
        self._resolver = Resolver(config, clock, _PATIENCE_S)

    def __call__(self, hosts: Sequence[str]) -> list[str]:
        """Returns the hosts' countries; empty where unknown."""
        addresses = self.addresses(hosts)
        found: list[str] = countries(addresses).tolist()
        return [of_host(self._places, host) or code for host, code in zip(hosts, found, strict=True)]

    def blocks(self, hosts: Sequence[str]) -> list[str]:
        """Returns the blocks of the hosts' addresses; empty where unknown."""
        return [block_of(address) for address in self.addresses(hosts)]

    def addresses(self, hosts: Sequence[str]) -> list[str]:
        found = [""] * len(hosts)
        waiting = set(range(len(hosts)))

        def take(row: int, answer: Answer) -> None:
            found[row] = answer.address
            waiting.discard(row)

        for row, host in enumerate(hosts):
            self._resolver.look_up(host, 443, partial(take, row))
        end_s = self._clock.monotonic() + _PATIENCE_S
        while waiting and (left_s := end_s - self._clock.monotonic()) > 0:
            wait_s = self._resolver.timeout_s()
            select.select([self._resolver.fileno()], [], [], left_s if wait_s is None else min(left_s, wait_s))
            self._resolver.process()
        return found
