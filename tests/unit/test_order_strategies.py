import numpy as np
import pytest

from gossamer.columns import HOST, LINK, PAGE
from gossamer.errors import ConfigError
from gossamer.frontier.strategies import ORDERS, Strategy, by_chance, by_depth, strategy

OWN = Strategy("own", "for the test", by_depth)


def rows(**columns):
    made = np.zeros(len(next(iter(columns.values()))), PAGE.numpy)
    for name, values in columns.items():
        made[name] = values
    return made


def order(name, made, seed=0):
    return np.argsort(-strategy(name).page_rank(made, seed), kind="stable").tolist()


def test_what_each_order_prefers():
    made = rows(key=[1, 2, 3, 4], cash=[5, -7, 90, 90], text=[30, 10, 40, 20], hits=[2, 9, 1, 3], depth=[1, 0, 3, 2])
    assert order("breadth-first", made) == [1, 3, 0, 2]
    assert order("backlink-count", made) == [1, 3, 0, 2]
    assert order("opic", made) == order("opic-virtual", made) == order("larger-sites-opic", made) == [2, 3, 0, 1]
    assert order("shallow-first", made) == [1, 0, 3, 2]
    hosts = np.zeros(2, HOST.numpy)
    hosts["known"], hosts["visited"] = [10, 7], [8, 0]
    host_rank = strategy("larger-sites-first").host_rank
    assert host_rank is not None
    assert host_rank(hosts).tolist() == [2, 7]
    assert [name for name in ORDERS if ORDERS[name].virtual] == ["opic-virtual"]


def test_shallow_first_keeps_the_order_of_cash_within_a_depth():
    cash = [-(2**62), -5, 0, 3, 4, 2**40, 2**62]
    ranks = by_depth(rows(cash=cash + cash, depth=[3] * 7 + [2] * 7), 0)
    assert (np.diff(ranks) > 0).all()


def test_random_depends_on_seed_and_key_only():
    made = rows(key=np.arange(1, 1001), cash=np.arange(1000))
    assert np.array_equal(by_chance(made, 5), by_chance(made[::-1], 5)[::-1])
    assert not np.array_equal(by_chance(made, 5), by_chance(made, 6))
    assert len(np.unique(by_chance(made, 5))) == 1000
    assert abs(by_chance(made, 5).mean() / 2**53 - 0.5) < 0.05


@pytest.mark.parametrize("name", ORDERS)
def test_ranks_and_weights_have_the_type_that_the_lab_compiles_them_to(name):
    """On rows as the index has them, which are packed; also on none."""
    order = ORDERS[name]
    for count in (0, 3):
        scored = np.zeros(count, [*PAGE.numpy.descr, ("score", "f8")])
        ranks = order.page_rank(scored, 2**63 - 1)
        assert (ranks.dtype, ranks.shape) == (np.float64, (count,))
        if order.host_rank is not None:
            assert order.host_rank(np.zeros(count, HOST.numpy)).dtype == np.float64
        if order.link_weight is not None:
            links = np.zeros(count, LINK.numpy)
            links["foreign"], links["relevance"] = 1, 1.0
            assert order.link_weight(links).dtype == np.int64
            assert (order.link_weight(links) > 0).all()


def test_names():
    assert strategy("opic") is ORDERS["opic"]
    assert strategy(f"{__name__}:OWN") is OWN
    with pytest.raises(ConfigError, match="did you mean breadth-first"):
        strategy("breadth_first")
    with pytest.raises(ConfigError, match="known are opic"):
        strategy("zzzz")
    for wrong in ("no.such.module:x", "gossamer.columns:NO", "gossamer.columns:PAGE", ":x"):
        with pytest.raises(ConfigError, match="Strategy"):
            strategy(wrong)
