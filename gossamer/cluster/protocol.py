"""This module defines and encodes the messages between the processes of a crawl: JSON with a version.

A reader ignores fields that it does not know, and every new field has a default: so versions of Gossamer that differ by
that can work together. A change that an older reader would misunderstand raises PROTOCOL; it refuses such a message, as
if it had not come.
"""

import threading
from functools import cache
from typing import Any, TypeVar

import msgspec

from gossamer.archive.state import Members
from gossamer.cluster.federation_file import Site
from gossamer.config import Config
from gossamer.crawl.stats import Report, Stats
from gossamer.errors import TooNew, Unreadable
from gossamer.sharing.control import Orders

PROTOCOL = 1
T = TypeVar("T")
_LEAST_SHARE = 1e-9
Address = dict[str, str]  # of a nats-server: url, and user and password, or certificates


class Versioned(msgspec.Struct, frozen=True, kw_only=True):
    protocol: int = PROTOCOL


class Heartbeat(Versioned, frozen=True, kw_only=True):
    """`Heartbeat` is an agent's sign of life to its site."""

    incarnation: str  # of its process
    life: int  # a process has one after the other, with figures of their own
    pid: int
    alive_s: float
    report: Report | None = None  # None: it begins


class AgentOrders(Versioned, frozen=True, kw_only=True):
    incarnation: str  # whom they are for; a later one has the place of those before
    orders: Orders


class Wish(Versioned, frozen=True, kw_only=True):
    """`Wish` is what a person asks of a running site: one agent more, or that this one leaves."""

    retire: str = ""


class Federated(msgspec.Struct, frozen=True, kw_only=True):
    """`Federated` is what an agent knows of the federation that its site is in."""

    site: str
    members: Members
    sites: dict[str, Site]
    others: list[str] = []  # the sites that can be reached
    gone: list[str] = []
    is_replicated: bool = False

    @property
    def share(self) -> float:
        """Returns the site's share of what is meant for the whole crawl: that of the hosts. It is above zero: a site
        that gives its hosts away spends next to nothing."""
        weights = self.members.weights
        return max(weights[self.site] / sum(weights.values()), _LEAST_SHARE)


class AgentTask(Versioned, frozen=True, kw_only=True):
    """`AgentTask` is given to the process of an agent."""

    name: str
    directory: str
    config: Config
    address: Address
    incarnation: str
    is_home: bool
    quiet_s: float = (
        0.0  # so long it contacts no host, by its own clock: requests of the one before it may be under way
    )
    federation: Federated | None = None


class Summary(Versioned, frozen=True, kw_only=True):
    """`Summary` is the state of a site, for the other ones."""

    finished: bool
    sent: dict[str, int] = {}  # by stream to another site: the number of the last message
    marks: dict[str, int] = {}
    numbers: dict[str, int] = {}  # of the last commit, by agent
    crossed: dict[str, dict[str, int]] = {}
    agents: int = 0  # that run
    stats: Stats | None = None
    serial: int = 0  # rises with each summary
    done: bool = False  # it knows that all is over
    over: list[str] = []  # sites of which it knows that they know
    members: Members | None = None
    refused: str = ""  # why it does not follow its file
    left: bool = False  # it has ended
    addresses: dict[str, str] = {}  # of all sites by its list; empty for one that is gone


_making = threading.Lock()


class _Head(msgspec.Struct):
    protocol: int = 1


def encode(message: object) -> bytes:
    return msgspec.json.encode(message)


def decode(kind: type[T], data: bytes) -> T:
    """Decodes a message. Raises Unreadable if it is no such message, TooNew if it is of any later version."""
    return decode_any(kind, data)  # type: ignore[no-any-return]


def decode_any(kinds: Any, data: bytes) -> Any:
    """Does the same for one of several kinds."""
    try:
        version = _decoder(_Head).decode(data).protocol
        if version > PROTOCOL:
            raise TooNew(f"it is of version {version} of the protocol, and this Gossamer knows version {PROTOCOL}")
        return _decoder(kinds).decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"it is no message of ours: {error}") from error


def _decoder(kinds: Any) -> msgspec.json.Decoder[Any]:
    """Returns the decoder of a kind. It is made by one thread at a time: two that meet the same struct for the first
    time crash msgspec, and with it the process."""
    with _making:
        return _made(kinds)


@cache
def _made(kinds: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kinds)


def decode_or_none(kind: type[T], data: bytes) -> T | None:
    """Decodes a message; None if it cannot be read: it was deleted, or is none of ours."""
    try:
        return decode(kind, data)
    except Unreadable:
        return None
