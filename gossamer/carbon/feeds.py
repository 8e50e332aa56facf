"""Live feeds of carbon intensity: how each is asked, and what its answer means."""

import base64
import math
from collections.abc import Callable
from typing import Any, Protocol

from gossamer.carbon.ask import NoAnswer, ask

G_PER_KWH_OF_LB_PER_MWH = 0.45359237


class Feed(Protocol):
    name: str

    def zone(self, country: str, latitude: float, longitude: float) -> str:
        """What to ask for; places with the same zone are asked for once. Empty: the feed does not cover it."""

    def ask(self, zone: str, time_out_s: float) -> float:
        """Grams per kWh now, or NoAnswer."""


class ElectricityMaps:
    """Average intensity, by country; needs a token. https://portal.electricitymaps.com"""

    name = "electricity-maps"
    url = "https://api.electricitymaps.com"

    def __init__(self, token: str, url: str = "") -> None:
        self._url = (url or self.url).rstrip("/")
        self._headers = [f"auth-token: {token}"]

    def zone(self, country: str, _latitude: float, _longitude: float) -> str:
        return country

    def ask(self, zone: str, time_out_s: float) -> float:
        answer = ask(f"{self._url}/v3/carbon-intensity/latest", {"zone": zone}, self._headers, time_out_s)
        return _grams(lambda: answer["carbonIntensity"])


class WattTime:
    """Marginal intensity, by coordinates; the token is USER:PASSWORD. https://watttime.org"""

    name = "watttime"
    url = "https://api.watttime.org"

    def __init__(self, token: str, url: str = "") -> None:
        self._url = (url or self.url).rstrip("/")
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
        """Tokens live half an hour; a refused one is renewed, once."""
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


class UnitedKingdom:
    """Great Britain, without a token. https://carbonintensity.org.uk"""

    name = "uk"
    url = "https://api.carbonintensity.org.uk"

    def __init__(self, _token: str = "", url: str = "") -> None:
        self._url = (url or self.url).rstrip("/")

    def zone(self, country: str, _latitude: float, _longitude: float) -> str:
        return "GB" if country == "GB" else ""

    def ask(self, _zone: str, time_out_s: float) -> float:
        """What was measured, if it is known already, else the forecast for this half hour."""
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
