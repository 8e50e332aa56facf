"""The account of energy and carbon, and the prices that keep budgets."""

from pathlib import Path

import numpy as np
import pytest

from gossamer.archive.state import PriceState
from gossamer.archive.store import Memory
from gossamer.carbon.account import Carbon, check_carbon
from gossamer.carbon.grid import means
from gossamer.carbon.prices import STEP_S, Prices, load_contracts, packed, unpacked
from gossamer.columns import VISITED, Outcome
from gossamer.config import Config
from gossamer.crawl.reader import Visit
from gossamer.crawl.states import after
from gossamer.errors import ConfigError
from gossamer.fetch.request import Request, Response
from gossamer.frontier.pages import HOST_SHIFT, PageIndex
from gossamer.web.url import host_key, page_key

NOW_S = 1_700_000_000.0
GERMAN, FRENCH = "de.test", "fr.test"
PLACES = {GERMAN: "DE", "*.fr.test": "FR", FRENCH: "FR"}


def carbon_of(index=None, state=None, **values):
    given = {"carbon.signal": "mean", "carbon.places": PLACES}
    given |= {f"carbon.{name}": value for name, value in values.items()}
    index = index or PageIndex.open(Memory(), {}, Config().index)
    return Carbon(Config().replace(given).carbon, index, state or PriceState())


def rows_of(*visits):
    """(host, address, wire_bytes)"""
    host, address, wire_bytes = (list(column) for column in zip(*visits, strict=True)) if visits else ([], [], [])
    return {"host": host, "address": address, "wire_bytes": wire_bytes}


def known(index, *hosts):
    keys = np.array(sorted(host_key(host) for host in hosts), np.uint32)
    ones = np.ones(len(keys), np.int64)
    index.hosts.grow(keys, keys, ones, ones)
    return index


def test_every_visit_is_accounted_for_at_both_ends():
    it = carbon_of(kwh_per_gb=0.2, kwh_per_gb_low=0.1, request_j=3.0)
    found = it.account(rows_of((GERMAN, "1.1.1.1", 10**6), (FRENCH, "1.1.1.1", 0), ("x.test", "", 500)), [], NOW_S)
    assert found["country"] == ["DE", "FR", ""]
    assert found["energy_j"].tolist() == pytest.approx([0.2e-3 * 3.6e6 + 3, 3, 0])
    assert found["energy_low_j"].tolist() == pytest.approx([0.1e-3 * 3.6e6 + 3, 3, 0])
    german, french = means(np.array(["DE", "FR"])).tolist()
    assert found["g_per_kwh"].tolist()[:2] == [german, french]
    assert found["carbon_g"].tolist() == pytest.approx([(0.2e-3 + 3 / 3.6e6) * german, 3 / 3.6e6 * french, 0])


def test_nothing_costs_nothing():
    found = carbon_of().account(rows_of(), [], NOW_S)
    assert (found["country"], len(found["carbon_g"])) == ([], 0)


def test_hosts_are_located_by_address_and_remembered():
    index = known(PageIndex.open(Memory(), {}, Config().index), "a.test", GERMAN)
    it = carbon_of(index)
    it.account(rows_of(("a.test", "8.8.8.8", 9), (GERMAN, "8.8.8.8", 9), ("unknown.test", "8.8.8.8", 9)), [], NOW_S)
    rows = index.hosts.look_up(np.array(sorted([host_key("a.test"), host_key(GERMAN)]), np.uint32))[1]
    assert {host_key("a.test"): "US", host_key(GERMAN): "DE"} == {
        int(row["host"]): unpacked(int(row["country"])) for row in rows
    }
    assert len(index.hosts) == 2


def test_what_a_visit_would_cost():
    index = known(PageIndex.open(Memory(), {}, Config().index), GERMAN, FRENCH)
    it = carbon_of(index, price=5.0)
    it.account(rows_of((GERMAN, "1.1.1.1", 9), (FRENCH, "1.1.1.1", 9)), [], NOW_S)
    visited = np.zeros(2, VISITED.numpy)
    visited["wire_bytes"] = 10**6
    hosts = np.array(sorted([host_key(GERMAN), host_key(FRENCH)]), np.uint32)
    grams, price, _ = it.of(visited, hosts, NOW_S)
    german, french = means(np.array(["DE", "FR"])).tolist()
    ratio = grams[hosts.tolist().index(host_key(GERMAN))] / grams[hosts.tolist().index(host_key(FRENCH))]
    assert ratio == pytest.approx(german / french)
    assert price.tolist() == [5.0, 5.0]
    seen = it.seen()
    assert sorted(seen["place"]) == ["DE", "FR"]
    assert it.seen()["place"] == []


def test_a_server_may_say_it_itself():
    url = f"http://{GERMAN}/"
    response = Response(Request(page_key(url), url, GERMAN), Outcome.OK)
    said = Visit(response, Outcome.OK, "", after(Outcome.OK, 0, NOW_S, Config()), kept={"carbon-intensity": "7.5"})
    index = known(PageIndex.open(Memory(), {}, Config().index), GERMAN)
    it = carbon_of(index)
    found = it.account(rows_of((GERMAN, "1.1.1.1", 9)), [said], NOW_S)
    assert found["g_per_kwh"].tolist() == [7.5]
    grams, _, _ = it.of(np.zeros(1, VISITED.numpy), np.array([host_key(GERMAN)], np.uint32), NOW_S)
    assert grams.tolist() == pytest.approx([0.1 / 3.6e6 * 7.5])


def test_country_codes_as_the_index_has_them():
    assert unpacked(packed("DE")) == "DE"
    assert unpacked(packed("")) == ""
    assert packed("FR") < 2**16


# --- prices


NONE = np.zeros(0, np.uint64)


def keys_of(hosts):
    """A page of each host."""
    return hosts.astype(np.uint64) << HOST_SHIFT


def spend(it, grams, steps, now_s=NOW_S, host=0, country=0):
    """So many steps of a minute in each of which so much is spent, for things worth a thousand per gram."""
    hosts, countries = np.array([host], np.uint32), np.array([country], np.uint32)
    for step in range(steps):
        it.chosen(keys_of(hosts), countries, np.array([1000.0 * grams]), np.array([grams]))
        it.spent(hosts, countries, np.array([grams]), now_s + STEP_S * step, NONE)
    return float(it.of(hosts, countries)[0])


def settings_of(**values):
    return Config().replace({f"carbon.{name}": value for name, value in values.items()}).carbon


def test_prices_rise_over_budget_and_fall_below_it():
    it = Prices(settings_of(g_per_day=144.0), PriceState())  # a tenth of a gram a minute
    high = spend(it, 0.5, 30)
    assert high > 0
    assert spend(it, 0.001, 30, NOW_S + 1800) < high


def test_a_price_that_was_set_stays():
    it = Prices(settings_of(price=3.0), PriceState())
    assert spend(it, 99.0, 20) == 3.0


def test_contracts_of_hosts_and_countries(tmp_path: Path):
    file = tmp_path / "contracts.toml"
    file.write_text('["a.test"]\nprice = 2.0\n[DE]\ng_per_day = 1.44\n["b.test"]\nprice = 4.0\ng_per_day = 0.0\n')
    it = Prices(settings_of(contracts=str(file), price=1.0), PriceState())
    hosts = np.array([host_key("a.test"), host_key("a.test"), host_key("c.test")], np.uint32)
    countries = np.array([packed("DE"), packed("FR"), packed("FR")], np.uint32)
    assert it.of(hosts, countries).tolist() == [3.0, 3.0, 1.0]
    spend(it, 1.0, 10, host=int(hosts[0]), country=packed("DE"))
    after = it.of(hosts, countries).tolist()
    assert after[0] > 3.0
    assert after[1:] == [3.0, 1.0]


def test_prices_survive_a_restart():
    it = Prices(settings_of(g_per_day=1.0), PriceState())
    price = spend(it, 5.0, 20)
    again = Prices(settings_of(g_per_day=1.0), it.state())
    assert again.of(np.zeros(1, np.uint32), np.zeros(1, np.uint32)).tolist() == [price]
    other = Prices(settings_of(price=2.0), it.state())
    assert other.of(np.zeros(1, np.uint32), np.zeros(1, np.uint32)).tolist() == [2.0]


def test_when_a_days_budget_is_spent_nothing_is_affordable_until_the_next_day():
    it, none = Prices(settings_of(g_per_day=1.0), PriceState()), np.zeros(2, np.uint32)
    assert it.affords(none, none, np.array([0.9, 1.1]), NOW_S).tolist() == [True, False]
    it.chosen(keys_of(none[:1]), none[:1], np.ones(1), np.array([0.4]))
    assert it.affords(none, none, np.array([0.5, 0.7]), NOW_S).tolist() == [True, False]
    it.spent(none[:1], none[:1], np.array([0.2]), NOW_S + 1, NONE)  # it took less
    assert it.affords(none, none, np.array([0.7, 0.9]), NOW_S + 2).tolist() == [True, False]
    again = Prices(settings_of(g_per_day=1.0), it.state())
    assert again.affords(none, none, np.array([0.7, 0.9]), NOW_S + 2).tolist() == [True, False]
    assert it.affords(none, none, np.array([0.7, 0.9]), NOW_S + 86_401).tolist() == [True, True]


def test_pages_that_no_policy_chose_are_promised_in_their_order_and_the_others_come_tomorrow():
    it, none = Prices(settings_of(g_per_day=1.0), PriceState(began_s=NOW_S - 3600)), np.zeros(3, np.uint32)
    pages = np.array([3, 5, 7], np.uint64)
    assert it.reserve(pages, none, np.full(3, 0.4), NOW_S).tolist() == [True, True, False]
    assert it.reserve(pages[2:], none[2:], np.full(1, 0.4), NOW_S).tolist() == [False]
    assert it.next_day_s(NOW_S) == NOW_S + 86_400 - 3600
    it.spent(none[:2], none[:2], np.full(2, 0.4), NOW_S, NONE)
    assert it.reserve(pages[2:], none[2:], np.full(1, 0.4), it.next_day_s(NOW_S)).tolist() == [True]
    assert it.of(none, none).tolist() == [0.0, 0.0, 0.0], "what a gram buys follows from what a policy chose"


def test_what_is_under_way_at_a_commit_stays_promised():
    it, none = Prices(settings_of(g_per_day=1.0), PriceState()), np.zeros(2, np.uint32)
    pages = np.array([3, 5], np.uint64)
    it.chosen(pages, none, np.ones(2), np.array([0.4, 0.3]))
    it.spent(none[:1], none[:1], np.array([0.4]), NOW_S, pages[1:])
    assert it.affords(none, none, np.array([0.29, 0.4]), NOW_S).tolist() == [True, False]
    it.spent(none[:0], none[:0], np.zeros(0), NOW_S, NONE)  # given back, not visited
    assert it.affords(none, none, np.array([0.59, 0.7]), NOW_S).tolist() == [True, False]


def test_a_round_that_tells_of_yesterdays_visits_does_not_begin_a_day():
    it, none = Prices(settings_of(g_per_day=1.0), PriceState()), np.zeros(1, np.uint32)
    it.spent(none, none, np.array([0.1]), NOW_S, NONE)
    it.spent(none, none, np.array([0.9]), NOW_S + 86_401, NONE)
    it.spent(none, none, np.array([0.0]), NOW_S + 86_399, NONE)  # they began before midnight
    assert it.affords(none, none, np.array([0.5]), NOW_S + 86_402).tolist() == [False]


def test_visits_that_are_made_together_are_paid_together(tmp_path: Path):
    (tmp_path / "c.toml").write_text("[DE]\ng_per_day = 1.0\n[FR]\ng_per_day = 5.0\n")
    it = Prices(settings_of(contracts=str(tmp_path / "c.toml"), g_per_day=4.0), PriceState())
    country = np.array([packed(code) for code in ("DE", "FR", "DE", "FR", "SE", "SE")], np.uint32)
    grams = np.array([0.6, 1.0, 0.6, 1.0, 0.5, 0.5])
    hosts = np.zeros(6, np.uint32)
    assert it.affords(hosts, country, grams, NOW_S).all()
    assert it.affords(hosts, country, grams, NOW_S, together=True).tolist() == [True, True, False, True, True, False]


def test_a_budget_is_met():
    """Visits of random worth and cost: those that are worth their price are made, and a week costs what it may."""
    rng, budget = np.random.default_rng(1), 2.0
    it, spent = Prices(settings_of(g_per_day=budget), PriceState()), 0.0
    none = np.zeros(1, np.uint32)
    for step in range(7 * 288):
        worth, grams = rng.exponential(1.0, 100), rng.exponential(0.001, 100)
        made = worth >= it.of(none, none)[0] * grams
        zeros = np.zeros(int(made.sum()), np.uint32)
        it.chosen(keys_of(zeros), zeros, worth[made], grams[made])
        it.spent(zeros, zeros, grams[made], NOW_S + 300.0 * step, NONE)
        spent += grams[made].sum()
    assert spent == pytest.approx(7 * budget, rel=0.02)


@pytest.mark.parametrize("text", ["[x", '["a.test"]\nbudget = 1', '["a.test"]\nprice = -1', "a = 1", '["a.test"]'])
def test_contracts_that_make_no_sense(tmp_path: Path, text: str):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"carbon\.contracts"):
        load_contracts(tmp_path / "c.toml")


def test_settings_that_make_no_sense():
    with pytest.raises(ConfigError, match="kwh_per_gb_low"):
        check_carbon(settings_of(kwh_per_gb_low=1.0))
    with pytest.raises(ConfigError, match="country code"):
        check_carbon(settings_of(places={"a.test": "Germany"}))
