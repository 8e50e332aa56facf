"""This module keeps the options of a run in the crawl's directory, so that the next run need not get them again."""

import os
from pathlib import Path
from typing import Any

import tomli_w

from gossamer.config.file import load
from gossamer.config.sections import Config
from gossamer.errors import ConfigError, disk_full_guard

FILE = "last-run.toml"  # no name that a user's own file in the same directory may have

# About one run only, one agent only, or a secret; seeds are known to the crawl as soon as it has begun.
_ONCE = frozenset(["crawl.pages", "crawl.rounds", "crawl.minutes", "crawl.seeds", "crawl.agent", "carbon.token"])
_HEAD = """\
# The options of this crawl's last run, where they are not the defaults. The next run begins with them, unless it gets
# a file (--config). Options on its command line take precedence. Remove this file to begin with the defaults.

"""


def options(config: Config) -> dict[str, Any]:
    """Returns what differs from the default and is worth remembering, by `section.key`."""
    return {name: value for name, value in config.changes().items() if name not in _ONCE}


def remember(directory: Path, config: Config) -> None:
    """Writes the options to a file, whole or not at all."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in options(config).items():
        section, _, leaf = name.partition(".")
        sections.setdefault(section, {})[leaf] = value
    path = directory / FILE
    part = path.with_name(f".{FILE}.part")
    with disk_full_guard(path):
        part.write_text(_HEAD + tomli_w.dumps(sections), encoding="utf-8")
        os.replace(part, path)


def recall(directory: Path) -> Config | None:
    """Returns the options of the last run, None if there was none."""
    path = directory / FILE
    try:
        return load(path) if path.is_file() else None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error} (or remove that file)") from None
