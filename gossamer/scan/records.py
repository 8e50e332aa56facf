"""This module manages a scan directory: which scans there are, the configuration of each, and what became of it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gossamer.archive.outputs import replaced
from gossamer.errors import ArchiveBusy, ArchiveError
from gossamer.scan.facts import ScanFolder
from gossamer.scan.websites import Website

FILE = "scan.json"


class Record(msgspec.Struct):
    """`Record` describes a scan. It is written when the scan begins, when something happens to it, and at its end."""

    number: int
    mode: str
    begun_s: float
    websites: list[list[str]]  # name and start
    duplicates: list[str] = []
    invalid: list[str] = []
    clients: dict[str, dict[str, Any]] = {}  # by name: what was measured of each
    forecast_s: dict[str, float] = {}  # by website, on the client that was to scan it
    planned_s: float = 0.0  # makespan
    bound_s: float = 0.0
    events: list[str] = []  # what a user should know
    ended_s: float = 0.0  # 0: it has not
    makespan_s: float = 0.0  # all runs together

    @property
    def listed(self) -> list[Website]:
        return [Website(name, start) for name, start in self.websites]


class Scans:
    """`Scans` holds the scans below one directory, by number from 1 on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the directory for one process: only one scans here at a time."""
        if (self.directory / "gossamer.json").exists():
            raise ArchiveError(f"{self.directory} holds a crawl; choose another --dir for scans")
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArchiveBusy(
                    f"another process scans in {self.directory}; stop it, or choose another --dir"
                ) from None
            yield

    def folder(self, number: int) -> Path:
        return self.directory / "scans" / f"{number:04}"

    def files(self, number: int) -> ScanFolder:
        return ScanFolder(self.folder(number))

    def numbers(self) -> list[int]:
        found = (self.directory / "scans").glob(f"[0-9]*/{FILE}")
        return sorted(int(path.parent.name) for path in found)

    def read(self, number: int) -> Record:
        path = self.folder(number) / FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError) as error:
            raise ArchiveError(f"{path} is damaged ({error}); remove {path.parent} to do that scan again") from None

    def write(self, record: Record) -> None:
        folder = self.folder(record.number)
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(folder / FILE, force=True) as part:
            part.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def ended(self) -> list[Record]:
        return [record for record in map(self.read, self.numbers()) if record.ended_s]

    def unfinished(self) -> Record | None:
        """Returns the last scan, if it was interrupted."""
        numbers = self.numbers()
        record = self.read(numbers[-1]) if numbers else None
        return record if record is not None and not record.ended_s else None
