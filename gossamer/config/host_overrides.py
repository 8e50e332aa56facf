"""This module finds the [host] table that a host goes by: the one with its name, or the nearest "*." above it."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from gossamer.config.sections import Config, Polite

T = TypeVar("T")


def of_host(table: Mapping[str, T], host: str) -> T | None:
    """Returns the entry of a host, if it has one."""
    found, rest = table.get(host), host
    while found is None and rest:
        rest = rest.partition(".")[2]
        found = table.get(f"*.{rest}")
    return found


def polite_by_host(config: Config) -> dict[str, Polite]:
    """Returns how the hosts with rules of their own are treated."""
    found = {}
    for name, given in config.host.items():
        own = {key: value for key, value in given.items() if key in Polite.__struct_fields__}
        if "delay_s" in own:
            own["small_delay_s"] = 0.0
        if own:
            found[name] = msgspec.structs.replace(config.polite, **own)
    return found


def pages_by_host(config: Config) -> dict[str, int]:
    """Returns how many of their pages may be known; 0: any number."""
    return {name: given["pages"] for name, given in config.host.items() if "pages" in given}
