"""`Declared` is the carbon signal that servers send themselves, in a header of their answers.

    Carbon-Intensity: 120           grams of CO2 equivalent per kWh, now
    Carbon-Index: 0.25              a part of what its grid usually emits: 0 is the sun on its own roof, 1 the grid

LEADS D1.4 wants the index from the server, at the time of the decision. There is no standard: these headers are ours.
"""

import math
from collections.abc import Mapping

import numpy as np

from gossamer.carbon.grid import means
from gossamer.carbon.signals import HostPlaces, Reading, Signal

INTENSITY, INDEX = "carbon-intensity", "carbon-index"
_MOST_G_PER_KWH = 5_000.0
_KEEP_S = 3600.0


class Declared:
    """The signal is what a host declared last, for a while, and another signal for all other hosts."""

    def __init__(self, otherwise: Signal) -> None:
        self._otherwise = otherwise
        self._declared: dict[str, tuple[float, float]] = {}

    def declare(self, host: str, country: str, headers: Mapping[str, str], time_s: float) -> None:
        """Takes the headers of an answer, names in lower case. Values that make no sense are ignored."""
        value = declared_g_per_kwh(headers, float(means(np.array([country]))[0]))
        if value is not None:
            self._declared[host] = (time_s, value)

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        reading = self._otherwise.read(places, time_s)
        if not self._declared:
            return reading
        values, sources = reading.copied()
        self._declared = {h: last for h, last in self._declared.items() if time_s - last[0] <= _KEEP_S}
        for place, host in enumerate(places.host.tolist()):
            if host in self._declared:
                values[place], sources[place] = self._declared[host][1], "declared"
        return Reading(values, sources)


def declared_g_per_kwh(headers: Mapping[str, str], grid_g_per_kwh: float) -> float | None:
    intensity, index = _number(headers.get(INTENSITY)), _number(headers.get(INDEX))
    if intensity is not None and intensity <= _MOST_G_PER_KWH:
        return intensity
    if index is not None and index <= 1:
        return index * grid_g_per_kwh
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
