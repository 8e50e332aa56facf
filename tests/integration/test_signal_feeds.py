"""FeedSignal feeds against a local server that answers as they do: right, slow, wrong, or not at all."""

import base64
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from gossamer.carbon.feeds import FeedSignal, NoAnswer, Patience, ask
from gossamer.carbon.grid import means
from gossamer.carbon.signals import HostPlaces
from gossamer.carbon.sources import signal


class Server:
    """Speaks the three formats. `broken` replaces every answer: a status, some bytes, or seconds to sleep."""

    def __init__(self):
        self.asked, self.broken, self.intensity, self.tokens = [], None, 302.0, ["first"]
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                parts = urlsplit(self.path)
                server.asked.append(parts.path)
                status, body = server.answer(parts.path, dict(parse_qsl(parts.query)), self.headers)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "/elsewhere")
                with contextlib.suppress(BrokenPipeError):  # who does not wait is gone
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path, query, headers):
        if isinstance(self.broken, float):
            time.sleep(self.broken)
        elif isinstance(self.broken, bytes):
            return 200, self.broken
        elif self.broken:
            return self.broken, b"{}"
        status, body = getattr(self, "_" + path.strip("/").replace("/", "_").replace("-", "_"))(query, headers)
        return status, json.dumps(body).encode()

    def _v3_carbon_intensity_latest(self, query, headers):
        if headers["auth-token"] != "secret":
            return 401, {"error": "Invalid auth-token"}
        if query["zone"] not in ("DE", "FR"):
            return 404, {"error": f"No data for zone {query['zone']}"}
        return 200, {
            "zone": query["zone"],
            "carbonIntensity": self.intensity if query["zone"] == "DE" else 51,
            "datetime": "2026-06-01T12:00:00.000Z",
            "updatedAt": "2026-06-01T11:45:00.000Z",
            "emissionFactorType": "lifecycle",
            "isEstimated": True,
        }

    def _login(self, _query, headers):
        if headers["Authorization"] != "Basic " + base64.b64encode(b"me:word").decode():
            return 403, {}
        return 200, {"token": self.tokens[-1]}

    def _v3_region_from_loc(self, query, headers):
        if headers["Authorization"] != f"Bearer {self.tokens[-1]}":
            return 401, {}
        assert query["signal_type"] == "co2_moer"
        region = "CAISO_NORTH" if float(query["longitude"]) < 0 else "DE"
        return 200, {"region": region, "region_full_name": "a name", "signal_type": "co2_moer"}

    def _v3_forecast(self, query, headers):
        if headers["Authorization"] != f"Bearer {self.tokens[-1]}":
            return 401, {}
        assert query["horizon_hours"] == "0"
        value = {"CAISO_NORTH": 1000.0, "DE": 800.0}[query["region"]]
        meta = {"region": query["region"], "signal_type": "co2_moer", "units": "lbs_co2_per_mwh"}
        return 200, {"data": [{"point_time": "2026-06-01T12:00:00+00:00", "value": value}], "meta": meta}

    def _intensity(self, _query, _headers):
        values = {"forecast": 146, "actual": None if self.intensity == 302 else self.intensity, "index": "low"}
        return 200, {"data": [{"from": "2026-06-01T12:00Z", "to": "2026-06-01T12:30Z", "intensity": values}]}


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


def places(*countries):
    where = {"DE": (51.0, 10.0), "US": (39.0, -120.0), "FR": (47.0, 2.8), "GB": (52.2, -1.5)}
    latitude, longitude = np.array([where.get(code, (np.nan, np.nan)) for code in countries]).T
    hosts = np.array([f"h{number}.test" for number in range(len(countries))])
    return HostPlaces(hosts, np.array(countries), latitude, longitude)


def electricity_maps(server, token="secret", **patience):
    return signal("electricity-maps", "mean", token, server.url, Patience(**patience))


# --- the three formats


def test_electricity_maps(server):
    reading = electricity_maps(server, questions=8).read(places("DE", "FR", "DE", "US"), 0.0)
    assert reading.g_per_kwh[:3].tolist() == [302, 51, 302]
    assert reading.g_per_kwh[3] == means(np.array(["US"]))[0]
    assert reading.source.tolist() == ["electricity-maps"] * 3 + ["mean"]
    assert len(server.asked) == 3  # each zone once


def test_watttime(server):
    feed = signal("watttime", "mean", "me:word", server.url)
    reading = feed.read(places("DE", "US", ""), 0.0)
    assert reading.g_per_kwh[:2] == pytest.approx([362.87, 453.59], abs=0.01)  # lb/MWh times 0.4536
    assert reading.source.tolist() == ["watttime", "watttime", "mean"]
    server.tokens.append("second")  # the first has expired
    assert feed.read(places("DE", "US"), 10_000.0).source.tolist() == ["watttime", "watttime"]
    assert server.asked.count("/login") == 2
    assert server.asked.count("/v3/region-from-loc") == 2  # regions do not move


def test_united_kingdom(server):
    feed = signal("uk", "mean", url=server.url)
    reading = feed.read(places("GB", "DE"), 0.0)
    assert reading.g_per_kwh[0] == 146  # no measurement yet: the forecast
    assert reading.source.tolist() == ["uk", "mean"]
    server.intensity = 200.0
    assert feed.read(places("GB"), 1000.0).g_per_kwh.tolist() == [200]


# --- caching


def test_answers_are_kept_for_a_while(server):
    feed = electricity_maps(server, keep_s=900)
    for time_s in (0.0, 100.0, 900.0):
        server.intensity += 1
        assert feed.read(places("DE"), time_s).g_per_kwh.tolist() == [303]
    assert feed.read(places("DE"), 901.0).g_per_kwh.tolist() == [305]
    assert len(server.asked) == 2


def test_a_call_asks_few_questions(server):
    feed = electricity_maps(server, questions=1)
    assert feed.read(places("DE", "FR"), 0.0).source.tolist() == ["electricity-maps", "mean"]
    assert feed.read(places("DE", "FR"), 1.0).source.tolist() == ["electricity-maps"] * 2


# --- failures


@pytest.mark.parametrize(
    "broken", [500, 401, 302, b"<html>", b"[]", b'{"carbonIntensity": "much"}', b'{"carbonIntensity": -5}']
)
def test_a_feed_that_fails_is_replaced_and_left_alone(server, broken):
    feed = electricity_maps(server, rest_s=300)
    server.broken = broken
    for time_s in (0.0, 10.0, 299.0):
        assert feed.read(places("DE", "FR"), time_s).source.tolist() == ["mean", "mean"]
    assert len(server.asked) == 1
    assert "electricity-maps DE" in feed.failed
    server.broken = None
    assert feed.read(places("DE", "FR"), 300.0).source.tolist() == ["electricity-maps"] * 2


def test_an_old_answer_is_better_than_the_mean_for_a_while(server):
    feed = electricity_maps(server, keep_s=900, stale_s=3600, rest_s=0)
    assert feed.read(places("DE"), 0.0).g_per_kwh.tolist() == [302]
    server.broken = 503
    assert feed.read(places("DE"), 3600.0).g_per_kwh.tolist() == [302]
    assert feed.read(places("DE"), 3601.0).source.tolist() == ["mean"]


def test_a_zone_that_is_unknown_does_not_silence_the_others(server):
    feed = electricity_maps(server)
    for time_s in (0.0, 2000.0):
        assert feed.read(places("BR", "DE"), time_s).source.tolist() == ["mean", "electricity-maps"]
    assert len(server.asked) == 3  # the unknown one once only


def test_a_slow_feed_is_not_waited_for(server):
    server.broken = 1.0
    feed = electricity_maps(server, time_out_s=0.05)
    assert feed.read(places("DE", "FR"), 0.0).source.tolist() == ["mean", "mean"]
    assert len(server.asked) == 1
    assert "time" in feed.failed.lower()


def test_a_feed_that_is_not_there():
    feed = signal("uk", "mean", url="http://127.0.0.1:9")
    assert feed.read(places("GB"), 0.0).source.tolist() == ["mean"]
    assert isinstance(feed, FeedSignal)
    assert feed.failed


def test_an_endless_answer_is_cut(server):
    server.broken = b"[" + b"1," * (1 << 20)
    with pytest.raises(NoAnswer):
        ask(server.url, {}, [], 5.0)
