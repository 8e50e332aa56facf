"""This module puts a message into NATS messages, and back: only it knows their headers, and how much one may carry.

A `Message` of any length can be sent: it is cut into pieces, each a NATS message of its own. Only the headers `number`,
`part`, `parts`, `previous` and `kind` are required. `protocol` is the version of the protocol, `piece` and `pieces` say
which piece of the data it is, and `digest` is the xxh3 of that piece.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from gossamer.archive.bundle import group_of
from gossamer.archive.manifest import ANY, BUNDLE, PROTOCOL, Message
from gossamer.archive.state import replace
from gossamer.errors import TooNew, Unreadable

PIECE_BYTES = 1 << 20  # half of what a server takes: the rest is more than enough for headers
ANYONE = "="  # the receiver of what is for anyone, and with a number, of bundles; no agent can have such a name
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_GROUP = re.compile(rf"{ANYONE}[0-9]+")
_TO = re.compile(rf"{ANYONE}[0-9]*|{_NAME.pattern}")
_COUNT = re.compile(r"[0-9]{1,18}")
_KIND = re.compile(r"[a-z]{1,32}")
HEADERS = ("number", "part", "parts", "previous", "kind", "protocol", "digest", "piece", "pieces")
_NUMBERS = {"number": None, "part": None, "parts": None, "previous": None, "protocol": "1", "piece": "0", "pieces": "1"}


class Piece(NamedTuple):
    """`Piece` is one NATS message: a `Message` with a piece of its data."""

    message: Message
    piece: int = 0
    pieces: int = 1


def token(name: str) -> str:
    """Returns a name as a part of a subject."""
    if name == ANY:
        return ANYONE
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for an agent: letters, digits, - and _ only")
    return name


def subject_of(message: Message) -> str:
    to = group(message.to) if message.kind == BUNDLE else token(message.to)
    return f"links.{to}.{token(message.sender)}"


def group(agent: str) -> str:
    """Returns, as a part of a subject, the group of agents that receive the same bundles."""
    return f"{ANYONE}{group_of(agent)}"


def sealed(message: Message) -> Iterator[tuple[dict[str, str], bytes]]:
    """Returns the NATS messages of a message: headers, and data."""
    pieces = max(1, -(-len(message.data) // PIECE_BYTES))
    for piece in range(pieces):
        names = ("number", "part", "parts", "previous", "kind", "protocol")
        headers = {name: str(getattr(message, name)) for name in names}
        # The server takes the same message only once, for a while.
        headers["Nats-Msg-Id"] = f"{message.stream}/{message.number}/{message.part}" + (f"/{piece}" if piece else "")
        if pieces > 1:
            headers |= {"piece": str(piece), "pieces": str(pieces)}
        data = message.data[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES]
        headers["digest"] = xxh3_64_hexdigest(data)
        yield headers, data


def opened(subject: str, headers: Mapping[str, str], data: bytes) -> Piece:
    """Reads what `sealed` made. Raises TooNew for a later version, and Unreadable for anything else."""
    sender, to = ends(subject)
    _check_protocol(_count(headers, "protocol", "1"))
    found = {name: _count(headers, name, other) for name, other in _NUMBERS.items()}
    kind = headers.get("kind", "")
    if not _KIND.fullmatch(kind):
        raise Unreadable(f"its kind is {kind[:50]!r}")
    number, part, parts, previous, protocol, piece, pieces = found.values()
    is_bundle = _GROUP.fullmatch(to) is not None
    if is_bundle != (kind == BUNDLE):
        raise Unreadable(f"its kind is {kind}, and its subject {subject}")
    if not ((is_bundle or (previous < number and part < parts)) and piece < pieces):
        raise Unreadable("its numbers contradict each other")
    if headers.get("digest", digest := xxh3_64_hexdigest(data)) != digest:
        raise Unreadable("its data were damaged on their way; its sender has them, and sends them when it starts again")
    return Piece(Message(sender, number, part, to, data, kind, parts, previous, protocol), piece, pieces)


def joined(pieces: Iterable[Piece]) -> list[Message]:
    """Returns the messages of which all pieces are there."""
    found: dict[tuple[str, int, int], dict[int, Piece]] = {}
    for each in pieces:
        found.setdefault((each.message.stream, each.message.number, each.message.part), {})[each.piece] = each
    whole = []
    for by_number in found.values():
        first, count = next((each.message, each.pieces) for each in by_number.values())
        if count == 1:
            whole.append(first)
        elif all(number in by_number for number in range(count)):
            data = b"".join(by_number[number].message.data for number in range(count))
            whole.append(replace(first, data=data))
    return whole


def ends(subject: str) -> tuple[str, str]:
    """Returns sender and receiver of a NATS message."""
    words = subject.split(".")
    if len(words) != 3 or not (_NAME.fullmatch(words[2]) and _TO.fullmatch(words[1])):
        raise Unreadable(f"its subject is {subject[:50]!r}")
    return words[2], ANY if words[1] == ANYONE else words[1]


def _check_protocol(version: int) -> None:
    if version > PROTOCOL:
        raise TooNew(
            f"it is written in version {version} of the protocol, and this gossamer reads versions up to {PROTOCOL}: "
            "install the version here that its sender has, then run the same command again"
        )


def _count(headers: Mapping[str, str], name: str, other: str | None) -> int:
    text = headers.get(name, other)
    if text is None:
        raise Unreadable(f"it has no header {name!r}")
    if not _COUNT.fullmatch(text):
        raise Unreadable(f"its header {name!r} is {text[:50]!r}")
    return int(text)
