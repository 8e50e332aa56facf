"""The commit protocol: the only module that decides what is part of the archive.

Each agent has a chain of numbered manifests. What the newest one says is the truth; everything else is being
written, or rubbish.

| step | what | after a crash here |
|---|---|---|
| 1 | close and sync the round's files (`Store.put`), | unnamed files, swept by `open`; |
|   | the outbox batches among them | the round is fetched again |
| 2 | create manifest number + 1, if absent | as 1 |
| 3 | publish the outbox batches; each stays named until | published again by `open`; |
|   | its receiver has committed it | the receiver's high-water mark ignores what it has |
| 4 | acknowledge the inbox batches that the round applied | acknowledged again by `open`; |
|   | | if delivered meanwhile, our own mark ignores them |
| 5 | delete what the manifest no longer names | swept by `open` |

Taking a chain over is creating its next number with a higher epoch. Of two who try one succeeds; the other
is `Deposed`. Files are named by `Chain.label`: the agent, and the number that will commit them. The take-over
uses a number up, so that a deposed owner that still writes can never touch a file of its successor.
"""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gossamer.archive.store import Store
from gossamer.columns import ZONE_BITS
from gossamer.errors import ArchiveError, Deposed

Files = dict[str, list[str]]  # by kind: "warc", "visits", "index.page.run", ...

ANY = ""  # the receiver of batches that are for whoever reads them: seeds
# Kinds of batches.
LINKS, ABROAD, SEEDS, NEWS, ZONES = "links", "abroad", "seeds", "news", "zones"
ZONES_IN_ALL = 1 << ZONE_BITS
FULL_EVERY = 32
_SWEPT = ("warc/", "cdxj/", "tables/", "index/", "outbox/", "handover/", "tmp/")
_ATTEMPTS = 10
_MANIFEST = re.compile(r"/\d{8,}\.json$")


@dataclass(frozen=True, slots=True)
class Batch:
    """One part of what one agent says to another in a round; `Chain.commit` fills in `parts` and `previous`."""

    sender: str
    number: int
    part: int
    to: str
    data: bytes
    kind: str = LINKS
    parts: int = 1
    previous: int = 0  # the number before this one in its stream: who has not applied that one must wait

    @property
    def stream(self) -> str:
        return self.sender if self.to == ANY else f"{self.sender}>{self.to}"


class Letter(NamedTuple):
    """A batch of the outbox: where its data is, and how long that is."""

    name: str
    size: int
    batch: Batch  # without its data


class Publisher(Protocol):
    """What the chain needs of the Exchange port."""

    def publish(self, batch: Batch) -> bool: ...

    def acknowledge(self, stream: str, number: int) -> None: ...

    def confirmed(self, stream: str) -> int: ...

    def lost(self) -> bool: ...


@dataclass
class Changes:
    """Files that a commit adds to the archive and takes out of it, by kind."""

    added: Files = field(default_factory=dict)
    removed: Files = field(default_factory=dict)

    def __or__(self, other: "Changes") -> "Changes":
        return Changes(_joined(self.added, other.added), _joined(self.removed, other.removed))

    def __bool__(self) -> bool:
        return any(self.added.values()) or any(self.removed.values())


@dataclass(frozen=True)
class Snapshot:
    """What one manifest says, together with those before it."""

    agent: str
    number: int = 0
    epoch: int = 1
    time_s: float = 0.0  # when it was committed
    zones: tuple[int, ...] = ()
    files: Files = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)  # stream: last number applied
    sent: dict[str, int] = field(default_factory=dict)  # stream: last number published
    state: dict[str, Any] = field(default_factory=dict)
    outbox: tuple[Letter, ...] = ()  # what receivers may not have committed yet
    applied: tuple[tuple[str, int], ...] = ()

    def after(self, changes: Changes, news: Mapping[str, Any]) -> "Snapshot":
        """The next one. `news` has the fields that are new; marks, sent and state are updates."""
        fields = dict(news)
        for name in ("marks", "sent", "state"):
            fields[name] = {**getattr(self, name), **fields.get(name, {})}
        return dataclasses.replace(self, files=_changed(self.files, changes), **fields)

    def names(self) -> set[str]:
        return {name for names in self.files.values() for name in names} | {letter.name for letter in self.outbox}


class Chain:
    """An agent's chain, opened to be continued."""

    def __init__(self, store: Store, snapshot: Snapshot, full: int) -> None:
        self._store = store
        self._at = snapshot
        self._full = full  # number of the newest full manifest
        self._full_before = 0
        self._published: set[str] = set()  # names of our outbox that are known to be published

    @classmethod
    def open(cls, store: Store, agent: str, exchange: Publisher, zones: Iterable[int] = range(ZONES_IN_ALL)) -> "Chain":
        """Go on after the newest manifest; finish what a crash left undone. `zones` are for a new chain."""
        snapshot, full = _load(store, agent)
        if not snapshot.number:
            snapshot = dataclasses.replace(snapshot, zones=tuple(zones))
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
        state: Mapping[str, Any] | None = None,
        zones: Iterable[int] = (),
    ) -> "Chain":
        """Continue the chain of another owner, who is Deposed at its next commit; `state` is an update, `zones` are
        for a chain that nobody has begun."""
        chain = cls(store, *_load(store, agent))
        old = chain._at
        if not old.number:
            old = dataclasses.replace(old, zones=tuple(zones))
        news = {"number": old.number + 1, "epoch": old.epoch + 1, "time_s": now_s, "state": dict(state or {})}
        chain._create(old.after(Changes(), news), {})
        chain._recover(exchange)
        return chain

    @staticmethod
    def read(store: Store, agent: str) -> Snapshot:
        """What is committed, also while another process goes on committing.

        Files that it names may vanish (merged) while they are read: then read again, there is a newer one.
        """
        return _load(store, agent)[0]

    @property
    def agent(self) -> str:
        return self._at.agent

    @property
    def number(self) -> int:
        return self._at.number

    @property
    def round(self) -> int:
        """The number that the next commit will have; names of its files contain it."""
        return self._at.number + 1

    @property
    def label(self) -> str:
        """What names of the next commit's files contain: no two agents, or rounds, have the same."""
        return f"{self.agent}-{self.round:08d}"

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
    def state(self) -> dict[str, Any]:
        return self._at.state

    def commit(
        self,
        changes: Changes,
        *,
        state: Mapping[str, Any],
        marks: Mapping[str, int],
        outbox: Sequence[Batch],
        exchange: Publisher,
        applied: Sequence[tuple[str, int]],
        now_s: float,
        zones: Iterable[int] | None = None,
    ) -> None:
        """Make a round part of the archive.

        `state` and `marks` are updates: keys not given keep their values. `applied` has (stream, number) of
        the inbox; batches of the `outbox` need sender, number, part, to, data and kind only. `zones` are what
        the agent owns from now on, if that changes.
        """
        old = self._at
        batches, sent = _numbered(outbox, old.sent)
        waiting = tuple(letter for letter in old.outbox if not _is_confirmed(letter.batch, exchange))
        named = tuple(Letter(_outbox_name(b), len(b.data), dataclasses.replace(b, data=b"")) for b in batches)
        for letter, batch in zip(named, batches, strict=True):
            self._store.put(letter.name, batch.data)
        news: dict[str, Any] = {
            "number": old.number + 1,
            "time_s": now_s,
            "state": json.loads(_json(dict(state))),  # as `open` will read it, and the caller's no longer
            "marks": dict(marks),
            "sent": sent,
            "outbox": waiting + named,
            "applied": tuple(applied),
        }
        if zones is not None:
            news["zones"] = tuple(sorted(zones))
        self._create(old.after(changes, news), {"added": changes.added, "removed": changes.removed, **news})
        self._finish(exchange)
        added = {name for names in changes.added.values() for name in names}
        self._delete((old.names() | added) - self._at.names())

    def _create(self, new: Snapshot, delta: dict[str, Any]) -> None:
        """Step 2: a full manifest when it is time or there is no delta."""
        full = not delta or not self._full or new.number - self._full >= FULL_EVERY
        body = _whole(new) if full else {**delta, "outbox": _flat(new.outbox)}
        if not self._store.create(_manifest(new.agent, new.number), _json(body)):
            raise Deposed(f"manifest {new.number} of {new.agent} exists: another process has taken this crawl over")
        self._at = new
        if full:
            self._full_before, self._full = self._full, new.number

    def publish(self, exchange: Publisher) -> None:
        """Step 3; whatever a link that is down did not take is tried again the next time."""
        self._published &= set() if exchange.lost() else {letter.name for letter in self._at.outbox}
        for letter in self._at.outbox:
            if letter.name not in self._published and not _is_confirmed(letter.batch, exchange):
                if not exchange.publish(dataclasses.replace(letter.batch, data=self._store.get(letter.name))):
                    return
                self._published.add(letter.name)

    def backlog(self, exchange: Publisher) -> int:
        """Bytes that others have not committed yet."""
        return sum(letter.size for letter in self._at.outbox if not _is_confirmed(letter.batch, exchange))

    def _finish(self, exchange: Publisher) -> None:
        """Steps 3 and 4; doing them again is harmless."""
        self.publish(exchange)
        for stream, number in self._at.applied:
            exchange.acknowledge(stream, number)

    def _delete(self, names: Iterable[str]) -> None:
        """Step 5. The last two full manifests and what follows them stay, for those who are reading."""
        for name in sorted(names):
            self._store.delete(name)
        if self._full == self.number:
            for name in _manifests(self._store, self.agent):
                if _number(name) < self._full_before:
                    self._store.delete(name)

    def _recover(self, exchange: Publisher) -> None:
        named = self._at.names()
        is_alone = chains(self._store) <= {self.agent} and len(self.zones) == ZONES_IN_ALL
        for prefix in _SWEPT:
            for name in self._store.list(prefix):
                if name not in named and (is_alone or _carries(name, self.agent)):
                    self._store.delete(name)
        self._finish(exchange)


def chains(store: Store) -> set[str]:
    """Agents that have ever committed here."""
    return {name.split("/")[1] for name in store.list("manifest/") if _MANIFEST.search(name)}


def snapshots(store: Store) -> dict[str, Snapshot]:
    """What each agent has committed, by agent."""
    return {agent: Chain.read(store, agent) for agent in sorted(chains(store))}


def _is_confirmed(batch: Batch, exchange: Publisher) -> bool:
    return batch.number <= exchange.confirmed(batch.stream)


def _load(store: Store, agent: str) -> tuple[Snapshot, int]:
    """The newest snapshot and the number of the full manifest it rests on (0 if there is none)."""
    for _ in range(_ATTEMPTS):
        names = _manifests(store, agent)
        try:
            return _replay(store, agent, names)
        except FileNotFoundError:  # the owner has deleted old ones since we listed them
            continue
    raise ArchiveError(f"the manifests of {agent} keep vanishing; is something else deleting files?")


def _replay(store: Store, agent: str, names: list[str]) -> tuple[Snapshot, int]:
    deltas: list[dict[str, Any]] = []
    snapshot, full = Snapshot(agent), 0
    for name in reversed(names):
        body = _body(store, name)
        if deltas and deltas[-1]["number"] != body["number"] + 1:
            raise ArchiveError(f"manifest {deltas[-1]['number'] - 1} of {agent} is missing; restore it from a copy")
        if "files" in body:
            snapshot, full = Snapshot(**_typed(body)), body["number"]
            break
        deltas.append(body)
    else:
        if names:
            raise ArchiveError(f"{agent} has no full manifest; restore its manifests from a copy")
    for body in reversed(deltas):
        changes = Changes(body.pop("added"), body.pop("removed"))
        snapshot = snapshot.after(changes, _typed(body))
    return snapshot, full


def _body(store: Store, name: str) -> dict[str, Any]:
    """Created whole or not at all: one that cannot be read was damaged later."""
    try:
        body = json.loads(store.get(name))
        if body["number"] == _number(name) and ("files" in body or "added" in body):
            return dict(body)
    except (ValueError, TypeError, KeyError):
        pass
    raise ArchiveError(f"{name} is damaged; restore it from a copy")


def _whole(snapshot: Snapshot) -> dict[str, Any]:
    fields = {f.name: getattr(snapshot, f.name) for f in dataclasses.fields(snapshot)}
    return {**fields, "outbox": _flat(snapshot.outbox)}


def _flat(outbox: Iterable[Letter]) -> list[list[Any]]:
    return [[name, size, b.sender, b.number, b.part, b.to, b.kind, b.parts, b.previous] for name, size, b in outbox]


def _typed(body: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that a Snapshot has."""
    outbox = tuple(
        Letter(name, size, Batch(sender, number, part, to, b"", *more))
        for name, size, sender, number, part, to, *more in body["outbox"]
    )
    applied = tuple((stream, number) for stream, number in body["applied"])
    zones = {"zones": tuple(body["zones"])} if "zones" in body else {}
    return {**body, "outbox": outbox, "applied": applied, **zones}


def _numbered(outbox: Sequence[Batch], sent: Mapping[str, int]) -> tuple[list[Batch], dict[str, int]]:
    """The batches with their count of parts and the number before them; the last number of each stream."""
    parts = Counter((batch.stream, batch.number) for batch in outbox)
    previous: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    for stream, number in sorted(parts):
        previous[stream, number] = last.get(stream, sent.get(stream, 0))
        if number <= previous[stream, number]:
            raise ArchiveError(f"batch {number} of {stream} was sent before; numbers must rise")
        last[stream] = number
    found = sorted(outbox, key=lambda batch: (batch.stream, batch.number, batch.part))
    keys = [(batch.stream, batch.number) for batch in found]
    return [
        dataclasses.replace(batch, parts=parts[key], previous=previous[key])
        for batch, key in zip(found, keys, strict=True)
    ], last


def _changed(files: Files, changes: Changes) -> Files:
    result = dict(files)
    for kind in {**changes.added, **changes.removed}:
        old, added, removed = (list(of.get(kind, ())) for of in (files, changes.added, changes.removed))
        # What a round adds and removes again (a delta that is folded at once) never was there.
        if set(added) & set(old) or set(removed) - set(old) - set(added) or len(set(added)) < len(added):
            raise ArchiveError(f"a commit adds {kind} files twice, or removes some that are not there")
        result[kind] = [name for name in (*old, *added) if name not in set(removed)]
    return result


def _joined(one: Files, other: Files) -> Files:
    return {kind: [*one.get(kind, ()), *other.get(kind, ())] for kind in {**one, **other}}


def _manifest(agent: str, number: int) -> str:
    return f"manifest/{agent}/{number:08d}.json"


def _manifests(store: Store, agent: str) -> list[str]:
    """Names in order; whatever else somebody put beside them does not count."""
    return [name for name in store.list(f"manifest/{agent}/") if _MANIFEST.search(name)]


def _number(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def _outbox_name(batch: Batch) -> str:
    return f"outbox/{batch.to or 'any'}/{batch.sender}-{batch.number:012d}-{batch.part:04d}.{batch.kind}"


def _carries(name: str, agent: str) -> bool:
    """Whether a file is the agent's by its name; where several share an archive, only those are swept."""
    return re.search(rf"(?:^|[/+-]){re.escape(agent)}-\d{{8,}}", name) is not None


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a manifest")
