"""`KnownPages` is the index of one agent as its last commit left it: for SQL, which only reads.

Files are opened when they are first asked for. A crawl that runs meanwhile may replace them: the error that this causes
makes the reader begin again (`archive/reading.py`).
"""

from functools import cached_property
from pathlib import Path

import numpy as np

from gossamer import columns
from gossamer.archive.reading import Reading
from gossamer.archive.resting import Rests, read_rests
from gossamer.arrays import F64, Bools, Keys, Rows
from gossamer.columns import RESTING
from gossamer.frontier.hosts import Hosts
from gossamer.frontier.strategies import ORDERS, Strategy
from gossamer.frontier.table import Table

_LEVELS = ("base", "run", "delta")


class KnownPages:
    """`seed` is the crawl's, as the order `random` needs it."""

    def __init__(self, at: Reading, agent: str, seed: int) -> None:
        self.at, self.agent, self.snapshot, self._seed = at, agent, at.snapshots[agent], seed

    @cached_property
    def pages(self) -> Table:
        return self._table(columns.PAGE)

    @cached_property
    def visited(self) -> Table:
        return self._table(columns.VISITED)

    @cached_property
    def hosts(self) -> Hosts:
        return Hosts(self._table(columns.HOST))

    @cached_property
    def rests(self) -> Rests:
        """The hosts that rest, by name."""
        rests: Rests = dict(self.snapshot.state.resting)
        for name in self.snapshot.files.get(RESTING.name, ()):
            rests |= read_rests(self, name)
        return rests

    @property
    def strategy(self) -> Strategy | None:
        """The order of the crawl; None if its ranks do not follow from the index alone."""
        known = ORDERS.get(self.snapshot.state.order)
        return known if known and not known.score else None

    def scores(self, rows: Rows) -> F64:
        """Returns what the order ranks these PAGE rows by; NaN if that is not known. What the virtual page has given to
        all alike is added: rows are stored without it."""
        if self.strategy is None:
            return np.full(len(rows), np.nan)
        rows = rows.copy()
        rows["cash"] += self.snapshot.state.ledger.v
        return np.asarray(self.strategy.page_rank(rows, self._seed), np.float64)

    def local(self, name: str) -> Path:
        return self.at.of_agent(self.agent, [name])[0]

    def _table(self, table: columns.Table) -> Table:
        """Opens a table. Its files are fetched at once, if they are in a bucket."""
        names = [name for level in _LEVELS for name in self.snapshot.files.get(f"index.{table.name}.{level}", ())]
        self.at.of_agent(self.agent, names)
        return Table.open(table, self, self.snapshot.files, 0)


def rows_of(table: Table, keys: Keys) -> tuple[Bools, Rows]:
    """Returns which keys the table has, and their rows; keys are in any order."""
    order = np.argsort(keys)
    found, rows = np.empty(len(keys), np.bool_), np.empty(len(keys), table.dtype)
    found[order], rows[order] = table.look_up(keys[order])
    return found, rows
