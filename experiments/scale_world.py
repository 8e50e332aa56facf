"""`World` has many agents of many sites in virtual time: the real ownership, messages, membership and commits, of a web
that is nothing but counts.

Real are `Sharing` with all that it uses, `Chain`, `Ledger`, `Transfer`, the tables of hosts, and the encoding of every
message; what arrives where, and when, a heap of events decides. Nothing is fetched, and no page is kept: an agent's
pages are a number, and a round is drawn from the links that hosts have.
"""

import heapq
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import inf
from pathlib import Path

import numpy as np

from gossamer.archive.bundle import messages_of, unbundled
from gossamer.archive.chain import Chain
from gossamer.archive.digests import DigestCache
from gossamer.archive.manifest import BUNDLE, HELD, LINKS, NEWS, REMOTE_LINKS, Changes, Message, file_name, site_of
from gossamer.archive.state import Counters, replace
from gossamer.archive.store import Memory
from gossamer.archive.zones import shares
from gossamer.arrays import F64, I64, U32, U64
from gossamer.clocks import VirtualClock
from gossamer.cluster.federation_file import Site, home_of
from gossamer.cluster.neighbours import place
from gossamer.cluster.plan import shared_out
from gossamer.cluster.protocol import Federated, Heartbeat, encode
from gossamer.cluster.site_list import Members, is_holding
from gossamer.columns import Contributions
from gossamer.config import Config
from gossamer.crawl.commit import Closed
from gossamer.crawl.inbox import decode, high_water
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books, Known
from gossamer.crawl.round import Round
from gossamer.crawl.stats import Report, Stats
from gossamer.event_log import EventLog
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, host_of_key, zone_of_host
from gossamer.frontier.strategies import strategy
from gossamer.frontier.targets import added_up
from gossamer.placement.hostmap import ENTRY
from gossamer.sharing import compact, placing
from gossamer.sharing.control import Orders
from gossamer.sharing.envelope import sealed, subject_of
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.owners import SiteView
from gossamer.sharing.peers import Sharing
from gossamer.web.url import page_keys

ORDER = strategy("opic-virtual")
CASH_OF_A_PAGE = 1 << 20
_IN_A_SITE_S, _BETWEEN_SITES_S = 0.001, 0.04
_HEADER = 4  # bytes of a NATS header besides its name and value,
_HEADERS = 12  # and of all of them
_UNKNOWN = 0.02  # of the hosts of a web with a host map: nobody has decided about them yet


@dataclass(frozen=True)
class Shape:
    """`Shape` is what is simulated."""

    sites: int = 1
    agents: int = 2  # of each site
    hosts: int = 1_000_000
    links: int = 1_000_000_000  # between hosts, as counts
    visits: int = 400  # pages of a round
    onward: int = 6  # links to other hosts, of each page
    round_s: float = 30.0
    is_full: bool = False  # rounds end because they are full, not because their time is over
    partitioner: str = "ring"
    seed: int = 0


class Web:
    """`Web` is hosts, how many links lead to each, and how many pages each has: few have most."""

    def __init__(self, shape: Shape) -> None:
        share = 1 / np.arange(10, shape.hosts + 10) ** 0.9
        self.links: I64 = np.maximum(1, share / share.sum() * shape.links).astype(np.int64)
        self.pages: I64 = np.maximum(1, self.links // 10)
        self.keys: U32 = host_of_key(page_keys([_url(host, 0) for host in range(shape.hosts)]))
        self._until = np.cumsum(self.links)

    def draw(self, number: int, rng: np.random.Generator) -> Contributions:
        """Returns the links of a round, without cash."""
        hosts = np.searchsorted(self._until, rng.integers(0, self._until[-1], number), "right")
        pages = (self.pages[hosts] * rng.random(number) ** 2).astype(np.int64)
        urls = [_url(host, page) for host, page in zip(hosts.tolist(), pages.tolist(), strict=True)]
        ones = np.ones(number, np.int32)
        depth = np.full(number, 3, np.uint8)
        keys = page_keys(urls)
        zero = np.zeros(number, np.int64)
        return Contributions(keys, zero, ones, depth, 0 * depth, keys, urls)


def _url(host: int, page: int) -> str:
    return f"https://www.h{host}.test/" + (f"articles/{page // 100}/{page}" if page else "")


class Wires:
    """`Wires` is the Exchange of all agents; a message arrives when its time has come. What each takes is counted."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._order = clock, count()
        self._boxes: dict[str, InProcess] = defaultdict(InProcess)
        self._under_way: list[tuple[float, int, Message]] = []
        self._uncounted: list[Message] = []
        self.sent: Counter[str] = Counter()

    def publish(self, message: Message) -> bool:
        self._uncounted.append(message)
        is_far = _is_far(message)
        arrives_s = self._clock.now() + (_BETWEEN_SITES_S if is_far else _IN_A_SITE_S)
        heapq.heappush(self._under_way, (arrives_s, next(self._order), message))
        return True

    def count(self) -> None:
        """Counts what was published since the last call: whoever published it is not charged for the counting."""
        for message in self._uncounted:
            self._count(message)
        self._uncounted = []

    def _count(self, message: Message) -> None:
        where = "between" if _is_far(message) else "within"
        for headers, data in sealed(message):
            size = sum(len(name) + len(value) + _HEADER for name, value in headers.items()) + _HEADERS
            self.sent[f"{where}_bytes"] += size + len(subject_of(message)) + len(data)
            self.sent[f"{where}_messages"] += 1
        if message.kind == NEWS:
            self.sent["news_bytes"] += len(message.data)

    def deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= self._clock.now():
            for message in unbundled(heapq.heappop(self._under_way)[2]):
                self._boxes[message.to].publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        found = self._boxes[to].pending(to, marks)
        site = site_of(to)
        return found + self._boxes[site].pending(site, marks) if site and to == home_of(site) else found

    def acknowledge(self, stream: str, number: int) -> None:
        self.sent["receipts"] += 1
        self._boxes[stream.partition(">")[2]].acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return self._boxes[stream.partition(">")[2]].confirmed(stream)

    def lost(self) -> bool:
        return False


@dataclass
class OneSite:
    """`OneSite` is what the agents of a site share. It gives them orders, as a supervisor does."""

    name: str  # empty: there is only one
    store: Memory
    agents: dict[str, "OneAgent"] = field(default_factory=dict)
    place: Callable[[str], SiteView | None] = lambda _: None
    owners: tuple[str, ...] = ()
    shares: dict[str, str] = field(default_factory=dict)
    version: int = 1
    others_work: bool = False

    @property
    def home(self) -> "OneAgent":
        return next(iter(self.agents.values()))

    @property
    def is_holding(self) -> bool:
        if self.version == 1 or not self.home.has_begun:
            return self.version > 1
        progress, there = self.home.peers.progress(), self.home.place
        return there is not None and (progress.passing or is_holding(self.version, there.others, progress.clean or {}))


class Desk:
    """`Desk` is the `Post` of an agent: orders come from its site, and what a report takes is counted."""

    is_site, lease_until_s = True, inf

    def __init__(self, site: OneSite, name: str, sent: Counter[str]) -> None:
        self._site, self._name, self._sent = site, name, sent

    def report(self, report: Report) -> None:
        self._sent["reports"] += 1
        beat = Heartbeat(incarnation="0" * 30, life=1, pid=1, alive_s=1.0, report=report)
        self._sent["report_bytes"] += len(encode(beat))

    def orders(self) -> Orders:
        site = self._site
        others = {name: agent.known for name, agent in site.agents.items() if name != self._name}
        return Orders(site.shares, others=others, holding=site.is_holding, others_work=site.others_work)


class Drawn(Round):
    """`Drawn` is a round whose links were drawn."""

    found: Contributions = Contributions.none()
    has_width: bool = False

    def is_full(self, _width: int) -> bool:
        return self.has_width

    def followed(self) -> tuple[U64, dict[int, str]]:
        return self.found.key, dict(zip(self.found.key.tolist(), self.found.url, strict=True))


class OneAgent:
    """`OneAgent` is an agent without fetching: `step` is a round. The index has the hosts; `stored` is the cash of all
    pages here together."""

    def __init__(self, world: "World", site: OneSite, name: str) -> None:
        self._world, self._site, self.name = world, site, name
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.stored, self.has_begun, self._is_new = 0, False, True
        self._crossed: Counter[str] = Counter()
        zones = [zone for zone, owner in enumerate(site.owners) if owner == name]
        self.chain = Chain.open(site.store, name, world.wires, zones)
        index = PageIndex.open(site.store, self.chain.files, world.config.index)
        self.books = Books(
            site.store, world.config, self.chain, index, Frontier(index, ORDER, world.config.index), Ledger(), ORDER
        )
        self._desk = Desk(site, name, world.wires.sent)

    def own(self, hosts: U32, pages: I64) -> None:
        """Begins with these hosts (sorted, unique), and with cash for each page."""
        self.books.index.hosts.grow(hosts, hosts, pages, 0 * pages)
        ledger = self.books.ledger
        ledger.known = int(pages.sum())
        ledger.minted = self.stored = ledger.known * CASH_OF_A_PAGE

    def begin(self) -> None:
        """Begins as a process does, with the list of sites as it is now."""
        started_s = time.process_time()
        self.place = self._site.place(self.name)
        self.peers = Sharing(self.books, self._world.wires, self._desk, self._world.log, self.place)
        self._settle()
        self.has_begun = True
        self.cpu_s["begin"] += time.process_time() - started_s

    @property
    def known(self) -> int:
        return int(self.books.index.hosts.rows["known"].sum(dtype=np.int64))

    def step(self, found: Contributions) -> None:
        """Makes a round with these links: each gets its part of some of the cash. What is for others goes out."""
        peers, books = self.peers, self.books
        self._timed("arrive", self._look)
        self._timed("look", self._look)
        if peers.why_over():  # as when zones or hosts have come, or shall go
            self.begin()
            peers = self.peers
        round_ = Drawn(self.chain.round, None, DigestCache(1), Known(books.index))
        round_.has_width = self._world.shape.is_full and len(found.key) > 0
        round_.found = found = found._replace(cash=np.full(len(found.key), self._spend(len(found.key)), np.int64))
        start_s = time.process_time()
        messages = peers.pending()
        arrived = peers.take(messages, round_)
        taken_s = time.process_time()
        rows = Contributions.joined([arrived.rows, found])
        is_own = peers.is_own(rows.key)
        self.stored += int(rows.cash[is_own].sum())
        links = added_up([rows.take(np.flatnonzero(~is_own))])
        nothing = np.zeros(0, np.uint64)
        names = ("country", "address", "connect_s", "response_s", "elapsed_s", "wire_bytes")
        visits = {name: list[str]() for name in names}
        shared_s = time.process_time()
        sent = peers.send(Closed(Changes(), links, 0, nothing, visits))
        changes = arrived.changes | sent.changes
        if self._is_new:
            changes |= books.index.flush(books.store, self.chain.label) | self._decided()
            self._is_new = False
        sent_s = time.process_time()
        counters = Counters(known=books.ledger.known, hosts=len(books.index.hosts))
        state = replace(self.chain.state, ledger=books.ledger.state(), counters=counters, committed_s=1.0)
        self.chain.commit(
            changes,
            state=peers.noted(state),
            marks=high_water(messages),
            outbox=sent.outbox,
            exchange=peers.exchange,
            applied=[(message.stream, message.number) for message in messages],
            now_s=self._world.clock.now(),
        )
        books.index.release(changes)
        peers.committed()
        self.cpu_s["take"] += taken_s - start_s
        self.cpu_s["send"] += sent_s - shared_s
        self.cpu_s["commit"] += time.process_time() - sent_s
        self._world.wires.sent["commits"] += 1
        self._count(sent.links)
        self._world.wires.sent["manifest_bytes"] += books.store.size(file_name(self.name, self.chain.number))

    def _decided(self) -> Changes:
        """Writes what was decided about hosts before; one agent of a site does so for all."""
        if self is not self._site.home or not self._world.is_mapped:
            return Changes()
        return placing.write(self.books.store, f"{self.chain.label}-0", self._world.decided)

    def _count(self, links: int) -> None:
        """Counts what went out: of the links to other sites, those that had to be sent."""
        crossed = Counter[str]()
        for figures in self.chain.state.crossed.values():
            crossed.update(figures)
        more, self._crossed = crossed - self._crossed, crossed
        self._world.wires.sent["within_links"] += links - more["links"]
        self._world.wires.sent["between_links"] += more["urls"] + more["keys"]

    def _look(self) -> None:
        """Does what an agent does several times a second. The first time after something has come, it is judged."""
        self.peers.pending()
        self.peers.look()
        at, stats = self.chain.snapshot, Stats(1.0, 1.0, 1, 1, 1)
        self.peers.report(
            Report(
                number=at.number, epoch=at.epoch, zones=at.ranges, sent=at.sent, marks=at.marks, pages=None,
                rounds=at.number, idle="", next_due_s=None, committed_s=1.0, cpu_s=1.0, stats=stats,
                backlog_bytes=self.chain.backlog(self.peers.exchange),
            )
        )  # fmt: skip

    def _settle(self) -> None:
        before = self.books.ledger.known
        self.peers.settle(self._world.clock.now())
        # There are no rows of pages: hosts come without their counts, and the cash stays with those that are left.
        rows = self.books.index.hosts.rows
        came = rows["host"][rows["known"] == 0]
        if len(came):
            self.books.index.hosts.grow(came, came, self._world.pages_of(came), np.zeros(len(came), np.int64))
        moved = self.known - before
        self.books.ledger.known += moved
        self.stored -= moved * self.books.ledger.v

    def _spend(self, links: int) -> int:
        """Takes a hundredth of the cash out of the pages, half of it for the virtual page; returns that of a link."""
        ledger = self.books.ledger
        each = self.stored // 200 // max(1, links)
        self.stored -= 2 * each * links
        ledger.pool += each * links
        ledger.give(self.peers.known_elsewhere)
        return each

    def _timed(self, name: str, work: Callable[[], None]) -> None:
        start_s = time.process_time()
        work()
        self.cpu_s[name] += time.process_time() - start_s

    def missing(self) -> int:
        return self.books.ledger.missing(self.stored)


class World:
    """`World` has all sites, and lets time pass."""

    def __init__(self, shape: Shape, web: Web | None = None) -> None:
        self.shape, self.clock, self.web = shape, VirtualClock(), web or Web(shape)
        self.config = Config().replace({"crawl.scope": "any"})
        self.wires = Wires(self.clock)
        self.log = EventLog(Path("/dev/null"))
        self._rng = np.random.default_rng(shape.seed)
        self._turns: list[tuple[float, str, OneSite]] = []
        self.sites: list[OneSite] = []
        names = [f"s{number:02d}" for number in range(shape.sites)] if shape.sites > 1 else [""]
        self._weights = dict.fromkeys(names, 1.0)
        for name in names:
            self._add(name)
        if shape.sites > 1:
            self._tell([None] * shape.sites)
        self._deal_out()
        for site in self.sites:
            for agent in site.agents.values():
                self._begin(agent, site)

    def _add(self, name: str) -> OneSite:
        site = OneSite(name, Memory())
        names = [f"{name}_a{number}" if name else f"a{number}" for number in range(self.shape.agents)]
        site.owners = shared_out({}, names)
        site.shares = shares(site.owners)
        self.sites.append(site)
        site.agents = {each: OneAgent(self, site, each) for each in names}
        return site

    def _tell(self, before: list[list[Mapping[str, float]] | None]) -> None:
        """Gives all sites the list of sites; `before` are the lists that each had."""
        sites = {name: Site(weight=weight) for name, weight in self._weights.items()}
        for site, earlier in zip(self.sites, before, strict=True):
            members = Members(site.version, self._weights, self.shape.partitioner, earlier)
            federated = Federated(site=site.name, members=members, sites=sites)
            site.place = lambda name, federated=federated: place(federated, name, lambda hosts: [""] * len(hosts))  # type: ignore[misc]

    def _deal_out(self) -> None:
        """Gives every host to its owner, with its pages."""
        hosts, at = np.unique(self.web.keys, return_inverse=True)
        pages = np.bincount(at, self.web.pages).astype(np.int64)
        self.home_of_host = np.zeros(len(hosts), np.int64)
        if self.shape.sites > 1:
            there = self.sites[0].place(self.sites[0].home.name)
            assert there is not None
            self.home_of_host = there.placing.homes(hosts) if there.placing else there.sites.of_keys(hosts)
        self.hosts, self.pages = hosts, pages
        zones = zone_of_host(hosts)
        for number, site in enumerate(self.sites):
            names = np.array(site.owners)[zones]
            for name, agent in site.agents.items():
                own = np.flatnonzero((names == name) & (self.home_of_host == number))
                agent.own(hosts[own], pages[own])

    def pages_of(self, hosts: U32) -> I64:
        return self.pages[np.searchsorted(self.hosts, hosts)]

    @property
    def is_mapped(self) -> bool:
        return self.shape.sites > 1 and self.shape.partitioner != "ring"

    @cached_property
    def decided(self) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
        """Returns what is on record about hosts, of all but a few."""
        is_decided = self._rng.random(len(self.hosts)) >= _UNKNOWN
        entries = np.zeros(int(is_decided.sum()), ENTRY)
        entries["host"], entries["site"] = self.hosts[is_decided], self.home_of_host[is_decided]
        return entries

    def _begin(self, agent: OneAgent, site: OneSite) -> None:
        agent.begin()
        if agent.place is not None and agent.place.placing is not None:
            agent.place.placing.record(self.decided)
        self._wait(agent, site)

    def _wait(self, agent: OneAgent, site: OneSite) -> None:
        lasts_s = self.shape.round_s * self._rng.uniform(0.8, 1.2)
        heapq.heappush(self._turns, (self.clock.now() + lasts_s, agent.name, site))

    def rounds(self, number: int) -> None:
        """Lets so many rounds pass, of each agent on average."""
        for _ in range(number * sum(len(site.agents) for site in self.sites)):
            self.turn()

    def turn(self, is_idle: bool = False) -> None:
        """Lets the agent whose turn it is make its round. When `is_idle`, it has found nothing."""
        at_s, name, site = heapq.heappop(self._turns)
        self.clock.advance(at_s - self.clock.now())
        self.wires.deliver()
        agent = site.agents[name]
        agent.step(self.web.draw(0 if is_idle else self.shape.visits * self.shape.onward, self._rng))
        self.wires.count()
        self._wait(agent, site)

    def join(self) -> OneSite:
        """Adds a site: all get the next version of the list of sites, and begin anew with it."""
        earlier = dict(self._weights)
        name = f"s{len(self.sites):02d}"
        self._weights = {**earlier, name: 1.0}
        site = self._add(name)
        for each in self.sites:
            each.version += 1
        before: list[list[Mapping[str, float]] | None] = [[earlier] for _ in self.sites[:-1]]
        self._tell([*before, None])
        for each in self.sites:
            for agent in each.agents.values():
                agent.begin()
        for agent in site.agents.values():
            self._wait(agent, site)
        self.wires.count()
        return site

    @property
    def is_settled(self) -> bool:
        """Returns whether all sites have carried the list of sites out."""
        return all(site.home.peers.progress().is_clean and not site.is_holding for site in self.sites)

    @property
    def agents(self) -> list[OneAgent]:
        return [agent for site in self.sites for agent in site.agents.values()]

    def fullest(self) -> float:
        """Returns the hosts of the fullest agent, in proportion to the mean."""
        counts: F64 = np.array([len(agent.books.index.hosts) for agent in self.agents], np.float64)
        return float(counts.max() / counts.mean())

    def missing(self) -> int:
        """Returns the cash that the account of all agents together lacks: always 0."""
        return sum(agent.missing() for agent in self.agents) - self._on_its_way()

    def _on_its_way(self) -> int:
        total = 0
        for site in self.sites:
            for agent in site.agents.values():
                total += sum(int(decode(site.store.get(name)).cash.sum()) for name in agent.chain.files.get(HELD, ()))
                for message in messages_of(site.store, agent.chain.snapshot.outbox):
                    if self._receiver(message.to).chain.marks.get(message.stream, 0) < message.number:
                        total += _cash(message)
        return total

    def _receiver(self, to: str) -> OneAgent:
        return next(
            site.home if to == site.name else site.agents[to] for site in self.sites if to in (site.name, *site.agents)
        )


def _is_far(message: Message) -> bool:
    here = site_of(message.sender)
    return bool(here) and message.kind != BUNDLE and here != (site_of(message.to) or message.to)


def _rows(message: Message) -> Contributions:
    return (decode if message.kind == LINKS else compact.decode)(message.data)


def _cash(message: Message) -> int:
    if message.kind in (LINKS, REMOTE_LINKS):
        return int(_rows(message).cash.sum())
    return int(json.loads(message.data).get("pool", 0)) if message.kind == NEWS else 0
