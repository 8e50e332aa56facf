"""Which of DuckDB's types leave it as text, in DuckDB's own words: those that Arrow, Python or Parquet cannot hold."""

from typing import Any

import duckdb

# Arrow's interval has no name for its three numbers and no Parquet; its time forgets the zone; its decimal is too short
# for 128 bits without a sign; the others it has only as bytes that nobody can read, or not at all in Parquet.
_FOREIGN = frozenset(["interval", "time with time zone", "uhugeint", "bit", "bignum", "union"])
_FINE = frozenset(["timestamp_ns", "time_ns"])  # Python's times end at microseconds


def as_text(rows: duckdb.DuckDBPyRelation, to_file: bool) -> duckdb.DuckDBPyRelation:
    """The same rows for a reader. A Parquet file (`to_file`) keeps nanoseconds, and maps with the keys that they
    have; in all other formats a key is text."""
    foreign = _FOREIGN if to_file else _FOREIGN | _FINE
    types = [_type(kind, foreign, to_file) for kind in rows.types]
    if all(new == str(old) for new, old in zip(types, rows.types, strict=True)):
        return rows
    columns = enumerate(zip(rows.columns, types, strict=True), 1)
    return rows.project(", ".join(f"CAST(#{place} AS {kind}) AS {_name(name)}" for place, (name, kind) in columns))


def _type(kind: Any, foreign: frozenset[str], to_file: bool) -> str:
    """A type as SQL, with text in place of what is foreign, however deep inside."""
    if kind.id in foreign:
        return "VARCHAR"
    if kind.id not in ("list", "array", "struct", "map"):
        return str(kind)
    parts = {name: part if name == "size" else _type(part, foreign, to_file) for name, part in kind.children}
    if kind.id == "list":
        return f"{parts['child']}[]"
    if kind.id == "array":
        return f"{parts['child']}[{parts['size']}]"
    if kind.id == "map":
        is_kept = to_file and parts["key"] != '"NULL"'
        return f"MAP({parts['key'] if is_kept else 'VARCHAR'}, {parts['value']})"
    return f"STRUCT({', '.join(f'{_name(name)} {part}' for name, part in parts.items())})"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
