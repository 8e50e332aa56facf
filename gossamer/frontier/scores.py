"""This module has scores beyond a page's row: PageRank of the links seen so far, or of an earlier crawl.

Every page gets a number in order of discovery, and links are kept as pairs of numbers: 24 bytes a page and 8 a link in
memory, which is what these strategies cost. Nothing of it is stored: the archive has the links, and a restart reads
them again.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from gossamer.arrays import F64, I32, Bools, Integers, Keys, Rows
from gossamer.columns import PAGE
from gossamer.frontier.pagerank import Flow, authorities, counted, pagerank
from gossamer.frontier.sorted_runs import search
from gossamer.frontier.strategies import Score, Strategy, by_chance

TOLERANCE = 1e-4  # of PageRank that only orders a frontier
_NEVER = 1 << 62
SCORED = np.dtype([*PAGE.numpy.descr, ("score", "f8")])


class Lesson(NamedTuple):
    """A lesson is what one round teaches: new pages, visited pages, and their links."""

    new: Keys  # pages that became known, in order of discovery
    referrer: Keys  # of each, the page whose link was seen first; 0 for seeds
    visited: Keys
    source: I32  # of each link, a place in `visited`
    target: Keys
    followed: Bools  # the others count in the out-degree only


class Scores(Protocol):
    """This port gives a strategy its `score` column. All lessons recalled at once give the same as one by one."""

    def of(self, keys: Keys) -> F64:
        """Returns the score of each page."""

    def learn(self, lesson: Lesson) -> Keys | None:
        """Returns the pages whose scores changed, sorted; None: all of them."""

    def recall(self, lessons: list[Lesson]) -> None:
        """Takes the lessons of earlier rounds, after a restart."""


def scored(strategy: Strategy, scores: Scores) -> Strategy:
    """Returns the same strategy on rows without `score`: it is looked up."""

    def page_rank(rows: Rows, random_seed: int) -> F64:
        wide = np.zeros(len(rows), SCORED)
        for name in PAGE.names:
            wide[name] = rows[name]
        wide["score"] = scores.of(wide["key"])
        return strategy.page_rank(wide, random_seed)

    return replace(strategy, page_rank=page_rank)


class Numbers:
    """Pages are numbered in order of discovery."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, np.uint64)  # sorted
        self._numbers: I32 = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, new: Keys) -> None:
        order = np.argsort(new)
        at = np.searchsorted(self._keys, new[order])
        numbers = (len(self._keys) + order).astype(np.int32)
        self._keys, self._numbers = np.insert(self._keys, at, new[order]), np.insert(self._numbers, at, numbers)

    def of(self, keys: Keys) -> I32:
        """Returns the number of each page; -1 if it is not known."""
        found, at = search(self._keys, keys)
        numbers = np.full(len(keys), -1, np.int32)
        numbers[found] = self._numbers[at[found]]
        return numbers


class LinkScores:
    """The scores are PageRank or authority on the links seen so far, computed anew every so many visits."""

    def __init__(self, score: Score, every: int) -> None:
        self._compute = known_score(score)
        self._sums = score.new == "sum"
        self._every = max(1, every)
        self._numbers = Numbers()
        self._source: list[I32] = []
        self._target: list[I32] = []
        self._lesson: list[I32] = []  # of each link, when it was seen
        self._spoke: I32 = np.zeros(0, np.int32)  # of each page, when links of it were seen last
        self._lessons = 0
        self._scores = np.zeros(0)  # of pages known at the last computation; after them, what links gave to new ones
        self._computed = 0
        self._since = 0

    def of(self, keys: Keys) -> F64:
        numbers = self._numbers.of(keys)
        return np.where(numbers >= 0, self._scores[numbers] if len(self._scores) else 0.0, 0.0)

    def recall(self, lessons: list[Lesson]) -> None:
        """Learns all lessons; scores are computed once, at the last lesson where they were."""
        since, last = 0, -1
        for place, lesson in enumerate(lessons):
            since += len(lesson.visited)
            if since >= self._every:
                since, last = 0, place
        every, self._every = self._every, _NEVER
        for lesson in lessons[: max(last, 0)]:
            self.learn(lesson)
        if last >= 0:
            self._every = 1
            self.learn(lessons[last])
        self._every = every
        for lesson in lessons[last + 1 :]:
            self.learn(lesson)

    def learn(self, lesson: Lesson) -> Keys | None:
        self._numbers.add(lesson.new)
        self._scores = np.concatenate((self._scores, np.zeros(len(lesson.new))))
        self._spoke = np.concatenate((self._spoke, np.zeros(len(lesson.new), np.int32)))
        self._lessons += 1
        visited, target = self._numbers.of(lesson.visited), self._numbers.of(lesson.target)
        source = visited[lesson.source]
        links = lesson.followed & (target >= 0)
        self._source.append(source[links])
        self._target.append(target[links])
        self._lesson.append(np.full(int(links.sum()), self._lessons, np.int32))
        self._spoke[source] = self._lessons
        self._since += len(visited)
        if self._since >= self._every:
            self._since = 0
            self._forget_outdated()
            self._computed = len(self._numbers)
            self._scores = self._compute(self._source[0], self._target[0], self._computed)
            return None
        if not self._sums:
            return lesson.new[:0]
        gifts = self._scores[visited] / np.maximum(np.bincount(lesson.source, minlength=len(visited)), 1)
        fresh = links & (target >= self._computed)
        np.add.at(self._scores, target[fresh], gifts[lesson.source[fresh]])
        return np.unique(lesson.target[fresh])

    def _forget_outdated(self) -> None:
        """Keeps only the links of a page's last version, if it was visited again and had changed."""
        source, target, seen = (np.concatenate(part) for part in (self._source, self._target, self._lesson))
        current = seen == self._spoke[source]
        self._source, self._target, self._lesson = [source[current]], [target[current]], [seen[current]]


class HistoricalScores:
    """The scores are PageRank of an earlier crawl, and something for the pages that it did not have."""

    def __init__(self, score: Score, keys: Keys, ranks: F64, random_seed: int) -> None:
        order = np.argsort(keys)
        self._keys, self._ranks = keys[order], ranks[order]
        self._sorted = np.sort(ranks)
        self._new, self._seed = score.new, random_seed
        self._heirs = Numbers()
        self._inherited = np.zeros(0)

    def of(self, keys: Keys) -> F64:
        found, at = search(self._keys, keys)
        scores = np.zeros(len(keys))
        scores[found] = self._ranks[at[found]]
        if self._new == "random":
            scores[~found] = random_old(keys[~found], self._sorted, self._seed)
        elif self._new == "parent" and len(self._inherited):
            numbers = self._heirs.of(keys)
            scores = np.where(numbers >= 0, self._inherited[numbers], scores)
        return scores

    def recall(self, lessons: list[Lesson]) -> None:
        for lesson in lessons:
            self.learn(lesson)

    def learn(self, lesson: Lesson) -> Keys | None:
        if self._new != "parent":
            return lesson.new[:0]
        fresh = ~search(self._keys, lesson.new)[0]
        new, referrer = lesson.new[fresh], lesson.referrer[fresh]
        gifts = self.of(lesson.visited) / np.maximum(np.bincount(lesson.source, minlength=len(lesson.visited)), 1)
        order = np.argsort(lesson.visited)
        found, at = search(lesson.visited[order], referrer)
        inherited = np.zeros(len(new))
        inherited[found] = gifts[order[at[found]]]
        self._heirs.add(new)
        self._inherited = np.concatenate((self._inherited, inherited))
        return np.sort(new)


def known_score(score: Score, flow_of: Flow = counted) -> Callable[[Integers, Integers, int], F64]:
    """Returns the function that computes the score from links (as pairs of numbers) and a number of pages."""
    if score.source == "authority":
        return partial(authorities, flow_of=flow_of)
    return partial(pagerank, tolerance=TOLERANCE, flow_of=flow_of)


def random_old(keys: Keys, old: F64, random_seed: int) -> F64:
    """Returns for each new page one of the old values (sorted), the same every time."""
    if not len(old):
        return np.zeros(len(keys))
    rows = np.zeros(len(keys), PAGE.numpy)
    rows["key"] = keys
    return old[by_chance(rows, random_seed).astype(np.int64) % len(old)]
