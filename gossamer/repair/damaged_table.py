"""This module reads a Parquet file that may be damaged: its row groups, or those of their columns that are intact."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.web.url import domain_of, host_of

# Without one of these a row means nothing, or what is read again from the tables would be wrong. Of kinds that are not
# here that is true of all columns: the crawl reads them when it begins.
_NEEDED = {
    "visits": ("key", "url", "time", "round", "depth", "status", "outcome", "is_robots"),
    "pages": ("key", "url", "round", "depth"),
    "links": ("source", "target", "round"),
}
_FROM_URL = {"host": host_of, "domain": lambda url: domain_of(host_of(url))}  # columns that an intact URL has within it
_NOWHERE = {"warc": "", "warc_offset": 0}  # where a record is, as rows have it that have none: half of it is nothing


@dataclass
class Loss:
    """`Loss` counts the rows of a file, those that are lost, and those that lose a column."""

    rows: int = 0
    lost: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    is_readable: bool = True  # its footer, without which nobody knows where rows are, or how many

    @property
    def words(self) -> str:
        if not self.is_readable:
            return "all of its rows are lost (its footer cannot be read)"
        parts = [f"{self.lost:,} of {_rows(self.rows)} {'is' if self.lost == 1 else 'are'} lost"] if self.lost else []
        for name, count in sorted(self.nulls.items()):
            parts.append(f"the column {name} of {_rows(count)} becomes {'empty' if name in _NOWHERE else 'NULL'}")
        return ", ".join(parts) or "all of its rows can be read: they are written anew"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def loss_of(path: Path, kind: str) -> Loss:
    """Returns what mending such a file would cost."""
    loss = Loss()
    for _ in intact_rows(path, kind, loss):
        pass
    return loss


def intact_rows(path: Path, kind: str, loss: Loss) -> Iterator[Any]:
    """Yields the rows that can be kept, group by group; `loss` counts the others."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                loss.rows += count
                rows = read_group(file, number)
                rows = _without_damage(file, number, kind, loss) if rows is None else rows
                if rows is None:
                    loss.lost += count
                else:
                    yield rows
    except (OSError, pa.ArrowException):
        loss.is_readable = False


def read_group(file: Any, number: int, columns: list[str] | None = None) -> Any:
    """Returns a group of rows; None if it cannot be read, or is not what was written."""
    try:
        rows = file.read_row_group(number, columns)
        rows.validate(full=True)
    except (OSError, pa.ArrowException):
        return None
    return rows


def _without_damage(file: Any, number: int, kind: str, loss: Loss) -> Any:
    """Returns a group of rows with NULL for damaged columns that nothing else tells; None if one of these is needed."""
    schema, count = file.schema_arrow, file.metadata.row_group(number).num_rows
    parts = {name: read_group(file, number, [name]) for name in schema.names}
    damaged = {name for name, part in parts.items() if part is None or part.num_rows != count}
    if damaged & _NOWHERE.keys():
        damaged |= _NOWHERE.keys() & set(schema.names)
    if damaged & set(_NEEDED.get(kind, schema.names)):
        return None
    urls = parts["url"].column(0).to_pylist() if "url" in parts.keys() - damaged else []
    told = {n: pa.array(map(_FROM_URL[n], urls), schema.field(n).type) for n in damaged & _FROM_URL.keys() if urls}
    loss.nulls.update(dict.fromkeys(damaged - told.keys(), count))
    columns = {name: part.column(0) for name, part in parts.items() if name not in damaged} | told
    return pa.table([columns.get(f.name, _nothing(f, count)) for f in schema], schema=schema)


def _nothing(column: Any, count: int) -> Any:
    if column.name not in _NOWHERE:
        return pa.nulls(count, column.type)
    return pa.array([_NOWHERE[column.name]] * count).cast(column.type)
