"""This module prices carbon: the energy that a visit takes, and prices per gram that meet budgets by dual ascent.

A visit of page j at host i is worth w_j: its weighted staleness, or the freshness that it brings (refresh/policies.py).
It takes energy e_j = alpha p_j + beta, of which every joule costs g_i(t) now. The page with the largest

    w_j - lambda_i e_j g_i(t)

goes first (LEADS D1.4, section 2). lambda is worth per gram: given, agreed with a host, or found by dual ascent, so
that a budget is met. Several budgets may bind one page, of its host, its country and all: their lambdas add up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gossamer.arrays import F64, Bools, Integers

Name = TypeVar("Name", int, str)  # of a host

J_PER_KWH = 3.6e6
BYTES_PER_GB = 1e9
# Sustainable Web Design Model v4: 0.055 kWh per GB in data centres, 0.059 in networks. Others find 0.001 for networks,
# whose power hardly depends on traffic; so a footprint is a range, and both ends are reported.
CENTRE_KWH_PER_GB, NETWORK_KWH_PER_GB = 0.055, 0.059


@dataclass(frozen=True)
class Energy:
    """`Energy` is e = alpha p + beta, for p bytes on the wire."""

    alpha_j_per_byte: float = (CENTRE_KWH_PER_GB + NETWORK_KWH_PER_GB) * J_PER_KWH / BYTES_PER_GB
    beta_j: float = 0.1  # a request that sends nothing: about ten milliseconds of a ten-watt core

    def joules(self, wire_bytes: npt.ArrayLike) -> F64:
        return self.alpha_j_per_byte * np.asarray(wire_bytes, np.float64) + self.beta_j


def carbon_g(energy_j: F64, g_per_kwh: F64) -> F64:
    return energy_j * g_per_kwh / J_PER_KWH


GAIN = 2.0  # who spends twice the budget makes carbon dearer by twice what it is worth, in the course of a period


@dataclass(frozen=True)
class Lambdas:
    """`Lambdas` are prices of carbon, as worth per gram, per group of pages: hosts, countries, or one group for all."""

    value: F64
    adapts: Bools  # the others keep the price that was agreed
    unit: F64  # the scale of a step: worth per gram of what was visited lately; 0 before anything was

    def of(self, group: Integers) -> F64:
        """Returns the price for each page; group -1 is free of charge."""
        return np.where(group >= 0, self.value[group], 0.0)

    def update(self, carbon: F64, budget: F64, eta: float) -> "Lambdas":
        """Returns prices after a step of dual ascent: dearer where more carbon was spent than the budget of this step,
        cheaper where less. Steps are relative to the budget and to what carbon is worth there, so that `eta` has no
        unit: GAIN times the part of the period that a step is. An excess is never cut off, or hosts visited in few
        steps would never become dearer."""
        part = np.divide(carbon, budget, out=np.where(carbon > 0, 2.0, 1.0), where=budget > 0)
        step = eta * self.unit * (part - 1)
        return replace(self, value=np.where(self.adapts, np.maximum(0.0, self.value + step), self.value))

    def learned(self, worth: F64, carbon: F64, keep: float) -> "Lambdas":
        """Returns the same prices; the scale of steps follows from the visits just made: worth and carbon per group."""
        now = np.divide(worth, carbon, out=np.zeros(len(worth)), where=carbon > 0)
        mixed = np.where(self.unit > 0, keep * self.unit + (1 - keep) * now, now)
        return replace(self, unit=np.where(carbon > 0, mixed, self.unit))


def pace(budget: F64, spent: F64, elapsed_s: float, step_s: float, period_s: float) -> F64:
    """Returns what the next step may spend, if the rest of a period's budget is spread evenly over the rest of it."""
    left = max(period_s - elapsed_s, step_s)
    return np.maximum(budget - spent, 0.0) * step_s / left


@dataclass(frozen=True)
class Contract:
    """A contract with a host is about so many grams per period, or a price."""

    budget_g: float | None = None
    price: float | None = None  # lambda


def agreed(contracts: Mapping[Name, Contract], hosts: Sequence[Name]) -> tuple[Lambdas, F64]:
    """Returns lambdas and budgets of these hosts. Where only a price was agreed there is no budget, and where nothing
    was, carbon is free: the budget is infinite."""
    terms = [contracts.get(host, Contract()) for host in hosts]
    price = np.array([term.price or 0.0 for term in terms])
    budget = np.array([np.inf if term.budget_g is None else term.budget_g for term in terms])
    adapts = np.array([term.budget_g is not None for term in terms], np.bool_)
    return Lambdas(price, adapts, np.zeros(len(terms))), budget
