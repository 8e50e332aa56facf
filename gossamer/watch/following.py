"""`Follower` follows the manifests of one archive: it reads each manifest once, and no file of the tables twice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gossamer.archive.labels import label_of
from gossamer.archive.manifest import MANIFEST, Snapshot, as_delta, file_name, load, number_of, read_document
from gossamer.archive.reading import location_of
from gossamer.archive.store import Directory, ReadOnly
from gossamer.columns import PAGES, VISITS
from gossamer.config.folders import Place

if TYPE_CHECKING:
    import pyarrow as pa

    from gossamer.archive.object_store import ObjectStore

_TABLES = {table.name: table for table in (VISITS, PAGES)}
NEVER = 0  # no commit has this number: all of a file's rows come after it


class Follower:
    """`Follower` knows what the agents of an archive had committed when it last looked."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.is_near = isinstance(place, Path)
        self.store: ReadOnly | ObjectStore = _opened(place)
        self.snapshots: dict[str, Snapshot] = {}  # by agent
        self._read: dict[tuple[str, str], int] = {}  # by kind of file and agent: the last round whose rows were read

    def look(self) -> bool:
        """Reads the manifests that are new. Returns whether there were any."""
        newest = _newest(self.store.list("manifest/"))
        changed = [agent for agent, number in newest.items() if self._number(agent) != number]
        # A new dictionary, since another thread may be reading the one that we have.
        self.snapshots = self.snapshots | {agent: self._after(agent, newest[agent]) for agent in changed}
        return bool(changed)

    def rows(self, kind: str, columns: Sequence[str], most: int) -> "tuple[list[pa.Table], bool]":
        """Returns the rows of a table that were not read yet, in order of commit, and whether older ones were left out:
        files are read, the newest first, until they have `most` rows together."""
        import pyarrow.compute as pc  # here and below: who judges health alone needs no Arrow, and waits less

        found: list[pa.Table] = []
        is_partial = False
        for agent in self.snapshots:
            tables: list[pa.Table] = []
            for name, after in reversed(self.unread(kind, agent)):
                if most <= 0:
                    is_partial = True
                    break
                rows = _read(self.path(name), columns, _TABLES[kind].arrow)
                tables.append(rows.filter(pc.greater(rows["round"], after)) if after else rows)
                most -= rows.num_rows
            found += reversed(tables)
            self.mark_read(kind, agent)
        return found, is_partial

    def unread(self, kind: str, agent: str) -> list[tuple[str, int]]:
        """Returns the files that have rows which were not read yet, and after which round those begin."""
        after = self._read.get((kind, agent), NEVER)
        names = self.snapshots[agent].files.get(kind, [])
        return [(name, after) for name in names if (label := label_of(name)) and label.last > after]

    def mark_read(self, kind: str, agent: str) -> None:
        """Remembers that all rows which are committed now were read."""
        self._read[kind, agent] = self.snapshots[agent].number

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


def _read(path: Path, columns: Sequence[str], schema: "pa.Schema") -> "pa.Table":
    """Reads columns of a file; those that it does not have yet, since it is of an earlier version, are NULL."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(path, columns=[name for name in columns if name in pq.read_schema(path).names])
    for name in columns:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows


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


def agents_with_locks(store: "Directory | ObjectStore") -> Iterator[tuple[str, int]]:
    """Yields the agents that run on this machine, or did, with their process; 0 if it has ended."""
    for name in store.list("lock/"):
        agent = name.partition("/")[2]
        yield agent, store.holder(agent)
