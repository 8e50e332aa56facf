"""A configuration as plain values, for the processes that are to follow it."""

import dataclasses
from typing import Any

from gossamer.config import Config


def as_values(config: Config) -> dict[str, dict[str, Any]]:
    """By section and key; `config.checked` makes the same configuration of it."""
    found: dict[str, dict[str, Any]] = {"host": {name: dict(rules) for name, rules in config.host.items()}}
    for part in dataclasses.fields(Config):
        if part.name != "host":
            section = getattr(config, part.name)
            found[part.name] = {leaf.name: _plain(getattr(section, leaf.name)) for leaf in dataclasses.fields(section)}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    return list(value) if isinstance(value, list | tuple) else dict(value)
