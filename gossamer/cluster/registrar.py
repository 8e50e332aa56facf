"""The registrar knows who is alive at a site, what each shall do, and what people wish: three key-value buckets.

All of it is hints. What is true about zones and pages, the manifest chains say.
"""

import secrets
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from nats.aio.msg import Msg
from nats.js import api

from gossamer.cluster.jetstream import Link, Take, always, bucket
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.protocol import AgentOrders, Heartbeat, Wish, decode_or_none, encode

_ORDERS, _WISHES = bucket("orders"), bucket("wishes")
Reports = TypeVar("Reports")
Orders = TypeVar("Orders")


class Registrar(Generic[Reports, Orders]):
    """`reports` and `orders` are kinds of messages; others are taken as if they had not come. `lease_s` is how long
    somebody counts as alive after the last report; None for those who only ask."""

    def __init__(self, wire: Wire, reports: type[Reports], orders: type[Orders], lease_s: float | None = None) -> None:
        self._wire, self._report_kind, self._order_kind = wire, reports, orders
        self._has_lease = lease_s is not None
        self._agents = bucket("agents", lease_s)
        self._guard = threading.Lock()
        self._orders: dict[str, Orders] = {}
        self._wishes: dict[str, tuple[int, Wish]] = {}  # with their numbers in the bucket
        self._taken: set[str] = set()
        self._ends: dict[str, Callable[[], None]] = {}

    def close(self) -> None:
        for end in self._ends.values():
            end()

    def report(self, name: str, report: Reports) -> bool:
        """I am alive; False: nobody received it."""
        return self._put(self._agents, name, encode(report))

    def leave(self, name: str) -> bool:
        """As if the lease had run out."""
        return self._put(self._agents, name, None)

    def alive(self) -> dict[str, Reports] | None:
        """Who reported within the lease. None: the server does not answer, and nothing is known."""

        async def ask(link: Link) -> list[Msg]:
            if self._has_lease:
                await link.ensure(self._agents)
            return await link.newest("KV_agents", "$KV.agents.>")

        try:
            found = self._wire.call(ask)
        except Unreachable:
            return None
        newest = sorted((_key(message), message.data) for message in found)
        reports = {name: decode_or_none(self._report_kind, data) for name, data in newest}
        return {name: report for name, report in reports.items() if report is not None}

    def order(self, name: str, orders: Orders) -> bool:
        return self._put(_ORDERS, name, encode(orders))

    def orders(self, name: str) -> Orders | None:
        """The last that have come; the first call begins to listen."""
        self._listen(_ORDERS, name, self._ordered)
        with self._guard:
            return self._orders.get(name)

    def wish(self, wish: Wish) -> bool:
        """For whoever leads the site; from any process."""
        return self._put(_WISHES, secrets.token_hex(16), encode(wish))

    def take_wishes(self) -> list[Wish]:
        """Those that have come since the last time, each once; the first call begins to listen."""
        self._listen(_WISHES, ">", self._wished)
        with self._guard:
            new = sorted(((at, key) for key, (at, _) in self._wishes.items()))
        taken = [self._take(at, key) for at, key in new]
        return [wish for wish in taken if wish is not None]

    def _take(self, at: int, key: str) -> Wish | None:
        """Removed before it is granted: after a crash it does not come again."""
        try:
            self._wire.call(lambda link: link.purge("KV_wishes", at + 1, f"$KV.wishes.{key}"))
        except Unreachable:
            return None
        with self._guard:
            self._taken.add(key)
            return self._wishes.pop(key)[1]

    def _put(self, where: api.StreamConfig, key: str, value: bytes | None) -> bool:
        try:
            self._wire.call(lambda link: link.put(where, key, value))
        except Unreachable:
            return False
        return True

    def _listen(self, where: api.StreamConfig, keys: str, take: Take) -> None:
        stream = str(where.name)
        subject = f"$KV.{stream.removeprefix('KV_')}.{keys}"
        if subject in self._ends:
            return

        async def listen(link: Link) -> None:
            await link.ensure(where)
            await link.tail(stream, [subject], take, newest=True, room=always)

        self._ends[subject] = self._wire.keep(listen)

    def _ordered(self, message: Msg) -> None:
        orders = decode_or_none(self._order_kind, message.data)
        if orders is not None:
            with self._guard:
                self._orders[_key(message)] = orders

    def _wished(self, message: Msg) -> None:
        key, wish = _key(message), decode_or_none(Wish, message.data)
        with self._guard:
            if wish is not None and key not in self._taken:
                self._wishes[key] = (message.metadata.sequence.stream, wish)


def of_agents(wire: Wire, lease_s: float | None = None) -> Registrar[Heartbeat, AgentOrders]:
    return Registrar(wire, Heartbeat, AgentOrders, lease_s)


def _key(message: Msg) -> str:
    """Of a message of a bucket; one that was asked for directly has its subject in a header."""
    subject = (message.headers or {}).get("Nats-Subject") or message.subject
    return subject.split(".", 2)[2]
