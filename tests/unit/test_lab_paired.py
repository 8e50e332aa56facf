"""Orders compared pairwise: statistics, the weight that is chosen with a graph left out, and the held-out graphs."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import held_out, refresh_weights
from experiments.harness import main, p_value
from experiments.paired import WEIGHTS, Compared, interval, left_out, weighted
from gossamer.columns import LINK
from gossamer.frontier.strategies import ORDERS
from gossamer.sim.graphs import load


def test_the_interval_is_that_of_the_mean() -> None:
    """Of a hundred samples of a normal distribution it has the true mean about 95 times."""
    random = np.random.default_rng(1)
    samples = random.normal(3.0, 1.0, (100, 30))
    held = [low <= 3.0 <= high for low, high in (interval(sample) for sample in samples)]
    assert 86 <= sum(held) <= 99
    low, high = interval(np.full(30, 0.25))
    assert (low, high) == pytest.approx((0.25, 0.25))


def test_the_test_is_of_pairs_and_two_sided() -> None:
    assert p_value(np.zeros(30)) == 1.0
    up = np.linspace(0.001, 0.003, 30)
    assert p_value(up) == pytest.approx(p_value(-up))
    assert p_value(up) < 1e-6
    assert p_value(np.where(np.arange(30) % 2, up, -up)) > 0.5


def test_weights_are_parts_of_the_cash() -> None:
    links = np.zeros(2, LINK.numpy)
    links["foreign"] = [0, 1]
    for weight in WEIGHTS:
        assert weighted(weight).link_weight(links).tolist() == [1, weight]  # type: ignore[misc]
    for name, weight in (("opic-foreign", 10), ("trans-host", 1000)):
        assert ORDERS[name].link_weight(links).tolist() == [1, weight]  # type: ignore[misc]


def compared(graph: str, gains: dict[int, float], kind: str = "given") -> Compared:
    base = np.full(30, 0.5)
    averages = {"opic": base, **{f"foreign-{weight}": base + gains.get(weight, 0.0) for weight in WEIGHTS}}
    return Compared(kind, graph, 100, 10, 0.1, "random", averages)


def test_a_graph_has_no_part_in_the_choice_that_is_tried_on_it() -> None:
    one, two = compared("one", {30: 0.06, 4: 0.01}), compared("two", {10: 0.02, 30: -0.03})
    three = compared("three", {10: 0.03}, "held out")
    rows = {row["graph"]: row for row in left_out([one, two, three])}
    assert (rows["one"]["weight"], rows["one"]["gain"]) == (10, pytest.approx(0.0))
    assert (rows["two"]["weight"], rows["two"]["gain"]) == (30, pytest.approx(-0.03))
    assert rows["two"]["fixed"] == pytest.approx(0.02)
    assert rows["three"]["weight"] == 30, "all given graphs choose, and it has no voice"


@pytest.mark.parametrize("name", held_out.MADE)
def test_graphs_that_are_held_out_are_the_same_each_time_and_whole(tmp_path: Path, name: str) -> None:
    paths = [held_out.make(folder, name) for folder in (tmp_path / "a", tmp_path / "b") if not folder.mkdir()]
    one, two = map(load, paths)
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.host, two.host)
    assert one.pages > 10_000
    assert len(np.unique(one.host)) == len(one.host_names) >= 400
    homes = np.searchsorted(one.host, np.arange(len(one.host_names)))
    assert one.reachable(homes).all(), "every page can be found from the home pages"


def test_all_cash_is_passed_on_or_still_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", indptr=[0, 2, 3, 4, 4], indices=[1, 2, 3, 3])
    graph = load(tmp_path / "g.npz", "even:1")
    order = np.array([0, 1, 2, 3], np.int32)
    visited, pages = refresh_weights.cash_of(graph, order, np.array([0], np.int32))
    seed = refresh_weights.SEED_CASH
    assert visited["history"].tolist() == [seed, seed // 2, seed // 2, seed]
    assert pages["cash"].tolist() == [0, 0, 0, 0]
    assert pages["hits"].tolist() == [0, 1, 1, 2]
    weights = refresh_weights.weights(visited, pages)
    assert weights["hits"].tolist() == [1, 2, 2, 3]
    assert weights["importance"] == pytest.approx(0.15 + 0.85 * weights["hits"] / 2), "of pages visited once"
    assert weights["OPIC alone"] == pytest.approx(0.15 + 0.85 * visited["history"] / (0.75 * seed), rel=1e-3)


def test_a_small_comparison_from_the_command_line(tmp_path: Path) -> None:
    """Two sets of starts on a graph of a hundred pages: every order, both kinds of starts, and the figure."""
    random = np.random.default_rng(0)
    rows = [random.choice(120, 4, replace=False) for _ in range(120)]
    host = np.repeat(np.arange(6), 20).astype(np.int32)
    np.savez(
        tmp_path / "small.npz", indptr=np.arange(0, 481, 4), indices=np.concatenate(rows).astype(np.int32), host=host,
        host_names=np.array([f"h{number}" for number in range(6)], "S"),
    )  # fmt: skip
    options = ["paired", "--graph", str(tmp_path / "small.npz"), "--repeat", "2", "--starts", "5"]
    assert main([*options, "--out", str(tmp_path / "out")]) == 0
    facts = json.loads((tmp_path / "out" / "paired.json").read_text())
    found = facts["tables"][facts["title"]]["rows"]
    assert {row["starts"] for row in found} == {"random pages", "home pages"}
    assert {row["order"] for row in found} >= {"foreign-10", "backlink-count", "breadth-first"}
    assert (tmp_path / "out" / "paired.svg").stat().st_size > 1000
