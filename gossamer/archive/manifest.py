"""A manifest names the files, messages, marks and state of one commit; this module writes and reads it."""

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from gossamer.archive import earlier
from gossamer.archive.checksums import Checksum
from gossamer.archive.state import AgentState, encoded, replace
from gossamer.archive.store import Store, where
from gossamer.archive.zones import in_ranges
from gossamer.errors import ArchiveError, Unreadable

Files = dict[str, list[str]]  # by kind: "warc", "visits", "index.page.run", ...

ANY = ""  # the receiver of messages that are for whoever reads them: seeds
SEED_FILES = "files"  # the sender of those that name files of seeds
SEED_RULES = "rules"  # the sender of those with the rules of seeds
MOVES = "moves"  # the sender of those that order which hosts go to other sites
# Kinds of messages.
LINKS, REMOTE_LINKS, SEEDS, NEWS, ZONES, HOSTS = "links", "abroad", "seeds", "news", "zones", "hosts"
BUNDLE = "bundle"  # messages for several agents of the site that travel together (archive/bundle.py)
HELD = "held"  # the kind of files with links that are for other agents, and go out with a later round
PROTOCOL = 5  # the version in which messages are written; every one before it can be read
_ATTEMPTS = 10
MANIFEST = re.compile(r"/\d{8,}\.json$")
_SEAL = re.compile(rb',"xxh3":"([0-9a-f]{16})"}')
_SEAL_BYTES = len(',"xxh3":"0123456789abcdef"}')
_GONE = 512  # names of files that were removed last and are remembered


class Message(Struct, frozen=True, array_like=True):
    """`Message` is one part of an agent's message to another in a round; `Chain.commit` sets `parts` and `previous`."""

    sender: str
    number: int
    part: int
    to: str  # of a bundle: all its receivers, with commas
    data: bytes  # of those that a manifest names, nothing: it has a file
    kind: str = LINKS
    parts: int = 1
    previous: int = 0  # the number before this one in its stream: a receiver that has not applied that one must wait
    protocol: int = PROTOCOL  # the version in which it was written

    @property
    def stream(self) -> str:
        return self.sender if self.to == ANY else f"{self.sender}>{self.to}"

    @property
    def streams(self) -> list[str]:
        """Returns the streams that it has messages of: several, if it is a bundle."""
        return [f"{self.sender}>{to}" for to in self.to.split(",")] if self.kind == BUNDLE else [self.stream]


def site_of(agent: str) -> str:
    """Returns the site of a federation that an agent belongs to, by its name; empty if it belongs to none."""
    return agent.rpartition("_a")[0]


class OutboxEntry(NamedTuple):
    """`OutboxEntry` is a message of the outbox: where its data is, and how long that is."""

    name: str
    size: int
    message: Message  # without its data


@dataclass
class Changes:
    """`Changes` has the files that a commit adds to the archive and takes out of it, by kind."""

    added: Files = field(default_factory=dict)
    removed: Files = field(default_factory=dict)

    def __or__(self, other: "Changes") -> "Changes":
        return Changes(_joined(self.added, other.added), _joined(self.removed, other.removed))

    def __bool__(self) -> bool:
        return any(self.added.values()) or any(self.removed.values())


class Delta(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="format", tag="delta-5"
):
    """`Delta` is a manifest that has what is new since the one before it."""

    number: int
    time_s: float
    added: Files = {}
    removed: Files = {}
    zones: str | None = None  # in ranges; None: as before
    marks: dict[str, int] = {}  # streams that are not here stay as they were; so do those of `sent`
    sent: dict[str, int] = {}
    state: AgentState = AgentState()
    outbox: tuple[OutboxEntry, ...] = ()
    applied: tuple[tuple[str, int], ...] = ()
    sums: dict[str, Checksum] = {}  # of files that are new


class Snapshot(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="format", tag="full-5"):
    """`Snapshot` is the content of one manifest, together with those before it; also a manifest that has all of it."""

    agent: str
    number: int = 0
    epoch: int = 1
    time_s: float = 0.0  # when it was committed
    ranges: str = msgspec.field(default="", name="zones")  # of the zones that the agent owns
    files: Files = {}
    marks: dict[str, int] = {}  # stream: last number applied
    sent: dict[str, int] = {}  # stream: last number published
    state: AgentState = AgentState()
    outbox: tuple[OutboxEntry, ...] = ()  # what receivers may not have committed yet
    applied: tuple[tuple[str, int], ...] = ()
    sums: dict[str, Checksum] = {}  # of the files; of those written by earlier versions, none
    # Files that were removed last. A crash, or a power failure that undoes deletions, may have left some of them.
    gone: tuple[str, ...] = ()

    @property
    def zones(self) -> tuple[int, ...]:
        return in_ranges(self.ranges)

    def after(self, delta: Delta) -> "Snapshot":
        """Returns the snapshot after a delta."""
        new = replace(
            self,
            number=delta.number,
            time_s=delta.time_s,
            ranges=self.ranges if delta.zones is None else delta.zones,
            files=_changed(self.files, Changes(delta.added, delta.removed)),
            marks=self.marks | delta.marks,
            sent=self.sent | delta.sent,
            state=delta.state,
            outbox=delta.outbox,
            applied=delta.applied,
        )
        named = new.names()
        gone = sorted({*self.names(), *(name for names in delta.added.values() for name in names)} - named)
        return replace(
            new,
            sums={name: known for name, known in (self.sums | delta.sums).items() if name in named},
            # Those of the commit before stay until this one has removed files: they may not be deleted yet.
            gone=(*self.gone, *gone)[-max(_GONE, len(gone)) :] if gone else self.gone,
        )

    def names(self) -> set[str]:
        return {name for names in self.files.values() for name in names} | {entry.name for entry in self.outbox}


class EarlierDelta(NamedTuple):
    """`EarlierDelta` is a delta of layout 3 or before: of the state, it has what changed."""

    number: int
    body: dict[str, Any]

    def on(self, before: AgentState) -> Delta:
        part = msgspec.convert(self.body["state"], AgentState, str_keys=True)
        state = replace(before, **{name: getattr(part, name) for name in self.body["state"]})
        return replace(msgspec.convert({**self.body, "state": {}}, Delta, str_keys=True), state=state)


Document = Snapshot | Delta | EarlierDelta
_decoder: msgspec.json.Decoder[Snapshot | Delta] = msgspec.json.Decoder(Snapshot | Delta)


def load(store: Store, agent: str) -> tuple[Snapshot, int]:
    """Returns the newest snapshot and the number of the full manifest that it rests on (0 if there is none)."""
    for _ in range(_ATTEMPTS):
        names = file_names(store, agent)
        try:
            return _replay(store, agent, names)
        except FileNotFoundError:  # the owner has deleted old ones since we listed them
            continue
    raise ArchiveError(f"the manifests of {agent} keep vanishing; is something else deleting files?")


def load_best(store: Store, agent: str) -> Snapshot:
    """Returns the newest snapshot that can still be read; an empty one if there is none."""
    names = file_names(store, agent)
    for count in range(len(names), 0, -1):
        with contextlib.suppress(ArchiveError, FileNotFoundError):
            return _replay(store, agent, names[:count])[0]
    return Snapshot(agent)


def _replay(store: Store, agent: str, names: list[str]) -> tuple[Snapshot, int]:
    deltas: list[Delta | EarlierDelta] = []
    snapshot, full = Snapshot(agent), 0
    for name in reversed(names):
        found = read_document(store, name)
        if deltas and deltas[-1].number != found.number + 1:
            raise ArchiveError(f"manifest {deltas[-1].number - 1} of {agent} is missing; {remedy(store)}")
        if isinstance(found, Snapshot):
            snapshot, full = found, found.number
            break
        deltas.append(found)
    else:
        if names:
            raise ArchiveError(f"{agent} has no full manifest; {remedy(store)}")
    for delta in reversed(deltas):
        snapshot = snapshot.after(as_delta(delta, snapshot))
    return snapshot, full


def as_delta(found: Delta | EarlierDelta, before: Snapshot) -> Delta:
    return found.on(before.state) if isinstance(found, EarlierDelta) else found


def read_document(store: Store, name: str) -> Document:
    """Reads a manifest. It was created whole or not at all: one that cannot be read was damaged later."""
    try:
        found = _opened(store.get(name))
        if found.number == number_of(name):
            return found
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.MsgspecError, Unreadable):
        pass
    raise ArchiveError(f"{name} is damaged; {remedy(store)}")


def remedy(store: Store) -> str:
    return f"restore it from a copy, or see what `gossamer repair {where(store)} --dry-run` can do"


def sealed(document: Snapshot | Delta) -> bytes:
    """Encodes a manifest, with a checksum of itself at its end."""
    data = encoded(document)
    return b'%s,"xxh3":"%s"}' % (data[:-1], xxh3_64_hexdigest(data).encode())


def _opened(data: bytes) -> Document:
    """Decodes what was sealed. The first manifests had no checksum, neither of themselves nor of files."""
    seal = _SEAL.fullmatch(data, max(len(data) - _SEAL_BYTES, 0))
    if seal:
        data = data[:-_SEAL_BYTES] + b"}"
        if seal[1].decode() != xxh3_64_hexdigest(data):
            raise ValueError("it is not what was written")
    if data.startswith(b'{"format":'):
        if not seal:
            raise ValueError("its checksum is missing")
        if not data.startswith(earlier.FOURTH):
            return _decoder.decode(data)
        return msgspec.convert(earlier.of_fourth(json.loads(data)), Snapshot | Delta, str_keys=True)
    body = json.loads(data)
    if "sums" in body and not seal:
        raise ValueError("its checksum is missing")
    body = earlier.renamed(body)
    if "files" in body:
        return msgspec.convert(body, Snapshot, str_keys=True)
    found = EarlierDelta(body["number"], body)
    found.on(AgentState())  # it can be read
    return found


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
    """Returns names in order; other files beside them do not count."""
    return [name for name in store.list(f"manifest/{agent}/") if MANIFEST.search(name)]


def chains(store: Store) -> set[str]:
    """Returns the agents that have ever committed here."""
    return {name.split("/")[1] for name in store.list("manifest/") if MANIFEST.search(name)}


def number_of(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))
