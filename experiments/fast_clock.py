"""`FastClock` lets days of a crawl pass in seconds, while real servers answer."""

import time


class FastClock:
    """Real time runs so many times as fast from an epoch on."""

    def __init__(self, speed: float, epoch_s: float | None = None) -> None:
        self._speed = speed
        self._epoch_s = time.time() if epoch_s is None else epoch_s
        self._began_s = time.monotonic() - (time.time() - self._epoch_s)

    def now(self) -> float:
        return self._epoch_s + self.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._began_s) * self._speed
