"""Sites of one agent each, made of the real parts but for the network and the fetching: a test says which message
arrives when, and each round visits a few pages of a small web. No page may ever be visited twice, unless by a site that
is lost."""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
from msgspec.structs import replace

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import HOSTS, NEWS, Message, site_of
from gossamer.archive.state import replace as renew
from gossamer.archive.store import Memory
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges
from gossamer.arrays import Rows
from gossamer.cluster.federation_file import Site, home_of
from gossamer.cluster.neighbours import place
from gossamer.cluster.protocol import Federated
from gossamer.cluster.site_list import Members, is_holding
from gossamer.columns import PAGE, Contributions, Status
from gossamer.config import Config
from gossamer.crawl.inbox import high_water
from gossamer.crawl.ledger import Ledger
from gossamer.crawl.opening import Books, mentioned
from gossamer.crawl.update import VISIT, CashUse, Links, RoundColumns, update
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.frontier.strategies import strategy
from gossamer.sharing import estate, placing
from gossamer.sharing.control import Orders
from gossamer.sharing.exchange import InProcess
from gossamer.sharing.incoming import Incoming, numbered_parts
from gossamer.sharing.membership import Membership
from gossamer.sharing.outgoing import Outgoing
from gossamer.sharing.owners import Owners
from gossamer.sharing.placing import hostmap_files
from gossamer.sharing.transfer import Transfer, arrivals, has_late_hosts
from gossamer.web.url import page_keys

CONFIG = Config().replace({"crawl.scope": "any"})
ORDER = strategy("opic-virtual")
Web = Mapping[str, list[str]]  # a page, and the pages that it links to


class Post:
    """What sites have sent to each other. A message is at its receiver when the test has delivered it."""

    def __init__(self) -> None:
        self._sent = InProcess()
        self._arrived: dict[str, int] = {}  # by stream: up to which number

    def deliver(self, sender: "OneSite", to: str) -> None:
        """All that one site has said to another until now."""
        stream = f"{sender.agent}>{to}"
        self._arrived[stream] = sender.chain.snapshot.sent.get(stream, 0)

    def spoil(self, to: str) -> None:
        """News for a site that are on their way cannot be read: they are set aside, and count as read."""
        for key, message in self._sent._batches.items():
            if (message.to, message.kind) == (to, NEWS):
                self._sent._batches[key] = renew(message, data=b"{}")

    def of(self, site: str) -> "Box":
        return Box(self._sent, self._arrived, site)


class Box:
    """The post, as one site sees it. From sites that are gone, by its list, it fetches nothing."""

    def __init__(self, sent: InProcess, arrived: Mapping[str, int], site: str) -> None:
        self._sent, self._arrived, self._site = sent, arrived, site
        self.gone: tuple[str, ...] = ()
        self.publish, self.acknowledge = sent.publish, sent.acknowledge
        self.confirmed, self.lost = sent.confirmed, sent.lost

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        found = self._sent.pending(self._site, marks)
        found = [message for message in found if message.number <= self._arrived.get(message.stream, 0)]
        return self._sent.pending(to, marks) + [each for each in found if site_of(each.sender) not in self.gone]


class OneSite:
    """A site: `begin` as its processes do, then `step` for each round."""

    def __init__(self, name: str, post: Post, web: Web, visited: Counter[str]) -> None:
        self.name, self.agent, self._web, self._visited = name, home_of(name), web, visited
        self._store, self._exchange = Memory(), post.of(name)
        self._seeds: list[str] = []
        self.visits: list[str] = []  # that this site made

    def begin(self, members: Members, seeds: list[str] | None = None, gone: tuple[str, ...] = ()) -> None:
        """Its processes are started, or read another list of sites."""
        sites = {name: Site(weight=weight) for name, weight in members.weights.items()}
        federated = Federated(site=self.name, members=members, sites=sites, gone=list(gone))
        self.members, self._seeds, self._exchange.gone = members, seeds or [], gone
        self.place = place(federated, self.agent, lambda hosts: [""] * len(hosts))
        self.chain = Chain.take_over(self._store, self.agent, self._exchange, 1.0, zones=range(ZONES_IN_ALL))
        self._open()

    def _open(self) -> None:
        index = PageIndex.open(self._store, self.chain.files, CONFIG.index)
        frontier = Frontier(index, ORDER, CONFIG.index)
        ledger = Ledger.of(self.chain.state.ledger)
        self.books = Books(self._store, CONFIG, self.chain, index, frontier, ledger, ORDER)
        assert self.place.placing is not None
        self.place.placing.open(self._store, hostmap_files(self._store), self.chain.state)
        Transfer(self.books, self._exchange, self._orders(True), self.place, 1.0).settle()
        self._membership = Membership(self._store, self.chain, self.place)
        self._incoming = Incoming(self._store, self.chain, self._exchange, "any")
        self._incoming.seeds += self._seeds
        if self._membership.has_lost:
            self._incoming.again = self._links_to_lost()
        self._outgoing = Outgoing(CONFIG, self.chain, ledger)
        self._seeds, self._held = [], True

    def step(self, visits: int = 2) -> None:
        """A round: what has arrived is taken in, a few pages are visited, all of it is committed."""
        come = arrivals(self._exchange, self.chain, self._orders(True).owners, self.place)
        if come or has_late_hosts(self.books, self.place):
            self._open()
        holding = self.is_holding
        if holding != self._held:
            self._incoming.owners_changed()
        self._held = holding
        owners, books = self.owners(), self.books
        columns = self._visit(owners, visits)
        followed = columns.links.target, columns.urls
        came = self._incoming.messages()
        arrived = self._incoming.arrived(
            came, [], [], books.index, books.ledger, self._orders(holding), owners, lambda: followed
        )
        for site, said in arrived.received:
            self._membership.receive(site, said)
        result = update(
            books.index, None, books.ledger, replace(columns, inbox=arrived.rows), limits=CONFIG.limits,
            strategy=ORDER, is_own=owners.is_own, now_s=1.0,
        )  # fmt: skip
        self._outgoing.forget(arrived.unknown_there)
        outbox = arrived.outbox + self._outgoing.messages(result.outbox, owners, arrived.from_remote)
        changes = arrived.changes | books.index.flush(self._store, self.chain.label)
        assert self.place.placing is not None
        news = self.place.placing.take_news()
        changes |= placing.write(self._store, self.chain.label, news.entries)
        outbox += self._outgoing.news(news.to_sites, owners.remote_sites) + self._membership.messages(list)
        unknown = [*arrived.unknown_here, *self._incoming.expect(arrived.rows, result.textless)]
        outbox += self._outgoing.questions(unknown, owners)
        state = self._incoming.noted(renew(self.chain.state, ledger=books.ledger.state(), committed_s=1.0))
        self.chain.commit(
            changes,
            state=self._membership.noted(state),
            marks=high_water(came),
            outbox=numbered_parts(outbox),
            exchange=self._exchange,
            applied=[(message.stream, message.number) for message in came],
            now_s=1.0,
        )
        books.index.release(changes)
        self._membership.look()

    def _visit(self, owners: Owners, most: int) -> RoundColumns:
        rows = self._rows()
        rows = rows[(rows["status"] != Status.FETCHED) & owners.is_native(rows["key"])][:most]
        visits = np.zeros(len(rows), VISIT.numpy)
        visits["key"], visits["status"], visits["cash_use"] = rows["key"], Status.FETCHED, CashUse.SPEND
        pages = self.books.index.urls(rows)
        for page in pages:
            self._visited[page] += 1
            self.visits.append(page)
            assert self._visited[page] == 1, f"{self.name} visits {page}, which was visited before"
        targets = [(source, url) for source, page in enumerate(pages) for url in self._web[page]]
        keys = page_keys([url for _, url in targets])
        links = Links(np.array([s for s, _ in targets], np.int32), keys, np.ones(len(keys), np.bool_))
        return RoundColumns(visits, links, dict(zip(keys.tolist(), (url for _, url in targets), strict=True)))

    def _links_to_lost(self) -> Contributions:
        """What its archive has, in a real crawl."""
        urls = sorted({url for page in self.visits for url in self._web[page]})
        lost = self.place.was_lost(host_of_key(page_keys(urls))) if urls else []
        return mentioned([url for url, is_lost in zip(urls, lost, strict=True) if is_lost])

    def left(self) -> list[str]:
        """The pages that are not visited yet."""
        rows = self._rows()
        return self.books.index.urls(rows[rows["status"] != Status.FETCHED])

    def remembered(self, gone: Collection[str]) -> set[str]:
        """The visited pages that it has, or has given to a site that is not gone and has not taken them in yet."""
        rows = self._rows()
        found = set(self.books.index.urls(rows[rows["status"] == Status.FETCHED]))
        for name, _, message in self.chain.snapshot.outbox:
            is_late = message.number > self._exchange.confirmed(message.stream)
            if message.kind == HOSTS and message.part and message.to not in gone and is_late:
                given = estate.decoded(self._store.get(name))
                if given.table == PAGE.name:
                    of_visited = np.flatnonzero(given.rows["status"] == Status.FETCHED).tolist()
                    found |= {given.texts[row].decode() for row in of_visited}
        return found

    def _rows(self) -> Rows:
        return np.concatenate([np.zeros(0, self.books.index.pages.dtype), *self.books.index.pages.scan()])

    def hits(self) -> dict[str, int]:
        rows = self._rows()
        return dict(zip(self.books.index.urls(rows), rows["hits"].tolist(), strict=True))

    def pages(self) -> list[str]:
        return [url for rows in self.books.index.pages.scan() for url in self.books.index.urls(rows)]

    @property
    def clean(self) -> Mapping[str, int]:
        return self._membership.progress(self._exchange).clean or {}

    @property
    def is_holding(self) -> bool:
        return is_holding(self.members.version, self.place.others, self.clean)

    def owners(self) -> Owners:
        return Owners(self.agent, self.chain.zones, (self.agent,) * ZONES_IN_ALL, self.place, holding=self.is_holding)

    def _orders(self, holding: bool) -> Orders:
        return Orders({self.agent: as_ranges(range(ZONES_IN_ALL))}, holding=holding)
