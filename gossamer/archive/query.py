"""This module runs SQL over a crawl's archive with DuckDB, and makes sure that it only reads."""

import atexit
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import BLOB, UBIGINT, VARCHAR

from gossamer.archive.reading import Reading, Where, reading
from gossamer.archive.views import FROM_INDEX, KINDS, SQL_TYPES, TABLES, quoted, statements
from gossamer.config import PURPOSES
from gossamer.errors import ConfigError, QueryError

if TYPE_CHECKING:
    from gossamer.archive.contents import Contents, Place
    from gossamer.web.answer import Answer

T = TypeVar("T")
Opened = Callable[[Callable[[duckdb.DuckDBPyConnection], T]], T]
Shown = Callable[[duckdb.DuckDBPyRelation], duckdb.DuckDBPyRelation]


class Named(Protocol):
    """`Named` describes a table that can be queried."""

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> Sequence[str]: ...


class Index(Protocol):
    """Port: what the index of a crawl knows of pages. Whoever opens a database for users passes one
    (`refresh.upcoming.Upcoming`); to those who pass none, it is unknown."""

    def columns(self, name: str, keys: pa.Array) -> pa.StructArray:
        """Returns the columns that `views.FROM_INDEX` has under this name, for these keys."""


OpenIndex = Callable[[Reading], Index]

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # `text` is a function of ours, not a reason to download an extension.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",  # a table name must never mean a variable of ours
}
_BATCH = 2048  # rows that DuckDB works on at a time
_READS = {"SELECT", "EXPLAIN", "CREATE"}  # CREATE makes helpers in memory, for the statements after it
_MISSING_TABLE = "Table with name"
_MISSING_COLUMN = "not found in FROM clause"
# What DuckDB puts before the text of our own exceptions.
_OURS = re.compile(r"Invalid Input Error: Python exception occurred while executing the UDF: (?:Archive|Config)Error: ")


def open_database(where: Where, index: OpenIndex | None = None) -> duckdb.DuckDBPyConnection:
    """Opens an in-memory database with the crawl's tables and functions. It can read the archive and write nowhere.

    It shows what was committed when it was opened. Close it when done.
    """
    return reading(where, lambda at: open_reading(at, index=index))


def with_database(where: Where, work: Callable[[duckdb.DuckDBPyConnection], T], index: OpenIndex | None = None) -> T:
    """Returns the result of work on such a database. It is done again if a running crawl merges files meanwhile."""

    def opened(at: Reading) -> T:
        with closing(open_reading(at, index=index)) as database:
            return work(database)

    return reading(where, opened)


def open_reading(
    at: Reading, settings: Sequence[str] = (), index: OpenIndex | None = None
) -> duckdb.DuckDBPyConnection:
    """Opens such a database of what was read. `settings` are statements that set limits; no query can change them."""
    files = {kind: at.paths(kind) for kind in KINDS}
    paths = [str(path) for each in files.values() for path in each]

    def made(database: duckdb.DuckDBPyConnection) -> list[str]:
        return [*settings, *statements(database, files, at.overlap, index is not None)]

    def functions(database: duckdb.DuckDBPyConnection) -> None:
        _add_functions(database, cache(lambda: _contents(at)))
        if index is not None:
            _add_index(database, cache(lambda: index(at)))

    return confined(made, paths, functions)


def confined(
    statements: Callable[[duckdb.DuckDBPyConnection], Iterable[str]],
    paths: Sequence[str],
    functions: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None,
) -> duckdb.DuckDBPyConnection:
    """Opens a database of what these statements make, with functions. It can read these files and write nowhere."""
    database = duckdb.connect(config=_SETTINGS)
    try:
        functions(database)
        for statement in statements(database):
            database.execute(statement)
        _confine(database, paths)
    except BaseException:
        database.close()
        raise
    _OPEN.add(database)
    return database


_OPEN: "weakref.WeakSet[duckdb.DuckDBPyConnection]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all: DuckDB complains on stderr about connections with functions that live longer than the interpreter."""
    for database in list(_OPEN):
        database.close()


def _confine(database: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """Lets it read these files, and spill to its own temporary directory, from here on; nothing else."""
    spill = Path(tempfile.gettempdir()) / f"gossamer-query-{os.getpid()}-{id(database):x}"
    database.execute(f"SET temp_directory = {quoted(str(spill))}")  # made when needed, removed by DuckDB
    database.execute("SET TimeZone = 'UTC'")
    database.execute(f"SET allowed_paths = [{', '.join(quoted(path) for path in paths)}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _contents(at: Reading) -> "Contents":
    from gossamer.archive.contents import Contents  # most queries read no pages, and need not wait for it

    return Contents(at)


def _add_functions(database: duckdb.DuckDBPyConnection, contents: "Callable[[], Contents]") -> None:
    """Adds the functions of `views.FUNCTIONS`. They work on columns, so that revisits are looked up together."""

    def column(
        of: "Callable[[Answer], str | bytes | None]", kind: pa.DataType, is_whole: bool = False
    ) -> Callable[[Any, Any], Any]:
        def values(warcs: Any, offsets: Any) -> Any:
            from gossamer.web.answer import DECODED_BYTES, TEXT_BYTES

            most = DECODED_BYTES if is_whole else TEXT_BYTES
            return pa.array(contents().each(_places(warcs, offsets), lambda _, answer: of(answer), most), kind)

        return values

    def header(warcs: Any, offsets: Any, names: Any) -> Any:
        wanted = names.to_pylist()
        return pa.array(
            contents().each(_places(warcs, offsets), lambda i, answer: answer.header(wanted[i] or ""), most=1),
            pa.string(),
        )

    functions: list[tuple[str, Callable[..., Any], Any, str]] = [
        ("content", column(lambda answer: answer.content(), pa.string()), VARCHAR, ""),
        ("text", column(lambda answer: answer.text(), pa.string()), VARCHAR, ""),
        ("main_text", column(lambda answer: answer.main_text(), pa.string()), VARCHAR, ""),
        ("markdown", column(lambda answer: answer.markdown(), pa.string()), VARCHAR, ""),
        ("body", column(lambda answer: answer.body, pa.binary(), is_whole=True), BLOB, ""),
        ("header", header, VARCHAR, ", name"),
    ]
    database.create_function("detected_language", _languages, [VARCHAR], VARCHAR, type=ARROW, null_handling=SPECIAL)
    database.create_function("text_simhash", _simhashes, [VARCHAR], UBIGINT, type=ARROW, null_handling=SPECIAL)
    database.execute("CREATE MACRO simhash(text) AS text_simhash(text::VARCHAR)")
    database.execute("CREATE MACRO language_of(text) AS detected_language(text::VARCHAR)")
    for name, function, result, extra in functions:
        types: list[Any] = [VARCHAR, UBIGINT, *([VARCHAR] if extra else [])]
        database.create_function(f"stored_{name}", function, types, result, type=ARROW, null_handling=SPECIAL)
        # The macro makes any integer an offset, and gives the parameters their names.
        call = f"stored_{name}(warc::VARCHAR, try_cast(warc_offset AS UBIGINT){extra})"
        database.execute(f"CREATE MACRO {name}(warc, warc_offset{extra}) AS {call}")


def _add_index(database: duckdb.DuckDBPyConnection, index: Callable[[], Index]) -> None:
    """Adds the functions of `views.FROM_INDEX`. For columns that nobody asks for DuckDB does not call them: then the
    index is not even opened."""

    def answer(name: str) -> Callable[[pa.Array], pa.StructArray]:
        return lambda keys: index().columns(name, keys)

    for name, columns in FROM_INDEX.items():
        fields = {column.name: duckdb.dtype(SQL_TYPES[column.dtype]) for column in columns}
        database.create_function(f"index_{name}", answer(name), [UBIGINT], duckdb.struct_type(fields), type=ARROW)


def _languages(texts: Any) -> Any:
    from gossamer.web.main_text import language_of

    return pa.array([None if text is None else language_of(text) for text in texts.to_pylist()], pa.string())


def _simhashes(texts: Any) -> Any:
    from gossamer.web.similar import Words, simhash

    words = Words()
    return pa.array([None if text is None else simhash(words.runs(text)) for text in texts.to_pylist()], pa.uint64())


def _places(warcs: Any, offsets: Any) -> "list[Place | None]":
    pairs = zip(warcs.to_pylist(), offsets.to_pylist(), strict=True)
    return [(warc, offset) if warc and offset is not None else None for warc, offset in pairs]


def ask(where: Where, sql: str, index: OpenIndex | None = None) -> list[dict[str, Any]]:
    """Returns the last statement's result, for programs; all of it in memory."""
    return answered(
        partial(with_database, where, index=index), TABLES, sql, lambda rows, _: rows.read_all().to_pylist()
    )


def answered(
    opened: Opened[T],
    tables: Sequence[Named],
    sql: str,
    take: Callable[[pa.RecordBatchReader, Callable[[], int | None]], T],
    shown: Shown = lambda rows: rows,
) -> T:
    """Returns what `take` makes of the last statement's rows; it can also ask for their number. `opened` gives a
    database to the work on it, and closes it afterwards. `shown` may give the rows other types first."""

    def work(connection: duckdb.DuckDBPyConnection) -> T:
        with closing(connection) as database:
            last = _prepared(database, sql)
            with streamed(database, last, shown) as rows:
                return take(rows, lambda: _counted(database, last))

    try:
        return opened(work)
    except (duckdb.Error, pa.ArrowException) as error:
        raise QueryError(_explained(error, sql, tables)) from None


@contextmanager
def streamed(
    database: duckdb.DuckDBPyConnection, sql: str, shown: Shown = lambda rows: rows
) -> Iterator[pa.RecordBatchReader]:
    """Yields a query's rows as they come; `shown` may give them other types first."""
    rows: pa.RecordBatchReader = shown(database.sql(sql)).to_arrow_reader(_BATCH)
    try:
        yield rows
    except OSError as error:
        if error.errno is None:  # DuckDB's own, as Arrow passes it on
            raise duckdb.Error(str(error)) from None
        raise
    finally:
        # Before the connection: DuckDB 2.0.0 crashes the process if a half-read result that calls functions of
        # ours is read or freed after its connection was closed.
        rows.close()


def started(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Returns the same rows, after the first have come: until then nothing is written, and all can be repeated."""
    first = list(islice(rows, 1))
    return pa.RecordBatchReader.from_batches(rows.schema, chain(first, rows))


def permitted(purpose: str) -> str:
    """Returns the SQL condition on `pages` that selects those whose publishers do not refuse a purpose
    (docs/preferences.md); without a purpose, all of them."""
    if not purpose:
        return "true"
    if purpose not in PURPOSES:
        raise ConfigError(f"a purpose is one of {', '.join(PURPOSES)}, not {purpose!r}")
    return f"NOT list_contains(string_split(coalesce(not_for, ''), ' '), '{purpose}')"


def _prepared(database: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Checks that all statements only read, runs all but the last, and returns that."""
    parsed = database.extract_statements(sql)
    if not parsed:
        raise QueryError('nothing to run; for example: "SELECT status, count(*) FROM pages GROUP BY status"')
    for statement in parsed:
        kind = statement.type.name
        if kind not in _READS:
            raise QueryError(f"{kind} is refused: a query only reads the crawl; write SELECT ...")
    for statement in parsed[:-1]:
        database.execute(statement).fetchall()
    if parsed[-1].type.name == "CREATE":
        raise QueryError("the last statement must be a SELECT, so that there is something to show")
    return str(parsed[-1].query)


def _counted(database: duckdb.DuckDBPyConnection, sql: str) -> int | None:
    """Returns how many rows a query has; None if it cannot be run again, as it needs a temporary table of its
    connection.

    DuckDB leaves out what only makes columns, so that no page is read for it.
    """
    with closing(database.cursor()) as another:
        try:
            (found,) = another.execute(f"SELECT count(*) FROM ({sql.rstrip().rstrip(';')}\n)").fetchall()
        except duckdb.Error:
            return None
    return int(found[0])


def _explained(error: Exception, sql: str, tables: Sequence[Named]) -> str:
    """Returns DuckDB's own message, and which names exist where it misses one."""
    message = _OURS.sub("", str(error).strip(), 1)
    if _MISSING_TABLE in message:
        return f"{message}\n\nThe tables are {', '.join(table.name for table in tables)}."
    if _MISSING_COLUMN in message:
        named = [table for table in tables if re.search(rf"\b{table.name}\b", sql, re.IGNORECASE)]
        lines = [f"{table.name}: {', '.join(table.names)}" for table in named or tables]
        return "\n\n".join([message, *lines])
    return message
