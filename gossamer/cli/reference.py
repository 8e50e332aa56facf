"""`gossamer config` prints every key of the configuration; `gossamer orders` lists the strategies for --order."""

import argparse
import json

from gossamer.cli import options
from gossamer.config import document
from gossamer.frontier.strategies import ORDERS


def config_arguments(_: argparse.ArgumentParser) -> None:
    """Declares no arguments."""


def config(_: argparse.Namespace) -> int:
    print(document(), end="")
    return 0


def orders_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def orders(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps([{"name": each.name, "meaning": each.meaning} for each in ORDERS.values()]))
        return 0
    width = max(map(len, ORDERS))
    for strategy in ORDERS.values():
        only = " (only in simulations)" if strategy.score and strategy.score.needs_oracle else ""
        print(f"{strategy.name:{width}} {strategy.meaning}{only}")
    return 0
