"""An agent's part in a change of sites: to say that its site has released what is not its own, and later that it is
clean of what came meanwhile (see federation.members)."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Batch
from gossamer.archive.store import Store
from gossamer.arrays import Rows
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing.exchange import HOSTS, NEWS, Exchange, messages
from gossamer.sharing.owners import Place
from gossamer.sharing.placing import unpacked
from gossamer.sharing.transfer import is_settled

RELEASED, CLEAN = "released", "clean"


class Membership:
    """Of the agent that speaks for its site something is asked; of others, to remember which sites there are."""

    def __init__(self, store: Store, chain: Chain, place: Place | None) -> None:
        self._store, self._chain, self._place = store, chain, place
        self._said: dict[str, int] = {RELEASED: 1, CLEAN: 1, **chain.state.get("said", {})}
        self._heard: dict[str, dict[str, int]] = {RELEASED: {}, CLEAN: {}, **chain.state.get("heard", {})}
        self.moves: dict[str, str] = {}  # hosts that a rebalance gives to other sites: `settle` carries it out
        self._due = ""

    @property
    def is_due(self) -> bool:
        """Something is to be said."""
        return bool(self._due)

    @property
    def has_lost(self) -> bool:
        """Sites are gone of which we have not yet said again what we had told them."""
        place = self._place
        if place is None or place.home != self._chain.agent:
            return False
        return not set(place.gone) <= set(self._chain.state.get("without", ()))

    def hear(self, site: str, news: Mapping[str, Any]) -> None:
        """What another site says, or of moves our own."""
        self.moves |= news.get("moves", {})
        for word in (RELEASED, CLEAN):
            if word in news:
                self._heard[word][site] = int(news[word])

    def look(self) -> None:
        place = self._place
        if place is None or place.home != self._chain.agent or self._due:
            return
        released = self._heard[RELEASED]
        if self._said[RELEASED] < place.version:
            word = RELEASED
        elif self._said[CLEAN] < place.version and all(released.get(n, 0) >= place.version for n in place.others):
            word = CLEAN
        else:
            return
        self._due = word if is_settled(self._store, place.version) else ""

    def letters(self, scope: list[str]) -> list[Batch]:
        """To go out with the next commit: sites that are new also learn what the others know already."""
        if not self._due or self._place is None:
            return []
        place, made = self._place, []
        known = set.intersection(*(set(ring.sites) for ring in place.before)) if place.before else set()
        for site in place.others:
            news: list[dict[str, Any]] = []
            if self._due == RELEASED and site not in known:
                news = [{"scope": scope}, *(place.placing.all_news(self._on_their_way()) if place.placing else [])]
            news.append({self._due: place.version})
            made += [self._chain.letter(site, data, NEWS) for each in news for data in messages(each)]
        self._said[self._due], self._due = place.version, ""
        return made

    def _on_their_way(self) -> Rows:
        """Hosts that we gave to other sites, and that may not be there yet."""
        letters = [letter for letter in self._chain.snapshot.outbox if letter.batch.kind == HOSTS]
        headers = [json.loads(self._store.get(name)) for name, _, batch in letters if batch.part == 0]
        return np.concatenate([np.zeros(0, ENTRY), *(unpacked(header["hosts"]) for header in headers)])

    def state(self) -> dict[str, Any]:
        if self._place is None or self._place.members is None:
            return {}
        said = {"said": self._said, "heard": self._heard}
        return {
            **self._place.as_state(),
            **said,
            "moves": self.moves,
            "without": list(self._place.gone),
            "settling": False,
        }

    def facts(self, exchange: Exchange) -> dict[str, Any]:
        """What the site is told: which others are clean, and whether hosts pass through us just now."""
        if self._place is None:
            return {}
        passing = any(
            batch.kind == HOSTS
            and batch.to not in self._place.others
            and batch.number > exchange.confirmed(batch.stream)
            for _, _, batch in self._chain.snapshot.outbox
        )
        return {"clean": self._heard[CLEAN], "passing": passing, "is_clean": self._said[CLEAN] >= self._place.version}
