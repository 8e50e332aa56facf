"""`Tally` counts what an agent has done, in the whole crawl and in this run; the functions below it count which limit
kept links from being followed, in the words of the setting that lifts it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain, chains
from gossamer.archive.store import Store
from gossamer.config import Limits
from gossamer.crawl.reader import VERDICTS
from gossamer.crawl.round import Round
from gossamer.crawl.stats import REFUSED, refused_links
from gossamer.crawl.update import Verdict
from gossamer.web.url import is_dynamic


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


_CAPS = {
    Verdict.CAP: "limits.pages_per_host",
    Verdict.CAP_DOMAIN: "limits.pages_per_domain",
    Verdict.CAP_HOSTS: "limits.hosts_per_domain",
    Verdict.BEST: "limits.new_per_round",
    Verdict.LENGTH: "limits.url_bytes",
}
COUNTERS = [REFUSED + name for name in ("limits.depth", "limits.depth_dynamic")]  # counters of what is too deep
BY_LIMITS = np.array([word in ("depth", "trap", "length", "cap", "best") for word in VERDICTS])  # by code of a verdict
_BY_WORD = {"length": "limits.url_bytes", "best": "crawl.links_per_page"}


def counted(links: Iterable[tuple[int, int, str]], limits: Limits) -> Counter[str]:
    """Counters of links: their verdict as the reader has it, as the index has it, and their URL."""
    found: Counter[str] = Counter()
    for verdict, capped, url in links:
        if setting := _setting(VERDICTS[verdict], capped, url, limits):
            found[REFUSED + setting] += 1
    return found


def too_deep(urls: Iterable[str], limits: Limits) -> Counter[str]:
    """Counters of links that are refused as too deep."""
    return Counter(REFUSED + _depth(url, limits) for url in urls)


def _setting(verdict: str, capped: int, url: str, limits: Limits) -> str:
    if capped in _CAPS:
        return _CAPS[Verdict(capped)]
    if verdict == "depth":
        return _depth(url, limits)
    if verdict == "trap":
        slashes = url.partition("?")[0].count("/", 8)
        return "limits.path_segments" if slashes > limits.path_segments else "limits.path_repeats"
    return _BY_WORD.get(verdict, "")


def _depth(url: str, limits: Limits) -> str:
    return "limits.depth_dynamic" if is_dynamic(url) and limits.depth_dynamic < limits.depth else "limits.depth"
