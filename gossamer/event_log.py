"""`EventLog` is the crawl's structured log: one JSON object per line, in files whose total size is bounded."""

import json
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from gossamer.clocks import Clock, RealClock
from gossamer.config import Log

LEVELS = ("debug", "info", "warning")


def log_of(folder: Path, settings: Log, agent: str = "") -> "EventLog":
    """Returns the log of the crawl in a folder, or that of one of its agents."""
    path = Path(settings.file) if settings.file else folder / "log" / f"{agent or 'crawl'}.jsonl"
    if settings.file and agent:
        path = path.with_stem(f"{path.stem}-{agent}")
    return EventLog(path, file_bytes=settings.mb << 20, level=settings.level)


class EventLog:
    """`EventLog` appends events to `path`; when it is full it becomes `path.1`, that becomes `path.2`, and so on.

    Several threads may log. A log that cannot be written (a full disk, say) never stops a crawl: the event is
    counted, and the next line that can be written says how many were lost.
    """

    def __init__(
        self, path: Path, clock: Clock | None = None, file_bytes: int = 16 << 20, files: int = 4, level: str = "info"
    ) -> None:
        self.path = path
        self.logs_debug = level == "debug"  # whoever logs often asks before
        self._least = LEVELS.index(level)
        self.dropped = 0
        self._clock = clock or RealClock()
        self._file_bytes = file_bytes
        self._files = files
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._size = 0

    def event(self, name: str, level: str = "info", **fields: Any) -> None:
        if LEVELS.index(level) < self._least:
            return
        with self._lock:
            line = self._line(name, level, fields)
            try:
                self._append(line)
            except OSError:
                self.dropped += 1
                self._close()
            else:
                self.dropped = 0

    def _line(self, name: str, level: str, fields: dict[str, Any]) -> bytes:
        entry: dict[str, Any] = {"time": moment(self._clock.now()), "level": level, "event": name, **fields}
        if self.dropped:
            entry["dropped"] = self.dropped
        # `default=str` because a log must take whatever it is given: paths, enums, NumPy numbers.
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "backslashreplace") + b"\n"

    def _append(self, line: bytes) -> None:
        if self._file is not None and self._size + len(line) > self._file_bytes:
            self._close()
            self._rotate()
        if self._file is None:
            self._file = self._open(len(line))
        written = self._file.write(line)
        self._size += written
        if written < len(line):
            raise OSError("only a part of the line fitted")

    def _open(self, room: int) -> BinaryIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        size = self.path.stat().st_size if self.path.exists() else 0
        if size and size + room > self._file_bytes:
            self._rotate()
        file = self.path.open("ab", buffering=0)  # unbuffered: a killed process loses no event
        self._size = file.tell()
        if self._size and not _ends_with_newline(self.path):
            file.write(b"\n")  # the process before us died in the middle of a line
            self._size += 1
        return file

    def _rotate(self) -> None:
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, self._files))]
        for newer, older in reversed([*pairwise(names)]):
            if newer.exists():
                newer.replace(older)
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        with self._lock:
            self._close()

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def moment(time_s: float) -> str:
    """Returns a time as logs have it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
