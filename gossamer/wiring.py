"""This module puts an agent together: it alone knows which optional parts a crawl asks for, and opens only those."""

from collections.abc import Callable

from gossamer.archive.chain import Chain
from gossamer.archive.store import Store
from gossamer.archive.zones import ZONES_IN_ALL
from gossamer.clocks import Clock
from gossamer.config import NEVER, Config
from gossamer.crawl.agent import Agent
from gossamer.crawl.inbox import Aside, FarInbox, Inbox
from gossamer.crawl.opening import Books
from gossamer.crawl.peers import Alone, Peers
from gossamer.event_log import EventLog


def open_books(store: Store, config: Config, clock: Clock, chain: Chain, share: float = 1.0) -> Books:
    """Opens the books: with revisits if there is a policy for them, with carbon if anything is set in [carbon], with
    functions if any are named, with a browser if pages are to be rendered, with the digests of other crawls. `share` is
    the site's, of budgets that are meant for the crawl of all sites."""
    books = Books.open(store, config, chain)
    books.share = share
    carbon = None
    if config.carbon != type(config.carbon)():
        from gossamer.carbon.account import Carbon

        books.carbon = carbon = Carbon(config.carbon, books.index, chain.state.prices, books.part)
    if config.refresh.policy != NEVER:
        from gossamer.refresh.importance import Importance
        from gossamer.refresh.refresher import Refresher

        importance = Importance(lambda: books.ledger.v, books.pagerank)
        books.refresher = Refresher(books.index, config, clock, books.part, carbon, importance)
    if config.extract.functions or config.extract.links:
        from gossamer.functions.functions import Functions

        books.functions = Functions(config, store, chain.agent)
    if config.crawl.render:
        from gossamer.render.renderer import Renderer

        books.rendering = Renderer(config)
    if config.archive.dedupe:
        from gossamer.archive.dedupe import OtherCrawls

        books.others = OtherCrawls(config.archive.dedupe, store.scratch("digests").parent)
    return books


MakePeers = Callable[[Books, Inbox, Aside], Peers]


def lone_agent(
    store: Store, config: Config, clock: Clock, inbox: Inbox, log: EventLog, peers: MakePeers = Alone
) -> Agent:
    """Returns the agent of a crawl with one agent. `peers` makes what it has besides.

    Where no lock tells who else is there, it takes the chain over: whoever had it is deposed, and no two processes ever
    give a file the same name."""
    agent = config.crawl.agent
    if isinstance(inbox, FarInbox):
        chain = Chain.take_over(store, agent, inbox, clock.now(), zones=range(ZONES_IN_ALL))
    else:
        chain = Chain.open(store, agent, inbox)
    books = open_books(store, config, clock, chain)
    return Agent(books, clock, peers(books, inbox, Aside(chain.agent, store, log)), log)
