"""`Books` is the state that an agent finds in its directory when it begins, and that each round changes as a whole.

It has three ports: `Revisits` chooses known pages that are due again, `Accounting` counts what visits cost,
`PageFunctions` runs the user's code on pages. A crawl has those that it asks for, and runs no code of the others.
"""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain, chains
from gossamer.archive.copies import mend
from gossamer.archive.manifest import Changes, Files
from gossamer.archive.resting import Resting
from gossamer.archive.row_files import RowFiles
from gossamer.archive.state import PriceState
from gossamer.archive.store import Store
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.arrays import F64, AnyKeys, Bools, Keys, Rows
from gossamer.columns import COOKIES, Contributions
from gossamer.config import CROSS_OVER, Config, Resolve
from gossamer.config.contact import unreachable
from gossamer.crawl.fetching import Rendering
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.reader import Visit
from gossamer.crawl.round import Elsewhere
from gossamer.crawl.scope import Scope
from gossamer.errors import ArchiveError, ConfigError
from gossamer.fetch.resolver import checked_map
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, is_in, zone_of_key
from gossamer.frontier.scores import Scores, scored
from gossamer.frontier.scoring import open_scores
from gossamer.frontier.strategies import Strategy, own_first, requisites_first, strategy
from gossamer.web.posts import url_of
from gossamer.web.url import page_keys

if TYPE_CHECKING:  # http.cookiejar: whoever needs no cookies need not wait for it
    from gossamer.fetch.cookies import Cookies

WHO = "https://example.org/about-my-crawl"
_ON_THE_COMMAND_LINE = f"--contact {WHO} (or an e-mail address), or fetch.contact in the file"
_REMEMBERED = 20_000  # URLs of pages whose content was stored: two to four megabytes
_FEW = 64  # rows at a time: each may have half a megabyte


class Revisits(Protocol):
    """This port chooses which pages with content are visited again, and when; `refresh.refresher.Refresher` is one."""

    def take(self, count: int, now_s: float, taken: AnyKeys, per_host: int) -> Rows:
        """Returns at most `count` pages that are due, best first; at most `per_host` of a host, with those taken."""

    def next_due_s(self, now_s: float, taken: AnyKeys) -> float | None:
        """Returns when something will be due that is not taken; None: never, as things stand."""

    def last_due_s(self, now_s: float, taken: AnyKeys, patience_s: float) -> float | None:
        """Returns when all pages are due that become due within our patience; None: there are none."""

    def learn(self, rows: Rows, times: F64, changed: Bools, modified_s: F64) -> None:
        """Notes in the rows (VISITED, as they were) that pages were visited again, whether they had changed, and when
        their servers say that they did (nan: they do not)."""

    def committed(self) -> None:
        """Notes that pages were visited: other pages may be due now."""


class Accounting(Protocol):
    """This port accounts for what visits cost; `carbon.account.Carbon` is one."""

    @property
    def headers(self) -> Sequence[str]:
        """Returns the names of the response headers that `account` needs: `Visit.kept`."""

    def account(
        self, rows: Mapping[str, Sequence[Any]], visits: Sequence[Visit], now_s: float, under_way: AnyKeys, /
    ) -> dict[str, Any]:
        """Returns the ACCOUNT columns of these rows of the VISITS table."""

    def reserve(self, keys: AnyKeys, now_s: float, /) -> tuple[Bools, float]:
        """Returns which of these pages today's budgets allow to visit, in this order, and when the others may come."""

    def totals(self, columns: Mapping[str, Any]) -> dict[str, float]:
        """Returns the sums of these columns, for the counters of the crawl."""

    def seen(self) -> dict[str, Any]:
        """Returns the signals on which decisions were based since the last call: columns of the SIGNALS table."""

    def state(self) -> PriceState:
        """Returns the prices, for the manifest."""


class PageFunctions(Protocol):
    """This port runs the user's functions on pages, beside the crawl; `functions.functions.Functions` is one."""

    def give(self, visit: Visit, round_: Any, /) -> None:
        """Takes a visit that is about to become part of a round, while it has its body."""

    @property
    def is_behind(self) -> bool:
        """Returns whether so many pages wait that no more should be given."""

    def wait(self, patience_s: float) -> bool:
        """Waits until all pages are done, but not longer than that; returns whether they are."""

    def finish(self, round_: Any, judge: Callable[[], Callable[[str, str, int], int]], /) -> Changes:
        """Adds the results to the round: links to its visits, tables to its files. `wait` came before."""

    def why_over(self) -> str:
        """Returns why the crawl must end, in words; empty while it may go on."""

    def notes(self, is_end: bool) -> list[str]:
        """Returns what a person should be told: the first failure, and at the end of the crawl how much was found."""

    def close(self) -> None:
        """Ends all that runs."""


@dataclass
class Books:
    """`Books` gathers what a round changes together."""

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
    functions: PageFunctions | None = None  # None: no code of the user runs
    rendering: Rendering | None = None  # None: no scripts of pages run
    others: Elsewhere | None = None  # None: no other crawl has content that need not be stored again
    share: float = 1.0  # the site's, of what is meant for the crawl of all sites
    resting: Resting = field(init=False)
    kept_cookies: RowFiles[tuple[str]] = field(init=False)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.resting = Resting(self.store, self.chain)
        self.kept_cookies = RowFiles(self.store, self.chain, COOKIES, ("",))
        self.scope = Scope.read(self.config.crawl.scope, self.store)

    @classmethod
    def open(cls, store: Store, config: Config, chain: Chain) -> "Books":
        """Reads what is committed, and changes nothing."""
        mend(store, chain)
        index = PageIndex.open(store, chain.files, config.index)
        order = strategy(config.crawl.order)
        scores = open_scores(order, config, store, chain)
        order = scored(order, scores) if scores else order
        if config.site.mode == CROSS_OVER:
            order = own_first(order, lambda: chain.zones)  # they may change soon
        if config.crawl.requisites:
            order = requisites_first(order)
        frontier = Frontier(index, order, config.index, config.crawl.seed)
        frontier.restore(store, chain.files)
        ledger = Ledger.of(chain.state.ledger)
        return cls(store, config, chain, index, frontier, ledger, order, scores)

    def cookies(self) -> "Cookies | None":
        """Returns the cookies that the crawl begins with; None: it has to do with none."""
        fetch = self.config.fetch
        if not (fetch.cookies or fetch.cookies_file):
            return None
        from gossamer.fetch.cookies import open_cookies

        return open_cookies(self.config, self.kept_cookies.rows, self.chain.state.committed_s)

    @property
    def pagerank(self) -> Callable[[Keys], F64] | None:
        """Returns what tells pages' PageRank (0: not known); None if the order of the crawl does not compute it."""
        score = self.strategy.score
        if self.scores is None or score is None or score.source == "authority" or score.new == "random":
            return None
        return self.scores.of

    def part(self) -> float:
        """Returns our part of what is meant for the whole crawl."""
        return self.share * len(self.chain.zones) / ZONES_IN_ALL


class Known:
    """`Known` looks up single pages in the index. It remembers the last ones: a look-up is made for thousands."""

    def __init__(self, index: PageIndex) -> None:
        self._index = index
        self._urls: dict[int, str] = {}  # in the order in which they were noted

    def note(self, key: int, url: str) -> None:
        self._urls[key] = url
        if len(self._urls) > _REMEMBERED:
            self._urls = dict(islice(self._urls.items(), _REMEMBERED // 2, None))

    def url(self, key: int) -> str:
        if url := self._urls.get(key):
            return url
        found, rows = self._index.pages.look_up(np.array([key], np.uint64))
        return url_of(self._index.urls(rows)[0]) if found[0] else ""


def mentioned(urls: list[str]) -> Contributions:
    """Returns pages that were named, but by no page: they have no cash until links bring them some."""
    return Contributions.of(page_keys(urls), urls, hits=1)


def robots_rows(store: Store, chain: Chain, now_s: float) -> Iterator[dict[str, Any]]:
    """Iterates over valid rows of the ROBOTS table, oldest first; also those that others fetched for our zones."""
    is_ours = is_in(chain.zones)
    for agent in sorted(chains(store) - {chain.agent}):
        try:
            for row in _robots(store, Chain.read(store, agent).files, now_s):
                if is_ours[zone_of_key(page_keys([row["origin"] + "/"]))[0]]:
                    yield row
        except ArchiveError:  # merged meanwhile: then robots.txt is fetched again
            continue
    yield from _robots(store, chain.files, now_s)


def _robots(store: Store, files: Files, now_s: float) -> Iterator[dict[str, Any]]:
    now = datetime.fromtimestamp(now_s, UTC)

    def is_of_later(row: dict[str, Any]) -> bool:
        """Returns whether robots.txt was noted as unreachable while the clock was ahead: until when, nobody knows."""
        return bool(row["verdict"] == "deny_all" and row["time"] > now)

    for name in files.get("robots", []):
        try:
            with pq.ParquetFile(store.local(name)) as file:
                for rows in file.iter_batches(_FEW):
                    yield from (row for row in rows.to_pylist() if row["expires"] > now and not is_of_later(row))
        except (OSError, pa.ArrowInvalid) as error:
            raise ArchiveError(f"{name} is missing or damaged: {error}; restore it from a copy") from None


def check_contact(config: Config, remedy: str = _ON_THE_COMMAND_LINE, doing: str = "crawling") -> None:
    """Demands a contact, except of those who crawl a web of their own. `remedy` is how to give one."""
    is_proxied = config.fetch.proxy or any("proxy" in given for given in config.host.values())  # to wherever it leads
    if not config.fetch.contact and (is_proxied or not _is_own(config.resolve)):
        raise ConfigError(f"say who is {doing}, so that the people whose servers you visit can reach you: {remedy}")
    is_told = config.fetch.contact and not config.resolve.private and not _is_own(config.resolve)
    if is_told and (why := unreachable(config.fetch.contact)):
        raise ConfigError(
            f"nobody can be reached at {config.fetch.contact}: {why}; give an e-mail address or a web page of your own"
        )


def _is_own(resolve: Resolve) -> bool:
    """Returns whether `resolve.map` leads only to addresses that nobody else's server can have."""
    addresses = [ipaddress.ip_address(address) for address, _ in checked_map(resolve).values()]
    return bool(addresses) and not any(address.is_global for address in addresses)
