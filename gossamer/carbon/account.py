"""`Carbon` accounts for energy and carbon: what every visit took, where, and what a visit now would cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.archive.state import PriceState
from gossamer.arrays import F64, AnyKeys, Bools, Rows
from gossamer.carbon.declared import INDEX, INTENSITY, Declared
from gossamer.carbon.energy import BYTES_PER_GB, J_PER_KWH, Energy, carbon_g
from gossamer.carbon.prices import Prices, is_country, packed, unpacked
from gossamer.carbon.signals import HostPlaces, Recorder
from gossamer.carbon.sources import signal
from gossamer.columns import ACCOUNT
from gossamer.config import Carbon as Settings
from gossamer.config.host_overrides import of_host
from gossamer.crawl.reader import Visit
from gossamer.errors import ConfigError
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.geography import coordinates, countries
from gossamer.web.url import host_key

_NONE: AnyKeys = np.zeros(0, np.uint64)
_SAME_S = 60.0  # signals are read no more often
_FIRST_BYTES = 30_000.0  # that a visit is thought to take before there was one


class Carbon:
    """`Carbon` is the account of one agent; `state` is what the last commit kept of it."""

    headers = (INTENSITY, INDEX)

    def __init__(
        self, settings: Settings, index: PageIndex, state: PriceState, part: Callable[[], float] = lambda: 1.0
    ) -> None:
        check_carbon(settings)
        self._settings, self._index = settings, index
        self._signal = Declared(
            signal(settings.signal, settings.fallback, settings.token, settings.url, stale_s=settings.stale_s)
        )
        self._recorder = Recorder(self._signal)
        self._declaring: dict[str, str] = {}  # hosts that declared their carbon, and their countries
        self._high, self._low = (
            Energy(kwh * J_PER_KWH / BYTES_PER_GB, settings.request_j)
            for kwh in (settings.kwh_per_gb, settings.kwh_per_gb_low)
        )
        self._by_country: dict[int, float] = {}
        self._asked_s = -np.inf
        self._visits, self._wire_bytes = 0, 0.0  # of this run
        self.prices = Prices(settings, state, part)

    # Visits that were made

    def account(
        self, rows: Mapping[str, Sequence[Any]], visits: Sequence[Visit], now_s: float, under_way: AnyKeys = _NONE
    ) -> dict[str, Any]:
        """Returns the ACCOUNT columns of rows of the VISITS table; hosts' countries are remembered, and prices follow.
        A visit that contacted nobody took nothing. Pages `under_way` will be accounted for later."""
        count = len(rows["host"])
        pairs = list(zip(rows["host"], rows["address"], strict=True))
        distinct = list(dict.fromkeys(pairs))
        codes = self._countries(distinct)
        self._hear(visits, dict(zip((host for host, _ in distinct), codes, strict=True)), now_s)
        hosts = [host for host, _ in distinct]
        grams = self._signal.read(_places(hosts, codes), now_s).g_per_kwh
        place = {pair: number for number, pair in enumerate(distinct)}
        which = np.fromiter((place[pair] for pair in pairs), np.intp, count)
        asked = np.fromiter((bool(address) for address in rows["address"]), np.bool_, count)
        wire_bytes = np.array(rows["wire_bytes"], np.float64)
        high, low = (np.where(asked, energy.joules(wire_bytes), 0.0) for energy in (self._high, self._low))
        g_per_kwh = grams[which] if count else np.zeros(0)
        carbon = carbon_g(high, g_per_kwh)
        self._visits += int(asked.sum())
        self._wire_bytes += float(wire_bytes[asked].sum())
        host_keys, numbers = self._settle(distinct, codes)
        self.prices.spent(host_keys[which], numbers[which], carbon, now_s, under_way)
        columns = {"country": [codes[number] for number in which.tolist()], "g_per_kwh": g_per_kwh}
        columns |= {"energy_j": high, "energy_low_j": low, "carbon_g": carbon}
        assert list(columns) == ACCOUNT
        return columns

    def totals(self, columns: Mapping[str, Any]) -> dict[str, float]:
        """Returns joules and grams of all these visits, at both ends."""
        columns = {**columns, "carbon_low_g": carbon_g(columns["energy_low_j"], columns["g_per_kwh"])}
        return {name: float(columns[name].sum()) for name in ("energy_j", "energy_low_j", "carbon_g", "carbon_low_g")}

    def state(self) -> PriceState:
        """Returns the prices, for the manifest: a crawl goes on with the prices that it had."""
        return self.prices.state()

    def seen(self) -> dict[str, Any]:
        """Returns the signals on which decisions were based since the last call: columns of the SIGNALS table."""
        return self._recorder.taken()

    def _countries(self, pairs: list[tuple[str, str]]) -> list[str]:
        found: list[str] = countries([address for _, address in pairs]).tolist()
        given = self._settings.places
        if given:
            found = [of_host(given, host) or code for (host, _), code in zip(pairs, found, strict=True)]
        return found

    def _hear(self, visits: Sequence[Visit], codes: Mapping[str, str], now_s: float) -> None:
        for visit in visits:
            if visit.kept:
                host = visit.response.request.host
                self._declaring[host] = codes[host]
                self._signal.declare(host, codes[host], visit.kept, now_s)

    def _settle(self, pairs: list[tuple[str, str]], codes: list[str]) -> tuple[AnyKeys, AnyKeys]:
        hosts = np.array([host_key(host) for host, _ in pairs], np.uint32)
        numbers = np.array([packed(code) for code in codes], np.uint32)
        at = np.flatnonzero(numbers)
        unique, first = np.unique(hosts[at], return_index=True)
        self._index.hosts.locate(unique, numbers[at][first].astype(np.uint16))
        return hosts, numbers

    # Visits that may be made

    def of(self, visited: Rows, hosts: AnyKeys, now_s: float) -> tuple[F64, F64, Bools]:
        """Returns for pages (VISITED rows, and their hosts) the grams that a visit would cost now, the price of a gram,
        and whether the budgets allow it."""
        country, g_per_kwh = self._now(hosts, now_s)
        carbon = carbon_g(self._high.joules(visited["wire_bytes"]), g_per_kwh)
        return carbon, self.prices.of(hosts, country), self.prices.affords(hosts, country, carbon, now_s)

    def choose(self, keys: AnyKeys, worth: F64, carbon: F64, now_s: float) -> Bools:
        """Returns which visits, in this order, the budgets allow; the caller promises to make them."""
        hosts = host_of_key(keys)
        country = self._index.hosts.look_up(hosts)[1]["country"].astype(np.uint32)
        may = self.prices.affords(hosts, country, carbon, now_s, together=True)
        self.prices.chosen(keys[may], country[may], worth[may], carbon[may])
        return may

    def reserve(self, keys: AnyKeys, now_s: float) -> tuple[Bools, float]:
        """Returns which pages that no policy chose may be visited, in this order, and when the others may be. What they
        will take nobody knows: it is what visits took on average."""
        if not self.prices.has_budgets:
            return np.ones(len(keys), np.bool_), now_s
        country, g_per_kwh = self._now(host_of_key(keys), now_s)
        wire_bytes = np.full(len(keys), self._wire_bytes / self._visits if self._visits else _FIRST_BYTES)
        grams = carbon_g(self._high.joules(wire_bytes), g_per_kwh)
        return self.prices.reserve(keys, country, grams, now_s), self.prices.next_day_s(now_s)

    def _now(self, hosts: AnyKeys, now_s: float) -> tuple[AnyKeys, F64]:
        """Returns the country of each page's host, and grams per kWh there."""
        unique, which = np.unique(hosts, return_inverse=True)
        country = self._index.hosts.look_up(unique)[1]["country"].astype(np.uint32)
        codes = np.unique(country)
        if not 0 <= now_s - self._asked_s < _SAME_S or not set(codes.tolist()) <= set(self._by_country):
            names = [unpacked(code) for code in codes.tolist()]
            grams = self._recorder.read(_places(names, names), now_s).g_per_kwh
            self._by_country, self._asked_s = dict(zip(codes.tolist(), grams.tolist(), strict=True)), now_s
        values = np.array([self._by_country[code] for code in codes.tolist()])
        g_per_kwh: F64 = values[np.searchsorted(codes, country)]
        if self._declaring:
            read = self._recorder.read(_places(list(self._declaring), list(self._declaring.values())), now_s)
            keys = np.array([host_key(host) for host in self._declaring], np.uint32)
            found, at = search(unique, keys)
            g_per_kwh[at[found]] = read.g_per_kwh[found]
        return country[which], g_per_kwh[which]


def check_carbon(settings: Settings) -> None:
    """Checks the settings before anything is created."""
    if settings.kwh_per_gb_low > settings.kwh_per_gb:
        raise ConfigError("carbon.kwh_per_gb_low is more than carbon.kwh_per_gb")
    for host, code in settings.places.items():
        if not is_country(code):
            raise ConfigError(f'carbon.places: {host} = "{code}" is no country code; write it like "DE"')


def _places(hosts: list[str], codes: list[str]) -> HostPlaces:
    return HostPlaces(np.array(hosts, np.str_), np.array(codes, np.str_), *coordinates(codes))
