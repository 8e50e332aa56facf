"""`StoreExchange` is the Exchange of agents that share nothing but a Store: their manifests are the exchange.

A message is in the store as soon as its sender's manifest names it, and it stays there until the receiver's manifest
has a mark that is not below its number. So publishing and acknowledging write nothing. A thread follows the manifests
of the others. Their next number is known: that is one `get` for each agent and look. It looks less often at an agent
that is silent. A listing, now and then, finds agents that are new, and shows if we fell so far behind that
the next number is deleted.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from gossamer.archive.bundle import unbundled
from gossamer.archive.checksums import Checksum, of_bytes
from gossamer.archive.manifest import (
    ANY,
    BUNDLE,
    MANIFEST,
    PROTOCOL,
    Message,
    OutboxEntry,
    Snapshot,
    as_delta,
    file_name,
    load,
    number_of,
    read_document,
)
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.clocks import Clock, RealClock
from gossamer.crawl.inbox import Aside, in_order
from gossamer.errors import GossamerError, Unreadable
from gossamer.sharing.exchange import InProcess

BUFFER_BYTES = 64 << 20
LEAST_S, MOST_S = 0.2, 5.0  # between two looks at an agent
SILENCE = 0.25  # of the time that an agent has been silent: a message comes so much later than it might at most
LIST_S = 60.0
_AT_ONCE = 8  # requests under way: on an object store each takes 10 to 100 ms
BROKEN = (OSError, GossamerError)  # what a store raises that cannot be reached now

Key = tuple[str, int, int]  # of a message: stream, number, part


class _Peer(NamedTuple):
    """`_Peer` is another agent's chain, as far as we have read it."""

    name: str
    number: int = 0
    marks: Mapping[str, int] = {}
    outbox: tuple[OutboxEntry, ...] = ()
    sums: Mapping[str, Checksum] = {}  # of the outbox


class StoreExchange:
    """This exchange is for one agent. `others` returns the agents that its site knows of now. Nothing is received
    before `follow` or `look`."""

    def __init__(
        self,
        store: Store,
        agent: str,
        others: Callable[[], Iterable[str]] = tuple,
        clock: Clock | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        aside: Aside | None = None,
    ) -> None:
        self._store, self._agent, self._others = store, agent, others
        self._clock, self._limit, self._aside = clock or RealClock(), buffer_bytes, aside or Aside(agent)
        self._guard = threading.Lock()
        self._own = InProcess()  # what we send to ourselves, for zones that are on their way to us
        self._peers: dict[str, _Peer] = {}
        self._changed_s: dict[str, float] = {}  # by agent: when it last committed, as we saw it
        self._due_s: dict[str, float] = {}  # by agent: when we look at it again
        self._list_s = self._clock.monotonic()  # when we list again
        self._met: set[str] = set()  # agents that we have sent something to
        self._marks: dict[str, int] | None = None  # of our last commit; None: not known yet
        self._held: dict[Key, Message] = {}
        self._fetched: set[str] = set()  # files whose messages we hold, or have applied
        self._refused: set[str] = set()  # files of messages that we cannot take
        self._failure: BaseException | None = None
        self._is_closing, self._wake = False, threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, f"exchange-{agent}")
        self._thread = threading.Thread(target=self._run, name=f"follow-{agent}", daemon=True)

    def follow(self) -> "StoreExchange":
        """Begins to follow the others, in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        self._is_closing = True
        self._wake.set()
        if self._thread.ident:
            self._thread.join()
        self._pool.shutdown()

    # The port

    def publish(self, message: Message) -> bool:
        if message.to == self._agent:
            return self._own.publish(message)
        if message.to != ANY:
            with self._guard:
                self._met.update(message.to.split(","))
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        if self._failure is not None:
            raise self._failure
        with self._guard:
            is_news = self._marks is None or any(self._marks.get(stream, 0) < marks[stream] for stream in marks)
            self._marks = dict(marks)
            self._forget()
            held = [message for message in self._held.values() if message.to in (to, ANY)]
        if is_news:
            self._wake.set()  # there may be room for more
        return in_order(held, marks) + self._own.pending(to, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        self._own.acknowledge(stream, number)
        with self._guard:
            self._marks = {**(self._marks or {}), stream: max(number, (self._marks or {}).get(stream, 0))}
            self._forget()
        self._wake.set()

    def confirmed(self, stream: str) -> int:
        to = stream.partition(">")[2]
        if to == self._agent:
            return self._own.confirmed(stream)
        peers = [self._peers[to]] if to in self._peers else [] if to else list(self._peers.values())
        return max((peer.marks.get(stream, 0) for peer in peers), default=0)

    def lost(self) -> bool:
        return False

    def _forget(self) -> None:
        """Frees what our commit has. The caller holds the guard."""
        marks = self._marks or {}
        for key in [key for key in self._held if key[1] <= marks.get(key[0], 0)]:
            del self._held[key]

    # Following

    def _run(self) -> None:
        while not self._is_closing:
            self._wake.clear()
            pause_s = MOST_S
            try:
                self.look(self._clock.monotonic())
                with self._guard:
                    pause_s = min(self._due_s.values(), default=self._list_s) - self._clock.monotonic()
            except BROKEN:
                pause_s = 1.0  # whoever commits finds out, and says what is wrong
            except Exception as error:
                self._failure = error
                return
            self._wake.wait(min(MOST_S, max(pause_s, 0.0)))

    def look(self, now_s: float | None = None) -> None:
        """Reads what is due at this time; None: everything."""
        if now_s is None or now_s >= self._list_s:
            self._list()
        with self._guard:
            names = ({*self._peers, *self._met, *self._others()} - {self._agent}) | {*self._due_s}
        due = [name for name in sorted(names) if now_s is None or now_s >= self._due_s.get(name, 0.0)]
        for peer in self._pool.map(self._read, due):
            self._saw(peer)
        self._fetch()

    def _list(self) -> None:
        """Finds agents that are new, and chains of which the number that we would read next is deleted."""
        lowest: dict[str, int] = {}
        for name in self._store.list("manifest/"):
            if MANIFEST.search(name):
                lowest.setdefault(name.split("/")[1], number_of(name))
        for name, number in lowest.items():
            known = self._peers.get(name)
            if name != self._agent and (known is None or known.number + 1 < number):
                self._saw(_peer(load(self._store, name)[0]))
        self._list_s = self._clock.monotonic() + LIST_S

    def _read(self, name: str) -> _Peer:
        """Returns what the agent has committed by now."""
        peer = self._peers.get(name) or _Peer(name)
        while True:
            try:
                found = read_document(self._store, file_name(name, peer.number + 1))
            except FileNotFoundError:
                return peer
            if isinstance(found, Snapshot):
                peer = _peer(found)
            else:
                delta = as_delta(found, Snapshot(name))
                names = {entry.name for entry in delta.outbox}
                sums = {name: value for name, value in {**peer.sums, **delta.sums}.items() if name in names}
                peer = _Peer(name, delta.number, {**peer.marks, **delta.marks}, delta.outbox, sums)

    def _saw(self, peer: _Peer) -> None:
        now_s, before = self._clock.monotonic(), self._peers.get(peer.name)
        if before is None or before.number != peer.number:
            self._changed_s[peer.name] = now_s
        silent_s = now_s - self._changed_s[peer.name]
        with self._guard:
            self._peers[peer.name] = peer
            self._due_s[peer.name] = now_s + min(MOST_S, max(LEAST_S, SILENCE * silent_s))

    # Receiving

    def _fetch(self) -> None:
        """Reads the messages for us, as many as there is room for."""
        with self._guard:
            wanted = self._wanted()
        sums = {entry.name: peer.sums.get(entry.name) for peer in self._peers.values() for entry in peer.outbox}
        self._fetched &= sums.keys()
        for entry, data in zip(wanted, self._pool.map(self._data, wanted), strict=True):
            if data is None:
                continue
            if (known := sums[entry.name]) is not None and of_bytes(data) != known:
                self._refuse(entry, "its data are damaged: see `gossamer verify`")
                continue
            try:
                found = unbundled(replace(entry.message, data=data))
            except Unreadable as error:
                self._refuse(entry, str(error))
                continue
            with self._guard:
                self._fetched.add(entry.name)
                for message in found:
                    if message.to in (self._agent, ANY):
                        self._held[message.stream, message.number, message.part] = message
                self._forget()

    def _wanted(self) -> list[OutboxEntry]:
        """Returns what to read now. The first number of each stream always: others may wait for it."""
        if self._marks is None:
            return []
        room = self._limit - sum(len(message.data) for message in self._held.values())
        found: list[OutboxEntry] = []
        for entries in self._streams(self._marks).values():
            for entry in entries:
                message = entry.message
                if message.protocol > PROTOCOL:
                    self._refuse(entry, f"this gossamer reads versions of the protocol up to {PROTOCOL}")
                    break
                if entry.name in self._fetched:
                    continue
                if room <= 0 and message.number > entries[0].message.number:
                    break
                room -= entry.size
                found.append(entry)
        return found

    def _refuse(self, entry: OutboxEntry, why: str) -> None:
        """Refuses a message. It stays where it is; what comes behind it in its stream waits for it."""
        if entry.name not in self._refused:
            self._refused.add(entry.name)
            self._aside.refuse(why, sender=entry.message.sender, to=entry.message.to)

    def _streams(self, marks: Mapping[str, int]) -> dict[str, list[OutboxEntry]]:
        """Returns the messages to us above the marks, by stream, in order."""
        found: dict[str, list[OutboxEntry]] = {}
        for peer in self._peers.values():
            for entry in peer.outbox:
                message = entry.message
                to = message.to.split(",") if message.kind == BUNDLE else [message.to]
                if self._agent not in to and ANY not in to:
                    continue
                stream = f"{message.sender}>{self._agent}" if ANY not in to else message.sender
                if message.number > marks.get(stream, 0):
                    found.setdefault(stream, []).append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: (entry.message.number, entry.message.part))
        return found

    def _data(self, entry: OutboxEntry) -> bytes | None:
        try:
            return self._store.get(entry.name)
        except FileNotFoundError:  # its sender has read of our commit, and deleted it
            return None


def _peer(at: Snapshot) -> _Peer:
    sums = {entry.name: at.sums[entry.name] for entry in at.outbox if entry.name in at.sums}
    return _Peer(at.agent, at.number, at.marks, at.outbox, sums)
