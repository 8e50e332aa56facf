"""`locate` finds where a crawl is: in a directory, in a bucket, or at the sites that the file of a federation names."""

from dataclasses import dataclass
from pathlib import Path

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import Snapshot
from gossamer.archive.mark import is_federation
from gossamer.archive.reading import Location, Reading, location_of
from gossamer.archive.store import ReadOnly
from gossamer.cluster.federation_file import Federation, load
from gossamer.config.folders import as_place
from gossamer.errors import ArchiveError


@dataclass(frozen=True)
class Sites:
    """`Sites` is the sites of a federation that are on this machine, read as one archive."""

    federation: Federation

    def read(self) -> Reading:
        federation = self.federation
        if not federation.here:
            raise ArchiveError(
                f"no site of {self} is on this machine: there is no crawl in {self._places(list(federation.sites))}; "
                "ask where one runs"
            )
        found: dict[str, Snapshot] = {}
        roots: dict[str, Path] = {}
        for site in federation.here:
            root = federation.directory(site).resolve()
            ours = snapshots(ReadOnly(root))
            found |= ours
            roots |= dict.fromkeys(ours, root)
        return Reading(federation.path.resolve(), found, roots)

    def left_out(self) -> str:
        names = self.federation.elsewhere if self.federation.here else []
        them = "it" if len(names) == 1 else "them"
        return f"without {', '.join(names)}: nothing of {them} is in {self._places(names)}" if names else ""

    def _places(self, sites: list[str]) -> str:
        return ", ".join(str(self.federation.directory(site)) for site in sites)

    def __str__(self) -> str:
        return str(self.federation.path)


def locate(name: str | Path) -> Location:
    """Returns where the crawl of that name is: the name of a directory, an address, or a federation's file."""
    found = as_place(name)
    return Sites(load(found)) if isinstance(found, Path) and is_federation(found) else location_of(found)
