"""This module simulates many runs of the green policy at once, slot by slot: staleness and carbon of each.

Runs share a web (pages on servers, a carbon index per server and slot) and differ in lambda and in what the policy
knows. What it does is the argmax of `green_value`; a row of every array is a run.
"""

from dataclasses import dataclass

import numpy as np

from experiments.green_choice import green_value
from gossamer.arrays import F64, Indices


@dataclass(frozen=True)
class Web:
    energy: F64  # runs x pages
    server: Indices  # of each page
    index: F64  # slots x servers

    @property
    def pages(self) -> int:
        return int(self.energy.shape[1])


@dataclass(frozen=True)
class Knowledge:
    """What a heuristic looks at; the rest it takes to be as on average."""

    name: str
    sizes: bool = True
    index: bool = True
    pages: bool = True  # each page's staleness; else one number a server, and its pages in turn


FULL = Knowledge("all")
HEURISTICS = (
    FULL,
    Knowledge("no index", index=False),
    Knowledge("no sizes", sizes=False),
    Knowledge("neither", sizes=False, index=False),
    Knowledge("server staleness", pages=False),
)


@dataclass(frozen=True)
class Totals:
    """Of each run, over the slots that were measured."""

    staleness: F64  # summed over pages and slots
    carbon: F64


def crawl(web: Web, price: F64, knowledge: Knowledge, staleness: F64, warm: int) -> Totals:
    """One download a slot in every run, never idle. `staleness` is where they begin; ties go to the first page."""
    runs, rows = len(price), np.arange(len(price))
    energy = web.energy if knowledge.sizes else np.broadcast_to(web.energy.mean(axis=1)[:, None], web.energy.shape)
    mean = web.index.mean(axis=0).mean()
    stale, totals = staleness.copy(), Totals(np.zeros(runs), np.zeros(runs))
    servers = _Servers(web, stale) if not knowledge.pages else None
    for slot, index in enumerate(web.index):
        carbon = web.energy * index[web.server]
        known = energy * (index if knowledge.index else np.full_like(index, mean))[web.server]
        if servers is not None:
            page = servers.choose(known, price)
        else:
            page = green_value(stale, known, price[:, None]).argmax(axis=1)
        if slot >= warm:
            totals.staleness[:] += stale.sum(axis=1)
            totals.carbon[:] += carbon[rows, page]
        stale += 1
        stale[rows, page] = 0
    return totals


class _Servers:
    """The staleness of a server in LEADS D1.4: it grows by its number of pages each slot, at all servers alike, and
    shrinks by (pages - 1) / pages with a download. Compared per page; the pages of a server are downloaded in turn."""

    def __init__(self, web: Web, stale: F64) -> None:
        self._web = web
        self._order = np.argsort(web.server, kind="stable")
        self._count = np.bincount(web.server, minlength=web.index.shape[1])
        self._begin = np.concatenate(([0], np.cumsum(self._count)[:-1]))
        self._turn = np.zeros((len(stale), len(self._count)), np.intp)
        self._stale = np.stack([np.bincount(web.server, row, len(self._count)) for row in stale])

    def choose(self, known: F64, price: F64) -> Indices:
        rows = np.arange(len(price))
        place = self._begin + self._turn % np.maximum(self._count, 1)
        next_page = self._order[np.minimum(place, len(self._order) - 1)]
        value = green_value(
            self._stale / np.maximum(self._count, 1), np.take_along_axis(known, next_page, 1), price[:, None]
        )
        value[:, self._count == 0] = -np.inf
        server = value.argmax(axis=1)
        page: Indices = next_page[rows, server]
        self._stale += self._count
        self._stale[rows, server] *= (self._count[server] - 1) / self._count[server]
        self._turn[rows, server] += 1
        return page


def in_turn(runs: int, pages: int, random: np.random.Generator) -> F64:
    """Staleness of pages that have been downloaded one after the other."""
    return np.stack([random.permutation(pages).astype(np.float64) for _ in range(runs)])
