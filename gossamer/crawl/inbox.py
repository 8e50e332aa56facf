"""`Inbox` holds the seeds that other processes hand in while the crawl runs or rests, as files of its Store.

Messages are numbered upwards in each *stream*; `in_order` says which may be applied, and a commit records the last
number that it applied. A message that cannot be read is set `Aside`, where somebody can look at it: nothing that comes
from outside may stop a crawl.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from xxhash import xxh3_64_hexdigest

from gossamer.archive.manifest import ANY, LINKS, NEWS, SEED_FILES, SEEDS, Message
from gossamer.archive.state import replace
from gossamer.archive.store import Memory, Store
from gossamer.clocks import Clock
from gossamer.columns import CONTRIBUTION, Contributions
from gossamer.errors import Unreadable
from gossamer.event_log import EventLog

if TYPE_CHECKING:
    import pyarrow as pa

PART_BYTES = 1_000_000  # of a message that can be divided: the reader holds one part at a time


ASK_S = 5.0  # how often a store that is not on this machine is asked for seeds
ASIDE, REFUSED = "aside/", "refused/"
ASIDE_BYTES = 256 << 20  # that a process sets aside: whoever sends garbage without an end must not fill the disk
_TABLE_HEAD = 4 << 10  # bytes that a table of links takes beside its columns, at most
_ASIDE_EACH = 4 << 10  # what a file takes at least


class Inbox:
    """`Inbox` keeps messages as files under inbox/: other processes hand seeds to a crawl with it, running or not."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, data: bytes, sender: str = SEEDS) -> int:
        """Stores data under the next free number of the sender; several processes may do so at once."""
        while True:
            number = self._last(sender) + 1
            message = Message(sender, number, 0, ANY, data, previous=number - 1)
            # If a higher number is there after we took ours, two others may have come and gone meanwhile, and
            # the receiver's mark may be above us: add it again. Seeds twice are harmless, seeds lost are not.
            if self._store.create(_name(message), data) and self._last(sender) == number:
                return number

    def publish(self, message: Message) -> bool:
        self._store.create(_name(message), message.data)
        return True

    def pending(self, to: str, marks: Mapping[str, int]) -> list[Message]:
        found = []
        for name, message in self._entries():
            if message.number > marks.get(message.stream, 0) and message.to in (to, ANY):
                try:
                    found.append(replace(message, data=self._store.get(name)))
                except FileNotFoundError:  # acknowledged meanwhile
                    continue
        return in_order(found, marks)

    def acknowledge(self, stream: str, number: int) -> None:
        # The number itself stays until the next one: from it `add` knows which numbers are taken.
        for name, message in self._entries():
            if message.stream == stream and message.number < number:
                self._store.delete(name)

    def confirmed(self, stream: str) -> int:
        """Returns the last number: a file in the inbox is as durable as one in an outbox."""
        return self._last(stream)

    def lost(self) -> bool:
        return False

    def _last(self, stream: str) -> int:
        return max((b.number for _, b in self._entries() if b.stream == stream), default=0)

    def _entries(self) -> Iterable[tuple[str, Message]]:
        for name in self._store.list("inbox/"):
            message = _named(name)
            if message is not None:
                yield name, message


class FarInbox(Inbox):
    """`FarInbox` is the same where each look at the store takes a request: seeds are asked for by the next number of
    their stream, every few seconds, and nothing is listed."""

    def __init__(self, store: Store, clock: Clock, streams: Sequence[str] = (SEEDS, SEED_FILES)) -> None:
        super().__init__(store)
        self._clock, self._streams = clock, streams
        self._asked_s: float | None = None
        self._found: list[Message] = []

    def pending(self, _to: str, marks: Mapping[str, int]) -> list[Message]:
        now_s = self._clock.monotonic()
        if self._asked_s is None or now_s - self._asked_s >= ASK_S:
            self._asked_s = now_s
            self._found = [each for stream in self._streams for each in self._above(stream, marks.get(stream, 0))]
        return in_order(self._found, marks)

    def _above(self, stream: str, number: int) -> Iterable[Message]:
        while True:
            number += 1
            message = Message(stream, number, 0, ANY, b"", previous=number - 1)
            try:
                yield replace(message, data=self._store.get(_name(message)))
            except FileNotFoundError:
                return

    def acknowledge(self, stream: str, number: int) -> None:
        # Every number that a commit applied is acknowledged, so that none before it stays.
        if number > 1:
            self._store.delete(_name(Message(stream, number - 1, 0, ANY, b"", previous=number - 2)))


def in_order(messages: Iterable[Message], marks: Mapping[str, int]) -> list[Message]:
    """Returns the messages that may be applied now: complete, above the marks, and without a gap before them."""
    numbers: dict[str, dict[int, dict[int, Message]]] = {}
    for message in messages:
        numbers.setdefault(message.stream, {}).setdefault(message.number, {})[message.part] = message
    ready: list[Message] = []
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


def high_water(messages: Iterable[Message]) -> dict[str, int]:
    """Returns the marks to commit once these messages are applied."""
    marks: dict[str, int] = {}
    for message in messages:
        marks[message.stream] = max(message.number, marks.get(message.stream, 0))
    return marks


def blank(message: Message) -> Message:
    """Returns an empty message with the same number, which keeps its place in the stream."""
    return replace(message, kind=NEWS, data=b"{}")


def encode(columns: Contributions, limit: int = PART_BYTES, short: int = 0) -> list[bytes]:
    """Returns links as Arrow IPC with zstd, in parts below the limit. Sorted URLs compress best. Below `short` bytes
    they are not compressed, as they travel with others: that takes a third of the time, for all of them together."""
    import pyarrow as pa  # here and below: `gossamer status` counts messages, and starts without it

    from gossamer.archive.tables import arrow_array

    if len(columns.key) == 0:
        return []
    schema = CONTRIBUTION.arrow.remove_metadata()
    arrays: list[Any] = [arrow_array(v, f.type) for v, f in zip(cast(Any, columns), schema, strict=True)]
    return in_parts(pa.record_batch(arrays, names=CONTRIBUTION.names), limit, short)


def decode(data: bytes) -> Contributions:
    """Decodes what `encode` made; anything else is an error."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    check_table(table, CONTRIBUTION.arrow)
    numbers: list[Any] = [table.column(name).to_numpy() for name in CONTRIBUTION.names[:-1]]
    return Contributions._make([*numbers, table.column("url").to_pylist()])


def check_table(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> None:
    """Checks a table before anything else reads it: Arrow accepts whatever it is given, valid or not."""
    if not table.schema.equals(schema):
        raise Unreadable("its columns are not ours")
    table.validate(full=True)
    if any(column.null_count for column in table.columns):
        raise Unreadable("values are missing in it")


def in_parts(rows: pa.RecordBatch, limit: int = PART_BYTES, short: int = 0) -> list[bytes]:
    """Returns the rows as parts, each below the limit; compressed, unless they are short."""
    import pyarrow as pa

    sink, compression = io.BytesIO(), None if rows.nbytes < short - _TABLE_HEAD else "zstd"
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(rows)
    data = sink.getvalue()
    if len(data) < limit or rows.num_rows == 1:
        return [data]
    # A little more than proportional, so that a part seldom must be cut again.
    count = min(rows.num_rows, len(data) * 5 // (limit * 4) + 1)
    cuts = [rows.num_rows * i // count for i in range(count + 1)]
    slices = [rows.slice(a, b - a) for a, b in pairwise(cuts)]
    return [part for piece in slices for part in in_parts(piece, limit)]


class Aside:
    """`Aside` keeps the messages that one agent cannot read. All methods may be called from any thread. Without a store
    nothing outlives the process."""

    def __init__(self, agent: str, store: Store | None = None, log: EventLog | None = None) -> None:
        self._agent, self._log, self._left = agent, log, ASIDE_BYTES
        self._store = store if store is not None else Memory()
        for name in self._store.list(f"{REFUSED}{agent}-"):  # by an earlier process: what still holds is noted again
            self._store.delete(name)

    def put(self, data: bytes, why: str, **facts: Any) -> None:
        """Sets a message aside. It is durable on return; the same message again changes nothing."""
        if self._keep(ASIDE, json.dumps({**facts, "why": why}).encode() + b"\n" + data) and self._log:
            self._log.event("message set aside", "warning", why=why, bytes=len(data), **facts)

    def refuse(self, why: str, **facts: Any) -> None:
        """Notes that a message is refused: it is neither read nor acknowledged."""
        if self._keep(REFUSED, json.dumps({**facts, "why": why}).encode()) and self._log:
            self._log.event("message refused", "warning", why=why, **facts)

    def _keep(self, folder: str, text: bytes) -> bool:
        if (cost := max(len(text), _ASIDE_EACH)) > self._left:
            return False
        is_new = self._store.create(f"{folder}{self._agent}-{xxh3_64_hexdigest(text)}", text)
        self._left -= cost if is_new else 0
        return is_new


def set_aside(store: Store) -> int:
    """Returns how many messages were set aside. Repairs keep what they take out in folders of their own there."""
    return sum(name.count("/") == 1 for name in store.list(ASIDE))


def refused(store: Store) -> list[Mapping[str, Any]]:
    """Returns the messages that agents refuse, or refused when they last ran, and why."""
    found = []
    for name in store.list(REFUSED):
        try:
            found.append(json.loads(store.get(name)))
        except FileNotFoundError:  # its agent has just started again
            continue
    return found


_NAME = re.compile(r"inbox/([^/]+)-(\d{12,})(?:\.to\.([^/.]*)\.(\d+)\.(\d+)of(\d+)\.([a-z]+))?\.arrow")


def _name(message: Message) -> str:
    is_next = message.parts == 1 and message.previous == message.number - 1
    plain = message.to == ANY and is_next and message.kind == LINKS
    rest = "" if plain else f".to.{message.to}.{message.previous}.{message.part}of{message.parts}.{message.kind}"
    return f"inbox/{message.sender}-{message.number:012d}{rest}.arrow"


def _named(name: str) -> Message | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    sender, number, to, previous, part, parts, kind = match.groups()
    if to is None:
        return Message(sender, int(number), 0, ANY, b"", previous=int(number) - 1)
    return Message(sender, int(number), int(part), to, b"", kind, int(parts), int(previous))
