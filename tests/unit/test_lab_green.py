"""The green experiment: many runs at once do what one by one does; bounds, knowledge, budgets."""

import json

import numpy as np
import pytest

from experiments import green_bound, green_budgets, green_saved, green_times, harness
from experiments.green_choice import choose, green_value
from experiments.green_simulation import FULL, HEURISTICS, Knowledge, Web, crawl, in_turn
from experiments.green_web import COUNTRIES, PAGES, made
from gossamer.carbon.sun import day_index


def small(runs=4, pages=30, servers=3, slots=400):
    random = np.random.default_rng(0)
    index = random.random((slots, servers))
    web = Web(random.random((runs, pages)), np.arange(pages) % servers, index)
    return web, np.linspace(0, 60, runs), in_turn(runs, pages, random)


def test_runs_at_once_are_runs_one_by_one():
    """With the functions of production, slot by slot."""
    web, price, stale = small()
    totals = crawl(web, price, FULL, stale, 100)
    keys = np.arange(30, dtype=np.uint64)
    for run in range(len(price)):
        age, staleness, carbon = stale[run].copy(), 0.0, 0.0
        for slot, index in enumerate(web.index):
            grams = web.energy[run] * index[web.server]
            page = choose(green_value(age, grams, price[run]), keys, 1)
            if slot >= 100:
                staleness += age.sum()
                carbon += grams[page].sum()
            age += 1
            age[page] = 0
        assert totals.staleness[run] == pytest.approx(staleness)
        assert totals.carbon[run] == pytest.approx(carbon)


def test_a_download_takes_the_latency_and_the_time_of_its_size():
    assert green_times.download_s(np.array([0.0, 125_000.0, 12_500.0])) == pytest.approx([0.1, 1.1, 0.2])


def test_downloads_that_take_their_time_are_what_one_thread_does_one_by_one():
    """Page by page, with the clock that advances by what each download takes."""
    random = np.random.default_rng(3)
    sizes, index = random.lognormal(np.log(30_000), 1.0, 12), random.random(60)
    prices = np.array([0.0, 5.0, 40.0])
    found = green_times.crawl(sizes, prices, index, 300.0, 2000.0)
    energy = sizes / sizes.max()
    for run, price in enumerate(prices):
        stale = np.cumsum(0.1 + sizes / 125_000)
        now_s, staleness, grams, count = 0.0, 0.0, 0.0, 0
        while now_s < 2000:
            here = index[int(now_s / 60) % 60]
            page = int(np.argmax(stale - price * energy * here))
            took_s = 0.1 + sizes[page] / 125_000
            if now_s >= 300:
                staleness += (took_s * (stale + took_s / 2)).sum()
                grams += energy[page] * here
                count += 1
            now_s += took_s
            stale += took_s
            stale[page] = 0
        expected = (staleness / 1700 / 12, grams / 1700, count / 1700)
        assert [each[run] for each in found] == pytest.approx(expected)


def test_who_knows_nothing_visits_the_stalest():
    web, price, stale = small()
    blind = crawl(web, price, Knowledge("neither", sizes=False, index=False), stale, 0)
    stalest = crawl(web, np.zeros(4), FULL, stale, 0)
    assert blind.staleness == pytest.approx(stalest.staleness)
    assert blind.carbon == pytest.approx(stalest.carbon)


def test_every_heuristic_saves_something_but_the_blind_one():
    web, _, stale = small(runs=1, slots=2000)
    free = crawl(web, np.zeros(1), FULL, stale, 500).carbon
    for heuristic in HEURISTICS:
        saved = 1 - crawl(web, np.array([30.0]), heuristic, stale, 500).carbon / free
        assert saved == pytest.approx(0, abs=0.02) if heuristic.name == "neither" else saved > 0.02, heuristic.name


def test_server_staleness_visits_every_page_in_turn():
    web, _, stale = small(runs=1, slots=300)
    totals = crawl(web, np.zeros(1), Knowledge("server", pages=False), stale, 100)
    mean = totals.staleness[0] / 200 / 30
    assert mean == pytest.approx(14.5, rel=0.1)  # round robin over 30 pages


def test_staleness_rises_and_carbon_falls_with_lambda():
    pages, runs = 100, 6
    random = np.random.default_rng(1)
    web = Web(
        np.repeat(random.random((1, pages)), runs, axis=0),
        np.zeros(pages, np.intp),
        np.ones((3000, 1)),
    )
    stale = np.repeat(in_turn(1, pages, random), runs, axis=0)
    totals = crawl(web, np.linspace(0, 100, runs), FULL, stale, 1000)
    assert (np.diff(totals.staleness) > 0).all()
    assert (np.diff(totals.staleness, 2) > 0).all()
    assert (np.diff(totals.carbon) < 0).all()


# --- the bound


def test_the_relaxed_optimum_of_round_robin(monkeypatch):
    """Without a limit on carbon nothing is less stale than one after the other."""
    monkeypatch.setattr(green_bound, "CLASSES", 2)
    monkeypatch.setattr(green_bound, "PER_CLASS", 5)
    monkeypatch.setattr(green_bound, "LONGEST", 30)
    index = np.stack([day_index(np.arange(24) + 0.5, 7.5, 17.0)], 1)
    kinds = green_bound.Kinds(np.array([0.2, 0.9]), np.zeros(2, np.intp), index)
    free = green_bound.relaxed(kinds, 10.0)
    assert free == pytest.approx(4.5)
    assert green_bound.relaxed(kinds, 0.2) > free


# --- freshness


def test_what_a_policy_believes():
    web = made(0, "solar", 2)
    everything = green_saved.believed(web, ("sizes", "country", "hour"))
    assert everything == pytest.approx(np.array([web.carbon_g(hour) for hour in range(48)]))
    nothing = green_saved.believed(web, ())
    assert nothing == pytest.approx(np.full((48, PAGES), nothing[0, 0]))
    by_country = green_saved.believed(web, ("country",))
    assert len(np.unique(by_country.round(12))) == len(COUNTRIES)


def test_a_budget_for_all_is_met(monkeypatch):
    monkeypatch.setattr(green_budgets, "WARM_DAYS", 3)
    monkeypatch.setattr(green_budgets, "DAYS", 3)
    web = made(0, "mix", 6)
    group = np.zeros(PAGES, np.intp)
    (free,) = green_budgets.weeks(web, group, None, False)
    (found,) = green_budgets.weeks(web, group, np.array([0.7 * free.carbon.sum()]), False)
    assert found.carbon.sum() == pytest.approx(0.7 * free.carbon.sum(), rel=0.02)
    assert found.freshness > 0.98 * free.freshness


# --- the command


def test_the_command_prints_objects(capsys):
    few = ["--pages", "20", "--lambdas", "3", "--runs", "2", "--days", "1", "--json"]
    assert harness.main(["green", "--part", "figures", "--part", "servers", *few]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["part"] for row in rows} == {"figures", "servers"}
    assert len([row for row in rows if row["part"] == "figures"]) == 6
    assert {row["knows"] for row in rows if row["part"] == "servers"} == {each.name for each in HEURISTICS}
