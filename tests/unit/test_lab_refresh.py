"""The refresh experiment: its simulated web against theory, its bound, and what a crawl has recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
from sample_archive import Sample, page

from experiments import harness
from experiments.records import record
from experiments.refresh_real import Setting
from experiments.refresh_recorded import recorded, results
from experiments.refresh_simulation import DAY_S, Poisson, Recorded, Run, periodic_optimum, simulate
from gossamer.errors import ArchiveError
from gossamer.testweb.web import SyntheticWeb


def web(pages=60, seed=0):
    random = np.random.default_rng(seed)
    return random.lognormal(np.log(0.1 / DAY_S), 1.5, pages), random.pareto(1.5, pages) + 1


def test_the_periodic_optimum_spends_its_budget_and_no_exchange_gains():
    change, weight = web()
    budget = 6 / DAY_S
    reached, rate = periodic_optimum(change, weight, budget)
    assert rate.sum() == pytest.approx(budget)

    def fresh(rates):
        each = np.zeros(len(rates))
        some = rates > 0
        each[some] = -np.expm1(-change[some] / rates[some]) * rates[some] / change[some]
        return (weight * each).sum() / weight.sum()

    assert fresh(rate) == pytest.approx(reached)
    random = np.random.default_rng(1)
    for _ in range(200):
        giver, taker = random.choice(np.flatnonzero(rate > 0)), random.integers(len(rate))
        moved = rate.copy()
        moved[giver] *= 0.95
        moved[taker] += 0.05 * rate[giver]
        assert fresh(moved) <= reached + 1e-12


def test_equal_pages_in_turn_have_the_freshness_of_the_formula():
    """Page visited every t: (1 - e^(-D t)) / (D t)."""
    change = np.full(40, 0.1 / DAY_S)
    world = Poisson(change, np.ones(40), np.random.default_rng(0))
    for policy in ("fixed", "stalest", "index", "azar", "harmonic"):
        outcome = simulate(world, Run(policy, 4 / DAY_S), np.random.default_rng(1))
        assert outcome.freshness == pytest.approx(1 - np.exp(-1), rel=0.01), policy
        assert outcome.starved == 0


@pytest.mark.parametrize("part", [0.05, 0.1, 0.3])
def test_the_index_policy_reaches_the_periodic_optimum(part):
    change, weight = web(200)
    budget = part * 200 / DAY_S
    outcome = simulate(
        Poisson(change, weight, np.random.default_rng(0)), Run("index", budget), np.random.default_rng(1)
    )
    assert outcome.freshness >= 0.995 * periodic_optimum(change, weight, budget)[0]


def test_learning_beats_not_knowing():
    change, weight = web(150)
    budget = 15 / DAY_S

    def reached(policy, learns):
        world = Poisson(change, weight, np.random.default_rng(0))
        return simulate(world, Run(policy, budget, learns), np.random.default_rng(1)).freshness

    assert reached("fixed", False) < reached("index", True) < reached("index", False)


@pytest.mark.parametrize("part", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("policy", ["fixed", "adaptive", "stalest", "index", "azar"])
def test_all_policies_spend_the_same(policy, part):
    change, weight = web(100)
    world = Poisson(change, weight, np.random.default_rng(0))
    outcome = simulate(world, Run(policy, part * 100 / DAY_S, visits_per_page=10), np.random.default_rng(1))
    assert outcome.spent == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dated", [0.0, 1.0])
def test_pages_that_change_faster_than_they_are_visited_are_learned(dated):
    """Five changes a day, a visit in ten days: half of what knowing the rates would gain over fixed intervals."""
    pages, random = 150, np.random.default_rng(1)
    change, weight, budget = random.lognormal(np.log(5 / DAY_S), 1.0, pages), np.ones(pages), 0.1 * pages / DAY_S
    optimum, _ = periodic_optimum(change, weight, budget)

    def reached(policy, **more):
        world = Poisson(change, weight, np.random.default_rng(0))
        run = Run(policy, budget, visits_per_page=25, **more)
        return simulate(world, run, np.random.default_rng(1)).freshness / optimum

    fixed = reached("fixed")
    assert fixed < 0.5, "there is something to gain"
    assert reached("index", learns=True, dated=dated) > (1 + fixed) / 2


def test_a_record_is_replayed():
    """Two pages: one changes at 10 and 20, the other never."""
    record = Recorded(np.array([0, 2, 2]), np.array([10.0, 20.0]), np.ones(2), 100.0)
    both = np.array([0, 1])
    assert record.changed(both, np.zeros(2), 9.0).tolist() == [False, False]
    assert record.changed(both, np.zeros(2), 10.0).tolist() == [True, False]
    assert record.changed(both, np.array([10.0, 10.0]), 15.0).tolist() == [False, False]
    assert record.fresh_s(both, np.zeros(2), np.zeros(2), 50.0).tolist() == [10, 50]
    assert record.fresh_s(both, np.array([12.0, 12.0]), np.array([15.0, 15.0]), 50.0).tolist() == [5, 35]
    assert record.change_per_s == pytest.approx([0.025, 0.005])


def test_the_command_prints_objects(capsys, tmp_path):
    assert (
        harness.main(["refresh", "--part", "policies", "--pages", "20", "--runs", "1", "--visits", "4", "--json"]) == 0
    )
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["policy"] for row in rows} >= {"index", "index (learned)", "fixed", "adaptive", "periodic optimum"}
    assert {row["budget"] for row in rows} == {0.02, 0.05, 0.1, 0.3, 1.0}
    assert all(0 <= row["freshness"] <= 1 for row in rows)


def test_estimates_are_written(tmp_path, capsys):
    assert harness.main(["refresh", "--part", "estimates", "--out", str(tmp_path)]) == 0
    assert "counters (ours)" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        f"refresh-estimates.{kind}" for kind in ("json", "parquet", "png", "svg")
    }


def test_changes_that_a_crawl_has_seen(tmp_path):
    """Three pages: one changed twice in four visits, one never in three, one visited twice only."""
    bodies = {"a": ["1", "2", "2", "3"], "b": ["same"] * 3, "c": ["x", "y"]}
    sample = Sample(tmp_path / "crawl")
    urls = {name: f"http://h.test/{name}" for name in bodies}
    for number in range(4):
        here = [name for name, texts in bodies.items() if number < len(texts)]
        same = {name for name in here if number and bodies[name][number] == bodies[name][number - 1]}
        visits = [
            page(urls[name], bodies[name][number], "unchanged" if name in same else "ok", 100.0 * number)
            for name in here
        ]
        sample.commit(list(urls.values()) if number == 0 else [], visits)
    record, count = recorded(tmp_path / "crawl", np.random.default_rng(0))
    assert count == 7
    changes = sorted(
        record.time_s[record.begin[place] : record.begin[place + 1]].tolist() for place in range(len(record.weight))
    )
    assert changes[0] == []
    assert 0 < changes[1][0] < 100
    assert 200 < changes[1][1] < 300
    assert record.length_s == pytest.approx(300)
    rows = results(tmp_path / "crawl", 0).rows  # a tenth of seven visits is none: that is no reason to fail
    assert all(0 <= row["freshness"] <= 1 for row in rows)


def test_the_page_says_what_could_be_reached_on_the_web_of_the_real_crawls():
    """docs/refresh.md: by the best schedule of all, and by fixed intervals."""
    setting = Setting(pages=150)
    change = np.maximum(SyntheticWeb(setting.web).plan.changes_per_s, 1e-12)
    each_per_s = setting.visits_per_page / DAY_S
    best, _ = periodic_optimum(change, np.ones(len(change)), len(change) * each_per_s)
    fixed = (-np.expm1(-change / each_per_s) * each_per_s / change).mean()
    said = (Path(__file__).parents[2] / "docs" / "refresh.md").read_text()
    assert f"could reach .{1000 * best:.0f} (computed), {100 * (best / fixed - 1):.0f} % more" in said
    assert f"than fixed intervals can (.{1000 * fixed:.0f})" in said


def test_real_crawls_on_record_are_compared_at_equal_visits_and_equal_rate():
    """They were compared at 51, 49 and 48 days of as many visits, six per cent apart."""
    rows = record("refresh/refresh-real")[""]
    assert len({row["requests"] for row in rows}) == 1
    rates = [row["per_day"] for row in rows]
    assert np.ptp(rates) <= 0.05 * np.mean(rates)
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in rows), "of several webs"


def test_a_crawl_that_never_came_back_is_named(tmp_path):
    Sample(tmp_path / "crawl").commit(["http://h.test/"], [page("http://h.test/", "once")])
    with pytest.raises(ArchiveError, match="three visits"):
        recorded(tmp_path / "crawl", np.random.default_rng(0))
