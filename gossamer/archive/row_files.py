"""`RowFiles` keeps rows that change, one for each name, in files that never do: only this module knows how.

A commit adds one file, with the rows that changed since the one before. If the files before it are not much longer, it
takes their place: each row is written about as often as the logarithm of their number, and few files stay.
"""

from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive.chain import Chain
from gossamer.archive.manifest import Changes
from gossamer.archive.store import Files, Store
from gossamer.archive.tables import write_table
from gossamer.columns import Table
from gossamer.errors import ArchiveError

Row = TypeVar("Row", bound=tuple[Any, ...])

_LONGER = 2  # a file is replaced if it is at most so many times as long as the new rows


class RowFiles(Generic[Row]):
    """`RowFiles` has the rows of one agent. The table's first column is the name; `blank` is a row that is no more."""

    def __init__(self, store: Store, chain: Chain, table: Table, blank: Row) -> None:
        self._store, self._chain, self._table, self._blank = store, chain, table, blank
        self._files: list[tuple[str, int]] = []  # with their rows, the oldest first
        self.rows: dict[str, Row] = {}
        for name in chain.files.get(table.name, ()):
            rows: dict[str, Row] = read_rows(store, name, table)
            self._files.append((name, len(rows)))
            self.rows |= rows
        self.rows = self._filled(self.rows)

    def write(self, rows: dict[str, Row]) -> Changes:
        """Returns what the next commit must have so that these rows are kept, and no others."""
        new = {name: row for name, row in rows.items() if self.rows.get(name) != row}
        new |= dict.fromkeys(self.rows.keys() - rows.keys(), self._blank)
        self.rows = rows
        if not new:
            return Changes()
        kind = self._table.name
        replaced = []
        while self._files and self._files[-1][1] <= _LONGER * len(new):
            name, _ = self._files.pop()
            replaced.append(name)
            new = {**read_rows(self._store, name, self._table), **new}
        if not self._files:
            new = self._filled(new)
        columns = [list(new), *(list(column) for column in zip(*new.values(), strict=True))]
        values = dict(zip(self._table.names, columns, strict=True)) if new else {key: [] for key in self._table.names}
        changes = write_table(self._store, self._table, self._chain.agent, self._chain.round, values)
        self._files += [(name, len(new)) for name in changes.added.get(kind, ())]
        return changes | Changes({}, {kind: replaced})

    def _filled(self, rows: dict[str, Row]) -> dict[str, Row]:
        return {name: row for name, row in rows.items() if row != self._blank}


def read_rows(store: Files, name: str, table: Table) -> dict[str, Any]:
    """Returns the rows in one file; those that are no more are among them, blank."""
    try:
        rows = pq.read_table(store.local(name), columns=table.names)
    except (OSError, pa.ArrowException) as error:
        raise ArchiveError(f"{name} is missing or damaged: {error}; restore it from a copy") from None
    names, *columns = (rows[column].to_pylist() for column in table.names)
    return dict(zip(names, zip(*columns, strict=True), strict=True))
