"""This module checks a chain when it is opened: whether its files are whole, which others a crash left, which are
strays."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gossamer.archive.labels import FOLDERS, Label, label_of
from gossamer.archive.manifest import Snapshot, chains
from gossamer.archive.store import Store, where
from gossamer.errors import ArchiveError

# Kinds that a crawl only adds to. Whatever else a manifest names the crawl reads when it begins, and decides by it.
ARCHIVED = frozenset(["warc", "cdxj", "visits", "pages", "links", "signals"])
# So much is compared with its checksum at each start, a fraction of a second; `gossamer verify` compares all.
HASHED_BYTES = 1 << 30
UNFINISHED = "repair/unfinished"  # a file that is there while a repair changes manifests
_NAMED = 5  # files that a message names


class Unnamed(NamedTuple):
    """`Unnamed` has the files of a chain that no manifest names."""

    rubbish: list[str]  # what a crash leaves, and nothing else can
    strays: list[str]  # manifests that named them must have been lost


def unnamed(store: Store, at: Snapshot) -> Unnamed:
    """Returns unnamed files. A crash leaves files of the next round, of a number that a take-over used up (the deposed
    owner may have written them), and files that the last commits removed. Files of an agent without manifests are
    strays too."""
    named, gone = at.names(), set(at.gone)
    numbers = {at.number + 1, *at.state.epochs.values()}
    names = [name for folder in FOLDERS for name in store.list(folder) if name not in named]
    others = chains(store)  # listed after the files: an agent that begins now has its manifest first
    found = Unnamed([], [])
    for name in names:
        label = label_of(name)
        if label is None:
            continue
        if label.agent == at.agent:
            (found.rubbish if name in gone or label.number in numbers else found.strays).append(name)
        elif label.agent not in others and label.number > 1:
            found.strays.append(name)
    return found


def check_repaired(store: Store) -> None:
    """Raises an error if a repair is unfinished: several chains must change together."""
    if store.list(UNFINISHED):
        raise ArchiveError(
            f"{where(store)}: a repair was interrupted; finish it with `gossamer repair {where(store)} --apply`"
        )


def check_named(store: Store) -> None:
    """Raises an error if there are files and no manifest at all: readers must not answer that there is nothing."""
    nothing = Snapshot("a0")
    strays = unnamed(store, nothing).strays
    if not chains(store):  # asked last: a crawl that has just begun writes its manifest first
        check_strays(store, nothing, strays)


def files_in_words(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def check_strays(store: Store, at: Snapshot, strays: list[str]) -> None:
    if not strays:
        return
    labels = [label for name in strays if (label := label_of(name)) is not None]
    newest = f"the newest manifest is number {at.number}" if at.number else "there is no manifest"
    raise ArchiveError(
        f"{where(store)} has {files_in_words(len(strays))} that no manifest names ({_kinds(labels)}; rounds "
        f"{min(label.first for label in labels)} to {max(label.number for label in labels)}), and {newest} of "
        f"{at.agent}: manifests are probably missing. Nothing was deleted. Restore {where(store)}/manifest from a "
        f"copy, or see what `gossamer repair {where(store)} --dry-run` can do, and do it with --apply"
    )


def _kinds(labels: Iterable[Label]) -> str:
    counted = Counter(label.kind.partition(".")[0] for label in labels)
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counted.items()))


def check_files(store: Store, at: Snapshot) -> None:
    """Checks that all files are there in their length, and that those that the crawl decides by are unchanged."""
    wrong = [f"{name} {problem}" for name in sorted(at.names()) if (problem := fault(store, at, name))]
    left = HASHED_BYTES
    decisive = [] if wrong else _decisive(at)
    store.fetch(decisive)
    for name in decisive:
        left -= at.sums[name].size
        if left < 0:
            break
        if store.checksum(name) != at.sums[name]:
            wrong.append(f"{name} is damaged (its checksum differs)")
    if wrong:
        more = f", and {len(wrong) - _NAMED:,} more" if len(wrong) > _NAMED else ""
        raise ArchiveError(
            f"{where(store)}: {', '.join(wrong[:_NAMED])}{more}. Nothing was changed. Restore that from a copy, or see "
            f"what `gossamer repair {where(store)} --dry-run` can do, and do it with --apply"
        )


def fault(store: Store, at: Snapshot, name: str) -> str:
    """Returns what is wrong with a file, as far as one sees without reading it; empty if it seems whole."""
    try:
        size = store.size(name)
    except FileNotFoundError:
        return "is missing"
    known = at.sums.get(name)
    return f"is damaged ({size:,} bytes instead of {known.size:,})" if known and known.size != size else ""


def _decisive(at: Snapshot) -> list[str]:
    """Returns those with a checksum on record, newest first."""
    names = {name for kind, names in at.files.items() if kind not in ARCHIVED for name in names}
    names |= {entry.name for entry in at.outbox}
    dated = [(label.number if (label := label_of(name)) else 0, name) for name in names if name in at.sums]
    return [name for _, name in sorted(dated, reverse=True)]
