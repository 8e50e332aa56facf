"""This module holds what is known of each country: where it is, and where its electricity comes from."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import nan
from typing import NamedTuple

WORLD_G_PER_KWH = 475.0  # of countries without data (IEA, 2019)
MIX = ("coal", "gas", "oil", "nuclear", "hydroelectricity", "wind", "solar", "biofuel")


class Country(NamedTuple):
    name: str
    latitude: float
    longitude: float
    g_per_kwh: float  # mean carbon intensity of its electricity; nan if unknown
    mix: Mapping[str, float]  # shares of its electricity; empty if unknown


@cache
def facts() -> Mapping[str, Country]:
    """Returns the facts about each country, by code."""
    with files("gossamer").joinpath("data/countries.csv").open(encoding="utf-8") as lines:
        return {row["country"]: _country(row) for row in csv.DictReader(lines)}


def _country(row: Mapping[str, str]) -> Country:
    mix = {source: float(row[source]) for source in MIX if row[source]}
    grams = float(row["g_per_kwh"]) if row["g_per_kwh"] else nan
    return Country(row["name"], float(row["latitude"]), float(row["longitude"]), grams, mix)
