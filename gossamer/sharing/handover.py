"""Zones change hands between the agents of a site.

The old owner writes all it knows of the zones into files, forgets them, and says so in one commit, which also holds
the letter to the new owner. From then on it fetches nothing of them. The new owner takes the files in and confirms
the letter in one commit. Between the two the zones belong to nobody, and links for them wait.
"""

import itertools
import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import ZONES_IN_ALL, Batch, Changes
from gossamer.archive.store import Store
from gossamer.crawl.commit import Books
from gossamer.errors import disk_full_guard
from gossamer.frontier.pages import ZONE_SHIFT, PageIndex, zone_of_host
from gossamer.sharing import estate
from gossamer.sharing.exchange import ZONES, Exchange, high_water

KIND = "handover"
PAGES_AT_ONCE = 1_000_000  # of zones that leave together; the new owner must hold their rows in memory
_CHUNK = 1 << 17


def leaving(zones: Iterable[int], owners: Sequence[str], name: str) -> dict[str, list[int]]:
    """The zones that shall have another owner, by that owner."""
    found: dict[str, list[int]] = {}
    for zone in zones:
        if owners[zone] not in ("", name):
            found.setdefault(owners[zone], []).append(zone)
    return found


def unowned(store: Store) -> list[int]:
    """Zones that no agent has or is about to get."""
    owned: set[int] = set()
    for at in snapshots(store).values():
        owned.update(at.zones)
        letters = [store.get(letter.name) for letter in at.outbox if letter.batch.kind == ZONES]
        owned.update(zone for letter in letters for zone in json.loads(letter)["zones"])
    return [zone for zone in range(ZONES_IN_ALL) if zone not in owned]


def release_zones(books: Books, exchange: Exchange, owners: Sequence[str], now_s: float) -> None:
    """Hand over what shall be another's. A commit for each of those, or more if there is much."""
    for to, zones in leaving(books.chain.zones, owners, books.chain.agent).items():
        for group in _groups(books.index, zones):
            _release(books, exchange, to, group, now_s)


def _groups(index: PageIndex, zones: list[int]) -> Iterable[list[int]]:
    """Zones that may go together."""
    rows = index.hosts.rows
    pages = np.bincount(zone_of_host(rows["host"]), rows["known"], minlength=256)
    group: list[int] = []
    for zone in zones:
        if group and pages[[*group, zone]].sum() > PAGES_AT_ONCE:
            yield group
            group = []
        group.append(zone)
    if group:
        yield group


# The old owner


def _release(books: Books, exchange: Exchange, to: str, zones: list[int], now_s: float) -> None:
    chain, index = books.chain, books.index
    first = np.array([zone << int(ZONE_SHIFT) for zone in zones], np.uint64)
    last = first + np.uint64((1 << int(ZONE_SHIFT)) - 1)
    hosts = index.hosts.rows[np.isin(zone_of_host(index.hosts.rows["host"]), zones)]
    parts = estate.gather(books, first, last, hosts)
    names = [f"handover/{chain.label}-{part.table}.arrow" for part in parts]
    for name, part in zip(names, parts, strict=True):
        _write(books, name, part)
    pages = parts[0].rows
    mine = [zone for zone in chain.zones if zone not in zones]
    # What is neither ours nor theirs now we found when we crossed over, and keep.
    changes = Changes({KIND: names})
    changes |= estate.forget(books, len(pages), lambda hosts: ~np.isin(zone_of_host(hosts), zones))
    quiet_s = chain.state.quiet_until_s
    letter = {"files": names, "zones": zones, "quiet_until_s": quiet_s}
    letter |= {"pages": len(pages), "cash": int(pages["cash"].sum())}
    chain.commit(
        changes,
        state=estate.state_of(books, quiet_s, now_s),
        marks={},
        outbox=[chain.letter(to, json.dumps(letter).encode(), ZONES)],
        exchange=exchange,
        applied=[],
        now_s=now_s,
        zones=mine,
    )
    index.release(changes)


def forget_delivered(books: Books, exchange: Exchange, now_s: float) -> None:
    """The files of hand-overs that have been taken in."""
    chain = books.chain
    letters = [letter.batch for letter in chain.snapshot.outbox]
    waiting = {f"{b.sender}-{b.number:08d}" for b in letters if b.number > exchange.confirmed(b.stream)}
    gone = [n for n in chain.files.get(KIND, []) if n.split("/")[1].rsplit("-", 1)[0] not in waiting]
    if gone:
        chain.commit(Changes({}, {KIND: gone}), marks={}, outbox=[], exchange=exchange, applied=[], now_s=now_s)


# The new owner


def adopt_zones(books: Books, exchange: Exchange, letter: Batch, now_s: float) -> None:
    chain, said = books.chain, json.loads(letter.data)
    # In version 1 of the protocol hosts that rest were in the letter itself.
    tables = zip(said["files"], estate.DTYPES, strict=False)
    rests = [estate.rests(said["resting"])] if said.get("resting") else []
    parts = (part for name, table in tables for part in _read(books, name, table))
    changes = estate.take_in(books, itertools.chain(parts, rests))
    marks = high_water([letter])
    quiet_s = max(chain.state.quiet_until_s, said["quiet_until_s"])
    chain.commit(
        changes,
        state=estate.state_of(books, quiet_s, now_s),
        marks=marks,
        outbox=[],
        exchange=exchange,
        applied=list(marks.items()),
        now_s=now_s,
        zones={*chain.zones, *said["zones"]},
    )
    books.index.release(changes)


# Files: the rows' bytes and a text for each


def _write(books: Books, name: str, part: estate.Part) -> None:
    path = books.store.scratch(name)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    schema = estate.schema(part.table)
    with (
        disk_full_guard(path),
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, schema, options=options) as writer,
    ):
        for start in range(0, len(part.rows), _CHUNK):
            end = start + _CHUNK
            writer.write_batch(estate.to_arrow(estate.Part(part.table, part.rows[start:end], part.texts[start:end])))
    books.store.put(name, path)


def _read(books: Books, name: str, table: str) -> Iterable[estate.Part]:
    with pa.OSFile(str(books.store.local(name)), "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            yield estate.from_arrow(table, batch)
