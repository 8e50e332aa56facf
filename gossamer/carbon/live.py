"""A live feed as a signal: asked rarely, never waited for long, and replaced by an offline signal when it is silent."""

from dataclasses import dataclass

import numpy as np

from gossamer.carbon.ask import NoAnswer
from gossamer.carbon.feeds import Feed
from gossamer.carbon.signals import Places, Reading, Signal


@dataclass(frozen=True)
class Patience:
    time_out_s: float = 3.0  # of one question
    keep_s: float = 900.0  # an answer is good for so long
    stale_s: float = 3 * 3600.0  # and better than the fallback for so long, when there is no newer one
    rest_s: float = 300.0  # after a failure the feed is left alone
    unknown_s: float = 86_400.0  # so is a zone that it does not know
    questions: int = 2  # at most, in one call: a commit waits for it; other zones wait for the next


class Live:
    def __init__(self, feed: Feed, fallback: Signal, patience: Patience | None = None) -> None:
        self._feed = feed
        self._fallback = fallback
        self._patience = patience or Patience()
        self._answers: dict[str, tuple[float, float]] = {}
        self._resting: dict[str, float] = {}  # until when; "" is the whole feed
        self.failed = ""  # why, the last time; for people

    def read(self, places: Places, time_s: float) -> Reading:
        places_of: dict[str, list[int]] = {}
        columns = zip(places.country.tolist(), places.latitude.tolist(), places.longitude.tolist(), strict=True)
        for place, where in enumerate(columns):
            places_of.setdefault(self._feed.zone(*where), []).append(place)
        values, sources = self._fallback.read(places, time_s)
        values, sources = values.copy(), sources.astype(np.dtype("U64"))
        self._refresh([zone for zone in places_of if zone], time_s)
        for zone, numbers in places_of.items():
            answer = self._answers.get(zone)
            if answer is not None and time_s - answer[0] <= self._patience.stale_s:
                values[numbers], sources[numbers] = answer[1], self._feed.name
        return Reading(values, sources)

    def _refresh(self, zones: list[str], time_s: float) -> None:
        """Those whose answers are old, the oldest first."""
        old = [zone for zone in zones if time_s - self._answers.get(zone, (-np.inf, 0))[0] > self._patience.keep_s]
        old = [zone for zone in old if self._resting.get(zone, -np.inf) <= time_s]
        old.sort(key=lambda zone: (self._answers.get(zone, (-np.inf, 0))[0], zone))
        for zone in old[: self._patience.questions]:
            if self._resting.get("", -np.inf) > time_s:
                return
            try:
                self._answers[zone] = (time_s, self._feed.ask(zone, self._patience.time_out_s))
            except NoAnswer as error:
                self.failed = f"{self._feed.name} {zone}: {error}"
                unknown = error.status in (400, 404, 422)
                self._resting[zone if unknown else ""] = time_s + (
                    self._patience.unknown_s if unknown else self._patience.rest_s
                )
