"""The simulator against the crawler, over real HTTP: the same pages in the same order; and orders that remember."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from commands import complaint

from experiments import actual, pages, parity, realcrawl
from experiments.graphs import make
from experiments.harness import main, parser
from gossamer import Crawl
from gossamer.archive.linkgraph import read_links
from gossamer.arrays import F64, Rows
from gossamer.frontier.strategies import Strategy, strategy
from gossamer.sim.graphs import Graph, load
from gossamer.sim.simulator import Conditions, Knowledge, simulate
from gossamer.testweb.running import RunningWeb

PAGES, HOSTS, WIDTH = 90, 6, 10


def by_place(rows: Rows, _seed: int) -> F64:
    return (rows["text"] % np.uint64(7)).astype(np.float64)


# Not what `text` is for: only its order means anything, and that alone is the same in the simulator.
BY_PLACE = Strategy("by-place", "for the test", by_place)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "small.npz"
    make(path, PAGES, HOSTS, seed=3)
    return path


@pytest.fixture(scope="module")
def setting(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> parity.Setting:
    """One connection; an earlier crawl is made."""
    given = parser().parse_args(["parity", "--graph", str(graph), "--only", "one", "--width", "10", "--starts", "4"])
    return parity.with_history(parity.prepare(given, tmp_path_factory.mktemp("scratch")))


# One of each kind: cash, discovery, hosts, the virtual page, hashes, the links so far, an earlier crawl.
KINDS = (
    "opic",
    "breadth-first",
    "larger-sites-opic",
    "opic-virtual",
    "random",
    "partial-pagerank",
    "hits-authority",
    "historical-pagerank-random",
    "historical-pagerank-parent",
)


@pytest.mark.parametrize("name", KINDS)
def test_one_connection_crawls_as_the_simulator_says(setting: parity.Setting, name: str) -> None:
    row, _ = parity.compare(name, setting)
    assert row["first_difference"] is None
    assert row["passed"]
    assert row["pages"] > PAGES // 2


def test_every_page_its_own_round(graph: Path) -> None:
    source = actual.Source(load(graph), graph)
    starts = np.array([0, 50], np.int32)
    done = actual.crawl(source, "opic", starts, Conditions(width=1), changes={"crawl.pages": 30})
    for width in (0, 1):
        expected = simulate(source.graph, strategy("opic"), starts, Conditions(width=width), pages=30)
        assert done.order.tolist() == expected.order.tolist()


def test_many_connections_visit_the_same_pages_in_rounds(graph: Path) -> None:
    source = actual.Source(load(graph), graph)
    starts = realcrawl.home_pages(source.graph)
    conditions = Conditions(8, delay_s=0.01, width=WIDTH)
    done = actual.crawl(source, "larger-sites-first", starts, conditions, latency_ms=1.0)
    trace = actual.as_measured(source.graph, conditions, done).simulate(strategy("larger-sites-first"), starts)
    assert sorted(done.order.tolist()) == sorted(trace.order.tolist()) == list(range(PAGES))
    assert (done.elapsed_s >= 0.001).all()
    assert (np.bincount(done.round) <= WIDTH).all()
    assert (done.commits_s >= 0).all()
    assert realcrawl.rank_of_reached(source.graph, starts).sum() == pytest.approx(1.0)


def test_the_command_says_whether_it_passed(graph: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["parity", "--graph", str(graph), "--pages", "40", "--only", "one"]
    assert main([*command, "--order", "opic", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "graph": "small", "strategy": "opic", "pages": 40, "first_difference": None, "largest_difference": None,
        "at_percent": None, "single_crawl": None, "between_crawls": None, "passed": True,
        "simulator": parity.simulator(),
    }  # fmt: skip
    assert main([*command, "--order", f"{__name__}:BY_PLACE", "--out", str(tmp_path)]) == 1
    assert "first other page" in capsys.readouterr().out
    (row,) = pq.read_table(tmp_path / "parity-small.parquet").to_pylist()
    assert row["first_difference"] >= 1
    assert not row["passed"]


def test_what_does_not_pass_is_a_result_for_the_page(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", f"{here}:{here.parent}")
    command = ["parity", "--graph", str(graph), "--pages", "40", "--only", "one", "--order", "test_lab_parity:BY_PLACE"]
    pages.run([command], lambda _: tmp_path)
    (row,) = pages.rows(tmp_path, "parity-small")
    assert not row["passed"]
    with pytest.raises(SystemExit, match=r"nowhere\.npz ended with 2"):
        pages.run([["parity", "--graph", "nowhere.npz"]], lambda _: tmp_path)


def test_first_difference() -> None:
    def first(crawled: list[int], simulated: list[int]) -> int | None:
        return parity.first_difference(parity.Pair(np.array(crawled, np.int32), np.array(simulated, np.int32)))

    assert first([1, 2, 3], [1, 2, 3]) is None
    assert first([1, 2, 3], [1, 3, 2]) == 2
    assert first([1, 2, 3], [1, 2]) == 3
    assert first([], [1]) == 1


def test_how_late_a_host_was_asked_counts() -> None:
    """All begin at once, but somebody is asked first: who is asked later answers later, also the first time."""
    host, elapsed_s = np.array([0, 0, 0, 1, 2], np.int32), np.array([0.034, 0.006, 0.006, 0.041, 0.002])
    time_s = np.array([0.034, 0.060, 0.950, 0.056, 0.700])
    lag_s = actual._lag_s(host, time_s, elapsed_s, delay_s=0.005)
    assert lag_s.tolist() == pytest.approx([0.0, 0.015, 0.879, 0.015, 0.698])
    assert actual._pace_s(lag_s, time_s, elapsed_s) == pytest.approx(elapsed_s)


def by_hand(links: dict[int, list[int]]) -> Graph:
    """Four hosts of one page each."""
    names = [f"h{number}.test" for number in range(4)]
    rows = [links.get(page, []) for page in range(4)]
    return Graph(
        "by hand",
        np.cumsum([0, *map(len, rows)]),
        np.array([target for row in rows for target in row], np.int32),
        np.arange(4, dtype=np.int32),
        names,
        np.ones(4),
        rule="by hand",
        listed=[f"http://{name}/" for name in names],
    )


def simulated(graph: Graph, order: list[int], time_s: F64, elapsed_s: F64, starts: list[int]) -> list[int]:
    """After a crawl that went like this."""
    none = np.zeros(4, np.int32)
    done = actual.Actual(np.array(order, np.int32), time_s, elapsed_s, none, np.zeros(3))
    replay = actual.as_measured(graph, Conditions(8, delay_s=0.005, width=4), done)
    return replay.simulate(strategy("breadth-first"), starts).order.tolist()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1], [1, 3, 2, 0]])
def test_what_came_in_the_same_millisecond_keeps_its_order(order: list[int]) -> None:
    """Whose links are discovered first decides a crawl in order of discovery, and the archive knows who came first."""
    elapsed_s = np.array([0.0021, 0.0029, 0.0025, 0.0024])  # 3.1, then 2.9, ... ms, but beginnings are rounded down
    time_s = actual.came_s(np.array([0.001, 0.0, 0.0, 0.0]), elapsed_s)
    assert simulated(by_hand({}), order, time_s, elapsed_s, [0, 1, 2, 3]) == order


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 3, 1, 2], [0, 2, 3, 1]])
def test_hosts_that_get_pages_at_the_same_time_answer_in_their_order(order: list[int]) -> None:
    """They are asked one after the other and their answers are read together: who was asked last took least, and would
    be the first to answer if all began at once."""
    elapsed_s = np.array([0.01, 0.0885, 0.0875, 0.0865])
    time_s = actual.came_s(np.array([0.0, 0.346, 0.347, 0.348]), elapsed_s)
    assert simulated(by_hand({0: [1, 2, 3]}), order, time_s, elapsed_s, [0]) == order


def test_differences_of_several_crawls() -> None:
    """Crawls that differ from each other in opposite ways agree in the mean; what they do alone is still shown."""
    simulated = np.full((2, parity.MARKS), 0.5)
    crawled = simulated.copy()
    crawled[:, 3] += [0.02, -0.02]
    crawled[:, 7] += 0.005
    found = parity.differences(crawled, simulated)
    assert found["largest_difference"] == pytest.approx(0.005)
    assert found["at_percent"] == 40
    assert found["single_crawl"] == pytest.approx(0.02)
    assert found["between_crawls"] == pytest.approx(0.04)


def test_a_real_crawl_leaves_its_figures(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["realcrawl", "--graph", str(graph), "--scale", "3000", "--connections", "16", "--out", str(tmp_path)]
    assert main([*command, "--order", "breadth-first", "--order", "larger-sites-first"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3000 s become 1 s" in said
    assert "slightly better than the simulated" in said
    names = {path.stem for path in tmp_path.glob("*.svg")}
    assert names == {f"realcrawl-{name}" for name in ("time", "day", "simulated")}
    assert pq.read_table(tmp_path / "realcrawl.parquet")["pages"].to_pylist()[-1] == PAGES


def test_a_real_crawl_beside_the_paper(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["realcrawl", "--graph", str(graph), "--scale", "3000", "--order", "opic", "--json"]) == 0
    ours, paper = map(json.loads, capsys.readouterr().out.splitlines())
    assert (ours["strategy"], ours["pages"]) == ("opic", PAGES)
    assert 0 < ours["pages_day_2"] <= ours["pages_day_4"] <= 1
    assert (paper["strategy"], paper["pages_day_2"], paper["rank_day_2"]) == ("Castillo: larger-sites-first", 0.5, 0.8)
    assert paper.keys() == ours.keys()


# --- orders that remember, after a restart


@pytest.fixture(scope="module")
def web(graph: Path) -> Iterator[RunningWeb]:
    with RunningWeb(graph=graph) as running:
        yield running


@pytest.mark.parametrize("name", ["batch-pagerank", "partial-pagerank", "historical-pagerank-parent"])
def test_a_restart_changes_nothing(setting: parity.Setting, web: RunningWeb, tmp_path: Path, name: str) -> None:
    """Before the first computation, between two, and long after: the order stays the simulator's, which never stops."""
    graph, conditions, every = setting.source.graph, Conditions(width=WIDTH), 25
    config = actual.settings(name, conditions, web.address)
    config = config.replace({"crawl.rescore": every, "crawl.history": str(setting.earlier)})
    seeds = [graph.urls[page] for page in setting.starts]
    for rounds in (1, 1, 3, 0):
        Crawl(tmp_path / "crawl", seeds, config.replace({"crawl.rounds": rounds})).run()
    knowledge = Knowledge(history=setting.history, every=every)
    trace = simulate(graph, strategy(name), setting.starts, conditions, knowledge)
    assert actual.read(graph, tmp_path / "crawl").order.tolist() == trace.order.tolist()


def test_links_of_a_crawl_always_come_in_the_same_order(setting: parity.Setting) -> None:
    """PageRank sums them up: in another order its last digits differ, and so do pages that are equally good."""
    graph, found = setting.source.graph, read_links(setting.earlier)
    assert (np.diff(found.source) >= 0).all()
    pages = actual.pages_of(graph, found.keys)
    here = set(pages.tolist())
    for number, page in enumerate(pages.tolist()):
        links = graph.indices[graph.indptr[page] : graph.indptr[page + 1]].tolist()
        assert pages[found.target[found.source == number]].tolist() == [link for link in links if link in here]


# --- what a crawl cannot know


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--order", "omniscient"], 'order "omniscient" asks an oracle; only a simulation has one'),
        (["--order", "historical-pagerank-omniscient"], "asks an oracle"),
        (
            ["--order", "historical-pagerank-zero"],
            "needs the directory of an earlier crawl (crawl.history); none is given",
        ),
        (["--order", "historical-pagerank-zero", "--set", "crawl.history=there"], "there is none"),
        (["--order", "batch-pagerank", "--set", "archive.links=false"], "set archive.links = true"),
        (["--order", "batch-pagerank", "--agents", "2"], "which none of several agents has; crawl with one agent"),
        (["--order", "hits-authority", "--agents", "1..4"], "which none of several agents has; crawl with one agent"),
        (["--order", "hits-authority", "--set", "archive.links=false"], "set archive.links = true"),
        (["--order", "historical-pagerank-parent", "--set", "archive.links=false"], "set archive.links = true"),
    ],
)
def test_orders_that_cannot_be_had(tmp_path: Path, options: list[str], answer: str) -> None:
    said = complaint("crawl", "http://a.test/", "--testweb", "127.0.0.1:1", *options, "--dir", "x", at=tmp_path)
    assert answer in said
    assert not (tmp_path / "x").exists()


def test_an_earlier_crawl_without_links(graph: Path, tmp_path: Path, web: RunningWeb) -> None:
    """Its pages would all seem equally good."""
    seed = load(graph).urls[0]
    config = actual.settings("opic", Conditions(8, width=WIDTH), web.address)
    Crawl(tmp_path / "old", [seed], config.replace({"archive.links": False, "crawl.pages": 5})).run()
    said = complaint(
        "crawl", seed, "--testweb", web.address, "--order", "historical-pagerank-zero", "--set", "crawl.history=old",
        "--dir", "x", at=tmp_path,
    )  # fmt: skip
    assert "old" in said
    assert "archive.links" in said


def test_options_that_mean_nothing() -> None:
    given = argparse.Namespace(graph=None, hosts="", starts=5, seed=0, pages=0, width=0, connections=1)
    with pytest.raises(Exception, match="at least 2"):
        parity.prepare(given, Path("/nowhere"))
    with pytest.raises(Exception, match="look at rows only"):
        main(["realcrawl", "--order", "batch-pagerank"])
    with pytest.raises(Exception, match="--scale"):
        main(["realcrawl", "--scale", "0"])
