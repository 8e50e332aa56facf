"""How the index names its immutable files: by kind, agent and round, so that names sort from oldest to newest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gossamer.archive.manifest import Changes

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


def add(changes: Changes, kind: str, name: str) -> None:
    changes.added.setdefault(kind, []).append(name)


def remove(changes: Changes, kind: str, names: list[str]) -> None:
    if names:
        changes.removed.setdefault(kind, []).extend(names)
