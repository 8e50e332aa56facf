"""`Importance` says how much a page counts: by PageRank where the crawl computes it, else by links and OPIC.

OPIC's estimate of a page is all cash that it ever had: what it has passed on at its visits and what it has now
(Abiteboul et al. 2003). It does not grow with the number of visits, but it needs them: after a first crawl it mostly
says how near to the seeds a page is, and the number of links says more. So a page that was visited once counts by its
links, and with each visit more by OPIC. All are taken as parts of their mean over the pages that were fetched; and as
in PageRank a part is given to all alike, so that no page counts for nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from gossamer.arrays import F64, Keys, Rows

DAMPING = 0.85
HALF = 4  # visits after which OPIC counts as much as links

PageRank = Callable[[Keys], F64]  # 0: not known


class _Mean(NamedTuple):
    links: float = 0.0
    opic: float = 0.0
    pagerank: float = 0.0


class Importance:
    """`Importance` is that of one agent's pages. `given` is what the virtual page has given to each page so far, which
    rows lack (crawl/ledger.py)."""

    def __init__(self, given: Callable[[], int] = lambda: 0, pagerank: PageRank | None = None) -> None:
        self._given, self._pagerank = given, pagerank
        self._mean = _Mean()

    def measure(self, parts: Iterable[tuple[Rows, Rows]]) -> None:
        """Learns the means from all fetched pages: pairs of VISITED and PAGE rows."""
        links, opic, ranks, count, ranked = 0.0, 0.0, 0.0, 0, 0
        for visited, pages in parts:
            links += float((pages["hits"] + 1.0).sum())
            opic += float(self._opic(visited, pages).sum())
            rank = self._ranks(visited)
            ranks, ranked = ranks + float(rank.sum()), ranked + int((rank > 0).sum())
            count += len(visited)
        self._mean = _Mean(links / max(count, 1), opic / max(count, 1), ranks / max(ranked, 1))

    def of(self, visited: Rows, pages: Rows) -> F64:
        """Returns the importance of fetched pages (VISITED and PAGE rows); 1 is the mean."""
        links, opic = _part(pages["hits"] + 1.0, self._mean.links), _part(self._opic(visited, pages), self._mean.opic)
        again = np.maximum(visited["visits"], 1) - 1.0
        trust = again / (again + HALF - 1)
        part = (1 - trust) * links + trust * opic
        ranks = self._ranks(visited)
        part = np.where(ranks > 0, _part(ranks, self._mean.pagerank), part)
        return 1 - DAMPING + DAMPING * part

    def _opic(self, visited: Rows, pages: Rows) -> F64:
        cash: F64 = pages["cash"].astype(np.float64) + self._given()
        return visited["history"] + np.maximum(cash, 0.0)

    def _ranks(self, visited: Rows) -> F64:
        if self._pagerank is None:
            return np.zeros(len(visited))
        return self._pagerank(np.ascontiguousarray(visited["key"]))


def _part(values: F64, mean: float) -> F64:
    return values / mean if mean > 0 else np.ones(len(values))
