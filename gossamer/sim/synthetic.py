"""Makes a small web graph, where any will do: hosts of all sizes, popular pages, dead ends."""

from pathlib import Path

import numpy as np

from gossamer.arrays import Indices
from gossamer.sim.hosts import host_rule

OUT = 8  # links of a page, on average
LOCAL = 0.7  # part of them that stay on their host
DEAD_ENDS = 0.1  # part of the pages without links


def make(path: Path, pages: int, hosts: int, seed: int = 0, skew: float = 2.0) -> None:
    """Write it as .npz. The greater the skew, the more links lead to early pages. Every host's first page leads to its
    second and so on, so that one start per host is enough."""
    random = np.random.default_rng(seed)
    host, _ = host_rule(f"power:{hosts}", np.zeros(pages + 1, np.int64), np.zeros(0, np.int32))
    first = np.searchsorted(host, np.arange(hosts + 1))
    rows = [_links(page, int(host[page]), first, random, skew) for page in range(pages)]
    np.savez_compressed(
        path,
        indptr=np.cumsum([0, *map(len, rows)]),
        indices=np.concatenate(rows).astype(np.int32),
        host=host.astype(np.int32),
        host_names=np.array([f"m{number}" for number in range(hosts)], "S"),
    )


def _links(page: int, host: int, first: Indices, random: np.random.Generator, skew: float) -> list[int]:
    """Distinct targets in a random order, early pages of a host and of the whole more popular than late ones."""
    start, end, pages = int(first[host]), int(first[host + 1]), int(first[-1])
    count = random.poisson(OUT) if random.random() > DEAD_ENDS else 0
    is_local = random.random(count) < LOCAL
    popular = random.random(count) ** skew
    targets = np.where(is_local, start + popular * (end - start), popular * pages).astype(np.int64)
    chain = [page + 1] if page + 1 < end else []
    return [target for target in dict.fromkeys([*targets.tolist(), *chain]) if target != page]
