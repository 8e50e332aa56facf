"""`Config` has every key of the configuration, in frozen, typed sections; one TOML file becomes one `Config`."""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlencode

import msgspec

from gossamer.config.folders import absolute
from gossamer.config.schema import CONTACT, key, keys, section, sizes, unknown
from gossamer.config.secrets import check_auth, check_headers, check_proxy, check_reference
from gossamer.errors import ConfigError
from gossamer.version import __version__

FIREWALL, CROSS_OVER = "firewall", "cross-over"  # values of site.mode
UNLIMITED = 200  # agents: what more would say to each other, nobody has tried (docs/scale.md)
BY_STORE = "store"  # a value of site.exchange
PURPOSES = ("search", "archive", "ai-train", "ai-input", "research")  # values of crawl.purpose
PROCESSES, RAY, PULL = "processes", "ray", "pull"  # values of site.engine

NEVER = "never"
# Values of refresh.policy: this, and the names of refresh/policies.py, which takes too long to import here.
REFRESH = (NEVER, "fixed", "adaptive", "azar", "harmonic", "index", "stalest", "green", "green-index")

KEEP_ALIVE_S = 15.0  # Apache's default of old; many servers keep connections for 5 s only


class Crawl(msgspec.Struct, frozen=True):
    """What to crawl, and when to stop."""

    seeds: Annotated[
        list[str],
        key("URLs, or files with one URL per line; 'https://example.org/ depth=2' has rules of its own (seeds, below)"),
    ] = []
    order: Annotated[str, key("the strategy that decides what to crawl next; `gossamer orders` lists them")] = "opic"
    scope: Annotated[
        str, key("follow links to a seed's host, to its domain, or any", choices=("host", "domain", "any"))
    ] = "domain"
    include: Annotated[
        list[str],
        key(
            "follow only links whose whole URL matches one of these, * is any text: '*/blog/*'; 're:...' is a regular"
            " expression, found anywhere in the URL: 're:/[0-9]{4}/'; empty: all; seeds, what they redirect to, and"
            " sitemaps need not match",
            like="*/blog/*",
        ),
    ] = []
    exclude: Annotated[
        list[str],
        key(
            "never follow links whose whole URL matches one of these: '*.pdf', '*?sort=*', 'https://example.org/old/*'",
            like="*/blog/*",
        ),
    ] = []
    pages: Annotated[int, key("stop after this many visits, counting those of earlier runs; 0: no limit", least=0)] = 0
    rounds: Annotated[int, key("stop this run after this many rounds; 0: no limit", least=0)] = 0
    minutes: Annotated[float, key("stop this run after this many minutes; 0: no limit", least=0)] = 0.0
    width: Annotated[int, key("the most pages that one round fetches", least=1, most=10_000_000)] = 10_000
    round_s: Annotated[float, key("commit at least this often, in seconds; 0: only when full (width)", least=0)] = 30.0
    patience_s: Annotated[float, key("end the run if no page is due within this many seconds", least=0)] = 300.0
    seed: Annotated[int, key("seed of all random numbers", least=0, most=2**63 - 1)] = 0
    history: Annotated[str, key("directory of an earlier crawl, for the historical orders", folder=True)] = ""
    topic: Annotated[str, key("the words to look for, with --order relevance")] = ""
    rescore: Annotated[int, key("pages between two computations of PageRank or authority", least=1)] = 10_000
    sitemaps: Annotated[bool, key("follow the sitemaps that robots.txt names")] = True
    requisites: Annotated[
        bool, key("fetch what pages need to be shown: images, style sheets, scripts, fonts (docs/media.md)")
    ] = False
    media: Annotated[
        list[str],
        key(
            "follow what pages embed of these types as links, too, as in ['image/*', 'video/*'] (docs/media.md)",
            like="text/html",
        ),
    ] = []
    render: Annotated[
        list[str],
        key(
            "run the scripts of pages whose whole URL matches one of these, as in ['*/app/*']; 'auto': of pages that"
            " are empty without them (docs/render.md); needs a browser, and takes a hundred times as long",
            like="*/app/*",
        ),
    ] = []
    nofollow: Annotated[bool, key("obey rel=nofollow and robots meta tags; false: follow these links, too")] = True
    links_per_page: Annotated[int, key("follow only this many links of a page, the best ones; 0: all", least=0)] = 0
    link_metric: Annotated[
        str, key("which links of a page are best", choices=("first", "hits", "cash", "shallow", "external"))
    ] = "first"
    purpose: Annotated[
        str,
        key(
            "what the pages are for; pages whose publishers refuse that are not fetched, or not stored"
            " (docs/preferences.md); empty: what publishers ask is only recorded",
            choices=("", *PURPOSES),
        ),
    ] = ""
    opt_out_file: Annotated[
        str,
        key(
            "with a purpose: the file that each origin is asked for besides robots.txt; empty: none",
            choices=("/.well-known/tdmrep.json", "/ai.txt", ""),
        ),
    ] = "/.well-known/tdmrep.json"
    agent: Annotated[str, key("name of this agent's manifest chain", like="a0")] = "a0"


class Site(msgspec.Struct, frozen=True):
    """How the agents of one site share a crawl."""

    agents: Annotated[int, key("how many processes share the crawl", least=1, most=UNLIMITED)] = 1
    max_agents: Annotated[
        int,
        key(
            "agents on demand: up to so many come while hosts wait for connections, and leave when they are not needed"
            ' ("unlimited": as many as there are cores, or machines that ask for work); 0: always site.agents',
            least=0,
            most=UNLIMITED,
            words={"unlimited": UNLIMITED},
        ),
    ] = 0
    min_agents: Annotated[int, key("with agents on demand: at least so many stay", least=1, most=UNLIMITED)] = 1
    scale_s: Annotated[
        float, key("with agents on demand: seconds between two changes of their number, at least", least=1)
    ] = 300.0
    mode: Annotated[
        str,
        key(
            "links to pages of other agents are exchanged, dropped, or followed when nothing else is left",
            choices=("exchange", FIREWALL, CROSS_OVER),
        ),
    ] = "exchange"
    scores: Annotated[
        str,
        key(
            "whether a URL takes its cash to another site: always (global), only the first time (local), never (none)",
            choices=("global", "local", "none"),
        ),
    ] = "global"
    sent_cache: Annotated[int, key("how many URLs sent to other sites to remember", least=1)] = 1_000_000
    exchange: Annotated[
        str,
        key(
            "what carries messages between agents: a nats-server that the crawl starts, or the archive's store itself",
            choices=("nats", BY_STORE),
        ),
    ] = "nats"
    engine: Annotated[
        str,
        key(
            "where agents run: as processes of this machine, on a Ray cluster, or on machines that ask for work"
            " (`gossamer agent join DIR`)",
            choices=(PROCESSES, RAY, PULL),
        ),
    ] = PROCESSES
    ray_address: Annotated[
        str, key("the Ray cluster, as in ray://head:10001 or head:6379; empty: RAY_ADDRESS, or a private one")
    ] = ""
    lease_s: Annotated[float, key("an agent silent for this many seconds is replaced", least=1, most=3600)] = 10.0
    idle_s: Annotated[
        float, key("an agent idle for this many seconds ends, and starts again when there is work", least=1)
    ] = 60.0
    copies: Annotated[int, key("how many places hold the archive; more than 1 need site.disks", least=1, most=16)] = 1
    disks: Annotated[
        list[str], key("directories on other disks, or addresses, for copies (`gossamer restore`)", place=True)
    ] = []
    backlog_mb: Annotated[int, key("megabytes of unsent links, before an agent finds no more", least=1)] = 256


class Polite(msgspec.Struct, frozen=True):
    """How gently hosts are treated."""

    delay_s: Annotated[float, key("seconds to wait between two connections to a host (w)", least=0)] = 5.0
    small_delay_s: Annotated[float, key("the same for small hosts; 0: as delay_s", least=0)] = 0.0
    small_pages: Annotated[int, key("a host with fewer known pages than this is small", least=0)] = 100
    burst: Annotated[int, key("how many pages to fetch over one connection to a host (c)", least=1)] = 1
    burst_delay_s: Annotated[float, key("seconds between the pages of one connection", least=0)] = 0.0
    connections: Annotated[int, key("connections at a time, to all hosts (r); 1: in strict order of rank", least=1)] = (
        256
    )
    per_address: Annotated[bool, key("hosts on one IP address share one queue, and so one delay")] = False
    robots: Annotated[bool, key("obey robots.txt; false only for servers that are yours")] = True
    robots_ttl_s: Annotated[float, key("how long a robots.txt is good for", least=1)] = 86_400.0
    robots_memory: Annotated[int, key("bytes of robots rules kept in memory", least=1 << 16)] = 64 << 20
    crawl_delay_max_s: Annotated[float, key("longest crawl-delay obeyed; longer ones count as this", least=0)] = 300.0
    backoff_s: Annotated[float, key("first pause of a host after 429, 503 or a failure; then doubled", least=0)] = 30.0
    backoff_max_s: Annotated[float, key("longest such pause, also for Retry-After", least=0)] = 3600.0


class Fetch(msgspec.Struct, frozen=True):
    """One request: who asks, how long, how much."""

    agent_name: Annotated[str, key("product token, matched against robots.txt rules", like="Gossamer")] = "Gossamer"
    contact: Annotated[str, key("URL or e-mail address in the user-agent, for owners of servers", like=CONTACT)] = ""
    timeout_s: Annotated[float, key("whole exchange, connecting included", least=0.01)] = 60.0
    connect_timeout_s: Annotated[float, key("name look-up, TCP and TLS", least=0.01)] = 10.0
    body_bytes: Annotated[int, key("cut a body after this many bytes, as sent", least=1024)] = 16 << 20
    type_bytes: Annotated[
        dict[str, str | int],
        key("the same for bodies of single types, as in { 'video/*' = '2GB', 'application/pdf' = '100MB' }"),
    ] = {}
    type_timeout_s: Annotated[float, key("as timeout_s, for bodies of these types", least=0.01)] = 3600.0
    decoded_bytes: Annotated[int, key("cut a body after this many bytes, after decoding", least=1024)] = 64 << 20
    header_bytes: Annotated[int, key("refuse answers with longer headers", least=1024)] = 128 << 10
    retries: Annotated[int, key("how often a page is tried again after a passing failure or a refusal", least=0)] = 3
    retry_s: Annotated[float, key("first wait before it is tried again; doubles each time", least=0)] = 60.0
    forbidden_s: Annotated[float, key("the same for a forbidden page (401, 403); doubles each time", least=0)] = (
        86_400.0
    )
    hops: Annotated[int, key("how many redirects in a row are followed", least=0, most=127)] = 10
    accept_types: Annotated[
        list[str],
        key(
            "fetch only bodies of these types, as in ['text/html', 'image/*']; others are left after their headers;"
            " empty: all; what declares no type, and URLs with the word sitemap, are fetched all the same",
            like="text/html",
        ),
    ] = []
    headers: Annotated[
        dict[str, str],
        key("header fields of every request, as in { Accept-Language = 'de' }; no secrets (docs/requests.md)"),
    ] = {}
    cookies: Annotated[bool, key("keep the cookies that servers set, and send them back (docs/requests.md)")] = False
    cookies_file: Annotated[str, key("cookies to send, in a file of Netscape's format; empty: none")] = ""
    http: Annotated[
        str,
        key("HTTP/1.1 only; or auto: HTTP/2 for servers that refuse 1.1 (docs/requests.md)", choices=("1.1", "auto")),
    ] = "auto"
    proxy: Annotated[
        str,
        key("proxy for all hosts, as in http://localhost:3128 or socks5h://localhost:1080; with a password: env:NAME"),
    ] = ""
    identity: Annotated[
        str, key("sign requests with this key, as in file:identity.json; `gossamer identity` makes it; empty: do not")
    ] = ""
    identity_form: Annotated[
        str,
        key(
            "how Signature-Agent is written: as the IETF's draft has it, or as Cloudflare's docs do (docs/requests.md)",
            choices=("dictionary", "string"),
        ),
    ] = "dictionary"
    verify_tls: Annotated[bool, key("check the certificates of servers")] = True
    parse_bytes: Annotated[int, key("look for links in this many bytes of a page", least=1024)] = 8 << 20


class Resolve(msgspec.Struct, frozen=True):
    """Names to addresses, and where we refuse to go."""

    map: Annotated[
        dict[str, str], key('fixed answers, "name" or "*.suffix" or "*" = "address:port"; others are then refused')
    ] = {}
    nameservers: Annotated[list[str], key("DNS servers; empty: the system's")] = []
    private: Annotated[bool, key("allow loopback, private and link-local addresses (an intranet crawl)")] = False
    cache: Annotated[int, key("how many names are remembered", least=1)] = 100_000
    ttl_s: Annotated[float, key("how long an answer is good for", least=1)] = 3600.0
    failed_ttl_s: Annotated[
        float,
        key("how long we remember that a name does not exist; that a name server failed, for 5 s at most", least=1),
    ] = 300.0


class Limits(msgspec.Struct, frozen=True):
    """Limits that contain traps."""

    depth: Annotated[int, key("links from a seed, for static pages", least=0)] = 15
    depth_dynamic: Annotated[int, key("links from a seed, for pages with a query (never more than depth)", least=0)] = 5
    list_pages: Annotated[int, key("?page=N or /page/N is no deeper than its list, up to this N", least=0)] = 1_000
    url_bytes: Annotated[int, key("the longest URL, in bytes", least=20)] = 2000
    path_segments: Annotated[int, key("the longest path, in segments", least=1)] = 20
    path_repeats: Annotated[int, key("how often a path may repeat a segment", least=1)] = 2
    pages_per_host: Annotated[int, key("pages known per host; 0: no limit", least=0)] = 25_000
    pages_per_domain: Annotated[int, key("pages known per registrable domain; 0: no limit", least=0)] = 250_000
    hosts_per_domain: Annotated[int, key("hosts known per registrable domain; 0: no limit", least=0)] = 1_000
    links: Annotated[int, key("links read per page", least=1)] = 10_000
    requisites: Annotated[int, key("requisites fetched per page, or per style sheet (docs/media.md)", least=0)] = 1_000
    requisite_depth: Annotated[
        int, key("style sheets and redirects between a page and what it needs", least=0, most=100)
    ] = 5
    new_per_round: Annotated[
        int,
        key(
            "how many of the new pages that a round finds become known, the best ones; each of m - 1 other sites gets "
            "one m-th as many; the rest become known when they are found again; 0: all",
            least=0,
        ),
    ] = 0


class Index(msgspec.Struct, frozen=True):
    """Known pages."""

    memory_mb: Annotated[int, key("memory of the index: overlay, candidates and work space", least=16)] = 512
    queue_per_host: Annotated[int, key("pages per host in the workbench; 0: chosen from width", least=0)] = 0


class Archive(msgspec.Struct, frozen=True):
    """What is stored."""

    warc_bytes: Annotated[int, key("size limit of a WARC file", least=1 << 16)] = 1 << 30
    warc: Annotated[bool, key("store requests and responses")] = True
    requests: Annotated[bool, key("store request records beside responses")] = True
    secrets: Annotated[bool, key("store credentials in these records, too; false: (not stored) is in their place")] = (
        False
    )
    links: Annotated[bool, key("store the links table")] = True
    digests: Annotated[int, key("digests remembered to recognise the same content elsewhere", least=0)] = 1_000_000
    dedupe: Annotated[
        list[str],
        key("other crawls: content that they have is not stored again (docs/archives.md)", like="/data/last-year"),
    ] = []
    simhash: Annotated[
        float,
        key("share of the pages of whose main text the table `pages` gets a simhash (docs/text.md)", least=0, most=1),
    ] = 0.0
    cache_mb: Annotated[
        int, key("MB of local disk for the files of an archive in a bucket (docs/cloud.md)", least=16)
    ] = 10_000
    operator: Annotated[str, key("who archives, for the warcinfo records of WARC files")] = ""
    collection: Annotated[str, key("what collection it is for, there")] = ""
    description: Annotated[str, key("what the crawl is about, there and in WACZ files")] = ""
    merge_files: Annotated[int, key("merge small files after this many rounds; 0: never", least=0)] = 32


class Refresh(msgspec.Struct, frozen=True):
    """When known pages are visited again."""

    policy: Annotated[str, key("which pages are visited again, and when (docs/refresh.md)", choices=REFRESH)] = "never"
    interval_s: Annotated[float, key("fixed: between two visits; adaptive: the first time", least=1)] = 86_400.0
    least_s: Annotated[float, key("no page is visited again sooner than this", least=0.001)] = 60.0
    most_s: Annotated[float, key("policies of intervals and rates wait no longer than this", least=1)] = 90 * 86_400.0
    visits_per_day: Annotated[float, key("most revisits; azar and harmonic need it; 0: no limit", least=0)] = 0.0
    share: Annotated[float, key("share of revisits, while there are pages never visited", least=0, most=1)] = 0.5
    weight: Annotated[
        str,
        key(
            "pages count by importance (PageRank where the order computes it, else links and OPIC), by the links to "
            "them, or all alike",
            choices=("importance", "hits", "alike"),
        ),
    ] = "importance"


class Carbon(msgspec.Struct, frozen=True):
    """What visits cost in energy and carbon (docs/green.md), and what they may cost."""

    signal: Annotated[
        str,
        key(
            "carbon intensity of the power where hosts are: mix, mean, solar, electricity-maps, watttime, uk,"
            " or a CSV or Parquet file with the columns time, place, value"
        ),
    ] = "mix"
    fallback: Annotated[str, key("used where that signal has no value", choices=("mix", "mean", "solar"))] = "mix"
    stale_s: Annotated[
        float,
        key("seconds that a value of a signal file counts, then the fallback does; 0: until the next value", least=0),
    ] = 0.0
    token: Annotated[str, key("the token of a live feed")] = ""
    url: Annotated[str, key("the URL of a live feed, if it is not the usual one")] = ""
    places: Annotated[dict[str, str], key('hosts not where their address is, "name" or "*.suffix" = "DE"')] = {}
    kwh_per_gb: Annotated[float, key("energy of a GB sent, in data centre and network: the upper end", least=0)] = 0.114
    kwh_per_gb_low: Annotated[float, key("the same, at the lower end", least=0)] = 0.056
    request_j: Annotated[float, key("joules of a request, whatever its size", least=0)] = 0.1
    g_per_day: Annotated[float, key("grams of CO2 equivalent that visits may cost per day; 0: any", least=0)] = 0.0
    price: Annotated[float, key("or what a gram costs (lambda), in the unit of the policy's values", least=0)] = 0.0
    contracts: Annotated[str, key("a TOML file with g_per_day or price of single hosts and countries")] = ""
    idle: Annotated[
        str, key("whether green policies wait while all visits cost too much", choices=("never", "negative"))
    ] = "never"


class Extract(msgspec.Struct, frozen=True):
    """Your own code on every page (docs/functions.md)."""

    functions: Annotated[
        list[str],
        key(
            "functions that are given every page with new content and yield items, as in ['shop:product'] or"
            " ['shop.py:product']",
            like="shop:product",
        ),
    ] = []
    links: Annotated[
        str, key("a function that decides which links are followed, as in 'shop:follow'; empty: none", like="shop:")
    ] = ""
    workers: Annotated[int, key("processes that run them; 0: one for each core but one", least=0, most=1024)] = 0
    time_s: Annotated[float, key("seconds that a function may take for a page", least=0.01)] = 10.0
    memory_mb: Annotated[int, key("memory that functions may take, in MB, in each process", least=16)] = 1024
    page_mb: Annotated[int, key("how large the items and files of one page may be, in MB", least=1, most=1024)] = 64
    max_errors: Annotated[
        int, key("end the crawl when functions fail on this many pages in a row; 0: never", least=0)
    ] = 0


class Render(msgspec.Struct, frozen=True):
    """The browser that runs the scripts of pages, with crawl.render (docs/render.md)."""

    browser: Annotated[str, key("the program: Chromium or Chrome, by name or path", like="chromium")] = "chromium"
    tabs: Annotated[int, key("pages at a time", least=1, most=64)] = 2
    time_s: Annotated[
        float,
        key("seconds that scripts may take; those in which the page waits for our own requests do not count", least=1),
    ] = 30.0
    settle_s: Annotated[float, key("a page is finished when it asks for nothing for so many seconds", least=0.05)] = 0.5
    requests: Annotated[int, key("the most scripts, frames and data that one page may ask for", least=0)] = 50
    memory_mb: Annotated[int, key("the most memory of the browser, in MB; beyond that it is ended", least=256)] = 2048
    recycle: Annotated[int, key("begin with a new browser after this many pages", least=1)] = 100


class Host(msgspec.Struct, frozen=True):
    """One host's own rules, in the file only; what they leave out is as for all. Write [host."example.org"], or
    [host."*.example.org"] for every host below it, one table for each."""

    delay_s: Annotated[float, key("as polite.delay_s, however small the host is", least=0)] = 5.0
    burst: Annotated[int, key("as polite.burst", least=1)] = 1
    burst_delay_s: Annotated[float, key("as polite.burst_delay_s", least=0)] = 0.0
    pages: Annotated[int, key("as limits.pages_per_host", least=0)] = 25_000
    headers: Annotated[
        dict[str, str], key("as fetch.headers, besides them; values may be secrets, as in env:API_KEY or file:key.txt")
    ] = {}
    auth: Annotated[
        str, key("'bearer env:API_TOKEN' or 'basic env:LOGIN' (user:password), or from a file: 'bearer file:token.txt'")
    ] = ""
    proxy: Annotated[str, key("as fetch.proxy; 'none': no proxy for this host")] = ""
    cleartext: Annotated[bool, key("send its secrets to http:// URLs, too, where others can read them")] = False
    ports: Annotated[list[int], key("ports that get its secrets, besides 80 and 443, as in [8443]")] = []


class Seed(msgspec.Struct, frozen=True):
    """One seed with rules of its own, in the place of those for all; a table for each. They hold for its website: its
    host with and without www., or with scope = "domain" its registrable domain."""

    url: Annotated[str, key("where to start")]
    scope: Annotated[str, key("as crawl.scope", choices=("host", "domain", "any"))] | None = None
    depth: Annotated[int, key("as limits.depth: links from the website's seeds", least=0)] | None = None
    pages: Annotated[int, key("pages known of the website; 0: no limit", least=0)] | None = None
    include: Annotated[list[str], key("as crawl.include", like="*/blog/*")] | None = None
    exclude: Annotated[list[str], key("as crawl.exclude", like="*/blog/*")] | None = None
    json: Annotated[Any, key("POST this to the URL, a table or JSON text")] | None = None
    data: Annotated[Any, key("POST this form to the URL, a table or its text")] | None = None

    @property
    def line(self) -> str:
        """Returns it as a line of a seeds file."""
        words = ["%20".join(self.url.split())]
        for name in SEED_OPTIONS:
            value = getattr(self, name)
            if value is not None:
                words += [f"{name}={each}" for each in (value or [""] if isinstance(value, list) else [value])]
        words += [f"json={json_text(self.json)}"] if self.json is not None else []
        words += [f"data={_form_text(self.data)}"] if self.data is not None else []
        return " ".join(words)


BODIES = ("json", "data")  # options of a seed that make it a POST
SEED_OPTIONS = tuple(name for name in Seed.__struct_fields__ if name not in ("url", *BODIES))


def json_text(value: Any) -> str:
    """Returns the text of a JSON body: of a value, or as it was given."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _form_text(value: Any) -> str:
    return value if isinstance(value, str) else urlencode(value, doseq=True)


class Log(msgspec.Struct, frozen=True):
    """What a crawl writes to its log, as JSON lines."""

    level: Annotated[
        str,
        key(
            "what is logged at least: every visit that failed (debug), commits (info), hosts that fail and slow commits"
            " (warning)",
            choices=("debug", "info", "warning"),
        ),
    ] = "info"
    file: Annotated[
        str, key("the log; of several agents each has its own beside it, NAME-AGENT; empty: in the folder log of DIR")
    ] = ""
    mb: Annotated[int, key("a file of this size becomes FILE.1, that FILE.2, and so on; four are kept", least=1)] = 16
    slow_commit_s: Annotated[float, key("a commit that takes longer is a warning", least=0)] = 10.0


class Config(msgspec.Struct, frozen=True):
    """`Config` has everything that can be configured. Pass it down; nothing reads it from anywhere else."""

    crawl: Crawl = Crawl()
    site: Site = Site()
    polite: Polite = Polite()
    fetch: Fetch = Fetch()
    resolve: Resolve = Resolve()
    limits: Limits = Limits()
    index: Index = Index()
    archive: Archive = Archive()
    refresh: Refresh = Refresh()
    carbon: Carbon = Carbon()
    extract: Extract = Extract()
    render: Render = Render()
    log: Log = Log()
    host: dict[str, dict[str, Any]] = {}  # name: those keys of Host that are given

    @property
    def user_agent(self) -> str:
        """Returns the name under which requests are sent, with the contact."""
        contact = f" (+{self.fetch.contact})" if self.fetch.contact else ""
        return f"{self.fetch.agent_name}/{__version__}{contact}"

    def warnings(self) -> list[str]:
        """Returns what is allowed but deserves a second thought."""
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

    def values(self) -> dict[str, dict[str, Any]]:
        """Returns all of it as plain values, by section and key. `Config().replace` restores the configuration."""
        found: dict[str, dict[str, Any]] = msgspec.to_builtins(self)
        return found

    def changes(self) -> dict[str, Any]:
        """Returns what is not the default, by `section.key`."""
        defaults = Config().values()
        return {
            f"{section}.{leaf}": value
            for section, values in self.values().items()
            for leaf, value in values.items()
            if value != defaults[section].get(leaf)
        }

    def replace(self, values: Mapping[str, Any]) -> "Config":
        """Returns a copy with changes, each a `section.key` or a whole section; every value is checked."""
        sections: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            part, dot, leaf = name.partition(".")
            if name != "seeds":
                _check_section(part, {} if dot else value)
                sections[part] = {**sections.get(part, {}), **({leaf: value} if dot else value)}
        if "seeds" in values:  # another way to write crawl.seeds
            crawl = sections.setdefault("crawl", {})
            crawl["seeds"] = [*crawl.get("seeds", ()), *_seed_lines(values["seeds"])]
        found = msgspec.structs.replace(self, **{name: self._section(name, part) for name, part in sections.items()})
        if 0 < found.site.max_agents < found.site.min_agents:
            least, most = found.site.min_agents, found.site.max_agents
            raise ConfigError(f"site.max_agents must be at least site.min_agents ({least}), not {most}")
        return found

    def _section(self, name: str, given: Mapping[str, Any]) -> Any:
        """Returns one section of a copy with changes."""
        if name == "host":
            return {**self.host, **_hosts(given)}
        found = section(getattr(self, name), name, given, KEYS)
        if name == "fetch":
            found = msgspec.structs.replace(found, type_bytes=sizes("fetch.type_bytes", found.type_bytes))
            check_headers("fetch.headers", found.headers, may_refer=False)
            check_proxy("fetch.proxy", found.proxy)
            check_reference("fetch.identity", found.identity)
        if name == "archive":  # the next run, and whoever reads it, may be in another directory
            found = msgspec.structs.replace(found, dedupe=[str(absolute(each)) for each in found.dedupe])
        return found


SECTIONS: Mapping[str, type[Any]] = MappingProxyType(
    {name: kind for name, kind in get_type_hints(Config).items() if name != "host"}
)
KEYS = {name: list(keys(kind)) for name, kind in SECTIONS.items()}


def _seed_lines(tables: Any) -> list[str]:
    """Returns seeds with rules of their own, as lines of a seeds file."""
    if not (isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables)):
        raise ConfigError("seeds are tables: write [[seeds]] above the keys of each, or a list crawl.seeds of URLs")
    return [seed(table).line for table in tables]


def seed(table: Mapping[str, Any]) -> Seed:
    """Returns a checked seed."""
    if not table.get("url"):
        raise ConfigError('seeds.url is missing: write url = "https://example.org/" under [[seeds]]')
    found = section(Seed(""), "seeds", table)
    for pattern in [*(found.include or ()), *(found.exclude or ())]:
        if not pattern or any(map(str.isspace, pattern)):
            raise ConfigError(f"seeds: {pattern!r} can match nothing, as no URL has a space in it; write it as %20")
    _check_body(found)
    return found


def _check_body(found: Seed) -> None:
    if found.json is not None and found.data is not None:
        raise ConfigError("seeds: a seed has one body: json or data")
    if found.data is not None and not isinstance(found.data, str | Mapping):
        raise ConfigError("seeds.data must be the fields of a form, or its text like q=shoes&page=1")
    try:
        if found.json is not None:
            json.loads(json_text(found.json))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"seeds.json is no JSON: {error}") from None


def _hosts(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns each host's own keys, checked."""
    found = {}
    for host, given in tables.items():
        if not isinstance(given, Mapping):
            raise ConfigError(f'host.{host} is not a host: write [host."example.org"] above its keys')
        if host != host.lower() or not re.fullmatch(r"(\*\.)?[^\s/*:]+", host):
            raise ConfigError(f'[host."{host}"] is no host name; write it like "example.org" or "*.example.org"')
        checked = section(Host(), f'host."{host}"', given)
        check_headers(f'host."{host}".headers', checked.headers, may_refer=True)
        check_proxy(f'host."{host}".proxy', checked.proxy)
        if checked.auth:
            check_auth(f'host."{host}".auth', checked.auth)
        found[host] = {leaf: getattr(checked, leaf) for leaf in given}
    return found


def _check_section(name: str, given: Any) -> None:
    if name not in SECTIONS and name != "host":
        raise ConfigError(unknown(f"[{name}]", name, [*SECTIONS, "host", "seeds"]))
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} is a section: write its keys under [{name}]")
