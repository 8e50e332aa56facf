"""This module names the immutable files of the index: by kind, agent and round."""

import mmap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gossamer.archive.labels import label_of
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.errors import ArchiveError

Named = Mapping[str, list[str]]  # kind -> names, as the manifests add them up


def file_name(kind: str, label: str, extra: str = "") -> str:
    stem = kind.removeprefix("index.").replace(".", "-")
    suffix = "heap" if kind.startswith("index.heap") else "run"
    return f"index/{stem}-{label}{extra and '-' + extra}.{suffix}"


def by_age(names: Iterable[str]) -> list[str]:
    """Returns names in the order in which their rounds wrote them."""
    return sorted(names, key=lambda name: (label.number if (label := label_of(name)) else 0, name))


def mapped(path: Path) -> mmap.mmap:
    """Maps a whole file, to be read. No file of the index is ever empty."""
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise damaged(path) from None


def damaged(path: Path) -> ArchiveError:
    """Returns the error for a damaged file. Checksums find most before; not in old files, nor in very large ones."""
    return ArchiveError(
        f"{path} is damaged: restore it from a copy, or see what `gossamer repair {path.parent.parent} --dry-run` "
        "can do"
    )


def put(
    store: Store, changes: Changes, kind: str, label: str, write: Callable[[Path], None], extra: str = ""
) -> tuple[str, Path]:
    """Stores a file that `write` makes, and adds it to the changes; returns its name, and where it is."""
    name = file_name(kind, label, extra)
    path = store.scratch(name)
    write(path)
    store.put(name, path)
    changes.added.setdefault(kind, []).append(name)
    return name, store.local(name)


def remove(changes: Changes, kind: str, names: list[str]) -> None:
    if names:
        changes.removed.setdefault(kind, []).extend(names)
