"""Who scans what next: nothing twice and nothing missing, whoever dies; the reserve, slow clients, unknown websites."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.enactment import enact
from experiments.uniform_clients import uniform
from gossamer.scan.defaults import MODES
from gossamer.scan.dispatch import Dispatch
from gossamer.scan.planners import plan

SECONDS = st.floats(0.01, 1e3, allow_nan=False)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int]]:
    clients = draw(st.integers(1, 4))
    row = st.lists(SECONDS, min_size=clients, max_size=clients)
    rows = draw(st.lists(row, min_size=1, max_size=25))
    slots = draw(st.lists(st.integers(1, 3), min_size=clients, max_size=clients))
    forecast = np.array(rows)
    noise = draw(st.integers(0, 99))
    return forecast, forecast * np.random.default_rng(noise).uniform(0.2, 5.0, forecast.shape), slots


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40)
@given(case=cases(), data=st.data())
def test_everything_is_scanned_once_though_all_but_one_die(mode: str, case: tuple, data: st.DataObject) -> None:
    forecast, actual, slots = case
    clients = forecast.shape[1]
    dead = data.draw(st.lists(st.integers(0, clients - 1), max_size=clients - 1, unique=True))
    when = {j: data.draw(st.floats(0.0, float(actual.sum()))) for j in dead}
    dispatch = Dispatch(forecast, slots, mode)
    _, scanned = enact(dispatch, actual, when)
    assert sorted(scanned) == list(range(len(forecast)))
    assert dispatch.is_over
    assert not dispatch.running
    assert not dispatch.common
    assert not any(dispatch.queues)


@pytest.mark.parametrize("mode", MODES)
def test_what_was_done_before_is_not_done_again(mode: str) -> None:
    times = np.ones((6, 2))
    _, scanned = enact(Dispatch(times, [1, 1], mode, done=[0, 3]), times)
    assert sorted(scanned) == [1, 2, 4, 5]


def test_round_robin_keeps_the_order_of_the_list() -> None:
    dispatch = Dispatch(np.array([[1.0, 1], [9, 9], [1, 1]]), [1, 1], "round-robin")
    assert [dispatch.next(0, 0.0), dispatch.next(1, 0.0), dispatch.next(0, 0.0)] == [0, 1, None]
    dispatch.end(0)
    assert dispatch.next(0, 1.0) == 2


def test_batches_begin_with_the_longest() -> None:
    dispatch = Dispatch(np.array([[1.0], [5], [3]]), [1], "batch")
    order = []
    while (website := dispatch.next(0, 0.0)) is not None:
        order.append(website)
        dispatch.end(website)
    assert order == [1, 2, 0]


def test_unknown_websites_wait_for_whoever_is_free() -> None:
    dispatch = Dispatch(np.ones((5, 2)), [1, 1], "batch", known=np.array([1, 3]))
    assert list(dispatch.common) == [0, 2, 4]
    assert sorted(i for queue in dispatch.queues for i in queue) == [1, 3]


def test_the_reserve_holds_small_websites_only() -> None:
    times = np.array([[50.0, 50.0]] * 4 + [[0.2, 0.2]] * 20)
    dispatch = Dispatch(times, [1, 1], "dynamic")
    assert set(dispatch.common) == set(range(4, 24))
    assert sorted(i for queue in dispatch.queues for i in queue) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_dynamic_is_as_good_as_batch_where_forecasts_hold(seed: int) -> None:
    random = np.random.default_rng(seed)
    each = uniform(random.pareto(1.1, 99) + 1, random.uniform(0.75, 1.25, 3 + seed % 3))
    slots = [1] * each.clients
    batch_s, dynamic_s = (enact(Dispatch(each.times_s, slots, mode), each.times_s)[0] for mode in ("batch", "dynamic"))
    assert dynamic_s <= 1.02 * batch_s
    assert batch_s == pytest.approx(plan(each, "lpt").makespan_s)


@pytest.mark.parametrize("mode", ["batch", "dynamic"])
def test_a_client_ten_times_slower_than_thought_is_relieved(mode: str) -> None:
    forecast = np.ones((60, 3))
    actual = forecast * [10.0, 1, 1]
    took_s, scanned = enact(Dispatch(forecast, [1, 1, 1], mode), actual)
    assert sorted(scanned) == list(range(60))
    assert took_s <= 45  # 28.6 at best; 200 if nobody noticed
    assert sum(client == 0 for client in scanned.values()) <= 4


def test_the_dead_clients_websites_are_spread_over_the_others() -> None:
    dispatch = Dispatch(np.ones((12, 3)), [1, 1, 1], "batch")
    begun = dispatch.next(0, 0.0)
    lost = dispatch.died(0, 0.5)
    assert begun in lost
    assert len(lost) == 4
    assert dispatch.next(0, 0.5) is None
    assert [len(queue) for queue in dispatch.queues] == [0, 6, 6]


def test_when_all_have_died_their_websites_wait() -> None:
    dispatch = Dispatch(np.ones((4, 1)), [1], "batch")
    dispatch.next(0, 0.0)
    dispatch.died(0, 1.0)
    assert sorted(dispatch.common) == [0, 1, 2, 3]
    assert not dispatch.is_over


def test_a_client_has_no_more_under_way_than_its_slots() -> None:
    dispatch = Dispatch(np.ones((9, 1)), [2], "dynamic")
    assert dispatch.next(0, 0.0) is not None
    assert dispatch.next(0, 0.0) is not None
    assert dispatch.next(0, 0.0) is None


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_comes_later_gets_its_share(mode: str) -> None:
    times_s = np.ones((40, 2)) * np.arange(1, 41)[:, None]
    dispatch = Dispatch(times_s, [1, 1], mode, absent=[1])
    assert dispatch.next(1, 0.0) is None, "it is not there"
    first = dispatch.next(0, 0.0)
    assert not dispatch.queues[1]
    dispatch.joined(1, 0.0)
    second = dispatch.next(1, 0.0)
    assert first is not None
    assert second is not None
    assert first != second
    waiting = [*dispatch.common, *dispatch.queues[0], *dispatch.queues[1]]
    assert sorted([first, second, *waiting]) == list(range(40)), "each website waits once"
    if mode == "batch":
        loads = [dispatch.left_s(client, 0.0) for client in (0, 1)]
        assert max(loads) <= 1.1 * min(loads)


def test_a_client_that_comes_back_begins_with_free_slots() -> None:
    dispatch = Dispatch(np.ones((6, 2)), [2, 2], "round-robin")
    assert [dispatch.next(1, 0.0) for _ in range(3)] == [0, 1, None]
    assert dispatch.died(1, 1.0) == [0, 1]
    assert dispatch.next(0, 1.0) == 0
    dispatch.joined(1, 2.0)
    assert [dispatch.next(1, 2.0) for _ in range(3)] == [1, 2, None]


@pytest.mark.parametrize("mode", MODES)
def test_where_nobody_is_there_yet_websites_wait(mode: str) -> None:
    dispatch = Dispatch(np.ones((3, 2)), [1, 1], mode, absent=[0, 1])
    assert dispatch.next(0, 0.0) is None
    dispatch.joined(1, 5.0)
    scanned = []
    while (website := dispatch.next(1, 5.0)) is not None:
        scanned.append(website)
        dispatch.end(website)
    assert sorted(scanned) == [0, 1, 2]
    assert dispatch.is_over
