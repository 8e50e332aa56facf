"""What reaches an agent besides the pages it fetches: seeds, links from other agents, news for all of them."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.archive.chain import Batch, Chain, Changes
from gossamer.archive.store import Store
from gossamer.columns import Contributions
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import mentioned, scope_hosts
from gossamer.crawl.post import Orders
from gossamer.crawl.scope import Scope
from gossamer.crawl.seeds import SeedFiles
from gossamer.crawl.update import seeds as new_seeds
from gossamer.federation.exchange import LINKS, NEWS, SEEDS, ZONES, Exchange, decode, encode
from gossamer.index.pages import PageIndex, zone_of_key
from gossamer.web.url import page_keys


class Arrived(NamedTuple):
    """What a commit takes in."""

    rows: Contributions
    changes: Changes
    outbox: list[Batch]  # seeds of other agents' zones, and news for them
    widened: bool  # the scope


class Incoming:
    """Reads seeds and the exchange; `take` turns them into what a commit needs."""

    def __init__(
        self,
        store: Store,
        chain: Chain,
        exchange: Exchange,
        scope_kind: str,
        urls: Iterable[str],
        files: Iterable[Path],
    ) -> None:
        self._store, self._chain, self._exchange = store, chain, exchange
        self.scope = Scope(scope_kind, scope_hosts(store))
        self.seeds = list(urls)
        self.files = SeedFiles(files, chain.state.get("seed_files", {}))
        self._opened = chain.number

    def read_seeds(self, now_s: float) -> None:
        self.seeds += self.files.read(now_s)

    @property
    def has_seeds(self) -> bool:
        return bool(self.seeds or self.files.offsets)

    def batches(self) -> list[Batch]:
        """What may be applied now. What comes behind the hand-over of a zone waits for it; and what we sent
        ourselves, for a zone that was on its way to us, waits until it has come, when the agent opens anew."""
        found, barred = [], set()
        for batch in self._exchange.pending(self._chain.agent, self._chain.marks):
            is_own = batch.sender == self._chain.agent and batch.number > self._opened
            if batch.kind == ZONES or is_own:
                barred.add(batch.stream)
            if batch.stream not in barred:
                found.append(batch)
        return found

    def zones_arrive(self) -> bool:
        """Whether a zone is the next thing in some stream."""
        return bool(arrivals(self._exchange, self._chain))

    def take(
        self, batches: list[Batch], sitemaps: Iterable[str], index: PageIndex, ledger: Ledger, orders: Orders
    ) -> Arrived:
        seeds = dict.fromkeys(self.seeds)
        self.seeds = []
        parts, names = [mentioned(list(sitemaps))], set()
        for batch in batches:
            if batch.kind == NEWS:
                news = json.loads(batch.data)
                names.update(news.get("scope", ()))
                ledger.pool += news.get("pool", 0)
            elif SEEDS in (batch.kind, batch.sender):
                seeds.update(dict.fromkeys(decode(batch.data).url))
            elif batch.kind == LINKS:
                parts.append(decode(batch.data))
        of_seeds = self.scope.widen(seeds)
        new = sorted({*of_seeds, *self.scope.add(names)})
        own, outbox = self._sorted_out(list(seeds), orders)
        parts.append(minted(own, index, ledger))
        if of_seeds:
            data = json.dumps({"scope": of_seeds}).encode()
            outbox += [self._letter(other, NEWS, data) for other in sorted({*orders.others})]
        return Arrived(Contributions.joined(parts), self._write_scope(new), outbox, bool(new))

    def _sorted_out(self, urls: list[str], orders: Orders) -> tuple[list[str], list[Batch]]:
        """Our own seeds, and letters with those of others: whoever knows the page decides whether it is new."""
        zones = zone_of_key(page_keys(urls)).tolist()
        mine = set(self._chain.zones)
        own, others = [], dict[str, list[str]]()
        for url, zone in zip(urls, zones, strict=True):
            if zone in mine:
                own.append(url)
            else:
                others.setdefault(orders.owners[zone], []).append(url)
        letters = [
            self._letter(other, SEEDS, data) for other in sorted(others) for data in encode(mentioned(others[other]))
        ]
        return own, letters

    def _letter(self, to: str, kind: str, data: bytes) -> Batch:
        return Batch(self._chain.agent, self._chain.round, 0, to, data, kind)

    def _write_scope(self, names: list[str]) -> Changes:
        if not names:
            return Changes()
        name = f"tables/scope-{self._chain.label}.txt"
        self._store.put(name, "".join(f"{host}\n" for host in names).encode())
        return Changes({"scope": [name]})


def arrivals(exchange: Exchange, chain: Chain) -> list[Batch]:
    """Hand-overs of zones that are next in their streams."""
    found: dict[str, Batch] = {}
    for batch in exchange.pending(chain.agent, chain.marks):
        found.setdefault(batch.stream, batch)
    return [batch for batch in found.values() if batch.kind == ZONES]


def minted(urls: list[str], index: PageIndex, ledger: Ledger) -> Contributions:
    """Seeds that are new bring cash with them; those already known bring nothing."""
    keys = page_keys(urls)
    order = np.argsort(keys)
    known = np.zeros(len(urls), bool)
    known[order] = index.pages.look_up(keys[order])[0]
    return new_seeds([url for url, is_known in zip(urls, known.tolist(), strict=True) if not is_known], ledger)


def numbered_parts(batches: Iterable[Batch]) -> list[Batch]:
    """The letters of a round to each agent, as parts of one number."""
    count: dict[str, int] = {}
    found = []
    for batch in batches:
        part = count.get(batch.stream, 0)
        count[batch.stream] = part + 1
        found.append(replace(batch, part=part))
    return found
