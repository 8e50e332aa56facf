"""How the index names its immutable files: by kind, agent and round, so that names sort from oldest to newest."""

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gossamer.archive.manifest import Changes
from gossamer.errors import ArchiveError

Named = Mapping[str, list[str]]  # kind -> names, as the manifests add them up


class FileStore(Protocol):
    """The part of `archive.store.Store` that the index needs."""

    def put(self, name: str, data: bytes | Path) -> None: ...

    def local(self, name: str) -> Path: ...

    def scratch(self, name: str) -> Path: ...


def file_name(kind: str, label: str, extra: str = "") -> str:
    stem = kind.removeprefix("index.").replace(".", "-")
    suffix = "heap" if kind.startswith("index.heap") else "run"
    return f"index/{stem}-{label}{extra and '-' + extra}.{suffix}"


def mapped(path: Path) -> mmap.mmap:
    """A whole file, to be read. No file of the index is ever empty."""
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise damaged(path) from None


def damaged(path: Path) -> ArchiveError:
    """Checksums find this first, but for files of earlier versions, and those too large to be read at each start."""
    return ArchiveError(
        f"{path} is damaged: restore it from a copy, or see what `gossamer repair {path.parent.parent} --dry-run` "
        "can do"
    )


def add(changes: Changes, kind: str, name: str) -> None:
    changes.added.setdefault(kind, []).append(name)


def remove(changes: Changes, kind: str, names: list[str]) -> None:
    if names:
        changes.removed.setdefault(kind, []).extend(names)
