"""This module finds pages of a crawl that nearly repeat another one, by their text."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from gossamer.archive.contents import Contents
from gossamer.archive.export_text import WITH_TEXT, Form, texts
from gossamer.archive.query import open_reading, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.arrays import U32
from gossamer.web.similar import HASHES, NEAR, Words, groups, minhash

MAIN = Form("main_text")
_LEAST_WORDS = 20  # of a text that can repeat another: "Not found" is no duplicate
_GROWTH = 1 << 14  # signatures by which the table grows
# The oldest page of a group is the one that the others repeat.
_SQL = f"""SELECT url, last_visit AS time, warc, warc_offset FROM pages
    WHERE {WITH_TEXT} ORDER BY version_time, url"""


class Repeat(NamedTuple):
    """`Repeat` is a page that nearly repeats another one."""

    url: str
    of: str
    similarity: float  # share of runs of three words that both have, estimated


def near_duplicates(where: Where, form: Form = MAIN, near: float = NEAR) -> list[Repeat]:
    """Returns the pages that nearly repeat an older one. The signature of a page takes 512 bytes of memory."""
    return reading(where, lambda at: repeats(at, form, near))


def repeats(at: Reading, form: Form = MAIN, near: float = NEAR) -> list[Repeat]:
    urls, signatures = list[str](), _Signatures()
    words = Words()
    for row in _rows(at, form):
        runs = words.runs(row["text"])
        if len(runs) >= _LEAST_WORDS:
            urls.append(row["url"])
            signatures.add(minhash(runs))
    rows = signatures.rows
    found = groups(rows, near)
    return [
        Repeat(urls[i], urls[first], float((rows[i] == rows[first]).mean()))
        for i, first in enumerate(found)
        if i != first
    ]


def _rows(at: Reading, form: Form) -> Iterator[dict[str, Any]]:
    with closing(open_reading(at)) as database, closing(Contents(at)) as contents, streamed(database, _SQL) as rows:
        yield from texts(rows, contents, form, set(), is_described=False)


class _Signatures:
    def __init__(self) -> None:
        self._rows: U32 = np.zeros((0, HASHES), np.uint32)
        self._count = 0

    def add(self, signature: U32) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros((_GROWTH + self._count, HASHES), np.uint32)))
        self._rows[self._count] = signature
        self._count += 1

    @property
    def rows(self) -> U32:
        return self._rows[: self._count]
