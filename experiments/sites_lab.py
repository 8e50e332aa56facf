"""`Lab` is what the experiments with several sites share: where their crawls are, what they crawl, what they found."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments import stretched
from experiments.graphs import given_or_made
from experiments.harness import Block, Row
from experiments.sites_runs import Done, Setting, crawl
from gossamer.sim.figures import Figure
from gossamer.sim.graphs import Graph

MADE_PAGES, MADE_HOSTS = 6_000, 200

Lines = list[Row]


class Lab:
    """Where an experiment's crawls are, and what it has found."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.arguments, self._scratch = arguments, scratch
        self._count = 0
        self.lines: Lines = []
        self.notes: list[str] = []
        self.figures: list[Figure] = []
        self.blocks: list[Block] = []

    @property
    def next_folder(self) -> Path:
        """Where the next crawl will be."""
        return self._scratch / str(self._count + 1)

    def crawl(self, setting: Setting, seeds: Path, web: str) -> Done:
        self._count += 1
        return crawl(setting, self._scratch / str(self._count), seeds, web)

    def stretched(self, setting: Setting, seeds: Path, web: str) -> stretched.Stretched:
        """The same as one crawler over two places."""
        self._count += 1
        return stretched.crawl(setting, self._scratch / str(self._count), seeds, web)

    def seeds(self, urls: Sequence[str]) -> Path:
        path = self._scratch / f"seeds-{len(urls)}.txt"
        path.write_text("".join(f"{url}\n" for url in urls))
        return path

    def say(self, experiment: str, setting: str, value: float, unit: str, paper: float | None = None) -> None:
        line = {"experiment": experiment, "setting": setting, "value": value, "unit": unit, "paper": paper}
        self.lines.append(line)

    def graph(self) -> tuple[Path, Graph, list[str]]:
        """The one that is asked for, or a made one, of links without pages."""
        path, graph = given_or_made(self.arguments, self._scratch, MADE_PAGES, MADE_HOSTS)
        return path, graph, ["--graph-hosts", self.arguments.hosts] if self.arguments.hosts else []


def first_pages(hosts: int) -> list[str]:
    return [f"http://h{number}.test/" for number in range(hosts)]
