"""`gossamer lab EXPERIMENT`: simulated crawls, one command each; see docs/lab.md."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from gossamer.cli.app import Parser
from gossamer.errors import ConfigError
from gossamer.sim.numbers import natural

MISSING = "the lab needs numba, scipy and matplotlib: pip install 'gossamer-crawler[lab]'"


def main(argv: Sequence[str]) -> int:
    try:
        import matplotlib  # noqa: F401
        import numba  # noqa: F401
        import scipy  # noqa: F401
    except ImportError:
        raise ConfigError(MISSING) from None
    arguments = parser().parse_args(argv)
    if arguments.out is not None:  # now, not after everything has been computed
        if arguments.out.exists() and not arguments.out.is_dir():
            raise ConfigError(f"--out {arguments.out} is a file; give a directory")
        arguments.out.mkdir(parents=True, exist_ok=True)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def parser() -> argparse.ArgumentParser:
    from experiments import EXPERIMENTS

    top = Parser(prog="gossamer lab", description="Simulate crawls before you spend bandwidth.")
    commands = top.add_subparsers(required=True, metavar="EXPERIMENT")
    for name, experiment in EXPERIMENTS.items():
        text = (experiment.__doc__ or "").splitlines()[0]
        sub = commands.add_parser(name, help=text[0].lower() + text[1:].rstrip("."), description=text)
        sub.add_argument("--json", action="store_true", help="one object per line")
        sub.add_argument("--out", type=Path, metavar="DIR", help="write JSON, Parquet and figures (PNG, SVG) there")
        sub.add_argument("--seed", type=natural, default=0, help="of everything random (default: 0)")
        experiment.options(sub)
        sub.set_defaults(run=experiment.run)
    return top
