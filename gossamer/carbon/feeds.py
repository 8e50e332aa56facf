"""This module reads live feeds of carbon intensity: how each is asked, and a signal that never waits long for it."""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import numpy as np
import pycurl

from gossamer.carbon.signals import HostPlaces, Reading, Signal

G_PER_KWH_OF_LB_PER_MWH = 0.45359237
_MOST_BYTES = 1 << 20


class NoAnswer(Exception):
    """`NoAnswer` means that a feed did not answer, or not with what it should. It never leaves this package."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


def ask(url: str, query: Mapping[str, str], headers: Sequence[str], time_out_s: float) -> Any:
    """Asks a feed over HTTP and returns its JSON. No redirect is followed, so that a token goes nowhere else."""
    body: list[bytes] = []

    def take(part: bytes) -> int:
        body.append(part)
        return -1 if sum(map(len, body)) > _MOST_BYTES else len(part)

    curl = pycurl.Curl()
    try:
        curl.setopt(pycurl.URL, url + ("?" + urlencode(query) if query else ""))
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTPHEADER, ["Accept: application/json", *headers])
        curl.setopt(pycurl.TIMEOUT_MS, max(1, int(time_out_s * 1000)))
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.WRITEFUNCTION, take)
        curl.perform()
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
    except pycurl.error as error:
        raise NoAnswer(str(error.args[-1])) from error
    finally:
        curl.close()
    if status != 200:
        raise NoAnswer(f"HTTP {status}", status)
    try:
        return json.loads(b"".join(body))
    except ValueError as error:
        raise NoAnswer("no JSON", status) from error


class Feed(Protocol):
    """This port is a service on the web that knows carbon intensity."""

    name: str

    def zone(self, country: str, latitude: float, longitude: float) -> str:
        """Returns what to ask for; places with the same zone are asked for once. Empty: the feed does not cover it."""

    def ask(self, zone: str, time_out_s: float) -> float:
        """Returns grams per kWh now, or raises NoAnswer."""


class _AtUrl:
    url: str

    def __init__(self, token: str = "", url: str = "") -> None:
        self._token, self._url = token, (url or self.url).rstrip("/")


class ElectricityMaps(_AtUrl):
    """This feed has average intensity, by country; it needs a token. https://portal.electricitymaps.com"""

    name = "electricity-maps"
    url = "https://api.electricitymaps.com"

    def zone(self, country: str, _latitude: float, _longitude: float) -> str:
        return country

    def ask(self, zone: str, time_out_s: float) -> float:
        answer = ask(
            f"{self._url}/v3/carbon-intensity/latest", {"zone": zone}, [f"auth-token: {self._token}"], time_out_s
        )
        return _grams(lambda: answer["carbonIntensity"])


class WattTime(_AtUrl):
    """This feed has marginal intensity, by coordinates; the token is USER:PASSWORD. https://watttime.org"""

    name = "watttime"
    url = "https://api.watttime.org"

    def __init__(self, token: str, url: str = "") -> None:
        super().__init__(token, url)
        self._login = "Authorization: Basic " + base64.b64encode(token.encode()).decode()
        self._bearer = ""
        self._regions: dict[str, str] = {}

    def zone(self, _country: str, latitude: float, longitude: float) -> str:
        return "" if math.isnan(latitude + longitude) else f"{latitude:.2f},{longitude:.2f}"

    def ask(self, zone: str, time_out_s: float) -> float:
        if zone not in self._regions:
            latitude, longitude = zone.split(",")
            where = {"latitude": latitude, "longitude": longitude, "signal_type": "co2_moer"}
            self._regions[zone] = _text(self._get("v3/region-from-loc", where, time_out_s), "region")
        what = {"region": self._regions[zone], "signal_type": "co2_moer", "horizon_hours": "0"}
        answer = self._get("v3/forecast", what, time_out_s)
        return _grams(lambda: answer["data"][0]["value"]) * G_PER_KWH_OF_LB_PER_MWH

    def _get(self, path: str, query: dict[str, str], time_out_s: float) -> Any:
        """Asks with a token. It lives half an hour; a refused one is renewed, once."""
        for attempt in (0, 1):
            if not self._bearer:
                self._bearer = _text(ask(f"{self._url}/login", {}, [self._login], time_out_s), "token")
            try:
                return ask(f"{self._url}/{path}", query, [f"Authorization: Bearer {self._bearer}"], time_out_s)
            except NoAnswer as error:
                if error.status != 401 or attempt:
                    raise
                self._bearer = ""
        raise NoAnswer("refused", 401)


class UnitedKingdom(_AtUrl):
    """This feed has Great Britain, and needs no token. https://carbonintensity.org.uk"""

    name = "uk"
    url = "https://api.carbonintensity.org.uk"

    def zone(self, country: str, _latitude: float, _longitude: float) -> str:
        return "GB" if country == "GB" else ""

    def ask(self, _zone: str, time_out_s: float) -> float:
        """Returns what was measured, if it is known already, else the forecast for this half hour."""
        answer = ask(f"{self._url}/intensity", {}, [], time_out_s)

        def value() -> Any:
            intensity = answer["data"][0]["intensity"]
            return intensity["forecast"] if intensity.get("actual") is None else intensity["actual"]

        return _grams(value)


FEEDS: dict[str, Callable[[str, str], Feed]] = {
    ElectricityMaps.name: ElectricityMaps,
    WattTime.name: WattTime,
    UnitedKingdom.name: UnitedKingdom,
}


def _grams(find: Callable[[], Any]) -> float:
    try:
        value = float(find())
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise NoAnswer("not the answer we know", 200) from error
    if not 0 <= value <= 10_000:
        raise NoAnswer(f"{value} makes no sense", 200)
    return value


def _text(answer: Any, name: str) -> str:
    if not isinstance(answer, dict) or not isinstance(answer.get(name), str):
        raise NoAnswer("not the answer we know", 200)
    return str(answer[name])


@dataclass(frozen=True)
class Patience:
    time_out_s: float = 3.0  # of one question
    keep_s: float = 900.0  # an answer is good for so long
    stale_s: float = 3 * 3600.0  # and better than the fallback for so long, when there is no newer one
    rest_s: float = 300.0  # after a failure the feed is left alone
    unknown_s: float = 86_400.0  # so is a zone that it does not know
    questions: int = 2  # at most, in one call: a commit waits for it; other zones wait for the next


class FeedSignal:
    """`FeedSignal` is a signal from a live feed: asked rarely, never waited for long, with a fallback for silence."""

    def __init__(self, feed: Feed, fallback: Signal, patience: Patience | None = None) -> None:
        self._feed = feed
        self._fallback = fallback
        self._patience = patience or Patience()
        self._answers: dict[str, tuple[float, float]] = {}
        self._resting: dict[str, float] = {}  # until when; "" is the whole feed
        self.failed = ""  # why, the last time; for people

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        places_of: dict[str, list[int]] = {}
        columns = zip(places.country.tolist(), places.latitude.tolist(), places.longitude.tolist(), strict=True)
        for place, where in enumerate(columns):
            places_of.setdefault(self._feed.zone(*where), []).append(place)
        values, sources = self._fallback.read(places, time_s).copied()
        self._refresh([zone for zone in places_of if zone], time_s)
        for zone, numbers in places_of.items():
            answer = self._answers.get(zone)
            if answer is not None and time_s - answer[0] <= self._patience.stale_s:
                values[numbers], sources[numbers] = answer[1], self._feed.name
        return Reading(values, sources)

    def _refresh(self, zones: list[str], time_s: float) -> None:
        """Asks for zones whose answers are old, the oldest first."""
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
