"""`Sharing` is the core's `Peers` for an agent among others, of its own site and of remote ones."""

from collections.abc import Mapping
from functools import partial

import msgspec

from gossamer.archive.manifest import LINKS, SEED_FILES, SEED_RULES, SEEDS, Message
from gossamer.archive.state import AgentState, replace
from gossamer.archive.store import Store
from gossamer.arrays import AnyKeys, Bools
from gossamer.columns import Contributions
from gossamer.config import CROSS_OVER, FIREWALL
from gossamer.crawl.commit import Closed
from gossamer.crawl.inbox import Aside, decode
from gossamer.crawl.opening import Books
from gossamer.crawl.peers import Arrived, Sent
from gossamer.crawl.round import Round
from gossamer.crawl.stats import Report, SiteProgress
from gossamer.event_log import EventLog
from gossamer.sharing import incoming, placing
from gossamer.sharing.checking import Checked
from gossamer.sharing.control import Orders, Post
from gossamer.sharing.exchange import Exchange
from gossamer.sharing.held import Held
from gossamer.sharing.incoming import Incoming, numbered_parts
from gossamer.sharing.membership import Membership
from gossamer.sharing.outgoing import Outgoing
from gossamer.sharing.owners import Owners, SiteView
from gossamer.sharing.placing import Placing
from gossamer.sharing.transfer import Transfer, arrivals, has_late_hosts, leaving

_WAIT_S, _WAIT_EACH_S = 2.0, 0.125  # at most; for each other agent
_WAIT_LONG_S = 10.0  # while others work
ZONES_MOVE = "zones change hands"  # why a run ends when another is to follow at once


class Sharing:
    """`Sharing` connects an agent with others. The constructor reads the archive; `settle` is next, then the agent."""

    def __init__(
        self,
        books: Books,
        exchange: Exchange,
        post: Post,
        log: EventLog,
        place: SiteView | None = None,
        aside: Aside | None = None,
    ) -> None:
        store, chain, config = books.store, books.chain, books.config
        aside = aside or Aside(chain.agent, store, log)
        self._books, self._post, self._place, self._log = books, post, place, log
        self.exchange = Checked(exchange, aside, store, place.sites.sites if place else ())
        self._orders = post.orders()
        if place and place.placing:
            _recall(place.placing, store, chain.state)
        self._membership = Membership(store, chain, place)
        self.intake = Incoming(store, chain, self.exchange, books.scope)
        self._outgoing = Outgoing(config, chain, books.ledger)
        self._held = Held(store, chain)
        self._arrived: incoming.Arrived | None = None  # what `take` found, until `send`
        self._has_come: bool | None = None  # zones or hosts, when we last looked what has come
        self._is_full = False  # the round, so that others will follow soon
        self._barren: set[tuple[str, int, int]] = set()  # messages that have no page which we do not know
        self._owners_by: tuple[tuple[int, ...], Orders] | None = None

    def settle(self, now_s: float) -> None:
        """Takes in what has come, and hands over what shall go, in several commits, while nothing is fetched."""
        Transfer(self._books, self.exchange, self._orders, self._place, now_s).settle()
        self.intake.owners_changed()

    # Ownership

    def _owners(self) -> Owners:
        """Returns who owns what, by our chain and the orders; as they are asked for often, they are made once."""
        chain, orders = self._books.chain, self._orders
        if self._owners_by != (chain.zones, orders):
            everything = self._books.config.site.mode == CROSS_OVER
            self._known = Owners(chain.agent, chain.zones, orders.owners, self._place, everything, orders.holding)
            self._owners_by = (chain.zones, orders)
        return self._known

    def is_own(self, keys: AnyKeys, /) -> Bools:
        return self._owners().is_own(keys)

    def is_native(self, keys: AnyKeys, /) -> Bools:
        return self._owners().is_native(keys)

    # Orders and reports

    @property
    def is_site(self) -> bool:
        return self._post.is_site

    def may_wait(self, messages: list[Message], /) -> float:
        """With many agents, most of what comes in the end is cash for pages that are known, or that they are less deep:
        it is taken in together, and what follows from it goes out together. While others work, that has time. Links to
        pages that are new, or another's, are taken in at once, and so is all else."""
        if self._held and not self._held.has_time:
            return 0.0
        keys = [(message.stream, message.number, message.part) for message in messages]
        self._barren &= {*keys}
        for key, message in zip(keys, messages, strict=True):
            if key not in self._barren:
                if message.kind != LINKS or message.sender in (SEEDS, SEED_FILES, SEED_RULES):
                    return 0.0
                pages = decode(message.data).key
                if not (self._books.index.pages.look_up(pages)[0] & self.is_native(pages)).all():
                    return 0.0
                self._barren.add(key)
        return _WAIT_LONG_S if self._orders.others_work else min(_WAIT_S, _WAIT_EACH_S * len(self._orders.others))

    @property
    def is_due(self) -> bool:
        return self._membership.is_due

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def lease_until_s(self) -> float:
        return self._post.lease_until_s

    @property
    def _others(self) -> Mapping[str, int]:
        """Returns the agents that share the virtual page, and how many pages each knows."""
        return self._orders.others if self._books.strategy.virtual else {}

    @property
    def known_elsewhere(self) -> int:
        return sum(self._others.values())

    def allowed(self) -> int | None:
        return self._orders.pages if self._post.is_site else self._books.config.crawl.pages or None

    def begin(self) -> bool:
        """Sends links to hosts of sites that are gone again, to the hosts' new owners."""
        if self._place is None or not self._membership.has_lost:
            return False
        from gossamer.sharing.rediscover import links_to_lost  # DuckDB, for once

        self.intake.again = links_to_lost(self._books.store, self._place)
        self._log.event("links sent again", links=len(self.intake.again.key), gone=list(self._place.gone))
        return True

    def look(self) -> None:
        self._membership.look()

    def why_over(self) -> str:
        if self._orders.stop:
            return "stopped"
        chain, orders = self._books.chain, self._orders
        if self._has_come is None:
            self._has_come = bool(arrivals(self.exchange, chain, orders.owners, self._place))
        if self._has_come or self._membership.moves or has_late_hosts(self._books, self._place):
            return ZONES_MOVE
        if orders.shares.get(chain.agent, "") == chain.snapshot.ranges:  # mostly; this is asked many times a second
            return ""
        return ZONES_MOVE if leaving(chain.zones, orders.owners, chain.agent) else ""

    def report(self, report: Report, /) -> None:
        self._post.report(report)
        orders, before = self._post.orders(), self._orders
        if orders == before:
            return
        self._orders = orders
        if (orders.shares, orders.holding) != (before.shares, before.holding):
            self.intake.owners_changed()

    def progress(self) -> SiteProgress:
        return self._membership.progress(self.exchange)

    # A commit

    def pending(self) -> list[Message]:
        self._has_come = None
        return self.intake.messages()

    def take(self, messages: list[Message], round_: Round) -> Arrived:
        books = self._books
        self._is_full = round_.is_full(books.config.crawl.width)
        self.intake.again = Contributions.joined([self.intake.again, self._held.of_before])
        arrived = self._arrived = self.intake.arrived(
            messages,
            round_.sitemaps,
            round_.named,
            books.index,
            books.ledger,
            self._orders,
            self._owners(),
            round_.followed,
        )
        for site, news in arrived.received:
            self._membership.receive(site, news)
        self._outgoing.forget(arrived.unknown_there)
        return Arrived(arrived.rows, arrived.changes, arrived.widened)

    def send(self, closed: Closed, is_last: bool = False, /) -> Sent:
        books, owners, arrived, outgoing = self._books, self._owners(), self._arrived, self._outgoing
        assert arrived is not None
        is_full, has_time = self._is_full and not is_last, self._orders.others_work and not is_last
        links, held = self._held.divided(closed.links, owners, len(self._orders.others), is_full, has_time)
        sent = Sent(changes=held)
        if owners.is_native(links.key).any():  # ours by now, when they were held back: they need not wait for anything
            self.intake.owners_changed()
        messages = arrived.outbox + outgoing.messages(links, owners, arrived.from_remote)
        if not self._held.is_late:
            messages += outgoing.shares(self._others)
        if self._place and self._place.placing:
            self._place.placing.saw(closed.visits)
            news = self._place.placing.take_news()
            sent = sent._replace(changes=held | placing.write(books.store, books.chain.label, news.entries))
            messages += outgoing.news(news.to_agents, sorted(self._orders.others))
            messages += outgoing.news(news.to_sites, owners.remote_sites)
        scope = self.intake.scope
        hosts = partial(scope.committed_hosts, books.store)
        messages += self._membership.messages(hosts, msgspec.to_builtins(scope.websites.all()))
        unknown = self.intake.expect(arrived.rows, closed.textless)
        messages += outgoing.questions([*arrived.unknown_here, *unknown], owners)
        count = len(links.key) if books.config.site.mode != FIREWALL else 0
        return sent._replace(outbox=numbered_parts(messages), links=count, remote=outgoing.remote)

    def committed(self) -> None:
        return

    def noted(self, state: AgentState) -> AgentState:
        place, state = self._place, replace(self.intake.noted(state), crossed=self._outgoing.crossed)
        return self._membership.noted(place.placing.noted(state) if place and place.placing else state)


def _recall(hosts: Placing, store: Store, state: AgentState) -> None:
    """Reads the host map. Another agent may merge its files meanwhile: then it names others. What is read twice changes
    nothing."""
    names: list[str] = []
    while True:
        before, names = names, placing.hostmap_files(store)
        try:
            return hosts.open(store, names, state)
        except FileNotFoundError:
            if names == before:
                raise
