"""This module answers one SQL query of the dashboard, in a process of its own that has little memory and time.

`python -m gossamer.watch.asking CRAWL` reads the query from its standard input and writes JSON. Whoever started it ends
it when the time is over; a query can neither stay nor take more of this machine than the limits here.
"""

import json
import os
import resource
import sys
from itertools import islice
from typing import Any

from gossamer.archive import query
from gossamer.archive.reading import Reading, reading
from gossamer.archive.views import TABLES
from gossamer.cluster.location import index_of, locate
from gossamer.errors import GossamerError
from gossamer.watch.rows import as_text, rows_of, shown_cell

ROWS = 200
SECONDS = 30
_CELL = 400  # characters
_MEMORY_MB = 256
_SPILL_MB = 256
_ADDRESSES = 4 << 30  # bytes that the process may have in all, files that are mapped included
_LIMITS = (
    f"SET memory_limit = '{_MEMORY_MB}MB'",
    f"SET max_temp_directory_size = '{_SPILL_MB}MB'",
    "SET threads = 1",
)


def answer(crawl: str, sql: str) -> dict[str, Any]:
    """Returns the names of the columns and the first rows, as text; or the error."""

    def take(batches: Any, _total: Any) -> dict[str, Any]:
        rows = [[shown_cell(value, _CELL) for value in row] for row in islice(rows_of(batches), ROWS + 1)]
        return {"columns": batches.schema.names, "rows": rows[:ROWS], "more": len(rows) > ROWS}

    def opened(work: Any) -> Any:
        def on(at: Reading) -> Any:
            return work(query.open_reading(at, _LIMITS, index_of))

        return reading(locate(crawl), on)

    try:
        return query.answered(opened, TABLES, sql, take, lambda rows: as_text(rows, to_file=False))
    except GossamerError as error:
        return {"error": str(error)}


def main() -> None:
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        found = answer(sys.argv[1], sys.stdin.read())
    except MemoryError:
        found = {"error": f"the query needs more than {_MEMORY_MB} MB: choose fewer rows or columns"}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
