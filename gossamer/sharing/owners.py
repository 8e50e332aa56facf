"""`Owners` decides to whom a page belongs: this agent, another one of its site, or a remote site.
The site is found first, by the ring or the host map; at our own site the zone decides."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gossamer.arrays import I64, Bools, Indices, Integers, Keys
from gossamer.frontier.pages import host_of_key, is_in, zone_of_key

if TYPE_CHECKING:
    from gossamer.archive.state import Members
    from gossamer.sharing.placing import Placing


class Sites(Protocol):
    """`Sites` assigns hosts to sites; `placement.ring.Ring` is one."""

    @property
    def sites(self) -> Sequence[str]: ...

    def of_keys(self, host_keys: Integers, /) -> I64:
        """Returns the number, in `sites`, of each host's site; for an undecided host, of its home."""

    def is_settled(self, host_keys: Integers, /) -> Bools:
        """Returns which hosts are decided."""


@dataclass(frozen=True)
class SiteView:
    """`SiteView` is a site among others, as its agents see it."""

    site: str
    home: str  # the agent that speaks with the other sites
    sites: Sites
    placing: "Placing | None" = None  # where more than a ring decides
    members: "Members | None" = None  # None: the sites are always the same
    gone: Collection[str] = ()  # sites that are switched off for good
    before: Sequence[Sites] | None = None  # who had the hosts by earlier lists of sites; None: others had them

    @property
    def version(self) -> int:
        return self.members.version if self.members else 1

    @property
    def others(self) -> list[str]:
        """Returns the remote sites that can be reached."""
        return [name for name in self.sites.sites if name != self.site and name not in self.gone]

    def towards(self, agent: str, site: str) -> str:
        """Returns to whom an agent sends what is for a remote site."""
        return site if agent == self.home else self.home

    def shall_be_at(self, host_keys: Integers) -> I64:
        """Returns the number of the site that each host, of ours, shall be at."""
        numbers = self.sites.of_keys(host_keys)
        if self.placing is None or self.members is None or self.members.weights[self.site]:
            return numbers
        # We take no hosts any more, but the map says that these are ours.
        here = list(self.sites.sites).index(self.site)
        return np.where(numbers == here, self.placing.homes(host_keys), numbers)

    def was_lost(self, host_keys: Integers) -> Bools:
        """Returns which hosts were at sites that are gone; also undecided ones, if such a site was to decide."""
        lost = self.had_lost_home(host_keys)
        if self.placing is None:
            return lost
        return self.placing.is_orphaned(host_keys) | lost & ~self.sites.is_settled(host_keys)

    def had_lost_home(self, host_keys: Integers) -> Bools:
        """Returns which hosts had a home, by an earlier list, at a site that is gone."""
        lost: Bools = np.full(len(host_keys), self.before is None)
        for earlier in self.before or ():
            gone = [number for number, name in enumerate(earlier.sites) if name in self.gone]
            lost |= np.isin(earlier.of_keys(host_keys), gone)
        return lost

    def has_arrived(self, host_keys: Integers) -> Bools:
        """Returns which hosts, of ours by a host map, are here: a transfer of the others is on its way to us."""
        return np.ones(len(host_keys), np.bool_) if self.placing is None else self.placing.has_arrived(host_keys)

    def is_held(self, host_keys: Integers) -> Bools:
        """Returns which hosts another site may still have, until all have given away what is not theirs. With a host
        map, those that have arrived are nobody else's."""
        if self.placing is not None:
            return np.zeros(len(host_keys), np.bool_)
        held: Bools = np.full(len(host_keys), self.before is None)
        for earlier in self.before or ():
            names = list(earlier.sites)
            held |= earlier.of_keys(host_keys) != (names.index(self.site) if self.site in names else -1)
        return held


class Owners:
    """`Owners` knows whose pages are. `zones` are ours by our chain; `owners` are whose they shall be; `everything` is
    ours in cross-over mode; `holding`: other sites may still have hosts that are ours."""

    def __init__(
        self,
        agent: str,
        zones: Collection[int],
        owners: Sequence[str],
        place: SiteView | None = None,
        everything: bool = False,
        holding: bool = False,
    ) -> None:
        self._agent, self._place, self._everything = agent, place, everything
        self._holding = holding
        self._zones = is_in(zones)
        sites = list(place.sites.sites) if place else []
        # The agent that speaks with remote sites takes care of their pages.
        remote = [name if place and place.home == agent else place.home for name in sites] if place else []
        self._names = sorted({*owners, *remote, *([place.home] if place else [])})
        number = {name: place for place, name in enumerate(self._names)}
        self._of_zone = np.array([number[name] for name in owners])
        self._of_site = np.array([number[name] for name in remote], np.intp)
        self._here = sites.index(place.site) if place else 0
        # The speaker of a host's home decides about it; we reach it through our own speaker.
        self._deciding = self._of_site.copy()
        if place:
            self._deciding[self._here] = number[place.home]

    def is_own(self, keys: Keys) -> Bools:
        """Returns which pages we may have in our index."""
        if self._everything:
            return np.ones(len(keys), np.bool_)
        return self.is_native(keys)

    def is_native(self, keys: Keys) -> Bools:
        """Returns which pages are in our zones, and of our site."""
        own: Bools = self._zones[zone_of_key(keys)]
        if self._place is None:
            return own
        hosts = host_of_key(keys)
        native: Bools = own & (self._sites(keys) == self._here) & self._place.sites.is_settled(hosts)
        native &= self._place.has_arrived(hosts)
        return native & ~self._place.is_held(hosts) if self._holding else native

    def by_name(self, keys: Keys) -> Iterator[tuple[str, Indices]]:
        """Iterates over the receivers of these pages: each name, and the pages' positions."""
        owner = self._of_zone[zone_of_key(keys)]
        if self._place is not None:
            sites = self._sites(keys)
            owner = np.where(sites == self._here, owner, self._of_site[sites])
            owner = np.where(self._place.sites.is_settled(host_of_key(keys)), owner, self._deciding[sites])
        for number in np.unique(owner).tolist():
            yield self._names[number], np.flatnonzero(owner == number)

    def is_remote_site(self, name: str) -> bool:
        """Returns whether a name is a remote site's, and not an agent's."""
        return self._place is not None and name in self._place.sites.sites

    def speaks_for_site(self, name: str) -> bool:
        """Returns whether a message to this name came to our site from a remote one."""
        return self._place is not None and name == self._place.site

    @property
    def placing(self) -> "Placing | None":
        return self._place.placing if self._place else None

    @property
    def may_decide(self) -> bool:
        """Returns whether we may decide about hosts: not while other sites may have decided already, unknown to us."""
        return self.placing is not None and not self._holding

    @property
    def site(self) -> str:
        return self._place.site if self._place else ""

    @property
    def informants(self) -> list[str]:
        """Returns who sends us links to our pages from remote sites."""
        if self._place is None:
            return []
        return self.remote_sites or [self._place.home]

    @property
    def remote_sites(self) -> list[str]:
        """Returns the remote sites that this agent speaks with."""
        if self._place is None or self._place.home != self._agent:
            return []
        return self._place.others

    def _sites(self, keys: Keys) -> I64:
        assert self._place is not None
        return self._place.sites.of_keys(host_of_key(keys))
