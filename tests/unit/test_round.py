import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from answers import HTML, NOW_S, answer, page, reader
from hypothesis import given
from hypothesis import strategies as st

from gossamer.archive.digests import DigestCache, letters, octets
from gossamer.archive.store import Memory
from gossamer.archive.warc import (
    IDENTICAL,
    NOT_MODIFIED,
    Stored,
    WarcWriter,
    payload_digest,
    stored_as,
)
from gossamer.archive.warc_reader import Record, read_record
from gossamer.columns import ACCOUNT, VISITS, Outcome
from gossamer.config import Config
from gossamer.crawl.reader import BEST, FOLLOWED, VERDICTS
from gossamer.crawl.round import Round, keep_best
from gossamer.fetch.client import Request, Response
from gossamer.fetch.politeness import Deferred
from gossamer.web.url import page_key

NAMES = [name for name in VISITS.names if name not in ACCOUNT]

Gather = Callable[..., "Gathered"]
BIG = page("/x") + b"b" * 2_000  # small content is stored each time


class Index:
    """What the index would say of pages of earlier rounds."""

    def __init__(self, *urls: str) -> None:
        self._urls = {page_key(url): url for url in urls}
        self._noted: dict[int, str] = {}

    def note(self, key: int, url: str) -> None:
        self._noted[key] = url

    def url(self, key: int) -> str:
        return self._noted.get(key) or self._urls.get(key, "")


class Gathered:
    """A round with its store."""

    def __init__(self, *known: str, digests: DigestCache | None = None, number: int = 1, stored: bool = True) -> None:
        self.store = Memory()
        writer = WarcWriter(self.store, number, Config()) if stored else None
        self.digests = digests or DigestCache(1_000)
        self.round = Round(number, writer, self.digests, Index(*known))

    def add(self, response: Response) -> bool:
        """Whether it became a revisit record."""
        self.round.add(reader().read(response))
        return bool(self.row()["is_revisit"])

    def close(self) -> None:
        if self.round.warc is not None:
            self.round.warc.close()
            self.round.warc = None

    def row(self, at: int = -1) -> dict[str, object]:
        return dict(zip(NAMES, self.round.rows[at], strict=True))

    def records(self) -> list[Record]:
        """Of the visits, in order."""
        self.close()
        rows = [self.row(i) for i in range(len(self.round.rows))]
        return [read_record(Path(self.store.local(str(row["warc"]))), int(str(row["warc_offset"]))) for row in rows]


@pytest.fixture
def gather() -> Iterator[Gather]:
    made: list[Gathered] = []

    def start(*known: str, **options: Any) -> Gathered:
        made.append(Gathered(*known, **options))
        return made[-1]

    yield start
    for gathered in made:
        gathered.close()


def test_content_is_stored_once_within_a_round(gather: Gather) -> None:
    gathered = gather()
    assert not gathered.add(answer(BIG, HTML, url="http://a.test/1"))
    assert gathered.add(answer(BIG, HTML, url="http://b.test/2", started_s=NOW_S + 5))
    assert not gathered.add(answer(BIG + b"!", HTML, url="http://a.test/3"))
    first, again, other = gathered.records()
    assert (first.body, again.body, other.body) == (BIG, b"", BIG + b"!")
    assert again.headers["WARC-Type"] == "revisit"
    assert again.headers["WARC-Profile"] == IDENTICAL
    assert again.headers["WARC-Refers-To-Target-URI"] == "http://a.test/1"
    assert again.headers["WARC-Refers-To-Date"] == first.headers["WARC-Date"]
    assert again.headers["WARC-Payload-Digest"] == first.headers["WARC-Payload-Digest"]


def test_content_of_an_earlier_round_is_referred_to_while_its_page_is_known(gather: Gather) -> None:
    digests = DigestCache(1_000)
    gather(digests=digests).add(answer(BIG, HTML, url="http://a.test/1"))
    assert gather("http://a.test/1", digests=digests, number=2).add(answer(BIG, HTML, url="http://b.test/"))
    assert not gather(digests=digests, number=2).add(answer(BIG, HTML, url="http://b.test/"))


def test_the_newest_content_wins_a_place_among_those_remembered_and_takes_no_more_memory() -> None:
    digests = DigestCache(10)
    for digest in range(1, 1_001):
        digests.put(digest, digest + 1, digest + 2, "A" * 32)
    assert [digests.get(digest) for digest in (0, 1, 990)] == [None] * 3
    assert [digests.get(digest) for digest in range(991, 1_001)] == [
        (digest + 1, digest + 2, "A" * 32) for digest in range(991, 1_001)
    ]
    assert len(digests._rows) == 44 * 11


def test_a_page_never_refers_to_itself_for_content_that_came_back(gather: Gather) -> None:
    gathered = gather("http://a.test/")
    assert not gathered.add(answer(BIG, HTML, url="http://a.test/"))
    assert not gathered.add(answer(BIG, HTML, url="http://a.test/"))


def test_what_is_not_worth_or_not_fit_for_a_reference(gather: Gather) -> None:
    gathered = gather()
    for url in ("http://a.test/1", "http://a.test/2"):
        assert not gathered.add(answer(b"<html>small</html>", HTML, url=url))
        assert not gathered.add(answer(BIG, HTML, url=url, truncated="time")), "who knows what is missing"
        assert not gathered.add(answer(BIG, HTML, url=url, status=404, outcome=Outcome.GONE))


def test_the_coding_counts_for_references_but_chunks_do_not(gather: Gather) -> None:
    gathered = gather()
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BIG), BIG)
    assert not gathered.add(answer(BIG, HTML, url="http://a.test/1"))
    assert gathered.add(answer(chunked, HTML, "Transfer-Encoding: chunked", url="http://a.test/2"))
    assert gathered.row()["digest"] == payload_digest(b"HTTP/1.1 200 x\r\n\r\n", BIG)


def test_unchanged_pages(gather: Gather) -> None:
    gathered = gather("http://a.test/")
    digest = reader().read(answer(BIG, HTML)).digest
    payload = payload_digest(b"", BIG)
    before = stored_as("http://a.test/", NOW_S - 1_000, payload, payload).packed("http://a.test/")
    known = {"url": "http://a.test/", "stored": before}
    assert gathered.add(answer(BIG, HTML, digest=digest, **known)), "we saw it"
    response = answer(b"", status=304, outcome=Outcome.UNCHANGED, etag='"e"', **known)
    assert gathered.add(response), "the server said so"
    assert [gathered.row(i)["digest"] for i in (0, 1)] == [payload, payload]
    seen, told = gathered.records()
    assert (seen.headers["WARC-Profile"], told.headers["WARC-Profile"]) == (IDENTICAL, NOT_MODIFIED)
    for record in (seen, told):
        assert record.headers["WARC-Refers-To-Target-URI"] == "http://a.test/"
        assert record.headers["WARC-Refers-To-Date"].startswith("2023-11-14T21:56:40")
    assert [gathered.row(i)["outcome"] for i in (0, 1)] == ["unchanged", "unchanged"]


def test_unchanged_pages_whose_record_is_not_known_or_has_other_bytes_are_stored_again(gather: Gather) -> None:
    digest = reader().read(answer(BIG, HTML)).digest
    packed = stored_as("http://a.test/", NOW_S - 1_000, "A" * 32, "A" * 32).packed("http://a.test/")
    for before in (b"", packed):
        gathered = gather("http://a.test/")
        assert not gathered.add(answer(BIG, HTML, url="http://a.test/", digest=digest, stored=before))
        assert gathered.row()["outcome"] == "unchanged"
        (record,) = gathered.records()
        assert record.body == BIG


@pytest.mark.parametrize("to", ["http://a.test/", "http://b.test/elsewhere"])
@pytest.mark.parametrize("chunked", ["A", "B"])
def test_the_record_with_the_content_as_the_index_keeps_it(to: str, chunked: str) -> None:
    stored = Stored(to, 1_700_000_000_123, "A" * 32, chunked * 32)
    assert Stored.unpacked(stored.packed("http://a.test/"), "http://a.test/") == stored
    assert Stored.unpacked(b"", to) is None


def test_without_answer_or_without_archive_nothing_is_stored(gather: Gather) -> None:
    gathered = gather()
    failed = Response(Request(1, "http://a.test/", "a.test"), Outcome.TIMEOUT, "slow", started_s=NOW_S)
    assert not gathered.add(failed)
    assert (gathered.row()["warc"], gathered.row()["reason"]) == ("", "slow")
    bare = gather(stored=False)
    assert not bare.add(answer(BIG, HTML))
    assert (bare.row()["warc"], bare.row()["wire_bytes"]) == ("", len(BIG))


def test_rows_links_and_counts(gather: Gather) -> None:
    gathered = gather()
    round_ = gathered.round
    assert round_.empty
    gathered.add(answer(page("/x", "/y"), HTML, url="http://a.test/1", depth=2))
    gathered.add(answer(b"Sitemap: http://a.test/s.xml", url="http://a.test/robots.txt", is_robots=True))
    gathered.add(answer(status=301, outcome=Outcome.MOVED, location="http://a.test/x", url="http://a.test/2"))
    gathered.add(answer(status=404, outcome=Outcome.GONE, url="http://a.test/3"))
    assert not round_.empty
    assert (round_.pages, len(round_.rows)) == (3, 4)
    assert round_.outcomes == {"ok": 1, "moved": 1, "gone": 1}
    assert list(round_.sitemaps) == ["http://a.test/s.xml"]
    source, targets, verdicts = round_.links()
    assert source.tolist() == [0, 0, 1]
    assert [round_.urls[key] for key in targets.tolist()] == ["http://a.test/x", "http://a.test/y", "http://a.test/x"]
    assert verdicts.tolist() == [FOLLOWED] * 3
    columns = round_.columns()
    assert list(columns) == NAMES
    assert columns["links"] == [2, 0, 1, 0]
    assert columns["depth"] == [2, 0, 0, 0]
    assert columns["is_robots"] == [False, True, False, False]
    assert columns["status"] == ["fetched", "", "moved", "gone"]
    assert all(visit.response.body == b"" for visit in round_.visits), "bodies are not kept"
    assert round_.wire_bytes > 0


def test_an_empty_round(gather: Gather) -> None:
    round_ = gather().round
    source, targets, verdicts = round_.links()
    assert (len(source), len(targets), len(verdicts)) == (0, 0, 0)
    assert round_.columns() == {name: [] for name in NAMES}
    round_.deferrals.append(Deferred(Request(1, "http://a.test/", "a.test"), NOW_S))
    assert not round_.empty


# The best links


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3), st.sampled_from([FOLLOWED, 1, 2]))), st.integers(1, 4))
def test_only_the_best_followed_links_of_each_page_remain(links: list[tuple[int, int, int]], most: int) -> None:
    links.sort(key=lambda link: link[0])  # a page's links are next to each other
    source = np.array([link[0] for link in links], np.int32)
    merit = np.array([link[1] for link in links], np.float64)
    before = np.array([link[2] for link in links], np.uint8)
    after = before.copy()
    keep_best(source, merit, after, most)
    for one in set(source.tolist()):
        here = [i for i in range(len(links)) if source[i] == one and before[i] == FOLLOWED]
        best = sorted(here, key=lambda i: (-merit[i], i))[:most]
        assert [i for i in here if after[i] == FOLLOWED] == sorted(best)
        assert all(after[i] == BEST for i in here if i not in best)
    others = before != FOLLOWED
    assert after[others].tolist() == before[others].tolist(), "what was refused keeps its reason"


def test_the_verdict_has_a_word() -> None:
    assert (VERDICTS[FOLLOWED], VERDICTS[BEST]) == ("followed", "best")


@pytest.mark.parametrize("entries", [1, 7, 1_000])
def test_of_digests_with_one_slot_the_newest_is_found(entries: int) -> None:
    cache, expected = DigestCache(entries), dict[int, tuple[int, int, int, str]]()
    draw = Random(entries)
    for number in range(500):
        digest, stored = draw.getrandbits(64), letters(draw.randbytes(20))
        cache.put(digest, number, 10 * number, stored)
        expected[digest % entries] = digest, number, 10 * number, stored
    for known, *found in expected.values():
        assert cache.get(known) == tuple(found)
        assert cache.get(known + entries) is None, "which has the same slot"
    assert DigestCache(entries).get(0) is None


def test_without_entries_no_digest_is_known() -> None:
    cache = DigestCache(0)
    cache.put(1, 2, 3, letters(bytes(20)))
    assert cache.get(1) is None


def test_digests_are_written_as_base64_does() -> None:
    for digest in (bytes(20), b"\xff" * 20, bytes(range(20)), bytes(range(236, 256))):
        assert letters(digest) == base64.b32encode(digest).decode()
        assert octets(letters(digest)) == digest
