"""`Transfer` changes owners by one protocol: of zones between the agents of a site, and of hosts between sites.

The old owner forgets what it gives away in the commit that holds the message with all that it knew; the new owner takes
it in with the commit that confirms the message. Between the two it belongs to nobody, and links for it wait: messages
of a stream do not overtake each other. The first part of a message is a header, the others are tables.

Zones go to their new owner. Hosts go through the agents that speak for their sites; whoever gets links for hosts that
have moved on sends them on, and they arrive behind the hosts.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gossamer.archive.chain import Chain, snapshots
from gossamer.archive.manifest import HOSTS, NEWS, ZONES, Changes, Message
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges, named
from gossamer.arrays import I64, AnyKeys, Bools, HostKeys, Rows
from gossamer.columns import HOST, REQUISITE
from gossamer.config import CROSS_OVER
from gossamer.crawl.inbox import high_water
from gossamer.crawl.opening import Books
from gossamer.frontier.pages import host_of_key, is_in, zone_of_host
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing import estate, placing
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import Exchange
from gossamer.sharing.incoming import numbered_parts
from gossamer.sharing.owners import SiteView
from gossamer.web.url import host_key

PAGES_AT_ONCE = 200_000  # of what leaves together: both sides hold the rows in memory
HOSTS_AT_ONCE = 4_000  # few enough for one header to name them all; or zones
FILES = "handover"  # the kind of files in which zones went until version 2 of the protocol

Header = dict[str, Any]
Parts = list[Message]  # of one message, with the same number


def arrivals(exchange: Exchange, chain: Chain, owners: Sequence[str], place: SiteView | None) -> list[Parts]:
    """Returns transfers that are next in their streams."""
    found: dict[str, Parts] = {}
    for message in exchange.pending(chain.agent, chain.marks):
        parts = found.setdefault(message.stream, [])
        if not parts or parts[0].number == message.number:
            parts.append(message)
    return [
        parts
        for parts in found.values()
        if parts[0].kind == ZONES or (parts[0].kind == HOSTS and place and _may_take(parts[0], chain, place, owners))
    ]


def _may_take(first: Message, chain: Chain, place: SiteView, owners: Sequence[str]) -> bool:
    """Returns whether we may take it: no later list of sites gives it to us, nor are its zones on their way to us."""
    header = json.loads(first.data)
    is_ours = header["site"] == place.site
    own = {*chain.zones}
    waits = any(owners[zone] == chain.agent and zone not in own for zone in named(header["zones"]))
    return header["version"] <= place.version and not (is_ours and waits)


def leaving(zones: Iterable[int], owners: Sequence[str], name: str) -> dict[str, list[int]]:
    """Returns the zones that shall have another owner, by that owner."""
    found: dict[str, list[int]] = {}
    for zone in zones:
        if owners[zone] not in ("", name):
            found.setdefault(owners[zone], []).append(zone)
    return found


def has_late_hosts(books: Books, place: SiteView | None) -> bool:
    """Returns whether our site has hosts, though it takes none any more: whoever decided did not know it yet."""
    is_retired = place and place.placing and place.members and not place.members.weights[place.site]
    return bool(is_retired and len(books.index.hosts) and books.config.site.mode != CROSS_OVER)


def unowned(store: Store) -> list[int]:
    """Returns the zones that no agent has or is about to get."""
    owned: set[int] = set()
    for at in snapshots(store).values():
        owned.update(at.zones)
        headers = [name for name, _, message in at.outbox if message.kind == ZONES and message.part == 0]
        owned.update(zone for name in headers for zone in named(json.loads(store.get(name))["zones"]))
    return [zone for zone in range(ZONES_IN_ALL) if zone not in owned]


def is_settled(store: Store, version: int) -> bool:
    """Returns whether all agents of the site have given away what is not its own, and that has gone through the agent
    that speaks for it."""
    everyone = snapshots(store)
    for at in everyone.values():
        carried_out = at.state.members.version if at.state.members else 1
        if at.zones and (carried_out < version or at.state.settling):
            return False
        for _, _, message in at.outbox:
            to = everyone.get(message.to)
            if message.kind in (ZONES, HOSTS) and to and to.marks.get(message.stream, 0) < message.number:
                return False
    return True


@dataclass
class Transfer:
    """`Transfer` gives and takes for one agent before it begins, while nothing is fetched. Each step is a commit."""

    books: Books
    exchange: Exchange
    orders: Orders
    place: SiteView | None
    now_s: float

    def settle(self) -> None:
        """Takes in what has come and hands over what shall go."""
        while found := arrivals(self.exchange, self.books.chain, self.orders.owners, self.place):
            for received in found:
                self.take(received)
        self.give_zones()
        self.give_hosts()
        if self.place is not None and self.place.placing is not None:
            self.place.placing.settled(self.books.index.hosts.rows["host"])
        self._forget_delivered()

    # The old owner

    def give_zones(self) -> None:
        """Gives zones to their new owners, in one message to each, or more if there is much."""
        books, chain = self.books, self.books.chain
        shall_leave = leaving(chain.zones, self.orders.owners, chain.agent)
        known = estate.known_hosts(books) if shall_leave else np.zeros(0, np.uint32)
        for to, zones in shall_leave.items():
            rows = books.index.hosts.rows
            pages = np.bincount(zone_of_host(rows["host"]), rows["known"], minlength=ZONES_IN_ALL)[zones]
            for group in (zones[part] for part in _groups(pages.tolist())):
                header = {"zones": as_ranges(group), "quiet_until_s": chain.state.quiet_until_s}
                # We found what is neither ours nor theirs when we crossed over, and keep it.
                leaves = _in(group)
                hosts = books.index.hosts.rows[leaves(books.index.hosts.rows["host"])]
                parts = estate.gather(books, known[leaves(known)], hosts)
                parts.append(estate.cookies(books, hosts))
                mine = sorted({*chain.zones} - {*group})
                self._give(ZONES, to, header, parts, leaves, Changes(), mine)

    def give_hosts(self) -> None:
        """Gives hosts to the sites that own them by now, in one message to each, or more if there is much."""
        books, place = self.books, self.place
        if place is None or books.config.site.mode == CROSS_OVER:  # we found ourselves what belongs to others
            return
        hosts = books.index.hosts.rows
        sites = place.shall_be_at(hosts["host"])
        if place.placing is not None:
            _heed(sites, hosts["host"], place, books.chain.state.moves)
        for number in np.unique(sites).tolist():
            to = place.sites.sites[number]
            rows = hosts[sites == number]
            for group in (rows[part] for part in _groups(rows["known"].tolist()) if to != place.site):
                self._give_hosts(place, to, group.copy())

    def _give_hosts(self, place: SiteView, to: str, hosts: Rows) -> None:
        books, keys = self.books, hosts["host"].astype(np.uint32)
        parts = estate.gather(books, keys, hosts)
        entries, changes = np.zeros(0, ENTRY), Changes()
        if place.placing is not None:
            entries = place.placing.give(keys, to)
            changes = placing.write(books.store, books.chain.label, entries)
        header = {"site": to, "version": place.version, "hosts": placing.packed(entries)}
        to = place.towards(books.chain.agent, to)
        self._give(HOSTS, to, header, parts, lambda hosts: np.isin(hosts, keys), changes)

    def _give(
        self,
        kind: str,
        to: str,
        header: Header,
        parts: Sequence[estate.Part],
        leaves: Callable[[AnyKeys], Bools],
        changes: Changes,
        zones: Collection[int] | None = None,
    ) -> None:
        pages = int((parts[0].rows["hops"] < REQUISITE).sum())
        changes |= estate.forget(self.books, pages, lambda hosts: ~leaves(hosts))
        self._commit(changes, self._message(kind, to, header, parts), zones=zones)

    # The new owner

    def take(self, received: Parts) -> None:
        """Takes a transfer in, or sends it on, in one commit."""
        header = json.loads(received[0].data)
        if received[0].kind == ZONES:
            changes = estate.take_in(self.books, self._parts(received, header))
            mine = {*self.books.chain.zones, *named(header["zones"])}
            self._commit(changes, [], received, header["quiet_until_s"], mine)
        elif self.place is not None:
            self._take_hosts(self.place, received, header)

    def _take_hosts(self, place: SiteView, received: Parts, header: Header) -> None:
        """Takes in the hosts in our zones, and sends the rest on. The agent that speaks for our site reports to the
        remote sites that the hosts are here: links that they send will be behind the hosts. The agent that takes hosts
        in reports it to the other agents here: until then the hosts have no owner."""
        books, chain, owners = self.books, self.books.chain, self.orders.owners
        changes = Changes()
        if place.placing is not None:  # so that we know where to send links that come behind them
            entries = placing.unpacked(header["hosts"])
            place.placing.record(entries)
            changes = placing.write(books.store, chain.label, entries)
        # The old owner may have contacted the hosts just before: `now_s` is quiet time.
        if header["site"] != place.site:
            to = place.towards(chain.agent, header["site"])
            passed = [chain.message(to, message.data, HOSTS) for message in received]
            self._commit(changes, passed, received, self.now_s)
            return
        parts = self._parts(received, header)
        passed = self._announced(place, header["hosts"], place.others if chain.agent == place.home else [])
        # A zone that we are to give away takes its hosts along.
        mine = {*chain.zones}
        owner = {zone: chain.agent if zone in mine else owners[zone] for zone in _zones_of(parts)}
        zones = {name: [zone for zone in owner if owner[zone] == name] for name in {chain.agent, *owner.values()}}
        own = zones.pop(chain.agent)
        for name in sorted(zones):
            # The same message names the hosts that are ours from now on: a number that has hosts has nothing else.
            own_header = _header_in_zones(header, [*zones[name], *own])
            passed += self._message(HOSTS, name, own_header, [_in_zones(part, zones[name]) for part in parts])
        if own:
            changes |= estate.take_in(books, [_in_zones(part, own) for part in parts])
            hosts = _header_in_zones(header, own)["hosts"]
            passed += self._announced(place, hosts, sorted(self.orders.others.keys() - zones.keys()))
        self._commit(changes, passed, received, self.now_s)

    def _announced(self, place: SiteView, hosts: str, names: Iterable[str]) -> Parts:
        if place.placing is None:
            return []
        news = json.dumps(place.placing.news(placing.unpacked(hosts))).encode()
        return [self.books.chain.message(name, news, NEWS) for name in names]

    # Messages and commits

    def _message(self, kind: str, to: str, header: Header, parts: Sequence[estate.Part]) -> Parts:
        pages = [part.rows for part in parts if part.table == "page"]
        figures = {"pages": sum(map(len, pages)), "cash": sum(int(rows["cash"].sum()) for rows in pages)}
        zones = header["zones"] if kind == ZONES else as_ranges(_zones_of(parts))
        first = json.dumps({**header, **figures, "zones": zones}).encode()
        data = [first, *(piece for part in parts for piece in estate.encoded(part))]
        return [self.books.chain.message(to, each, kind) for each in data]

    def _commit(
        self,
        changes: Changes,
        outbox: Parts,
        applied: Parts | None = None,
        quiet_s: float = 0.0,
        zones: Collection[int] | None = None,
    ) -> None:
        books, chain, marks = self.books, self.books.chain, high_water(applied or ())
        quiet_s = max(chain.state.quiet_until_s, quiet_s)
        # The list of sites by which hosts came or went must be on record with them.
        state = estate.state_of(books, quiet_s, self.now_s)
        if self.place is not None and self.place.members and zones is None:
            state = replace(state, members=self.place.members)
        chain.commit(
            changes,
            state=state,
            marks=marks,
            outbox=numbered_parts(outbox),
            exchange=self.exchange,
            applied=list(marks.items()),
            now_s=self.now_s,
            zones=zones,
        )
        books.index.release(changes)

    def _parts(self, received: Parts, header: Header) -> list[estate.Part]:
        """Returns the tables of a transfer. Until version 2 of the protocol zones came in files; in version 1 resting
        hosts were in the header."""
        parts = [estate.decoded(message.data) for message in received[1:]]
        for name, table in zip(header.pop("files", ()), estate.DTYPES, strict=False):
            with pa.OSFile(str(self.books.store.local(name)), "rb") as file, pa.ipc.open_stream(file) as reader:
                parts += [estate.from_arrow(table, batch) for batch in reader]
        if rests := header.pop("resting", {}):
            parts.append(estate.rests(rests))
        return parts

    def _forget_delivered(self) -> None:
        """Deletes what was delivered: the messages, and the files of earlier versions."""
        chain, exchange = self.books.chain, self.exchange
        sent = [message for _, _, message in chain.snapshot.outbox if message.kind in (ZONES, HOSTS)]
        waiting = {f"{b.sender}-{b.number:08d}" for b in sent if b.number > exchange.confirmed(b.stream)}
        files = [name for name in chain.files.get(FILES, []) if name.split("/")[1].rsplit("-", 1)[0] not in waiting]
        if files or any(f"{message.sender}-{message.number:08d}" not in waiting for message in sent):
            changes = Changes({}, {FILES: files})
            chain.commit(changes, marks={}, outbox=[], exchange=exchange, applied=[], now_s=self.now_s)


def _groups(pages: Sequence[float]) -> Iterator[slice]:
    """Groups zones or hosts, with so many pages each, that may go together."""
    start, total = 0, 0.0
    for place, count in enumerate(pages):
        if place > start and (total + count > PAGES_AT_ONCE or place - start >= HOSTS_AT_ONCE):
            yield slice(start, place)
            start, total = place, 0.0
        total += count
    if len(pages):
        yield slice(start, len(pages))


def _heed(sites: I64, hosts: HostKeys, place: SiteView, moves: Mapping[str, str]) -> None:
    """Applies what a rebalance asks for. Moves to sites that take no hosts, or that nobody knows, are ignored."""
    names = list(place.sites.sites)
    weights = place.members.weights if place.members else {}
    for host, site in moves.items():
        if weights.get(site):
            sites[hosts == host_key(host)] = names.index(site)


def _in(zones: Collection[int]) -> Callable[[AnyKeys], Bools]:
    leaves = is_in(zones)
    return lambda hosts: leaves[zone_of_host(hosts)]


def _zones_of(parts: Iterable[estate.Part]) -> list[int]:
    """Returns the zones of the hosts of a transfer."""
    hosts = [part.rows["host"] for part in parts if part.table == HOST.name]
    zones: list[int] = np.unique(zone_of_host(np.concatenate([np.zeros(0, np.uint32), *hosts]))).tolist()
    return zones


def _in_zones(part: estate.Part, zones: list[int]) -> estate.Part:
    hosts = part.rows["host"] if "host" in (part.rows.dtype.names or ()) else host_of_key(part.rows["key"])
    here = np.flatnonzero(_in(zones)(hosts))
    return estate.Part(part.table, part.rows[here], [part.texts[row] for row in here.tolist()])


def _header_in_zones(header: Header, zones: list[int]) -> Header:
    entries = placing.unpacked(header["hosts"])
    return {**header, "hosts": placing.packed(entries[_in(zones)(entries["host"])])}
