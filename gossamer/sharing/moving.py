"""Hosts change hands between sites: all that is known of them travels in letters, through the agents that speak for
their sites.

The old owner forgets the hosts in the commit that holds the letter; the new one takes them in with the commit that
confirms it. Between the two they belong to nobody. Whoever gets links for hosts that have moved on sends them on, and
they arrive behind the hosts: letters do not overtake each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import Batch, Changes
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.arrays import I64, HostKeys, Rows
from gossamer.config import CROSS_OVER
from gossamer.crawl.commit import Books
from gossamer.crawl.control import Orders
from gossamer.frontier.pages import HOST_SHIFT, host_of_key, zone_of_host
from gossamer.sharing import estate, placing
from gossamer.sharing.exchange import HOSTS, NEWS, ZONES, Exchange, high_water
from gossamer.sharing.incoming import numbered_parts
from gossamer.sharing.owners import Place
from gossamer.web.url import host_key

PAGES_AT_ONCE = 200_000  # of hosts that leave together: both sides hold their rows in memory
HOSTS_AT_ONCE = 4_000
_LAST = np.uint64((1 << int(HOST_SHIFT)) - 1)

Header = dict[str, Any]


def release_hosts(books: Books, exchange: Exchange, place: Place, now_s: float) -> None:
    """Give away what is another site's by now. A commit for each site, or more if there is much."""
    if books.config.site.mode == CROSS_OVER:  # what is others' we found ourselves
        return
    hosts = books.index.hosts.rows
    sites = place.shall_be_at(hosts["host"])
    if place.placing is not None:
        _heed(sites, hosts["host"], place, books.chain.state.moves)
    for number in np.unique(sites).tolist():
        to = place.sites.sites[number]
        if to != place.site:
            for group in _groups(hosts[sites == number]):
                _release(books, exchange, place, to, group, now_s)


def _heed(sites: I64, hosts: HostKeys, place: Place, moves: Mapping[str, str]) -> None:
    """What a rebalance asks for; of sites that take no hosts, or that nobody knows, nothing is heard."""
    names = list(place.sites.sites)
    weights = place.members.weights if place.members else {}
    for host, site in moves.items():
        if weights.get(site):
            sites[hosts == host_key(host)] = names.index(site)


def _groups(hosts: Rows) -> Iterator[Rows]:
    """Hosts that may go together: few enough also for one message to name them all."""
    filled = np.cumsum(hosts["known"], dtype=np.int64) // PAGES_AT_ONCE + np.arange(len(hosts)) // HOSTS_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), len(hosts)]
    yield from (hosts[a:b] for a, b in pairwise(cuts) if a < b)


def _release(books: Books, exchange: Exchange, place: Place, to: str, hosts: Rows, now_s: float) -> None:
    chain, leaving = books.chain, hosts["host"].astype(np.uint32)
    first = leaving.astype(np.uint64) << HOST_SHIFT
    parts = estate.gather(books, first, first | _LAST, hosts.copy())
    pages = parts[0].rows
    changes = estate.forget(books, len(pages), lambda keys: ~np.isin(keys, leaving))
    entries = ""
    if place.placing is not None:
        entries = placing.packed(place.placing.give(leaving, to))
        changes |= placing.write(books.store, chain.label, [entries])
    header = {"site": to, "version": place.version, "hosts": entries}
    letters = _letters(chain, place.towards(chain.agent, to), header, parts)
    _commit(books, exchange, place, changes, letters, now_s)


def take_hosts(
    books: Books, exchange: Exchange, place: Place, orders: Orders, letter: list[Batch], now_s: float
) -> None:
    """All parts of a letter with hosts: what is in our zones we take in, the rest we send on; in one commit. That they
    are at our site from now on, other sites hear from whoever speaks for it: links that they send will be behind the
    hosts. The other agents here hear it from the one who takes them in: until then they are nobody's."""
    chain, header, owners = books.chain, header_of(letter[0]), orders.owners
    changes = Changes()
    if place.placing is not None:  # so that we know where to send links that come behind them
        place.placing.record(placing.unpacked(header["hosts"]))
        changes = placing.write(books.store, chain.label, [header["hosts"]])
    if header["site"] != place.site:
        to = place.towards(chain.agent, header["site"])
        passed = [chain.letter(to, batch.data, HOSTS) for batch in letter]
        _commit(books, exchange, place, changes, passed, now_s, letter)
        return
    parts = [estate.decoded(batch.data) for batch in letter[1:]]
    if rests := header.pop("resting", {}):  # in version 1 of the protocol they were in the header
        parts.append(estate.rests(rests))
    passed = _announced(chain, place, header["hosts"], place.others if chain.agent == place.home else [])
    # A zone that we are to give away takes its hosts along.
    owner = {zone: chain.agent if zone in chain.zones else owners[zone] for zone in header["zones"]}
    zones = {name: [zone for zone in header["zones"] if owner[zone] == name] for name in {chain.agent, *owner.values()}}
    own = zones.pop(chain.agent)
    for name in sorted(zones):
        # Which hosts are ours from now on it hears in the same letter: hosts and news in one would lose one of them.
        said = _header_in_zones(header, [*zones[name], *own])
        passed += _letters(chain, name, said, [_in_zones(part, zones[name]) for part in parts])
    if own:
        changes |= estate.take_in(books, [_in_zones(part, own) for part in parts])
        hosts = _header_in_zones(header, own)["hosts"]
        passed += _announced(chain, place, hosts, sorted(orders.others.keys() - zones.keys()))
    _commit(books, exchange, place, changes, passed, now_s, letter)


def _announced(chain: Chain, place: Place, hosts: str, names: Iterable[str]) -> list[Batch]:
    if place.placing is None:
        return []
    news = json.dumps(place.placing.news(placing.unpacked(hosts))).encode()
    return [chain.letter(name, news, NEWS) for name in names]


def may_take(letter: Batch, chain: Chain, place: Place, owners: Sequence[str]) -> bool:
    """Not what a later version of the list of sites gives us; and not what is in a zone that is on its way to us."""
    header = header_of(letter)
    is_ours = header["site"] == place.site
    waits = any(owners[zone] == chain.agent and zone not in chain.zones for zone in header["zones"])
    return header["version"] <= place.version and not (is_ours and waits)


def is_settled(store: Store, version: int) -> bool:
    """Whether all agents of the site have given away what is not its own, and that has gone through the one who speaks
    for it."""
    everyone = snapshots(store)
    for at in everyone.values():
        carried_out = at.state.members.version if at.state.members else 1
        if at.zones and (carried_out < version or at.state.settling):
            return False
        for _, _, batch in at.outbox:
            to = everyone.get(batch.to)
            if batch.kind in (ZONES, HOSTS) and to and to.marks.get(batch.stream, 0) < batch.number:
                return False
    return True


def header_of(letter: Batch) -> Header:
    return dict(json.loads(letter.data))


def _commit(
    books: Books,
    exchange: Exchange,
    place: Place,
    changes: Changes,
    letters: list[Batch],
    now_s: float,
    applied: Iterable[Batch] = (),
) -> None:
    chain, marks = books.chain, high_water(applied)
    # Whoever had the hosts until now may have contacted them just before.
    quiet_s = max(chain.state.quiet_until_s, now_s if marks else 0.0)
    state = estate.state_of(books, quiet_s, now_s)
    chain.commit(
        changes,
        # By which list of sites hosts came or went must be on record with them.
        state=replace(state, members=place.members) if place.members else state,
        marks=marks,
        outbox=numbered_parts(letters),
        exchange=exchange,
        applied=list(marks.items()),
        now_s=now_s,
    )
    books.index.release(changes)


# Letters: a header, then the tables in parts


def _letters(chain: Chain, to: str, header: Header, parts: Sequence[estate.Part]) -> list[Batch]:
    pages = [part.rows for part in parts if part.table == "page"]
    hosts = np.concatenate([np.zeros(0, np.uint32), *(part.rows["host"] for part in parts if part.table == "host")])
    figures = {"pages": sum(map(len, pages)), "cash": sum(int(rows["cash"].sum()) for rows in pages)}
    header = {**header, **figures, "zones": np.unique(zone_of_host(hosts)).tolist()}
    data = [json.dumps(header).encode(), *(piece for part in parts for piece in estate.encoded(part))]
    return [chain.letter(to, each, HOSTS) for each in data]


def _in_zones(part: estate.Part, zones: list[int]) -> estate.Part:
    hosts = part.rows["host"] if "host" in (part.rows.dtype.names or ()) else host_of_key(part.rows["key"])
    here = np.flatnonzero(np.isin(zone_of_host(hosts), zones))
    return estate.Part(part.table, part.rows[here], [part.texts[row] for row in here.tolist()])


def _header_in_zones(header: Header, zones: list[int]) -> Header:
    entries = placing.unpacked(header["hosts"])
    return {**header, "hosts": placing.packed(entries[np.isin(zone_of_host(entries["host"]), zones)])}
