"""`Scope` and `Patterns` decide which links belong to the crawl; `level` and `NamedSitemaps` make two exceptions.

A link to another page of the same list leads no deeper. Shops and blogs spread a list over numbered pages, and often
each leads only to the next. A calendar looks alike, but has no end: so only parameters count that are called like the
number of a page, numbers that a list can have, and pages that list something.

A sitemap speaks for its own host only (sitemaps.org); a robots.txt that names one on another host permits more. The
permission is committed with the robots.txt, before the sitemap can be visited, and sent to the other agents, since the
sitemap may be in a zone of theirs.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gossamer.archive.chain import snapshots
from gossamer.archive.store import Store
from gossamer.arrays import Bools
from gossamer.web.url import domain_of, host_of, page_key


class Scope:
    """`Scope` admits the seeds' host names (`host`), their registrable domains (`domain`), or everything (`any`)."""

    def __init__(self, kind: str, hosts: Iterable[str] = ()) -> None:
        self.kind = kind
        self._hosts = set(hosts)
        self._domains = {domain_of(host) for host in self._hosts}

    @property
    def hosts(self) -> list[str]:
        return sorted(self._hosts)

    def admits(self, url: str) -> bool:
        if self.kind == "any":
            return True
        host = host_of(url)
        return domain_of(host) in self._domains if self.kind == "domain" else host in self._hosts

    def widen(self, seeds: Iterable[str]) -> list[str]:
        """Admits the seeds' hosts; returns those that are new, for the archive. The scope `any` needs no list."""
        return self.add(host_of(url) for url in seeds)

    def add(self, hosts: Iterable[str]) -> list[str]:
        """Admits hosts; returns those that are new."""
        if self.kind == "any":
            return []
        new = set(hosts) - self._hosts
        self._hosts |= new
        self._domains |= {domain_of(host) for host in new}
        return sorted(new)


class Patterns:
    """`Patterns` admits a URL that matches one of `include` (or there are none), and none of `exclude`."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        self._include = _any_of(include)
        self._exclude = _any_of(exclude)

    def admit(self, url: str) -> bool:
        if self._include is not None and not self._include.fullmatch(url):
            return False
        return self._exclude is None or not self._exclude.fullmatch(url)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    found = [_expression(pattern) for pattern in patterns]
    return re.compile("|".join(found), re.DOTALL) if found else None


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


def level(url: str, links: Sequence[str], most: int) -> Bools | None:
    """Returns which of a page's links lead to the first `most` pages of its own list; None: none does, as usual."""
    place = _place(url)
    if place is None or not most:
        return None
    found = np.fromiter((_is_near(place, link, most) for link in links), np.bool_, len(links))
    # A page that leads to nothing but more of its kind lists nothing.
    return found if found.any() and len(_others(place, links)) else None


def _place(url: str) -> tuple[str, str, int, bool] | None:
    """Returns what is before and after the page number in a URL, the number, and whether it counts pages or entries."""
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


def _others(place: tuple[str, str, int, bool], links: Sequence[str]) -> list[str]:
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
        names = [name for at in snapshots(store).values() for name in at.files.get("named", [])]
        lines = (line for name in names for line in store.get(name).decode().splitlines())
        return cls(Naming(*line.split(" ", 1)) for line in lines)

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


def document(namings: Iterable[Naming]) -> bytes:
    """Returns the file that `NamedSitemaps.read` reads: a line for each, the namer first."""
    return "".join(f"{naming.namer} {naming.sitemap}\n" for naming in namings).encode()
