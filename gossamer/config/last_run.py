"""What a run was told, kept in the crawl's directory so that the next one need not be told again."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.config import Config, load, toml
from gossamer.errors import ConfigError, disk_full_guard

FILE = "last-run.toml"  # no name that a user's own file in the same directory may have

# About one run only, one agent only, or a secret; seeds are known to the crawl as soon as it has begun.
_ONCE = frozenset(["crawl.pages", "crawl.rounds", "crawl.minutes", "crawl.seeds", "crawl.agent", "carbon.token"])
_HEAD = """# What the last run of this crawl was told, where it is not the default. The next run begins with it, unless
# it is given a file (--config); what its command line says goes before. Remove this file to begin with the defaults.
"""


def options(config: Config) -> dict[str, Any]:
    """What differs from the default and is worth remembering, by `section.key`."""
    found: dict[str, Any] = {}
    for part in dataclasses.fields(Config):
        if part.name == "host":
            continue
        section, default = getattr(config, part.name), getattr(Config(), part.name)
        for leaf in dataclasses.fields(section):
            name, value = f"{part.name}.{leaf.name}", getattr(section, leaf.name)
            if name not in _ONCE and value != getattr(default, leaf.name):
                found[name] = value
    return found | {f"host.{host}": rules for host, rules in config.host.items()}


def remember(directory: Path, config: Config) -> None:
    """Write it down, whole or not at all."""
    path = directory / FILE
    part = path.with_name(f".{FILE}.part")
    with disk_full_guard(path):
        part.write_text(_HEAD + _document(options(config)), encoding="utf-8")
        os.replace(part, path)


def recall(directory: Path) -> Config | None:
    """What the last run was told, None if there is nothing."""
    path = directory / FILE
    try:
        return load(path) if path.is_file() else None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error} (or remove that file)") from None


def _document(values: Mapping[str, Any]) -> str:
    sections: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, leaf = name.partition(".")
        if section == "host":
            own = sections.setdefault(f"host.{toml(leaf)}", [])
            own += (f"{key} = {toml(item)}" for key, item in value.items())
        else:
            sections.setdefault(section, []).append(f"{leaf} = {toml(value)}")
    return "".join(f"\n[{section}]\n" + "".join(f"{line}\n" for line in lines) for section, lines in sections.items())
