"""PageRank compiled: the same as production's to the last bit, or equally good pages would change places."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.frontier.pagerank import authorities, counted, pagerank
from gossamer.sim import ranking

Links = tuple[npt.NDArray[np.integer], npt.NDArray[np.integer], int]


@st.composite
def links(draw: st.DrawFn) -> Links:
    pages = draw(st.integers(1, 60))
    pairs = draw(st.lists(st.tuples(st.integers(0, pages - 1), st.integers(0, pages - 1)), max_size=300))
    kind = draw(st.sampled_from([np.int32, np.int64]))
    return np.array([a for a, _ in pairs], kind), np.array([b for _, b in pairs], kind), pages


@given(links())
def test_compiled_is_identical(graph: Links) -> None:
    source, target, pages = graph
    value = np.random.default_rng(0).random(pages)
    assert np.array_equal(ranking.flow(source, target, value, pages), counted(source, target, value, pages))
    assert np.array_equal(ranking.pagerank(*graph), pagerank(*graph))
    assert np.array_equal(authorities(*graph, flow_of=ranking.flow), authorities(*graph))


@given(links())
def test_whole_numbers_of_any_size_give_the_same(graph: Links) -> None:
    source, target, pages = graph
    other = pagerank(source.astype(np.int16), target.astype(np.uint32), pages)
    assert np.array_equal(other, pagerank(*graph))
    assert other.sum() == pytest.approx(1)


def test_links_of_visited_pages_in_the_order_of_visits() -> None:
    indptr, indices = np.array([0, 2, 2, 3]), np.array([1, 2, 0], np.int32)
    number = np.array([0, 2, 1])  # in order of discovery
    source, target = ranking.known_links(indptr, indices, np.array([2, 0], np.int32), number)
    assert source.tolist() == [1, 0, 0]
    assert target.tolist() == [0, 2, 1]


def test_no_links_at_all() -> None:
    nothing = np.zeros(0, np.int32)
    assert ranking.pagerank(nothing, nothing, 4).tolist() == [0.25] * 4
    assert len(ranking.pagerank(nothing, nothing, 0)) == 0
