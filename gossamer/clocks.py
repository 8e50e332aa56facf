"""The only place that asks what time it is."""

import time
from typing import Protocol


class Clock(Protocol):
    """Port: where time comes from. Everything that decides takes `now` as an argument."""

    def now(self) -> float:
        """Seconds since 1970, UTC; for what is written down."""

    def monotonic(self) -> float:
        """Seconds that never go back; for intervals."""


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class VirtualClock:
    """Time that moves only when told to."""

    def __init__(self, now_s: float = 1_000_000_000.0) -> None:
        self._now = now_s

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
