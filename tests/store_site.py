"""Agents that share nothing but a Store, for tests: their chains, as bare as the Exchange needs them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gossamer.archive.checksums import of_bytes
from gossamer.archive.manifest import ANY, Message, OutboxEntry, Snapshot, file_name, sealed
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.cluster.store_exchange import StoreExchange


class Network:
    """The Exchange port over many StoreExchanges. What is published or acknowledged becomes a manifest of its agent,
    and `pending` looks first. Manifests name what their receivers have not confirmed, in the order in which it came."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._agents: dict[str, StoreExchange] = {}
        self._at: dict[str, Snapshot] = {}

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        for exchange in self._agents.values():
            exchange.close()

    def publish(self, message: Message) -> bool:
        at = self._at.get(message.sender, Snapshot(message.sender))
        name = f"outbox/{message.sender}-{message.number}-{message.part}-{message.to}"
        if all(entry.name != name for entry in at.outbox):
            self._store.put(name, message.data)
            entry = OutboxEntry(name, len(message.data), replace(message, data=b""))
            self._commit(replace(at, outbox=(*at.outbox, entry), sums={**at.sums, name: of_bytes(message.data)}))
        return self.agent(message.sender).publish(message)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        """An agent's marks are those of its last commit."""
        if dict(marks) != self._at.get(to, Snapshot(to)).marks:
            self._commit(replace(self._at.get(to, Snapshot(to)), marks=dict(marks)))
        exchange = self.agent(to)
        exchange.pending(to, marks)
        exchange.look()
        return exchange.pending(to, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        to = stream.partition(">")[2] or "a3"
        at = self._at.get(to, Snapshot(to))
        self._commit(replace(at, marks={**at.marks, stream: max(number, at.marks.get(stream, 0))}))
        self.agent(to).acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        exchange = self.agent(stream.partition(">")[0])
        exchange.look()
        return exchange.confirmed(stream)

    def lost(self) -> bool:
        return False

    def agent(self, name: str) -> StoreExchange:
        if name not in self._agents:
            self._agents[name] = StoreExchange(self._store, name)
        return self._agents[name]

    def _commit(self, at: Snapshot) -> None:
        self._at[at.agent] = at = replace(at, number=at.number + 1)
        assert at.agent != ANY
        assert self._store.create(file_name(at.agent, at.number), sealed(at))


class Mount:
    """A directory that is mounted, and may be gone for a while: every access then fails."""

    def __init__(self, folder: Path) -> None:
        self.path, self._real = folder / "crawl", folder / "real"
        self._real.mkdir()
        self.path.symlink_to(self._real)

    @contextmanager
    def gone(self) -> Iterator[None]:
        self.path.unlink()
        self.path.symlink_to(self.path)  # to itself: whatever is asked of it fails
        try:
            yield
        finally:
            self.path.unlink()
            self.path.symlink_to(self._real)
