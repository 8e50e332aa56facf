"""`Pace` measures how fast a crawl goes now, for displays and the dashboard."""

from collections import deque
from itertools import pairwise

from gossamer.crawl.stats import LEAST_S

_NOW_S = 5.0  # the rate "now" is that of the last so many seconds
_TREND = 24  # bars of the trend, one for each TREND_S
TREND_S = 5.0


class Pace:
    """`Pace` measures how fast it goes now, from earlier looks."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()

    def see(self, at_s: float, visits: int, wire_bytes: int) -> None:
        self._seen.append((at_s, visits, wire_bytes))
        while at_s - self._seen[0][0] > _TREND * TREND_S + _NOW_S:
            self._seen.popleft()

    @property
    def last_s(self) -> float:
        """Returns when the last look was."""
        return self._seen[-1][0] if self._seen else float("-inf")

    def pages(self) -> float | None:
        return self._now(1)

    def bytes(self) -> float | None:
        return self._now(2)

    def _now(self, column: int) -> float | None:
        if not self._seen:
            return None
        last = self._seen[-1]
        # The newest look that is old enough, so that a pause between looks does not inflate the rate.
        first = next((seen for seen in reversed(self._seen) if last[0] - seen[0] >= _NOW_S), self._seen[0])
        passed_s = last[0] - first[0]
        return (last[column] - first[column]) / passed_s if passed_s >= LEAST_S else None

    def trend(self) -> list[float]:
        """Returns pages per second in each of the last spans of TREND_S, oldest first; only full spans."""
        ends: dict[int, tuple[float, int, int]] = {}
        for seen in self._seen:
            ends.setdefault(int(seen[0] // TREND_S), seen)
        bounds = [ends[slot] for slot in sorted(ends)]
        rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(bounds)]
        return rates[-_TREND:]
