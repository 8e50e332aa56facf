"""What an agent has done so far: in the whole crawl, as its manifests keep it, and in this run, as people see it."""

from collections import Counter
from typing import Any

from gossamer.archive.chain import Chain, chains
from gossamer.archive.store import Store
from gossamer.crawl.round import Round
from gossamer.crawl.stats import refused_links


class Tally:
    """Counts rounds as they are committed."""

    def __init__(self, store: Store, chain: Chain, is_site: bool) -> None:
        self.counters: Counter[str] = Counter(chain.state.get("counters", {}))
        self.costs: dict[str, float] = dict(chain.state.get("costs", {}))  # joules and grams
        # A limit is one of the whole crawl: agents that have left have visited pages too.
        left = set() if is_site else chains(store) - {chain.agent}
        elsewhere = [Chain.read(store, name).state.get("counters", {}).get("visits", 0) for name in left]
        self._elsewhere = int(sum(elsewhere))
        self.visits_before = self.visits
        self.outcomes: Counter[str] = Counter()  # of this run, as all that follows
        self.run_visits = self.run_bytes = self.run_rounds = 0

    @property
    def visits(self) -> int:
        """Committed by the whole crawl; of a site, by this agent."""
        return self._elsewhere + self.counters["visits"]

    def add(self, round_: Round) -> None:
        self.counters.update(round_.outcomes)
        self.counters.update(round_.refused)
        self.counters["visits"] += round_.pages
        self.counters["wire_bytes"] += round_.wire_bytes
        for name, amount in round_.cost.items():
            self.costs[name] = self.costs.get(name, 0.0) + amount
        self.counters["rounds"] += 1
        self.counters["deferred"] += len(round_.deferrals)
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
            "refused": refused_links(self.counters),
        }
