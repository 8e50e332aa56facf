"""Zones change hands: the only module that takes pages out of one agent's index and puts them into another's.

The old owner writes all it knows of the zones into files, forgets them, and says so in one commit, which also holds
the letter to the new owner. From then on it fetches nothing of them. The new owner takes the files in and confirms
the letter in one commit. Between the two the zones belong to nobody, and links for them wait.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gossamer.archive.chain import Batch, Changes
from gossamer.archive.store import room
from gossamer.columns import HOST, NO_TEXT, PAGE, VISITED
from gossamer.crawl.closing import Books
from gossamer.crawl.incoming import arrivals
from gossamer.federation.exchange import ZONES, Exchange, high_water
from gossamer.index.merging import Rows
from gossamer.index.pages import ZONE_SHIFT, PageIndex, zone_of_host
from gossamer.web.url import page_key

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
    changes = Changes({KIND: names}) | index.retain(books.store, chain.label, mine)
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
        outbox=[Batch(chain.agent, chain.round, 0, to, json.dumps(letter).encode(), ZONES)],
        exchange=exchange,
        applied=[],
        now_s=now_s,
        zones=mine,
    )
    index.release(changes)


def _forget_delivered(books: Books, exchange: Exchange, now_s: float) -> None:
    """The files of hand-overs that have been taken in."""
    chain = books.chain
    waiting = {f"{letter.batch.sender}-{letter.batch.number:08d}" for letter in chain.snapshot.outbox}
    gone = [n for n in chain.files.get(KIND, []) if n.split("/")[1].rsplit("-", 1)[0] not in waiting]
    if gone:
        chain.commit(
            Changes({}, {KIND: gone}), state={}, marks={}, outbox=[], exchange=exchange, applied=[], now_s=now_s
        )


# The new owner


def _adopt(books: Books, exchange: Exchange, letter: Batch, now_s: float) -> None:
    chain, index, ledger = books.chain, books.index, books.ledger
    said = json.loads(letter.data)
    of_pages, of_visited, of_hosts = said["files"]
    for rows, texts in _read(books, of_pages, PAGE.numpy):
        rows["cash"] -= ledger.v
        rows["text"] = index.heap.append(texts)
        index.pages.write(rows[np.argsort(rows["key"])], len(rows))
        ledger.known += len(rows)
    for rows, texts in _read(books, of_visited, VISITED.numpy):
        given = np.array([bool(text) for text in texts], bool)
        rows["validators"][given] = index.heap.append([text for text in texts if text])
        index.visited.write(rows, len(rows))
    for rows, _ in _read(books, of_hosts, HOST.numpy):
        counts = [rows[name].astype(np.int64) for name in ("known", "visited")]
        index.hosts.grow(rows["host"], rows["domain"], *counts)
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
