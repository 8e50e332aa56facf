"""Which links belong to the crawl, seen from its seeds."""

from collections.abc import Iterable

from gossamer.web.url import domain_of, host_of


class Scope:
    """`host`: the seeds' host names; `domain`: their registrable domains; `any`: everything."""

    def __init__(self, kind: str, hosts: Iterable[str] = ()) -> None:
        self.kind = kind
        self._hosts = set(hosts)
        self._domains = {domain_of(host) for host in self._hosts}

    def admits(self, url: str) -> bool:
        if self.kind == "any":
            return True
        host = host_of(url)
        return domain_of(host) in self._domains if self.kind == "domain" else host in self._hosts

    def widen(self, seeds: Iterable[str]) -> list[str]:
        """Let the seeds' hosts in; returns those that are new, for the archive. What is `any` needs no list."""
        if self.kind == "any":
            return []
        new = {host_of(url) for url in seeds} - self._hosts
        self._hosts |= new
        self._domains |= {domain_of(host) for host in new}
        return sorted(new)
