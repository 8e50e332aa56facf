"""`Follower` follows the manifests of one archive: it reads each manifest once, and no file of the tables twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gossamer.archive.labels import label_of
from gossamer.archive.manifest import MANIFEST, Snapshot, as_delta, file_name, load, number_of, read_document
from gossamer.archive.reading import location_of
from gossamer.archive.store import ReadOnly
from gossamer.config.folders import Place

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore

NEVER = 0  # no commit has this number: all of a file's rows come after it


class Follower:
    """`Follower` knows what the agents of an archive had committed when it last looked."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.is_near = isinstance(place, Path)
        self.store: ReadOnly | ObjectStore = _opened(place)
        self.snapshots: dict[str, Snapshot] = {}  # by agent
        self._read: dict[str, int] = {}  # by agent: the last round whose visits were read

    def look(self) -> bool:
        """Reads the manifests that are new. Returns whether there were any."""
        newest = _newest(self.store.list("manifest/"))
        changed = [agent for agent, number in newest.items() if self._number(agent) != number]
        # A new dictionary, since another thread may be reading the one that we have.
        self.snapshots = self.snapshots | {agent: self._after(agent, newest[agent]) for agent in changed}
        return bool(changed)

    def unread(self, kind: str, agent: str) -> list[tuple[str, int]]:
        """Returns the files that have rows which were not read yet, and after which round those begin."""
        after = self._read.get(agent, NEVER)
        names = self.snapshots[agent].files.get(kind, [])
        return [(name, after) for name in names if (label := label_of(name)) and label.last > after]

    def mark_read(self, agent: str) -> None:
        """Remembers that all rows which are committed now were read."""
        self._read[agent] = self.snapshots[agent].number

    def path(self, name: str) -> Path:
        """Returns a file of the archive as a file of this machine."""
        self.store.fetch([name])
        return self.store.local(name)

    def _number(self, agent: str) -> int:
        return self.snapshots[agent].number if agent in self.snapshots else NEVER

    def _after(self, agent: str, number: int) -> Snapshot:
        """Returns the agent's snapshot of that number: from the one we have, if what lies between is still there."""
        found = self.snapshots.get(agent)
        if found is None or number < found.number:  # a repaired archive may begin again
            return load(self.store, agent)[0]
        try:
            for each in range(found.number + 1, number + 1):
                document = read_document(self.store, file_name(agent, each))
                found = document if isinstance(document, Snapshot) else found.after(as_delta(document, found))
        except FileNotFoundError:  # its owner has written a full manifest, and deleted those before
            return load(self.store, agent)[0]
        return found


def _newest(names: list[str]) -> dict[str, int]:
    """Returns the last number of each agent's manifests."""
    found: dict[str, int] = {}
    for name in filter(MANIFEST.search, names):
        agent = name.split("/")[1]
        found[agent] = max(number_of(name), found.get(agent, NEVER))
    return dict(sorted(found.items()))


def _opened(place: Place) -> "ReadOnly | ObjectStore":
    if isinstance(place, Path):
        return ReadOnly(place)
    (store,) = location_of(place).read().stores.values()
    return cast("ObjectStore", store)


def agents_with_locks(store: "ReadOnly | ObjectStore") -> Iterator[tuple[str, int]]:
    """Yields the agents that run on this machine, or did, with their process; 0 if it has ended."""
    for name in store.list("lock/"):
        agent = name.partition("/")[2]
        yield agent, store.holder(agent)
