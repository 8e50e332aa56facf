"""Messages that cannot be read: kept where nobody trips over them, and where somebody can look at them.

`aside/` has those that are not needed any more where they came from: all of each, and why. `refused/` has notes about
those that stay where they are, unacknowledged, until somebody does something about them.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from xxhash import xxh3_64_hexdigest

from gossamer.archive.store import Memory, Store

ASIDE, REFUSED = "aside/", "refused/"


class Events(Protocol):
    """Where it is said; `watch.log.EventLog` is one."""

    def event(self, name: str, **fields: Any) -> None: ...


class Aside:
    """Of one agent. All methods may be called from any thread. Without a store nothing outlives the process."""

    def __init__(self, agent: str, store: Store | None = None, log: Events | None = None) -> None:
        self._agent, self._log = agent, log
        self._store = store if store is not None else Memory()
        for name in self._store.list(f"{REFUSED}{agent}-"):  # by an earlier process: what is still so is said again
            self._store.delete(name)

    def put(self, data: bytes, why: str, **facts: Any) -> None:
        """Durable when it returns. The same once more changes nothing."""
        if self._keep(ASIDE, json.dumps({**facts, "why": why}).encode() + b"\n" + data) and self._log:
            self._log.event("message set aside", why=why, bytes=len(data), **facts)

    def refuse(self, why: str, **facts: Any) -> None:
        """It is neither read nor acknowledged."""
        if self._keep(REFUSED, json.dumps({**facts, "why": why}).encode()) and self._log:
            self._log.event("message refused", why=why, **facts)

    def _keep(self, folder: str, text: bytes) -> bool:
        return self._store.create(f"{folder}{self._agent}-{xxh3_64_hexdigest(text)}", text)


def set_aside(store: Store) -> int:
    """How many messages were. Repairs keep what they take out in folders of their own there."""
    return sum(name.count("/") == 1 for name in store.list(ASIDE))


def refused(store: Store) -> list[Mapping[str, Any]]:
    """The messages that agents refuse, or did when they last ran: what they are, and why."""
    found = []
    for name in store.list(REFUSED):
        try:
            found.append(json.loads(store.get(name)))
        except FileNotFoundError:  # just started again
            continue
    return found
