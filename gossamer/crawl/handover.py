"""Zones change hands: the only module that takes pages out of one agent's index and puts them into another's.

The old owner writes all it knows of the zones into files, forgets them, and says so in one commit, which also holds
the letter to the new owner. From then on it fetches nothing of them. The new owner takes the files in and confirms
the letter in one commit. Between the two the zones belong to nobody, and links for them wait.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gossamer.archive.chain import snapshots
from gossamer.archive.manifest import ZONES_IN_ALL, Batch, Changes
from gossamer.archive.store import Store, room
from gossamer.columns import HOST, NO_TEXT, PAGE, VISITED
from gossamer.crawl.closing import Books
from gossamer.crawl.incoming import arrivals
from gossamer.crawl.update import is_final
from gossamer.federation.exchange import ZONES, Exchange, high_water
from gossamer.index.merging import Keys, Rows, search
from gossamer.index.pages import ZONE_SHIFT, PageIndex, host_of_key, zone_of_host
from gossamer.web.url import page_key

KIND = "handover"
PAGES_AT_ONCE = 1_000_000  # of zones that leave together; the new owner must hold their rows in memory
_CHUNK = 1 << 17
Counts = npt.NDArray[np.int64]


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


def settle_zones(books: Books, exchange: Exchange, owners: Sequence[str], now_s: float) -> None:
    """Take in what has come and hand over what shall go; when nothing is being fetched. Several commits."""
    for letter in arrivals(exchange, books.chain):
        _adopt(books, exchange, letter, now_s)
    for to, zones in leaving(books.chain.zones, owners, books.chain.agent).items():
        for group in _groups(books.index, zones):
            _release(books, exchange, to, group, now_s)
    _forget_delivered(books, exchange, now_s)


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
    chain, index, ledger = books.chain, books.index, books.ledger
    names = [f"handover/{chain.label}-{kind}.arrow" for kind in ("pages", "visited", "hosts")]
    first = np.array([zone << int(ZONE_SHIFT) for zone in zones], np.uint64)
    last = first + np.uint64((1 << int(ZONE_SHIFT)) - 1)
    pages, visited = (table.ranges(first, last) for table in (index.pages, index.visited))
    hosts = index.hosts.rows[np.isin(zone_of_host(index.hosts.rows["host"]), zones)]
    pages = pages[np.argsort(pages["text"], kind="stable")]  # in order of discovery, as the new owner will have them
    pages["cash"] += ledger.v
    has_text = visited["validators"] != np.uint64(NO_TEXT)
    validators = np.full(len(visited), b"", object)
    validators[has_text] = index.heap.read(visited["validators"][has_text])
    tables = [(pages, index.heap.read(pages["text"])), (visited, validators.tolist()), (hosts, [b""] * len(hosts))]
    for name, (rows, texts) in zip(names, tables, strict=True):
        _write(books, name, rows, texts)
    ledger.known -= len(pages)
    mine = [zone for zone in chain.zones if zone not in zones]
    # What is neither ours nor theirs now we found when we crossed over, and keep.
    others = [zone for zone in range(ZONES_IN_ALL) if zone not in zones]
    changes = Changes({KIND: names}) | index.retain(books.store, chain.label, others)
    books.frontier.rank_anew()
    changes |= books.frontier.flush(books.store, chain.label)
    resting = chain.state.get("resting", {})
    gone = {host: rest for host, rest in resting.items() if zone_of_name(host) in zones}
    quiet_s = chain.state.get("quiet_until_s", 0.0)
    letter = {"files": names, "zones": zones, "resting": gone, "quiet_until_s": quiet_s}
    letter |= {"pages": len(pages), "cash": int(pages["cash"].sum())}
    chain.commit(
        changes,
        state=_state(books, {host: rest for host, rest in resting.items() if host not in gone}, quiet_s, now_s),
        marks={},
        outbox=[chain.letter(to, json.dumps(letter).encode(), ZONES)],
        exchange=exchange,
        applied=[],
        now_s=now_s,
        zones=mine,
    )
    index.release(changes)


def _forget_delivered(books: Books, exchange: Exchange, now_s: float) -> None:
    """The files of hand-overs that have been taken in."""
    chain = books.chain
    letters = [letter.batch for letter in chain.snapshot.outbox]
    waiting = {f"{b.sender}-{b.number:08d}" for b in letters if b.number > exchange.confirmed(b.stream)}
    gone = [n for n in chain.files.get(KIND, []) if n.split("/")[1].rsplit("-", 1)[0] not in waiting]
    if gone:
        chain.commit(
            Changes({}, {KIND: gone}), state={}, marks={}, outbox=[], exchange=exchange, applied=[], now_s=now_s
        )


# The new owner


def _adopt(books: Books, exchange: Exchange, letter: Batch, now_s: float) -> None:
    chain, index = books.chain, books.index
    said = json.loads(letter.data)
    of_pages, of_visited, of_hosts = said["files"]
    grown = [_take_in(books, rows, texts) for rows, texts in _read(books, of_pages, PAGE.numpy)]
    for rows, texts in _read(books, of_visited, VISITED.numpy):
        found, mine = index.visited.look_up(rows["key"])
        newer = ~found | (rows["last_s"] > mine["last_s"])
        given = np.array([bool(text) for text in texts], bool) & newer
        rows["validators"][given] = index.heap.append([texts[place] for place in np.flatnonzero(given).tolist()])
        index.visited.write(rows[newer], int((~found).sum()))
    for rows, _ in _read(books, of_hosts, HOST.numpy):
        known, visited = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for hosts, new, settled in grown:
            here, places = search(rows["host"], hosts)
            np.add.at(known, places[here], new[here])
            np.add.at(visited, places[here], settled[here])
        index.hosts.grow(rows["host"], rows["domain"], known, visited)
    changes = index.flush(books.store, chain.label)
    books.frontier.rank_anew()
    changes |= books.frontier.flush(books.store, chain.label)
    marks = high_water([letter])
    resting = {**chain.state.get("resting", {}), **said["resting"]}
    quiet_s = max(chain.state.get("quiet_until_s", 0.0), said["quiet_until_s"])
    chain.commit(
        changes,
        state=_state(books, resting, quiet_s, now_s),
        marks=marks,
        outbox=[],
        exchange=exchange,
        applied=list(marks.items()),
        now_s=now_s,
        zones={*chain.zones, *said["zones"]},
    )
    index.release(changes)


def _take_in(books: Books, rows: Rows, texts: Sequence[bytes]) -> tuple[Keys, Counts, Counts]:
    """Pages of a zone that was another's. Of those that we know already, since we crossed over to it, both parts of
    what is known are joined. Returns their hosts, and how many known and visited pages each row adds."""
    index, ledger = books.index, books.ledger
    by_key = np.argsort(rows["key"])
    known, mine = np.zeros(len(rows), np.bool_), np.zeros(len(rows), rows.dtype)
    known[by_key], mine[by_key] = index.pages.look_up(rows["key"][by_key])
    new = np.flatnonzero(~known)
    rows["text"] = mine["text"]
    rows["text"][new] = index.heap.append([texts[place] for place in new.tolist()])
    rows["cash"] += np.where(known, mine["cash"], -ledger.v)
    rows["hits"] = np.minimum(rows["hits"].astype(np.int64) + np.where(known, mine["hits"], 0), 0xFFFFFFFF)
    for name in ("depth", "hops"):
        rows[name] = np.where(known, np.minimum(rows[name], mine[name]), rows[name])
    was_final = known & is_final(mine["status"])
    ours = was_final & ~is_final(rows["status"])
    for name in ("status", "due_s", "tries"):
        rows[name][ours] = mine[name][ours]
    index.pages.write(rows[by_key], len(new))
    ledger.known += len(new)
    visited = is_final(rows["status"]).astype(np.int64) - was_final
    return host_of_key(rows["key"]), (~known).astype(np.int64), visited


def _state(books: Books, resting: Mapping[str, Any], quiet_s: float, now_s: float) -> dict[str, Any]:
    """Nothing is being fetched, here or (of what has come) there; and nothing was, later than now."""
    rows = books.index.hosts.rows
    unvisited = int(rows["known"].sum(dtype=np.int64)) - int(rows["visited"].sum(dtype=np.int64))
    figures = {"known": books.index.count, "hosts": len(rows), "frontier": unvisited}
    counters = {**books.chain.state.get("counters", {}), **figures}
    return {
        "ledger": books.ledger.as_dict(),
        "counters": counters,
        "resting": dict(resting),
        "quiet_until_s": quiet_s,
        "committed_s": now_s,
        "clean": True,
    }


def zone_of_name(host: str) -> int:
    return page_key(f"http://{host}/") >> int(ZONE_SHIFT)


# Files: the rows' bytes and a text for each


def _write(books: Books, name: str, rows: Rows, texts: Sequence[bytes]) -> None:
    schema = pa.schema([("row", pa.binary(rows.dtype.itemsize)), ("text", pa.binary())])
    path = books.store.scratch(name)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with room(path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as writer:
        for start in range(0, len(rows), _CHUNK):
            piece = np.ascontiguousarray(rows[start : start + _CHUNK])
            column = pa.FixedSizeBinaryArray.from_buffers(schema[0].type, len(piece), [None, pa.py_buffer(piece)])
            column_of_texts = pa.array(texts[start : start + _CHUNK], pa.binary())
            writer.write_batch(pa.record_batch([column, column_of_texts], schema=schema))
    books.store.put(name, path)


def _read(books: Books, name: str, dtype: np.dtype[Any]) -> Iterable[tuple[Rows, list[bytes]]]:
    with pa.OSFile(str(books.store.local(name)), "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            column = batch.column(0)
            data = column.buffers()[1]
            rows = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize).copy()
            yield rows, batch.column(1).to_pylist()
