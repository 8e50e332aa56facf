"""`Tally` counts what an agent has done, in the whole crawl and in this run. The functions below it count the links
that were not followed, under the setting that decided so."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain, chains
from gossamer.archive.state import Counters
from gossamer.archive.store import Store
from gossamer.arrays import U8
from gossamer.config import Limits
from gossamer.crawl.reader import VERDICTS
from gossamer.crawl.round import Round
from gossamer.crawl.stats import refused_links
from gossamer.crawl.update import Verdict
from gossamer.web.url import is_dynamic


class Tally:
    """`Tally` counts rounds as they are committed."""

    def __init__(self, store: Store, chain: Chain, is_site: bool) -> None:
        self.counters = chain.state.counters
        self.costs: dict[str, float] = dict(chain.state.costs)  # joules and grams
        # A limit holds for the whole crawl: agents that have left have visited pages too.
        left = set() if is_site else chains(store) - {chain.agent}
        self._elsewhere = sum(Chain.read(store, name).state.counters.visits for name in left)
        self.visits_before = self.visits
        self.outcomes: Counter[str] = Counter()  # of this run, like all that follows
        self.run_visits = self.run_bytes = self.run_rounds = 0

    @property
    def visits(self) -> int:
        """Returns the visits committed by the whole crawl; at a site, by this agent."""
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
        """Returns the counters with the round that is being gathered, for the display."""
        return {
            "visits": self.visits + round_.pages,
            "run_visits": self.run_visits + round_.pages,
            "wire_bytes": self.run_bytes,
            "outcomes": dict(self.outcomes + round_.outcomes),
            "refused": refused_links(self.counters.refused),
        }


_CAPS = {
    Verdict.CAP: "limits.pages_per_host",
    Verdict.CAP_DOMAIN: "limits.pages_per_domain",
    Verdict.CAP_HOSTS: "limits.hosts_per_domain",
    Verdict.BEST: "limits.new_per_round",
    Verdict.LENGTH: "limits.url_bytes",
    Verdict.CAP_WEBSITE: "seeds.pages",
}
TOO_DEEP = ("limits.depth", "limits.depth_dynamic")  # settings that refuse links as too deep
BY_LIMITS = np.array([word in ("depth", "trap", "length", "cap", "best") for word in VERDICTS])  # by code of a verdict
_BY_WORD = {"length": "limits.url_bytes", "best": "crawl.links_per_page"}
_ALIKE = {  # verdicts that one setting stands behind, whatever the URL
    "scope": "crawl.scope",
    "pattern": "crawl.include/exclude",
    "nofollow": "crawl.nofollow",
    "foreign": "site.mode",
    "port": "port",
}


def counted_alike(verdicts: U8) -> Counter[str]:
    """Counts links that were not followed for a reason that does not depend on their URL, without a look at each."""
    times = np.bincount(verdicts, minlength=len(VERDICTS)).tolist()
    return Counter({_ALIKE[word]: n for word, n in zip(VERDICTS, times, strict=True) if n and word in _ALIKE})


def counted(links: Iterable[tuple[int, int, str]], limits: Limits) -> Counter[str]:
    """Counts refused links. Each link has the reader's verdict, the index's verdict, and its URL."""
    found: Counter[str] = Counter()
    for verdict, capped, url in links:
        if setting := _setting(VERDICTS[verdict], capped, url, limits):
            found[setting] += 1
    return found


def too_deep(urls: Iterable[str], limits: Limits) -> Counter[str]:
    """Counts links that are refused as too deep."""
    return Counter(_depth(url, limits) for url in urls)


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
