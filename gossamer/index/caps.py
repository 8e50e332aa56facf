"""Which new pages may enter: caps per host and per registrable domain contain traps and wildcard names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from gossamer.config import Limits
from gossamer.index.candidates import turn
from gossamer.index.hosts import Hosts
from gossamer.index.merging import Keys, Positions
from gossamer.index.pages import host_of_key
from gossamer.own_rules import of_host
from gossamer.web.url import domain_of, host_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Homes:
    """The hosts and domains of new pages."""

    hosts: Keys  # sorted, unique
    of_page: Positions  # for each page, which of them
    is_new: Mask
    known: npt.NDArray[np.uint32]
    domains: Keys


def homes(index: Hosts, keys: Keys, urls: Sequence[str]) -> Homes:
    """Names are only looked at for hosts that are not known: the others' domains are in their rows."""
    hosts, first, of_page = np.unique(host_of_key(keys), return_index=True, return_inverse=True)
    found, rows = index.look_up(hosts)
    domains = rows["domain"].copy()
    for place in np.flatnonzero(~found).tolist():
        domains[place] = domain_key(domain_of(host_of(urls[first[place]])))
    return Homes(hosts, of_page, ~found, rows["known"], domains)


def domain_key(domain: str) -> int:
    return int(xxh3_64_intdigest(domain.encode()) & 0xFFFFFFFF)


def domain_text(host: str, key: int) -> str:
    """The host's registrable domain, given its key: trying its endings is ten times faster than finding it."""
    place = host.rfind(".")
    while place > 0:
        place = host.rfind(".", 0, place)
        if domain_key(host[place + 1 :]) == key:
            return host[place + 1 :]
    return domain_of(host)  # another name with the same 24 bits was here first


def most_pages(homes: Homes, urls: Sequence[str], limits: Limits, own: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """For each host how many pages may be known. `own` has those of hosts with a rule of their own; 0: any number."""
    most = np.full(len(homes.hosts), limits.pages_per_host, np.int64)
    if own:
        _, first = np.unique(homes.of_page, return_index=True)
        for place, page in enumerate(first.tolist()):
            found = of_host(own, host_of(urls[page]))
            if found is not None:
                most[place] = found
    most[most == 0] = np.iinfo(np.int64).max
    return most


def admitted(index: Hosts, homes: Homes, order: Positions, limits: Limits, most: npt.NDArray[np.int64]) -> Mask:
    """Of the pages in this order, which enter if each takes what room is left? One answer per place in it."""
    allowed = np.ones(len(order), np.bool_)
    host = homes.of_page[order]
    domain_pages, domain_hosts = index.domain_counts(homes.domains)
    allowed &= homes.known[host] + turn(host.astype(np.uint64)) < most[host]
    if limits.hosts_per_domain:
        arrived, first = np.unique(host, return_index=True)
        new = arrived[np.argsort(first)]
        new = new[homes.is_new[new]]
        fits = np.ones(len(homes.hosts), np.bool_)
        fits[new] = domain_hosts[new] + turn(homes.domains[new]) < limits.hosts_per_domain
        allowed &= fits[host]
    if limits.pages_per_domain:
        left = np.flatnonzero(allowed)
        used = domain_pages[host[left]] + turn(homes.domains[host[left]])
        allowed[left] = used < limits.pages_per_domain
    return allowed
