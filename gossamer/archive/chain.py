"""This module is the commit protocol: it alone decides what is part of the archive.

Each agent has a chain of numbered manifests. What the newest one names is the truth; everything else is being written,
or rubbish.

| step | what | after a crash here |
|---|---|---|
| 1 | close and store the round's files (`Store.put`), | unnamed files, swept by `open`; |
|   | the outbox messages among them | the round is fetched again |
| 2 | create manifest number + 1, if absent | as 1 |
| 3 | publish the outbox messages; each stays named until | published again by `open`; |
|   | its receiver has committed it | the receiver's high-water mark ignores what it has |
| 4 | acknowledge the inbox messages that the round applied | acknowledged again by `open`; |
|   | | if delivered meanwhile, our own mark ignores them |
| 5 | delete what the manifest no longer names | swept by `open`: the manifest says what that was |

Sweeping deletes nothing else. Any other file of the chain that no manifest names means that manifests were lost: then
nothing is deleted, and nothing opened (`archive/damage.py`).

Taking a chain over is creating its next number with a higher epoch. Of two who try one succeeds; the other
is `Deposed`. Files are named by `Chain.label`: the agent, and the number that will commit them. The take-over
uses a number up, so that a deposed owner that still writes can never touch a file of its successor.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from gossamer.archive.bundle import bundled, group_of
from gossamer.archive.damage import check_files, check_repaired, check_strays, unnamed
from gossamer.archive.manifest import (
    BUNDLE,
    Changes,
    Delta,
    Files,
    Message,
    OutboxEntry,
    Snapshot,
    file_name,
    file_names,
    load,
    load_best,
    number_of,
    sealed,
)
from gossamer.archive.manifest import chains as chains
from gossamer.archive.state import AgentState, replace, settled
from gossamer.archive.store import Store, where
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges
from gossamer.errors import ArchiveError, Deposed

FULL_EVERY = 32
_EPOCHS = 100  # the last ones, of which the state says with which number they began


class Publisher(Protocol):
    """`Publisher` is the part of the Exchange port that the chain needs."""

    def publish(self, message: Message) -> bool: ...

    def acknowledge(self, stream: str, number: int) -> None: ...

    def confirmed(self, stream: str) -> int: ...

    def lost(self) -> bool: ...


class Chain:
    """`Chain` is an agent's chain, opened to be continued."""

    def __init__(self, store: Store, snapshot: Snapshot, full: int) -> None:
        self._store = store
        self._at = snapshot
        self._full = full  # number of the newest full manifest
        self._full_before = 0
        # The first manifest that may still be there: so they can be deleted by name, and need not be listed.
        self._oldest = min(map(number_of, file_names(store, snapshot.agent)), default=1)
        self._published: set[str] = set()  # names of our outbox that are known to be published

    @classmethod
    def open(cls, store: Store, agent: str, exchange: Publisher, zones: Iterable[int] = range(ZONES_IN_ALL)) -> "Chain":
        """Goes on after the newest manifest, and finishes what a crash left undone. `zones` are for a new chain."""
        snapshot, full = load(store, agent)
        if not snapshot.number:
            snapshot = replace(snapshot, ranges=as_ranges(zones))
        chain = cls(store, snapshot, full)
        chain._recover(exchange)
        return chain

    @classmethod
    def take_over(
        cls,
        store: Store,
        agent: str,
        exchange: Publisher,
        now_s: float,
        quiet_until_s: float = 0.0,
        zones: Iterable[int] = (),
    ) -> "Chain":
        """Continues the chain of another owner, who is Deposed at its next commit, and may go on fetching until
        `quiet_until_s`. `zones` are for a chain that does not exist yet."""
        chain = cls(store, *load(store, agent))
        chain._create(taken_over(chain._at, now_s, quiet_until_s, zones), None)
        chain._recover(exchange)
        return chain

    @staticmethod
    def read(store: Store, agent: str) -> Snapshot:
        """Returns what is committed, also while another process goes on committing.

        Files that it names may vanish (merged) while they are read: then read again, there is a newer one.
        """
        return load(store, agent)[0]

    @property
    def agent(self) -> str:
        return self._at.agent

    @property
    def number(self) -> int:
        return self._at.number

    @property
    def round(self) -> int:
        """Returns the number that the next commit will have; names of its files contain it."""
        return self._at.number + 1

    @property
    def label(self) -> str:
        """Returns what names of the next commit's files contain: no two agents, or rounds, have the same."""
        return f"{self.agent}-{self.round:08d}"

    def message(self, to: str, data: bytes, kind: str) -> Message:
        """Makes a message for another agent, to go out with the next commit."""
        return Message(self.agent, self.round, 0, to, data, kind)

    @property
    def snapshot(self) -> Snapshot:
        return self._at

    @property
    def epoch(self) -> int:
        return self._at.epoch

    @property
    def zones(self) -> tuple[int, ...]:
        return self._at.zones

    @property
    def files(self) -> Files:
        return self._at.files

    @property
    def marks(self) -> dict[str, int]:
        return self._at.marks

    @property
    def state(self) -> AgentState:
        return self._at.state

    def commit(
        self,
        changes: Changes,
        *,
        state: AgentState | None = None,
        marks: Mapping[str, int],
        outbox: Sequence[Message],
        exchange: Publisher,
        applied: Sequence[tuple[str, int]],
        now_s: float,
        zones: Iterable[int] | None = None,
    ) -> None:
        """Makes a round part of the archive.

        `state` is all of it, by default as it was; `marks` are updates. `applied` has (stream, number) of the inbox;
        messages of the `outbox` need sender, number, part, to, data and kind only. `zones` are what the agent owns from
        now on, if that changes.
        """
        old = self._at
        numbered, sent = _numbered(outbox, old.sent)
        messages = bundled(numbered)
        waiting = tuple(entry for entry in old.outbox if not _is_confirmed(entry.message, exchange))
        named = tuple(OutboxEntry(_outbox_name(b), len(b.data), replace(b, data=b"")) for b in messages)
        for entry, message in zip(named, messages, strict=True):
            self._store.put(entry.name, message.data)
        delta = Delta(
            number=old.number + 1,
            time_s=now_s,
            added=changes.added,
            removed=changes.removed,
            zones=None if zones is None else as_ranges(zones),
            marks=dict(marks),
            sent=sent,
            state=old.state if state is None else settled(state),
            outbox=waiting + named,
            applied=tuple(applied),
        )
        new = old.after(delta)
        sums = {name: self._store.checksum(name) for name in sorted(new.names() - old.names())}
        self._create(replace(new, sums=new.sums | sums), replace(delta, sums=sums))
        self._finish(exchange, {entry.name: message.data for entry, message in zip(named, messages, strict=True)})
        added = {name for names in changes.added.values() for name in names}
        self._delete((old.names() | added) - self._at.names())

    def _create(self, new: Snapshot, delta: Delta | None) -> None:
        """Does step 2, with a full manifest when it is time or there is no delta."""
        full = delta is None or not self._full or new.number - self._full >= FULL_EVERY
        document = new if full or delta is None else delta
        if not self._store.create(file_name(new.agent, new.number), sealed(document)):
            raise Deposed(
                f"manifest {new.number} of {new.agent} exists in {where(self._store)}: another process has taken this "
                "crawl over, and goes on with all that was committed; let only one run"
            )
        self._at = new
        if full:
            self._full_before, self._full = self._full, new.number

    def publish(self, exchange: Publisher, fresh: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """Does step 3; whatever a link that is down did not take is tried again the next time. `fresh` has data that
        need not be read again."""
        self._published &= set() if exchange.lost() else {entry.name for entry in self._at.outbox}
        for entry in self._at.outbox:
            if entry.name not in self._published and not _is_confirmed(entry.message, exchange):
                data = fresh[entry.name] if entry.name in fresh else self._store.get(entry.name)
                if not exchange.publish(replace(entry.message, data=data)):
                    return
                self._published.add(entry.name)

    def backlog(self, exchange: Publisher) -> int:
        """Returns the bytes that others have not committed yet; of a bundle, by how many of its receivers have not."""
        total = 0
        for entry in self._at.outbox:
            streams = entry.message.streams
            waiting = sum(entry.message.number > exchange.confirmed(stream) for stream in streams)
            total += entry.size * waiting // len(streams)
        return total

    def _finish(self, exchange: Publisher, fresh: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """Does steps 3 and 4; doing them again is harmless."""
        self.publish(exchange, fresh)
        for stream, number in self._at.applied:
            exchange.acknowledge(stream, number)

    def _delete(self, names: Iterable[str]) -> None:
        """Does step 5. The last two full manifests and what follows them stay, for those who are reading."""
        gone = sorted(names)
        if self._full == self.number:
            gone += [file_name(self.agent, number) for number in range(self._oldest, self._full_before)]
            self._oldest = max(self._oldest, self._full_before)
        if gone:
            self._store.delete(*gone)

    def _recover(self, exchange: Publisher) -> None:
        """Finishes what a crash left undone: it first looks at everything, then acts."""
        check_repaired(self._store)
        rubbish, strays = unnamed(self._store, self._at)
        check_strays(self._store, self._at, strays)
        check_files(self._store, self._at)
        is_alone = chains(self._store) <= {self.agent} and len(self.zones) == ZONES_IN_ALL
        scratch = [name for name in self._store.list("tmp/") if is_alone or _carries(name, self.agent)]
        if rubbish or scratch:
            self._store.delete(*rubbish, *scratch)
        self._finish(exchange)


def taken_over(old: Snapshot, now_s: float, quiet_until_s: float = 0.0, zones: Iterable[int] = ()) -> Snapshot:
    """Returns the snapshot with which another owner continues a chain."""
    number, epoch = old.number + 1, old.epoch + 1
    epochs = dict(list(old.state.epochs.items())[-_EPOCHS:]) | {epoch: number}
    state = replace(old.state, epochs=epochs, quiet_until_s=quiet_until_s or old.state.quiet_until_s)
    owned = old.ranges if old.number else as_ranges(zones)
    return replace(old, number=number, epoch=epoch, time_s=now_s, ranges=owned, state=state)


def snapshots(store: Store) -> dict[str, Snapshot]:
    """Returns what each agent has committed, by agent."""
    return {agent: Chain.read(store, agent) for agent in sorted(chains(store))}


def contents(store: Store, kind: str) -> list[bytes]:
    """Returns the files of a kind, of all agents. Another agent may merge its own while they are read: then it names
    others."""
    names: list[str] = []
    while True:
        before, names = names, [name for at in snapshots(store).values() for name in at.files.get(kind, [])]
        try:
            return [store.get(name) for name in names]
        except FileNotFoundError:
            if names == before:
                raise


def is_import(store: Store) -> bool:
    """Returns whether `gossamer import` made this archive: it has pages, and no index of them."""
    found = [load_best(store, agent).files for agent in chains(store)]
    has_index = any(names for files in found for kind, names in files.items() if kind.startswith("index."))
    return not has_index and any(files.get("pages") for files in found)


def _is_confirmed(message: Message, exchange: Publisher) -> bool:
    return all(message.number <= exchange.confirmed(stream) for stream in message.streams)


def _numbered(outbox: Sequence[Message], sent: Mapping[str, int]) -> tuple[list[Message], dict[str, int]]:
    """Returns the messages with their count of parts and the number before them, and the last number of each stream."""
    parts = Counter((message.stream, message.number) for message in outbox)
    previous: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    for stream, number in sorted(parts):
        previous[stream, number] = last.get(stream, sent.get(stream, 0))
        if number <= previous[stream, number]:
            raise ArchiveError(f"message {number} of {stream} was sent before; numbers must rise")
        last[stream] = number
    found = sorted(outbox, key=lambda message: (message.stream, message.number, message.part))
    keys = [(message.stream, message.number) for message in found]
    return [
        replace(message, parts=parts[key], previous=previous[key]) for message, key in zip(found, keys, strict=True)
    ], last


def _outbox_name(message: Message) -> str:
    to = f"={group_of(message.to)}" if message.kind == BUNDLE else message.to or "any"
    return f"outbox/{to}/{message.sender}-{message.number:012d}-{message.part:04d}.{message.kind}"


def _carries(name: str, agent: str) -> bool:
    """Returns whether a scratch file has the agent's name; where several share an archive, only those are swept."""
    return re.search(rf"(?:^|[/+-]){re.escape(agent)}-\d{{8,}}", name) is not None
