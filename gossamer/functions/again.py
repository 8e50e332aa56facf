"""This module runs functions over the archive, without fetching: `extract` replaces the items that they had before.

| step | what | after a crash here |
|---|---|---|
| 1 | run the functions on pieces of the archive; each result is a file beside it | the pieces that are done are kept |
| 2 | store the new tables, and the old ones without what is replaced | unnamed files, swept when the chain is opened |
| 3 | commit: from here on the items are the new ones | with several agents, those after it have their old items |

The same command goes on where it was. Other code, or other conditions, begin anew.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain, chains
from gossamer.archive.contents import Contents
from gossamer.archive.copies import open_store
from gossamer.archive.labels import label_of
from gossamer.archive.manifest import Changes, Message
from gossamer.archive.merge import aligned, merged_name
from gossamer.archive.places import opened, remembered
from gossamer.archive.query import answered, open_reading
from gossamer.archive.reading import Reading, location_of
from gossamer.archive.store import Store
from gossamer.archive.tables import parquet_options
from gossamer.archive.views import TABLES
from gossamer.columns import FILES, FUNCTION_ERRORS, ITEMS, Table
from gossamer.config import Config
from gossamer.config.folders import Address, Place, folder_of
from gossamer.errors import ConfigError, disk_full_guard
from gossamer.functions.functions import failure, setup_of, workers_of
from gossamer.functions.loading import canonical, is_same
from gossamer.functions.pool import Pool
from gossamer.functions.protocol import Result, Task
from gossamer.functions.tables import Rows, Source
from gossamer.web.answer import Answer

_PIECE = 2_000  # visits; so many are done again after a crash
_GROUP = 64  # answers that are read together
_LARGEST = 16 << 20  # bytes of a body
_LOOK_S = 0.25
_WRITTEN = (ITEMS, FILES, FUNCTION_ERRORS)

Show = Callable[[int, int], None]


class Extracted(NamedTuple):
    """`Extracted` counts what was done."""

    pages: int
    items: int
    errors: int
    failed: int = 0  # pages on which a function failed
    first_failure: str = ""


class _Visit(NamedTuple):
    key: int
    url: str
    round: int
    time_ms: int
    http_status: int
    depth: int
    warc: str
    warc_offset: int
    warc_bytes: int

    @property
    def place(self) -> tuple[str, int, int]:
        return self.warc, self.warc_offset, self.warc_bytes


class _Nobody:
    """`_Nobody` is the exchange of a chain that only changes tables: what waits to be sent goes on waiting."""

    def publish(self, _message: Message) -> bool:
        return False

    def acknowledge(self, _stream: str, _number: int) -> None:
        return

    def confirmed(self, _stream: str) -> int:
        return 0

    def lost(self) -> bool:
        return False


@dataclass(frozen=True)
class _Again:
    """`_Again` is one run: which functions, on which visits, and where the results wait."""

    config: Config
    source: Source
    pool: Pool
    folder: Path
    numbers: "count[int]"

    def piece(self, contents: Contents, visits: Sequence[_Visit]) -> Path:
        """Returns the folder with the results of a piece; they are computed if they are not there."""
        text = "".join(f"{visit.key} {visit.round}\n" for visit in visits)
        path = self.folder / hashlib.sha256(text.encode()).hexdigest()[:24]
        if not path.exists():
            tables = self._rows(contents, visits).tables()
            part = path.with_name(f".{path.name}")
            shutil.rmtree(part, ignore_errors=True)
            with disk_full_guard(part):
                part.mkdir(parents=True)
                for name, rows in tables.items():
                    pq.write_table(rows, part / f"{name}.parquet", **parquet_options(rows.schema))
                part.rename(path)
        return path

    def _rows(self, contents: Contents, visits: Sequence[_Visit]) -> Rows:
        """Workers read the pages themselves, so that only results go from process to process. What they cannot read,
        such as a revisit record, is read here."""
        given: dict[int, _Visit] = {}
        for visit in visits:
            if (path := contents.path(visit.warc)) is not None:
                number = next(self.numbers)
                given[number] = visit
                self.pool.put(_task(number, visit, Answer(b"", b""), path))
        results = self._finished()
        if unread := [number for number, result in results.items() if result.is_unread]:
            for number in unread:
                del results[number]
            self._put_read(contents, {number: given[number] for number in sorted(unread)})
            results |= self._finished()
        rows = Rows(self.source)
        for number, visit in given.items():
            if (result := results.get(number)) is not None:
                self.source.learn(result.columns)
                rows.add(visit.key, visit.url, visit.time_ms / 1000, result, visit.round)
        return rows

    def _put_read(self, contents: Contents, given: Mapping[int, _Visit]) -> None:
        """Reads pages and gives them to the workers. A record that is damaged is an error here."""
        numbers = [*given]
        for start in range(0, len(numbers), _GROUP):
            group = numbers[start : start + _GROUP]

            def put(place: int, answer: Answer, group: Sequence[int] = group) -> None:
                self.pool.put(_task(group[place], given[group[place]], answer))

            contents.each([given[number].place for number in group], put)
            while self.pool.is_behind:
                self.pool.wait(_LOOK_S)

    def _finished(self) -> dict[int, Result]:
        return {result.number: result for result in self.pool.finish()}


def _task(number: int, visit: _Visit, answer: Answer, path: Path | None = None) -> Task:
    page = (number, visit.url, visit.http_status, visit.time_ms / 1000, visit.depth, answer.head, answer.wire)
    return Task(*page, str(path), *visit.place[1:]) if path else Task(*page)


def extract(
    crawl: Place, functions: Sequence[str], where: str, now_s: float, show: Show, workers: int = 0
) -> Extracted:
    """Runs functions on all visits with new content, or on those that an SQL condition on `visits` selects. Their items
    replace those that the same functions had of the same visits. Nobody may crawl there meanwhile: a directory has
    locks to see to that; at an address this takes the crawl over, and one on another machine ends at its next
    commit."""
    config = (remembered(crawl) or Config()).replace({"extract.functions": list(functions), "extract.links": ""})
    if workers:
        config = config.replace({"extract.workers": workers})
    with ExitStack() as stack:
        store = opened(crawl, config)
        agents = sorted(chains(store))
        for agent in agents:
            stack.enter_context(store.lock(agent))
        at = location_of(crawl).read()
        visits = _visits(at, where)
        if not visits:
            raise ConfigError(
                "no visit to run functions on: they need stored content (archive.warc), that --where selects"
            )
        setup = setup_of(config)
        functions = [*setup.functions]
        pool = Pool(setup, config.extract.workers or workers_of(config) + 1)
        ready = pool.start()
        stack.callback(pool.close)
        source = Source(functions, ready.code, ready.columns)
        folder = folder_of(crawl) / "extract" / _digest(functions, ready.code, where)
        taken: dict[str, tuple[Store, Chain]] = {}
        for agent in agents if isinstance(crawl, Address) else ():
            own = open_store(crawl, config, agent, now_s)
            taken[agent] = own, Chain.take_over(own, agent, _Nobody(), now_s)
        if taken:  # what was committed until then
            at = location_of(crawl).read()
            visits = _visits(at, where)
        again = _Again(config, source, pool, folder, count(1))
        pieces: dict[str, list[Path]] = {}
        seen = 0
        with closing(Contents(at)) as contents:
            for agent, piece in _pieces(visits):
                show(seen, len(visits))
                pieces.setdefault(agent, []).append(again.piece(contents, piece))
                seen += len(piece)
        done = Extracted(len(visits), 0, 0, *_failures(path for paths in pieces.values() for path in paths))
        chosen = {(visit.key, visit.round) for visit in visits} if where else None
        for agent in agents:
            if agent not in taken:
                own = open_store(crawl, config, agent, now_s)
                taken[agent] = own, Chain.open(own, agent, _Nobody())
            done = _commit(*taken[agent], functions, chosen, pieces.get(agent, []), now_s, done)
        shutil.rmtree(folder)
    return done


def _digest(functions: Sequence[str], code: Sequence[str], where: str) -> str:
    return hashlib.sha256("\n".join([*functions, *code, where]).encode()).hexdigest()[:24]


def _visits(at: Reading, where: str) -> list[_Visit]:
    """Returns the visits with stored content that the condition selects, in the order of the WARC files."""
    columns = "key, url, round, epoch_ms(time) AS time_ms, http_status, depth, warc, warc_offset, warc_bytes"
    # As while crawling, functions get no body that is too large for memory.
    sql = f"""SELECT {columns} FROM visits WHERE outcome = 'ok' AND NOT is_robots AND warc <> ''
        AND wire_bytes <= {_LARGEST} AND ({where or "true"}\n) ORDER BY warc, warc_offset"""

    def with_tables(work: Callable[[Any], list[_Visit]]) -> list[_Visit]:
        return work(open_reading(at))

    return answered(with_tables, TABLES, sql, lambda rows, _: [*_rows_of(rows)])


def _rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[_Visit]:
    for batch in batches:
        yield from map(_Visit, *(column.to_pylist() for column in batch.columns))


def _pieces(visits: Sequence[_Visit]) -> Iterator[tuple[str, list[_Visit]]]:
    """Yields parts of the visits, each of one agent."""
    for agent, group in groupby(visits, lambda visit: _agent(visit.warc)):
        each = list(group)
        yield from ((agent, each[start : start + _PIECE]) for start in range(0, len(each), _PIECE))


def _failures(pieces: Iterable[Path]) -> tuple[int, str]:
    """Returns on how many pages functions have failed, and what the first error was."""
    failed, first = 0, ""
    for piece in pieces:
        if (path := piece / f"{FUNCTION_ERRORS.name}.parquet").exists():
            rows = pq.read_table(path, columns=["key", "round", "function", "error"]).to_pylist()
            failed += len({(row["key"], row["round"]) for row in rows})
            first = first or next((failure(row["function"], row["error"]) for row in rows), "")
    return failed, first


def _agent(warc: str) -> str:
    label = label_of(warc)
    return label.agent if label else ""


def _commit(
    store: Store,
    chain: Chain,
    functions: Sequence[str],
    chosen: set[tuple[int, int]] | None,
    pieces: Sequence[Path],
    now_s: float,
    done: Extracted,
) -> Extracted:
    """Replaces, in one commit, what these functions made of an agent's visits."""
    changes, added = Changes(), {}
    for table in _WRITTEN:
        for name in chain.files.get(table.name, []):
            changes |= _without(store, chain, table, name, functions, chosen)
        parts = [path for piece in pieces if (path := piece / f"{table.name}.parquet").exists()]
        added[table.name] = sum(pq.read_metadata(path).num_rows for path in parts)
        if parts:
            changes |= _joined(store, f"tables/{table.name}-{chain.label}.parquet", table, parts)
    if changes:
        applied = chain.snapshot.applied
        chain.commit(changes, marks={}, outbox=(), exchange=_Nobody(), applied=applied, now_s=now_s)
        store.settle()
    return done._replace(items=done.items + added["items"], errors=done.errors + added["function_errors"])


def _without(
    store: Store, chain: Chain, table: Table, name: str, functions: Sequence[str], chosen: set[tuple[int, int]] | None
) -> Changes:
    """Returns how a file becomes one without the rows that are replaced."""
    rows = pq.read_table(store.local(name))
    names = rows.column("function").cast(pa.string())
    found = pc.unique(names).to_pylist()
    replaced = [each for each in found if any(is_same(canonical(each), function) for function in functions)]
    goes = pc.is_in(names, pa.array(replaced, pa.string()))
    if chosen is not None:
        visits = zip(rows.column("key").to_pylist(), rows.column("round").to_pylist(), strict=True)
        goes = pc.and_(goes, pa.array([visit in chosen for visit in visits], pa.bool_()))
    if not pc.any(goes).as_py():
        return Changes()
    rows, label = rows.filter(pc.invert(goes)), label_of(name)
    if not rows.num_rows or label is None:
        return Changes({}, {table.name: [name]})
    unused = [
        each for each in rows.column_names if each not in table.names and rows.column(each).null_count == len(rows)
    ]
    new = merged_name(table.name, chain.agent, label.first, label.last, chain.round)
    path = store.scratch(new)
    with disk_full_guard(path):
        rows = rows.drop_columns(unused) if unused else rows
        pq.write_table(rows, path, **parquet_options(rows.schema))
    store.put(new, path)
    return Changes({table.name: [new]}, {table.name: [name]})


def _joined(store: Store, name: str, table: Table, parts: Sequence[Path]) -> Changes:
    """Returns a file with the rows of all parts; later parts may have learned of more columns."""
    schema = pa.unify_schemas([pq.read_schema(path) for path in parts], promote_options="permissive")
    path = store.scratch(name)
    with disk_full_guard(path), pq.ParquetWriter(path, schema, **parquet_options(schema)) as writer:
        for part in parts:
            writer.write_table(aligned(pq.read_table(part), schema))
    store.put(name, path)
    return Changes({table.name: [name]})
