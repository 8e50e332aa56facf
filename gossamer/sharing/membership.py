"""`Membership` is an agent's part in a change of sites: it reports that its site has released what is not its own, and
later that the site is clean of what came meanwhile (see cluster.site_list)."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import HOSTS, NEWS, Message
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Store
from gossamer.arrays import Rows
from gossamer.crawl.stats import SiteProgress
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing.exchange import Exchange, news_parts
from gossamer.sharing.owners import SiteView
from gossamer.sharing.placing import unpacked
from gossamer.sharing.transfer import is_settled

RELEASED, CLEAN = "released", "clean"


class Membership:
    """`Membership` acts for the agent that speaks for its site; for other agents it keeps the list of sites."""

    def __init__(self, store: Store, chain: Chain, place: SiteView | None) -> None:
        self._store, self._chain, self._place = store, chain, place
        self._reported: dict[str, int] = {RELEASED: 1, CLEAN: 1, **chain.state.reported}
        self._received: dict[str, dict[str, int]] = {RELEASED: {}, CLEAN: {}, **chain.state.received}
        self.moves: dict[str, str] = {}  # hosts that a rebalance gives to other sites: `settle` carries it out
        self._due = ""

    @property
    def is_due(self) -> bool:
        """Returns whether something must be sent."""
        return bool(self._due)

    @property
    def has_lost(self) -> bool:
        """Returns whether sites are gone whose links we have not yet sent again."""
        place = self._place
        if place is None or place.home != self._chain.agent:
            return False
        return not set(place.gone) <= set(self._chain.state.gone)

    def receive(self, site: str, news: Mapping[str, Any]) -> None:
        """Takes a message from another site, or about moves from our own."""
        self.moves |= news.get("moves", {})
        for word in (RELEASED, CLEAN):
            if word in news:
                self._received[word][site] = int(news[word])

    def look(self) -> None:
        place = self._place
        if place is None or place.home != self._chain.agent or self._due:
            return
        released = self._received[RELEASED]
        if self._reported[RELEASED] < place.version:
            word = RELEASED
        elif self._reported[CLEAN] < place.version and all(released.get(n, 0) >= place.version for n in place.others):
            word = CLEAN
        else:
            return
        self._due = word if is_settled(self._store, place.version) else ""

    def messages(self, scope: Callable[[], list[str]], rules: Sequence[Any] = ()) -> list[Message]:
        """Returns messages for the next commit. With the first report new sites also receive what the others know
        already, and those receive what we know of sites that are gone. `scope` reads the hosts of all seeds."""
        if not self._due or self._place is None:
            return []
        place, made, is_first = self._place, [], self._due == RELEASED
        known = set.intersection(*(set(ring.sites) for ring in place.before)) if place.before else set()
        new = [name for name in place.others if is_first and name not in known]
        to_new = [{"scope": scope(), "rules": list(rules)}, *self._map(place)] if new else []
        to_known = self._of_lost(place) if is_first and place.gone else []
        for site in place.others:
            news = [*(to_new if site in new else to_known), {self._due: place.version}]
            made += [self._chain.message(site, data, NEWS) for each in news for data in news_parts(each)]
        self._reported[self._due], self._due = place.version, ""
        return made

    def _map(self, place: SiteView) -> list[dict[str, Any]]:
        """Returns the host map, if there is one."""
        if place.placing is None:
            return []
        return [place.placing.round_trips(), *place.placing.in_parts(place.placing.known(self._on_their_way()))]

    def _of_lost(self, place: SiteView) -> list[dict[str, Any]]:
        """Returns what we know of hosts about which sites that are gone have decided, or that these had: they may have
        told only some of us."""
        if place.placing is None:
            return []
        entries = place.placing.known(self._on_their_way())
        hosts = entries["host"]
        return place.placing.in_parts(entries[place.placing.is_orphaned(hosts) | place.had_lost_home(hosts)])

    def _on_their_way(self) -> Rows:
        """Returns the hosts that we gave to other sites, and that may not be there yet."""
        messages = [message for message in self._chain.snapshot.outbox if message.message.kind == HOSTS]
        headers = [json.loads(self._store.get(name)) for name, _, message in messages if message.part == 0]
        return np.concatenate([np.zeros(0, ENTRY), *(unpacked(header["hosts"]) for header in headers)])

    def noted(self, state: AgentState) -> AgentState:
        """Returns the state with the list of sites, for the manifest."""
        if self._place is None or self._place.members is None:
            return state
        return replace(
            state,
            members=self._place.members,
            reported=self._reported,
            received=self._received,
            moves=self.moves,
            gone=tuple(self._place.gone),
            settling=False,
        )

    def progress(self, exchange: Exchange) -> SiteProgress:
        if self._place is None:
            return SiteProgress()
        passing = any(
            message.kind == HOSTS
            and message.to not in self._place.others
            and message.number > exchange.confirmed(message.stream)
            for _, _, message in self._chain.snapshot.outbox
        )
        return SiteProgress(self._received[CLEAN], passing, self._reported[CLEAN] >= self._place.version)
