"""One TOML file becomes frozen dataclasses; unknown keys and wrong values are errors that name the remedy."""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_origin, get_type_hints

from gossamer.config.schema import CONTACT, KINDS, allowed, key, section, unknown
from gossamer.config.schema import toml as toml
from gossamer.errors import ConfigError

FIREWALL, CROSS_OVER = "firewall", "cross-over"  # values of site.mode

NEVER = "never"
# Values of refresh.policy: this, and the names of refresh/policies.py, which takes too long to import here.
REFRESH = (NEVER, "fixed", "adaptive", "azar", "harmonic", "index", "stalest", "green", "green-index")
_RENAMED = {"refresh.after_s": 'refresh.interval_s, with refresh.policy = "fixed"'}

KEEP_ALIVE_S = 15.0  # Apache's default of old; many servers keep connections for 5 s only


@dataclass(frozen=True)
class Crawl:
    """What to crawl, and when to stop."""

    seeds: list[str] = key([], "URLs, or files with one URL per line")
    order: str = key("opic", "the strategy that says what to crawl next; `gossamer orders` lists them")
    scope: str = key(
        "domain", "follow links to a seed's host, to its domain, or any", choices=("host", "domain", "any")
    )
    include: list[str] = key(
        [],
        "follow only links whose whole URL matches one of these, * is any text: '*/blog/*'; empty: all; seeds,"
        " what they redirect to, and sitemaps need not match",
        like="*/blog/*",
    )
    exclude: list[str] = key(
        [],
        "never follow links whose whole URL matches one of these: '*.pdf', '*?sort=*', 'https://example.org/old/*'",
        like="*/blog/*",
    )
    pages: int = key(0, "stop after this many visits, counting those of earlier runs; 0: no limit", least=0)
    rounds: int = key(0, "stop this run after this many rounds; 0: no limit", least=0)
    minutes: float = key(0.0, "stop this run after this many minutes; 0: no limit", least=0)
    width: int = key(10_000, "the most pages that one round fetches", least=1, most=10_000_000)
    round_s: float = key(30.0, "commit at least so often, in seconds; 0: only when the width is reached", least=0)
    patience_s: float = key(300.0, "end when the next page is due later than that", least=0)
    seed: int = key(0, "seed of everything random", least=0, most=2**63 - 1)
    history: str = key("", "directory of an earlier crawl, for the historical orders", folder=True)
    topic: str = key("", "the words to look for, with --order relevance")
    rescore: int = key(
        10_000, "pages between two computations of PageRank or authority, for orders that need it", least=1
    )
    sitemaps: bool = key(True, "follow the sitemaps that robots.txt names")
    nofollow: bool = key(True, "respect rel=nofollow and robots meta tags; false follows all the same")
    links_per_page: int = key(0, "follow only the best so many links of a page; 0: all", least=0)
    link_metric: str = key(
        "first", "which links of a page are best", choices=("first", "hits", "cash", "shallow", "external")
    )
    agent: str = key("a0", "name of this agent's manifest chain", like="a0")


@dataclass(frozen=True)
class Site:
    """How the agents of one site share a crawl."""

    agents: int = key(1, "how many processes share the crawl", least=1, most=200)
    max_agents: int = key(
        0,
        'of them, so many run at a time, the others wait for their turn; 0 or "unlimited": all',
        least=0,
        words={"unlimited": 0},
    )
    mode: str = key(
        "exchange",
        "links to pages of other agents are exchanged, dropped, or followed when nothing else is left",
        choices=("exchange", FIREWALL, CROSS_OVER),
    )
    scores: str = key(
        "global",
        "a URL goes to another site with its cash, and more follows (global), or no more (local); or without (none)",
        choices=("global", "local", "none"),
    )
    sent_cache: int = key(1_000_000, "URLs sent to other sites that are remembered, 8 bytes each", least=1)
    lease_s: float = key(10.0, "an agent that is not heard of for so long is replaced", least=1, most=3600)
    idle_s: float = key(60.0, "an agent with nothing to do ends after so long, and begins again with work", least=1)
    copies: int = key(1, "on so many disks the archive is kept; more than 1 need site.disks", least=1, most=16)
    disks: list[str] = key([], "directories on other disks, for the copies (see `gossamer restore`)", folder=True)
    backlog_mb: int = key(256, "links that others have not taken yet, before an agent finds no more", least=1)


@dataclass(frozen=True)
class Polite:
    """How gently hosts are treated."""

    delay_s: float = key(5.0, "seconds to wait between two connections to a host (w)", least=0)
    small_delay_s: float = key(0.0, "the same for hosts with few known pages; 0: as delay_s", least=0)
    small_pages: int = key(100, "below so many known pages a host is small", least=0)
    burst: int = key(1, "how many pages to fetch over one connection to a host (c)", least=1)
    burst_delay_s: float = key(0.0, "seconds between the pages of one connection", least=0)
    connections: int = key(256, "connections at a time, to all hosts together (r); 1: in strict order of rank", least=1)
    per_address: bool = key(False, "hosts on one IP address share one queue's turn")
    robots: bool = key(True, "obey robots.txt; false only for servers that are yours")
    robots_ttl_s: float = key(86_400.0, "how long a robots.txt is good for", least=1)
    robots_memory: int = key(64 << 20, "bytes of robots rules kept in memory", least=1 << 16)
    crawl_delay_max_s: float = key(300.0, "longest crawl-delay obeyed; longer ones count as this", least=0)
    backoff_s: float = key(30.0, "first pause of a host after 429, 503 or a failure; doubles each time", least=0)
    backoff_max_s: float = key(3600.0, "longest such pause, also for Retry-After", least=0)


@dataclass(frozen=True)
class Fetch:
    """One request: who asks, how long, how much."""

    agent_name: str = key("Gossamer", "product token: what robots.txt rules are matched against", like="Gossamer")
    contact: str = key("", "URL or e-mail address in the user-agent, for those whose servers we visit", like=CONTACT)
    timeout_s: float = key(60.0, "whole exchange, connecting included", least=0.01)
    connect_timeout_s: float = key(10.0, "name look-up, TCP and TLS", least=0.01)
    body_bytes: int = key(16 << 20, "cut bodies there (as sent)", least=1024)
    decoded_bytes: int = key(64 << 20, "cut bodies there (after decoding)", least=1024)
    header_bytes: int = key(128 << 10, "refuse answers with longer headers", least=1024)
    retries: int = key(
        3,
        "visits after a passing failure before a page counts as gone; after a refusal before it is left alone",
        least=0,
    )
    retry_s: float = key(60.0, "first wait before such a visit; doubles each time", least=0)
    forbidden_s: float = key(
        86_400.0, "first wait before a page is asked for again that its server forbids (401, 403); doubles", least=0
    )
    hops: int = key(10, "redirects in a row", least=0)
    accept_types: list[str] = key(
        [],
        "fetch only bodies of these types, as in ['text/html', 'image/*']; others are left after their headers;"
        " empty: all; what declares no type, and URLs with the word sitemap, are fetched all the same",
        like="text/html",
    )
    accept_language: str = key("", "Accept-Language header; empty: none")
    verify_tls: bool = key(True, "check certificates")
    parse_bytes: int = key(8 << 20, "look for links in so many bytes of a page", least=1024)


@dataclass(frozen=True)
class Resolve:
    """Names to addresses, and where we refuse to go."""

    map: dict[str, str] = key(
        {}, 'fixed answers, "name" or "*.suffix" or "*" = "address:port"; others are then refused'
    )
    nameservers: list[str] = key([], "DNS servers; empty: the system's")
    private: bool = key(False, "allow loopback, private and link-local addresses (an intranet crawl)")
    cache: int = key(100_000, "names remembered", least=1)
    ttl_s: float = key(3600.0, "how long an answer is good for", least=1)
    failed_ttl_s: float = key(
        300.0, "how long we remember that a name does not exist; that a name server failed, for 5 s at most", least=1
    )


@dataclass(frozen=True)
class Limits:
    """Containing traps."""

    depth: int = key(15, "links from a seed, for static pages", least=0)
    depth_dynamic: int = key(5, "links from a seed, for pages with a query (never more than depth)", least=0)
    list_pages: int = key(1_000, "?page=N or /page/N up to so many is no deeper than the list is", least=0)
    url_bytes: int = key(2000, "longest URL", least=20)
    path_segments: int = key(20, "longest path", least=1)
    path_repeats: int = key(2, "how often a path segment may come again", least=1)
    pages_per_host: int = key(25_000, "pages known per host; 0: no limit", least=0)
    pages_per_domain: int = key(250_000, "pages known per registrable domain; 0: no limit", least=0)
    hosts_per_domain: int = key(1_000, "hosts known per registrable domain; 0: no limit", least=0)
    links: int = key(10_000, "links read per page", least=1)
    new_per_round: int = key(
        0,
        "of the new pages that a round finds only the best so many become known, and each of m - 1 other sites is "
        "told of one m-th of that; the rest, if they are found again; 0: all",
        least=0,
    )


@dataclass(frozen=True)
class Index:
    """Known pages."""

    memory_mb: int = key(512, "memory of the index: overlay, candidates and work space", least=16)
    queue_per_host: int = key(0, "pages per host in the workbench; 0: chosen from width", least=0)


@dataclass(frozen=True)
class Archive:
    """What is kept."""

    warc_bytes: int = key(1 << 30, "size limit of a WARC file", least=1 << 16)
    warc: bool = key(True, "store requests and responses")
    requests: bool = key(True, "store request records beside responses")
    links: bool = key(True, "store the links table")
    digests: int = key(1_000_000, "digests remembered to recognise the same content elsewhere", least=0)
    merge_files: int = key(32, "merge small files when so many rounds have gathered; 0: never", least=0)
    unsynced: int = key(0, "so many files are not synced at first; no crash harms them, a power failure does", least=0)


@dataclass(frozen=True)
class Refresh:
    """Coming back."""

    policy: str = key("never", "which fetched pages are visited again, and when (docs/refresh.md)", choices=REFRESH)
    interval_s: float = key(86_400.0, "fixed: between two visits of a page; adaptive: the first time", least=1)
    least_s: float = key(60.0, "no page is visited again sooner; change rates are counted from it on", least=0.001)
    most_s: float = key(90 * 86_400.0, "policies of intervals and rates leave no page alone for longer", least=1)
    visits_per_day: float = key(0.0, "visits of known pages at most; azar and harmonic need it; 0: no limit", least=0)
    share: float = key(0.5, "of all visits, while there are pages never visited", least=0, most=1)
    weight: str = key("hits", "pages count by the links to them, or all alike", choices=("hits", "alike"))


@dataclass(frozen=True)
class Carbon:
    """What visits cost in energy and carbon (docs/green.md), and what they may cost."""

    signal: str = key(
        "mix",
        "carbon intensity of the power where hosts are: mix, mean, solar, electricity-maps, watttime, uk, or a CSV or"
        " Parquet file with the columns time, place, value",
    )
    fallback: str = key("mix", "where that is silent", choices=("mix", "mean", "solar"))
    token: str = key("", "of a live feed")
    url: str = key("", "of a live feed, if it is not the usual one")
    places: dict[str, str] = key({}, 'hosts that are not where their address is, "name" or "*.suffix" = "DE"')
    kwh_per_gb: float = key(0.114, "energy of a GB sent, in data centre and network: the upper end", least=0)
    kwh_per_gb_low: float = key(0.056, "and the lower end", least=0)
    request_j: float = key(0.1, "joules of a request besides", least=0)
    g_per_day: float = key(0.0, "green policies: grams of CO2 equivalent that a day's visits may cost; 0: any", least=0)
    price: float = key(0.0, "or what a gram costs (lambda), in the unit of the policy's values", least=0)
    contracts: str = key("", "a TOML file with g_per_day or price of single hosts and countries")
    idle: str = key(
        "never",
        "whether a green policy waits while every visit costs more than it is worth",
        choices=("never", "negative"),
    )


@dataclass(frozen=True)
class Host:
    """One host's own rules, in the file only; what they leave out is as for all. Write [host."example.org"], or
    [host."*.example.org"] for every host below it, one table for each."""

    delay_s: float = key(5.0, "as polite.delay_s, however small the host is", least=0)
    burst: int = key(1, "as polite.burst", least=1)
    burst_delay_s: float = key(0.0, "as polite.burst_delay_s", least=0)
    pages: int = key(25_000, "as limits.pages_per_host", least=0)


@dataclass(frozen=True)
class Config:
    """Everything that can be configured. Pass it down; nothing reads it from anywhere else."""

    crawl: Crawl = field(default_factory=Crawl)
    site: Site = field(default_factory=Site)
    polite: Polite = field(default_factory=Polite)
    fetch: Fetch = field(default_factory=Fetch)
    resolve: Resolve = field(default_factory=Resolve)
    limits: Limits = field(default_factory=Limits)
    index: Index = field(default_factory=Index)
    archive: Archive = field(default_factory=Archive)
    refresh: Refresh = field(default_factory=Refresh)
    carbon: Carbon = field(default_factory=Carbon)
    host: dict[str, dict[str, Any]] = field(default_factory=dict)  # name: those keys of Host that are given

    @property
    def user_agent(self) -> str:
        from gossamer import __version__

        contact = f" (+{self.fetch.contact})" if self.fetch.contact else ""
        return f"{self.fetch.agent_name}/{__version__}{contact}"

    def warnings(self) -> list[str]:
        """What is allowed but deserves a second thought."""
        found = []
        if self.polite.burst > 1 and self.polite.burst_delay_s > KEEP_ALIVE_S:
            found.append(
                f"polite.burst_delay_s is {self.polite.burst_delay_s:g}, but most servers close a connection after "
                f"{KEEP_ALIVE_S:g} s: bursts will need new connections"
            )
        if not self.polite.robots:
            found.append("polite.robots is false: do this only to servers that are yours")
        if self.site.mode == CROSS_OVER and self.site.agents > 1:
            found.append(
                "site.mode is cross-over: agents visit each other's hosts, and each keeps polite.delay_s for itself; "
                f"a host may see {self.site.agents} times as many visits: make polite.delay_s so much longer"
            )
        return found

    def replace(self, values: Mapping[str, Any]) -> "Config":
        """A copy with `section.key` entries changed; every value is checked."""
        sections: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            section, _, leaf = name.partition(".")
            sections.setdefault(section, {})[leaf] = value
        return checked(self, sections)


def load(path: Path) -> Config:
    """Read a TOML file."""
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; `gossamer config` prints a file to start from") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    return checked(Config(), values)


def checked(config: Config, values: Mapping[str, Any]) -> Config:
    """A configuration with whole sections given; every value is checked."""
    changes: dict[str, Any] = {}
    _check_renamed(f"{name}.{leaf}" for name, given in values.items() if isinstance(given, Mapping) for leaf in given)
    for name, given in values.items():
        if name not in _SECTIONS and name != "host":
            raise ConfigError(unknown(f"[{name}]", name, [*_SECTIONS, "host"]))
        if not isinstance(given, Mapping):
            raise ConfigError(f"{name} is a section: write its keys under [{name}]")
        if name == "host":
            changes[name] = {**config.host, **_hosts(given)}
        else:
            changes[name] = section(getattr(config, name), name, given, _SECTIONS)
    return dataclasses.replace(config, **changes)


def _hosts(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each host's own keys, checked."""
    found = {}
    for host, given in tables.items():
        if not isinstance(given, Mapping):
            raise ConfigError(f'host.{host} is not a host: write [host."example.org"] above its keys')
        if host != host.lower() or not re.fullmatch(r"(\*\.)?[^\s/*:]+", host):
            raise ConfigError(f'[host."{host}"] is no host name; write it like "example.org" or "*.example.org"')
        checked = section(Host(), f'host."{host}"', given)
        found[host] = {leaf: getattr(checked, leaf) for leaf in given}
    return found


def _check_renamed(names: Iterable[str]) -> None:
    for name in names:
        if name in _RENAMED:
            raise ConfigError(f"{name} is now called {_RENAMED[name]}")


def parse_value(name: str, text: str) -> Any:
    """The value of `section.key` given as text, as on the command line."""
    _check_renamed([name])
    section, _, leaf = name.partition(".")
    if section not in _SECTIONS or leaf not in _SECTIONS[section]:
        known = [f"{s}.{k}" for s, keys in _SECTIONS.items() for k in keys]
        raise ConfigError(unknown(name, name, known))
    kind = get_type_hints(_CLASSES[section])[leaf]
    (rule,) = [f.metadata for f in dataclasses.fields(_CLASSES[section]) if f.name == leaf]
    if kind is str or text in rule["words"]:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(f"{name} must be {KINDS[get_origin(kind) or kind]}, not {text!r}") from None


def meaning(name: str, base: Config | None = None) -> str:
    """What `section.key` means, with its default, which a command may have changed."""
    section, _, leaf = name.partition(".")
    (found,) = [f for f in dataclasses.fields(_CLASSES[section]) if f.name == leaf]
    default = getattr(getattr(base, section) if base else _CLASSES[section](), leaf)
    return f"{found.metadata['meaning']}{f' (default: {default})' if default not in ([], '') else ''}"


def document() -> str:
    """A TOML file with every key, its meaning and its default."""
    lines = ["# Gossamer's configuration: every key with its default."]
    for name, kind in _CLASSES.items():
        lines += ["", f"# {kind.__doc__}", f"[{name}]"]
        for f in dataclasses.fields(kind):
            default = getattr(kind(), f.name)
            lines.append(f"# {f.metadata['meaning']}{allowed(f.metadata)}")
            lines.append(f"{f.name} = {toml(default)}")
    lines += ["", *(f"# {line.strip()}" for line in str(Host.__doc__).splitlines()), '# [host."example.org"]']
    for f in dataclasses.fields(Host):
        lines.append(f"# {f.name} = {toml(f.default)}  # {f.metadata['meaning']}")
    return "\n".join(lines) + "\n"


def page() -> str:
    """docs/configuration.md."""
    return f"""# The configuration

One TOML file, given with `--config`; `gossamer config` prints this one. Any key can also be given on the command line
as `--set section.key=value`, except the rules of single hosts; the most used ones have a flag of their own
(`gossamer crawl --help`). A crawl that goes on without a file begins with the options of its last run.

```toml
{document()}```
"""


_CLASSES: Mapping[str, type[Any]] = MappingProxyType(
    {"crawl": Crawl, "site": Site, "polite": Polite, "fetch": Fetch, "resolve": Resolve,
     "limits": Limits, "index": Index, "archive": Archive, "refresh": Refresh, "carbon": Carbon}
)  # fmt: skip
_SECTIONS = {name: [f.name for f in dataclasses.fields(section)] for name, section in _CLASSES.items()}
