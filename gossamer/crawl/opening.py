"""`Books` is what an agent finds in its directory when it begins, and what each round changes, together.

Two ports are beside it: `Revisits` chooses known pages that are due again, `Accounting` says what visits cost. A crawl
that asks for neither has neither, and runs none of their code.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain, chains
from gossamer.archive.copies import mend
from gossamer.archive.manifest import ZONES_IN_ALL, Files
from gossamer.archive.store import Store
from gossamer.arrays import F64, Bools, Rows
from gossamer.columns import Contributions
from gossamer.config import CROSS_OVER, Config
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.reader import Visit
from gossamer.crawl.resting import Resting
from gossamer.crawl.scoring import open_scores
from gossamer.errors import ArchiveError
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import ZONE_SHIFT, PageIndex
from gossamer.frontier.scores import Scores, scored
from gossamer.frontier.sorted_runs import Keys
from gossamer.frontier.strategies import Strategy, own_first, strategy
from gossamer.web.url import page_key, page_keys

_FEW = 64  # rows at a time: each may have half a megabyte


class Revisits(Protocol):
    """Port: which pages that have content are visited again, and when; `refresh.refresher.Refresher` is one."""

    def take(self, count: int, now_s: float, taken: Keys, per_host: int) -> Rows:
        """At most so many pages that are due, best first; at most `per_host` of a host, those taken included."""

    def next_due_s(self, now_s: float, taken: Keys) -> float | None:
        """When something will be due that is not taken; None: never, as things stand."""

    def last_due_s(self, now_s: float, taken: Keys, patience_s: float) -> float | None:
        """When all is due that becomes so within our patience; None: nothing does."""

    def learn(self, rows: Rows, times: F64, changed: Bools) -> None:
        """Pages (VISITED rows, as they were) have been visited again, and had changed or not: note it in the rows."""

    def committed(self) -> None:
        """Pages were visited: what is due may be others."""


class Accounting(Protocol):
    """Port: what visits cost; `carbon.account.Carbon` is one."""

    @property
    def headers(self) -> Sequence[str]:
        """Those of answers that `account` wants to see: `Visit.kept`."""

    def account(
        self, rows: Mapping[str, Sequence[Any]], visits: Sequence[Visit], now_s: float, under_way: Keys, /
    ) -> dict[str, Any]:
        """The ACCOUNT columns of these rows of the VISITS table."""

    def totals(self, columns: Mapping[str, Any]) -> dict[str, float]:
        """What they add up to, for the counters of the crawl."""

    def seen(self) -> dict[str, Any]:
        """What decisions were based on since the last call: columns of the SIGNALS table."""

    def state(self) -> dict[str, Any]:
        """For the manifest."""


@dataclass
class Books:
    """What a round changes, together."""

    store: Store
    config: Config
    chain: Chain
    index: PageIndex
    frontier: Frontier
    ledger: Ledger
    strategy: Strategy
    scores: Scores | None = None
    refresher: Revisits | None = None  # None: no page is visited twice
    carbon: Accounting | None = None  # None: nobody asked what visits cost
    resting: Resting = field(init=False)

    def __post_init__(self) -> None:
        self.resting = Resting(self.store, self.chain)

    @classmethod
    def open(cls, store: Store, config: Config, chain: Chain) -> "Books":
        """Reads what is committed, and changes nothing."""
        mend(store, chain)
        index = PageIndex.open(store, chain.files, config.index)
        order = strategy(config.crawl.order)
        scores = open_scores(order, config, store, chain)
        order = scored(order, scores) if scores else order
        if config.site.mode == CROSS_OVER:
            order = own_first(order, lambda: chain.zones)  # they change, also in a moment
        frontier = Frontier(index, order, config.index, config.crawl.seed)
        frontier.restore(store, chain.files)
        ledger = Ledger.from_dict(chain.state.get("ledger", {}))
        return cls(store, config, chain, index, frontier, ledger, order, scores)

    def part(self) -> float:
        """Of what is meant for the whole crawl, so much is ours."""
        return len(self.chain.zones) / ZONES_IN_ALL


class Known:
    """What the index says about single pages."""

    def __init__(self, index: PageIndex) -> None:
        self._index = index

    def url(self, key: int) -> str:
        found, rows = self._index.pages.look_up(np.array([key], np.uint64))
        return self._index.urls(rows)[0] if found[0] else ""

    def stored_s(self, key: int) -> float:
        found, rows = self._index.visited.look_up(np.array([key], np.uint64))
        return float(rows["changed_s"][0]) if found[0] else 0.0


def mentioned(urls: list[str]) -> Contributions:
    """Pages that were named, but by no page: they have no cash until links bring them some."""
    count = len(urls)
    zero = np.zeros(count, np.uint8)
    hits = np.ones(count, np.int32)
    return Contributions(page_keys(urls), np.zeros(count, np.int64), hits, zero, zero, np.zeros(count, np.uint64), urls)


def robots_rows(store: Store, chain: Chain, now_s: float) -> Iterator[dict[str, Any]]:
    """Rows of the ROBOTS table that are still good, oldest first; also those that others fetched for our zones."""
    zones = set(chain.zones)
    for agent in sorted(chains(store) - {chain.agent}):
        try:
            for row in _robots(store, Chain.read(store, agent).files, now_s):
                if page_key(row["origin"] + "/") >> int(ZONE_SHIFT) in zones:
                    yield row
        except ArchiveError:  # merged meanwhile: then robots.txt is fetched again
            continue
    yield from _robots(store, chain.files, now_s)


def _robots(store: Store, files: Files, now_s: float) -> Iterator[dict[str, Any]]:
    now = datetime.fromtimestamp(now_s, UTC)
    for name in files.get("robots", []):
        try:
            with pq.ParquetFile(store.local(name)) as file:
                for rows in file.iter_batches(_FEW):
                    yield from (row for row in rows.to_pylist() if row["expires"] > now and not _is_of_later(row, now))
        except (OSError, pa.ArrowInvalid) as error:
            raise ArchiveError(f"{name} is missing or damaged: {error}; restore it from a copy") from None


def _is_of_later(row: dict[str, Any], now: datetime) -> bool:
    """That it was out of reach was noted while the clock was ahead: until when it is so, nobody knows."""
    return bool(row["verdict"] == "deny_all" and row["time"] > now)
