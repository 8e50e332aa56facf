"""The simulated crawl's clock, computed by hand: connections, delays, bandwidth, batches; and the two experiments."""

import json

import numpy as np
import pytest

from experiments import harness
from experiments.batch import gini, middle, over_time
from gossamer.frontier.strategies import ORDERS
from gossamer.sim import measures
from gossamer.sim.graphs import Graph, linked
from gossamer.sim.queues import place_host, pop, put, queues
from gossamer.sim.simulator import Conditions, Trace, simulate

BREADTH = ORDERS["breadth-first"]


def graph_of(host, links=(), sizes=None, latency_s=1.0, speed=1000.0):
    """A page of 1,000 bytes takes 2 s: one until it answers, one to receive."""
    pages, hosts = len(host), max(host) + 1
    source, target = np.array(links, np.int64).reshape(-1, 2).T
    return Graph(
        "made by hand",
        *linked(source, target, pages),
        host=np.array(host, np.int32),
        host_names=[f"h{number}.test" for number in range(hosts)],
        page_bytes=np.full(pages, 1000.0) if sizes is None else np.array(sizes, float),
        rule="by hand",
        latency_s=np.broadcast_to(np.asarray(latency_s, float), hosts).copy(),
        speed=np.broadcast_to(np.asarray(speed, float), hosts).copy(),
    )


def times(graph, starts, **conditions):
    trace = simulate(graph, BREADTH, starts, Conditions(**conditions))
    return dict(zip(trace.order.tolist(), np.round(trace.time_s, 9).tolist(), strict=True))


# --- times by hand


def test_a_host_rests_after_every_page():
    chain = graph_of([0, 0, 0], [(0, 1), (1, 2)])
    assert times(chain, [0], delay_s=5.0) == {0: 2.0, 1: 9.0, 2: 16.0}
    assert times(chain, [0]) == {0: 2.0, 1: 4.0, 2: 6.0}
    assert times(chain, [0], delay_s=5.0, connections=9) == {0: 2.0, 1: 9.0, 2: 16.0}


def test_a_small_host_may_rest_differently():
    chain = graph_of([0, 0, 0], [(0, 1), (1, 2)])
    small = {"delay_s": 5.0, "small_delay_s": 10.0, "small_pages": 3}
    assert times(chain, [0], **small) == {0: 2.0, 1: 14.0, 2: 21.0}  # it is known to have three pages then


def test_connections_work_side_by_side():
    star = graph_of([0, 1, 2, 3, 4], [(0, 1), (0, 2), (0, 3), (0, 4)])
    assert sorted(times(star, [0], connections=1).values()) == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert sorted(times(star, [0], connections=2).values()) == [2.0, 4.0, 4.0, 6.0, 6.0]
    assert sorted(times(star, [0], connections=9).values()) == [2.0, 4.0, 4.0, 4.0, 4.0]


def test_one_connection_asks_another_host_while_one_rests():
    graph = graph_of([0, 0, 1, 1])
    assert times(graph, [0, 1, 2, 3], delay_s=3.0) == {0: 2.0, 2: 4.0, 1: 7.0, 3: 9.0}


def test_a_connection_carries_so_many_pages():
    graph = graph_of([0] * 5)
    conditions = Conditions(delay_s=10.0, burst=2, burst_delay_s=0.5)
    trace = simulate(graph, BREADTH, range(5), conditions)
    # 2 s; then half a second of delay, half a latency, one second to receive; then the host rests.
    assert trace.time_s.tolist() == [2.0, 4.0, 16.0, 18.0, 30.0]
    assert trace.active_s.tolist() == [0.0, 4.0, 14.0, 18.0, 28.0, 30.0]
    assert trace.active.tolist() == [1, 0, 1, 0, 1, 0]


def test_a_full_link_is_shared():
    both = {"connections": 2, "bandwidth": 1000.0}
    assert times(graph_of([0, 1]), [0, 1], **both) == {0: 3.0, 1: 3.0}
    # 500 bytes/s each until the small page is there, 1,000 for what is left of the other one
    assert times(graph_of([0, 1], sizes=[1000, 3000]), [0, 1], **both) == {0: 3.0, 1: 5.0}
    # in proportion to what each host could send
    fast = graph_of([0, 1], sizes=[3000, 1000], speed=[3000.0, 1000.0])
    assert times(fast, [0, 1], connections=2, bandwidth=2000.0) == {0: 3.0, 1: 3.0}
    # a link that is not full slows nobody
    assert times(fast, [0, 1], connections=2, bandwidth=4000.0) == {0: 2.0, 1: 2.0}


def test_who_joins_later_shares_from_then_on():
    graph = graph_of([0, 1], sizes=[2000, 1000], latency_s=[1.0, 2.0])
    assert times(graph, [0, 1], connections=2, bandwidth=1000.0) == {0: 4.0, 1: 4.0}


def test_a_batch_teaches_nothing_before_it_ends():
    graph = graph_of([0, 1, 2], [(0, 1)], sizes=[1000, 1000, 4000])
    assert times(graph, [0, 2], connections=2) == {0: 2.0, 1: 4.0, 2: 5.0}
    assert times(graph, [0, 2], connections=2, width=2) == {0: 2.0, 2: 5.0, 1: 7.0}


# Page 0 leads to forty pages of one host, and to page 1 of another, which leads to ten more hosts.
SKEWED = graph_of(
    [0, 1, *[2] * 40, *range(3, 13)],
    [(0, 1), *((0, page) for page in range(2, 42)), *((1, page) for page in range(42, 52))],
)


@pytest.mark.parametrize("remedy", [{"early": 0.5}, {"advance": 0.9}])
def test_remedies_shorten_a_crawl_with_a_large_host(remedy):
    conditions = {"connections": 4, "delay_s": 5.0, "width": 41}
    alone_s = 2.0 + 40 * 2.0 + 39 * 5.0  # page 0, then the large host
    plain = times(SKEWED, [0], **conditions)
    assert max(plain.values()) == alone_s + 6.0  # then ten pages with four connections
    better = times(SKEWED, [0], **conditions, **remedy)
    assert better.keys() == plain.keys()
    assert alone_s <= max(better.values()) < max(plain.values())
    assert max(better[page] for page in range(42, 52)) < alone_s


# --- laws, on graphs at random

CONDITIONS = [
    {"connections": 1, "delay_s": 4.0},
    {"connections": 5, "delay_s": 4.0},
    {"connections": 5, "delay_s": 4.0, "bandwidth": 900.0},
    {"connections": 30, "delay_s": 4.0, "bandwidth": 2500.0, "burst": 3},
    {"connections": 5, "delay_s": 4.0, "width": 20},
    {"connections": 5, "delay_s": 4.0, "width": 20, "burst": 3, "burst_delay_s": 1.0},
    {"connections": 5, "delay_s": 4.0, "width": 20, "early": 0.5, "bandwidth": 900.0},
    {"connections": 5, "delay_s": 4.0, "width": 20, "advance": 0.5, "burst": 2},
]


def random_graph(seed, pages=150, hosts=12):
    random = np.random.default_rng(seed)
    host = np.minimum(random.geometric(0.25, pages) - 1, hosts - 1)
    host[:hosts] = range(hosts)
    links = random.integers(0, pages, (3 * pages, 2))
    latency_s, speed = random.uniform(0.1, 2.0, hosts), random.uniform(200.0, 2000.0, hosts)
    return graph_of(host.tolist(), links, random.uniform(100, 3000, pages), latency_s, speed)


@pytest.mark.parametrize("order", ["breadth-first", "larger-sites-first", "opic"])
@pytest.mark.parametrize("conditions", CONDITIONS, ids=range(len(CONDITIONS)))
def test_laws(order, conditions):
    for seed in range(5):
        graph, starts = random_graph(seed), [0, 5]
        rules = Conditions(seed=seed, **conditions)
        trace = simulate(graph, ORDERS[order], starts, rules)
        again = simulate(graph, ORDERS[order], starts, rules)
        assert trace.order.tolist() == again.order.tolist()
        assert trace.time_s.tolist() == again.time_s.tolist()
        assert sorted(trace.order.tolist()) == np.flatnonzero(graph.reachable(starts)).tolist()
        assert (np.diff(trace.time_s) >= 0).all()
        assert 0 <= trace.active.min() <= trace.active.max() <= rules.connections
        assert trace.active[-1] == 0
        assert_polite(graph, trace, rules)
        assert_within_bandwidth(graph, trace, rules)


def assert_polite(graph, trace, rules):
    """Between two pages of a host there is a pause, but for `burst` pages on one connection; so there are never two."""
    host = graph.host[trace.order]
    for number in np.unique(host):
        pages, ends_s = trace.order[host == number], trace.time_s[host == number]
        receive_s = graph.page_bytes[pages[1:]] / graph.speed[number]
        pauses_s = np.diff(ends_s) - receive_s
        rested = pauses_s >= rules.delay_s + graph.latency_s[number] - 1e-9
        assert (rested | (pauses_s >= rules.burst_delay_s + graph.latency_s[number] / 2 - 1e-9)).all()
        if not rules.bandwidth:  # else a slow link looks like a pause
            opened = np.concatenate(([0], np.flatnonzero(rested) + 1, [len(pages)]))
            assert np.diff(opened).max() <= rules.burst


def assert_within_bandwidth(graph, trace, rules):
    if rules.bandwidth:
        received = np.cumsum(graph.page_bytes[trace.order])
        assert (received <= rules.bandwidth * trace.time_s + 1e-6).all()
        under_way = rules.connections * graph.page_bytes.max()  # of what came in a while, some may have come before
        for lag in (10, 50):
            carried, passed_s = received[lag:] - received[:-lag], trace.time_s[lag:] - trace.time_s[:-lag]
            assert (carried <= rules.bandwidth * passed_s + under_way + 1e-6).all()


@pytest.mark.parametrize("order", ["breadth-first", "larger-sites-first", "opic"])
def test_batches_follow_each_other(order):
    graph = random_graph(7)
    trace = simulate(graph, ORDERS[order], [0, 5], Conditions(connections=5, delay_s=4.0, width=20))
    batch = np.zeros(graph.pages, int)
    batch[trace.order] = trace.batch
    assert np.bincount(trace.batch)[1:].max() == 20
    assert (np.diff(trace.batch) >= 0).all()
    source = graph.sources()
    for page in set(trace.order.tolist()) - {0, 5}:
        citing = source[graph.indices == page]
        citing = citing[batch[citing] > 0]
        assert batch[citing].min() < batch[page]


# --- the queues


def test_start_pages_of_equal_rank_go_by_key():
    graph = graph_of([0] * 40)
    for seed in range(20):
        starts = np.random.default_rng(seed).permutation(40)
        order = simulate(graph, ORDERS["backlink-count"], starts).order
        assert graph.keys[order].tolist() == np.sort(graph.keys).tolist()


def test_hosts_of_equal_rank_go_by_their_best_page_also_after_many_changed_at_once():
    for seed in range(60):
        random, hosts = np.random.default_rng(seed), 30
        key = random.permutation(2 * hosts).astype(np.uint64)
        queue = queues(key, np.repeat(np.arange(hosts), 2).astype(np.int32), hosts)
        for host in random.permutation(hosts):
            put(queue, 2 * host, 1.0)
            place_host(queue, host, 7.0)
        for host in random.permutation(hosts):
            put(queue, 2 * host + 1, 1.0)
        for host in random.permutation(hosts):
            place_host(queue, host, 7.0)
        best = []
        while queue.counts[0]:
            host = queue.hosts[0]
            best.append(int(key[pop(queue, host)]))
            queue.open[host] = False  # one page of each
            place_host(queue, host, 0.0)
        assert best == np.sort(key.reshape(hosts, 2).min(axis=1)).tolist()


# --- the experiments


def test_busy_connections():
    none = np.zeros(0, np.int32)
    trace = Trace(none, np.array([4.0]), none, np.array([0.0, 1.0, 3.0]), np.array([2, 4, 0], np.int32))
    assert measures.mean_active(trace, 4.0) == (2 * 1 + 4 * 2) / 4
    assert measures.mean_active(trace, 2.0) == (2 * 1 + 4 * 1) / 2
    assert measures.mean_active(trace, 10.0) == 1.0
    middle_s, active = over_time(trace, 4.0, bins=2)
    assert middle_s.tolist() == [1.0, 3.0]
    assert active.tolist() == [3.0, 2.0]


def test_gini():
    assert gini(np.array([3, 3, 3])) == 0.0
    assert gini(np.array([0, 0, 0, 8])) == 0.75


def test_a_crawl_goes_on_from_its_middle():
    graph = random_graph(3)
    starts = np.array([0, 5], np.int32)
    whole = simulate(graph, BREADTH, starts).order
    rest, known = middle(graph, starts, seed=0)
    half = graph.pages // 2
    left = np.setdiff1d(np.arange(graph.pages), whole[:half])
    assert left[simulate(rest, BREADTH, known).order].tolist() == whole[half:].tolist()


@pytest.fixture
def file(tmp_path):
    graph = random_graph(1, pages=400)
    path = tmp_path / "small.npz"
    np.savez(path, indptr=graph.indptr, indices=graph.indices)
    return path


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_robots(file, tmp_path, capsys):
    out = tmp_path / "out"
    assert harness.main(["robots", "--graph", str(file), "--repeat", "2", "--json", "--out", str(out)]) == 0
    rows = lines(capsys)
    orders = [row for row in rows if "strategy" in row]
    assert [(row["strategy"], row["robots"]) for row in orders] == [
        (name, robots) for name in ("larger-sites-first", "breadth-first") for robots in (1, 64, 256)
    ]
    speeds = {(row["bandwidth"], row["robots"]): row for row in rows if "bandwidth" in row}
    assert len(speeds) == 18
    for bandwidth in (200, 20_000, 20_000_000):
        assert speeds[bandwidth, 1]["speedup"] <= 1.0 + 1e-9
        assert speeds[bandwidth, 1]["speedup_waiting"] <= 1.0 + 1e-9
    assert speeds[200, 256]["limit"] == "the link"
    assert speeds[20_000_000, 256]["paper"] == 220.1
    for name in ("robots-small", "robots-speed-small"):
        assert {path.suffix for path in out.glob(f"{name}.*")} == {".json", ".parquet", ".png", ".svg"}


def test_batch(file, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--graph", str(file), "--hosts", "power:20", "--width", "40", "--connections", "16"]
    assert harness.main(["batch", *options, "--json", "--out", str(out)]) == 0
    rows = lines(capsys)
    batches = {(row["link"], row["burst"]): row for row in rows if "link" in row}
    assert len(batches) == 4
    for row in batches.values():
        assert row["hours"] >= max(row["link_hours"], row["host_hours"]) - 1e-9
        assert 0 < row["active"] <= 16
    assert batches["large", 100]["hours"] < batches["large", 1]["hours"]
    remedies = {(row["remedy"], row["burst"]): row["hours"] for row in rows if "remedy" in row}
    assert len(remedies) == 10
    assert min(remedies.values()) > 0
    for name in ("batch-small", "batch-remedies-small"):
        assert {path.suffix for path in out.glob(f"{name}.*")} >= {".json", ".parquet"}
    for name in ("batch-small-hosts", "batch-small-small", "batch-small-large", "batch-remedies-small"):
        assert {path.suffix for path in out.glob(f"{name}.*")} >= {".png", ".svg"}


def test_the_graph_s_own_hosts(file, capsys):
    assert harness.main(["batch", "--graph", str(file), "--hosts", "own", "--width", "40"]) == 0
    assert "hosts by rule power" in capsys.readouterr().out
