"""The change rates that counters tell, against solutions by hand and by bisection, and against the truth."""

import numpy as np
import pytest

from gossamer.refresh.change_rates import BUCKETS, COUNTERS, FIRST_S, counted, none_counted, rates


def after(*visits):
    """Counters of one page after (interval, changed) each."""
    counters = none_counted(1)
    for interval_s, changed in visits:
        counters = counted(counters, np.array([interval_s]), np.array([changed]))
    return counters


def test_a_visit_is_counted_in_the_bucket_of_its_interval():
    assert none_counted(3).shape == (3, 2 * BUCKETS)
    assert none_counted(3).itemsize * 2 * BUCKETS == COUNTERS.itemsize == 32
    for interval_s, bucket in ((0, 0), (FIRST_S, 0), (2 * FIRST_S, 1), (3 * FIRST_S, 1), (1e12, 15)):
        assert np.flatnonzero(after((interval_s, True))[0]).tolist() == [bucket]
        assert np.flatnonzero(after((interval_s, False))[0]).tolist() == [BUCKETS + bucket]


def test_counting_leaves_its_input_alone():
    counters = none_counted(2)
    counted(counters, np.array([100.0, 100.0]), np.array([True, False]))
    assert not counters.any()


def test_a_full_counter_halves_those_of_its_page():
    counters = none_counted(2)
    counters[0, 0], counters[0, 20], counters[1, 20] = 255, 100, 100
    counters = counted(counters, np.array([FIRST_S, FIRST_S]), np.array([True, True]))
    assert (counters[0, 0], counters[0, 20]) == (128, 50)
    assert (counters[1, 0], counters[1, 20]) == (1, 100)


def test_a_page_never_seen_again_has_the_rate_of_its_host():
    """e^(D t) - 1 = 1 for the two visits that are added, t being half the interval."""
    assert rates(none_counted(2), np.array([1000.0, 50.0])) == pytest.approx([2 * np.log(2) / 1000, 2 * np.log(2) / 50])


def test_rates_solve_the_equation():
    random = np.random.default_rng(1)
    counters = random.integers(0, 20, (300, 2 * BUCKETS)).astype(np.uint8)
    counters[random.random((300, 2 * BUCKETS)) < 0.8] = 0
    prior_s = random.lognormal(12, 2, 300)
    found = rates(counters, prior_s)
    middle_s = FIRST_S * 2.0 ** (np.arange(BUCKETS) + 0.5)
    exponent = np.minimum(found[:, None] * middle_s, 700)
    left = (counters[:, :BUCKETS] * middle_s / np.expm1(exponent)).sum(axis=1)
    changed = counters[:, :BUCKETS] > 0
    shortest_s = np.where(changed.any(axis=1), middle_s[changed.argmax(axis=1)], np.inf)
    half_s = np.minimum(prior_s, shortest_s) / 2
    left += half_s / np.expm1(found * half_s)
    right = (counters[:, BUCKETS:] * middle_s).sum(axis=1) + half_s
    assert left == pytest.approx(right, rel=1e-3)


def test_a_date_tells_when_the_page_changed_and_that_it_was_quiet_since():
    day_s = 86_400.0
    counters = counted(none_counted(1), day_s, np.array([True]), quiet_s=3600.0)
    assert np.flatnonzero(counters[0]).tolist() == [0, BUCKETS + 5]
    for quiet_s in (
        np.nan,
        10.0,
        2 * day_s,
        -5.0,
    ):  # none, the time of the answer, before our last visit, in the future
        assert (counted(none_counted(1), day_s, np.array([True]), quiet_s=quiet_s) == after((day_s, True))).all()
    assert (counted(none_counted(1), day_s, np.array([False]), quiet_s=3600.0) == after((day_s, False))).all()


def test_dates_show_rates_that_visits_alone_do_not():
    """A visit a day of pages that change every hour, or every minute: all find a change."""
    random, change = np.random.default_rng(3), np.array([1 / 3600.0, 1 / 600.0])
    plain = dated = none_counted(2)
    for _ in range(30):
        plain = counted(plain, 86_400.0, np.ones(2, np.bool_))
        dated = counted(dated, 86_400.0, np.ones(2, np.bool_), quiet_s=random.exponential(1 / change))
    assert rates(plain, 86_400.0)[0] == pytest.approx(rates(plain, 86_400.0)[1])
    assert rates(dated, 86_400.0) == pytest.approx(change, rel=0.5)


def test_extremes_stay_finite():
    counters = none_counted(4)
    counters[0, :BUCKETS] = 255
    counters[1, BUCKETS:] = 255
    counters[2, 0], counters[2, 31] = 255, 1
    counters[3, 15], counters[3, 16] = 255, 1
    for prior_s in (0.0, 1.0, 1e9):
        found = rates(counters, prior_s)
        assert np.isfinite(found).all()
        assert (found > 0).all()


def test_rates_are_near_the_truth_and_nearer_with_more_visits():
    random = np.random.default_rng(2)
    change_per_s = random.lognormal(-12, 1, 2000)
    counters, errors = none_counted(2000), []
    for visit in range(1, 61):
        interval_s = random.exponential(1e5, 2000)
        changed = random.random(2000) < -np.expm1(-change_per_s * interval_s)
        counters = counted(counters, interval_s, changed)
        if visit in (5, 60):
            found = rates(counters, 1e5)
            errors.append(np.median(np.abs(np.log(found / change_per_s))))
    assert errors[1] < 0.2 < errors[0] < 0.6


def test_another_first_interval_serves_a_faster_web():
    counters = counted(none_counted(1), np.array([1.0]), np.array([True]), first_s=0.5)
    assert np.flatnonzero(counters[0]).tolist() == [1]
    fast = rates(counters, 1.0, first_s=0.5)
    assert fast > rates(counters, 1.0 * FIRST_S / 0.5) * 100
