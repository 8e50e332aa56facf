"""To whom a page belongs: this agent, another one of its site, or another site."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from gossamer.archive.manifest import ZONES_IN_ALL
from gossamer.index.pages import host_of_key, zone_of_key

if TYPE_CHECKING:
    from gossamer.crawl.placing import Placing

Keys = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.intp]


class Sites(Protocol):
    """Which site a host belongs to; `place.ring.Ring` is one."""

    @property
    def sites(self) -> Sequence[str]: ...

    def of_keys(self, host_keys: NDArray[np.integer], /) -> NDArray[np.int64]:
        """The number, in `sites`, of each host's site; of one that is undecided, its home's."""

    def is_settled(self, host_keys: NDArray[np.integer], /) -> NDArray[np.bool_]:
        """Whether that is decided."""


@dataclass(frozen=True)
class Place:
    """A site among others, as its agents see it."""

    site: str
    home: str  # the agent that speaks with the other sites
    sites: Sites
    placing: "Placing | None" = None  # where more than a ring decides


class Owners:
    """`zones` are ours by our chain; `owners` are whose they shall be; `everything` is ours in cross-over mode."""

    def __init__(
        self,
        agent: str,
        zones: Collection[int],
        owners: Sequence[str],
        place: Place | None = None,
        everything: bool = False,
    ) -> None:
        self._agent, self._place, self._everything = agent, place, everything
        self._zones = np.zeros(ZONES_IN_ALL, np.bool_)
        self._zones[list(zones)] = True
        sites = list(place.sites.sites) if place else []
        # Of the other sites' pages the one who speaks with them takes care.
        abroad = [name if place and place.home == agent else place.home for name in sites] if place else []
        self._names = sorted({*owners, *abroad, *([place.home] if place else [])})
        self._of_zone = np.array([self._names.index(name) for name in owners])
        self._of_site = np.array([self._names.index(name) for name in abroad], np.intp)
        self._here = sites.index(place.site) if place else 0
        # Who decides about a host: its home's speaker, through our own.
        self._deciding = self._of_site.copy()
        if place:
            self._deciding[self._here] = self._names.index(place.home)

    def is_own(self, keys: Keys) -> Mask:
        """Which pages we may have in our index."""
        if self._everything:
            return np.ones(len(keys), np.bool_)
        return self.is_native(keys)

    def is_native(self, keys: Keys) -> Mask:
        """Which pages are in our zones, and of our site."""
        own: Mask = self._zones[zone_of_key(keys)]
        if self._place is None:
            return own
        native: Mask = own & (self._sites(keys) == self._here) & self._place.sites.is_settled(host_of_key(keys))
        return native

    def by_name(self, keys: Keys) -> Iterator[tuple[str, Numbers]]:
        """Whom to send these pages to: each name, and their positions."""
        owner = self._of_zone[zone_of_key(keys)]
        if self._place is not None:
            sites = self._sites(keys)
            owner = np.where(sites == self._here, owner, self._of_site[sites])
            owner = np.where(self._place.sites.is_settled(host_of_key(keys)), owner, self._deciding[sites])
        for number in np.unique(owner).tolist():
            yield self._names[number], np.flatnonzero(owner == number)

    def is_abroad(self, name: str) -> bool:
        """Whether a name is another site's, and not an agent's."""
        return self._place is not None and name in self._place.sites.sites

    def speaks_for_site(self, name: str) -> bool:
        """Whether what was sent to this name was sent to our site, from abroad."""
        return self._place is not None and name == self._place.site

    @property
    def placing(self) -> "Placing | None":
        return self._place.placing if self._place else None

    @property
    def site(self) -> str:
        return self._place.site if self._place else ""

    @property
    def informants(self) -> list[str]:
        """From whom pages of other sites' links come to us."""
        if self._place is None:
            return []
        return self.abroad or [self._place.home]

    @property
    def abroad(self) -> list[str]:
        """The sites that this agent speaks with."""
        if self._place is None or self._place.home != self._agent:
            return []
        return [name for name in self._place.sites.sites if name != self._place.site]

    def _sites(self, keys: Keys) -> NDArray[np.int64]:
        assert self._place is not None
        return self._place.sites.of_keys(host_of_key(keys))
