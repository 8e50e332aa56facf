"""What a visit costs in energy and carbon, and what that takes from its value.

A visit of page j at host i is worth w_j: its weighted staleness, or the freshness that it brings (refresh/policies.py).
It takes energy e_j = alpha p_j + beta, of which every joule costs g_i(t) now. The page with the largest

    w_j - lambda_i e_j g_i(t)

goes first (LEADS D1.4, section 2). lambda is worth per gram: given, agreed with a host, or found by dual ascent, so
that a budget is met. Several budgets may bind one page, of its host, its country and all: their lambdas add up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, U64, Bools, Indices, Integers
from gossamer.refresh.policies import best

J_PER_KWH = 3.6e6
BYTES_PER_GB = 1e9
# Sustainable Web Design Model v4: 0.055 kWh per GB in data centres, 0.059 in networks. Others find 0.001 for networks,
# whose power hardly depends on traffic; so a footprint is a range, and both ends are reported.
CENTRE_KWH_PER_GB, NETWORK_KWH_PER_GB, LEAST_NETWORK_KWH_PER_GB = 0.055, 0.059, 0.001


@dataclass(frozen=True)
class Energy:
    """e = alpha p + beta, for p bytes on the wire."""

    alpha_j_per_byte: float = (CENTRE_KWH_PER_GB + NETWORK_KWH_PER_GB) * J_PER_KWH / BYTES_PER_GB
    beta_j: float = 0.1  # a request that sends nothing: about ten milliseconds of a ten-watt core

    def joules(self, wire_bytes: npt.ArrayLike) -> F64:
        energy: F64 = self.alpha_j_per_byte * np.asarray(wire_bytes, np.float64) + self.beta_j
        return energy


LOW = Energy((CENTRE_KWH_PER_GB + LEAST_NETWORK_KWH_PER_GB) * J_PER_KWH / BYTES_PER_GB)
HIGH = Energy()


def carbon_g(energy_j: F64, g_per_kwh: F64) -> F64:
    return energy_j * g_per_kwh / J_PER_KWH


def refresh_weights(score: F64, change_per_s: F64, within_s: float) -> F64:
    """Y: how much a page asks to be refreshed, by its score and how likely it changes within a while; 1 on average."""
    asked = score * -np.expm1(-change_per_s * within_s)
    mean = asked.mean() if len(asked) else 0.0
    return asked / mean if mean > 0 else np.ones(len(asked))


# --- who goes


def green_value(worth: F64, carbon: F64, lambdas: npt.ArrayLike) -> F64:
    """`carbon` is e g of a visit now; `lambdas` of its page (Lambdas.of)."""
    value: F64 = worth - np.asarray(lambdas) * carbon
    return value


def choose(values: F64, keys: Integers, count: int, idle: bool = False) -> Indices:
    """The best page for each of `count` threads. A crawler that may idle leaves pages alone that cost more than a visit
    is worth now; the seed's never idles. What is forbidden (`affordable`) stays so."""
    chosen = best(values, keys, count)
    return chosen[values[chosen] >= 0] if idle else chosen[values[chosen] > -np.inf]


def affordable(values: F64, carbon: F64, left: F64, group: Integers) -> F64:
    """Prices lead to a budget, this keeps it: a visit that costs more than is left of it (per group) is forbidden.
    Group -1 has no budget."""
    return np.where((group < 0) | (carbon <= left[group]), values, -np.inf)


def within(chosen: Indices, carbon: F64, left: F64, group: Integers) -> Indices:
    """Of pages chosen together, best first, those that their groups can pay for one after the other."""
    order = np.argsort(group[chosen], kind="stable")
    sums = np.cumsum(carbon[chosen][order])
    _, first, which = np.unique(group[chosen][order], return_index=True, return_inverse=True)
    before = np.concatenate(([0.0], sums))[first][which]
    paid = np.empty(len(chosen), np.bool_)
    paid[order] = (group[chosen][order] < 0) | (sums - before <= left[group[chosen][order]] * (1 + 1e-9))
    return chosen[paid]


def shuffled(keys: U64, seed: int) -> U64:
    """Keys in an order that the seed decides (the finaliser of SplitMix64): equal values then go by chance."""
    hashed = keys ^ np.uint64(seed % 2**64)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


# --- what carbon costs: lambda

GAIN = 2.0  # who spends twice the budget makes carbon dearer by twice what it is worth, in the course of a period


@dataclass(frozen=True)
class Lambdas:
    """The price of carbon for each group of pages (hosts, countries, or one group for all): worth per gram."""

    value: F64
    adapts: Bools  # the others keep the price that was agreed
    unit: F64  # the scale of a step: worth per gram of what was visited lately; 0 before anything was

    def of(self, group: Integers) -> F64:
        """Of each page; group -1 is free of charge."""
        return np.where(group >= 0, self.value[group], 0.0)

    def update(self, carbon: F64, budget: F64, eta: float) -> "Lambdas":
        """Dual ascent: dearer where more carbon was spent than the budget of this step, cheaper where less. Steps are
        relative to the budget and to what carbon is worth there, so that `eta` has no unit: GAIN times the part of the
        period that a step is. An excess is never cut off, or hosts visited in few steps would never become dearer."""
        part = np.divide(carbon, budget, out=np.where(carbon > 0, 2.0, 1.0), where=budget > 0)
        step = eta * self.unit * (part - 1)
        return replace(self, value=np.where(self.adapts, np.maximum(0.0, self.value + step), self.value))

    def learned(self, worth: F64, carbon: F64, keep: float) -> "Lambdas":
        """With the scale of steps from the visits just made: per group their worth and carbon."""
        now = np.divide(worth, carbon, out=np.zeros(len(worth)), where=carbon > 0)
        mixed = np.where(self.unit > 0, keep * self.unit + (1 - keep) * now, now)
        return replace(self, unit=np.where(carbon > 0, mixed, self.unit))


def free_lambdas(groups: int) -> Lambdas:
    """Carbon costs nothing yet, and the price follows the budgets."""
    return Lambdas(np.zeros(groups), np.ones(groups, np.bool_), np.zeros(groups))


def given_lambdas(value: npt.ArrayLike) -> Lambdas:
    """Prices that stay."""
    fixed = np.asarray(value, np.float64)
    return Lambdas(fixed, np.zeros(len(fixed), np.bool_), np.zeros(len(fixed)))


def pace(budget: F64, spent: F64, elapsed_s: float, step_s: float, period_s: float) -> F64:
    """What may be spent in the next step, if the rest of a period's budget is spread evenly over the rest of it."""
    left = max(period_s - elapsed_s, step_s)
    return np.maximum(budget - spent, 0.0) * step_s / left


# --- what was agreed


@dataclass(frozen=True)
class Contract:
    """Agreed with a host: so many grams per period, or a price."""

    budget_g: float | None = None
    price: float | None = None  # lambda


def agreed(
    contracts: Mapping[str, Contract], hosts: Sequence[str], default: Contract | None = None
) -> tuple[Lambdas, F64]:
    """Lambdas and budgets of these hosts. Where only a price was agreed there is no budget, and where nothing was,
    carbon is free: the budget is infinite."""
    terms = [contracts.get(host, default or Contract()) for host in hosts]
    price = np.array([term.price or 0.0 for term in terms])
    budget = np.array([np.inf if term.budget_g is None else term.budget_g for term in terms])
    adapts = np.array([term.budget_g is not None for term in terms], np.bool_)
    return Lambdas(price, adapts, np.zeros(len(terms))), budget
