"""Which pages are visited again: due ones first, within budget, politely spread over hosts, and nothing that waits."""

import numpy as np
import pytest

from gossamer.archive.state import PriceState
from gossamer.archive.store import Memory
from gossamer.carbon.account import Carbon
from gossamer.carbon.prices import packed
from gossamer.clocks import VirtualClock
from gossamer.columns import NEVER, PAGE, REQUISITE, VISITED, Status
from gossamer.config import REFRESH, Config
from gossamer.errors import ConfigError
from gossamer.frontier.pages import PageIndex, host_of_key
from gossamer.refresh.change_rates import counted
from gossamer.refresh.importance import DAMPING, Importance
from gossamer.refresh.policies import POLICIES
from gossamer.refresh.refresher import Refresher, check_refresh
from gossamer.refresh.visit_history import counters, set_counters

NOW_S = 1_700_000_000.0
NONE = np.zeros(0, np.uint64)


def index_of(age_s, hosts=1, **columns):
    """One visited page for each age, spread over hosts; further columns of PAGE or VISITED."""
    index = PageIndex.open(Memory(), {}, Config().index)
    count = len(age_s)
    keys = np.array([(place % hosts) << 40 | place for place in range(count)], np.uint64)
    pages, visited = np.zeros(count, PAGE.numpy), np.zeros(count, VISITED.numpy)
    pages["status"], pages["due_s"], visited["visits"] = Status.FETCHED, NEVER, 1
    visited["first_s"] = visited["last_s"] = NOW_S - np.asarray(age_s)
    pages["key"] = visited["key"] = keys
    for name, values in columns.items():
        (pages if name in PAGE.names else visited)[name] = values
    order = np.argsort(keys)
    index.pages.write(pages[order])
    index.visited.write(visited[order])
    return index


def refresher(index, policy, **values):
    given = {"refresh.policy": policy, "refresh.least_s": 1.0, "refresh.interval_s": 100.0, "refresh.weight": "alike"}
    given |= {"polite.delay_s": 0.0, **{name.replace("__", "."): value for name, value in values.items()}}
    return Refresher(index, Config().replace(given), VirtualClock(NOW_S))


def taken(it, count=100, now_s=NOW_S, per_host=100, busy=NONE):
    return (it.take(count, now_s, busy, per_host)["key"] & np.uint64(0xFFFFFF)).tolist()


def test_the_configuration_knows_every_policy():
    assert list(REFRESH) == ["never", *POLICIES]


def test_fixed_takes_what_is_due_the_most_overdue_first():
    it = refresher(index_of([50, 150, 99, 300, 100]), "fixed")
    assert taken(it, 2) == [3, 1]
    assert taken(it, 2) == [4]
    assert it.next_due_s(NOW_S, NONE) == NOW_S + 1
    assert taken(it, now_s=NOW_S + 1, busy=np.array([1, 3, 4], np.uint64)) == [2]


def test_when_something_is_due_can_be_reported():
    """A report is JSON, which has no NumPy numbers: an agent among others ended with an error."""
    assert type(refresher(index_of([50, 70]), "fixed").next_due_s(NOW_S, NONE)) is float


class SlowClock(VirtualClock):
    """Every look at it takes a second."""

    def monotonic(self):
        self.advance(1.0)
        return super().monotonic()


def test_between_two_looks_nobody_says_never():
    """A look may not follow the last one at once. Until it does, pages that were visited meanwhile are not forgotten:
    a crawl with nothing ahead of it would end."""
    index, values = index_of([150]), {"refresh.policy": "fixed", "refresh.interval_s": 100.0}
    it = Refresher(index, Config().replace(values), SlowClock(NOW_S))
    assert taken(it) == [0]
    it.committed()
    soon_s = it.next_due_s(NOW_S, NONE)
    assert soon_s is not None
    assert NOW_S < soon_s < NOW_S + 60


def test_what_is_listed_but_not_taken_is_not_forgotten():
    index, values = index_of([150, 150]), {"refresh.policy": "fixed", "refresh.interval_s": 100.0}
    it = Refresher(index, Config().replace(values), SlowClock(NOW_S))
    assert taken(it, 1) == [0]
    assert taken(it, 1, busy=np.array([1], np.uint64)) == [], "somebody has it already"
    assert it.next_due_s(NOW_S, NONE) is not None


def test_adaptive_goes_by_its_pages_own_intervals():
    it = refresher(index_of([50, 50, 150], interval_s=[40, 60, 0]), "adaptive")
    assert taken(it) == [2, 0]


def test_adaptive_spends_its_budget_on_the_most_overdue():
    """No interval is over; still the budget allows visits, and they go where the age is the largest part of it."""
    it = refresher(index_of([50, 50, 10], interval_s=[400, 100, 200]), "adaptive", refresh__visits_per_day=86_400.0)
    it.next_due_s(NOW_S - 2, NONE)  # two visits are saved up
    assert taken(it) == [1, 0]


def restless(age_s, **more):
    """Pages that had changed at each of two visits, an hour apart, and were visited last so long ago."""
    index = index_of(age_s, visits=3, changes=2, first_s=NOW_S - np.asarray(age_s) - 7200.0, change_rate=1e9 / 3600)
    rows = np.concatenate(list(index.visited.scan()))
    set_counters(rows, counted(counters(rows), 3600.0, np.ones(len(rows), np.bool_), 1.0))
    for name, values in more.items():
        rows[name] = values
    index.visited.write(rows)
    return index


def test_a_page_that_always_had_changed_is_visited_sooner_once():
    ages_s = [100.0, 1_000.0, 4_000.0]  # too soon, after a quarter of the hour, too late to tell more
    assert taken(refresher(restless(ages_s), "index"))[0] == 1
    known = refresher(restless(ages_s, changes=1), "index")  # once it had not: nothing needs to be found out
    assert taken(known)[0] == 2


@pytest.mark.parametrize(("policy", "age_s"), [("azar", 30_000.0), ("harmonic", 30_000.0), ("index", 500.0)])
def test_what_changes_often_is_visited_often(policy, age_s):
    rates = [0, 1e9 / 10_000, 1e9 / 1_000, 1]  # never visited twice, rarely, often, hardly ever
    it = refresher(index_of([age_s] * 4, change_rate=rates), policy, refresh__visits_per_day=86_400.0 / 500)
    it.next_due_s(NOW_S - 10_000, NONE)  # from here on visits are saved up
    order = taken(it)
    assert order.index(2) < order.index(1)
    assert 3 not in order[:2]


def test_weights_are_links():
    it = refresher(index_of([1000.0] * 3, hits=[0, 9, 4], change_rate=1e5), "index", refresh__weight="hits")
    assert taken(it) == [1, 2, 0]


# --- what pages weigh


def default(index, policy="index", importance=None):
    config = Config().replace({"refresh.policy": policy, "refresh.least_s": 1.0})
    return Refresher(index, config, VirtualClock(NOW_S), importance=importance)


def test_by_default_a_page_weighs_by_links_at_first_and_with_visits_by_all_cash_it_ever_had():
    facts = {"hits": [9, 0, 3, 0], "change_rate": 1e5, "history": [0, 500, 0, 3000], "cash": [0, 0, 900, 0]}
    assert taken(default(index_of([1000.0] * 4, **facts))) == [0, 2, 1, 3]
    assert taken(default(index_of([1000.0] * 4, visits=60, **facts))) == [3, 2, 1, 0]


def test_what_the_virtual_page_gave_counts_too():
    """Rows lack it: a page that was visited has minus so much."""
    index = index_of([1000.0] * 2, change_rate=1e5, visits=9, history=[10, 0], cash=[-700, -500])
    assert taken(default(index, "stalest", Importance(lambda: 700))) == [1, 0]


def test_pagerank_counts_where_it_is_known_and_opic_elsewhere():
    """The first two have PageRank, three times the mean and a little; the others have cash, by which the fourth is
    above the mean."""
    index = index_of([1000.0] * 4, change_rate=1e5, visits=60, history=[1, 900, 10, 990])
    ranks = np.array([0.6, 0.1, 0.0, 0.0])
    assert taken(default(index, importance=Importance(pagerank=lambda keys: ranks[keys.astype(np.intp)])))[:2] == [3, 0]


def test_importance_is_one_on_average_and_never_nothing():
    index = index_of([1000.0] * 5, visits=4, hits=[0, 0, 0, 0, 5], history=[0, 0, 100, 300, 600])
    rows = [(visited, index.pages.look_up(visited["key"])[1]) for visited in index.visited.scan()]
    importance = Importance()
    importance.measure(rows)
    values = importance.of(*rows[0])
    assert values.mean() == pytest.approx(1.0)
    assert values[4] == pytest.approx(1 - DAMPING + DAMPING * (3 + 3) / 2), "links and cash count alike now"
    assert values[0] == pytest.approx(1 - DAMPING + DAMPING * (0.5 + 0) / 2)
    nobody = Importance()  # nothing was measured
    nobody.measure([(visited[:0], pages[:0]) for visited, pages in rows])
    assert nobody.of(*rows[0]) == pytest.approx(np.ones(5))


def test_requisites_do_not_count_in_the_mean():
    index = index_of([1000.0] * 3, change_rate=1e5, history=[10, 20, 10**9], hops=[0, 0, REQUISITE])
    it = Refresher(index, Config().replace({"refresh.policy": "stalest", "refresh.least_s": 1.0}), VirtualClock(NOW_S))
    keys, values, _ = it.all_due(NOW_S)
    assert (keys & np.uint64(0xFF)).tolist() == [0, 1]
    assert values.mean() == pytest.approx(1000.0)


def test_weights_follow_what_commits_bring():
    index = index_of([1000.0] * 3, change_rate=1e5, visits=60, history=[30, 20, 10])
    it = default(index)
    assert taken(it, 1) == [0]
    rows = next(index.visited.scan()).copy()
    rows["history"] = [30, 20, 1000]
    index.visited.write(rows)
    it.committed()
    assert taken(it, 3) == [2, 0, 1]


@pytest.mark.parametrize("policy", ["green", "green-index", "index"])
def test_what_is_likely_to_have_changed_is_worth_more(policy):
    index = index_of([1000.0] * 3, hosts=3, change_rate=[1e3, 3e5, 1e4], wire_bytes=10_000)
    values = {"refresh.policy": policy, "refresh.least_s": 1.0, "refresh.weight": "alike", "carbon.price": 1e-9}
    config = Config().replace(values)
    carbon = Carbon(config.carbon, index, PriceState())
    assert taken(Refresher(index, config, VirtualClock(NOW_S), carbon=carbon)) == [1, 2, 0]


def test_a_host_gets_no_more_than_its_turn():
    index = index_of([200.0] * 12, hosts=3)
    it = refresher(index, "fixed")
    busy = np.array([1 << 40 | 100], np.uint64)
    rows = it.take(100, NOW_S, busy, 2)
    assert np.bincount(host_of_key(rows["key"])).tolist() == [2, 1, 2]


def test_pages_that_wait_for_something_else_are_left_alone():
    status = [Status.FETCHED, Status.GONE, Status.FETCHED, Status.FAILED]
    it = refresher(index_of([200.0] * 4, status=status, due_s=[NEVER, NEVER, int(NOW_S) + 5, NEVER]), "fixed")
    assert taken(it) == [0]
    busy = np.zeros(1, np.uint64)
    assert taken(refresher(index_of([200.0]), "fixed"), busy=busy) == []


def test_the_budget_is_kept():
    it = refresher(index_of([200.0] * 50), "fixed", refresh__visits_per_day=86_400.0 / 10)
    assert taken(it) == []
    assert it.next_due_s(NOW_S, NONE) == pytest.approx(NOW_S + 10)
    assert len(taken(it, now_s=NOW_S + 35)) == 3
    assert len(taken(it, now_s=NOW_S + 40)) == 1


def test_an_agent_has_its_part_of_the_budget():
    config = Config().replace(
        {"refresh.policy": "fixed", "refresh.interval_s": 100.0, "refresh.visits_per_day": 8640.0}
    )
    it = Refresher(index_of([200.0] * 50), config, VirtualClock(NOW_S), lambda: 0.25)
    it.take(9, NOW_S, NONE, 100)
    assert len(it.take(9, NOW_S + 80, NONE, 100)) == 2


@pytest.mark.parametrize("policy", ["fixed", "index"])
def test_bounds(policy):
    it = refresher(index_of([50.0, 7000.0], change_rate=1e9), policy, refresh__least_s=60.0, refresh__interval_s=1.0,
                   refresh__most_s=80.0)  # fmt: skip
    assert taken(it) == [1]
    assert it.next_due_s(NOW_S, np.ones(1, np.uint64)) == NOW_S + 10
    late = refresher(index_of([50.0, 90.0]), "fixed", refresh__interval_s=500.0, refresh__most_s=80.0)
    assert taken(late) == [1]


def test_what_was_visited_counts_at_the_next_look():
    index = index_of([200.0, 150.0])
    it = refresher(index, "fixed")
    assert taken(it, 1) == [0]
    row = index.visited.look_up(np.zeros(1, np.uint64))[1]
    row["last_s"] = NOW_S
    index.visited.write(row)
    it.committed()
    assert taken(it) == [1]
    assert it.next_due_s(NOW_S, np.ones(1, np.uint64)) == NOW_S + 100


def test_all_that_is_due_within_our_patience():
    it = refresher(index_of([200.0, 95.0, 60.0]), "fixed")
    assert it.last_due_s(NOW_S, NONE, 10.0) == NOW_S + 5
    assert it.last_due_s(NOW_S, NONE, 50.0) == NOW_S + 40
    assert refresher(index_of([10.0]), "fixed").last_due_s(NOW_S, NONE, 5.0) is None


def test_no_page_no_time():
    it = refresher(index_of([]), "fixed")
    assert taken(it) == []
    assert it.next_due_s(NOW_S, NONE) is None


def test_the_same_again():
    ages = np.random.default_rng(1).integers(0, 500, 300)
    for policy in ("fixed", "index", "stalest"):
        first, second = (taken(refresher(index_of(ages, hosts=7), policy), 50) for _ in range(2))
        assert first == second
        assert len(first) == 50


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"refresh.policy": "azar"}, "refresh.visits_per_day"),
        ({"refresh.policy": "green"}, "carbon.g_per_day"),
        ({"refresh.policy": "fixed", "refresh.least_s": 100.0, "refresh.most_s": 10.0}, "refresh.most_s"),
    ],
)
def test_what_cannot_work_is_said(values, words):
    with pytest.raises(ConfigError, match=words):
        check_refresh(Config().replace(values))


# --- green


def green(policy="green", **values):
    """Three pages of the same age: a small one in Poland, a large one and a small one in Sweden."""
    index = index_of([1000.0] * 3, hosts=3, wire_bytes=[10_000, 90_000, 10_000])
    hosts, ones = np.arange(3, dtype=np.uint32), np.ones(3, np.int64)
    index.hosts.grow(hosts, hosts, ones, ones)
    index.hosts.locate(hosts, np.array([packed("PL"), packed("SE"), packed("SE")], np.uint16))
    given = {"refresh.policy": policy, "refresh.least_s": 1.0, "refresh.weight": "alike", "carbon.signal": "mean"}
    config = Config().replace(given | {name.replace("__", "."): value for name, value in values.items()})
    carbon = Carbon(config.carbon, index, PriceState())
    return Refresher(index, config, VirtualClock(NOW_S), carbon=carbon), carbon


def test_carbon_decides_where_staleness_is_the_same():
    it, _ = green(carbon__price=1e4)
    assert taken(it)[0] == 2
    assert sorted(taken(it, busy=np.array([2 << 40 | 2], np.uint64))) == [0, 1]


def test_with_a_high_price_it_may_idle():
    it, _ = green(carbon__price=1e9)
    assert len(taken(it)) == 3  # as in the seed: it never does
    idle, _ = green(carbon__price=1e9, carbon__idle="negative")
    assert taken(idle) == []
    assert idle.next_due_s(NOW_S, NONE) == NOW_S + 60
    cheap, _ = green(carbon__price=1.0, carbon__idle="negative")
    assert len(taken(cheap)) == 3


@pytest.mark.parametrize("policy", ["green", "green-index"])
def test_what_the_budget_does_not_allow_is_not_visited(policy):
    it, carbon = green(policy, carbon__g_per_day=1e-5)
    visited = np.zeros(3, VISITED.numpy)
    visited["wire_bytes"] = [10_000, 90_000, 10_000]
    grams = carbon.of(visited, np.arange(3, dtype=np.uint32), NOW_S)[0]
    assert set(taken(it)) == set(np.flatnonzero(grams <= 1e-5).tolist())
    none, _ = green(policy, carbon__g_per_day=1e-9)
    assert taken(none) == []
