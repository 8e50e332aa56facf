"""Remembers which sitemaps on other hosts a robots.txt names: such a sitemap may list pages of the host that named it.

A sitemap speaks for its own host only (sitemaps.org); the robots.txt that names one elsewhere is the permission for
more. The permission is committed with the robots.txt, before the sitemap can be visited, and told to the other agents,
since the sitemap may be in a zone of theirs.
"""

from collections.abc import Iterable
from typing import NamedTuple

from gossamer.archive.chain import snapshots
from gossamer.archive.store import Store
from gossamer.web.url import page_key

_ANCESTORS = 8  # an index of indexes of ... names sitemaps for the hosts that name it, up to so many steps away


class Naming(NamedTuple):
    """A host whose robots.txt names a sitemap elsewhere; or such a sitemap, which leads to another one."""

    namer: str
    sitemap: str


class NamedSitemaps:
    """The agent's thread adds, the fetching thread asks."""

    def __init__(self, known: Iterable[Naming] = ()) -> None:
        self._namers: dict[int, set[str]] = {}
        self.add(known)

    @classmethod
    def read(cls, store: Store) -> "NamedSitemaps":
        """What is committed, by whichever agent."""
        names = [name for at in snapshots(store).values() for name in at.files.get("named", [])]
        lines = (line for name in names for line in store.get(name).decode().splitlines())
        return cls(Naming(*line.split(" ", 1)) for line in lines)

    def add(self, namings: Iterable[Naming]) -> list[Naming]:
        """Returns those that are new, for the archive."""
        new = []
        for naming in map(Naming._make, namings):
            namers = self._namers.setdefault(page_key(naming.sitemap), set())
            if naming.namer not in namers:
                namers.add(naming.namer)
                new.append(naming)
        return new

    def hosts(self, sitemap: str) -> set[str]:
        """Other hosts for which this sitemap speaks: those that name it, or a sitemap that led to it."""
        found, level = set[str](), {sitemap} if self._namers else set[str]()
        for _ in range(_ANCESTORS):
            namers = set[str]().union(*(self._namers.get(page_key(url), ()) for url in level))
            found |= {namer for namer in namers if "/" not in namer}
            level = {namer for namer in namers if "/" in namer}
        return found


def document(namings: Iterable[Naming]) -> bytes:
    """The file that `NamedSitemaps.read` reads: a line for each, the namer first."""
    return "".join(f"{naming.namer} {naming.sitemap}\n" for naming in namings).encode()
