"""This module counts the links that were not followed, under the setting that decided so."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from gossamer.arrays import U8
from gossamer.config import Limits
from gossamer.crawl.reader import VERDICTS
from gossamer.crawl.update import Verdict
from gossamer.web.url import is_dynamic

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
