"""This module caps new pages per host and per registrable domain: that contains traps and wildcard names."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from gossamer.arrays import I64, U8, U32, AnyKeys, Bools, Indices
from gossamer.config import Limits
from gossamer.config.host_overrides import of_host
from gossamer.frontier.candidates import place_in_group
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.namesakes import Namesakes
from gossamer.frontier.pages import host_of_key
from gossamer.frontier.sorted_runs import search
from gossamer.frontier.wildcard_traps import WildcardTraps
from gossamer.web.url import domain_of, host_key, host_of

PAGES_PER_HOST, PAGES_PER_DOMAIN, HOSTS_PER_DOMAIN = 1, 2, 3  # limits that are in a page's way
PAGES_PER_WEBSITE = 6  # a website's own limit
NOBODY = 255  # as a generation: nobody vouches for this host


class Homes(Struct, frozen=True):
    """`Homes` are the hosts and domains of new pages."""

    hosts: AnyKeys  # sorted, unique
    of_page: Indices  # for each page, which of them
    is_new: Bools
    known: U32
    domains: AnyKeys


def homes(index: Hosts, keys: AnyKeys, urls: Sequence[str]) -> Homes:
    """Returns the homes of pages. Names are parsed only for new hosts: the others' domains are in their rows."""
    hosts, first, of_page = np.unique(host_of_key(keys), return_index=True, return_inverse=True)
    found, rows = index.look_up(hosts)
    domains = rows["domain"].copy()
    for place in np.flatnonzero(~found).tolist():
        domains[place] = domain_key(domain_of(host_of(urls[first[place]])))
    return Homes(hosts, of_page, ~found, rows["known"], domains)


def domain_key(domain: str) -> int:
    return int(xxh3_64_intdigest(domain.encode()) & 0xFFFFFFFF)


def domain_text(host: str, key: int) -> str:
    """Returns the host's registrable domain, given its key: trying its endings is ten times faster than finding it."""
    place = host.rfind(".")
    while place > 0:
        place = host.rfind(".", 0, place)
        if domain_key(host[place + 1 :]) == key:
            return host[place + 1 :]
    return domain_of(host)  # another name with the same 24 bits was here first


def most_pages(
    homes: Homes, urls: Sequence[str], limits: Limits, own: Mapping[str, int], quotas: "Quotas | None" = None
) -> I64:
    """Returns for each host how many pages may be known. `own` has those of hosts with a rule of their own; 0: any
    number. A quota takes the place of what holds for all."""
    most = np.full(len(homes.hosts), limits.pages_per_host, np.int64)
    if quotas is not None:
        most[homes.of_page[quotas.of_page >= 0]] = 0
    if own:
        _, first = np.unique(homes.of_page, return_index=True)
        for place, page in enumerate(first.tolist()):
            found = of_host(own, host_of(urls[page]))
            if found is not None:
                most[place] = found
    most[most == 0] = np.iinfo(np.int64).max
    return most


class Quota(NamedTuple):
    """`Quota` is how many pages of a website may be known, all its hosts together; 0: any number."""

    most: int
    hosts: tuple[str, ...] = ()
    domain: str = ""

    def room(self, index: Hosts, wanted: int, namesakes: Namesakes) -> int:
        """Returns how many more pages may become known; if that is less than are wanted, by the names of hosts."""
        if not self.most:
            return int(np.iinfo(np.int64).max)
        if self.domain:
            return self.most - int(index.domain_counts(np.array([domain_key(self.domain)], np.uint64))[0].sum())
        keys = {host: host_key(host) for host in self.hosts}
        known = int(index.look_up(np.unique(np.array([*keys.values()], np.uint64)))[1]["known"].sum())
        if known + wanted > self.most:
            known = sum(namesakes.known(key)[host] for host, key in keys.items())
        return self.most - known


class Quotas(NamedTuple):
    """`Quotas` has the websites among new pages that have a quota."""

    of_page: I64  # for each page, which of them; -1: none
    room: I64

    @classmethod
    def find(
        cls, index: Hosts, urls: Sequence[str], of: Callable[[str], Quota | None], namesakes: Namesakes
    ) -> "Quotas":
        names, found = [host_of(url) for url in urls], dict[Quota, int]()
        number = {
            name: found.setdefault(quota, len(found)) if (quota := of(name)) else -1 for name in dict.fromkeys(names)
        }
        of_page = np.array([number[name] for name in names], np.int64)
        wanted = np.bincount(of_page[of_page >= 0], minlength=len(found)).tolist()
        rooms = [quota.room(index, pages, namesakes) for quota, pages in zip(found, wanted, strict=True)]
        return cls(of_page, np.array(rooms, np.int64))


def generations(
    index: Hosts, traps: WildcardTraps, homes: Homes, targets: AnyKeys, referrers: AnyKeys, is_redirect: Bools
) -> U8:
    """Returns the generation that each host would be of, by all links that lead to pages of it; NOBODY vouches for one
    that only barren hosts of its own domain lead to. What a host redirects to takes its place."""
    found = np.full(len(homes.hosts), NOBODY, np.uint8)
    here, at = search(homes.hosts[homes.is_new], host_of_key(targets))
    at = np.flatnonzero(homes.is_new)[at[here]]
    leads, which = np.unique(host_of_key(referrers[here]), return_inverse=True)
    known, rows = index.look_up(leads)
    generation, is_barren = traps.standing(leads)
    is_kin = (referrers[here] != 0) & known[which] & (rows["domain"][which] == homes.domains[at])
    next_one = np.minimum(generation[which].astype(np.int64) + ~is_redirect[here], NOBODY - 1)
    offered = np.where(is_kin, np.where(is_barren[which], NOBODY, next_one), 0).astype(np.uint8)
    np.minimum.at(found, at, offered)
    return found


class Names(NamedTuple):
    """`Names` tells hosts with the same key apart. They have one row, and one count: whether it is a host's own is only
    asked where a limit is reached."""

    of_page: Callable[[int], str]  # the name of a page's host
    namesakes: Namesakes

    def is_too_much(self, homes: Homes, order: Indices, most: I64) -> Bools:
        """Returns for which pages, in this order, their host has no room; each takes room from the next."""
        host = homes.of_page[order]
        found: Bools = homes.known[host] + place_in_group(host.astype(np.uint64)) >= most[host]
        full = np.flatnonzero(np.isin(host, host[found]))
        full = full[np.argsort(host[full], kind="stable")]
        for here in np.split(full, np.flatnonzero(np.diff(host[full])) + 1) if len(full) else ():
            counts = self.namesakes.known(int(homes.hosts[host[here[0]]])).copy()
            names = [self.of_page(page) for page in order[here].tolist()]
            if len({*counts, *names}) > 1:
                for place, name in zip(here.tolist(), names, strict=True):
                    found[place] = counts[name] >= most[host[place]]
                    counts[name] += not found[place]
        return found

    def is_of_domain(self, homes: Homes, pages: Indices) -> Bools:
        """Returns which pages are of the domain in the row of their host: it is that of the name that came first."""
        names = [self.of_page(page) for page in pages.tolist()]
        domains = {name: domain_key(domain_of(name)) for name in dict.fromkeys(names)}
        found: Bools = homes.domains[homes.of_page[pages]] == np.array([domains[name] for name in names], np.uint64)
        return found


def caps(
    index: Hosts,
    traps: WildcardTraps,
    homes: Homes,
    order: Indices,
    limits: Limits,
    most: I64,
    names: Names,
    generation: U8,
    quotas: Quotas | None = None,
) -> U8:
    """Returns for each page in this order 0 if it enters, or the limit that is in its way; each takes room from the
    next. A website's quota takes the place of the limit of pages per domain."""
    found = np.where(names.is_too_much(homes, order, most), PAGES_PER_HOST, 0).astype(np.uint8)
    host = homes.of_page[order]
    has_quota = np.zeros(len(order), np.bool_) if quotas is None else quotas.of_page[order] >= 0
    domain_pages, domain_hosts = index.domain_counts(homes.domains)
    if limits.hosts_per_domain:
        arrived, first = np.unique(host, return_index=True)
        new = arrived[np.argsort(first)]
        new = new[homes.is_new[new]]
        # What barren hosts take from the others is given back, but they do not get more and more of it.
        used = domain_hosts - np.minimum(traps.barren(homes.domains), limits.hosts_per_domain)
        fits = _fitting(used, homes.domains, new, generation, limits.hosts_per_domain)
        found[~fits[host]] = HOSTS_PER_DOMAIN
    if quotas is not None:
        left = np.flatnonzero((found == 0) & has_quota)
        which = quotas.of_page[order[left]]
        found[left[place_in_group(which.astype(np.uint64)) >= quotas.room[which]]] = PAGES_PER_WEBSITE
    if limits.pages_per_domain:
        left = np.flatnonzero((found == 0) & ~has_quota)
        used = domain_pages[host[left]] + place_in_group(homes.domains[host[left]])
        over = left[used >= limits.pages_per_domain]
        found[over[names.is_of_domain(homes, order[over])]] = PAGES_PER_DOMAIN
    return found


def _fitting(used: I64, domains: AnyKeys, new: Indices, generation: U8, most: int) -> Bools:
    """Returns which hosts may enter. Half of a domain's room is for hosts that were found from outside, or on a host
    that was: those that lead from one to the next have the other half to themselves, and the first come first there."""
    fits = np.ones(len(domains), np.bool_)
    fits[new] = False
    near, far = new[generation[new] <= 1], new[(generation[new] > 1) & (generation[new] != NOBODY)]
    fits[near] = used[near] + place_in_group(domains[near]) < most
    entered, counts = np.unique(domains[near[fits[near]]], return_counts=True)
    found, at = search(entered, domains)
    used = used.copy()
    used[found] += counts[at[found]]
    fits[far] = used[far] + place_in_group(domains[far]) < -(-most // 2)
    return fits
