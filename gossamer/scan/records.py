"""This module keeps scans on disk: which there are in a directory, what became of each, and of each website in it."""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gossamer.archive.outputs import replaced
from gossamer.archive.store import sync
from gossamer.errors import ArchiveBusy, ArchiveError
from gossamer.scan.websites import Website

FILE = "scan.json"


class Facts(msgspec.Struct, frozen=True):
    """`Facts` records what became of one website in one scan. An earlier version may have written others."""

    site: str
    start: str
    status: str  # ok, or why nothing was found: unreachable, moved, denied, failed
    reason: str = ""
    client: str = ""
    pages: int = 0  # read
    requests: int = 0  # made, robots.txt included
    errors: int = 0  # pages that could not be read in passing
    wire_bytes: int = 0
    links: int = 0  # that lead to other websites
    result_bytes: int = 0
    scan_s: float = 0.0  # earlier runs included, and reading what was found
    waited_s: float = 0.0  # of it, for what failed, until it failed again or no more
    lookup_s: float = 0.0  # for the address, per request
    connect_s: float = 0.0  # per request, most of which find a connection open
    response_s: float = 0.0  # both, and to be answered, per page: what its exchange would take without a byte
    byte_s: float = 0.0  # per byte of an answer
    delay_s: float = 0.0  # between two requests
    asked_s: float = 0.0  # of it, what robots.txt asks for
    mean_depth: float = 0.0  # of the pages read
    address: str = ""  # one of those that answered
    begun_s: float = 0.0
    ended_s: float = 0.0
    unreached: str = ""  # why a page may not have been visited

    def write(self, path: Path) -> None:
        """Writes the facts. They are on disk when it returns, even if the machine fails then."""
        with replaced(path, force=True) as part:
            part.write_bytes(msgspec.json.encode(self))
            sync(part)
        sync(path.parent)

    @classmethod
    def read(cls, path: Path) -> "Facts":
        return msgspec.json.decode(path.read_bytes(), type=cls)


@dataclass(frozen=True)
class ScanFolder:
    """`ScanFolder` knows where a scan keeps the results of clients."""

    scan: Path

    def prepare(self) -> None:
        for name in ("done", "crawls"):
            (self.scan / name).mkdir(parents=True, exist_ok=True)

    def token(self) -> str:
        """Returns the name of this scan for clients on other machines: no other scan has, or had, that name."""
        path = self.scan / "token"
        if not path.exists():
            with replaced(path, force=True) as part:
                part.write_text(secrets.token_hex(8), "utf-8")
        return path.read_text("utf-8")

    def keep(self, website: Website, facts: Facts, links: bytes) -> None:
        """Stores what a client on another machine has found; it is on disk when this returns."""
        if links:
            with replaced(self.links(website), force=True) as part:
                part.write_bytes(links)
                sync(part)
        facts.write(self.facts(website))

    @property
    def crawls(self) -> Path:
        return self.scan / "crawls"

    def crawl(self, client: str, number: int) -> Path:
        """Returns the folder of a client's crawl. Few have more than one."""
        return self.crawls / (f"{client}.{number + 1}" if number else client)

    def facts(self, website: Website) -> Path:
        """Returns the path of the facts. They are written last: a website with facts is done."""
        return self.scan / "done" / f"{website.folder}.json"

    def links(self, website: Website) -> Path:
        return self.scan / "done" / f"{website.folder}.parquet"

    def done(self, websites: list[Website]) -> dict[str, Facts]:
        """Returns the facts of those that are finished, by website."""
        paths = ((website.name, self.facts(website)) for website in websites)
        return {name: Facts.read(path) for name, path in paths if path.exists()}


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
