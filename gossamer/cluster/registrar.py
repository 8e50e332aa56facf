"""The registrar knows who is alive at a site, what each shall do, and what people wish: three key-value buckets.

All of it is hints. Only the manifest chains have the truth about zones and pages.
"""

import secrets
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from nats.aio.msg import Msg
from nats.js import api

from gossamer.cluster.jetstream import Link, always, bucket
from gossamer.cluster.nats_connection import Unreachable, Wire
from gossamer.cluster.protocol import AgentOrders, Heartbeat, Wish, decode_or_none, encode

_ORDERS, _WISHES = bucket("orders"), bucket("wishes")
Reports = TypeVar("Reports")
Orders = TypeVar("Orders")


class Registrar(Generic[Reports, Orders]):
    """`reports` and `orders` are kinds of messages; others are ignored, as if they had not come. `lease_s` is how long
    a member counts as alive after the last report; None for those who only ask."""

    report_s = 1.0  # how often an agent reports, at most

    def __init__(self, wire: Wire, reports: type[Reports], orders: type[Orders], lease_s: float | None = None) -> None:
        self._wire, self._report_kind, self._order_kind = wire, reports, orders
        self._has_lease = lease_s is not None
        self._agents = bucket("agents", lease_s)
        self._guard = threading.Lock()
        self._orders: dict[str, Orders] = {}
        self._ends: dict[str, Callable[[], None]] = {}

    def close(self) -> None:
        for end in self._ends.values():
            end()

    def report(self, name: str, report: Reports) -> bool:
        """Reports that `name` is alive; False: it was not received."""
        return self._put(self._agents, name, encode(report))

    def leave(self, name: str) -> bool:
        """Removes `name`, as if its lease had run out."""
        return self._put(self._agents, name, None)

    def alive(self) -> dict[str, Reports] | None:
        """Returns who reported within the lease. None: the server does not answer, and nothing is known."""

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
        """Returns the last orders that have come; the first call begins to receive them."""
        self._listen(name)
        with self._guard:
            return self._orders.get(name)

    def wish(self, wish: Wish) -> bool:
        """Sends a wish to the process that leads the site; from any process."""
        return self._put(_WISHES, secrets.token_hex(16), encode(wish))

    def take_wishes(self) -> list[Wish]:
        """Returns those that have come since the last time, each once, in order."""

        async def ask(link: Link) -> list[Msg]:
            await link.ensure(_WISHES)
            return await link.newest("KV_wishes", "$KV.wishes.>")

        try:
            found = sorted(self._wire.call(ask), key=_number)
            # Removed before it is granted: after a crash it does not come again.
            taken = [message for message in found if self._remove(message)]
        except Unreachable:
            return []
        wishes = [decode_or_none(Wish, message.data) for message in taken]
        return [wish for wish in wishes if wish is not None]

    def _remove(self, wish: Msg) -> bool:
        subject = f"$KV.wishes.{_key(wish)}"
        try:
            self._wire.call(lambda link: link.purge("KV_wishes", _number(wish) + 1, subject))
        except Unreachable:
            return False
        return True

    def _put(self, where: api.StreamConfig, key: str, value: bytes | None) -> bool:
        try:
            self._wire.call(lambda link: link.put(where, key, value))
        except Unreachable:
            return False
        return True

    def _listen(self, name: str) -> None:
        async def listen(link: Link) -> None:
            await link.ensure(_ORDERS)
            await link.tail("KV_orders", [f"$KV.orders.{name}"], self._ordered, newest=True, room=always)

        if name not in self._ends:
            self._ends[name] = self._wire.keep(listen)

    def _ordered(self, message: Msg) -> None:
        orders = decode_or_none(self._order_kind, message.data)
        if orders is not None:
            with self._guard:
                self._orders[_key(message)] = orders


def of_agents(wire: Wire, lease_s: float | None = None) -> Registrar[Heartbeat, AgentOrders]:
    return Registrar(wire, Heartbeat, AgentOrders, lease_s)


def _key(message: Msg) -> str:
    """Returns the key of a message of a bucket; one that was asked for directly has its subject in a header."""
    subject = (message.headers or {}).get("Nats-Subject") or message.subject
    return subject.split(".", 2)[2]


def _number(message: Msg) -> int:
    """Returns the number, in its bucket, of a message that was asked for directly."""
    return int((message.headers or {})["Nats-Sequence"])
