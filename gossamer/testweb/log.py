"""The server writes a log of requests, from which tests read overlaps and intervals per host.

Each request has one line, tab-separated, written when the last byte of its answer goes to the kernel:

    start_s     wall clock when the request had arrived, with microseconds
    end_s       wall clock just before the last part of the answer was handed over
    connection  number of the TCP connection
    host        as asked for
    path        with its query
    status      0 if there was no full answer: the client left, or a fault was switched on
    bytes       of the body, as sent
    agent       the client's User-Agent

Times are wall-clock at the server's start plus monotonic time since, so they never jump. `end_s` is taken *before* the
last send, because the client may act on the answer before the server runs again: so a polite client's intervals are
never measured shorter than they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer.arrays import F64, I64, Strings
from gossamer.errors import ConfigError

FLUSH_S = 0.2
_FLUSH_LINES = 1_000
_KINDS = ("f8", "f8", "i8", "U", "U", "i8", "i8", "U")  # of the columns


class LogWriter:
    """`LogWriter` appends lines. If `flush_if_due` is called often enough, they are in the file after FLUSH_S."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise ConfigError(f"cannot write the log {path}: {error.strerror}") from None
        self._lines: list[str] = []
        self._first_s = 0.0  # end of the oldest request that is not in the file

    def write(self, line: str, end_s: float) -> None:
        if not self._lines:
            self._first_s = end_s
        self._lines.append(line)

    @property
    def waiting(self) -> bool:
        return bool(self._lines)

    def flush_if_due(self, now_s: float) -> None:
        if self._lines and (now_s - self._first_s >= FLUSH_S or len(self._lines) >= _FLUSH_LINES):
            self._flush()

    def _flush(self) -> None:
        # One write of whole lines, for readers of a running server.
        self._file.write("".join(self._lines).encode("latin-1", "replace"))
        self._lines.clear()

    def close(self) -> None:
        self._flush()
        self._file.close()


@dataclass(frozen=True)
class Log:
    """`Log` is the log as columns, in order of start_s."""

    start_s: F64
    end_s: F64
    connection: I64
    host: Strings
    path: Strings
    status: I64
    bytes: I64
    agent: Strings

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def urls(self) -> list[str]:
        return [f"http://{host}{path}" for host, path in zip(self.host.tolist(), self.path.tolist(), strict=True)]

    def by_host(self) -> Iterator[tuple[str, I64]]:
        """Yields each host with its rows in order of time."""
        names, number = np.unique(self.host, return_inverse=True)
        order = np.argsort(number, kind="stable")
        ends = np.cumsum(np.bincount(number))
        for name, first, end in zip(names.tolist(), [0, *ends[:-1]], ends, strict=False):
            yield name, order[first:end]

    def overlaps(self) -> list[tuple[str, float]]:
        """Returns (host, start_s) of every request that came before all earlier ones to its host had been answered."""
        found = []
        for name, rows in self.by_host():
            ended = np.maximum.accumulate(self.end_s[rows])
            late = self.start_s[rows][1:] < ended[:-1]
            found += [(name, float(start)) for start in self.start_s[rows][1:][late]]
        return found

    def intervals(self, connections: bool = False) -> dict[str, F64]:
        """Returns per host the seconds from the end of each request to the start of the next.

        With `connections` they are only those where the next one came on another connection.
        """
        gaps = {}
        for name, rows in self.by_host():
            gap = self.start_s[rows][1:] - np.maximum.accumulate(self.end_s[rows])[:-1]
            if connections:
                gap = gap[self.connection[rows][1:] != self.connection[rows][:-1]]
            gaps[name] = gap
        return gaps


def read_log(path: Path) -> Log:
    """Reads a log, also of a running server: a line without an end is left out."""
    whole, _, _ = path.read_bytes().decode("latin-1").rpartition("\n")
    rows = [line.split("\t") for line in whole.split("\n") if line]
    rows.sort(key=lambda row: float(row[0]))
    columns: list[tuple[str, ...]] = list(zip(*rows, strict=True)) if rows else [()] * len(_KINDS)
    return Log(*(np.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)))
