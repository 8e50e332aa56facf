"""This module writes what functions made of pages as tables of the archive: items, files, function_errors."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.archive.tables import arrow_table, put_table
from gossamer.columns import FILES, FUNCTION_ERRORS, ITEMS
from gossamer.functions import item_types
from gossamer.functions.protocol import Result

_ARROW = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "datetime": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    item_types.JSON: pa.string(),
}


_NULL = msgspec.Raw(b"null")


class Source:
    """`Source` knows the functions: their names, their code, and the typed columns of what they yield."""

    def __init__(self, functions: Sequence[str], code: Sequence[str], columns: Sequence[Mapping[str, str]]) -> None:
        self.functions = list(functions)
        self._columns = {name: dict(each) for name, each in zip(functions, columns, strict=True)}
        self._code = dict(zip(functions, code, strict=True))

    def learn(self, columns: Sequence[tuple[int, str, str]]) -> None:
        """Notes columns that were not declared, but are those of what a function yields."""
        for place, name, word in columns:
            self._columns[self.functions[place]].setdefault(name, word)

    def typed(self, functions: Sequence[str], items: Sequence[bytes]) -> dict[str, pa.Array]:
        """Returns the typed columns of items, which these functions yielded. A column that the table has already gets
        an underscore at its end."""
        columns = item_types.together([*self._columns.values()])
        if not columns:
            return {}
        decode = {
            function: item_types.decoder({name: columns[name] for name in names}).decode
            for function, names in self._columns.items()
        }
        rows = [decode[function](item) for function, item in zip(functions, items, strict=True)]
        arrays = {}
        for name, word in columns.items():
            fields = {
                function: f"c{[*names].index(name)}" for function, names in self._columns.items() if name in names
            }
            values = [
                _plain(getattr(row, fields[of])) if of in fields else None
                for of, row in zip(functions, rows, strict=True)
            ]
            arrays[name + "_" * (name in ITEMS.names)] = pa.array(values, arrow(word))
        return arrays

    def code(self, function: str) -> str:
        return self._code.get(function, "")


class Rows:
    """`Rows` gathers the rows of one round."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._items: list[tuple[Any, ...]] = []
        self._files: list[tuple[Any, ...]] = []
        self._errors: list[tuple[Any, ...]] = []

    def add(self, key: int, url: str, time_s: float, result: Result, round_: int) -> None:
        page, numbers = (key, url, round_, time_s), [0] * len(self._source.functions)
        for place, item in result.items:
            self._items.append((*page, *self._function(place), numbers[place], item))
            numbers[place] += 1
        for place, name, data in result.files:
            self._files.append((*page, *self._function(place), name, len(data), data))
        for error in result.errors:
            code = self._source.code(error.function)
            self._errors.append((*page, error.function, code, error.kind, error.error, error.traceback))

    def _function(self, place: int) -> tuple[str, str]:
        name = self._source.functions[place]
        return name, self._source.code(name)

    def tables(self) -> dict[str, pa.Table]:
        """Returns the tables that have rows."""
        found = {}
        for table, rows in ((ITEMS, self._items), (FILES, self._files), (FUNCTION_ERRORS, self._errors)):
            if not rows:
                continue
            columns = dict(zip(table.names, map(list, zip(*rows, strict=True)), strict=True))
            more: dict[str, pa.Array] = {}
            if table is ITEMS:
                more = self._source.typed(columns["function"], columns["item"])
                columns["item"] = [item.decode() for item in columns["item"]]
            made = arrow_table(table, columns)
            for name, array in more.items():
                made = made.append_column(name, array)
            found[table.name] = made
        return found

    def write(self, store: Store, agent: str, number: int) -> Changes:
        changes = Changes()
        for name, rows in self.tables().items():
            changes |= put_table(store, name, agent, number, rows)
        return changes


def arrow(word: str) -> pa.DataType:
    part = item_types.list_of(word)
    return pa.list_(_ARROW[part]) if part else _ARROW[word]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, msgspec.Raw):
        return None if value == _NULL else bytes(value).decode()
    return value
