"""`RobotsCache` keeps the rules of every origin's robots.txt, within a bound of bytes and until they expire."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gossamer.columns import Outcome
from gossamer.config import Polite
from gossamer.fetch.politeness import longest_robots_s
from gossamer.web.preferences import Reservations, rules_of_file
from gossamer.web.robots import LIMIT_BYTES, Rules, verdict_of_status
from gossamer.web.url import path_of

_ENTRY_BYTES = 300  # of an entry without its rules

UNREACHABLE = Rules.deny_all()  # of an origin whose robots.txt is out of reach

Row = dict[str, Any]  # one of the ROBOTS table


@dataclass(slots=True)
class _Entry:
    expires_s: float
    rules: Rules | Reservations | None  # None: not parsed yet
    body: bytes = b""  # of rules not parsed yet
    size_bytes: int = _ENTRY_BYTES
    failures: int = 0  # in a row; 0: these are rules, or there is no robots.txt
    outcome: Outcome = Outcome.OK  # why it is unreachable
    reason: str = ""


def is_file(origin: str) -> bool:
    """Returns whether the rules are not those of an origin's robots.txt, but of another file (crawl.opt_out_file)."""
    return origin.count("/") > 2


class RobotsCache:
    """RFC 9309: a file that exists rules; a missing one allows all; one out of reach forbids all for now."""

    def __init__(self, config: Polite, agent_name: str) -> None:
        self._config = config
        self._agent_name = agent_name
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._size_bytes = 0
        self.rows: list[Row] = []  # of the ROBOTS table, until they are drained

    def rules(self, origin: str, now: float) -> Rules | None:
        """Returns the rules; None: to be fetched, for the first time or again."""
        found = self._found(origin, now)
        return found if isinstance(found, Rules) else None

    def decision(self, address: str, path: str, now: float) -> tuple[bool, str] | None:
        """Returns what another file of an origin, with rules of its own, decides about a path, and by which line; None:
        it is to be fetched."""
        found = self._found(address, now)
        return None if found is None else found.decide(path)

    def _found(self, address: str, now: float) -> Rules | Reservations | None:
        entry = self._entries.get(address)
        if entry is None or entry.expires_s <= now:
            return None
        self._entries.move_to_end(address)
        if entry.rules is None:
            entry.rules = self._parsed(address, entry.body)
            self._resize(entry, entry.rules)
        return entry.rules

    def _parsed(self, address: str, body: bytes) -> Rules | Reservations:
        if is_file(address):
            return rules_of_file(path_of(address), body, self._agent_name)
        return Rules.parse(body, self._agent_name)

    def deferred_until(self, origin: str, now: float) -> float:
        """Returns until when an unreachable robots.txt forbids everything; 0 if it does not."""
        entry = self._entries.get(origin)
        return entry.expires_s if entry is not None and entry.failures and entry.expires_s > now else 0.0

    def failure(self, origin: str) -> tuple[Outcome, str]:
        """Returns why the robots.txt of a deferred origin is unreachable."""
        entry = self._entries[origin]
        return entry.outcome, entry.reason

    def put(
        self,
        origin: str,
        http_status: int,
        body: bytes,
        now: float,
        failure: tuple[Outcome, str] | None = None,
    ) -> None:
        """Takes what a fetch brought; status 0 and the `failure` if there was no answer."""
        verdict = verdict_of_status(http_status)
        before = self._entries.get(origin)
        if verdict == "rules":
            body = body[:LIMIT_BYTES]
            rules = self._parsed(origin, body)
            entry = _Entry(now + self._config.robots_ttl_s, rules, size_bytes=_ENTRY_BYTES + rules.size_bytes)
        elif verdict == "allow_all":
            entry = _Entry(now + self._config.robots_ttl_s, Rules.allow_all())
        else:
            failures = before.failures + 1 if before is not None else 1
            pause_s = min(self._config.backoff_s * 2.0 ** min(failures - 1, 32), longest_robots_s(self._config))
            outcome, reason = failure or (Outcome.OTHER, f"robots.txt answers {http_status}")
            entry = _Entry(now + pause_s, UNREACHABLE, b"", _ENTRY_BYTES, failures, outcome, reason)
        self._store(origin, entry)
        self.rows.append(
            {
                "origin": origin,
                "time": _time(now),
                "expires": _time(entry.expires_s),
                "http_status": http_status,
                "verdict": verdict,
                "body": body if verdict == "rules" else b"",
            }
        )

    def copy(self, origin: str, source: str, now: float) -> bool:
        """Takes the rules of another origin whose robots.txt is known: a redirect led there."""
        if self.rules(source, now) is None or self.deferred_until(source, now):
            return False
        entry = self._entries[source]
        self._store(origin, _Entry(entry.expires_s, entry.rules, size_bytes=entry.size_bytes))
        return True

    def drain(self) -> list[Row]:
        """Returns rows of the ROBOTS table since the last call."""
        rows, self.rows = self.rows, []
        return rows

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes rows that were drained before a restart, oldest first. Bodies are parsed when they are needed."""
        for row in rows:
            origin, verdict, body = row["origin"], row["verdict"], row["body"] or b""
            expires_s = row["expires"].timestamp()
            if verdict == "rules":
                entry = _Entry(expires_s, None, body, _ENTRY_BYTES + len(body))
            elif verdict == "allow_all":
                entry = _Entry(expires_s, Rules.allow_all())
            else:
                before = self._entries.get(origin)
                failures = before.failures + 1 if before is not None else 1
                reason = f"robots.txt answers {row['http_status']}"
                entry = _Entry(expires_s, UNREACHABLE, b"", _ENTRY_BYTES, failures, Outcome.OTHER, reason)
            self._store(origin, entry)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def _store(self, origin: str, entry: _Entry) -> None:
        entry.size_bytes += 2 * len(origin)
        before = self._entries.pop(origin, None)
        if before is not None:
            self._size_bytes -= before.size_bytes
        self._entries[origin] = entry
        self._size_bytes += entry.size_bytes
        self._shrink()

    def _resize(self, entry: _Entry, rules: Rules | Reservations) -> None:
        size_bytes = _ENTRY_BYTES + rules.size_bytes
        self._size_bytes += size_bytes - entry.size_bytes
        entry.size_bytes, entry.body = size_bytes, b""
        self._shrink()

    def _shrink(self) -> None:
        # The newest stays whatever its size: dropping it would have it fetched again at once.
        while self._size_bytes > self._config.robots_memory and len(self._entries) > 1:
            _, dropped = self._entries.popitem(last=False)
            self._size_bytes -= dropped.size_bytes


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
