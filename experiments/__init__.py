"""Every experiment is a module with a docstring, `options(parser)` and `run(arguments)`."""

from types import ModuleType

from experiments import (
    agents,
    batch,
    green,
    jobs,
    order,
    parity,
    partition,
    realcrawl,
    refresh,
    refresh_real,
    robots,
    sites,
)

EXPERIMENTS: dict[str, ModuleType] = {
    "order": order,
    "robots": robots,
    "batch": batch,
    "partition": partition,
    "realcrawl": realcrawl,
    "parity": parity,
    "agents": agents,
    "sites": sites,
    "jobs": jobs,
    "refresh": refresh,
    "refresh-real": refresh_real,
    "green": green,
}
