"""Turns chosen rows of the index into requests, with what earlier visits taught."""

import math

import numpy as np

from gossamer.arrays import Rows
from gossamer.columns import NO_TEXT, Status
from gossamer.config import Config
from gossamer.crawl import link_diff
from gossamer.fetch.client import Request
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.strategies import Strategy
from gossamer.web.url import host_of

_SOON_S = 2.0  # of one host, what it can serve in that time comes first, so that many hosts get their turn
_AFTER_ALL = -1e300  # lower than any strategy's rank
_BEFORE_ALL = 1e300
_LATER_S = 60.0  # more of it only where there are not enough hosts


def per_host(config: Config) -> tuple[int, int]:
    """How many pages of one host the workbench may hold: while there are others, and where there are not."""
    polite = config.polite
    if config.index.queue_per_host:
        return config.index.queue_per_host, config.index.queue_per_host
    if not polite.delay_s:
        return config.crawl.width, config.crawl.width
    soon, later = (max(2, math.ceil(span_s / polite.delay_s)) * polite.burst for span_s in (_SOON_S, _LATER_S))
    return soon, later


def requests(index: PageIndex, rows: Rows, strategy: Strategy, seed: int, taken_before: int) -> list[Request]:
    """Best first. A rank is the strategy's, so that better pages found later overtake; where hosts are ranked,
    whose ranks change all the time, it is the order of taking."""
    if strategy.host_rank is None:
        ranks = strategy.page_rank(rows, seed).tolist()
    else:
        ranks = (-np.arange(taken_before, taken_before + len(rows), dtype=np.float64)).tolist()
    # What failed before comes after what was never tried: a host's errors must not keep us from its good pages.
    ranks = [rank if not tries else _AFTER_ALL for rank, tries in zip(ranks, rows["tries"].tolist(), strict=True)]
    # What is visited again was chosen by another measure, and how much of it there is was decided when it was.
    for place, position in enumerate(np.flatnonzero(rows["status"] == Status.FETCHED).tolist()):
        ranks[position] = _BEFORE_ALL / (1 + place)
    hosts = host_of_key(rows["key"])
    unique, inverse = np.unique(hosts, return_inverse=True)
    known = index.hosts.look_up(unique)[1]["known"][inverse].tolist()
    columns = [rows[name].tolist() for name in ("key", "depth", "hops", "tries")]
    found = [
        Request(key, url, host_of(url), depth, hops, tries, rank, known=pages)
        for url, key, depth, hops, tries, rank, pages in zip(index.urls(rows), *columns, ranks, known, strict=True)
    ]
    _add_history(index, rows, found)
    return found


def _add_history(index: PageIndex, rows: Rows, found: list[Request]) -> None:
    """Validators and digest of pages that were visited before."""
    before = np.flatnonzero(rows["status"] != Status.NEW)
    if not len(before):
        return
    before = before[np.argsort(rows["key"][before])]
    there, visited = index.visited.look_up(np.ascontiguousarray(rows["key"][before]))
    before, visited = before[there], visited[there]
    texts = np.flatnonzero(visited["validators"] != np.uint64(NO_TEXT))
    validators = dict(zip(texts.tolist(), index.heap.read(visited["validators"][texts]), strict=True))
    for i, (position, digest) in enumerate(zip(before.tolist(), visited["digest"].tolist(), strict=True)):
        request = found[position]
        request.digest = digest
        if i in validators:
            request.etag, request.last_modified = link_diff.validators(validators[i])
