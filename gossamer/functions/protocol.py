"""This module defines what an agent and its function workers say to each other: frames of msgpack in pipes."""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

_LENGTH = struct.Struct("<I")
PROGRESS = struct.Struct("<qq")  # what a worker is at: the page's number, and the function's place (-1: none yet)
RETIRED = -2  # in the place of that: the worker has ended for no page's fault
# Kinds of errors.
RAISED, TIMEOUT, MEMORY, CRASHED, INVALID, TOO_LARGE = "raised", "timeout", "memory", "crashed", "invalid", "too large"


class Setup(Struct, frozen=True):
    """`Setup` is the first frame that a worker gets."""

    functions: dict[str, str] = {}  # by the name that tables have: where it is, "module:name" or "file.py:name"
    links: str = ""
    time_s: float = 10.0
    memory_mb: int = 1024
    page_mb: int = 64
    agent_name: str = "Gossamer"
    links_per_page: int = 10_000
    parse_bytes: int = 8 << 20
    path: list[str] = []  # where the agent looks for modules
    argv: list[str] = []  # what the agent's program was called with: a script may look at it


class Task(Struct, frozen=True, array_like=True):
    """`Task` is a page for the functions."""

    number: int
    url: str
    status: int
    time_s: float
    depth: int
    head: bytes
    body: bytes  # as it came over the wire
    warc: str = ""  # or where it is stored: head and body are then empty, and the worker reads them
    offset: int = 0
    length: int = 0


class Ready(Struct, frozen=True):
    """`Ready` is a worker's answer to its setup."""

    error: str = ""  # why the functions cannot be used, and what to do
    code: list[str] = []  # of each function, a digest of its source
    columns: list[dict[str, str]] = []  # of each function, the typed columns it declares: name, type (item_types.py)


class Error(Struct, frozen=True, array_like=True):
    """`Error` says why a function has failed on a page."""

    function: str
    kind: str
    error: str
    traceback: str = ""


class Result(Struct, array_like=True):
    """`Result` is what the functions made of a page."""

    number: int
    items: list[tuple[int, bytes]] = []  # place of the function, item as JSON
    follows: list[tuple[str, float]] = []  # URL in normal form, priority
    files: list[tuple[int, str, bytes]] = []
    errors: list[Error] = []
    refused: list[int] = []  # keys of links that the links function refuses
    weights: list[tuple[int, float]] = []  # keys of links, and what they count
    columns: list[tuple[int, str, str]] = []  # typed columns that are new: place of the function, name, type
    refuses_all: bool = False  # the links function has failed: no link of the page is followed
    is_unread: bool = False  # the worker could not read the page; no function was run


_encoder = msgspec.msgpack.Encoder()


def frame(value: Any) -> bytes:
    data = _encoder.encode(value)
    return _LENGTH.pack(len(data)) + data


def frames(buffer: bytearray) -> Iterator[bytes]:
    """Takes whole frames off the front of a buffer."""
    at = 0
    while len(buffer) - at >= _LENGTH.size:
        (size,) = _LENGTH.unpack_from(buffer, at)
        if len(buffer) - at - _LENGTH.size < size:
            break
        at += _LENGTH.size
        yield bytes(memoryview(buffer)[at : at + size])
        at += size
    del buffer[:at]
