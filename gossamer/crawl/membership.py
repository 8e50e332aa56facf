"""An agent's part in a change of sites: to say, when the whole site has given away what is not its own, that it has."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Batch
from gossamer.archive.store import Store
from gossamer.crawl.moving import has_released
from gossamer.crawl.owners import Place
from gossamer.federation.exchange import HOSTS, NEWS, Exchange


class Membership:
    """Of the agent that speaks for its site something is asked; of others, to remember which sites there are."""

    def __init__(self, store: Store, chain: Chain, place: Place | None) -> None:
        self._store, self._chain, self._place = store, chain, place
        self._said = int(chain.state.get("said_released", 1))
        self.is_due = False  # something is to be said

    def look(self) -> None:
        place = self._place
        if place and place.home == self._chain.agent and self._said < place.version and not self.is_due:
            self.is_due = has_released(self._store, place.version)

    def letters(self, scope: Iterable[str]) -> list[Batch]:
        """To go out with the next commit: sites that are new also learn what the others know already."""
        if not self.is_due or self._place is None:
            return []
        place, made = self._place, []
        known = list(place.before.sites) if place.before else []
        for site in place.others:
            if site not in known:
                news: list[dict[str, Any]] = [{"scope": list(scope)}]
                news += place.placing.all_news() if place.placing else []
                made += [self._chain.letter(site, json.dumps(each).encode(), NEWS) for each in news]
            made.append(self._chain.letter(site, json.dumps({"released": place.version}).encode(), NEWS))
        self._said, self.is_due = place.version, False
        return made

    def state(self, released: Mapping[str, int], moves: Mapping[str, str]) -> dict[str, Any]:
        """`moves` are carried out by `settle`, when the agent begins anew."""
        if self._place is None or self._place.members is None:
            return {}
        members = {"members": self._place.members.as_dict(), "said_released": self._said}
        return {**members, "released": dict(released), "moves": dict(moves)}

    def facts(self, exchange: Exchange, released: Mapping[str, int]) -> dict[str, Any]:
        """What the site is told: which others have released what, and whether hosts pass through us just now."""
        if self._place is None:
            return {}
        passing = any(
            batch.kind == HOSTS
            and batch.to not in self._place.others
            and batch.number > exchange.confirmed(batch.stream)
            for _, _, batch in self._chain.snapshot.outbox
        )
        return {"released": dict(released), "passing": passing}
