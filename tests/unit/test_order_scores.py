"""Scores: what rounds teach, and that a restart recalls it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.columns import PAGE
from gossamer.frontier.pagerank import authorities, pagerank
from gossamer.frontier.scores import HistoricalScores, Lesson, LinkScores, Numbers, scored
from gossamer.frontier.strategies import ORDERS, Score

KINDS = [Score("pagerank"), Score("pagerank", "sum"), Score("authority")]
HISTORIES = [Score("history"), Score("history", "random"), Score("history", "parent")]
ALL = np.arange(1, 60, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # in no order


def lesson(new=(), visited=(), links=(), referrers=None):
    """links: (place in visited, page, followed)"""
    source, target, followed = zip(*links, strict=True) if links else ((), (), ())
    keys = [np.uint64(0) if page is None else ALL[page] for page in referrers or [None] * len(new)]
    return Lesson(
        ALL[list(new)], np.array(keys, np.uint64), ALL[list(visited)], np.array(source, np.int32),
        ALL[list(target)], np.array(followed, bool),
    )  # fmt: skip


@st.composite
def crawls(draw):
    """Rounds of a crawl: pages become known by the first followed link to them, and are visited once known."""
    known = draw(st.lists(st.integers(0, 40), unique=True, min_size=1, max_size=4))
    lessons, waiting = [lesson(new=known)], list(known)
    for _ in range(draw(st.integers(0, 7))):
        visited = draw(st.lists(st.sampled_from(waiting), unique=True, max_size=4)) if waiting else []
        links, new, referrers = [], [], []
        for place, page in enumerate(visited):
            for target in draw(st.lists(st.integers(0, 40), unique=True, max_size=5)):
                followed = draw(st.sampled_from([True, True, False]))
                links.append((place, target, followed))
                if followed and target not in known and target not in new:
                    new.append(target)
                    referrers.append(page)
        known += new
        waiting = [page for page in waiting if page not in visited] + new
        lessons.append(lesson(new, visited, links, referrers))
    return lessons


@given(crawls(), st.sampled_from(KINDS), st.integers(1, 9))
def test_recalling_is_learning(lessons, score, every):
    learnt, recalled = LinkScores(score, every), LinkScores(score, every)
    for one in lessons:
        learnt.learn(one)
    recalled.recall(lessons)
    assert learnt.of(ALL).tolist() == recalled.of(ALL).tolist()
    # And both go on in the same way.
    more = lesson(visited=[ALL.tolist().index(lessons[0].new[0])], links=[(0, 50, False)])
    for _ in range(every + 1):
        changed = [known.learn(more) for known in (learnt, recalled)]
        assert (changed[0] is None) == (changed[1] is None)
        assert learnt.of(ALL).tolist() == recalled.of(ALL).tolist()


@given(crawls(), st.sampled_from(HISTORIES), st.lists(st.integers(0, 40), unique=True, max_size=12))
def test_recalling_history_is_learning_it(lessons, score, old):
    ranks = np.linspace(0.1, 0.9, len(old))
    learnt, recalled = (HistoricalScores(score, ALL[old], ranks, random_seed=3) for _ in range(2))
    for one in lessons:
        learnt.learn(one)
    recalled.recall(lessons)
    assert learnt.of(ALL).tolist() == recalled.of(ALL).tolist()
    assert learnt.of(ALL[old]).tolist() == ranks.tolist()


@given(crawls(), st.sampled_from(KINDS + HISTORIES), st.integers(1, 9))
def test_learning_says_whose_scores_changed(lessons, score, every):
    scores = (
        LinkScores(score, every)
        if score.is_batch
        else HistoricalScores(score, ALL[:5], np.linspace(0.1, 0.5, 5), random_seed=3)
    )
    for one in lessons:
        before = scores.of(ALL)
        changed = scores.learn(one)
        different = ALL[scores.of(ALL) != before]
        if changed is not None:
            assert set(different.tolist()) <= set(changed.tolist())
            assert changed.tolist() == sorted(set(changed.tolist()))


def test_pagerank_of_what_is_known():
    known = LinkScores(Score("pagerank"), 2)
    known.learn(lesson(new=[0]))
    assert known.learn(lesson([1, 2], [0], [(0, 1, True), (0, 2, True), (0, 3, False)])).tolist() == []
    assert not known.of(ALL).any()  # one visit: not yet
    assert known.learn(lesson([], [1], [(0, 2, True)])) is None
    expected = pagerank(np.array([0, 0, 1]), np.array([1, 2, 2]), 3, 1e-4)
    assert known.of(ALL[[0, 1, 2, 3]]).tolist() == [*expected.tolist(), 0.0]


def test_between_computations_new_pages_get_shares():
    known = LinkScores(Score("pagerank", "sum"), 1)
    known.learn(lesson(new=[0, 1]))
    known.learn(lesson([], [0], [(0, 1, True)]))
    known._every = 100
    one, two = known.of(ALL[[0, 1]]).tolist()
    changed = known.learn(
        lesson([5, 6], [0, 1], [(0, 5, True), (0, 6, True), (0, 7, False), (1, 5, True), (1, 0, True)])
    )
    assert changed.tolist() == sorted(ALL[[5, 6]].tolist())
    assert known.of(ALL[[5, 6, 7]]).tolist() == [one / 3 + two / 2, one / 3, 0.0]
    assert known.of(ALL[[0, 1]]).tolist() == [one, two]  # computed ones stay until the next computation


def test_new_pages_inherit_from_their_first_referrer():
    scores = HistoricalScores(Score("history", "parent"), ALL[[0, 1]], np.array([0.6, 0.4]), random_seed=0)
    links = [(0, 2, True), (0, 1, True), (0, 3, False), (1, 2, True)]
    changed = scores.learn(lesson([2], [0, 1], links, [0]))
    assert changed.tolist() == [ALL[2]]
    assert scores.of(ALL[[0, 1, 2, 3]]) == pytest.approx([0.6, 0.4, 0.2, 0.0])
    scores.learn(lesson([4], [2], [(0, 4, True), (0, 0, True)], [2]))  # and so do theirs
    assert scores.of(ALL[[4]]) == pytest.approx([0.1])


def test_new_pages_draw_an_old_value():
    ranks = np.array([0.1, 0.2, 0.7])
    first, second = (HistoricalScores(Score("history", "random"), ALL[:3], ranks, seed).of(ALL) for seed in (1, 2))
    assert first[:3].tolist() == second[:3].tolist() == ranks.tolist()
    assert set(first.tolist()) == set(ranks.tolist())
    assert first.tolist() != second.tolist()
    assert not HistoricalScores(Score("history", "random"), ALL[:0], ranks[:0], 1).of(ALL).any()


def test_a_graph_without_links():
    """A crawl whose first pages lead nowhere came to its end here."""
    nothing = np.zeros(0, np.int32)
    assert pagerank(nothing, nothing, 4).tolist() == [0.25] * 4
    assert authorities(nothing, nothing, 4).tolist() == [0.0] * 4


def test_numbers_are_those_of_discovery():
    numbers = Numbers()
    numbers.add(ALL[[3, 1]])
    numbers.add(ALL[[2]])
    assert numbers.of(ALL[[1, 2, 3, 4]]).tolist() == [1, 2, 0, -1]
    assert len(numbers) == 3


def test_a_strategy_finds_scores_for_rows_without_them():
    order = scored(ORDERS["historical-pagerank-zero"], HistoricalScores(Score("history"), ALL[[1]], np.array([0.5]), 0))
    rows = np.zeros(2, PAGE.numpy)
    rows["key"] = ALL[[0, 1]]
    assert order.page_rank(rows, 0).tolist() == [0.0, 0.5]


@pytest.mark.parametrize("score", [Score("pagerank"), Score("authority")])
def test_links_of_an_outdated_version_no_longer_count(score):
    again, once = LinkScores(score, 1), LinkScores(score, 1)
    again.learn(lesson(new=[0, 1, 2], visited=[0, 1], links=[(0, 1, True), (1, 0, True)]))
    again.learn(lesson(visited=[1]))  # found as it was
    again.learn(lesson(visited=[0], links=[(0, 2, True)]))
    once.learn(lesson(new=[0, 1, 2], visited=[0, 1], links=[(0, 2, True), (1, 0, True)]))
    assert again.of(ALL).tolist() == once.of(ALL).tolist()
