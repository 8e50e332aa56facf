"""The port between a scan's coordinator and its clients: messages to and fro, carried by pipes or by a nats-server.

To a client:
      {"client": NAME, "scan": FOLDER, "config": {...}, "keep": false}   first, once
      {"begin": WEBSITE, "start": URL}     {"echo": TEXT}     {"stop": true}
From it:
      {"at": {WEBSITE: [pages, bytes, trouble]}}   now and then: it is alive, and so far; what went wrong, in words
      {"done": WEBSITE}                    its facts and links are on the coordinator's disk
      {"failed": WEBSITE, "why": TEXT}
      {"left": WEBSITE}                    stopped before its end; whoever begins it next goes on there
      {"echo": TEXT}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Queue
from typing import Any, Protocol

from gossamer.config import Config

UNHEARD = "not heard of"  # how a client ended of which nothing is known
Message = dict[str, Any]
Said = Queue[tuple[int, Message | None]]  # by which client, and what; None: it is gone


@dataclass(frozen=True)
class Worker:
    """A client as the coordinator wants it."""

    name: str
    slots: int = 4
    values: Mapping[str, Any] = field(default_factory=dict)  # configuration of its own
    is_remote: bool = False  # it is on another machine, and comes and goes

    def delay_s(self, config: Config) -> float:
        """What it keeps between two requests, if all are told `config`."""
        return config.replace(self.values).polite.delay_s


class Channel(Protocol):
    """Port: the coordinator's end. What the client says is put into a queue, with the number of the client."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """In order; lost if the client is gone, which is heard of."""

    def kill(self) -> str:
        """It scans no longer when this returns, or will not be heard; how it ended, in words."""

    def close(self, patience_s: float) -> None:
        """In the end, whatever became of the client; it may take so long to finish what it is told."""


@dataclass
class Member:
    """A client of a scan as far as the coordinator knows it."""

    worker: Worker
    number: int
    channel: Channel
    at: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    pages: int = 0
    done: int = 0
    took_s: float = 0.0  # of pages that it has fetched, and
    forecast_s: float = 0.0
    heard_s: float = 0.0
    is_alive: bool = True
    is_ready: bool = False  # it has begun to speak
    way: dict[str, float] = field(default_factory=dict)  # what was measured of the way to it
