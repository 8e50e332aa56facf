"""Which clients scan: so many here, or those that a file names."""

import tomllib
from pathlib import Path
from typing import Any

from gossamer.config import Config
from gossamer.errors import ConfigError
from gossamer.scan.channel import Worker

_KEYS = ("at_once", "reference_s", "set")
_FORM = """write one table for each client:
[clients.anna]
reference_s = 85.8   # what the reference site took (optional)
at_once = 4          # websites at a time (optional)
set = { "polite.connections" = 64 }   # configuration of its own (optional)"""


def local(count: int, slots: int) -> list[Worker]:
    return [Worker(f"c{number}", slots) for number in range(count)]


def load(path: Path, slots: int) -> tuple[list[Worker], dict[str, float]]:
    """The clients of a file, and the reference times that it knows. The sites of a federation are clients too."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise ConfigError(f"{path} is no file; {_FORM}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    if "clients" not in values and "sites" in values:
        return _of_federation(path, slots), {}
    tables = values.get("clients")
    if not isinstance(tables, dict) or not tables or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError(f"{path} names no client; {_FORM}")
    workers, times = [], {}
    for name, table in tables.items():
        _check(path, name, table)
        workers.append(Worker(name, table.get("at_once", slots), table.get("set", {})))
        if "reference_s" in table:
            times[name] = float(table["reference_s"])
    return workers, times


def _check(path: Path, name: str, table: dict[str, Any]) -> None:
    if unknown := sorted(set(table) - set(_KEYS)):
        raise ConfigError(f"{path}: clients.{name}.{unknown[0]} is unknown; there are {', '.join(_KEYS)}")
    at_once, reference_s = table.get("at_once", 1), table.get("reference_s", 1.0)
    if not isinstance(at_once, int) or isinstance(at_once, bool) or at_once < 1:
        raise ConfigError(f"{path}: clients.{name}.at_once must be a number of websites, at least 1")
    if not isinstance(reference_s, int | float) or isinstance(reference_s, bool) or reference_s <= 0:
        raise ConfigError(f"{path}: clients.{name}.reference_s must be seconds above 0")
    Config().replace(table.get("set", {}))  # says what is wrong with it


def _of_federation(path: Path, slots: int) -> list[Worker]:
    """One client for each agent of each site, on this machine."""
    from gossamer.cluster.federation_file import load as load_federation

    sites = load_federation(path).sites
    return [Worker(f"{name}_a{n}", slots) for name, site in sites.items() for n in range(site.agents)]
