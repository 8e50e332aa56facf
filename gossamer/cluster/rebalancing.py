"""`Rebalancing` rebalances a federation again and again while it crawls: placement follows the links that were found,
the round trips that were measured, and the prices of the file, which is read anew each time.

It decides nothing itself: `rebalance` proposes, and orders the sites, on this machine and on others. What keeps it from
moving hosts to and fro is what each move must save (`placement/rebalance.py`), and the bound on what all of them send.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

from gossamer.clocks import Clock
from gossamer.cluster import rebalance
from gossamer.cluster.federation import status
from gossamer.cluster.federation_file import Federation, load
from gossamer.errors import ConfigError, GossamerError

_AT_WORK = ("crawling", "idle")


class Rebalancing:
    """`run` returns when no site crawls any more; `stop` may be called from a signal handler."""

    def __init__(self, path: Path, clock: Clock, say: Callable[[str], None], step_s: float = 0.5) -> None:
        federation = load(path)
        if not federation.shared.rebalance_hours:
            raise ConfigError(f"say how often: rebalance_hours = 6, under [federation] of {path.name}")
        rebalance.check_movable(federation)
        self._federation, self._clock, self._say, self._step_s = federation, clock, say, step_s
        self._stopping = self._has_begun = False

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        begun_s = self._clock.monotonic()
        while not self._stopping:
            time.sleep(self._step_s)
            with suppress(ConfigError):  # somebody is editing the file
                self._federation = load(self._federation.path)
            every_s = self._federation.shared.rebalance_hours * 3600 or inf
            if self._clock.monotonic() - begun_s < every_s:
                continue
            begun_s = self._clock.monotonic()
            at_work = any(row["state"] in _AT_WORK for row in status(self._federation))
            if not at_work and self._has_begun:
                self._say("no site crawls any more, or none can be reached")
                return
            self._has_begun |= at_work
            self._say(once(self._federation))


def once(federation: Federation) -> str:
    """Proposes, and orders the sites. One that cannot be asked just now can be the next time."""
    try:
        found = rebalance.propose(federation, federation.shared.rebalance_mb * 1e6)
        given = rebalance.carry_out(federation, found)
    except GossamerError as error:
        return f"no rebalance this time: {error}"
    moves, hosts = found.moves, ", ".join(f"{site} gives {number}" for site, number in given.items())
    links = f"{moves.crossing_before:.1%} of the links between hosts cross"
    return f"{links}, {moves.crossing_after:.1%} will: {hosts}" if hosts else f"{links}; no host is worth moving"
