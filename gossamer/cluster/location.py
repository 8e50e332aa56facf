"""`locate` finds where a crawl is: in a directory, in a bucket, or at the sites that the file of a federation names."""

from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.archive.mark import is_federation
from gossamer.archive.reading import Location, Reading, location_of
from gossamer.config.folders import as_place

if TYPE_CHECKING:
    from gossamer.archive.query import Index


def index_of(at: Reading) -> "Index":
    """Opens what the index of a crawl knows of pages, for a query that asks for it."""
    from gossamer.refresh.upcoming import Upcoming  # most queries do not, and need not wait for it

    return Upcoming(at)


def locate(name: str | Path) -> Location:
    """Returns where the crawl of that name is: the name of a directory, an address, or a federation's file."""
    found = as_place(name)
    if not (isinstance(found, Path) and is_federation(found)):
        return location_of(found)
    from gossamer.cluster.federation_file import load  # most crawls are no federations, and need no connections
    from gossamer.cluster.sites import Sites

    return Sites(load(found))
