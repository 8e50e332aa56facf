"""A `WebSpec` defines a synthetic web: every property with its default, checked once."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gossamer.errors import ConfigError

EPOCH_S = 1_700_000_000  # the date of the web at t = 0, for Last-Modified: 2023-11-14T22:13:20Z


def trait(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class WebSpec:
    """Shares are parts of 1; of pages unless stated otherwise. The start host h0 is always well-behaved."""

    seed: int = trait(1, "the web is a function of it")
    hosts: int = trait(300, "number of hosts")
    pages: int = trait(20_000, "number of pages of all hosts")
    host_exponent: float = trait(0.8, "a host's pages fall with its rank to this power")
    suffix: str = trait("test", "hosts are called h0.SUFFIX, h1.SUFFIX, ...")
    subdomains: float = trait(0.1, "share of hosts that are sub-domains of another host's name")
    links: float = trait(90.0, "links of a page, on average; from 2/3 to 13/9 of it")
    local: float = trait(0.75, "share of links that stay on their host")
    page_bytes: float = trait(30_000.0, "size of a page, on average (log-normal, but links need their bytes)")
    redirects: float = trait(0.03, "share of pages that redirect; some in chains, few in loops, some across hosts")
    errors: float = trait(0.03, "share of pages that fail: 404, 410, 403, 500, 503 with Retry-After")
    retry_after_s: int = trait(1, "what the 503 answers ask for")
    duplicates: float = trait(0.03, "share of pages that repeat another page of their host byte for byte")
    near_duplicates: float = trait(0.03, "share of pages that repeat another one with small changes")
    changing: float = trait(0.4, "share of pages that change at all")
    changes_per_day: float = trait(0.1, "how often those change, on average (exponentially distributed rates)")
    robots_rules: float = trait(0.5, "share of hosts whose robots.txt forbids something")
    robots_missing: float = trait(0.3, "share of hosts without robots.txt (404)")
    robots_broken: float = trait(0.01, "share of hosts whose robots.txt answers 500: nothing may be fetched")
    crawl_delays: float = trait(0.1, "share of hosts whose robots.txt names a crawl-delay")
    crawl_delay_s: float = trait(0.2, "the middle one of these; half and double of it occur too")
    sitemaps: float = trait(0.3, "share of hosts with a sitemap; 1 page in 20 is only to be found there")
    validators: float = trait(0.8, "share of hosts that send ETag and Last-Modified, and answer 304")
    gzip: float = trait(0.0, "share of hosts that compress when asked; costs the server 0.1 ms a page")
    chunked: float = trait(0.1, "share of hosts that send chunked bodies")
    charsets: float = trait(0.2, "share of hosts that write in their language's old charset")
    requisites: int = trait(0, "images of a page; with them come style sheets, a script and a font; 0: none of it")
    latency_ms: float = trait(0.0, "time a host takes to answer, on average over hosts (log-normal)")

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.pages < self.hosts:
            raise ConfigError(f"a web needs 1 host and as many pages as hosts, not {self.hosts} and {self.pages}")
        if self.links < 1 or self.page_bytes < 0 or self.latency_ms < 0 or self.crawl_delay_s < 0:
            raise ConfigError("links must be at least 1, sizes and times at least 0")
        if not 0 <= self.requisites <= 1_000:
            raise ConfigError(f"requisites are from 0 to 1,000 images of a page, not {self.requisites}")
        if self.changes_per_day < 0 or self.retry_after_s < 0 or self.seed < 0:
            raise ConfigError("changes_per_day, retry_after_s and seed must be at least 0")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is a share: between 0 and 1, not {getattr(self, name)}")
        if self.redirects + self.errors + self.duplicates + self.near_duplicates > 1:
            raise ConfigError("redirects, errors, duplicates and near_duplicates together exceed 1")
        if self.robots_rules + self.robots_missing + self.robots_broken > 1:
            raise ConfigError("robots_rules, robots_missing and robots_broken together exceed 1")

    @classmethod
    def plain(cls, **values: Any) -> "WebSpec":
        """Returns a web in which every page answers 200, nothing is forbidden and nothing changes."""
        none = dict.fromkeys(_NUISANCES, 0.0)
        return cls(**{**none, **values})

    def options(self) -> list[str]:
        """Returns the command line of `gossamer testweb` that makes this web."""
        options = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                options += [f"--{f.name.replace('_', '-')}", str(value)]
        return options


_SHARES = (
    "subdomains", "local", "redirects", "errors", "duplicates", "near_duplicates", "changing", "robots_rules",
    "robots_missing", "robots_broken", "crawl_delays", "sitemaps", "validators", "gzip", "chunked", "charsets",
)  # fmt: skip
_NUISANCES = (
    "subdomains", "redirects", "errors", "duplicates", "near_duplicates", "changing", "robots_rules",
    "robots_missing", "robots_broken", "crawl_delays", "sitemaps", "chunked", "charsets",
)  # fmt: skip
