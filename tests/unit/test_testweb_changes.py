"""Pages change as Poisson processes do, and time can be asked in any order."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gossamer.testweb.changes import HORIZON_S, changed_at, version
from gossamer.testweb.mix import draw, draws, mix, mixed, normal, normals, stream, unit, units

BITS = st.integers(0, 2**64 - 1)
RATES = st.floats(1e-9, 1e-2)


@given(BITS, RATES, st.floats(0, HORIZON_S), st.floats(0, HORIZON_S))
def test_versions_only_grow(bits: int, rate: float, one: float, two: float) -> None:
    early, late = sorted((one, two))
    assert 0 <= version(bits, rate, early) <= version(bits, rate, late)


@given(BITS, RATES, st.floats(0, HORIZON_S))
def test_the_time_of_a_change_is_where_the_version_changes(bits: int, rate: float, t_s: float) -> None:
    number = version(bits, rate, t_s)
    since, until = changed_at(bits, rate, number), changed_at(bits, rate, number + 1)
    assert since <= t_s < until or (t_s == HORIZON_S and until == math.inf)
    if number:
        assert version(bits, rate, since) == number
        assert version(bits, rate, since * (1 - 1e-9)) <= number
    if until < math.inf:
        assert version(bits, rate, until) == number + 1


def test_what_never_changes() -> None:
    assert version(1, 0.0, 1e9) == 0
    assert version(1, 1.0, -5.0) == 0
    assert changed_at(1, 0.0, 1) == math.inf
    assert changed_at(1, 1.0, 0) == 0.0


def test_counts_and_gaps_are_those_of_a_poisson_process() -> None:
    rate, span = 1 / 3_600, 86_400.0
    pages = [mix(n) for n in range(1, 1_001)]
    counts = np.array([version(bits, rate, 10 * span + span) - version(bits, rate, 10 * span) for bits in pages])
    assert abs(counts.mean() - 24) < 0.8  # five standard errors
    assert 0.8 < counts.var() / counts.mean() < 1.2
    gaps = np.diff([changed_at(pages[0], rate, n) for n in range(1, 1_500)])
    assert abs(gaps.mean() * rate - 1) < 0.15
    assert 0.85 < gaps.std() / gaps.mean() < 1.15


@given(BITS, st.integers(0, 1_000))
def test_columns_and_single_numbers_agree(bits: int, salt: int) -> None:
    column = np.array([bits, bits ^ 1], dtype=np.uint64)
    assert mixed(column).tolist() == [mix(bits), mix(bits ^ 1)]
    assert draws(column, salt)[0] == draw(bits, salt)
    assert units(column)[0] == unit(bits)
    assert math.isclose(normals(column)[0], normal(bits), rel_tol=1e-9, abs_tol=1e-9)
    assert 0 <= unit(bits) < 1


def test_a_stream_is_long_and_its_own() -> None:
    one, two = stream(1, 10_000), stream(2, 10_000)
    assert len(np.unique(np.concatenate([one, two]))) == 20_000
    assert abs(units(one).mean() - 0.5) < 0.02
