"""Who is alive at a site, what each shall do, and what people wish: three key-value buckets.

All of it is hints. What is true about zones and pages, the manifest chains say.
"""

import json
import secrets
import threading
from collections.abc import Callable
from typing import Any

from nats.aio.msg import Msg
from nats.js import api

from gossamer.cluster.jetstream import NO_STREAM, Link, Take, always, bucket, facts
from gossamer.cluster.nats_connection import Unreachable, Wire

Facts = dict[str, Any]
_ORDERS, _WISHES = bucket("orders"), bucket("wishes")


class Registrar:
    """`lease_s` is how long an agent counts as alive after its last report; None for those who only ask."""

    def __init__(self, wire: Wire, lease_s: float | None = None) -> None:
        self._wire = wire
        self._has_lease = lease_s is not None
        self._agents = bucket("agents", lease_s)
        self._guard = threading.Lock()
        self._orders: dict[str, Facts] = {}
        self._wishes: dict[str, tuple[int, Facts]] = {}  # with their numbers in the bucket
        self._taken: set[str] = set()
        self._ends: dict[str, Callable[[], None]] = {}

    def close(self) -> None:
        for end in self._ends.values():
            end()

    def report(self, name: str, facts: Facts) -> bool:
        """I am alive; False: nobody heard it."""
        return self._put(self._agents, name, facts)

    def leave(self, name: str) -> bool:
        """As if the lease had run out."""
        return self._put(self._agents, name, None)

    def alive(self) -> dict[str, Facts] | None:
        """Who reported within the lease. None: the server does not answer, and nothing is known."""

        async def ask(link: Link) -> list[Msg]:
            if self._has_lease:
                await link.ensure(self._agents)
            return await link.newest("KV_agents", "$KV.agents.>")

        try:
            found = self._wire.call(ask)
        except Unreachable:
            return None
        return {_key(message): said for message in sorted(found, key=_key) if (said := facts(message)) is not None}

    def order(self, name: str, orders: Facts) -> bool:
        return self._put(_ORDERS, name, orders)

    def orders(self, name: str) -> Facts | None:
        """The last that have come; the first call begins to listen."""
        self._listen(_ORDERS, name, self._ordered)
        with self._guard:
            return self._orders.get(name)

    def wish(self, wish: Facts) -> bool:
        """For whoever leads the site; from any process."""
        return self._put(_WISHES, secrets.token_hex(16), wish)

    def take_wishes(self) -> list[Facts]:
        """Those that have come since the last time, each once; the first call begins to listen."""
        self._listen(_WISHES, ">", self._wished)
        with self._guard:
            new = sorted(((at, key) for key, (at, _) in self._wishes.items()))
        taken = [self._take(at, key) for at, key in new]
        return [wish for wish in taken if wish is not None]

    def _take(self, at: int, key: str) -> Facts | None:
        """Removed before it is granted: after a crash it does not come again."""
        try:
            self._wire.call(lambda link: link.purge("KV_wishes", at + 1, f"$KV.wishes.{key}"))
        except Unreachable:
            return None
        with self._guard:
            self._taken.add(key)
            return self._wishes.pop(key)[1]

    def _put(self, where: api.StreamConfig, key: str, value: Facts | None) -> bool:
        bucket_name = str(where.name).removeprefix("KV_")
        subject = f"$KV.{bucket_name}.{key}"
        data, headers = (json.dumps(value).encode(), None) if value is not None else (b"", {"KV-Operation": "DEL"})

        async def put(link: Link) -> int:
            try:
                return await link.send(subject, data, headers)
            except NO_STREAM:
                await link.ensure(where)
                return await link.send(subject, data, headers)

        try:
            self._wire.call(put)
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
        if (said := facts(message)) is not None:
            with self._guard:
                self._orders[_key(message)] = said

    def _wished(self, message: Msg) -> None:
        key, said = _key(message), facts(message)
        with self._guard:
            if said is not None and key not in self._taken:
                self._wishes[key] = (message.metadata.sequence.stream, said)


def _key(message: Msg) -> str:
    """Of a message of a bucket; one that was asked for directly has its subject in a header."""
    subject = (message.headers or {}).get("Nats-Subject") or message.subject
    return subject.split(".", 2)[2]
