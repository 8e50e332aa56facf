"""`Repair` mends a crawl, in a directory or in a bucket, in four steps, and deletes nothing.

1. `verify.py` finds faults and changes nothing.
2. `Repair.plan` decides: a file is restored from an intact copy, mended, or set aside; without good manifests all
   chains are made again.
3. `mend_files.py` mends single files, by what `damaged_warc.py` and `damaged_table.py` can still read.
4. `recommit.py` names them in new manifests; `found_files.py` and `rebuilt_index.py` serve when the old ones are lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gossamer.archive.checksums import of_file
from gossamer.archive.copies import Copied, copied, has
from gossamer.archive.damage import UNFINISHED, files_in_words
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import MANIFEST, chains, load, load_best, read_document, site_of
from gossamer.archive.mark import MARK, decode_mark
from gossamer.archive.migrate import locked
from gossamer.archive.places import check_marked, exists, fresh, put_mark, remembered, unmarked
from gossamer.archive.state import replace
from gossamer.archive.store import Store, new_mark
from gossamer.config import Config
from gossamer.config.folders import Address, Place, as_place
from gossamer.errors import ArchiveBusy, ArchiveError, ArchiveVersion
from gossamer.frontier.frontier_file import KIND as FRONTIER
from gossamer.repair.aside import Aside
from gossamer.repair.mend_files import is_mendable
from gossamer.repair.recommit import commit_anew, commit_mended, take_chains
from gossamer.repair.verify import MANIFESTS, MARKS, OLD, STRAY, Fault, Progress, verify


@dataclass
class Plan:
    """`Plan` is what is to be done."""

    restored: list[tuple[str, Place]] = field(default_factory=list)  # files, and the copy that is intact
    mark: bool = False  # to be written anew
    rebuild: bool = False  # manifests and index, from the archive's files
    mended: list[Fault] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)  # files that newer ones have replaced, or that a crash left

    def __bool__(self) -> bool:
        return bool(self.restored or self.mark or self.rebuild or self.mended or self.aside)

    def words(self) -> Iterator[str]:
        for name, disk in self.restored:
            yield f"{name}: restore it from {disk}"
        if self.restored:
            yield "then look again at what is left to do"
            return
        if self.mark:
            yield f"{MARK}: write it anew"
        for fault in self.mended:
            yield f"{fault.name} {fault.problem}: {fault.remedy}"
        if self.rebuild:
            yield (
                "manifests: name the archive's files again (WARC, CDXJ, tables); read the known pages again from the "
                "tables; set aside the index, messages to other agents, and files of a round that was not finished. "
                "OPIC cash, validators and rates of change are lost"
            )
        if self.aside:
            yield f"{files_in_words(len(self.aside))} that newer ones have replaced, or that a crash left: to set aside"


class Repair:
    """`Repair` works on a crawl in which no process crawls meanwhile. A directory has locks to see to that. In a bucket
    the repair takes the chains over, so that a crawl on another machine ends; and it reads nothing from this machine's
    cache."""

    def __init__(self, crawl: Place, now_s: float, progress: Progress = lambda *_: None) -> None:
        self._crawl, self._now_s, self._progress = crawl, now_s, progress
        self._config = remembered(crawl) or Config()
        self._first = fresh(crawl)
        disks = [as_place(disk) for disk in self._config.site.disks] if self._config.site.copies > 1 else []
        there = [disk for disk in disks if (disk.is_dir() if isinstance(disk, Path) else exists(disk))]
        self._copies: dict[Place, Store] = {disk: unmarked(disk) for disk in there}
        self._store: Store = self._first
        if self._copies:
            self._store = Copied(self._first, [*self._copies.values()])
        self._aside = Aside([self._first, *self._copies.values()], now_s)

    def plan(self) -> Plan:
        """Decides what to do, and changes nothing."""
        try:
            check_marked(self._first)
        except ArchiveVersion:  # what we would write would not be read by the version that crawls there
            raise
        except ArchiveError:
            pass  # `verify` reports it too
        found = verify(self._crawl, self._progress, self._first)
        plan = Plan(mark=any(fault.kind == MARKS for fault in found.faults))
        plan.restored = list(self._intact(found.faults))
        if plan.restored:
            return plan
        for fault in found.faults:
            if fault.kind == OLD or (fault.kind == STRAY and self._is_replaced(fault.name)):
                plan.aside.append(fault.name)
            elif fault.kind in (MANIFESTS, STRAY) or not _is_local(fault.kind):
                plan.rebuild = True
            elif fault.kind != MARKS:
                plan.mended.append(fault)
        # Files are missing and newer ones there: no crash leaves that. The manifest that named both is missing.
        is_behind = bool(found.leftovers) and not all(fault.is_there for fault in plan.mended)
        plan.rebuild = plan.rebuild or is_behind or bool(self._store.list(UNFINISHED))
        plan.aside += found.leftovers if plan else []  # their number will be taken
        if plan.rebuild:
            self._check_alone()
            plan.mended, plan.aside = [], []  # part of it
        return plan

    def apply(self, report: Callable[[str], None]) -> Plan:
        """Repairs until nothing is left to do. After a crash, do it again. Returns the last plan."""
        with locked(unmarked(self._crawl)):
            if isinstance(self._crawl, Address) and self.plan():
                self._take_over()
            while (plan := self.plan()).restored:
                for name, disk in plan.restored:
                    self._restore(name, disk)
                    report(f"{name}: restored from {disk}")
            self._carry_out(plan, report)
            self._store.settle()
        return plan

    def _take_over(self) -> None:
        """Makes this machine the owner of a crawl in a bucket. All caches of it are emptied when they see the mark: a
        repair may change files that they have."""
        mark = decode_mark(self._first.get(MARK)) if has(self._first, MARK) else None
        if mark is not None:
            put_mark(self._first, replace(mark, repaired=self._now_s))
        take_chains(self._store, self._now_s)

    def _carry_out(self, plan: Plan, report: Callable[[str], None]) -> None:
        if plan.mark:
            self._aside.keep(MARK)
            put_mark(self._first, new_mark(self._now_s))
            report(f"{MARK}: written anew")
        if plan.rebuild:
            for line in commit_anew(self._store, self._aside, self._config, self._now_s):
                report(line)
        for name in plan.aside:
            self._aside.move(name)
        if plan.aside:
            report(f"{files_in_words(len(plan.aside))} that newer ones have replaced, or that a crash left: set aside")
        for agent in sorted(chains(self._store)) if plan.mended else ():
            for mended in commit_mended(self._store, self._aside, agent, plan.mended, self._now_s):
                report(f"{mended.old}: {mended.words}")
        if plan:
            report(f"what was taken out is in {self._crawl}/{self._aside.folder}; nothing was deleted")

    def _intact(self, faults: list[Fault]) -> Iterator[tuple[str, Place]]:
        """Yields faulty files of which a copy is as it was written, and manifests that only a copy has."""
        sums = {n: known for agent in chains(self._store) for n, known in load_best(self._store, agent).sums.items()}
        for fault in faults:
            for disk, copy in self._copies.items():
                if has(copy, fault.name) and (
                    _is_manifest(copy, fault.name)
                    if fault.kind in (MANIFESTS, OLD)
                    else fault.name in sums and of_file(copy.local(fault.name)) == sums[fault.name]
                ):
                    yield fault.name, disk
                    break
        if not any(fault.kind in (MANIFESTS, STRAY) or not fault.is_there for fault in faults):
            return
        have = set(self._store.list("manifest/"))
        for disk, copy in self._copies.items():
            more = [name for name in copy.list("manifest/") if name not in have and _is_manifest(copy, name)]
            have.update(more)
            yield from ((name, disk) for name in more)

    def _restore(self, name: str, disk: Place) -> None:
        """Restores a file at the crawl's own place only: the copy is as it should be."""
        Aside([self._first], self._now_s).move(name)
        if MANIFEST.search(name):
            self._first.put(name, self._copies[disk].get(name))
            return
        self._first.put(name, copied(self._copies[disk].local(name), self._store.scratch(name)))

    def _is_replaced(self, name: str) -> bool:
        """Returns whether a file is of a commit that manifests know, and do not name any more."""
        label = label_of(name)
        if label is None or label.agent not in chains(self._store):
            return False
        try:
            return label.number <= load(self._store, label.agent)[0].number
        except ArchiveError:
            return False

    def _check_alone(self) -> None:
        sites = sorted({site_of(agent) for agent in chains(self._store)} - {""})
        if sites:
            raise ArchiveError(
                f"{self._crawl} belongs to the site {sites[0]} of a federation: what other sites have sent it is "
                f"lost with its manifests. `gossamer federation adopt FILE {sites[0]}` takes a replica; without one, "
                "take the site out of the file, and the others find its pages again"
            )


def check_idle(crawl: Place) -> None:
    """Raises an error if a process of this machine crawls there."""
    store = unmarked(crawl)
    for agent in sorted({name.partition("/")[2] for name in store.list("lock/")} | chains(store)):
        if pid := store.holder(agent):
            raise ArchiveBusy(f"{crawl} is being crawled by process {pid}; stop that one first")


def _is_local(kind: str) -> bool:
    """Returns whether other files stay as they are when one of this kind is mended."""
    return is_mendable(kind) or kind in (MARKS, FRONTIER, "scope", "named", "resting", "cookies")


def _is_manifest(copy: Store, name: str) -> bool:
    try:
        return bool(MANIFEST.search(name)) and bool(read_document(copy, name))
    except (ArchiveError, OSError):
        return False
