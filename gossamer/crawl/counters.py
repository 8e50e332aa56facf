"""What an agent has done so far: in the whole crawl, as its manifests keep it, and in this run, as people see it."""

from collections import Counter
from typing import Any

from gossamer.archive.chain import Chain, chains
from gossamer.archive.state import Counters
from gossamer.archive.store import Store
from gossamer.crawl.round import Round
from gossamer.crawl.stats import refused_links


class Tally:
    """Counts rounds as they are committed."""

    def __init__(self, store: Store, chain: Chain, is_site: bool) -> None:
        self.counters = chain.state.counters
        self.costs: dict[str, float] = dict(chain.state.costs)  # joules and grams
        # A limit is one of the whole crawl: agents that have left have visited pages too.
        left = set() if is_site else chains(store) - {chain.agent}
        self._elsewhere = sum(Chain.read(store, name).state.counters.visits for name in left)
        self.visits_before = self.visits
        self.outcomes: Counter[str] = Counter()  # of this run, as all that follows
        self.run_visits = self.run_bytes = self.run_rounds = 0

    @property
    def visits(self) -> int:
        """Committed by the whole crawl; of a site, by this agent."""
        return self._elsewhere + self.counters.visits

    def add(self, round_: Round) -> None:
        self.counters += Counters(
            visits=round_.pages,
            rounds=1,
            deferred=len(round_.deferrals),
            wire_bytes=round_.wire_bytes,
            outcomes=round_.outcomes,
            refused=round_.refused,
        )
        for name, amount in round_.cost.items():
            self.costs[name] = self.costs.get(name, 0.0) + amount
        self.outcomes.update(round_.outcomes)
        self.run_visits += round_.pages
        self.run_rounds += bool(round_.pages)

    def figures(self, round_: Round) -> dict[str, Any]:
        """For the display, with the round that is being gathered."""
        return {
            "visits": self.visits + round_.pages,
            "run_visits": self.run_visits + round_.pages,
            "wire_bytes": self.run_bytes,
            "outcomes": dict(self.outcomes + round_.outcomes),
            "refused": refused_links(self.counters.refused),
        }
