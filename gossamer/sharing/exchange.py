"""The Exchange port: the only way by which links reach the zones of others, in order and each exactly once.

A *stream* is all that one agent sends to another. Its batches are numbered upwards. Each names the number
before it, so that one that overtakes another waits; each number has one or more parts, which are delivered
together. The receiver commits the last number that it applied of every stream (its high-water mark): what
comes again is ignored. The sender keeps what the receiver has not confirmed. Who gets links for a zone that
has moved on sends them on.
"""

import io
import json
import re
import threading
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Protocol, cast

import pyarrow as pa

from gossamer.archive.manifest import ABROAD as ABROAD
from gossamer.archive.manifest import ANY as ANY
from gossamer.archive.manifest import HOSTS as HOSTS
from gossamer.archive.manifest import LINKS as LINKS
from gossamer.archive.manifest import MOVES as MOVES
from gossamer.archive.manifest import NEWS as NEWS
from gossamer.archive.manifest import SEED_FILES as SEED_FILES
from gossamer.archive.manifest import SEEDS as SEEDS
from gossamer.archive.manifest import ZONES as ZONES
from gossamer.archive.manifest import Batch as Batch
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.columns import CONTRIBUTION as CONTRIBUTION
from gossamer.columns import Contributions as Contributions
from gossamer.errors import Unreadable

PART_BYTES = 1_000_000  # of a batch, where it can be divided: whoever reads it holds one at a time


class Exchange(Protocol):
    """Port: how batches travel. All methods may be called from any thread, and again after a crash."""

    def publish(self, batch: Batch) -> bool:
        """On its way, however long it is; False: not now. The same (stream, number, part) again changes nothing."""

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Batch]:
        """What this agent has not applied: per stream in order, all parts, nothing left out between."""

    def acknowledge(self, stream: str, number: int) -> None:
        """The receiver's commit names this number as applied: it and all before it may be forgotten."""

    def confirmed(self, stream: str) -> int:
        """The last number of the stream that is known to be acknowledged: up to it the sender need keep nothing."""

    def lost(self) -> bool:
        """Whether batches on their way were lost since the last call: what is not confirmed must be published again."""


class InProcess:
    """Shared by the agents of one process; also the public double."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._batches: dict[tuple[str, int, int], Batch] = {}
        self._done: dict[str, int] = {}

    def publish(self, batch: Batch) -> bool:
        with self._guard:
            if batch.number > self._done.get(batch.stream, 0):
                self._batches.setdefault((batch.stream, batch.number, batch.part), batch)
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Batch]:
        with self._guard:
            batches = [batch for batch in self._batches.values() if batch.to in (to, ANY)]
        for stream, number in stale(batches, marks).items():
            self.acknowledge(stream, number)
        return in_order(batches, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        with self._guard:
            self._done[stream] = max(number, self._done.get(stream, 0))
            for key in [key for key in self._batches if key[0] == stream and key[1] <= number]:
                del self._batches[key]

    def confirmed(self, stream: str) -> int:
        with self._guard:
            return self._done.get(stream, 0)

    def lost(self) -> bool:
        return False


class Inbox:
    """Batches as files under inbox/: how another process hands seeds to a crawl, running or not."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, data: bytes, sender: str = SEEDS) -> int:
        """Put data under the next free number of the sender; several processes may do so at once."""
        while True:
            number = self._last(sender) + 1
            batch = Batch(sender, number, 0, ANY, data, previous=number - 1)
            # If a higher number is there after we took ours, two others may have come and gone meanwhile, and
            # the receiver's mark be above us: add it again. Seeds twice are harmless, seeds lost are not.
            if self._store.create(_name(batch), data) and self._last(sender) == number:
                return number

    def publish(self, batch: Batch) -> bool:
        self._store.create(_name(batch), batch.data)
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Batch]:
        found = []
        for name, batch in self._entries():
            if batch.number > marks.get(batch.stream, 0) and batch.to in (to, ANY):
                try:
                    found.append(replace(batch, data=self._store.get(name)))
                except FileNotFoundError:  # acknowledged meanwhile
                    continue
        return in_order(found, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        # The number itself stays until the next one: from it `add` knows which numbers are taken.
        for name, batch in self._entries():
            if batch.stream == stream and batch.number < number:
                self._store.delete(name)

    def confirmed(self, stream: str) -> int:
        """A file in the inbox is as durable as one in an outbox."""
        return self._last(stream)

    def lost(self) -> bool:
        return False

    def _last(self, stream: str) -> int:
        return max((b.number for _, b in self._entries() if b.stream == stream), default=0)

    def _entries(self) -> Iterable[tuple[str, Batch]]:
        for name in self._store.list("inbox/"):
            batch = _named(name)
            if batch is not None:
                yield name, batch


class Joined:
    """An Exchange and the Inbox, for the agent that also reads the seeds."""

    def __init__(self, exchange: Exchange, inbox: Inbox) -> None:
        self._exchange = exchange
        self._inbox = inbox

    def publish(self, batch: Batch) -> bool:
        return self._exchange.publish(batch)

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Batch]:
        return self._exchange.pending(to, marks) + self._inbox.pending(to, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        (self._exchange if ">" in stream else self._inbox).acknowledge(stream, number)

    def confirmed(self, stream: str) -> int:
        return self._exchange.confirmed(stream)

    def lost(self) -> bool:
        return self._exchange.lost()


def in_order(batches: Iterable[Batch], marks: Mapping[str, int]) -> list[Batch]:
    """The batches that may be applied now: complete, above the marks, and without a gap before them."""
    numbers: dict[str, dict[int, dict[int, Batch]]] = {}
    for batch in batches:
        numbers.setdefault(batch.stream, {}).setdefault(batch.number, {})[batch.part] = batch
    ready: list[Batch] = []
    for stream in sorted(numbers):
        high = marks.get(stream, 0)
        for number in sorted(n for n in numbers[stream] if n > high):
            parts = numbers[stream][number]
            first = next(iter(parts.values()))
            if first.previous > high or len(parts) < first.parts:
                break
            ready += [parts[part] for part in sorted(parts)]
            high = number
    return ready


def stale(batches: Iterable[Batch], marks: Mapping[str, int]) -> dict[str, int]:
    """The marks of streams of which something came again: their senders have not heard of our commit."""
    return {b.stream: marks[b.stream] for b in batches if b.number <= marks.get(b.stream, 0)}


def high_water(batches: Iterable[Batch]) -> dict[str, int]:
    """The marks to commit once these batches are applied."""
    marks: dict[str, int] = {}
    for batch in batches:
        marks[batch.stream] = max(batch.number, marks.get(batch.stream, 0))
    return marks


def messages(said: Mapping[str, Any], limit: int = PART_BYTES) -> list[bytes]:
    """News as JSON; what is long is said in several, by halves of its longest list or table, so that nobody must hold
    much at a time. What cannot be halved is one, however long: an Exchange carries it all the same."""
    data = json.dumps(said).encode()
    if len(data) < limit:
        return [data]
    name = max(said, key=lambda name: len(json.dumps(said[name])))
    value = said[name]
    if not isinstance(value, list | dict) or len(value) < 2:
        return [data]
    items = list(value.items()) if isinstance(value, dict) else value
    halves = [items[: len(items) // 2], items[len(items) // 2 :]]
    first, second = (dict(half) if isinstance(value, dict) else half for half in halves)
    return messages({**said, name: first}, limit) + messages({name: second}, limit)


def encode(columns: Contributions, limit: int = PART_BYTES) -> list[bytes]:
    """Arrow IPC with zstd, in parts below the limit. Sorted URLs compress best."""
    if len(columns.key) == 0:
        return []
    schema = CONTRIBUTION.arrow.remove_metadata()
    arrays: list[Any] = [pa.array(v, type=f.type) for v, f in zip(cast(Any, columns), schema, strict=True)]
    return in_parts(pa.record_batch(arrays, names=CONTRIBUTION.names), limit)


def decode(data: bytes) -> Contributions:
    """What `encode` made; of anything else, an error."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    check_table(table, CONTRIBUTION.arrow)
    numbers: list[Any] = [table.column(name).to_numpy() for name in CONTRIBUTION.names[:-1]]
    return Contributions._make([*numbers, table.column("url").to_pylist()])


def check_table(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> None:
    """Arrow reads what it is given, whether it makes sense or not: nothing else may look at it before."""
    if not table.schema.equals(schema):
        raise Unreadable("its columns are not ours")
    table.validate(full=True)
    if any(column.null_count for column in table.columns):
        raise Unreadable("values are missing in it")


def in_parts(rows: pa.RecordBatch, limit: int = PART_BYTES) -> list[bytes]:
    """Compressed, each below the limit."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(rows)
    data = sink.getvalue()
    if len(data) < limit or rows.num_rows == 1:
        return [data]
    # A little more than proportional, so that seldom a part must be cut again.
    count = min(rows.num_rows, len(data) * 5 // (limit * 4) + 1)
    cuts = [rows.num_rows * i // count for i in range(count + 1)]
    slices = [rows.slice(a, b - a) for a, b in pairwise(cuts)]
    return [part for piece in slices for part in in_parts(piece, limit)]


_NAME = re.compile(r"inbox/([^/]+)-(\d{12,})(?:\.to\.([^/.]*)\.(\d+)\.(\d+)of(\d+)\.([a-z]+))?\.arrow")


def _name(batch: Batch) -> str:
    plain = batch.to == ANY and batch.parts == 1 and batch.previous == batch.number - 1 and batch.kind == LINKS
    rest = "" if plain else f".to.{batch.to}.{batch.previous}.{batch.part}of{batch.parts}.{batch.kind}"
    return f"inbox/{batch.sender}-{batch.number:012d}{rest}.arrow"


def _named(name: str) -> Batch | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    sender, number, to, previous, part, parts, kind = match.groups()
    if to is None:
        return Batch(sender, int(number), 0, ANY, b"", previous=int(number) - 1)
    return Batch(sender, int(number), int(part), to, b"", kind, int(parts), int(previous))
