"""A `Hub` is where the processes of a site meet: a nats-server that the supervisor runs, or nothing but the Store."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from gossamer.archive.places import apart
from gossamer.archive.store import Store, where
from gossamer.clocks import Clock
from gossamer.cluster import registrar, store_registrar
from gossamer.cluster.nats_connection import Wire
from gossamer.cluster.nats_exchange import NatsExchange
from gossamer.cluster.nats_server import Open, Server
from gossamer.cluster.protocol import Address, AgentOrders, AgentTask, Heartbeat, Wish
from gossamer.cluster.store_exchange import StoreExchange
from gossamer.cluster.store_lease import SiteLease, Term
from gossamer.config import BY_STORE
from gossamer.crawl.inbox import Aside
from gossamer.errors import SiteError
from gossamer.event_log import EventLog
from gossamer.sharing.exchange import Exchange

FOLDER = "site"  # of the crawl's directory: the server's files
_UP_S = 60.0
_SERVER_S = 20.0  # a server that does not answer for so long is started again


class AgentRegistrar(Protocol):
    """Port: the registrar, of either kind. `report_s` is how often an agent reports, at most."""

    report_s: float

    def report(self, name: str, report: Heartbeat) -> bool: ...

    def leave(self, name: str) -> bool: ...

    def alive(self) -> dict[str, Heartbeat] | None: ...

    def order(self, name: str, orders: AgentOrders) -> bool: ...

    def orders(self, name: str) -> AgentOrders | None: ...

    def wish(self, wish: Wish) -> bool: ...

    def take_wishes(self) -> list[Wish]: ...

    def close(self) -> None: ...


class Hub(Protocol):
    """Port: a hub, as the supervisor has it. It is open between `open` and `close`."""

    address: Address  # what agents need to find it
    term: int  # rises each time that a supervisor takes the site over
    is_quiet: bool  # no agent of the supervisor before us can be at work
    look_s: float  # how often the supervisor asks
    calm_s: float  # so long orders wait that are not urgent, as each request costs money; 0: it does not
    registrar: AgentRegistrar

    def open(self, waits: Callable[[Term], bool]) -> bool:
        """Returns False if another process has the site, and `waits` did not want to wait until that ends."""

    def wait_up(self) -> None:
        """Waits until it answers, but not for ever."""

    def look_after(self, answered_s: float) -> float:
        """Keeps it running; `answered_s` is when it last answered. Returns the same, or now if it begins anew."""

    def close(self, is_over: bool) -> None:
        """Closes it. `is_over`: all our agents have ended."""


class NatsHub:
    """`NatsHub` is a nats-server of this machine."""

    term, is_quiet, look_s, calm_s = 0, True, 0.5, 0.0

    def __init__(self, directory: Path, lease_s: float, clock: Clock, log: EventLog, opened: Open | None) -> None:
        self._server, self._lease_s, self._clock, self._log = Server(directory / FOLDER, opened), lease_s, clock, log

    def open(self, _waits: Callable[[Term], bool]) -> bool:
        self._server.start()
        self.address = self._server.address
        self.wire = Wire(self.address)
        self.registrar = registrar.of_agents(self.wire, self._lease_s)
        return True

    def wait_up(self) -> None:
        self.wire.wait_up(_UP_S)

    def look_after(self, answered_s: float) -> float:
        self._server.look_at_certificate()
        if not self._server.is_alive():
            self._log.event("server died", "warning")
            self._server.start()
        elif self._clock.monotonic() - answered_s > _SERVER_S:
            self._log.event("server silent", "warning")
            self._server.stop()
            self._server.start()
            return self._clock.monotonic()
        return answered_s

    def close(self, is_over: bool) -> None:  # noqa: ARG002
        self.wire.close()
        self._server.stop()


class StoreHub:
    """`StoreHub` is the Store itself, and a lease on it. `is_alone`: our agents end with us."""

    address: Address = {}  # noqa: RUF012

    def __init__(self, store: Store, lease_s: float, is_alone: bool) -> None:
        self._store, self._lease_s = store, lease_s
        self._lease = SiteLease(store, lease_s, is_alone)
        self.look_s, self.calm_s = store_registrar.pace_s(lease_s), lease_s

    def open(self, waits: Callable[[Term], bool]) -> bool:
        if not self._lease.take(waits):
            return False
        self.term = self._lease.term
        self.is_quiet = self._lease.is_quiet
        self.registrar = store_registrar.of_agents(self._store, self._lease_s)
        return True

    def wait_up(self) -> None:
        """There is nothing to wait for."""

    def look_after(self, answered_s: float) -> float:
        if not self._lease.check():
            raise SiteError(
                f"another process leads the crawl in {where(self._store)} now, as this one was silent for longer than "
                "site.lease_s: it goes on there"
            )
        return answered_s

    def close(self, is_over: bool) -> None:
        self.registrar.close()
        self._lease.release(is_over)


class Joint(NamedTuple):
    """`Joint` is a hub as an agent has it."""

    registrar: AgentRegistrar
    exchange: Exchange
    close: Callable[[], None]
    wire: Wire | None = None  # to the site's server, if it has one


def joint(task: AgentTask, store: Store, aside: Aside, others: Callable[[], Iterable[str]]) -> Joint:
    """Connects an agent with its site. `others` returns the agents that its orders name."""
    lease_s = task.config.site.lease_s
    if task.config.site.exchange == BY_STORE:
        store = apart(store)  # a lease must not end because a large file is under way
        by_store = store_registrar.of_agents(store, lease_s)
        exchange = StoreExchange(store, task.name, others, aside=aside).follow()

        def close() -> None:
            exchange.close()
            by_store.close()

        return Joint(by_store, exchange, close)
    wire = Wire(task.address)
    sites = task.federation.others if task.federation else ()
    return Joint(
        registrar.of_agents(wire, lease_s), NatsExchange(wire, task.name, aside=aside, sites=sites), wire.close, wire
    )
