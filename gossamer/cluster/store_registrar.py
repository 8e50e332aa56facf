"""`StoreRegistrar` is the registrar of a site that has nothing but a Store: who is alive, what each shall do, and what
people wish.

A report has one writer and replaces the one before it, and so do the orders of an agent. Nobody compares clocks: a
lease counts from when its reader saw the report change, by the reader's own monotonic clock. A wish has a number of its
own, by create-if-absent. All of it is hints. Only the manifest chains have the truth about zones and pages.
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.cluster.protocol import AgentOrders, Heartbeat, Wish, decode_or_none, encode
from gossamer.cluster.store_exchange import BROKEN

FOLDER = "registrar/"
_AGENTS, _ORDERS, _WISHES = f"{FOLDER}agents/", f"{FOLDER}orders/", f"{FOLDER}wishes/"
_LOOK_S = 2.5  # how often orders are looked for, and reports go out: each is a request that costs money
_AT_ONCE = 8
Reports = TypeVar("Reports")
Orders = TypeVar("Orders")


def put(store: Store, name: str, data: bytes) -> None:
    """Stores a file; it is durable on return."""
    store.put(name, data)
    store.settle()


def read(store: Store, name: str) -> bytes | None:
    """Returns what is there; None: nothing is."""
    try:
        return store.get(name)
    except FileNotFoundError:
        return None


def pace_s(lease_s: float | None) -> float:
    """Returns how long to wait between two reports, or two looks at them."""
    return min(_LOOK_S, (lease_s or 4 * _LOOK_S) / 4)


class StoreRegistrar(Generic[Reports, Orders]):
    """`reports` and `orders` are kinds of messages; others are ignored, as if they had not come. `lease_s` is how long
    a member counts as alive after the last report; None for those who only ask."""

    def __init__(
        self,
        store: Store,
        reports: type[Reports],
        orders: type[Orders],
        lease_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._report_kind, self._order_kind = store, reports, orders
        self._lease_s, self._clock = lease_s, clock or RealClock()
        self.report_s = pace_s(lease_s)
        self._seen: dict[str, tuple[bytes, float]] = {}  # by name: the report, and since when we have seen no other
        self._orders: dict[str, Orders | None] = {}  # of those whom we listen for
        self._read_s: dict[str, float] = {}  # when we last did
        self._taken: int | None = None  # the last wish that was taken
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="orders", daemon=True)
        self._pool = ThreadPoolExecutor(_AT_ONCE, "registrar")

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident:
            self._thread.join()
        self._pool.shutdown()

    def report(self, name: str, report: Reports) -> bool:
        """Reports that `name` is alive; False: it was not received, or we could not see whether there are orders. So
        nobody who has been replaced renews its lease."""
        with contextlib.suppress(*BROKEN):
            put(self._store, _AGENTS + name, encode(report))
            if name in self._orders:
                self._read(name)
            return True
        return False

    def leave(self, name: str) -> bool:
        """Removes `name`, as if its lease had run out."""
        with contextlib.suppress(*BROKEN):
            self._store.delete(_AGENTS + name)
            return True
        return False

    def alive(self) -> dict[str, Reports] | None:
        """Returns who reported within the lease. None: the store does not answer, and nothing is known."""
        try:
            found = dict(self._reports())
            for name in self._expired(found):
                self._store.delete(_AGENTS + name)
                del found[name]
        except BROKEN:
            return None
        reports = {name: decode_or_none(self._report_kind, data) for name, data in found.items()}
        return {name: report for name, report in reports.items() if report is not None}

    def _reports(self) -> Iterator[tuple[str, bytes]]:
        files = self._store.list(_AGENTS)
        for file, data in zip(files, self._pool.map(self._get, files), strict=True):
            if data is not None:
                yield file.removeprefix(_AGENTS), data

    def _expired(self, found: dict[str, bytes]) -> list[str]:
        now_s, before = self._clock.monotonic(), self._seen
        same = {name: before[name] for name, data in found.items() if name in before and before[name][0] == data}
        self._seen = {name: same.get(name, (data, now_s)) for name, data in found.items()}
        if self._lease_s is None:
            return []
        return [name for name, (_, since_s) in self._seen.items() if now_s - since_s > self._lease_s]

    def order(self, name: str, orders: Orders) -> bool:
        with contextlib.suppress(*BROKEN):
            put(self._store, _ORDERS + name, encode(orders))
            return True
        return False

    def orders(self, name: str) -> Orders | None:
        """Returns the last orders that have come; the first call begins to receive them."""
        if name not in self._orders:
            self._orders[name] = None
        if not self._thread.ident:
            self._thread.start()
        return self._orders[name]

    def _listen(self) -> None:
        while True:
            for name in list(self._orders):
                if self._clock.monotonic() - self._read_s.get(name, -1e9) >= self.report_s:
                    with contextlib.suppress(*BROKEN):
                        self._read(name)
            if self._closing.wait(self.report_s / 4):
                return

    def _read(self, name: str) -> None:
        now_s, data = self._clock.monotonic(), self._get(_ORDERS + name)
        orders = None if data is None else decode_or_none(self._order_kind, data)
        self._read_s[name] = now_s
        if orders is not None:
            self._orders[name] = orders

    # Wishes: as the crawl's inbox, the last one that was taken stays, so that no number comes again

    def wish(self, wish: Wish) -> bool:
        """Sends a wish to the process that leads the site; from any process."""
        with contextlib.suppress(*BROKEN):
            while True:
                number = self._last_wish() + 1
                # A higher number means that ours may have been taken, and deleted, before: then it is below the mark.
                if self._store.create(_wish(number), encode(wish)) and self._last_wish() == number:
                    return True
        return False

    def take_wishes(self) -> list[Wish]:
        """Returns those that have come since the last time, each once, in order."""
        taken: list[bytes] = []
        with contextlib.suppress(*BROKEN):
            if self._taken is None:
                self._taken = self._first_wish() - 1
            while (data := self._get(_wish(self._taken + 1))) is not None:
                self._taken += 1
                put(self._store, _wish(self._taken), b"")  # before it is granted: after a crash it does not come again
                self._store.delete(_wish(self._taken - 1))
                taken.append(data)
        wishes = [decode_or_none(Wish, data) for data in taken if data]
        return [wish for wish in wishes if wish is not None]

    def _numbers(self) -> list[int]:
        return [int(name.rpartition("/")[2]) for name in self._store.list(_WISHES)]

    def _last_wish(self) -> int:
        return max(self._numbers(), default=0)

    def _first_wish(self) -> int:
        return min(self._numbers(), default=1)

    def _get(self, name: str) -> bytes | None:
        return read(self._store, name)


def of_agents(store: Store, lease_s: float | None = None) -> StoreRegistrar[Heartbeat, AgentOrders]:
    return StoreRegistrar(store, Heartbeat, AgentOrders, lease_s)


def _wish(number: int) -> str:
    return f"{_WISHES}{number:08d}"
