"""This module defines the messages between a scan's coordinator and its clients: lines, through pipes or a nats-server.

A client first gets its task. A kind of message that a reader does not know is skipped, a field likewise (see
`cluster.protocol`).
"""

import msgspec

from gossamer.cluster.protocol import Versioned, decode_any
from gossamer.config import Config
from gossamer.errors import Unreadable
from gossamer.scan.records import Facts

SILENT = "it no longer reports"  # how a client ended if nothing is known of it


class ClientTask(Versioned, frozen=True, kw_only=True):
    """`ClientTask` is given to the process of a client."""

    client: str  # its name
    scan: str  # folder; for clients on other machines, a name that no other scan has
    config: Config
    keep: bool = False  # the crawl, when the scan is over


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    website: str
    start: str  # URL


class Echo(msgspec.Struct, frozen=True, tag="echo"):
    """A client sends `Echo` back as it came, to measure the way."""

    text: str
    sent_s: float


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """`Stop` orders a client to end, and to leave for others what is not finished."""


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """`Progress` reports how far a client is with a website."""

    pages: int = 0
    wire_bytes: int = 0
    trouble: str = ""  # what went wrong, in words


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """`Standing` reports that a client is alive, and how far it is with the websites under way."""

    at: dict[str, Progress]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """`Done` reports that the results are on disk; from another machine it brings the facts and the links."""

    website: str
    facts: Facts | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    website: str
    why: str


class ClientReport(Versioned, frozen=True, kw_only=True):
    """`ClientReport` is a sign of life of a client on another machine."""

    died: str = ""  # the last session that ended because its process did
    run: str = ""  # the coordinator's run that it works for; empty: it is free
    session: str = ""
    at: dict[str, Progress] = msgspec.field(default_factory=dict)


class ClientOrders(Versioned, frozen=True, kw_only=True):
    """`ClientOrders` says what a client on another machine shall do."""

    run: str
    coordinator: str = ""
    task: ClientTask | None = None  # None: the run is over


Message = Begin | Echo | Stop | Standing | Done | Failed


def read(line: bytes) -> Message | None:
    """Decodes a message; None: no kind that we know, or the incomplete line of a client that was killed."""
    try:
        found: Message = decode_any(Message, line)
    except Unreadable:
        return None
    return found
