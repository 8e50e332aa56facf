"""This module mends single files of an archive: it makes them again from others, or keeps what is intact of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.archive import cdxj
from gossamer.archive.copies import has
from gossamer.archive.merge import merged_name, named_label, overlaps
from gossamer.archive.store import Store
from gossamer.archive.tables import parquet_options
from gossamer.archive.views import KINDS
from gossamer.errors import disk_full_guard
from gossamer.repair import damaged_warc
from gossamer.repair.aside import Aside
from gossamer.repair.damaged_table import Loss, intact_rows


class Mended(NamedTuple):
    """`Mended` names a file that was damaged, the one that stands for it now ("": none), and the loss in words."""

    old: str
    new: str
    words: str


def mend_warc(store: Store, aside: Aside, name: str, lines: Iterable[Path]) -> Mended:
    """Replaces damaged records by notes. The file keeps its name: tables and indices point to it."""
    if not has(store, name):
        return Mended(name, "", "is lost: its pages will be fetched again only when they are due")
    path = store.scratch(name)
    count = damaged_warc.mend(store.local(name), path, cdxj.offsets(lines, name))
    aside.keep(name)
    store.put(name, path)
    return Mended(name, name, f"{count:,} records were damaged, a note stands for each" if count else "can be read")


def mend_cdxj(store: Store, name: str, warcs: Iterable[str], number: int) -> Mended:
    """Makes an index again from the records themselves."""
    new = _renamed(name, number)
    lines = sorted(line for warc in warcs for line in damaged_warc.captures(store.local(warc), warc))
    if not lines:
        return Mended(name, "", "there are no records to index")
    store.put(new, "".join(lines).encode("ascii"))
    return Mended(name, new, f"made again: {len(lines):,} lines")


def mend_table(store: Store, name: str, number: int) -> Mended:
    """Keeps the rows that are intact, and of the others the columns that are."""
    new, loss = _renamed(name, number), Loss()
    path = store.scratch(new)
    writer: pq.ParquetWriter | None = None
    try:
        with disk_full_guard(path):
            for rows in intact_rows(store.local(name), named_label(name).kind, loss):
                writer = writer or pq.ParquetWriter(path, rows.schema, **parquet_options(rows.schema))
                writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        path.unlink(missing_ok=True)
        return Mended(name, "", loss.words)
    store.put(new, path)
    return Mended(name, new, loss.words)


def add_rows(store: Store, mended: Mended, rows: pa.Table, number: int) -> Mended:
    """Adds rows that were found elsewhere to the file that stands for a damaged one."""
    new = _renamed(mended.old, number)
    kept = [pq.read_table(store.local(mended.new))] if mended.new else []
    path = store.scratch(new)
    with disk_full_guard(path):
        together = pa.concat_tables([*kept, rows], promote_options="permissive")
        pq.write_table(together, path, **parquet_options(together.schema))
    store.put(new, path)
    return Mended(mended.old, new, f"{mended.words}; {rows.num_rows:,} found again in other tables")


def is_mendable(kind: str) -> bool:
    return kind in ("warc", "cdxj", *KINDS)


def covered(name: str, warcs: Iterable[str]) -> list[str]:
    """Returns the WARC files that have rounds of an index."""
    return [warc for warc in warcs if overlaps(warc, [name])]


def _renamed(name: str, number: int) -> str:
    label = named_label(name)
    return merged_name(label.kind, label.agent, label.first, label.last, number)
