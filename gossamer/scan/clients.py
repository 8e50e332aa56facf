"""This module decides which clients scan: a number of them here, or those that a file names. It makes their jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gossamer.cluster.engine import Job
from gossamer.cluster.federation_file import Federation
from gossamer.cluster.federation_file import load as load_federation
from gossamer.cluster.protocol import encode
from gossamer.config import Config
from gossamer.config.file import read_toml
from gossamer.errors import ConfigError
from gossamer.scan.messages import ClientTask

_KEYS = ("at_once", "reference_s", "set")
_FORM = """write one table for each client:
[clients.anna]
reference_s = 85.8   # what the reference site took (optional)
at_once = 4          # websites at a time (optional)
set = { "polite.connections" = 64 }   # configuration of its own (optional)"""


@dataclass(frozen=True)
class Worker:
    """`Worker` describes a client that the coordinator wants."""

    name: str
    slots: int = 4
    values: Mapping[str, Any] = field(default_factory=dict)  # configuration of its own
    is_remote: bool = False  # it is on another machine, and comes and goes

    def delay_s(self, config: Config) -> float:
        """Returns the delay that it keeps between two requests, if `config` is the common configuration."""
        return config.replace(self.values).polite.delay_s


def job_of(task: ClientTask) -> Job:
    """Returns the job of a client. It stays in the foreground: a client that goes on while Ctrl-Z stops its coordinator
    would lose its lease, and go on nevertheless."""
    return Job(task.client, "gossamer.scan.client", task=encode(task), is_foreground=True)


def local(count: int, slots: int) -> list[Worker]:
    return [Worker(f"c{number}", slots) for number in range(count)]


def load(path: Path, slots: int) -> tuple[list[Worker], dict[str, float]]:
    """Returns the clients of a file, and the reference times that it has. The sites of a federation are clients too."""
    values = read_toml(path, f"is no file; {_FORM}")
    if "clients" not in values and "sites" in values:
        return of_federation(load_federation(path), slots), {}
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
    Config().replace(table.get("set", {}))  # raises an error that explains what is wrong with it


def of_federation(federation: Federation, slots: int, here: str | None = None) -> list[Worker]:
    """Returns one client for each agent of each site. With `here`, those of other sites are on other machines."""
    return [
        Worker(f"{name}_a{number}", slots, is_remote=here not in (None, name))
        for name, site in federation.sites.items()
        for number in range(site.agents)
        if not site.gone
    ]
