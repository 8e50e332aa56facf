"""Validators and links of a version, as they are kept until the next: what goes in comes out, and is compared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.columns import NO_TEXT, VISITED
from gossamer.crawl.visit_history import EarlierLinks, compared_links, earlier_links, packed_versions, validators_of
from gossamer.frontier.text_heap import TextHeap

HOSTS = [0, 1, 2**24 - 1]
KEY = st.builds(lambda host, page: host << 40 | page, st.sampled_from(HOSTS), st.integers(0, 2**40 - 1))
PAGES = st.lists(
    st.tuples(KEY, st.lists(KEY, unique=True, max_size=6), st.integers(0, 4), st.sampled_from(["", '"e"'])),
    unique_by=lambda page: page[0],
    max_size=6,
)


def u8(values: list[int]) -> "np.typing.NDArray[np.uint64]":
    return np.array(values, np.uint64)


def packed(pages: list[tuple[int, list[int], int, str]]) -> list[bytes]:
    source = np.repeat(np.arange(len(pages)), [len(page[1]) for page in pages])
    target = u8([key for page in pages for key in page[1]])
    degree = np.array([len(page[1]) + page[2] for page in pages], np.int64)
    return packed_versions(
        u8([page[0] for page in pages]), [(page[3], "now") for page in pages], source, target, degree
    )


def remembered(pages: list[tuple[int, list[int], int, str]], texts: list[bytes]) -> EarlierLinks:
    heap, rows = TextHeap(), np.zeros(len(pages), VISITED.numpy)
    rows["key"] = u8([page[0] for page in pages])
    rows["validators"] = heap.append(texts)
    return earlier_links(heap, rows)


@given(PAGES)
def test_what_is_packed_comes_out(pages: list[tuple[int, list[int], int, str]]) -> None:
    texts = packed(pages)
    assert [validators_of(text) for text in texts] == [(page[3], "now") for page in pages]
    found = remembered(pages, texts)
    for place, (_, targets, more, _) in enumerate(pages):
        assert sorted(found.target[found.source == place].tolist()) == sorted(targets)
        assert found.degree[place] == len(targets) + more
        assert not found.is_cut[place]


@given(PAGES, st.data())
def test_versions_are_compared_link_by_link(pages: list[tuple[int, list[int], int, str]], data: st.DataObject) -> None:
    before = remembered(pages, packed(pages))
    now = [data.draw(st.lists(st.one_of(KEY, *map(st.just, page[1])), unique=True, max_size=6)) for page in pages]
    source = np.repeat(np.arange(len(pages)), [len(targets) for targets in now])
    target = u8([key for targets in now for key in targets])
    is_new, is_gone = compared_links(before, source, target)
    for place, page in enumerate(pages):
        assert set(target[is_new & (source == place)].tolist()) == set(now[place]) - set(page[1])
        assert set(before.target[is_gone & (before.source == place)].tolist()) == set(page[1]) - set(now[place])


def test_more_links_than_fit_are_not_counted_twice() -> None:
    targets = [5 << 40 | page for page in range(20_000)]
    page = (5 << 40, targets, 0, "")
    (text,) = packed([page])
    before = remembered([page], [text])
    assert before.is_cut[0]
    assert 11_500 < len(before.target) < 20_000
    is_new, is_gone = compared_links(before, np.zeros(20_000, np.int64), u8(targets))
    assert not is_new.any()
    assert not is_gone.any()


@pytest.mark.parametrize(
    ("etag", "modified", "kept"),
    [('"e"', "today", ('"e"', "today")), ('"\xe9"', "", ('"\xe9"', "")), ("x" * 5_000, "t", ("", "t")),
     ("\u0142", "", ("?", ""))],
)  # fmt: skip
def test_validators_as_the_heap_keeps_them(etag: str, modified: str, kept: tuple[str, str]) -> None:
    none = np.zeros(0, np.int64)
    (text,) = packed_versions(u8([1]), [(etag, modified)], none, u8([]), np.zeros(1, np.int64))
    assert validators_of(text) == kept


def test_a_page_without_a_text_had_no_links() -> None:
    rows = np.zeros(2, VISITED.numpy)
    rows["validators"] = NO_TEXT
    found = earlier_links(TextHeap(), rows)
    assert (len(found.target), found.degree.tolist()) == (0, [0, 0])
