"""A *bundle* is the short messages of a commit for other agents of the site, as one file and one message on its way.

An agent of sixteen has something for each other one in most commits, and mostly little: each message of its own would
cost its sender, the server and its receiver as much as a long one. So they go together to up to sixteen agents, all of
which receive the bundle and take what is theirs. Streams, numbers and marks are those of the messages: a bundle is how
they travel. What is long travels by itself, and so do zones, hosts, and whatever goes to another site.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import zstandard
from msgspec import Struct

from gossamer.archive.manifest import BUNDLE, LINKS, NEWS, SEEDS, Message, OutboxEntry, site_of
from gossamer.archive.state import replace
from gossamer.archive.store import Store
from gossamer.errors import Unreadable

GROUP = 16  # agents that receive the same bundles
LONG_BYTES, MOST_BYTES = 64 << 10, 512 << 10  # of a message that travels by itself; of a bundle, unpacked
_KINDS = (LINKS, SEEDS, NEWS)
_HEAD_BYTES = 128  # of a message in the list of what there is, beside its receiver, at most
_NUMBER = re.compile(r"\d{1,9}$")


class _Section(Struct, frozen=True, array_like=True):
    to: str
    part: int
    parts: int
    previous: int
    kind: str
    protocol: int
    size: int


_HEAD = msgspec.json.Decoder(list[_Section])


def group_of(agent: str) -> int:
    """Returns the number of the group that an agent belongs to: by its name alone, so that nobody need be told. Who has
    no number in its name, as sites have none, belongs to no group: -1."""
    found = _NUMBER.search(agent)
    return int(found[0]) // GROUP if found else -1


def bundled(messages: Iterable[Message]) -> list[Message]:
    """Returns the messages of a commit as they travel: in bundles, or by themselves."""
    made, short = [], dict[tuple[int, int], list[Message]]()
    for message in messages:
        if _is_short(message):
            short.setdefault((group_of(message.to), message.number), []).append(message)
        else:
            made.append(message)
    for key in sorted(short):
        made += _in_bundles(short[key])
    return made


def _is_short(message: Message) -> bool:
    is_near = message.to != message.sender and site_of(message.to) == site_of(message.sender)
    return is_near and group_of(message.to) >= 0 and message.kind in _KINDS and len(message.data) < LONG_BYTES


def _in_bundles(messages: Sequence[Message]) -> Iterator[Message]:
    parts: list[list[Message]] = []
    room = 0
    for message in messages:
        size = len(message.data) + len(message.to) + _HEAD_BYTES
        if size > room:
            parts.append([])
            room = MOST_BYTES
        room -= size
        parts[-1].append(message)
    for part, found in enumerate(parts):
        yield _bundle(found, part)


def _bundle(messages: Sequence[Message], part: int) -> Message:
    first, receivers = messages[0], sorted({message.to for message in messages})
    head = [_Section(m.to, m.part, m.parts, m.previous, m.kind, m.protocol, len(m.data)) for m in messages]
    data = b"\n".join([msgspec.json.encode(head), *(message.data for message in messages)])
    return Message(first.sender, first.number, part, ",".join(receivers), zstandard.compress(data), BUNDLE)


def unbundled(message: Message) -> list[Message]:
    """Returns the messages in a bundle; any other message is its own."""
    if message.kind != BUNDLE:
        return [message]
    try:
        size = zstandard.get_frame_parameters(message.data).content_size
        if not 0 < size <= MOST_BYTES:
            raise Unreadable("it is longer than a bundle can be")
        head, _, body = zstandard.decompress(message.data).partition(b"\n")
        sections = _HEAD.decode(head)
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(f"it is no bundle: {error}") from None
    found, at, number = [], 0, message.number
    for to, part, parts, previous, kind, protocol, size in map(msgspec.structs.astuple, sections):
        if kind not in _KINDS or size < 0 or not (0 <= part < parts and 0 <= previous < number):
            raise Unreadable("its parts contradict each other")
        data, at = body[at : at + size], at + size + 1
        found.append(Message(message.sender, number, part, to, data, kind, parts, previous, protocol))
    if at != len(body) + 1:
        raise Unreadable("its parts are not as long as it says")
    return found


def messages_of(store: Store, outbox: Iterable[OutboxEntry]) -> Iterator[Message]:
    """Reads the messages of an outbox."""
    for entry in outbox:
        yield from unbundled(replace(entry.message, data=store.get(entry.name)))
