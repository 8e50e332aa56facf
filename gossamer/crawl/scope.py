"""`Scope` and `Patterns` decide which links belong to the crawl; `level` and `NamedSitemaps` make two exceptions.

A website whose seeds have rules of their own (`WebsiteRules`) is closed: its pages are reached only from its own seeds,
pages and sitemaps, and its links are judged by its rules. So what is crawled of it, and how deep its pages are, does
not depend on who else mentions them.

A link to another page of the same list leads no deeper. Shops and blogs spread a list over numbered pages, and often
each leads only to the next. A calendar looks alike, but has no end: so only parameters count that are called like the
number of a page, numbers that a list can have, and pages that list something.

A sitemap speaks for its own host only (sitemaps.org); a robots.txt that names one on another host permits more. The
permission is committed with the robots.txt, before the sitemap can be visited, and sent to the other agents, since the
sitemap may be in a zone of theirs.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from gossamer.archive.chain import contents
from gossamer.archive.state import Strict
from gossamer.archive.store import Store
from gossamer.arrays import Bools
from gossamer.config import Limits, Seed
from gossamer.config.schema import EXPRESSION
from gossamer.frontier.caps import Quota
from gossamer.web.links import Links
from gossamer.web.url import domain_of, host_of, page_key


class WebsiteRules(Strict, frozen=True):
    """`WebsiteRules` are the rules that a seed brought for its website; None is as for all. Of several the latest hold,
    for every agent the same."""

    host: str  # of the seed, without www.
    since_s: float
    scope: str | None = None
    depth: int | None = None
    pages: int | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    def limits(self, limits: Limits) -> Limits:
        return limits if self.depth is None else msgspec.structs.replace(limits, depth=self.depth)

    @property
    def words(self) -> str:
        """Returns the rules as options of a seed."""
        return msgspec.convert(msgspec.structs.asdict(self) | {"url": ""}, Seed).line.strip()


def bare(host: str) -> str:
    """Returns the name without `www.`: with it, it is the same website."""
    return host.removeprefix("www.")


class Websites:
    """`Websites` knows which websites have rules of their own. The agent's thread adds, the fetching thread asks."""

    def __init__(self, scope: str, rules: Iterable[WebsiteRules] = ()) -> None:
        self._scope = scope  # of those that have none of their own
        self._given: dict[str, WebsiteRules] = {}
        self._hosts: dict[str, WebsiteRules] = {}
        self._domains: dict[str, WebsiteRules] = {}
        self.add(rules)

    def __bool__(self) -> bool:
        return bool(self._given)

    def all(self) -> list[WebsiteRules]:
        return [self._given[host] for host in sorted(self._given)]

    def add(self, rules: Iterable[WebsiteRules]) -> list[tuple[WebsiteRules, WebsiteRules | None]]:
        """Adds rules; returns those that are later than others, each with the rules that its website had before. The
        result is the same in whatever order they come."""
        changed = []
        for each in rules:
            same = self._given.get(each.host)
            if same is not None and _order(each) <= _order(same):
                continue
            changed.append((each, self.of(each.host)))
            self._given[each.host] = each
            if same is not None and self.scope(same) != self.scope(each):  # it may have been another website
                self._hosts, self._domains = {}, {}
                for one in self._given.values():
                    self._enter(one)
            else:
                self._enter(each)
        return changed

    def _enter(self, rules: WebsiteRules) -> None:
        if self.scope(rules) != "domain":
            self._hosts[rules.host] = rules
            return
        domain = domain_of(rules.host)
        self._domains[domain] = max(rules, self._domains.get(domain, rules), key=_order)

    def scope(self, rules: WebsiteRules) -> str:
        return rules.scope or self._scope

    def of(self, host: str) -> WebsiteRules | None:
        """Returns the rules of the website that a host belongs to, if it has any."""
        return self._hosts.get(bare(host)) or (self._domains.get(domain_of(host)) if self._domains else None)

    def quota(self, host: str) -> Quota | None:
        """Returns how many pages of a host's website may be known, if it has a limit of its own."""
        rules = self.of(host)
        if rules is None or rules.pages is None:
            return None
        if self.scope(rules) == "domain":
            return Quota(rules.pages, domain=domain_of(host))
        return Quota(rules.pages, hosts=(rules.host, f"www.{rules.host}"))


def _order(rules: WebsiteRules) -> tuple[float, str, str]:
    return rules.since_s, rules.words, rules.host


class Names:
    """`Names` is a set of names that can only grow, of eight bytes each once they are many: their hashes. The agent's
    thread adds, the fetching thread asks."""

    def __init__(self) -> None:
        self._few: set[str] = set()
        self._many = array("Q")  # sorted

    def __contains__(self, name: str) -> bool:
        return name in self._few or (len(self._many) > 0 and self._is_among_many(name))

    def _is_among_many(self, name: str) -> bool:
        many, key = self._many, xxh3_64_intdigest(name.encode())
        place = bisect_left(many, key)
        return place < len(many) and many[place] == key

    def add(self, names: Iterable[str]) -> list[str]:
        """Adds names; returns those that are new, sorted."""
        new = sorted({name for name in names if name not in self})
        self._few.update(new)
        if len(self._few) > max(_FEW, len(self._many) // 8):
            hashes = np.fromiter((xxh3_64_intdigest(name.encode()) for name in self._few), np.uint64, len(self._few))
            # Who asks meanwhile finds a name in both, never in none.
            self._many = array("Q", np.union1d(np.frombuffer(self._many, np.uint64), hashes).tobytes())
            self._few = set()
        return new


_FEW = 4_096  # names: they are found faster as they are


class Scope:
    """`Scope` admits the seeds' host names (`host`), their registrable domains (`domain`), or everything (`any`)."""

    def __init__(self, kind: str, hosts: Iterable[str] = (), rules: Iterable[WebsiteRules] = ()) -> None:
        self.kind = kind
        self.websites = Websites(kind, rules)
        self._hosts, self._domains = Names(), Names()
        self.add(hosts)

    @classmethod
    def read(cls, kind: str, store: Store) -> "Scope":
        """Reads what is committed: the hosts and the rules of all seeds so far, whichever agent took them in."""
        lines = _lines(store, "scope")
        rules = (msgspec.json.decode(line, type=WebsiteRules) for line in lines if line.startswith("{"))
        return cls(kind, (line for line in lines if not line.startswith("{")), rules)

    def committed_hosts(self, store: Store) -> list[str]:
        """Returns the hosts of all seeds, as they are on record."""
        return [] if self.kind == "any" else sorted({line for line in _lines(store, "scope") if line[:1] != "{"})

    def admits(self, url: str, source: WebsiteRules | None = None) -> bool:
        """Returns whether a link is in scope; `source` has the rules of the website that it is on."""
        if self.websites:
            target = self.websites.of(host_of(url))
            if source is not None or target is not None:
                is_open = source is not None and self.websites.scope(source) == "any"
                return target is source or (target is None and is_open)
        if self.kind == "any":
            return True
        host = host_of(url)
        return domain_of(host) in self._domains if self.kind == "domain" else host in self._hosts

    def has(self, url: str) -> bool:
        """Returns whether a page belongs to the crawl, by whatever rules."""
        return self.admits(url, self.websites.of(host_of(url)))

    def widen(self, seeds: Iterable[str]) -> list[str]:
        """Admits the seeds' hosts; returns those that are new, for the archive. The scope `any` needs no list, and a
        website with rules of its own has nothing to do with it."""
        hosts = map(host_of, seeds)
        return self.add(host for host in hosts if self.websites.of(host) is None) if self.websites else self.add(hosts)

    def add(self, hosts: Iterable[str]) -> list[str]:
        """Admits hosts; returns those that are new."""
        if self.kind == "any":
            return []
        new = self._hosts.add(hosts)
        if self.kind == "domain":
            self._domains.add({domain_of(host) for host in new})
        return new


def _lines(store: Store, kind: str) -> list[str]:
    """Reads the committed files of a kind, of all agents."""
    return [line for data in contents(store, kind) for line in data.decode().splitlines()]


class Patterns:
    """`Patterns` admits a URL that matches one of `include` (or there are none), and none of `exclude`."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include, self._exclude = _AnyOf(include), _AnyOf(exclude)

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def admit(self, url: str) -> bool:
        if self._include and not self._include.matches(url):
            return False
        return not (self._exclude and self._exclude.matches(url))


class _AnyOf:
    """`_AnyOf` is several patterns: those with stars as one expression for the whole URL, the others singly."""

    def __init__(self, patterns: Iterable[str]) -> None:
        given = list(patterns)
        stars = [_expression(pattern) for pattern in given if not pattern.startswith(EXPRESSION)]
        self._stars = re.compile("|".join(stars), re.DOTALL) if stars else None
        self._own = [re.compile(each.removeprefix(EXPRESSION)) for each in given if each.startswith(EXPRESSION)]

    def __bool__(self) -> bool:
        return bool(self._stars or self._own)

    def matches(self, url: str) -> bool:
        if self._stars is not None and self._stars.fullmatch(url):
            return True
        return any(own.search(url) for own in self._own)


def _expression(pattern: str) -> str:
    """Returns a regular expression. Only * is special: ? begins the query of many a URL."""
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    *middle, last = rest
    # The first place where a part fits is as good as any later one. Going back for those would take a time that grows
    # with the power of the number of stars.
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last


# "page=7" and "start=140" in a query, "/page/7" or "/page-7" in a path.
_PAGE = re.compile(
    r"(?:(?<=[?&;])(?:[a-z]*_?page(?:[_-]?(?:no|num|number|index|id))?|paged|pg|p|seite|pagina)=|/page[/-])(\d{1,6})(?![^/&;?])",
    re.IGNORECASE | re.ASCII,
)
_OFFSET = re.compile(
    r"(?<=[?&;])(?:start|offset|from|skip|first|begin|startrow|start_?index|limitstart)=(\d{1,7})(?![^&;])",
    re.IGNORECASE | re.ASCII,
)
_LARGEST_STEP = 1_000  # entries on a page of a list


def level(url: str, links: Links | Sequence[str], most: int) -> Bools | None:
    """Returns which of a page's links lead to the first `most` pages of its own list; None: none does, as usual."""
    place = _place(url)
    if place is None or not most:
        return None
    found = np.fromiter((_is_near(place, link, most) for link in links), np.bool_, len(links))
    # A page that leads to nothing but more of its kind lists nothing.
    return found if found.any() and len(_others(place, links)) else None


def is_level(url: str, link: str, most: int) -> bool:
    """Returns whether a link leads to one of the first `most` pages of the list that its page belongs to."""
    place = _place(url) if most else None
    return place is not None and _is_near(place, link, most)


def _place(url: str) -> tuple[str, str, int, bool] | None:
    """Returns what is before and after the page number in a URL, the number, and whether it counts pages or entries."""
    if "=" not in url and "/page" not in url.lower():  # as in most, and this takes a tenth of what expressions do
        return None
    match = _PAGE.search(url) or _OFFSET.search(url)
    if match is None:
        return None
    return url[: match.start(1)], url[match.end(1) :], int(match[1]), match.re is _PAGE


def _is_near(place: tuple[str, str, int, bool], link: str, most: int) -> bool:
    before, after, number, is_page = place
    if not (link.startswith(before) and link.endswith(after)) or len(link) <= len(before) + len(after):
        return False
    other = link[len(before) : len(link) - len(after)]
    if not (other.isascii() and other.isdigit()) or len(other) > 7:
        return False
    step = 1 if is_page else abs(int(other) - number)
    return 0 < step <= _LARGEST_STEP and int(other) <= most * step


def _others(place: tuple[str, str, int, bool], links: Links | Sequence[str]) -> list[str]:
    """Returns the links that are neither pages of the list nor its beginning."""
    list_of = place[0].rpartition("?")[0] or place[0].rstrip("/").rpartition("/")[0]
    return [link for link in links if link.partition("?")[0] != list_of and not link.startswith(place[0])]


_ANCESTORS = 8  # an index of indexes of ... names sitemaps for the hosts that name it, up to so many steps away


class Naming(NamedTuple):
    """`Naming` is a host whose robots.txt names a sitemap elsewhere, or such a sitemap, which leads to another one."""

    namer: str
    sitemap: str


class NamedSitemaps:
    """`NamedSitemaps` knows which hosts name which sitemaps. The agent's thread adds, the fetching thread asks."""

    def __init__(self, known: Iterable[Naming] = ()) -> None:
        self._namers: dict[int, set[str]] = {}
        self.add(known)

    @classmethod
    def read(cls, store: Store) -> "NamedSitemaps":
        """Reads what is committed, by whichever agent."""
        return cls(Naming(*line.split(" ", 1)) for line in _lines(store, "named"))

    def add(self, namings: Iterable[Naming]) -> list[Naming]:
        """Adds namings; returns those that are new, for the archive."""
        new = []
        for naming in map(Naming._make, namings):
            namers = self._namers.setdefault(page_key(naming.sitemap), set())
            if naming.namer not in namers:
                namers.add(naming.namer)
                new.append(naming)
        return new

    def hosts(self, sitemap: str) -> set[str]:
        """Returns the other hosts for which this sitemap speaks: those that name it, or a sitemap that led to it."""
        found, level = set[str](), {sitemap} if self._namers else set[str]()
        for _ in range(_ANCESTORS):
            namers = set[str]().union(*(self._namers.get(page_key(url), ()) for url in level))
            found |= {namer for namer in namers if "/" not in namer}
            level = {namer for namer in namers if "/" in namer}
        return found
