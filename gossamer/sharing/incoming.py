"""`Incoming` takes in what reaches an agent besides the pages it fetches: seeds, and messages from other agents."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import (
    HOSTS,
    LINKS,
    MOVES,
    NEWS,
    REMOTE_LINKS,
    SEED_FILES,
    SEED_RULES,
    SEEDS,
    ZONES,
    Changes,
    Message,
    site_of,
)
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Store
from gossamer.arrays import U64
from gossamer.columns import Contributions
from gossamer.crawl.inbox import decode, encode
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import mentioned
from gossamer.crawl.scope import Naming, Scope, WebsiteRules
from gossamer.crawl.seeds import Intake, minted
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.sharing import compact
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import Exchange, news_parts
from gossamer.sharing.owners import Owners
from gossamer.sharing.placing import Links
from gossamer.web.url import page_keys

NO_KEYS: U64 = np.zeros(0, np.uint64)
_EARLY = 1_000  # links that are kept at most


class Arrived(NamedTuple):
    """`Arrived` is what a commit takes in."""

    rows: Contributions
    changes: Changes
    outbox: list[Message]  # seeds of other agents' zones, and NEWS messages for them
    widened: bool  # the scope, or rules of a website are new
    unknown_there: dict[str, list[int]]  # pages that another site does not know, though we sent their keys
    unknown_here: list[int]  # the same, of our own site: others are asked for them
    from_remote: U64  # pages that remote sites sent
    received: list[tuple[str, dict[str, Any]]]  # NEWS messages, and the site that each comes from


class Incoming(Intake):
    """`Incoming` reads seeds and the exchange; `arrived` turns them into what a commit needs."""

    def __init__(self, store: Store, chain: Chain, exchange: Exchange, scope: Scope | str) -> None:
        super().__init__(store, chain, Scope.read(scope, store) if isinstance(scope, str) else scope)
        self._exchange = exchange
        self.again = Contributions.none()  # what is to be sent once more
        keys, hits, depth, hops = np.array(chain.state.early, np.uint64).reshape(-1, 4).T
        self._early = Contributions.of(keys, [""] * len(keys), hits=hits, depth=depth, hops=hops)
        self._opened = chain.number

    def messages(self) -> list[Message]:
        """Returns the messages that may be applied now. Those behind a transfer wait for it. Those that we sent
        ourselves, for a zone that was on its way to us, wait until it has come, when the agent opens anew, or until it
        shall go elsewhere."""
        found, barred = [], set()
        for message in self._exchange.pending(self._chain.agent, self._chain.marks):
            is_own = message.sender == self._chain.agent and message.number > self._opened
            if message.kind in (ZONES, HOSTS) or is_own:
                barred.add(message.stream)
            if message.stream not in barred:
                found.append(message)
        return found

    def owners_changed(self) -> None:
        """Looks again at messages that wait for zones, also those of this round: these were to come to us, but may have
        gone elsewhere, or be here."""
        self._opened = self._chain.round

    def arrived(
        self,
        messages: list[Message],
        sitemaps: Iterable[str],
        named: Iterable[Naming],
        index: PageIndex,
        ledger: Ledger,
        orders: Orders,
        owners: Owners | None = None,
        followed: Callable[[], tuple[U64, Mapping[int, str]]] = lambda: (NO_KEYS, {}),
    ) -> Arrived:
        owners = owners or Owners(self._chain.agent, self._chain.zones, orders.owners)
        seeds = self.take(messages)
        parts = [mentioned(list(sitemaps)), self.again, self._early]
        self.again = Contributions.none()
        links: list[Links] = []
        came: list[tuple[str, U64]] = []  # links, by sender
        names, from_remote = set[str](), set[str]()
        unknown_there: dict[str, list[int]] = {}
        unknown_here: list[int] = []
        forwarded: list[Message] = []
        received: list[tuple[str, dict[str, Any]]] = []
        own_namings, namings_remote, namings_here = self.named.add(named), list[Naming](), list[Naming]()
        rules_of_seeds, rules_remote = list(self.changed), list[WebsiteRules]()
        for message in messages:
            if message.kind == NEWS:
                news = json.loads(message.data)
                (from_remote if owners.speaks_for_site(message.to) else names).update(news.get("scope", ()))
                ledger.pool += news.get("pool", 0)
                received.append((site_of(message.sender), news))
                of_whom = namings_remote if owners.speaks_for_site(message.to) else namings_here
                of_whom += self.named.add(news.get("sitemaps", ()))
                added = self.add_rules(msgspec.convert(news.get("rules", []), list[WebsiteRules]))
                rules_remote += added if owners.speaks_for_site(message.to) else []
                if "hosts" in news and owners.placing is not None:
                    owners.placing.receive(news)
                asking = unknown_there.setdefault(site_of(message.sender), [])
                (asking if owners.speaks_for_site(message.to) else unknown_here).extend(news.get("unknown", ()))
            elif message.sender == MOVES:
                news = {"moves": json.loads(message.data)}
                received.append(("", news))
                made = news_parts(news)
                forwarded += [self._chain.message(name, data, NEWS) for name in sorted(orders.others) for data in made]
            elif message.kind == REMOTE_LINKS:
                parts.append(compact.decode(message.data))
                links.append((parts[-1].key, parts[-1].hits, site_of(message.sender)))
                came.append((message.sender, parts[-1].key))
            elif message.kind == LINKS and message.sender not in (SEEDS, SEED_FILES, SEED_RULES):
                parts.append(decode(message.data))
                came.append((message.sender, parts[-1].key))
        reminders = self._reminders(owners, came)
        if owners.may_decide:
            self._place_hosts(owners, links, parts, seeds, followed(), index)
        of_seeds, passed_on = self.scope.widen(seeds), self.scope.add(from_remote)
        new = sorted({*of_seeds, *passed_on, *self.scope.add(names)})
        own, outbox = self._sorted_out(seeds, owners)
        outbox += forwarded + reminders
        parts.append(minted(own, index, ledger))
        others = sorted(orders.others)
        outbox += self._news("scope", sorted({*of_seeds, *passed_on}), others)
        outbox += self._news("scope", of_seeds, owners.remote_sites)
        outbox += self._news("rules", msgspec.to_builtins(rules_of_seeds + rules_remote), others)
        outbox += self._news("rules", msgspec.to_builtins(rules_of_seeds), owners.remote_sites)
        outbox += self._news("sitemaps", own_namings + namings_remote, others)
        outbox += self._news("sitemaps", own_namings + namings_here, owners.remote_sites)
        remote = np.concatenate([NO_KEYS, *(keys for keys, _, _ in links)])
        changes = self.write(new, own_namings + namings_remote + namings_here)
        rows = Contributions.joined(parts)
        widened = bool(new or self.has_other_rules)
        return Arrived(rows, changes, outbox, widened, unknown_there, unknown_here, remote, received)

    def expect(self, rows: Contributions, textless: U64) -> list[int]:
        """Keeps links that came by keys that nobody here knows, so that they count once the URLs are here: where a host
        has gone from site to site, a key may come sooner than the URL that was sent before it. Returns the keys that
        others must be asked for."""
        asked, early = self._early.key, np.flatnonzero(np.isin(rows.key, textless) & (rows.hits > 0))
        self._early = rows.take(early[-_EARLY:])
        self._early.cash[:] = 0  # the virtual page has it
        unknown: list[int] = np.setdiff1d(textless, asked).tolist()
        return unknown

    def noted(self, state: AgentState) -> AgentState:
        """Returns the state with the links that came too early, for the manifest."""
        columns = (self._early.key, self._early.hits, self._early.depth, self._early.hops)
        return replace(state, early=list(zip(*(column.tolist() for column in columns), strict=True)))

    def _reminders(self, owners: Owners, came: Iterable[tuple[str, U64]]) -> list[Message]:
        """Tells those who sent us links to hosts of their own where these are: links would come back for ever. They do
        not know it if news were damaged, or if an agent began while they were on their way."""
        found: list[Message] = []
        if owners.placing is None or not owners.remote_sites:
            return found
        for sender, keys in came:
            if sender == self._chain.agent:  # links that waited for a host of ours: nobody need be told
                continue
            for name, rows in owners.by_name(keys):
                if name in (sender, site_of(sender)):
                    news = owners.placing.about(host_of_key(keys[rows]))
                    found += [self._chain.message(name, data, NEWS) for each in news for data in news_parts(each)]
        return found

    def _place_hosts(
        self,
        owners: Owners,
        links: list[Links],
        parts: list[Contributions],
        seeds: list[str],
        round_links: tuple[U64, Mapping[int, str]],
        index: PageIndex,
    ) -> None:
        """Decides about hosts that are ours to place, before anything is sorted by owner."""
        assert owners.placing is not None
        remote = {id(keys) for keys, _, _ in links}
        here: list[Links] = [(part.key, part.hits, owners.site) for part in parts if id(part.key) not in remote]
        targets, urls = round_links
        keys = page_keys(seeds)
        here += [(targets, np.ones(len(targets)), owners.site), (keys, np.zeros(len(keys)), owners.site)]
        texts = dict(zip(keys.tolist(), seeds, strict=True))
        for part in parts:
            texts |= {key: url for key, url in zip(part.key.tolist(), part.url, strict=True) if url}
        owners.placing.decide(links + here, lambda key: urls.get(key) or texts.get(key, ""), index.count)

    def _sorted_out(self, urls: list[str], owners: Owners) -> tuple[list[str], list[Message]]:
        """Returns our own seeds, and messages with those of others: the owner of a page decides whether it is new."""
        keys = page_keys(urls)
        is_own = owners.is_native(keys)
        others = np.flatnonzero(~is_own)
        messages = [
            self._chain.message(name, data, SEEDS)
            for name, rows in owners.by_name(keys[others])
            for data in encode(mentioned([urls[row] for row in others[rows].tolist()]))
        ]
        return [urls[row] for row in np.flatnonzero(is_own).tolist()], messages

    def _news(self, about: str, items: Sequence[Any], names: Iterable[str]) -> list[Message]:
        made = news_parts({about: items}) if items else []
        return [self._chain.message(name, data, NEWS) for name in names for data in made]


def numbered_parts(messages: Iterable[Message]) -> list[Message]:
    """Numbers the messages of a round to each agent, as parts of one number."""
    count: dict[str, int] = {}
    found = []
    for message in messages:
        part = count.get(message.stream, 0)
        count[message.stream] = part + 1
        found.append(replace(message, part=part))
    return found
