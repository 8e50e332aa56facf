"""This module commits a repair: one commit that names mended files, or all manifests and the index made again."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.archive.chain import taken_over
from gossamer.archive.checksums import Checksum
from gossamer.archive.copies import has
from gossamer.archive.damage import UNFINISHED
from gossamer.archive.labels import Label, label_of
from gossamer.archive.manifest import (
    Files,
    Snapshot,
    chains,
    file_name,
    file_names,
    load,
    load_best,
    number_of,
    sealed,
    site_of,
)
from gossamer.archive.state import AgentState, LedgerState, replace
from gossamer.archive.store import Store, where
from gossamer.archive.views import KINDS
from gossamer.archive.zones import ZONES_IN_ALL, as_ranges
from gossamer.config import Config
from gossamer.errors import ArchiveBusy, ArchiveError
from gossamer.repair import found_files
from gossamer.repair.aside import Aside
from gossamer.repair.mend_files import Mended, add_rows, covered, is_mendable, mend_cdxj, mend_table, mend_warc
from gossamer.repair.rebuilt_index import RebuiltIndex, figures, lost_pages, seed_hosts
from gossamer.repair.verify import Fault, content_fault

_INBOX = re.compile(r"inbox/([^/]+)-(\d{12,})(?:\.to\.([^/.]*)\..*)?\.arrow")

Paths = Mapping[str, Sequence[Path]]


def take_chains(store: Store, now_s: float) -> None:
    """Takes all chains over that can be read: whoever crawls there on another machine ends at its next commit, and
    commits no file that the repair sets aside."""
    for agent in sorted(chains(store)):
        try:
            at = load(store, agent)[0]
        except ArchiveError:  # it is made anew, with a number that nobody has used
            continue
        _create_alone(store, taken_over(at, now_s))


def commit_mended(store: Store, aside: Aside, agent: str, faults: Sequence[Fault], now_s: float) -> list[Mended]:
    """Replaces damaged files of an agent's archive by one commit."""
    at = load(store, agent)[0]
    mine = {fault.name: fault.kind for fault in faults if fault.name in at.names()}
    if not mine:
        return []
    number = at.number + 1
    mended, files = _mended(store, aside, at.files, mine, number)
    bad = {fault.name for fault in faults}
    others = [_without(load(store, other)[0].files, bad) for other in sorted(chains(store) - {agent})]
    mended = _find_pages(store, mended, files, others, number)
    if "scope" in mine.values():
        intact = [name for name in at.files["scope"] if name not in bad]
        scope, named = _new_scope(store, f"{agent}-{number:08d}", _paths(store, [at.files]), intact)
        files["scope"] = named
        mended.append(scope)
    gone = sorted({name for names in at.files.values() for name in names} - {n for ns in files.values() for n in ns})
    new = replace(at, number=number, time_s=now_s, files=files, gone=(*at.gone, *gone))
    for name in gone:
        aside.keep(name)
    known = {name: known for name, known in at.sums.items() if name not in mine}
    _create(store, new, known)
    for name in gone:
        store.delete(name)
    return mended


def commit_anew(store: Store, aside: Aside, config: Config, now_s: float) -> Iterator[str]:
    """Makes all chains anew. The first agent gets all zones: others get theirs when they are wanted again."""
    _begin(store, aside)
    there = found_files.labels(store)
    agents = sorted({label.agent for label in there.values()} | chains(store)) or ["a0"]
    home = "a0" if "a0" in agents else agents[0]
    best = {agent: load_best(store, agent) for agent in agents}
    numbers = {agent: _next_number(store, there, agent) for agent in agents}
    store.put(UNFINISHED, json.dumps(numbers).encode())
    files: dict[str, Files] = {}
    bad: dict[str, dict[str, str]] = {}
    mended: dict[str, list[Mended]] = {}
    for agent in agents:
        mine = found_files.archived(store, there, agent)
        bad[agent] = _bad(store, mine, best[agent].sums)
        mended[agent], files[agent] = _mended(store, aside, mine, bad[agent], numbers[agent])
    for agent in agents:
        others = [files[other] for other in agents if other != agent]
        done = _find_pages(store, mended[agent], files[agent], others, numbers[agent])
        yield from (f"{each.old}: {each.words}" for each in done)
    label = f"{home}-{numbers[home]:08d}"
    paths = _paths(store, files.values())
    rebuilt = RebuiltIndex(paths, config)
    for kind, names in rebuilt.write(store, label).added.items():
        files[home].setdefault(kind, []).extend(names)
    if not any(of.get("scope") for of in files.values()):
        files[home]["scope"] = _new_scope(store, label, paths)[1]
    for agent in agents:
        new = _snapshot(store, best[agent], numbers, files[agent], now_s)
        if agent == home:
            new = replace(new, ranges=as_ranges(range(ZONES_IN_ALL)), state=_state_of(new.state, rebuilt))
        _create(store, new, {n: known for n, known in best[agent].sums.items() if n not in bad[agent]})
    taken = _take_out(store, aside, {n for of in files.values() for names in of.values() for n in names}, numbers)
    store.delete(UNFINISHED)
    named = sum(len(names) for of in files.values() for kind, names in of.items() if not kind.startswith("index."))
    yield f"{named:,} files of the archive are named again; {rebuilt.index.count:,} pages are known from its tables"
    yield f"{taken:,} other files were set aside"


def _begin(store: Store, aside: Aside) -> None:
    """Sets aside the index that an interrupted repair had written: it tells nothing about rounds."""
    for name in store.list(UNFINISHED):
        numbers = json.loads(store.get(name))
        for other, label in found_files.labels(store).items():
            if label.kind.startswith("index.") and label.number >= numbers.get(label.agent, label.number + 1):
                aside.move(other)


def _next_number(store: Store, there: Mapping[str, Label], agent: str) -> int:
    made = [number_of(name) for name in file_names(store, agent)]
    return max([0, *made, *(label.number for label in there.values() if label.agent == agent)]) + 1


def _bad(store: Store, files: Files, sums: Mapping[str, Checksum]) -> dict[str, str]:
    """Returns files that are not what was written, or cannot be read, with their kinds."""
    offsets: dict[str, Any] = {}
    kinds = [(kind, name) for kind, names in files.items() for name in names]
    kinds.sort(key=lambda each: each[0] != "warc")
    return {
        name: kind
        for kind, name in kinds
        if (name in sums and store.checksum(name) != sums[name])
        or content_fault(store.local(name), kind, name, offsets)
    }


def _mended(
    store: Store, aside: Aside, files: Files, bad: Mapping[str, str], number: int
) -> tuple[list[Mended], Files]:
    """Returns the files after all that are bad were mended, or left out."""
    result = {kind: list(names) for kind, names in files.items()}
    broken = [name for name, kind in bad.items() if kind == "warc"]
    bad = {**bad, **{name: "cdxj" for name in files.get("cdxj", []) if covered(name, broken)}}
    done: list[Mended] = []
    for name, kind in sorted(bad.items(), key=lambda each: each[1] != "warc"):  # indices are made of them
        if kind == "warc":
            lines = [store.local(other) for other in files.get("cdxj", []) if has(store, other)]
            done.append(mend_warc(store, aside, name, lines))
        elif kind == "cdxj":
            done.append(mend_cdxj(store, name, covered(name, result.get("warc", [])), number))
        elif is_mendable(kind) and has(store, name):
            done.append(mend_table(store, name, number))
        elif kind != "scope":
            done.append(Mended(name, "", "left out"))
        else:
            continue
        place = result[kind].index(name)
        result[kind][place : place + 1] = [done[-1].new] if done[-1].new else []
    return done, result


def _find_pages(store: Store, mended: list[Mended], files: Files, others: Sequence[Files], number: int) -> list[Mended]:
    """Makes rows of lost pages again from visits and links, in the file that stands for the last that was mended;
    `files` are the agent's and change."""
    places = [place for place, each in enumerate(mended) if (of := label_of(each.old)) and of.kind == "pages"]
    if not places:
        return mended
    alone = not any(site_of(agent) for agent in chains(store))
    rows = lost_pages(_paths(store, [files, *others]), alone)
    if rows is None:
        return mended
    before = mended[places[-1]]
    after = add_rows(store, before, rows, number)
    if not before.new:
        files["pages"].append(after.new)
    return [after if each is before else each for each in mended]


def _without(files: Files, bad: set[str]) -> Files:
    return {kind: [name for name in names if name not in bad] for kind, names in files.items()}


def _new_scope(store: Store, label: str, paths: Paths, intact: Sequence[str] = ()) -> tuple[Mended, list[str]]:
    """Writes the hosts of seeds, and the rules in files that are intact: one file for all that there were."""
    name = f"tables/scope-{label}.txt"
    lines = [line for each in intact for line in store.get(each).decode().splitlines()]
    rules = [line for line in lines if line.startswith("{")]
    store.put(name, "".join(f"{line}\n" for line in [*seed_hosts(paths), *rules]).encode())
    words = "made again from the seeds among the pages; give seeds with rules of their own again"
    return Mended(name, name, words), [name]


def _paths(store: Store, files: Any) -> Paths:
    return {kind: [store.local(name) for of in files for name in of.get(kind, [])] for kind in KINDS}


def _snapshot(store: Store, best: Snapshot, numbers: Mapping[str, int], files: Files, now_s: float) -> Snapshot:
    """Returns a snapshot without zones or messages: those sent before count as delivered, their links are in the tables
    too."""
    agent, number, epoch = best.agent, numbers[best.agent], best.epoch + 1
    streams = {f"{one}>{other}": numbers[one] for one in numbers for other in numbers}
    state = replace(
        best.state,
        ledger=LedgerState(),
        counters=replace(figures(_paths(store, [files])), rounds=number),
        depth_limits=(),  # none is equal to it: what was refused as too deep is judged and counted again
        started_s=now_s if best.state.started_s is None else best.state.started_s,
        committed_s=now_s,
        clean=False,
        epochs={epoch: number},
        settling=False,
    )
    return Snapshot(
        agent,
        number,
        epoch,
        now_s,
        files=files,
        marks=_inbox_marks(store) | best.marks | {s: n for s, n in streams.items() if s.endswith(f">{agent}")},
        sent=best.sent | {s: n for s, n in streams.items() if s.startswith(f"{agent}>")},
        state=state,
    )


def _state_of(state: AgentState, rebuilt: RebuiltIndex) -> AgentState:
    rows = rebuilt.index.hosts.rows
    waiting = int(rows["known"].sum()) - int(rows["visited"].sum())
    counters = replace(state.counters, known=rebuilt.ledger.known, hosts=len(rows), frontier=waiting)
    return replace(state, counters=counters, ledger=rebuilt.ledger.state())


def _inbox_marks(store: Store) -> dict[str, int]:
    """Returns marks as if the first message that is still there had not come: seeds that are known already add
    nothing."""
    marks: dict[str, int] = {}
    for name in store.list("inbox/"):
        if match := _INBOX.fullmatch(name):
            sender, number, to = match.groups()
            stream = f"{sender}>{to}" if to else sender
            marks[stream] = min(marks.get(stream, int(number) - 1), int(number) - 1)
    return marks


def _create(store: Store, new: Snapshot, known: Mapping[str, Checksum]) -> None:
    sums = {name: known.get(name) or store.checksum(name) for name in sorted(new.names())}
    _create_alone(store, replace(new, sums=sums))


def _create_alone(store: Store, new: Snapshot) -> None:
    if not store.create(file_name(new.agent, new.number), sealed(new)):
        raise ArchiveBusy(
            f"{where(store)}: another process has committed meanwhile (manifest {new.number} of {new.agent}); end it, "
            "and repair again"
        )


def _take_out(store: Store, aside: Aside, named: set[str], numbers: Mapping[str, int]) -> int:
    """Sets aside whatever no manifest names, and the old manifests."""
    new = {file_name(agent, number) for agent, number in numbers.items()}
    old = [name for agent in numbers for name in file_names(store, agent) if name not in new]
    others = [name for name in found_files.labels(store) if name not in named]
    for name in old + others:
        aside.move(name)
    return len(others)
