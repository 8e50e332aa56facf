"""This module finds pages of a crawl that nearly repeat another one, by their text."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from gossamer.archive.contents import Contents
from gossamer.archive.export_text import WITH_TEXT, Form, texts
from gossamer.archive.query import open_reading, streamed
from gossamer.archive.reading import Reading, Where, reading
from gossamer.arrays import U32, U64
from gossamer.web.similar import HASHES, LEAST_RUNS, NEAR, Words, groups, groups_of, minhash, simhash

MAIN = Form("main_text")
# The oldest page of a group is the one that the others repeat.
_SQL = f"""SELECT url, last_visit AS time, warc, warc_offset FROM pages
    WHERE {WITH_TEXT} ORDER BY version_time, url"""
# Of the others, the text is read.
_NOTED_SQL = f"SELECT url, version_time, simhash FROM pages WHERE {WITH_TEXT} AND simhash <> 0"
_OTHERS_SQL = f"""SELECT url, version_time, last_visit AS time, warc, warc_offset FROM pages
    WHERE {WITH_TEXT} AND simhash IS NULL"""


class Repeat(NamedTuple):
    """`Repeat` is a page that nearly repeats another one."""

    url: str
    of: str
    similarity: float  # share of runs of three words that both have, estimated


def near_duplicates(where: Where, form: Form = MAIN, near: float = NEAR, is_quick: bool = False) -> list[Repeat]:
    """Returns the pages that nearly repeat an older one. The signature of a page takes 512 bytes of memory. Quick is
    to compare the simhashes of main texts, those that the crawl has noted without reading a page."""
    return reading(where, lambda at: quick_repeats(at) if is_quick else repeats(at, form, near))


def repeats(at: Reading, form: Form = MAIN, near: float = NEAR) -> list[Repeat]:
    urls, signatures, words = list[str](), bytearray(), Words()
    for row in _rows(at, _SQL, form):
        runs = words.runs(row["text"])
        if len(runs) >= LEAST_RUNS:
            urls.append(row["url"])
            signatures += minhash(runs).tobytes()
    rows: U32 = np.frombuffer(signatures, np.uint32).reshape(-1, HASHES)
    found = groups(rows, near)
    return [
        Repeat(urls[i], urls[first], float((rows[i] == rows[first]).mean()))
        for i, first in enumerate(found)
        if i != first
    ]


def quick_repeats(at: Reading) -> list[Repeat]:
    """Returns the pages of which the simhash hardly differs from that of an older one."""
    with closing(open_reading(at)) as database:
        noted = [(time, url, value) for url, time, value in database.execute(_NOTED_SQL).fetchall()]
    words = Words()
    for row in _rows(at, _OTHERS_SQL, MAIN):
        runs = words.runs(row["text"])
        if len(runs) >= LEAST_RUNS:
            noted.append((row["version_time"], row["url"], simhash(runs)))
    noted.sort()
    values: U64 = np.array([value for _, _, value in noted], np.uint64)
    found = np.array(groups_of(values), np.int64)
    # Of hashes that are the same, the same share of bits are, and of the others half.
    alike = 1 - 2 / 64 * np.bitwise_count(values ^ values[found])
    return [
        Repeat(url, noted[first][1], similarity)
        for (_, url, _), first, similarity in zip(noted, found.tolist(), alike.tolist(), strict=True)
        if url != noted[first][1]
    ]


def _rows(at: Reading, sql: str, form: Form) -> Iterator[dict[str, Any]]:
    with closing(open_reading(at)) as database, closing(Contents(at)) as contents, streamed(database, sql) as rows:
        yield from texts(rows, contents, form, set(), is_described=False)
