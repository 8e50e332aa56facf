"""Which links belong to the crawl: seen from its seeds, and by what their URLs look like."""

import re
from collections.abc import Iterable

from gossamer.web.url import domain_of, host_of


class Scope:
    """`host`: the seeds' host names; `domain`: their registrable domains; `any`: everything."""

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
        """Let the seeds' hosts in; returns those that are new, for the archive. What is `any` needs no list."""
        return self.add(host_of(url) for url in seeds)

    def add(self, hosts: Iterable[str]) -> list[str]:
        """Let hosts in; returns those that are new."""
        if self.kind == "any":
            return []
        new = set(hosts) - self._hosts
        self._hosts |= new
        self._domains |= {domain_of(host) for host in new}
        return sorted(new)


class Patterns:
    """Whether a URL matches one of `include` (or there are none), and none of `exclude`."""

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
    """Only * is special: ? begins the query of many a URL."""
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    *middle, last = rest
    # The first place where a part fits is as good as any later one. Going back for those would take a time that grows
    # with the power of the number of stars.
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last
