"""This module writes columns as the archive's Parquet files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gossamer.archive.manifest import Changes
from gossamer.archive.store import Store
from gossamer.columns import Column, Table
from gossamer.errors import disk_full_guard

_NUMBERS = "biuf"  # kinds of arrays: bool, signed, unsigned, float


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Returns how a table is written. Dictionaries are for the columns that repeat their values, which have them in
    memory already: others would only be larger. Nobody looks for the least and the greatest of those few values."""
    repeating = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": repeating,
        # As large as a round's URLs: at the default of 1 MB the writer falls back to plain text.
        "dictionary_pagesize_limit": 64 << 20,
        "write_statistics": [name for name in schema.names if name not in repeating],
        "write_page_checksum": True,  # so that of a damaged file what is intact can be told
    }


def write_table(store: Store, table: Table, agent: str, number: int, values: Mapping[str, Any]) -> Changes:
    """Writes a round's rows as one durable file; none if there are no rows.

    Every column of the table must be given: a list, an array, or one value for all rows. Times are seconds
    since 1970. Dictionary columns are lists of strings, or (indices, distinct strings).
    """
    if _rows(table, values) == 0:
        return Changes()
    return put_table(store, table.name, agent, number, arrow_table(table, values))


def put_table(store: Store, kind: str, agent: str, number: int, rows: pa.Table) -> Changes:
    """Writes rows as the round's file of a kind."""
    name = f"tables/{kind}-{agent}-{number:08d}.parquet"
    path = store.scratch(name)
    with disk_full_guard(path):
        pq.write_table(rows, path, **parquet_options(rows.schema))
    store.put(name, path)
    return Changes({kind: [name]})


def arrow_table(table: Table, values: Mapping[str, Any]) -> pa.Table:
    count, schema = _rows(table, values), table.arrow
    arrays = [_array(column, values[column.name], schema.field(column.name).type, count) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=schema)


def _rows(table: Table, values: Mapping[str, Any]) -> int:
    if set(values) != set(table.names):
        wrong = sorted(set(values) ^ set(table.names))
        raise ValueError(f"columns missing from {table.name}, or unknown there: {', '.join(wrong)}")
    return next((n for n in map(_length, values.values()) if n is not None), 1)


def _length(value: Any) -> int | None:
    """Returns the number of rows, None for a single value."""
    if isinstance(value, tuple):
        return len(value[0])
    if isinstance(value, list):
        return len(value)  # NumPy would make an array of it, to count its dimensions
    return None if isinstance(value, str | bytes) or np.ndim(value) == 0 else len(value)


def _array(column: Column, value: Any, kind: Any, count: int) -> Any:
    if column.dtype == "dict":
        return _dictionary(value, count)
    if _length(value) is None:
        value = [value] * count
    if column.dtype == "time":
        milliseconds = (np.asarray(value, np.float64) * 1000).astype(np.int64)  # cut, as WARC-Date is
        return _numbers(milliseconds).view(kind)
    return arrow_array(value, kind)


def arrow_array(value: Any, kind: pa.DataType) -> pa.Array:
    """Returns a list or an array as a column; what is out of range is an error."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _NUMBERS:
        return pa.array(value, kind)
    array = _numbers(value)
    return array if array.type == kind else array.cast(kind)


def _numbers(values: NDArray[Any]) -> pa.Array:
    """Returns numbers as a column, where they are in memory. `pa.array` would load NumPy's masked arrays, to see that
    these are none."""
    data = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(data)])


def _dictionary(value: Any, count: int) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], str) and value.count(value[0]) == count:
        value = value[0]  # a round's rows are alike in most of these columns
    if isinstance(value, str):
        value = np.zeros(count, np.int32), [value]
    if not isinstance(value, tuple):
        return pa.array(value, pa.dictionary(pa.int32(), pa.string()))
    indices, distinct = value
    return pa.DictionaryArray.from_arrays(_numbers(np.asarray(indices, np.int32)), pa.array(distinct, pa.string()))
