"""`Outgoing` makes the messages that leave an agent at a commit: links for their owners, in as few bytes as needed."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gossamer.archive.bundle import LONG_BYTES
from gossamer.archive.chain import Chain
from gossamer.archive.manifest import LINKS, NEWS, REMOTE_LINKS, Message
from gossamer.arrays import U64, Bools
from gossamer.columns import Contributions
from gossamer.config import FIREWALL, Config
from gossamer.crawl.inbox import encode
from gossamer.crawl.ledger import Ledger
from gossamer.sharing import compact
from gossamer.sharing.exchange import news_parts
from gossamer.sharing.owners import Owners
from gossamer.sharing.sent_cache import SentCache

GLOBAL, NONE = "global", "none"
FAR = 255  # as deep as can be: it carries no information
NO_KEYS: U64 = np.zeros(0, np.uint64)


class Outgoing:
    """`Outgoing` makes messages of a round's links for others."""

    def __init__(self, config: Config, chain: Chain, ledger: Ledger) -> None:
        self._config, self._chain, self._ledger = config, chain, ledger
        self.crossed: dict[str, dict[str, int]] = dict(chain.state.crossed)  # to other sites, so far
        self._cache = SentCache(config.site.sent_cache)

    def messages(self, columns: Contributions, owners: Owners, from_remote: U64 = NO_KEYS) -> list[Message]:
        """Returns links by owner. The cash of links that are not sent goes to the virtual page. `from_remote` are pages
        that remote sites sent, though their hosts have moved on."""
        if self._config.site.mode == FIREWALL:
            self._ledger.pool += int(columns.cash.sum())
            return []
        made = []
        for name, rows in owners.by_name(columns.key):
            part = columns.take(rows)
            if owners.is_remote_site(name):
                most = -(-self._config.limits.new_per_round // (len(owners.remote_sites) + 1))
                parts = self._for_remote_site(name, part, from_remote, most)
                made += [self._chain.message(name, data, REMOTE_LINKS) for data in parts]
            else:
                made += [self._chain.message(name, data, LINKS) for data in encode(part, short=LONG_BYTES)]
        return made

    def news(self, news: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Message]:
        made = [data for each in news for data in news_parts(each)]
        return [self._chain.message(name, data, NEWS) for name in names for data in made]

    def questions(self, keys: list[int], owners: Owners) -> list[Message]:
        """Asks for URLs: the senders of these keys must send them, since we do not know the pages."""
        return self.news([{"unknown": keys}], owners.informants) if keys else []

    def forget(self, unknown: Mapping[str, list[int]]) -> None:
        """Forgets that sites were sent these pages: they do not know the keys, and need the URLs next time."""
        for site, keys in unknown.items():
            self._cache.forget(site, np.array(keys, np.uint64))

    def shares(self, others: Mapping[str, int]) -> list[Message]:
        """Returns messages with virtual cash for the pages that others know."""
        shares = self._ledger.share(others)
        return [self._chain.message(name, json.dumps({"pool": cash}).encode(), NEWS) for name, cash in shares.items()]

    def _best(self, site: str, columns: Contributions, seen: Bools, most: int) -> tuple[Contributions, Bools]:
        """Keeps only so many new URLs, those with most cash. The others were not sent; found again, they may be."""
        new = np.flatnonzero(~seen)
        late = new[np.lexsort((columns.key[new], -columns.cash[new]))][most:]
        self._cache.forget(site, columns.key[late])
        self._ledger.pool += int(columns.cash[late].sum())
        keep = np.setdiff1d(np.arange(len(seen)), late)
        return columns.take(keep), seen[keep]

    def _for_remote_site(self, site: str, columns: Contributions, from_remote: U64, most: int) -> list[bytes]:
        """Encodes links for a remote site. A URL is sent as text once; from then on, with global scores, its key is
        enough, and with others nothing more is sent. Without scores only the page's existence is sent."""
        has_text = np.array([bool(url) for url in columns.url], np.bool_)
        # What is sent on goes as it came. By its key alone: the site that had the host knew it, and its successor does.
        # With its text: it may have been under way while the host was, and nobody knows it. Links of pages that did
        # not change, and those that vanished, have no text either: the site has it already.
        seen = self._cache.add(site, columns.key) & ~np.isin(columns.key, from_remote) | ~has_text
        self._count(site, links=len(seen), cache_hits=int(seen.sum()))
        if most:
            columns, seen = self._best(site, columns, seen, most)
        if self._config.site.scores != GLOBAL:
            self._ledger.pool += int(columns.cash[seen].sum())
            columns = columns.take(np.flatnonzero(~seen))
            seen = np.zeros(len(columns.key), np.bool_)
        if self._config.site.scores == NONE:
            self._ledger.pool += int(columns.cash.sum())
            columns = columns._replace(cash=np.zeros_like(columns.cash), hits=np.minimum(columns.hits, 1))
        rounded = compact.rounded(columns.cash)
        self._ledger.pool += int((columns.cash - rounded).sum())
        # A page that is known there, and for which nothing is left, needs no message; but it does if it is less
        # deep than we sent before.
        is_nearer = (columns.cash == 0) & (columns.hits == 0) & (columns.depth < FAR)
        keep = np.flatnonzero(~seen | (rounded != 0) | (columns.hits != 0) | is_nearer)
        columns = columns._replace(cash=rounded).take(keep)
        parts = compact.encode(columns, seen[keep])
        known = int(seen[keep].sum())
        self._count(site, urls=len(keep) - known, keys=known, bytes=sum(map(len, parts)), messages=len(parts))
        return parts

    @property
    def remote(self) -> tuple[int, int]:
        """Returns the links to remote sites so far, and how many of them the cache knew."""
        sent = self.crossed.values()
        return sum(each.get("links", 0) for each in sent), sum(each.get("cache_hits", 0) for each in sent)

    def _count(self, site: str, **more: int) -> None:
        figures = self.crossed.setdefault(site, {})
        for name, number in more.items():
            figures[name] = figures.get(name, 0) + number
