"""`locate` finds where a crawl is: in a directory, in a bucket, or at the sites that the file of a federation names."""

from pathlib import Path

from gossamer.archive.mark import is_federation
from gossamer.archive.reading import Location, Reading, joined, location_of
from gossamer.cluster.federation_file import Federation, load
from gossamer.config.folders import as_place
from gossamer.errors import ArchiveError


class Sites:
    """`Sites` is the sites of a federation whose archives are on this machine or in buckets, read as one archive."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def read(self) -> Reading:
        federation = self.federation
        here = federation.here
        if not here:
            raise ArchiveError(
                f"no site of {self} is on this machine: there is no crawl in {self._places(list(federation.sites))}; "
                "ask where one runs"
            )
        return joined(federation.path, [location_of(federation.directory(site)).read() for site in here])

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
