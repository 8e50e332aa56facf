"""This module finds the files of an archive without its manifests: which belong together, by their names alone.

Between two commits the files on disk are those that the newest manifest names. Only a crash leaves more: files of a
round that was not finished, merged files beside those that they were made of, and those that were to be deleted.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.labels import FOLDERS, Label, label_of
from gossamer.archive.manifest import Files
from gossamer.archive.store import Store
from gossamer.archive.views import KINDS
from gossamer.repair.damaged_warc import places

_SMALL = ("scope", "named", "hostmap", "resting", "cookies")  # beside pages and visits, written when something changed
_KEPT = ("warc", "cdxj", *KINDS, *_SMALL)  # what is known of pages is read again from these
_HEAD = 256  # bytes by which a file is found in another: its first record's identifier is among them

Labels = Mapping[str, Label]


def labels(store: Store) -> dict[str, Label]:
    """Returns the labels of all files that have one."""
    names = [name for folder in FOLDERS for name in store.list(folder)]
    return {name: label for name in names if (label := label_of(name)) is not None}


def archived(store: Store, there: Labels, agent: str) -> Files:
    """Returns an agent's files that are to be named again, by kind; no row or record is in two of them."""
    mine = {name: label for name, label in there.items() if label.agent == agent and label.kind in _KEPT}
    files = {name: label for name, label in mine.items() if not _is_unfinished(label, mine, there, agent)}
    for number in sorted({label.number for label in files.values() if label.is_merged}, reverse=True):
        merged = [name for name, label in files.items() if label.is_merged and label.number == number]
        parts = {name: _parts(store, name, files) for name in merged}
        # Parts are deleted after the commit: as long as all of them are there, it need not have happened.
        is_whole = all(parts[name] and _amount(store, [name]) == _amount(store, parts[name]) for name in merged)
        for name in merged if is_whole else [part for names in parts.values() for part in names]:
            files.pop(name, None)
    found: Files = {}
    for name in sorted(files, key=lambda name: (files[name].first, name)):
        found.setdefault(files[name].kind, []).append(name)
    return found


def _is_unfinished(label: Label, mine: Labels, there: Labels, agent: str) -> bool:
    """Returns whether a file is of the last round and that was not finished: the index is written after the tables."""
    last = max((other.number for other in mine.values() if not other.is_merged), default=0)
    if label.number != last or label.is_merged or label.kind in _SMALL:
        return False
    indexed = [other.number for other in there.values() if other.agent == agent and other.kind.startswith("index.")]
    return max(indexed, default=0) < last


def _parts(store: Store, merged: str, files: Labels) -> list[str]:
    """Returns the files that it was made of, those that are still there."""
    whole = files[merged]
    within = [
        name
        for name, label in files.items()
        if label.kind == whole.kind and label.number < whole.number
        if whole.first <= label.first and label.last <= whole.last
    ]
    # A round may have several WARC files, and not all of them need be in it.
    return [name for name in within if whole.kind != "warc" or _holds(store.local(merged), store.local(name))]


def _holds(whole: Path, part: Path) -> bool:
    with part.open("rb") as file:
        head = file.read(_HEAD)
    with whole.open("rb") as file:
        return bool(head) and next(places(file.fileno(), re.compile(re.escape(head)), len(head)), None) is not None


def _amount(store: Store, names: Iterable[str]) -> int:
    """Returns what must be the same before and after a merge: rows of tables, lines of CDXJ, bytes of others."""
    total = 0
    for name in names:
        path = store.local(name)
        if name.endswith(".parquet"):
            try:
                total += pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowException):
                return -1
        else:
            total += path.read_bytes().count(b"\n") if name.endswith(".cdxj") else path.stat().st_size
    return total
