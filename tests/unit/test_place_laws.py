"""Laws of the partitioners on random graphs: capacities, determinism, names that do not matter, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.partition_methods import PARTITIONERS, partitioner
from experiments.partition_passes import live_pass, merged, one_pass, unplaced
from gossamer.errors import ConfigError
from gossamer.placement import partition as measures
from gossamer.placement.incidence import Incidence, incidence
from gossamer.placement.partition import Goal, Task, task
from gossamer.placement.stream import FENNEL, LDG

NONE = np.zeros(0, np.int64)


def names() -> list[str]:
    """KaHIP is an extra, and speaks its mind about tiny graphs."""
    return [name for name in PARTITIONERS if name != "kahip"]


@st.composite
def graphs(draw: st.DrawFn, largest: int = 1) -> Incidence:
    count = draw(st.integers(2, 40))
    end = st.integers(0, count - 1)
    links = np.array(draw(st.lists(st.tuples(end, end), max_size=120)), np.int64).reshape(-1, 2)
    sizes = np.array(draw(st.lists(st.integers(1, largest), min_size=count, max_size=count)))
    return incidence(links[:, 0], links[:, 1], count, size=sizes)


@st.composite
def tasks(draw: st.DrawFn, largest: int = 1) -> Task:
    graph = draw(graphs(largest))
    k = draw(st.integers(1, min(5, graph.vertices)))
    shares = draw(st.sampled_from([(), tuple(float(number + 1) for number in range(k))]))
    return task(graph, Goal(k, draw(st.sampled_from([1.0, 1.1, 1.5])), shares))


def orders(graph: Incidence, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(graph.vertices).astype(np.int32)


@pytest.mark.parametrize("name", names())
@settings(max_examples=15, deadline=None)
@given(each=tasks(), seed=st.integers(0, 99))
def test_capacities_hold(name: str, each: Task, seed: int) -> None:
    part = partitioner(name).place(each, orders(each.graph, seed), np.random.default_rng(seed))
    assert part.dtype == np.int32
    assert 0 <= part.min() <= part.max() < each.parts
    assert (measures.loads(each.graph, part, each.parts) <= each.before.capacity).all()
    assert measures.overflows(each, part) == []


@pytest.mark.parametrize("name", names())
@settings(max_examples=8, deadline=None)
@given(each=tasks(largest=9), seed=st.integers(0, 99))
def test_a_seed_decides_everything(name: str, each: Task, seed: int) -> None:
    first, second = (
        partitioner(name).place(each, orders(each.graph, seed), np.random.default_rng(seed)) for _ in range(2)
    )
    assert (first == second).all()


@pytest.mark.parametrize("rule", [LDG, FENNEL, FENNEL._replace(ties_first=True)])
@settings(max_examples=40, deadline=None)
@given(each=tasks(largest=5), seed=st.integers(0, 99))
def test_numbers_of_vertices_do_not_matter(rule: object, each: Task, seed: int) -> None:
    """The same stream under other names is placed in the same way."""
    graph, order = each.graph, orders(each.graph, seed)
    renamed = orders(graph, seed + 1).astype(np.int64)
    sizes = np.empty_like(graph.size)
    sizes[renamed] = graph.size
    other = incidence(renamed[graph.sources()], renamed[graph.other], graph.vertices, size=sizes)
    again = Task(other, each.before, each.slack, each.closeness)
    for place in (one_pass, live_pass):
        part, twin = place(each, order, rule), place(again, renamed[order].astype(np.int32), rule)  # type: ignore[arg-type]
        assert (twin[renamed] == part).all()


@settings(max_examples=40, deadline=None)
@given(each=tasks(), seed=st.integers(0, 99))
def test_an_isolated_vertex_goes_to_the_least_loaded_part(each: Task, seed: int) -> None:
    graph = each.graph
    lonely = incidence(graph.sources(), graph.other, graph.vertices + 1)
    order = np.append(orders(graph, seed), graph.vertices).astype(np.int32)
    wider = task(lonely, Goal(each.parts, 2.0))
    for rule in (LDG, FENNEL):
        part = one_pass(wider, order, rule)
        before = measures.loads(graph, part[:-1], each.parts)
        assert before[part[-1]] == before.min()


@settings(max_examples=40, deadline=None)
@given(each=tasks(), seed=st.integers(0, 99))
def test_capacities_hold_at_any_time_while_n_is_unknown(each: Task, seed: int) -> None:
    order = orders(each.graph, seed)
    for end in range(1, each.graph.vertices + 1, 5):
        part = unplaced(each)
        part[order[:end]] = live_pass(each, order[:end], FENNEL)[order[:end]]
        limit = np.ceil(each.slack * end * each.before.share / each.parts - 1e-9)
        assert (measures.loads(each.graph, part, each.parts) <= np.maximum(limit, 1)).all()


@settings(max_examples=40, deadline=None)
@given(graph=graphs(largest=7), seed=st.integers(0, 99))
def test_merging_keeps_sizes_and_cuts(graph: Incidence, seed: int) -> None:
    label = np.random.default_rng(seed).integers(0, 3, graph.vertices)
    small = merged(graph, label, 3)
    assert small.total == graph.total
    crossing = graph.weight[label[graph.sources()] != label[graph.other]].sum() / 2
    assert small.edges == crossing


@pytest.mark.parametrize("name", ["ldg", "fennel", "buffered-4", "multilevel", "metis"])
def test_a_vertex_larger_than_any_room_overflows_least_and_is_reported(name: str) -> None:
    sizes = np.array([50, 1, 1, 1, 1, 1, 1, 1])
    each = task(incidence(np.arange(7), np.arange(1, 8), 8, size=sizes), Goal(2))
    part = partitioner(name).place(each, np.arange(8, dtype=np.int32), np.random.default_rng(0))
    (found,) = measures.overflows(each, part)
    assert (found.vertex, found.size, found.part) == (0, 50, part[0])
    assert found.excess == 50 - each.before.capacity[0]
    assert (part[1:] != part[0]).all()


def test_capacity_is_the_ceiling_of_nu_n_over_k() -> None:
    assert Goal(10).before(100, 0.0).capacity.tolist() == [11] * 10
    assert Goal(3).before(10, 0.0).capacity.tolist() == [4] * 3
    assert Goal(2, 1.0, (3.0, 1.0)).before(8, 0.0).capacity.tolist() == [6, 2]


@pytest.mark.parametrize(
    ("source", "target", "count", "words"),
    [
        ([0, -1], [1, 0], 3, "vertex -1 is negative"),
        ([0, 1], [1, 3], 3, "vertex 3 is out of range; the graph has 3"),
        ([], [], 0, "the graph is empty"),
        ([0], [1, 2], 3, "links need a source, a target"),
    ],
)
def test_bad_graphs_are_refused(source: list[int], target: list[int], count: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        incidence(np.array(source, np.int64), np.array(target, np.int64), count)


def test_bad_weights_sizes_and_goals_are_refused() -> None:
    one, two = np.array([0]), np.array([1])
    with pytest.raises(ConfigError, match="finite and not negative"):
        incidence(one, two, 2, np.array([-1.0]))
    with pytest.raises(ConfigError, match="size of 1 or more"):
        incidence(one, two, 2, size=np.array([1, 0]))
    with pytest.raises(ConfigError, match="3 parts for 2 vertices"):
        task(incidence(one, two, 2), Goal(3))
    with pytest.raises(ConfigError, match="toll is a table"):
        task(incidence(one, two, 2), Goal(2), np.zeros((1, 2)))
    for bad in (lambda: Goal(0), lambda: Goal(2, 0.9), lambda: Goal(2, 1.1, (1.0,)), lambda: Goal(2, 1.1, (1.0, 0.0))):
        with pytest.raises(ConfigError):
            bad()
    with pytest.raises(ConfigError, match="closeness is a table"):
        Goal(2, closeness=np.zeros((3, 3)))
    with pytest.raises(ConfigError, match='no partitioner "metiss"'):
        partitioner("metiss")


def test_links_are_edges_without_direction() -> None:
    source, target = np.array([0, 1, 0, 2, 2]), np.array([1, 0, 1, 2, 1])
    once = incidence(source, target, 3)
    assert (once.edges, once.total) == (2.0, 3)
    summed = incidence(source, target, 3, np.array([1.0, 2.0, 4.0, 8.0, 0.0]))
    assert (summed.edges, summed.weight.tolist()) == (7.0, [7.0, 7.0])


def test_no_links_at_all() -> None:
    each = task(incidence(NONE, NONE, 6), Goal(3))
    for name in names():
        part = partitioner(name).place(each, np.arange(6, dtype=np.int32), np.random.default_rng(0))
        assert measures.cut(each.graph, part) == 0
        assert measures.loads(each.graph, part, 3).max() <= 3
