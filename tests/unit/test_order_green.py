"""The green policy: the special cases of LEADS D1.4, energy and carbon, budgets by dual ascent, contracts."""

import numpy as np
import pytest

from experiments.green_choice import (
    HIGH,
    affordable,
    choose,
    free_lambdas,
    green_value,
    within,
)
from gossamer.carbon.energy import (
    BYTES_PER_GB,
    CENTRE_KWH_PER_GB,
    J_PER_KWH,
    Contract,
    Energy,
    Lambdas,
    agreed,
    carbon_g,
    pace,
)

RANDOM = np.random.default_rng(7)
PAGES = 200
KEYS = RANDOM.permutation(PAGES).astype(np.uint64)
LOW = Energy((CENTRE_KWH_PER_GB + 0.001) * J_PER_KWH / BYTES_PER_GB)


def shuffled(keys, seed):
    """Keys in an order that the seed decides (the finaliser of SplitMix64): equal values then go by chance."""
    hashed = keys ^ np.uint64(seed % 2**64)
    hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashed ^ (hashed >> np.uint64(31))


def given_lambdas(value):
    """Prices that stay."""
    fixed = np.asarray(value, np.float64)
    return Lambdas(fixed, np.zeros(len(fixed), np.bool_), np.zeros(len(fixed)))


def first(staleness, energy, index, price):
    """The page that one thread visits."""
    value = green_value(staleness, np.broadcast_to(energy * index, PAGES), price)
    return int(choose(value, KEYS, 1)[0])


# --- special cases of LEADS D1.4, section 2.3


def test_one_server_and_equal_energies_the_stalest():
    staleness = RANDOM.permutation(PAGES).astype(float)
    for index in (0.0, 0.4, 1.0):
        assert first(staleness, np.full(PAGES, 0.5), index, 10.0) == staleness.argmax()


def test_one_server_and_equal_staleness_the_smallest():
    energy = RANDOM.random(PAGES)
    assert first(np.full(PAGES, 5.0), energy, 0.7, 10.0) == energy.argmin()


def test_equal_staleness_the_smallest_product():
    energy, index, price = RANDOM.random(PAGES), RANDOM.random(PAGES), RANDOM.random(PAGES)
    assert first(np.full(PAGES, 5.0), energy, index, price) == (energy * index * price).argmin()


def test_equal_staleness_energy_and_lambda_any_page_of_the_greenest_server():
    """Which one is by chance, and the seed repeats it."""
    server = np.arange(PAGES) % 10
    index = (server + 3) % 10 / 10
    value = green_value(np.full(PAGES, 5.0), 0.5 * index, 10.0)
    chosen = [int(choose(value, shuffled(KEYS, seed), 1)[0]) for seed in range(50)]
    assert {server[page] for page in chosen} == {7}
    assert len(set(chosen)) > 8
    assert chosen == [int(choose(value, shuffled(KEYS, seed), 1)[0]) for seed in range(50)]


def test_equal_energy_and_lambda_staleness_less_a_multiple_of_the_index():
    """LEADS D1.4 prints "minimum s - g"; its formula says maximum s - (lambda e) g."""
    staleness, index = RANDOM.random(PAGES) * 5, RANDOM.random(PAGES)
    assert first(staleness, np.full(PAGES, 0.5), index, 4.0) == (staleness - 2.0 * index).argmax()


def test_equal_energy_lambda_and_index_the_stalest():
    staleness = RANDOM.random(PAGES)
    assert first(staleness, np.full(PAGES, 0.5), 0.3, 4.0) == staleness.argmax()


def test_lambda_zero_the_stalest():
    staleness = RANDOM.random(PAGES)
    assert first(staleness, RANDOM.random(PAGES), 1.0, 0.0) == staleness.argmax()


# --- threads, idling, weights


def test_several_threads_take_the_best_pages():
    value = RANDOM.random(PAGES) - 0.5
    assert choose(value, KEYS, 7).tolist() == np.argsort(-value)[:7].tolist()
    assert len(choose(value, KEYS, PAGES)) == PAGES


def test_who_may_idle_leaves_what_costs_more_than_it_brings():
    value = np.array([-1.0, 0.5, -0.1, 0.0])
    keys = np.arange(4, dtype=np.uint64)
    assert choose(value, keys, 4).tolist() == [1, 3, 2, 0]
    assert choose(value, keys, 4, idle=True).tolist() == [1, 3]
    assert choose(value[:1], keys[:1], 1, idle=True).tolist() == []


def test_what_a_budget_cannot_pay_is_forbidden():
    group, left = np.array([0, 0, 1, 1]), np.array([5.0, 1.0])
    value = affordable(np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 1.0, 2.0]), left, group)
    assert value.tolist() == [1, -np.inf, 3, -np.inf]
    assert affordable(np.ones(1), np.full(1, 9.0), left, np.array([-1])).tolist() == [1]
    assert choose(value, np.arange(4, dtype=np.uint64), 4).tolist() == [2, 0]


def test_pages_chosen_together_are_paid_one_after_the_other():
    group, left = np.array([0, 1, 0, 0, 1]), np.array([5.0, 2.0])
    carbon = np.array([3.0, 2.0, 2.0, 1.0, 1.0])
    assert within(np.array([2, 1, 0, 4, 3]), carbon, left, group).tolist() == [2, 1, 0]
    assert within(np.array([], np.intp), carbon, left, group).tolist() == []
    assert within(np.array([2, 1, 0]), carbon, left * 0, np.full(5, -1)).tolist() == [2, 1, 0]


def test_a_host_visited_in_few_steps_becomes_dearer_too():
    """Ten times the budget in one step of ten, nothing in nine, is what was allowed: the price stays."""
    prices = Lambdas(np.array([1.0]), np.ones(1, bool), np.array([1.0]))
    for carbon in (10.0, *[0.0] * 9):
        prices = prices.update(np.array([carbon]), np.array([1.0]), 0.01)
    assert prices.value == pytest.approx([1.0])


# --- energy and carbon


def test_energy_is_linear_in_bytes():
    assert Energy(2.0, 3.0).joules(np.array([0, 10])).tolist() == [3, 23]
    assert HIGH.joules([1e9])[0] / 3.6e6 == pytest.approx(0.114, rel=1e-3)
    assert LOW.joules([1e9])[0] / 3.6e6 == pytest.approx(0.056, rel=1e-3)


def test_grams():
    assert carbon_g(np.array([3.6e6]), np.array([380.0])).tolist() == [380.0]


# --- lambda


def test_lambda_rises_over_the_budget_and_falls_below_it():
    start = Lambdas(np.array([1.0, 1.0, 1.0, 0.05]), np.ones(4, bool), np.full(4, 2.0))
    budget = np.array([10.0, 10.0, 10.0, 10.0])
    after = start.update(np.array([15.0, 10.0, 5.0, 0.0]), budget, 0.1)
    assert after.value == pytest.approx([1.1, 1.0, 0.9, 0.0])


def test_an_agreed_price_stays():
    assert given_lambdas([2.0, 3.0]).update(np.ones(2), np.full(2, 0.1), 1.0).value.tolist() == [2, 3]


def test_no_budget_no_price():
    free = Lambdas(np.zeros(2), np.ones(2, bool), np.ones(2))
    assert free.update(np.array([5.0, 5.0]), np.array([np.inf, 0.0]), 0.5).value.tolist() == [0, 0.5]


def test_lambdas_of_pages():
    prices = given_lambdas([1.0, 2.0])
    assert prices.of(np.array([1, 0, -1, 1])).tolist() == [2, 1, 0, 2]


def test_steps_take_their_scale_from_what_was_visited():
    prices = free_lambdas(2).learned(np.array([6.0, 0.0]), np.array([2.0, 0.0]), keep=0.5)
    assert prices.unit.tolist() == [3, 0]
    assert prices.learned(np.array([10.0, 0.0]), np.array([2.0, 0.0]), keep=0.5).unit.tolist() == [4, 0]


def test_pace_spreads_the_rest():
    assert pace(np.array([100.0]), np.array([40.0]), 50.0, 5.0, 100.0).tolist() == [6.0]
    assert pace(np.array([100.0]), np.array([140.0]), 50.0, 5.0, 100.0).tolist() == [0.0]
    assert pace(np.array([100.0]), np.array([99.0]), 100.0, 5.0, 100.0).tolist() == [1.0]


@pytest.mark.parametrize("part", [0.7, 0.85])
def test_dual_ascent_meets_a_budget(part):
    """One server, 60 pages, one download a slot; the price finds itself."""
    energy = RANDOM.random(60)
    keys = np.arange(60, dtype=np.uint64)

    def crawl(slots, budget):
        prices, staleness, total = free_lambdas(1), np.zeros(60), 0.0
        for slot in range(slots):
            value = green_value(staleness, energy, prices.of(np.zeros(60, np.intp)))
            page = choose(value, keys, 1)
            worth, carbon = staleness[page].sum(), energy[page].sum()
            prices = prices.learned(np.array([worth]), np.array([carbon]), 0.95)
            if budget:
                now = pace(np.array([budget]), np.array([total]), slot, 1, slots)
                prices = prices.update(np.array([carbon]), now, 0.02)
            total += carbon
            staleness += 1
            staleness[page] = 0
        return total

    free = crawl(3000, None)
    assert crawl(3000, part * free) == pytest.approx(part * free, rel=0.02)


# --- contracts


def test_contracts_give_a_budget_or_a_price():
    contracts = {"a.test": Contract(budget_g=5.0), "b.test": Contract(price=0.7)}
    prices, budget = agreed(contracts, ["b.test", "a.test", "c.test"])
    assert prices.value.tolist() == [0.7, 0, 0]
    assert prices.adapts.tolist() == [False, True, False]
    assert budget.tolist() == [np.inf, 5, np.inf]
