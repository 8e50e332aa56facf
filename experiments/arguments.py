"""Options that several experiments share: which graph, on which hosts, in which orders, from which pages on."""

import argparse
from pathlib import Path

from gossamer.sim.numbers import natural, positive


def add_graph(
    parser: argparse.ArgumentParser, made: bool = False, hosts: str = "other hosts: even:N, power:N or cuts:N"
) -> None:
    """`made`: where any graph will do, none need be given."""
    kinds = "npz, list of links, or the directory of a crawl" + (" (default: a made one)" if made else "")
    parser.add_argument("--graph", type=Path, required=not made, help=kinds)
    parser.add_argument("--hosts", default="", metavar="RULE", help=hosts)


def add_orders(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--order", action="append", metavar="NAME", help=f"only these strategies (default: {default})")


def add_starts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=positive, default=50, metavar="N", help="random start pages (default: 50)")


def add_pages(parser: argparse.ArgumentParser, default: str = "all") -> None:
    parser.add_argument("--pages", type=natural, default=0, metavar="N", help=f"only so many (default: {default})")
