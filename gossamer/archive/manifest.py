"""What a manifest is: the files, letters, marks and state that one commit names, and how it is written and read."""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gossamer.archive.store import Store
from gossamer.columns import ZONE_BITS
from gossamer.errors import ArchiveError

Files = dict[str, list[str]]  # by kind: "warc", "visits", "index.page.run", ...

ANY = ""  # the receiver of batches that are for whoever reads them: seeds
MOVES = "moves"  # the sender of those that say which hosts shall go to other sites
# Kinds of batches.
LINKS, ABROAD, SEEDS, NEWS, ZONES, HOSTS = "links", "abroad", "seeds", "news", "zones", "hosts"
ZONES_IN_ALL = 1 << ZONE_BITS
_ATTEMPTS = 10
MANIFEST = re.compile(r"/\d{8,}\.json$")


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


def load(store: Store, agent: str) -> tuple[Snapshot, int]:
    """The newest snapshot and the number of the full manifest it rests on (0 if there is none)."""
    for _ in range(_ATTEMPTS):
        names = file_names(store, agent)
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
        if body["number"] == number_of(name) and ("files" in body or "added" in body):
            return dict(body)
    except (ValueError, TypeError, KeyError):
        pass
    raise ArchiveError(f"{name} is damaged; restore it from a copy")


def whole(snapshot: Snapshot) -> dict[str, Any]:
    fields = {f.name: getattr(snapshot, f.name) for f in dataclasses.fields(snapshot)}
    return {**fields, "outbox": flat(snapshot.outbox)}


def flat(outbox: Iterable[Letter]) -> list[list[Any]]:
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


def file_name(agent: str, number: int) -> str:
    return f"manifest/{agent}/{number:08d}.json"


def file_names(store: Store, agent: str) -> list[str]:
    """Names in order; whatever else somebody put beside them does not count."""
    return [name for name in store.list(f"manifest/{agent}/") if MANIFEST.search(name)]


def number_of(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def dumps(value: Any) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a manifest")
