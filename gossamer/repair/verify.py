"""`verify` checks that every file of an archive is there, as it was written, and readable. It changes nothing."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.copies import has
from gossamer.archive.damage import fault, files_in_words, unnamed
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import Snapshot, chains, file_names, load, number_of, read_document
from gossamer.archive.mark import MARK, no_crawl
from gossamer.archive.places import check_marked, fresh
from gossamer.archive.store import Directory, Store
from gossamer.archive.views import KINDS
from gossamer.arrays import I64
from gossamer.config.folders import Place
from gossamer.errors import ArchiveError, ArchiveVersion
from gossamer.repair.damaged_table import loss_of, read_group
from gossamer.repair.damaged_warc import members

if TYPE_CHECKING:
    from gossamer.archive.object_store import ObjectStore

MARKS, MANIFESTS, OLD, STRAY = "mark", "manifest", "old manifest", "stray"  # kinds beside those that manifests have
_DERIVED = "made again from the WARC files"
REMEDIES = {
    MARKS: "written anew",
    MANIFESTS: "made again from the files of the crawl",
    OLD: "set aside: a newer one has all of its content",
    STRAY: "named again, or set aside",
    "warc": "damaged records are replaced by a note, all others stay",
    "cdxj": _DERIVED,
    "index.frontier": "left out: the crawl makes it again",
}
REMEDIES |= dict.fromkeys(KINDS, "readable rows are kept, the others set aside")
_INDEX = "known pages are read again from the tables"
_ELSE = "set aside"


class Fault(NamedTuple):
    """`Fault` is a file that is missing, damaged, or named by no manifest."""

    name: str
    kind: str
    problem: str
    is_there: bool = True
    loss: str = ""  # of a damaged table: what cannot be kept

    @property
    def remedy(self) -> str:
        """Returns what `gossamer repair` does, if no copy of the file is intact."""
        if not self.is_there and self.kind in ("warc", *KINDS):
            return "left out: what it held is lost"
        return self.loss or REMEDIES.get(self.kind) or (_INDEX if self.kind.startswith("index.") else _ELSE)


@dataclass
class Verified:
    """`Verified` has the files that were checked, and what is wrong with them."""

    files: int = 0
    bytes: int = 0
    unsummed: int = 0  # files without a checksum on record: written by an earlier version
    leftovers: list[str] = field(default_factory=list)  # of a crash: the next crawl removes them
    faults: list[Fault] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        faults = [{**fault._asdict(), "remedy": fault.remedy} for fault in self.faults]
        for each in faults:
            del each["loss"]  # part of the remedy
        return {**vars(self), "faults": faults, "leftovers": len(self.leftovers)}


Progress = Callable[[int, int, str], None]  # files looked at, files in all, the next one's name


def verify(
    crawl: Place, progress: Progress = lambda *_: None, store: "Directory | ObjectStore | None" = None
) -> Verified:
    """Checks all files that manifests name, WARC files first: others point into them; then files that none names."""
    store, found = store or fresh(crawl), Verified()
    try:
        check_marked(store, read_only=True)
    except ArchiveVersion:
        raise
    except ArchiveError as error:
        if not has(store, MARK) and not store.list("manifest/"):
            raise error if isinstance(crawl, Path) else no_crawl(crawl) from None
        found.faults.append(Fault(MARK, MARKS, str(error), has(store, MARK)))
    return _verified(store, found, progress)


def _verified(store: Store, found: Verified, progress: Progress) -> Verified:
    snapshots = {agent: at for agent in sorted(chains(store)) if (at := _chain(store, agent, found)) is not None}
    work = [(at, kind, name) for at in snapshots.values() for kind, name in _named(at)]
    offsets: dict[str, I64] = {}
    work.sort(key=lambda each: each[1] != "warc")  # first: what others point to
    for number, (at, kind, name) in enumerate(work):
        progress(number, len(work), name)
        problem = _fault(store, at, kind, name, offsets, found)
        # A crawl that is running may have merged it meanwhile.
        if problem and name in load(store, at.agent)[0].names():
            found.faults.append(_named_fault(store, name, kind, problem))
        found.files += 1
    progress(len(work), len(work), "")
    for at in snapshots.values() or [Snapshot("a0")]:
        _unnamed(store, at, found)
    return found


def _chain(store: Store, agent: str, found: Verified) -> Snapshot | None:
    """Returns the newest snapshot, and notes what is wrong with manifests."""
    damaged: list[str] = []
    for name in file_names(store, agent):
        try:
            read_document(store, name)
        except FileNotFoundError:
            continue
        except ArchiveError:
            damaged.append(name)
    try:
        snapshot, full = load(store, agent)
        kinds = {name: OLD if number_of(name) < full else MANIFESTS for name in damaged}
        found.faults += [Fault(name, kind, "is damaged") for name, kind in kinds.items()]
        return snapshot
    except ArchiveError as error:
        found.faults += [Fault(name, MANIFESTS, "is damaged") for name in damaged]
        if not damaged:
            found.faults.append(Fault(f"manifest/{agent}", MANIFESTS, str(error).partition(";")[0], False))
        return None


def _unnamed(store: Store, at: Snapshot, found: Verified) -> None:
    """Notes files that no manifest names. Newer ones than the newest manifest mean that manifests are missing: one
    fault, and files that are missing as far as the older ones can tell are part of it."""
    rubbish, strays = unnamed(store, at)
    missing = [fault for fault in found.faults if not fault.is_there and fault.name in at.names()]
    newer: dict[str, list[str]] = {}
    for name in strays:
        label = label_of(name)
        if label is not None and (label.agent != at.agent or label.number > at.number):
            newer.setdefault(label.agent, []).append(name)
    if rubbish and missing:  # no crash leaves that
        newer.setdefault(at.agent, []).extend(rubbish)
    else:
        found.leftovers += rubbish
    for agent, names in newer.items():
        _without_manifests(found, agent, at.number if agent == at.agent else 0, len(names))
    if at.agent in newer:
        found.faults = [fault for fault in found.faults if fault not in missing]
    known = {fault.name for fault in found.faults} | {name for names in newer.values() for name in names}
    found.faults += [Fault(name, STRAY, "is named by no manifest") for name in strays if name not in known]


def _without_manifests(found: Verified, agent: str, newest: int, count: int) -> None:
    name = f"manifest/{agent}"
    files = f"{files_in_words(count)} cannot be checked without"
    before = [fault for fault in found.faults if fault.kind == MANIFESTS and fault.name.startswith(name)]
    if any(fault.name == name for fault in before):
        found.faults = [
            fault._replace(problem=f"{fault.problem}; {files}") if fault.name == name else fault
            for fault in found.faults
        ]
        return
    there = f"the newest that is there is number {newest}" if newest else "none is there"
    problem = "has damaged ones" if before else f"lacks manifests ({there})"
    found.faults.append(Fault(name, MANIFESTS, f"{problem}: {files}", False))


def _named_fault(store: Store, name: str, kind: str, problem: str) -> Fault:
    is_there = has(store, name)
    if kind not in KINDS or not is_there:
        return Fault(name, kind, problem, is_there)
    again = "; pages that others link to, or that were visited, are found again in other tables" * (kind == "pages")
    return Fault(name, kind, problem, loss=loss_of(store.local(name), kind).words + again)


def _named(at: Snapshot) -> Iterator[tuple[str, str]]:
    """Yields each file once, with its kind; a pack of the index has several."""
    yield from {name: (kind, name) for kind, names in at.files.items() for name in names}.values()
    yield from (("outbox", entry.name) for entry in at.outbox)


def _fault(store: Store, at: Snapshot, kind: str, name: str, offsets: dict[str, I64], found: Verified) -> str:
    problem = fault(store, at, name)
    if problem:
        return problem
    try:
        found.bytes += store.size(name)
        if name not in at.sums:
            found.unsummed += 1
        elif store.checksum(name) != at.sums[name]:
            problem = "is damaged (its checksum differs)"
        return content_fault(store.local(name), kind, name, offsets) or problem
    except FileNotFoundError:
        return "is missing"


def content_fault(path: Path, kind: str, name: str, offsets: dict[str, I64]) -> str:
    """Returns what is wrong with the content, whatever the checksum is."""
    if kind == "warc":
        return _warc(path, name, offsets)
    if kind == "cdxj":
        return _cdxj(path, offsets)
    if kind in KINDS:
        return _table(path, kind, offsets)
    return ""


def _warc(path: Path, name: str, offsets: dict[str, I64]) -> str:
    places, broken = [], []
    for offset, _, record in members(path):
        if record is None:
            broken.append(offset)
        else:
            places.append(offset)
    if broken:
        return f"is damaged ({len(broken):,} unreadable, the first at offset {broken[0]:,})"
    offsets[name.rpartition("/")[2]] = np.array(places, np.int64)
    return ""


def _cdxj(path: Path, offsets: dict[str, I64]) -> str:
    try:
        with path.open(encoding="ascii") as file:
            places = [json.loads(text[text.index("{") :]) for text in file]
        by_file: dict[str, list[int]] = {}
        for place in places:
            by_file.setdefault(str(place["filename"]), []).append(int(place["offset"]))
    except (ValueError, KeyError, TypeError):
        return "is damaged (a line cannot be read)"
    return _astray(by_file, offsets)


def _table(path: Path, kind: str, offsets: dict[str, I64]) -> str:
    by_file: dict[str, list[int]] = {}
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for number in range(file.num_row_groups):
                rows = read_group(file, number)
                if rows is None:
                    return "is damaged (rows cannot be read)"
                if kind == "visits":
                    for row in rows.select(["warc", "warc_offset"]).to_pylist():
                        if row["warc"]:
                            by_file.setdefault(row["warc"].rpartition("/")[2], []).append(row["warc_offset"])
    except (OSError, pa.ArrowException) as error:
        return f"is damaged ({str(error).splitlines()[0]})"
    return _astray(by_file, offsets)


def _astray(by_file: dict[str, list[int]], offsets: dict[str, I64]) -> str:
    """Returns a fault if something points to records that are not there. Damaged WARC files are not looked at."""
    for name, places in by_file.items():
        if name in offsets and not np.isin(places, offsets[name]).all():
            return f"is damaged (it points to records that are not in {name})"
    return ""
