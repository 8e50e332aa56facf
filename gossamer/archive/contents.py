"""`Contents` reads the answer to a visit back from the WARC files: its headers, and its body decoded."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import duckdb

from gossamer.archive.reading import Reading, location_of
from gossamer.archive.views import statements
from gossamer.archive.warc_reader import UNREADABLE, read_record
from gossamer.config.folders import as_place, folder_of
from gossamer.config.last_run import recall
from gossamer.errors import ArchiveError
from gossamer.web.answer import DECODED_BYTES, Answer
from gossamer.web.http import rendered_head

Place = tuple[str, int] | tuple[str, int, int]  # WARC file, offset of the record, and its length where it is known
Visited = tuple[str, int]  # URL, milliseconds since 1970

_HOPS = 5  # archives of earlier versions have revisits that refer to revisits, of the same content elsewhere
# The name of a page that is a POST has its body at the end (web/posts.py); records do not.
_ORIGINALS = """SELECT split_part(url, '#', 1) AS target, epoch_ms(time), warc, warc_offset FROM visits
    WHERE warc <> '' AND target IN (SELECT unnest(?::VARCHAR[])) ORDER BY is_revisit DESC, time DESC"""


class Contents:
    """`Contents` reads answers by their place in the WARC files of one reading. Threads may share it."""

    def __init__(self, at: Reading) -> None:
        self._at = at
        # Only what the archive names is readable: SQL may ask for any name.
        self._agents = {name: agent for agent, found in at.snapshots.items() for name in found.files.get("warc", [])}
        self._warcs: dict[str, Path] = {}
        self._visits: duckdb.DuckDBPyConnection | None = None
        self._others: list[Contents] | None = None  # of the crawls in `archive.dedupe`, once they are needed
        self._lock = threading.Lock()

    def each(
        self,
        places: Sequence[Place | None],
        value: Callable[[int, Answer], str | bytes | None],
        most: int = DECODED_BYTES,
    ) -> list[str | bytes | None]:
        """Returns `value` of each position and answer; None where nothing is stored.

        Only one answer is in memory at a time. Revisit records are followed to the record that has the body, also to
        another crawl that the last run had in `archive.dedupe`. Bodies are read up to `most` bytes.
        """
        found: list[str | bytes | None] = [None] * len(places)
        pending = {i: place for i, place in enumerate(places) if place is not None}
        for _ in range(_HOPS):
            revisits: dict[int, Visited] = {}
            for i, place in pending.items():
                answer, refers_to = self._read(place, most)
                if answer is not None:
                    found[i] = value(i, answer)
                elif refers_to is not None:
                    revisits[i] = refers_to
            if not revisits:
                break
            originals = self._originals(set(revisits.values()))
            elsewhere = {i: visit for i, visit in revisits.items() if visit not in originals}
            for other in self._open_others() if elsewhere else ():
                theirs = other._originals(set(elsewhere.values()))
                for i in [i for i, visit in elsewhere.items() if visit in theirs]:
                    answer, _ = other._read(theirs[elsewhere.pop(i)], most)
                    found[i] = value(i, answer) if answer is not None else None
            pending = {i: originals[visit] for i, visit in revisits.items() if visit in originals}
        return found

    def path(self, name: str) -> Path | None:
        """Returns a WARC file of the archive, on this machine; None if the archive has none of that name."""
        return self._warc(name) if name in self._agents else None

    def _read(self, place: Place, most: int) -> tuple[Answer | None, Visited | None]:
        """Returns the answer at a place, and for a revisit the visit that it refers to."""
        if place[0] not in self._agents:
            return None, None
        try:
            record = read_record(self._warc(place[0]), place[1], most=most)
        except UNREADABLE:
            raise ArchiveError(f"there is no record at offset {place[1]} of {place[0]}") from None
        if record.headers.get("WARC-Type") == "revisit":
            url = record.headers.get("WARC-Refers-To-Target-URI", "")
            return None, (url, milliseconds(record.headers.get("WARC-Refers-To-Date", "")))
        if record.headers.get("WARC-Type") != "response":  # a note in the place of a record that was damaged
            return None, None
        if record.rendered is not None:
            return Answer(rendered_head(record.head), record.rendered), None
        return Answer(record.head, record.body), None

    def _warc(self, name: str) -> Path:
        """Returns a WARC file, which is fetched when it is first asked for."""
        with self._lock:
            if name not in self._warcs:
                (self._warcs[name],) = self._at.of_agent(self._agents[name], [name])
            return self._warcs[name]

    def _open_others(self) -> "list[Contents]":
        with self._lock:
            if self._others is None:
                before = recall(folder_of(self._at.directory))
                self._others = []
                for name in before.archive.dedupe if before else ():
                    with contextlib.suppress(ArchiveError):  # it is gone: what only it has is unknown
                        self._others.append(Contents(location_of(as_place(name)).read()))
            return self._others

    def _originals(self, wanted: set[Visited]) -> dict[Visited, Place]:
        """Finds the visits that many revisits refer to by one look through the table: so places come in groups."""
        with self._lock:
            if self._visits is None:
                self._visits = duckdb.connect()
                for statement in statements(self._visits, {"visits": self._at.paths("visits")}):
                    self._visits.execute(statement)
            rows = self._visits.execute(_ORIGINALS, [[url for url, _ in wanted]]).fetchall()
        # Others, and earlier versions, note the second alone.
        places: dict[Visited, Place] = {(url, ms // 1000 * 1000): (warc, offset) for url, ms, warc, offset in rows}
        places |= {(url, ms): (warc, offset) for url, ms, warc, offset in rows}
        return {visit: places[visit] for visit in wanted if visit in places}

    def close(self) -> None:
        with self._lock:
            if self._visits is not None:
                self._visits.close()
                self._visits = None
            for other in self._others or ():
                other.close()


def milliseconds(date: str) -> int:
    """Returns a WARC-Date as the tables have it; -1 if it is none."""
    try:
        return round(datetime.fromisoformat(date).timestamp() * 1000)
    except ValueError:
        return -1
