"""Laws of the planners on random websites and clients: partitions, bounds, order, small cases by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.uniform_clients import uniform
from gossamer.errors import ConfigError
from gossamer.scan import exact
from gossamer.scan.planners import PLANNERS, Planner, plan
from gossamer.scan.task import Task, loads_s, task

SECONDS = st.floats(0.0, 1e4, allow_nan=False)
SPEEDS = st.floats(0.1, 10.0, allow_nan=False)


@st.composite
def uniform_tasks(draw: st.DrawFn, most: int = 30) -> Task:
    work = draw(st.lists(SECONDS, max_size=most))
    return uniform(work, draw(st.lists(SPEEDS, min_size=1, max_size=6)))


@st.composite
def any_tasks(draw: st.DrawFn, most: int = 12) -> Task:
    clients = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(SECONDS, min_size=clients, max_size=clients), max_size=most))
    busy = draw(st.lists(SECONDS, min_size=clients, max_size=clients))
    return task(np.array(rows).reshape(-1, clients), busy_s=busy)


def best_s(each: Task) -> float:
    """By trying everything."""
    choices = itertools.product(range(each.clients), repeat=each.websites)
    return min(float(loads_s(each, np.array(owner, np.int64)).max()) for owner in choices)


def check(each: Task, name: str) -> None:
    found = plan(each, name)
    assert found.owner.shape == (each.websites,), "every website has exactly one client"
    assert ((found.owner >= 0) & (found.owner < each.clients)).all()
    assert np.allclose(found.loads_s, loads_s(each, found.owner))
    assert found.makespan_s >= found.bound_s * (1 - 1e-6), "nobody is faster than the bound"
    assert found.ratio >= 1 - 1e-6


QUICK = [name for name in PLANNERS if name not in ("exact", "unrelated")]  # for any number of websites


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=40)
@given(each=uniform_tasks())
def test_every_plan_is_a_partition(name: str, each: Task) -> None:
    check(each, name)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=25)
@given(each=any_tasks())
def test_and_so_it_is_where_clients_are_unrelated_and_busy(name: str, each: Task) -> None:
    check(each, name)


@pytest.mark.parametrize("name", ["exact", "unrelated"])
@settings(max_examples=10)
@given(each=any_tasks(most=8))
def test_and_of_those_that_solve_programmes(name: str, each: Task) -> None:
    check(each, name)


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=5)
@given(each=any_tasks(most=8))
def test_the_same_task_has_the_same_plan(name: str, each: Task) -> None:
    assert (plan(each, name).owner == plan(each, name).owner).all()


@settings(max_examples=30)
@given(each=any_tasks(most=5))
def test_exact_is_the_best_of_all_and_the_bound_is_below_it(each: Task) -> None:
    best = best_s(each)
    assert plan(each, "exact").makespan_s == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert each.bound_s() <= best * (1 + 1e-9) + 1e-9


@settings(max_examples=30)
@given(each=uniform_tasks(most=6))
def test_the_bound_for_speeds_is_below_the_best(each: Task) -> None:
    if each.clients**each.websites <= 5_000:
        assert each.bound_s() <= best_s(each) * (1 + 1e-9) + 1e-9


def power_law(websites: int, clients: int, seed: int) -> Task:
    """Sizes by a power law, cut where a single website would be more than a client's share."""
    random = np.random.default_rng(seed)
    work = random.pareto(1.2, websites) + 1
    return uniform(np.minimum(work, work.sum() / (2 * clients)), random.uniform(0.75, 1.25, clients))


@pytest.mark.parametrize("seed", range(5))
def test_longest_first_with_search_is_within_a_thousandth(seed: int) -> None:
    each = power_law(1_000, 10, seed)
    found = plan(each, "lpt")
    assert found.ratio <= 1.001
    assert plan(each, "pechnikov-times").ratio >= found.ratio
    assert plan(each, "multifit").ratio <= 1.01


def test_next_free_is_hurt_by_a_large_website_at_the_end() -> None:
    each = uniform([8.0, 2, 2, 2, 2], [1.0, 1.0])
    assert plan(each, "next-free").makespan_s == 8
    assert plan(each, "next-free-reversed").makespan_s == 12
    assert plan(each, "deal").loads_s.tolist() == [12, 4]


def test_five_steps_by_hand() -> None:
    """Shares 10 and 5. The faster takes 6; 5 would exceed and goes back. The slower takes 5, not the first 2. From the
    smallest up, the slower is full: 2 and 2 go to the faster."""
    each = uniform([6.0, 5, 2, 2], [2.0, 1.0])
    assert plan(each, "pechnikov-times").owner.tolist() == [0, 1, 0, 0]


def test_five_steps_leave_a_website_above_every_share_to_the_fastest() -> None:
    each = uniform([100.0, 1, 1, 1], [1.0, 3.0])
    assert plan(each, "pechnikov-times").owner[0] == 1


def test_pages_and_times_are_different_measures() -> None:
    each = uniform([9.0, 1, 1, 1], [1.0, 1.0], pages=[1, 9, 1, 1])
    assert plan(each, "pechnikov-times").makespan_s == 9
    assert plan(each, "pechnikov-pages").makespan_s > 9


def test_distance_decides_where_clients_are_unrelated() -> None:
    near_far = [[1.0, 9], [1, 9], [9, 1], [9, 1]]
    for name in ("lpt", "unrelated", "exact"):
        assert plan(task(near_far), name).makespan_s == 2


def test_nothing_to_do_and_nobody_to_do_it() -> None:
    assert plan(uniform([], [1.0, 2.0])).makespan_s == 0
    assert plan(uniform([], [1.0])).ratio == 1
    with pytest.raises(ConfigError, match="at least one client"):
        task(np.zeros((3, 0)))
    with pytest.raises(ConfigError, match="not negative"):
        task([[-1.0]])
    with pytest.raises(ConfigError, match="above zero"):
        uniform([1.0], [0.0])
    with pytest.raises(ConfigError, match=r"no planner is called best; there are deal"):
        plan(uniform([1.0], [1.0]), "best")


def test_the_exact_planner_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ConfigError, match="the planner lpt takes any number"):
        plan(power_law(200, 3, 0), "exact")


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(exact, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install 'gossamer-crawler\[lab\]'"):
        plan(uniform([1.0, 2.0], [1.0, 1.0]), "exact")


def test_every_planner_says_what_it_does() -> None:
    assert all(isinstance(each, Planner) and each.meaning for each in PLANNERS.values())
