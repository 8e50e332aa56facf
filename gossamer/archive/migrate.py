"""This module migrates an archive of an earlier layout, in place, and so that it can be interrupted anywhere.

| step | what | after a crash here |
|---|---|---|
| 1 | replace the mark: the new layout, not all of it yet | nothing has changed |
| 2 | replace each manifest by itself in the new form, the oldest first | it can be read: a manifest says its form; |
|   | | crawls are refused until step 3 |
| 3 | replace the mark: the new layout | as 2 |

Every file is replaced as a whole, and what it becomes depends on nothing else: doing it again changes nothing, and
copies and replicas of an archive that are migrated each for themselves stay the same. A manifest that is damaged stays
as it is, and so do those after it that say only what was new: `gossamer repair` is for them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from gossamer.archive.manifest import (
    Delta,
    Snapshot,
    as_delta,
    chains,
    file_names,
    read_document,
    sealed,
)
from gossamer.archive.mark import (
    LAYOUT,
    Mark,
    check_migrates,
    decode_mark,
    judged_to_migrate,
    no_crawl,
)
from gossamer.archive.places import put_mark, unmarked
from gossamer.archive.state import replace
from gossamer.archive.store import Directory, Store
from gossamer.config.folders import Place
from gossamer.errors import ArchiveError
from gossamer.version import __version__

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore


def migrate(crawl: Place) -> int:
    """Returns how many manifests were brought up to date."""
    store = unmarked(crawl)
    _check(store)  # before anything is written, the lock included
    with locked(store):
        mark = _check(store)
        if mark.layout == LAYOUT and not mark.migrating:
            return 0
        mark = replace(mark, layout=LAYOUT, gossamer=__version__, migrating=True)
        put_mark(store, mark)
        count = 0
        for agent in sorted(chains(store)):
            for name, new in _renewed(store, agent):
                store.put(name, new)
                count += 1
        put_mark(store, replace(mark, migrating=False))
    return count


def _check(store: "Directory | ObjectStore") -> Mark:
    if isinstance(store, Directory):
        return check_migrates(store.path)
    if (mark := store.mark_bytes()) is None:
        raise no_crawl(store.path)
    return judged_to_migrate(decode_mark(mark), store.path)


def _renewed(store: Store, agent: str) -> Iterator[tuple[str, bytes]]:
    """Yields manifests of earlier forms, as they are written now."""
    before: Snapshot | None = None
    new: Snapshot | Delta
    for name in file_names(store, agent):
        try:
            found = read_document(store, name)
        except ArchiveError:
            before = None
            continue
        if isinstance(found, Snapshot):
            before = new = found
        elif before is None or before.number != found.number - 1:
            before = None
            continue
        else:
            new = as_delta(found, before)
            before = before.after(new)
        if (data := sealed(new)) != store.get(name):
            yield name, data


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Locks all chains: no process crawls there meanwhile."""
    with ExitStack() as stack:
        names = {name.partition("/")[2] for name in store.list("lock/")} | chains(store)
        for agent in sorted(names or {"a0"}):
            stack.enter_context(store.lock(agent))
        yield
