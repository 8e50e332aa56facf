"""`Facts` records one website's scan until the scan is done, as JSON; `ScanFolder` knows where that is."""

import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gossamer.archive.outputs import replaced
from gossamer.archive.store import sync
from gossamer.scan.websites import Website


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
