"""Every experiment is a module with a docstring, `options(parser)` and `run(arguments)`."""

from types import ModuleType

from gossamer.lab.experiments import batch, order, parity, realcrawl, robots

EXPERIMENTS: dict[str, ModuleType] = {
    "order": order,
    "robots": robots,
    "batch": batch,
    "realcrawl": realcrawl,
    "parity": parity,
}
