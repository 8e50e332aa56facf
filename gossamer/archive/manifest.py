"""What a manifest is: the files, letters, marks and state that one commit names, and how it is written and read."""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xxhash import xxh3_64_hexdigest

from gossamer.archive.checksums import Checksum
from gossamer.archive.store import Store, where
from gossamer.columns import ZONE_BITS
from gossamer.errors import ArchiveError

Files = dict[str, list[str]]  # by kind: "warc", "visits", "index.page.run", ...

ANY = ""  # the receiver of batches that are for whoever reads them: seeds
SEED_FILES = "files"  # the sender of those that name files of seeds
MOVES = "moves"  # the sender of those that say which hosts shall go to other sites
# Kinds of batches.
LINKS, ABROAD, SEEDS, NEWS, ZONES, HOSTS = "links", "abroad", "seeds", "news", "zones", "hosts"
PROTOCOL = 3  # the version in which batches are written; every one before it can be read
ZONES_IN_ALL = 1 << ZONE_BITS
_FIRST = 1  # the protocol of batches that do not say theirs
_ATTEMPTS = 10
MANIFEST = re.compile(r"/\d{8,}\.json$")
_SEAL = re.compile(rb',"xxh3":"([0-9a-f]{16})"}')
_GONE = 512  # names of files that were removed last and are remembered


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
    protocol: int = PROTOCOL  # the version in which it was written

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
    sums: dict[str, Checksum] = field(default_factory=dict)  # of the files; of those written by earlier versions, none
    # Files that were removed last. A crash, or a power failure that undoes deletions, may have left some of them.
    gone: tuple[str, ...] = ()

    def after(self, changes: Changes, news: Mapping[str, Any]) -> "Snapshot":
        """The next one. `news` has the fields that are new; marks, sent, state and sums are updates."""
        fields = dict(news)
        for name in ("marks", "sent", "state", "sums"):
            fields[name] = {**getattr(self, name), **fields.get(name, {})}
        new = dataclasses.replace(self, files=_changed(self.files, changes), **fields)
        named = new.names()
        gone = sorted({*self.names(), *(name for names in changes.added.values() for name in names)} - named)
        return dataclasses.replace(
            new,
            sums={name: known for name, known in new.sums.items() if name in named},
            # Those of the commit before stay until this one has removed files: they may not be deleted yet.
            gone=(*self.gone, *gone)[-max(_GONE, len(gone)) :] if gone else self.gone,
        )

    def names(self) -> set[str]:
        return {name for names in self.files.values() for name in names} | {letter.name for letter in self.outbox}


_FIELDS = {f.name for f in dataclasses.fields(Snapshot)} | {"added", "removed"}


def load(store: Store, agent: str) -> tuple[Snapshot, int]:
    """The newest snapshot and the number of the full manifest it rests on (0 if there is none)."""
    for _ in range(_ATTEMPTS):
        names = file_names(store, agent)
        try:
            return _replay(store, agent, names)
        except FileNotFoundError:  # the owner has deleted old ones since we listed them
            continue
    raise ArchiveError(f"the manifests of {agent} keep vanishing; is something else deleting files?")


def load_best(store: Store, agent: str) -> Snapshot:
    """The newest snapshot that can still be read; an empty one if there is none."""
    names = file_names(store, agent)
    for count in range(len(names), 0, -1):
        with contextlib.suppress(ArchiveError, FileNotFoundError):
            return _replay(store, agent, names[:count])[0]
    return Snapshot(agent)


def _replay(store: Store, agent: str, names: list[str]) -> tuple[Snapshot, int]:
    deltas: list[dict[str, Any]] = []
    snapshot, full = Snapshot(agent), 0
    for name in reversed(names):
        body = read_body(store, name)
        if deltas and deltas[-1]["number"] != body["number"] + 1:
            raise ArchiveError(f"manifest {deltas[-1]['number'] - 1} of {agent} is missing; {remedy(store)}")
        if "files" in body:
            snapshot, full = Snapshot(**body), body["number"]
            break
        deltas.append(body)
    else:
        if names:
            raise ArchiveError(f"{agent} has no full manifest; {remedy(store)}")
    for body in reversed(deltas):
        changes = Changes(body.pop("added"), body.pop("removed"))
        snapshot = snapshot.after(changes, body)
    return snapshot, full


def read_body(store: Store, name: str) -> dict[str, Any]:
    """Created whole or not at all: one that cannot be read was damaged later."""
    try:
        body = _opened(store.get(name))
        if body["number"] == number_of(name) and ("files" in body or "added" in body):
            return _typed(body)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise ArchiveError(f"{name} is damaged; {remedy(store)}")


def remedy(store: Store) -> str:
    return f"restore it from a copy, or see what `gossamer repair {where(store)} --dry-run` can do"


def sealed(body: Mapping[str, Any]) -> bytes:
    """A manifest's text, with a checksum of itself at its end."""
    data = dumps(body)
    return b'%s,"xxh3":"%s"}' % (data[:-1], xxh3_64_hexdigest(data).encode())


def _opened(data: bytes) -> dict[str, Any]:
    """What was sealed. Manifests of earlier versions have no checksum, neither of themselves nor of files."""
    body = json.loads(data)
    if _SEAL.fullmatch(data, max(len(data) - len(',"xxh3":""}') - 16, 0)):
        if body.pop("xxh3") != xxh3_64_hexdigest(data[: data.rindex(b',"xxh3":')] + b"}"):
            raise ValueError("it is not what was written")
    elif "sums" in body:
        raise ValueError("its checksum is missing")
    if not body.keys() <= _FIELDS:
        raise ValueError("it has unknown fields")
    return dict(body)


def whole(snapshot: Snapshot) -> dict[str, Any]:
    fields = {f.name: getattr(snapshot, f.name) for f in dataclasses.fields(snapshot)}
    return {**fields, "outbox": flat(snapshot.outbox)}


def flat(outbox: Iterable[Letter]) -> list[list[Any]]:
    return [
        [name, size, b.sender, b.number, b.part, b.to, b.kind, b.parts, b.previous, b.protocol]
        for name, size, b in outbox
    ]


def _typed(body: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that a Snapshot has."""
    outbox = tuple(
        Letter(name, size, Batch(sender, number, part, to, b"", *more, *([] if len(more) > 3 else [_FIRST])))
        for name, size, sender, number, part, to, *more in body["outbox"]
    )
    applied = tuple((stream, number) for stream, number in body["applied"])
    typed = {**body, "outbox": outbox, "applied": applied}
    for name in {"zones", "gone"} & body.keys():
        typed[name] = tuple(body[name])
    if "sums" in body:
        typed["sums"] = {name: Checksum(*values) for name, values in body["sums"].items()}
    return typed


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


def chains(store: Store) -> set[str]:
    """Agents that have ever committed here."""
    return {name.split("/")[1] for name in store.list("manifest/") if MANIFEST.search(name)}


def number_of(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))


def dumps(value: Any) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be part of a manifest")
