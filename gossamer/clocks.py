"""A clock is the only source of time; no other module asks the system."""

import time
from typing import Protocol


class Clock(Protocol):
    """This port is where time comes from. Everything that decides takes `now` as an argument."""

    def now(self) -> float:
        """Returns seconds since 1970, UTC; for what is written down."""

    def monotonic(self) -> float:
        """Returns seconds that never go back; for intervals."""


class RealClock:
    """The system's clock. It is asked a dozen times for each page, so nothing is between."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class VirtualClock:
    """Virtual time moves only by `advance`."""

    def __init__(self, now_s: float = 1_000_000_000.0) -> None:
        self._now = now_s

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
