"""`Prices` keeps the price of a gram of carbon: it was set, agreed with a host, or follows a day's budgets."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.archive.state import PriceState
from gossamer.arrays import F64, AnyKeys, Bools, Integers
from gossamer.carbon.energy import GAIN, Contract, Lambdas, agreed, pace
from gossamer.config import Carbon
from gossamer.errors import ConfigError
from gossamer.frontier.pages import host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.web.url import host_key

DAY_S = 86_400.0
STEP_S = 60.0  # between two changes of prices
_KEEP = 0.9


@dataclass
class _Group:
    """`_Group` has hosts or countries with prices of their own, or the whole crawl, and what was spent there."""

    names: AnyKeys  # sorted: host keys or packed country codes; one 0 for the whole crawl
    lambdas: Lambdas
    budget_g: F64  # a day
    spent_g: F64  # today
    promised_g: F64  # by visits that were chosen and are under way
    step: F64  # since the last change of prices: grams; of visits that a policy chose, worth and grams

    @classmethod
    def of(cls, contracts: Mapping[int, Contract]) -> "_Group":
        names = np.array(sorted(contracts), np.uint32)
        lambdas, budget = agreed(contracts, names.tolist())
        return cls(names, lambdas, budget, np.zeros(len(names)), np.zeros(len(names)), np.zeros((3, len(names))))

    def places(self, of: AnyKeys) -> Integers:
        found, at = search(self.names, of)
        return np.where(found, at, -1)

    def add(self, to: F64, of: AnyKeys, values: F64) -> None:
        at = self.places(of)
        np.add.at(to, at[at >= 0], values[at >= 0])


class Prices:
    """`Prices` belongs to one agent. `part` is its share of the crawl's budgets: an agent has some of the zones."""

    def __init__(self, settings: Carbon, state: PriceState, part: Callable[[], float] = lambda: 1.0) -> None:
        contracts = load_contracts(Path(settings.contracts)) if settings.contracts else {}
        overall = Contract(settings.g_per_day or None, settings.price or None)
        countries = {packed(name): contract for name, contract in contracts.items() if is_country(name)}
        hosts = {host_key(name): contract for name, contract in contracts.items() if not is_country(name)}
        self._groups = {"all": _Group.of({0: overall}), "country": _Group.of(countries), "host": _Group.of(hosts)}
        self._part = part
        self._began_s: float | None = state.began_s  # days are counted from here
        self._day = state.day
        self._stepped_s: float | None = None
        self._promises: list[tuple[AnyKeys, AnyKeys, F64]] = []  # pages, their countries, grams
        self._recall(state)

    def of(self, hosts: AnyKeys, countries: AnyKeys) -> F64:
        """Returns worth per gram at each page's host; several prices add up."""
        prices = np.zeros(len(hosts))
        for _, group, of in self._each(hosts, countries):
            prices += group.lambdas.of(group.places(of))
        return prices

    def affords(self, hosts: AnyKeys, countries: AnyKeys, carbon_g: F64, now_s: float, together: bool = False) -> Bools:
        """Returns whether today's budgets still allow each visit; or, `together`, each after those before it."""
        self._turn_day(now_s)
        enough = np.ones(len(hosts), np.bool_)
        for name, group, of in self._each(hosts, countries):
            left = np.append(self._budget(name) - group.spent_g - group.promised_g, np.inf)
            at = group.places(of)
            enough &= (_running(at, carbon_g) if together else carbon_g) <= left[at]
        return enough

    def chosen(self, keys: AnyKeys, countries: AnyKeys, worth: F64, carbon_g: F64) -> None:
        """Notes the pages that a policy chose, and their worth: that is what a gram buys."""
        for _, group, of in self._each(host_of_key(keys), countries):
            group.add(group.step[1], of, worth)
            group.add(group.step[2], of, carbon_g)
        self._promise(keys, countries, carbon_g)

    def reserve(self, keys: AnyKeys, countries: AnyKeys, carbon_g: F64, now_s: float) -> Bools:
        """Returns which visits, in this order, today's budgets allow, and notes that they will be made. No policy chose
        them for their worth: what a gram buys is not learned from them."""
        may = self.affords(host_of_key(keys), countries, carbon_g, now_s, together=True)
        self._promise(keys[may], countries[may], carbon_g[may])
        return may

    @property
    def has_budgets(self) -> bool:
        return any(np.isfinite(group.budget_g).any() for group in self._groups.values())

    def next_day_s(self, now_s: float) -> float:
        """Returns when all budgets begin anew."""
        return now_s + DAY_S - (now_s - (now_s if self._began_s is None else self._began_s)) % DAY_S

    def _promise(self, keys: AnyKeys, countries: AnyKeys, carbon_g: F64) -> None:
        self._promises.append((keys, countries, carbon_g))
        for _, group, of in self._each(host_of_key(keys), countries):
            group.add(group.promised_g, of, carbon_g)

    def spent(self, hosts: AnyKeys, countries: AnyKeys, carbon_g: F64, now_s: float, under_way: AnyKeys) -> None:
        """Notes what visits cost; now and then prices follow. Only chosen pages `under_way` (sorted) still cost."""
        self._turn_day(now_s)
        for _, group, of in self._each(hosts, countries):
            group.add(group.step[0], of, carbon_g)
            group.add(group.spent_g, of, carbon_g)
        promises, self._promises = self._promises, []
        for group in self._groups.values():
            group.promised_g[:] = 0
        for keys, of, grams in promises:
            still = search(under_way, keys)[0]
            if still.any():
                self._promise(keys[still], of[still], grams[still])
        if self._stepped_s is None:
            self._stepped_s = now_s
        elif now_s - self._stepped_s >= STEP_S:
            self._change(now_s, now_s - self._stepped_s)
            self._stepped_s = now_s

    def _change(self, now_s: float, step_s: float) -> None:
        elapsed_s = (now_s - (self._began_s or now_s)) % DAY_S
        for name, group in self._groups.items():
            grams, worth, bought_g = group.step
            budget = self._budget(name)
            limited = np.isfinite(budget)
            before_g = np.maximum(group.spent_g - grams, 0.0)
            allowed = np.full(len(budget), np.inf)
            allowed[limited] = pace(budget[limited], before_g[limited], elapsed_s, step_s, DAY_S)
            learned = group.lambdas.learned(worth, bought_g, _KEEP)
            eta = GAIN * step_s / DAY_S
            group.lambdas = learned.update(np.where(limited, grams, 0.0), np.where(limited, allowed, 1.0), eta)
            group.step = np.zeros_like(group.step)

    def _budget(self, name: str) -> F64:
        """Returns the budgets of this agent. A host has one agent; what is meant for more is divided."""
        return self._groups[name].budget_g * (1.0 if name == "host" else self._part())

    def _turn_day(self, now_s: float) -> None:
        self._began_s = now_s if self._began_s is None else self._began_s
        day = int((now_s - self._began_s) // DAY_S)
        if day > self._day:  # a round may contain visits that began the day before
            self._day = day
            for group in self._groups.values():
                group.spent_g[:] = 0

    def state(self) -> PriceState:
        """Returns the prices, for the manifest: a crawl goes on with the prices that it had."""
        groups = {
            name: {
                place: (float(group.lambdas.value[at]), float(group.lambdas.unit[at]), float(group.spent_g[at]))
                for at, place in enumerate(group.names.tolist())
            }
            for name, group in self._groups.items()
        }
        return PriceState(began_s=self._began_s, day=self._day, groups=groups)

    def _recall(self, state: PriceState) -> None:
        for name, group in self._groups.items():
            for at, place in enumerate(group.names.tolist()):
                value, unit, spent_g = state.groups.get(name, {}).get(place, (None, 0.0, 0.0))
                if value is not None and group.lambdas.adapts[at]:
                    group.lambdas.value[at], group.lambdas.unit[at] = value, unit
                group.spent_g[at] = spent_g

    def _each(self, hosts: AnyKeys, countries: AnyKeys) -> list[tuple[str, _Group, AnyKeys]]:
        everybody = np.zeros(len(hosts), np.uint32)
        triples = zip(self._groups, self._groups.values(), (everybody, countries, hosts), strict=True)
        return [(name, group, of) for name, group, of in triples if len(group.names)]


def _running(place: Integers, values: F64) -> F64:
    """Returns the sum of the values of each place so far, in their order."""
    order = np.argsort(place, kind="stable")
    sums = np.cumsum(values[order])
    first = np.flatnonzero(np.diff(place[order], prepend=place[order][:1] - 1))
    before = np.repeat(sums[first] - values[order][first], np.diff(first, append=len(order)))
    running = np.empty(len(values))
    running[order] = sums - before
    return running


def load_contracts(path: Path) -> dict[str, Contract]:
    """Reads a TOML file: a table for each host or country, with `g_per_day` or `price`."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"carbon.contracts: {path} cannot be read: {error}") from None
    found = {}
    for name, terms in tables.items():
        known = isinstance(terms, dict) and terms and set(terms) <= {"g_per_day", "price"}
        if not known or not all(isinstance(v, int | float) and v >= 0 for v in terms.values()):
            raise ConfigError(f'carbon.contracts: under ["{name}"] write g_per_day = 1.5, or price = 10.0, or both')
        found[name] = Contract(terms.get("g_per_day"), terms.get("price"))
    return found


def is_country(name: str) -> bool:
    return len(name) == 2 and name.isascii() and name.isupper()


def packed(code: str) -> int:
    """Returns a country's code as the index has it; 0 if unknown."""
    return ord(code[0]) << 8 | ord(code[1]) if code else 0


def unpacked(number: int) -> str:
    return chr(number >> 8) + chr(number & 0xFF) if number else ""
