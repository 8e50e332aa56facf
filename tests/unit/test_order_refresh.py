"""Refresh policies: rates that spend the budget where it helps most, values, intervals, and who goes first."""

import numpy as np
import pytest

from gossamer.refresh.policies import (
    POLICIES,
    Caps,
    Intervals,
    Pages,
    azar_rates,
    best,
    harmonic_rates,
    index_value,
    next_interval_s,
)

RATES = {"azar": azar_rates, "harmonic": harmonic_rates}


def web(seed=0, pages=400):
    random = np.random.default_rng(seed)
    return random.lognormal(-10, 1.5, pages), random.pareto(1.5, pages) + 0.1


def gain(name, rate, change, weight):
    """What the rates maximise: fresh pages at any time, or minus the penalty of changes missed."""
    return (
        (weight * rate / (rate + change)).sum() if name == "azar" else (weight * np.log(rate / (rate + change))).sum()
    )


# --- rates


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("part", [0.001, 0.1, 1.0, 50.0])
def test_rates_spend_the_budget_and_no_exchange_gains(name, part):
    change, weight = web()
    budget = part * change.sum()
    rate = RATES[name](change, weight, budget)
    assert rate.sum() == pytest.approx(budget)
    assert (rate >= 0).all()
    random = np.random.default_rng(3)
    reached = gain(name, rate, change, weight)
    for _ in range(300):
        giver, taker = random.choice(np.flatnonzero(rate > 0)), random.integers(len(rate))
        moved = rate.copy()
        moved[giver] -= 0.1 * rate[giver]
        moved[taker] += 0.1 * rate[giver]
        assert gain(name, moved, change, weight) <= reached + 1e-11 * abs(reached)


def test_azar_is_the_sorted_solution():
    """The suffix sums of the paper: the first page, by w / D, that is worth its price."""
    change, weight = web()
    budget = 0.1 * change.sum()
    order = np.argsort(weight / change)
    worth = np.sqrt(weight * change)[order]
    rest, spent = worth[::-1].cumsum()[::-1], change[order][::-1].cumsum()[::-1]
    first = np.flatnonzero(np.sqrt(weight / change)[order] > rest / (budget + spent))[0]
    expected = np.zeros(len(change))
    expected[order[first:]] = worth[first:] * (budget + spent[first]) / rest[first] - change[order[first:]]
    assert azar_rates(change, weight, budget) == pytest.approx(expected, rel=1e-9, abs=1e-18)


def test_azar_gives_up_restless_pages_and_harmonic_none():
    change, weight = np.array([1.0, 1e-3, 1e-3]), np.ones(3)
    assert (azar_rates(change, weight, 0.01) > 0).tolist() == [False, True, True]
    assert (harmonic_rates(change, weight, 0.01) > 0).all()


@pytest.mark.parametrize("name", RATES)
def test_hosts_keep_their_caps_and_others_get_what_they_leave(name):
    change, weight = web()
    host = np.arange(400) % 7
    budget = 0.2 * change.sum()
    free = np.bincount(host, RATES[name](change, weight, budget))
    caps = Caps(host, free * np.array([0.1, 0.5, 0.9, 1.02, 5, 5, 5]))
    rate = RATES[name](change, weight, budget, caps)
    used = np.bincount(host, rate)
    assert (used <= caps.most_per_s * (1 + 1e-9)).all()
    assert rate.sum() == pytest.approx(budget)
    assert used[:4] == pytest.approx(caps.most_per_s[:4])  # the fourth fills up only because of the first three
    one = host == 1  # inside a full host its own pages share optimally
    assert rate[one] == pytest.approx(RATES[name](change[one], weight[one], used[1]))


@pytest.mark.parametrize("name", RATES)
def test_when_all_hosts_are_full_the_budget_is_not_used_up(name):
    change, weight = web()
    caps = Caps(np.arange(400) % 4, np.full(4, 0.01 * change.sum()))
    assert RATES[name](change, weight, change.sum(), caps).sum() == pytest.approx(0.04 * change.sum())


@pytest.mark.parametrize("name", RATES)
def test_pages_that_never_change_or_do_not_count_get_nothing(name):
    rate = RATES[name](np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 1.0]), 5.0)
    assert rate == pytest.approx([0, 0, 5])
    assert RATES[name](np.zeros(3), np.ones(3), 5.0).tolist() == [0, 0, 0]
    assert RATES[name](np.ones(3), np.ones(3), 0.0).tolist() == [0, 0, 0]
    assert len(RATES[name](np.zeros(0), np.zeros(0), 5.0)) == 0


# --- values


def test_index_value_is_its_formula_and_exact_where_that_loses_digits():
    change, weight, age = np.array([0.5]), np.array([3.0]), np.array([2.0])
    assert index_value(change, weight, age) == pytest.approx([6 * (1 - 2 * np.exp(-1))])
    small = np.array([0.0, 1e-12, 1e-6, 1e-3 - 1e-12, 1e-3 + 1e-12])
    expected = small * (0.5 - small / 3 + small**2 / 8 - small**3 / 30)
    assert index_value(small, np.ones(5), np.ones(5)) == pytest.approx(expected, rel=1e-9)
    assert index_value(np.array([2.0]), np.array([3.0]), np.array([1e6])) == pytest.approx([1.5])


def test_index_value_grows_with_age():
    age = np.linspace(0, 1e6, 500)
    for change in (0.0, 1e-9, 1e-5, 1.0):
        assert (np.diff(index_value(np.full(500, change), np.ones(500), age)) >= -1e-12).all()


def pages(**more):
    columns = {"change_per_s": [1e-3, 1e-5, 1e-5], "weight": [1.0, 1.0, 3.0], "age_s": [50.0, 200.0, 100.0]}
    columns["interval_s"] = [100.0, 100.0, 400.0]
    return Pages(**{name: np.array(column) for name, column in (columns | more).items()})


def first(name, rows, budget=1e-3):
    return int(best(POLICIES[name].value(rows, budget), np.arange(3), 1)[0])


def test_each_policy_prefers_what_it_says():
    assert first("fixed", pages()) == first("adaptive", pages()) == 1  # two intervals old
    assert first("stalest", pages()) == 2
    assert first("index", pages()) == 0
    assert first("green", pages()) == 0  # it has most likely changed
    assert first("green", pages(toll=[1e9, 0.0, 0.0])) == 1
    assert first("green-index", pages(toll=[1e9, 0.0, 0.0])) == 1
    for name, rates in RATES.items():
        rows = pages()
        expected = rows.age_s * rates(rows.change_per_s, rows.weight, 1e-3)
        assert POLICIES[name].value(rows, 1e-3) == pytest.approx(expected)


def test_green_is_staleness_times_importance_times_the_likelihood_of_a_change():
    """Y of LEADS D1.4, section 2.2: of two equally stale pages the one goes first that has probably changed."""
    rows = pages(age_s=[100.0] * 3)
    likely = 1 - np.exp(-rows.change_per_s * 100.0)
    assert POLICIES["green"].value(rows, 1.0) == pytest.approx(rows.weight * 100.0 * likely)
    assert first("green", rows) == 0
    assert first("green", pages(age_s=[100.0] * 3, weight=[1.0, 1.0, 300.0])) == 2
    assert first("green", pages(change_per_s=[1e-5] * 3, weight=[1.0] * 3)) == 1  # else equal: the stalest


def test_green_index_without_toll_is_the_plain_policy():
    assert POLICIES["green-index"].value(pages(), 1.0) == pytest.approx(POLICIES["index"].value(pages(), 1.0))


def test_intervals_and_rates_wait_until_a_page_is_due():
    waits = {name for name, policy in POLICIES.items() if policy.due_at == 1.0}
    assert waits == {"fixed", "adaptive", "azar", "harmonic"}
    assert all(policy.due_at == -np.inf for name, policy in POLICIES.items() if name not in waits)


# --- intervals


def test_adaptive_intervals_learn_between_their_ends():
    rule = Intervals(shorter=0.5, longer=1.5, least_s=60, most_s=1000)
    old = np.array([200.0, 200.0, 70.0, 900.0])
    changed = np.array([True, False, True, False])
    assert next_interval_s("adaptive", old, changed, rule).tolist() == [100, 300, 60, 1000]
    assert next_interval_s("fixed", old, changed, rule).tolist() == old.tolist()


# --- who goes first


def test_best_is_a_total_order():
    random = np.random.default_rng(5)
    for pages in (1, 7, 300):
        values, keys = random.integers(0, 9, pages).astype(float), random.permutation(pages).astype(np.uint64)
        expected = sorted(range(pages), key=lambda place: (-values[place], keys[place]))
        for count in (0, 1, 5, pages, pages + 5):
            assert best(values, keys, count).tolist() == expected[:count]
