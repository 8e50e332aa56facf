"""Times that were written while the clock was wrong: nobody waits longer for them than for any failure."""

import numpy as np
import pytest

from gossamer import config
from gossamer.archive.store import Memory
from gossamer.clocks import VirtualClock
from gossamer.columns import NEVER, PAGE, Outcome, Status
from gossamer.config import Config
from gossamer.crawl.states import after, longest_s
from gossamer.frontier.frontier import Frontier
from gossamer.frontier.pages import PageIndex
from gossamer.frontier.strategies import strategy

NOW_S, DAY_S, LONGEST_S = 1_700_000_000, 86_400, 3_601
INDEX = config.Index(memory_mb=16)


def rows(due_s: dict[int, int], status: Status = Status.FAILED) -> np.ndarray:
    found = np.zeros(len(due_s), PAGE.numpy)
    found["key"], found["due_s"], found["status"] = list(due_s), list(due_s.values()), status
    return found


def frontier(due_s: dict[int, int], status: Status = Status.FAILED) -> Frontier:
    index = PageIndex.open(Memory(), {}, INDEX)
    index.pages.write(rows(due_s, status))
    return Frontier(index, strategy("opic"), INDEX)


def taken(found: Frontier, now_s: int) -> list[int]:
    found.wait_until(now_s + LONGEST_S, now_s + 8 * DAY_S)
    return sorted(found.take(100, now_s, 100)["key"].tolist())


@pytest.mark.parametrize("status", [Status.FAILED, Status.NEW])
def test_what_is_due_a_day_after_it_can_be_is_due(status: Status) -> None:
    found = frontier({1: NOW_S + DAY_S, 2: NOW_S + 60, 3: NEVER, 4: NOW_S + LONGEST_S}, status)
    assert taken(found, NOW_S) == [1]
    assert found.next_due_s() == NOW_S + 60
    assert taken(found, NOW_S + 60) == [2]
    assert taken(found, NOW_S + DAY_S) == [4]


def test_what_is_to_be_visited_again_later_keeps_its_time() -> None:
    found = frontier({1: NOW_S + DAY_S}, Status.REFUSED)
    assert taken(found, NOW_S) == []
    assert found.next_due_s() is not None


def test_what_is_forbidden_waits_as_long_as_it_should_and_no_longer() -> None:
    found = frontier({1: NOW_S + DAY_S, 2: NOW_S + 365 * DAY_S}, Status.FORBIDDEN)
    assert taken(found, NOW_S) == [2], "a year ahead: the clock was wrong"
    assert found.next_due_s() == NOW_S + DAY_S
    scans = found.scans
    for second in range(0, 7_200, 60):
        assert taken(found, NOW_S + second) == []
    assert found.scans <= scans + 2, "those who wait for long do not make every take a scan"
    assert taken(found, NOW_S + DAY_S) == [1]


def test_a_clock_that_is_set_back_while_the_crawl_runs() -> None:
    found = frontier({1: NOW_S + DAY_S + 60, 2: NOW_S + 60})
    assert taken(found, NOW_S + DAY_S) == [2], "so late it seems to be"
    found.settle(np.array([2], np.uint64))
    assert taken(found, NOW_S) == [1], "it was written by the clock that was wrong"
    assert taken(found, NOW_S + 60) == [2], "what the right clock has written holds"


def test_what_a_frontier_has_kept_is_looked_at_too() -> None:
    before = frontier({1: NOW_S + DAY_S + 60})
    assert taken(before, NOW_S + DAY_S) == []
    assert before.next_due_s() == NOW_S + DAY_S + 60
    assert taken(before, NOW_S) == [1]


def test_a_page_waits_no_longer_than_its_host() -> None:
    settings = Config().replace({"fetch.retries": 30, "fetch.retry_s": 60.0, "polite.backoff_max_s": 600.0})
    times_s = [after(Outcome.TIMEOUT, tries, VirtualClock(NOW_S).now(), settings).due_s for tries in range(20)]
    assert max(times_s) == NOW_S + 601 <= NOW_S + longest_s(settings)


def test_what_was_given_up_as_forbidden_is_due_if_more_retries_are_allowed() -> None:
    found = frontier({1: NEVER, 2: NEVER}, Status.FORBIDDEN)
    row = found._index.pages.look_up(np.array([2], np.uint64))[1].copy()
    row["tries"] = 9
    found._index.pages.write(row)
    page = found._index.pages.look_up(np.array([1], np.uint64))[1].copy()
    page["tries"] = 4
    found._index.pages.write(page)
    for retries, due in ((3, []), (3, []), (4, [1]), (3, []), (9, [2])):
        found.wait_until(NOW_S + LONGEST_S, NOW_S + 8 * DAY_S, retries)
        assert sorted(found.take(100, NOW_S, 100)["key"].tolist()) == due, retries
